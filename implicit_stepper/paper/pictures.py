"""Pictures and animations of the scenes of Chakraborty, Berard, Akella, Trinkle (RSS 2007), "C"
below. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Circle, Polygon

from ..output.plots import BLUE, ORANGE, RED, styled
from ..run.trajectory import Trajectory
from ..runtime.files import replaced
from . import exact
from .raycast import Ball, Camera, Raster

GREY = (0.80, 0.82, 0.85)
FRAMES, FRAMES_PER_SECOND = 60, 15


@styled
def disc(trajectory: Trajectory) -> Figure:
    """C example 1 at a few instants: the disc with a painted radius, the path of its centre,
    contact points and normals."""
    figure = Figure(figsize=(6.4, 2.4), layout="constrained")
    axes = figure.subplots()
    instants = [_step(trajectory, t) for t in (0.0, 1.0, 2.0, 3.0)]
    _draw_line(axes, -11.0, 2.0)
    path = trajectory.position[: instants[-1] + 1, 0]
    axes.plot(*path.T, color=ORANGE, label="path of the centre")
    for i in instants:
        _draw_disc(axes, trajectory, i)
        # the record of a step belongs to its end; the start has none of its own
        contact = max(i - 1, 0)
        point = trajectory.contacts.point_2[contact, 0] if i else path[0] - [0.0, 1.0]
        normal = trajectory.contacts.normal[contact, 0]
        _draw_contact(axes, point, 0.7 * normal)
        axes.annotate(f"t = {trajectory.time[i]:.0f} s", (path[i][0], 2.15), ha="center")
    axes.set(aspect="equal", xlim=(-11.0, 2.0), ylim=(-0.45, 2.7), xlabel="x [m]", ylabel="y [m]")
    axes.grid(False)
    figure.legend(loc="outside upper center", ncols=2)
    return figure


@styled
def spin(trajectory: Trajectory) -> Figure:
    """C example 2 at its start: the sphere on the plane, its spin and the contact."""
    camera = Camera(np.radians(30.0), np.radians(22.0), (-2.6, 2.6, -1.05, 2.5))
    figure, axes = _blank(camera, 5.0)
    corners = np.array([[-1.7, -1.7, 0.0], [1.7, -1.7, 0.0], [1.7, 1.7, 0.0], [-1.7, 1.7, 0.0]])
    axes.add_patch(Polygon(camera.project(corners), facecolor="0.93", edgecolor="0.6", linewidth=0.8))
    centre = trajectory.position[0, 0]
    _show(axes, Raster(camera, 700).paint(Ball(centre, 1.0, _rgb(BLUE), trajectory.orientation[0, 0])))
    turn = np.radians(np.linspace(140.0, 410.0, 90))
    ring = camera.project(np.column_stack([0.45 * np.cos(turn), 0.45 * np.sin(turn), np.full(turn.size, 2.4)]))
    axes.plot(*ring[:-4].T, color=ORANGE, linewidth=2.0, label=r"spin $\omega_z$ = 1.962 rad/s")
    _arrow(axes, ring[-8], ring[-1], ORANGE)
    _draw_contact(axes, camera.project(trajectory.contacts.point_2[0, 0]), camera.project(trajectory.contacts.normal[0, 0]))
    _triad(axes, camera, 0.6)
    _scale_bar(axes, camera, 1.0)
    figure.legend(loc="outside upper center", ncols=2)
    return figure


TWO_SPHERES_CAMERA = Camera(np.radians(28.0), np.radians(30.0), (-6.5, 15.5, -6.5, 10.5))


@styled
def two_spheres(trajectory: Trajectory) -> Figure:
    """C figure 5, at several instants: the spheres, the path of the small one's centre, contact
    points and normals."""
    camera = TWO_SPHERES_CAMERA
    figure, axes = _blank(camera, 6.4)
    instants = [_step(trajectory, t) for t in (0.0, 2.4, 3.0, 3.5, 4.0)]
    raster = _fixed_balls(camera, 900)
    for i in instants:
        raster.paint(Ball(trajectory.position[i, 0], 1.0, _rgb(BLUE), trajectory.orientation[i, 0]))
    _show(axes, raster)
    path = camera.project(trajectory.position[: instants[-1] + 1, 0])
    axes.plot(*path.T, color=ORANGE, linewidth=1.5, zorder=3, label="path of the centre")
    for i in instants:
        step = max(i - 1, 0)
        for contact in np.nonzero(trajectory.contacts.gap[step] < 1e-9)[0]:  # [m]: in touch
            point, normal = trajectory.contacts.point_1[step, contact], trajectory.contacts.normal[step, contact]
            _draw_contact(axes, camera.project(point), camera.project(1.6 * normal))
        u, v = camera.project(trajectory.position[i, 0])
        axes.annotate(f"{trajectory.time[i]:g} s", (u - 1.2, v + 0.4), ha="right")
    _triad(axes, camera, 2.0)
    _scale_bar(axes, camera, 5.0)
    figure.legend(loc="outside upper center", ncols=2)
    return figure


@styled
def animate_two_spheres(trajectory: Trajectory, path: Path) -> None:
    """C example 3 as an animated .gif, in real time."""
    camera = TWO_SPHERES_CAMERA
    figure, axes = _blank(camera, 4.4)
    centres = camera.project(trajectory.position[:, 0])
    background = _fixed_balls(camera, 330)
    image = _show(axes, background)
    (line,) = axes.plot([], [], color=ORANGE, linewidth=1.5)
    clock = axes.text(0.03, 0.95, "", transform=axes.transAxes, va="top")
    _scale_bar(axes, camera, 5.0)

    def show(i: int) -> None:
        ball = Ball(trajectory.position[i, 0], 1.0, _rgb(BLUE), trajectory.orientation[i, 0])
        image.set_data(background.copy().paint(ball).image())
        line.set_data(*centres[: i + 1].T)
        clock.set_text(f"t = {trajectory.time[i]:.2f} s")

    _save(figure, show, trajectory, trajectory.time[-1], path)


@styled
def animate_disc(trajectory: Trajectory, path: Path) -> None:
    """The first 3 s of C example 1 as an animated .gif."""
    figure = Figure(figsize=(5.2, 1.7), layout="constrained")
    axes = figure.subplots()

    def show(i: int) -> None:
        axes.clear()
        axes.grid(False)
        _draw_line(axes, -11.0, 2.0)
        _draw_disc(axes, trajectory, i)
        axes.set(aspect="equal", xlim=(-11.0, 2.0), ylim=(-0.45, 2.4), xlabel="x [m]", ylabel="y [m]")
        axes.set_title(f"t = {trajectory.time[i]:.2f} s", loc="left", fontsize=10)

    _save(figure, show, trajectory, 3.0, path)


ANIMATIONS = {"disc": animate_disc, "two-spheres": animate_two_spheres}


def _save(figure: Figure, show: Callable[[int], None], trajectory: Trajectory, end: float, path: Path) -> None:
    frames = [_step(trajectory, t) for t in np.linspace(0.0, end, FRAMES)]
    show(0)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # found once: labels of other widths would make the axes jump
    animation = FuncAnimation(figure, show, frames=frames, init_func=lambda: None, cache_frame_data=False)
    with replaced(path) as aside:
        animation.save(aside, writer=PillowWriter(fps=FRAMES_PER_SECOND), dpi=90)


def _step(trajectory: Trajectory, time: float) -> int:
    """Number of the step whose end is nearest to `time` [s]."""
    return min(round(time / trajectory.h), len(trajectory))


def _fixed_balls(camera: Camera, height: int) -> Raster:
    """The two fixed spheres of C example 3."""
    raster = Raster(camera, height)
    for centre, reach in zip(exact.CENTRES, exact.REACHES, strict=True):
        raster.paint(Ball(centre, reach - 1.0, GREY))
    return raster


def _blank(camera: Camera, width: float) -> tuple[Figure, Axes]:
    """A figure of `width` [in] whose axes are the camera's window, without ticks: a scale bar takes
    their place."""
    left, right, bottom, top = camera.window
    figure = Figure(figsize=(width, width * (top - bottom) / (right - left) + 0.3), layout="constrained")
    axes = figure.subplots()
    axes.set(aspect="equal", xlim=(left, right), ylim=(bottom, top))
    axes.set_axis_off()
    return figure, axes


def _show(axes: Axes, raster: Raster) -> AxesImage:
    return axes.imshow(raster.image(), extent=raster.camera.window, interpolation="antialiased", zorder=1.5)


def _draw_contact(axes: Axes, point, normal) -> None:
    """A dot at a contact point and an arrow along `normal`, in picture coordinates; one legend
    entry for all of them."""
    labels = axes.get_legend_handles_labels()[1]
    label = "contact point and normal"
    axes.plot(*point, color=RED, marker="o", markersize=4, linewidth=1.4, label="_" if label in labels else label, zorder=3)
    _arrow(axes, point, point + normal)


def _arrow(axes: Axes, tail, head, colour: str = RED) -> None:
    style = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.4, "shrinkA": 0.0, "shrinkB": 0.0, "mutation_scale": 10}
    axes.annotate("", head, tail, arrowprops=style, zorder=3)


def _triad(axes: Axes, camera: Camera, length: float) -> None:
    """The directions of x, y and z, in the lower left corner."""
    left, right, bottom, top = camera.window
    corner = np.array([left + 0.13 * (right - left), bottom + 0.16 * (top - bottom)])
    for name, direction in zip("xyz", np.eye(3), strict=True):
        tip = length * camera.project(direction)
        _arrow(axes, corner, corner + tip, "black")
        axes.annotate(name, corner + 1.3 * tip, ha="center", va="center", style="italic")


def _scale_bar(axes: Axes, camera: Camera, length: float) -> None:
    """A bar of `length` [m], in the lower right corner."""
    left, right, bottom, top = camera.window
    end, level = right - 0.04 * (right - left), bottom + 0.06 * (top - bottom)
    axes.plot([end - length, end], [level, level], color="black", linewidth=2.0)
    axes.annotate(f"{length:g} m", (end - length / 2, level + 0.02 * (top - bottom)), ha="center", va="bottom")


def _draw_line(axes: Axes, left: float, right: float) -> None:
    axes.fill_between([left, right], -0.45, 0.0, color="0.93", linewidth=0.0)
    axes.plot([left, right], [0.0, 0.0], color="0.4", linewidth=1.0)


def _draw_disc(axes: Axes, trajectory: Trajectory, i: int) -> None:
    """The unit disc after step i, with the radius painted that pointed up at the start."""
    centre, angle = trajectory.position[i, 0], trajectory.angle[i, 0]
    axes.add_patch(Circle(centre, 1.0, facecolor=(*_rgb(BLUE), 0.15), edgecolor=BLUE, linewidth=1.4))
    rim = centre + [-np.sin(angle), np.cos(angle)]
    axes.plot(*np.transpose([centre, rim]), color=BLUE, linewidth=2.0)
    axes.plot(*centre, marker="o", markersize=3, color=BLUE)


def _rgb(colour: str) -> tuple[float, float, float]:
    return tuple(int(colour[i : i + 2], 16) / 255.0 for i in (1, 3, 5))

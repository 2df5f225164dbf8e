"""The figures of Chakraborty, Berard, Akella, Trinkle (RSS 2007), "C" below, in their form, with
the exact solutions on top.

Where ours and exact are one line to the eye, a panel below shows their difference. Needs
matplotlib.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from ..constraints.friction import FrictionEllipsoid
from ..output import plots
from ..output.plots import BLUE, COLOURS, GREEN, ORANGE, PURPLE, RED, SKY
from ..run.trajectory import Trajectory
from ..runtime.files import replaced
from . import exact, exact_polygon, pictures, polygon
from .polygon import Study

DOTS_PER_INCH = 200
ENDS = {"linestyle": "none", "marker": "o", "markersize": 2.5}
EXACT = {"color": "black", "linewidth": 0.9, "linestyle": (0, (2, 2))}


def draw(case: str, trajectory: Trajectory, *others: Study, folder: Path, animate: bool) -> list[Path]:
    """Saves every figure of a case in `folder`, with `animate` its animation too, and returns their
    paths. `others`: what a case of `COMPARISONS` compares its trajectory with."""
    paths = []
    for name, figure in (FIGURES | COMPARISONS)[case].items():
        paths.append(folder / f"{name}.png")
        with replaced(paths[-1]) as aside:
            figure(trajectory, *others).savefig(aside, dpi=DOTS_PER_INCH)
    if animate and case in pictures.ANIMATIONS:
        paths.append(folder / f"{case}.gif")
        pictures.ANIMATIONS[case](trajectory, paths[-1])
    return paths


@plots.styled
def disc_energy(trajectory: Trajectory, others: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None) -> Figure:
    """C figure 1: kinetic energy of the rolling disc. `others`: times [s] and energies [J] of other
    methods, by name."""
    figure, axes, errors = _panels()
    axes.plot(trajectory.time, trajectory.kinetic_energy(), color=BLUE, label="ours, implicit disc")
    for (name, (time, energy)), colour in zip((others or {}).items(), COLOURS[1:] * len(others or {}), strict=False):
        axes.plot(time, energy, color=colour, label=name)
    answer = exact.rolling_disc(trajectory.time).kinetic_energy
    axes.plot(trajectory.time, answer, **EXACT, label="exact")
    axes.set(ylabel="kinetic energy [J]", ylim=(0.0, 7.5))
    drift = np.abs(trajectory.kinetic_energy() / answer - 1.0)
    _draw_errors(errors, trajectory.time, {"": (drift, BLUE)}, "relative error [1]", (1e-17, 1e-12), marks=True)
    plots.legend_above(figure, figure.axes[0], *figure.axes[2:])
    return figure


@plots.styled
def polygon_sides(trajectory: Trajectory, study: Study) -> Figure:
    """C figure 1 (a): kinetic energy of the rolling disc, ours, and of polygons with ever more
    sides."""
    figure, axes = _energies(trajectory, {f"{n} sides": run for n, run in study.by_sides.items()})
    time = trajectory.time
    axes.plot(time, exact_polygon.after_linearisation(time, polygon.H), **EXACT, label="many sides, closed form")
    axes.set_ylim(0.0, 7.5)
    figure.legend(loc="outside upper center", ncols=4)
    return figure


@plots.styled
def polygon_steps(trajectory: Trajectory, study: Study) -> Figure:
    """C figure 1 (b): that of the polygon with the most sides, in ever shorter steps."""
    figure, axes = _energies(trajectory, {f"{1000 * h:g} ms": run for h, run in study.by_step.items()})
    time = trajectory.time
    axes.plot(time, exact_polygon.after_collisions(time, max(study.by_sides)), **EXACT, label="$h$ to 0, closed form")
    axes.set_ylim(3.5, 7.0)
    figure.legend(loc="outside upper center", ncols=5)
    return figure


@plots.styled
def spin_velocities(trajectory: Trajectory) -> Figure:
    """C figure 3: velocities of the spinning sphere. All but w_z are zero."""
    figure, axes, errors = _panels()
    velocity = trajectory.velocity[:, 0]
    _draw_components(axes, trajectory, marker="o", markersize=3.5, clip_on=False)
    end = trajectory.time[-1]
    axes.plot(corners := [0.0, 1.0, end], exact.spinning_sphere(corners).spin, **EXACT, label="exact")
    axes.set_ylabel("velocity [m/s], [rad/s]")
    spin = np.abs(velocity[:, 5] - exact.spinning_sphere(trajectory.time).spin)
    rest = np.max(np.abs(velocity[:, :5]), axis=1)
    curves = {r"$\omega_z$": (spin, SKY), "the others, largest": (rest, BLUE)}
    _draw_errors(errors, trajectory.time, curves, "|error| [m/s], [rad/s]", (1e-18, 1e-6), marks=True)
    plots.legend_above(figure, figure.axes[0], *figure.axes[2:])
    return figure


@plots.styled
def spin_forces(trajectory: Trajectory) -> Figure:
    """C figure 4: friction of the spinning sphere, the mean over each step. Its step in which the
    spin ends has a share."""
    figure, axes, errors = _panels()
    force = trajectory.contacts.friction_impulse[:, 0] / trajectory.h
    for i, (label, colour) in enumerate((("$F_t$ [N]", BLUE), ("$F_o$ [N]", ORANGE), ("$F_r$ [N m]", SKY))):
        axes.stairs(force[:, i], trajectory.time, baseline=None, color=colour, linewidth=2.4 - 0.5 * i, label=label)
    instants = [0.0, 1.0, 1.0, trajectory.time[-1]]
    torque = -exact.spinning_sphere([0.0]).torque[0]
    axes.plot(instants, [torque, torque, 0.0, 0.0], **EXACT, label="exact")
    axes.set(ylabel="friction [N], [N m]", ylim=(-0.9, 0.1))
    mean = 0.4 * np.diff(exact.spinning_sphere(trajectory.time).spin) / trajectory.h
    curves = {"$F_r$, of its mean": (np.abs(force[:, 2] - mean), SKY)}
    curves["$F_t$, $F_o$"] = np.max(np.abs(force[:, :2]), axis=1), BLUE
    _draw_errors(errors, trajectory.time[1:], curves, "|error| [N], [N m]", (1e-18, 1e-6), marks=True)
    plots.legend_above(figure, figure.axes[0], *figure.axes[2:])
    return figure


@plots.styled
def two_spheres_velocities(trajectory: Trajectory) -> Figure:
    """C figure 6: velocities of the small sphere."""
    figure, axes, errors = _panels()
    answer = exact.two_spheres(trajectory.time[-1])
    velocity = answer.at(trajectory.time).velocity
    _draw_components(axes, trajectory)
    lines = axes.plot(trajectory.time, velocity, **EXACT)
    lines[0].set_label("exact")
    axes.set_ylabel("velocity [m/s], [rad/s]")
    _mark_events(axes, answer)
    error = np.abs(trajectory.velocity[:, 0] - velocity)
    curves = {"$v$, largest": (np.max(error[:, :3], axis=1), BLUE)}
    curves[r"$\omega$, largest"] = np.max(error[:, 3:], axis=1), PURPLE
    _draw_errors(errors, trajectory.time, curves, "|error| [m/s], [rad/s]", (1e-7, 1e2))
    plots.legend_above(figure, figure.axes[0], *figure.axes[2:])
    return figure


def contact_1(trajectory: Trajectory) -> Figure:
    """C figure 7: forces and sliding speed at contact 1."""
    return _contact(trajectory, 0)


def contact_2(trajectory: Trajectory) -> Figure:
    """C figure 8: forces and sliding speed at contact 2."""
    return _contact(trajectory, 1)


@plots.styled
def chosen_steps(trajectory: Trajectory) -> Figure:
    """Example 3 with chosen steps: the error of bodies between and at the ends of steps, and how
    long these are."""
    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    errors, steps = figure.subplots(2, 1, sharex=True)
    answer, time = exact.two_spheres(trajectory.time[-1]), np.linspace(0.0, trajectory.time[-1], 2001)
    for when, style in (
        (time, {"linewidth": 0.9, "label": "between"}),
        (trajectory.time, ENDS | {"label": "at the ends of steps"}),
    ):
        off = np.linalg.norm(trajectory.at(when).position[:, 0] - answer.at(when).position, axis=1)
        errors.semilogy(when, np.where(off > 0, off, np.nan), color=BLUE, **style)
    errors.set(ylabel="|error in position| [m]", ylim=(1e-13, 1e-6))
    steps.semilogy(trajectory.time[1:], trajectory.h, color=ORANGE, **ENDS)
    steps.set(xlabel="time [s]", ylabel="length of the step [s]")
    for axes in (errors, steps):
        _mark_events(axes, answer)
    plots.legend_above(figure, errors)
    return figure


FIGURES = {
    "spin": {
        "spin-scene": pictures.spin,
        "figure-3-spin-velocities": spin_velocities,
        "figure-4-spin-forces": spin_forces,
    },
    "disc": {"disc-scene": pictures.disc, "figure-1-disc-energy": disc_energy},
    "two-spheres": {
        "figure-5-two-spheres-scene": pictures.two_spheres,
        "figure-6-two-spheres-velocities": two_spheres_velocities,
        "figure-7-two-spheres-contact-1": contact_1,
        "figure-8-two-spheres-contact-2": contact_2,
    },
    "order-five": {"order-five-chosen-steps": chosen_steps},
}

COMPARISONS = {
    "polygons": {"figure-1a-polygon-sides": polygon_sides, "figure-1b-polygon-steps": polygon_steps},
}


def _energies(trajectory: Trajectory, polygons: Mapping[str, Trajectory]) -> tuple[Figure, Axes]:
    """Kinetic energies through time, ours on top; a figure and its axes."""
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    axes.plot(trajectory.time, trajectory.kinetic_energy(), color=BLUE, linewidth=2.4, label="ours, implicit disc")
    shades = np.linspace(0.85, 0.3, len(polygons))  # light to dark, from the coarsest to the finest
    for (name, run), shade in zip(polygons.items(), shades, strict=True):
        axes.plot(run.time, run.kinetic_energy(), color=matplotlib.colormaps["inferno"](shade), linewidth=1.2, label=name)
    axes.set(xlabel="time [s]", ylabel="kinetic energy [J]")
    return figure, axes


@plots.styled
def _contact(trajectory: Trajectory, contact: int) -> Figure:
    figure, axes, errors = _panels()
    friction = FrictionEllipsoid(exact.MU, *exact.ELLIPSOID)
    speed_axes = axes.twinx()
    plots.draw_contact_forces(axes, speed_axes, trajectory, contact, friction=friction)
    time = trajectory.time[1:]
    answer = exact.two_spheres(trajectory.time[-1])
    states = answer.at(time)
    normal, length, speed = (f[:, contact] for f in (states.normal_force, states.friction_norm, states.slip_speed))
    for where, values in ((axes, normal), (axes, length), (speed_axes, speed)):
        (line,) = where.plot(time, values, **EXACT)
    line.set_label("exact")
    axes.set_xlim(0.0, time[-1])
    # the zeros of both scales at one height
    for where, values in ((axes, normal), (speed_axes, speed)):
        where.set_ylim(-0.05 * np.max(values), 1.05 * np.max(values))
    _mark_events(axes, answer)

    contacts, h = trajectory.contacts, trajectory.h
    slip = np.linalg.norm(contacts.slip[:, contact, :2], axis=1)
    curves = {
        "$N$": (contacts.normal_impulse[:, contact] / h - normal, BLUE),
        "$|F|$": (plots.friction_length(contacts.friction_impulse[:, contact], friction) / h - length, RED),
        # an open contact has none to compare
        "sliding speed": (np.where(normal > 0.0, slip - speed, np.nan), GREEN),
    }
    _draw_errors(errors, time, curves, "|error| [N], [m/s]", (1e-8, 1e2))
    plots.legend_above(figure, figure.axes[0], *figure.axes[2:])
    return figure


def _panels() -> tuple[Figure, Axes, Axes]:
    """A figure, its main axes, and the smaller axes of the errors below."""
    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    axes, errors = figure.subplots(2, 1, sharex=True, height_ratios=(2.6, 1.0))
    errors.set_xlabel("time [s]")
    return figure, axes, errors


def _draw_components(axes: Axes, trajectory: Trajectory, **style) -> None:
    """All six velocities of body 0 in one plot, as C has them."""
    names = [f"$v_{axis}$" for axis in "xyz"] + [rf"$\omega_{axis}$" for axis in "xyz"]
    for name, component, colour in zip(names, trajectory.velocity[:, 0].T, (*COLOURS[:5], SKY), strict=True):
        axes.plot(trajectory.time, component, color=colour, label=name, **style)


Curves = Mapping[str, tuple[np.ndarray, str]]  # name to values and colour


def _draw_errors(
    axes: Axes, time: np.ndarray, curves: Curves, label: str, limits: tuple[float, float], *, marks: bool = False
) -> None:
    """|error| on a logarithmic scale within `limits`, which leave room above for a legend. `marks`:
    dots instead of lines, for errors that scatter as rounding does."""
    style = {"linestyle": "none", "marker": "o", "markersize": 2.5, "markeredgewidth": 0.0} if marks else {"linewidth": 1.3}
    for name, (values, colour) in curves.items():
        axes.semilogy(time, np.where(values == 0.0, np.nan, np.abs(values)), color=colour, label=name, **style)
    axes.set_ylabel(label, fontsize=9.0)
    axes.set_ylim(limits)
    axes.yaxis.set_major_locator(LogLocator(numticks=4))
    axes.yaxis.set_minor_locator(NullLocator())
    if len(curves) > 1:
        axes.legend(loc="upper left", ncols=len(curves), borderaxespad=0.1, markerscale=2.0)


def _mark_events(axes: Axes, answer: exact.TwoSpheres) -> None:
    """Dotted lines at the exact times of the events."""
    for i, time in enumerate(answer.events.values()):
        axes.axvline(time, color="0.5", linewidth=0.9, linestyle=":", label="_" if i else "events")

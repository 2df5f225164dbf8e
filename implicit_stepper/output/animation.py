"""A film of a run: bodies from their inequalities, floors, and the forces at contacts."""

from __future__ import annotations

import os
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.animation import FFMpegWriter, PillowWriter
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Polygon
from mpl_toolkits.mplot3d.art3d import Line3DCollection, Poly3DCollection

from ..model import poses
from ..run.trajectory import Trajectory
from ..runtime.files import replaced
from ..scene.scene import Scene
from .drawing import lit
from .plots import COLOURS, RED, STYLE

_RESOLUTION = 10  # of meshes: a film has many pictures
_FLOORS = ("HalfSpace", "HalfPlane")


def write(
    trajectory: Trajectory,
    path: str | os.PathLike,
    *,
    scene: Scene | None = None,
    speed: float = 1.0,
    fps: int = 20,
    forces: bool = True,
    size: tuple[float, float] = (5.6, 4.2),
    elevation: float = 16.0,
    azimuth: float = -62.0,
) -> None:
    """Writes `path`, .gif or, with ffmpeg, .mp4, at `speed` times real time, `fps` pictures a second of `size` [inch].

    `scene` is that of the run, which a trajectory knows. Arrows are the `forces` at contacts on the second body, on the
    first where only that moves, and long ones end at a quarter of the picture; `elevation` and `azimuth` [degrees] are the
    direction of view in space. Raises `ImportError` without matplotlib and pillow, `ValueError` for
    other endings and for a run without steps, `OSError`.
    """
    path = Path(path)
    if path.suffix not in (".gif", ".mp4"):
        raise ValueError(f"`path` = {str(path)!r} must end with .gif or .mp4.")
    if len(trajectory) == 0 or speed <= 0 or fps <= 0:
        raise ValueError("a film needs a run of one step or more, and `speed` and `fps` above zero.")
    scene = trajectory.scene() if scene is None else scene
    first, last = trajectory.time[[0, -1]]
    times = first + speed / fps * np.arange(int(np.ceil((last - first) * fps / speed - 1e-6)))
    writer = PillowWriter(fps=fps) if path.suffix == ".gif" else FFMpegWriter(fps=fps)
    with matplotlib.rc_context(STYLE), replaced(path) as aside:
        figure = Figure(figsize=size, layout="constrained")
        stage = (_Space if scene.dimension == 3 else _Plane)(figure, scene, trajectory, forces, (elevation, azimuth))
        with writer.saving(figure, str(aside), dpi=100):
            for time in (*times, last):
                stage.draw(int(np.argmin(np.abs(trajectory.time - time))))
                writer.grab_frame()


class _Stage:
    """What does not change from picture to picture: meshes, limits, the scale of forces."""

    def __init__(self, figure: Figure, scene: Scene, run: Trajectory, forces: bool, view: tuple[float, float]):
        self.run, self.dimension = run, scene.dimension
        self.meshes = scene.meshes(_RESOLUTION)
        self.colours = {name: to_rgb(COLOURS[i % len(COLOURS)]) for i, name in enumerate(self.meshes)}
        self.floors = [_plane(body) for body in scene.description().bodies if _is_floor(body)]
        self.low, self.high = self._limits()
        self.second_moves = [second.split("[")[0] in run.names or second in run.names for _, second in run.contact_names]
        self.forces = self._forces() if forces else np.zeros((len(run), 0, self.dimension))
        self.axes = self.make_axes(figure, view)

    def _limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Corners of a box that holds all of the run."""
        points = []
        for name, parts in self.meshes.items():
            corners = np.concatenate([part.vertices for part in parts])
            if name in self.run.names:
                at, reach = self.run.body(name).position, np.max(np.linalg.norm(corners, axis=1))
                points += [at - reach, at + reach]
            else:
                points.append(corners)
        every = np.concatenate(points)
        low, high = every.min(axis=0), every.max(axis=0)
        room = 0.04 * np.max(high - low)
        return low - room, high + room

    def _forces(self) -> np.ndarray:
        """Arrows (n, nc, d) [m], on the second body, or on the first where only that moves."""
        found = [
            np.nan_to_num(self.run.contact(i).force) * (1 if moving else -1) for i, moving in enumerate(self.second_moves)
        ]
        if not found:
            return np.zeros((len(self.run), 0, self.dimension))
        arrows = np.stack(found, axis=1)
        usual = np.percentile(np.linalg.norm(arrows, axis=2), 98) if arrows.size else 0.0  # an impact's would hide others
        longest = 0.25 * np.max(self.high - self.low)
        length = np.linalg.norm(arrows, axis=2, keepdims=True)
        scaled = arrows * (longest / usual if usual > 0 else 0.0)
        return np.where(length > usual, scaled * usual / np.maximum(length, 1e-300), scaled)

    def placed(self, node: int):
        """Colour and parts of every body, where they are at a node of the run."""
        for name, parts in self.meshes.items():
            if name in self.run.names:
                i = self.run.names.index(name)
                at, turn = self.run.position[node, i], self.run.orientation[node, i]
                rotation = poses.matrices(turn) if self.dimension == 3 else _turned(turn[0])
                parts = [part.moved(at, rotation) for part in parts]
            yield self.colours[name], parts

    def arrows(self, node: int):
        """From and to (k, d) of the forces in the step that ends at a node."""
        step = max(node - 1, 0)
        arrows = self.forces[step]
        pressing = np.linalg.norm(arrows, axis=1) > 0
        start = self.run.contacts.point_2[step][: len(arrows)][pressing]
        return start, start + arrows[pressing]

    def title(self, node: int) -> None:
        """The time."""
        self.axes.set_title(f"t = {self.run.time[node]:.2f} s", fontsize=9)


class _Space(_Stage):
    """In space."""

    def make_axes(self, figure: Figure, view):
        axes = figure.add_subplot(projection="3d", computed_zorder=False)
        axes.view_init(*view)
        return axes

    def draw(self, node: int) -> None:
        """One picture."""
        axes, low, high = self.axes, self.low, self.high
        axes.clear()
        for normal, offset in self.floors:
            patch = _patch(normal, offset, low, high)
            axes.add_collection3d(Poly3DCollection([patch], facecolors=(0.9, 0.9, 0.88), edgecolors="0.75", zorder=0))
        faces, colours = [], []
        for colour, parts in self.placed(node):
            for part in parts:
                own = part.vertices[part.triangles]
                faces.append(own)
                colours.append(lit(own, np.array(colour)))
        if faces:
            every = np.concatenate(faces)
            body = Poly3DCollection(
                every, facecolors=np.concatenate(colours), edgecolors="none", antialiased=False, zorder=1
            )
            axes.add_collection3d(body)
        start, end = self.arrows(node)
        if len(start):
            lines = Line3DCollection(np.stack([start, end], axis=1), colors=RED, linewidths=1.6, zorder=2)
            axes.add_collection3d(lines)
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]))
        axes.set(xlabel="x [m]", ylabel="y [m]", zlabel="z [m]")
        axes.locator_params(nbins=4)
        axes.tick_params(labelsize=7)
        axes.set_box_aspect(high - low)
        self.title(node)


class _Plane(_Stage):
    """In the plane."""

    def make_axes(self, figure: Figure, view):
        return figure.subplots()

    def draw(self, node: int) -> None:
        """One picture."""
        axes, low, high = self.axes, self.low, self.high
        axes.clear()
        for normal, offset in self.floors:
            along, size = np.array([-normal[1], normal[0]]), 2 * np.max(high - low)
            foot = normal * offset + along * ((low + high) / 2 @ along)
            corners = [foot - size * along, foot + size * along]
            corners += [corners[1] - size * normal, corners[0] - size * normal]
            axes.add_patch(Polygon(corners, facecolor="0.9", edgecolor="0.6"))
        for colour, parts in self.placed(node):
            for part in parts:
                axes.add_patch(Polygon(part.vertices, facecolor=colour, edgecolor="black", linewidth=0.6, alpha=0.85))
        for start, end in zip(*self.arrows(node), strict=True):
            axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": RED})
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel="x [m]", ylabel="y [m]", aspect="equal")
        self.title(node)


def _turned(angle: float) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s], [s, c]])


def _is_floor(body) -> bool:
    return body.fixed and body.shape is not None and body.shape.shape_class.name in _FLOORS


def _plane(body) -> tuple[np.ndarray, float]:
    """Normal (d,) and offset [m] of a fixed half-space, in the inertial frame."""
    theta = np.asarray(body.shape.theta, dtype=float)
    d = len(theta) - 1
    upright = (1.0, 0.0, 0.0, 0.0)
    rotation = poses.matrices(np.array(body.quaternion or upright)) if d == 3 else _turned(body.angle or 0.0)
    normal = rotation @ theta[:-1]
    return normal, float(theta[-1] + normal @ np.array(body.position or np.zeros(d)))


def _patch(normal: np.ndarray, offset: float, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The part of a plane (k, 3) that is in a box: its corners in order, none where it misses the box."""
    found = []
    for axis in range(3):
        others = [i for i in range(3) if i != axis]
        for a in (low, high):
            for b in (low, high):
                if abs(normal[axis]) < 1e-12:
                    continue
                point = np.empty(3)
                point[others] = a[others[0]], b[others[1]]
                point[axis] = (offset - normal[others] @ point[others]) / normal[axis]
                if low[axis] <= point[axis] <= high[axis]:
                    found.append(point)
    if len(found) < 3:
        return np.zeros((3, 3))
    corners = np.array(found)
    middle = corners.mean(axis=0)
    first = np.cross(normal, np.eye(3)[np.argmin(np.abs(normal))])
    angles = np.arctan2((corners - middle) @ np.cross(normal, first), (corners - middle) @ first)
    return corners[np.argsort(angles)]

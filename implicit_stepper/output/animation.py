"""A film of a run: bodies from their inequalities, floors, and the forces at contacts."""

from __future__ import annotations

import os

import matplotlib
import numpy as np
from matplotlib.animation import FFMpegWriter, PillowWriter
from matplotlib.figure import Figure
from matplotlib.patches import Polygon
from matplotlib.ticker import MaxNLocator
from mpl_toolkits.mplot3d.art3d import Line3DCollection, Poly3DCollection

from shapes.arguments import flag, number, positive, positives

from ..run.trajectory import Trajectory
from ..runtime.errors import MissingPackageError, PictureError
from ..runtime.files import path_of, replaced
from ..scene.scene import Scene
from .drawing import lit
from .pictured import pictured
from .plots import DARK, RED, STYLE
from .stage import Stage, patch, planar_patches

_TICKS = 4  # along the longest axis
_ZOOM = 0.88  # of a picture in space: room for its labels


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
    follow: str | None = None,
) -> None:
    """Writes `path`, .gif or, with ffmpeg, .mp4, at `speed` times real time, `fps` pictures a
    second of `size` [inch].

    `scene` is that of the run, which a trajectory knows. Arrows are the `forces` at contacts on the
    second body, on the first where only that moves, and long ones end at a quarter of the picture;
    `elevation` and `azimuth` [degrees] are the direction of view in space; `follow` names a body
    that the picture moves with. What is round all over has dark octants, so that one sees it turn.
    Raises `ImportError` without matplotlib and pillow, for .mp4 without ffmpeg, `ValueError` for
    other endings and numbers, for a run without steps, where no body has a surface that ends, and
    to follow one that nothing is drawn of, `KeyError` for one that there is not, `OSError`.
    """
    path = path_of("path", path)
    if path.suffix not in (".gif", ".mp4"):
        raise PictureError(f"`path` = {str(path)!r} must end with .gif or .mp4.")
    if len(trajectory) == 0:
        raise PictureError("a film needs a run of one step or more.")
    flag("forces", forces)
    speed, fps, size = positive("speed", speed), positive("fps", fps), positives("size", size, 2)
    angles = number("elevation", elevation), number("azimuth", azimuth)
    if path.suffix == ".mp4" and not FFMpegWriter.isAvailable():
        raise MissingPackageError("a film as .mp4 needs the program ffmpeg: install it, or write .gif.")
    scene = trajectory.scene() if scene is None else scene
    first, last = trajectory.time[[0, -1]]
    times = first + speed / fps * np.arange(max(1, int(np.ceil((last - first) * fps / speed - 1e-6))))
    writer = PillowWriter(fps=fps) if path.suffix == ".gif" else FFMpegWriter(fps=fps)
    with matplotlib.rc_context(STYLE), replaced(path) as aside:
        figure = Figure(figsize=size)
        shown = pictured(trajectory, np.append(times, last))
        kind = _Space if scene.dimension == 3 else _Plane
        view = kind(figure, Stage(scene, shown, forces, follow), angles)
        with writer.saving(figure, str(aside), dpi=100):
            for node in range(len(times) + 1):
                view.draw(node)
                writer.grab_frame()


class _Space:
    """In space."""

    def __init__(self, figure: Figure, stage: Stage, view: tuple[float, float]):
        self.stage, self.axes = stage, figure.add_subplot(projection="3d", computed_zorder=False)
        # room for the labels, which stand outside of the axes
        figure.subplots_adjust(0.0, 0.06, 0.96, 0.92)
        self.axes.view_init(*view)

    def draw(self, node: int) -> None:
        """One picture."""
        axes, (low, high) = self.axes, self.stage.window(node)
        axes.clear()
        for normal, offset in self.stage.floors:
            found = patch(normal, offset, low, high)
            axes.add_collection3d(Poly3DCollection([found], facecolors=(0.9, 0.9, 0.88), edgecolors="0.75", zorder=0))
        faces, colours = [], []
        for paint, part in self.stage.placed(node):
            own = part.vertices[part.triangles]
            faces.append(own)
            colours.append(lit(own, paint))
        if faces:
            every = np.concatenate(faces)
            body = Poly3DCollection(
                every, facecolors=np.concatenate(colours), edgecolors="none", antialiased=False, zorder=1
            )
            axes.add_collection3d(body)
        ends = self.stage.joint_ends(node)[:, :, 0]
        if len(ends):
            axes.add_collection3d(Line3DCollection(ends, colors=DARK, linewidths=1.2, zorder=2))
            axes.plot(*np.concatenate(ends).T, "o", color=DARK, markersize=3, zorder=3)
        start, end = self.stage.arrows(node)
        if len(start):
            lines = Line3DCollection(np.stack([start, end], axis=1), colors=RED, linewidths=1.6, zorder=2)
            axes.add_collection3d(lines)
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]))
        axes.set_xlabel("x [m]", fontsize=8, labelpad=-2)
        axes.set_ylabel("y [m]", fontsize=8, labelpad=-4)
        axes.set_zlabel("z [m]", fontsize=8, labelpad=-4)
        axes.tick_params(labelsize=7, pad=-1)
        for axis, extent in zip((axes.xaxis, axes.yaxis, axes.zaxis), high - low, strict=True):
            axis.set_major_locator(MaxNLocator(max(1, round(_TICKS * extent / np.max(high - low)))))
        axes.set_box_aspect(high - low, zoom=_ZOOM)
        axes.set_title(f"t = {self.stage.run.time[node]:.2f} s", fontsize=9)


class _Plane:
    """In the plane."""

    def __init__(self, figure: Figure, stage: Stage, view: tuple[float, float]):
        self.stage, self.axes = stage, figure.subplots()
        figure.set_layout_engine("constrained")

    def draw(self, node: int) -> None:
        """One picture."""
        axes, (low, high) = self.axes, self.stage.window(node)
        axes.clear()
        for corners in planar_patches(self.stage.floors, low, high):
            axes.add_patch(Polygon(corners, facecolor="0.9", edgecolor="0.6"))
        for paint, part in self.stage.placed(node):
            axes.add_patch(Polygon(part.vertices, facecolor=paint, edgecolor="black", linewidth=0.6, alpha=0.85))
        for ends in self.stage.joint_ends(node)[:, :, 0]:
            axes.plot(*ends.T, "o-", color=DARK, markersize=3, linewidth=1.2, zorder=3)
        for start, end in zip(*self.stage.arrows(node), strict=True):
            axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": RED})
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel="x [m]", ylabel="y [m]", aspect="equal")
        axes.set_title(f"t = {self.stage.run.time[node]:.2f} s", fontsize=9)

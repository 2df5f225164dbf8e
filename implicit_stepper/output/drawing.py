"""Pictures of bodies in space, at one time or at several in one picture. They need matplotlib, like
`plots`.

figure = drawing.poses(scene, trajectory, steps=[0, 20, 40])
figure.savefig("poses.png")
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from mpl_toolkits.mplot3d.art3d import Poly3DCollection
from mpl_toolkits.mplot3d.axes3d import Axes3D

from ..model import rotation
from ..run.trajectory import Trajectory
from ..runtime.errors import PictureError
from ..scene.scene import Scene
from .plots import COLOURS, styled
from .stage import floors, painted, patch

_FLOOR, _RIM = (0.88, 0.88, 0.86), (0.7, 0.7, 0.68)
_LIGHT = np.array([-0.35, -0.6, 0.72])
_PALEST = 0.35  # share of its colour that a body has at the first step
_APART = 0.15  # of its size that a body must have moved to be drawn again
_AMBIENT = 0.45  # share of the colour that a face turned away from the light keeps


@styled
def poses(scene: Scene, trajectory: Trajectory, steps: Sequence[int] = (0, -1), *, elevation=18.0, azimuth=-62.0) -> Figure:
    """Every body of a spatial scene at the given `steps` of its trajectory, later ones darker;
    lengths in metres.

    `elevation` and `azimuth` [degrees] are the direction of view. Of fixed half-spaces the part
    below and behind the bodies is drawn. Raises `ValueError` for a planar scene, for steps that the
    run has not, and where no body has a surface that ends.
    """
    if scene.dimension != 3:
        raise PictureError("`scene` is planar: `poses` draws bodies in space.")
    figure = Figure(figsize=(7.2, 4.8), layout="constrained")
    axes = figure.add_subplot(projection="3d", computed_zorder=False)
    draw_poses(axes, scene, trajectory, steps)
    axes.view_init(elevation, azimuth)
    return figure


def draw_poses(axes: Axes3D, scene: Scene, trajectory: Trajectory, steps: Sequence[int]) -> None:
    """See `poses`."""
    meshes, steps = scene.meshes(), _nodes(trajectory, steps)
    corners, colours = [], []
    for i, (name, parts) in enumerate(meshes.items()):
        paints = [painted(to_rgb(COLOURS[i % len(COLOURS)]), mesh) for mesh in parts]
        for (position, turned), shade in _shown(trajectory, name, parts, steps):
            for mesh, paint in zip(parts, paints, strict=True):
                placed = mesh.moved(position, turned)
                faces = placed.vertices[placed.triangles]
                corners.append(faces)
                colours.append(lit(faces, 1 - shade * (1 - paint)))
    if not corners:
        raise PictureError("nothing of the scene can be drawn: its bodies have no surface that ends.")
    triangles = np.concatenate(corners)
    low, high = triangles.min(axis=(0, 1)), triangles.max(axis=(0, 1))
    low, high = low - 0.05 * np.max(high - low), high + 0.05 * np.max(high - low)
    if triangles[..., 2].min() >= 0:
        low[2] = max(low[2], 0.0)
    planes = [patch(normal, offset, low, high) for normal, offset in floors(scene)]
    # first, so that no body is hidden: bodies are on their outer side
    axes.add_collection3d(Poly3DCollection(planes, facecolors=_FLOOR, edgecolors=_RIM, linewidths=0.6, zsort="min"))
    # one collection, so that all triangles are sorted by depth together
    axes.add_collection3d(
        Poly3DCollection(triangles, facecolors=np.concatenate(colours), edgecolors="none", antialiased=False)
    )
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]))
    axes.set(xlabel="x [m]", ylabel="y [m]", zlabel="z [m]")
    axes.set_box_aspect(high - low)
    for i, axis in enumerate((axes.xaxis, axes.yaxis, axes.zaxis)):
        axis.set_major_locator(MaxNLocator(max(2, round(6 * (high - low)[i] / np.max(high - low)))))


def _nodes(trajectory: Trajectory, steps) -> list[int]:
    """The numbers `steps` of states of a run. Raises `ValueError` for others."""
    try:
        found = [operator.index(step) for step in steps]
    except TypeError:
        found = []
    count = len(trajectory) + 1
    if not found or not all(-count <= step < count for step in found):
        raise PictureError(f"`steps` = {steps!r:.60} must list numbers of states, of which the run has {count}, from 0.")
    return found


def _shown(trajectory: Trajectory, name: str, parts, steps) -> list:
    """Poses (position (3,), rotation (3, 3)) of a body and their shades; those that a later one
    would hide are left out."""
    if name not in trajectory.names:
        return [((np.zeros(3), np.eye(3)), 1.0)]
    body, size = trajectory.names.index(name), np.ptp(np.concatenate([mesh.vertices for mesh in parts]), axis=0).max()
    kept = []
    for step, shade in reversed(list(zip(steps, np.linspace(_PALEST, 1.0, len(steps)), strict=True))):
        pose = trajectory.position[step, body], np.asarray(rotation.matrix(trajectory.quaternion[step, body]))
        if all(np.linalg.norm(pose[0] - later[0]) > _APART * size for later, _ in kept):
            kept.append((pose, 1.0 if step == steps[-1] else shade))
    return kept


def lit(faces, colour):
    """Colours (n, 3) of triangles (n, 3, 3) by their slope against the light."""
    normals = np.cross(faces[:, 1] - faces[:, 0], faces[:, 2] - faces[:, 0])
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    facing = (normals / np.where(length > 0, length, 1.0)) @ (_LIGHT / np.linalg.norm(_LIGHT))
    return colour * (_AMBIENT + (1 - _AMBIENT) * (1 + facing[:, None]) / 2)

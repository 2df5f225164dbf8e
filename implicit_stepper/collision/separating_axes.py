"""The least depth of overlapping bodies whose faces are all flat, by their separating axes.

The depth along a unit vector n is h_1(n) + h_2(-n) - n . (x_2 - x_1), with support functions h_i.
Over all n it is the distance from the origin to the surface of the Minkowski difference, whose
faces have the normals of faces of either body and the common normals of two edges (Gottschalk, Lin
and Manocha 1996); in the plane it has no others than those of sides. So the least of finitely many
is the least of all: what is not known of bodies with curved faces, whose depths are local ones.

In NumPy over many poses, on the host: the directions of edges follow from corners, which have to be
sought.
"""

from __future__ import annotations

import functools

import jax
import numpy as np

from shapes import Shape
from shapes.checks import halfspaces
from shapes.closest_points.extent import flat, half_spaces
from shapes.shape_class import ShapeClass

# directions of a pose: where the least depth is that along several, rounding chooses among them
KEPT = 4
_PARALLEL = 1e-9  # sine of the angle between edges without a common normal
# difference of equal directions, and of corners in one face relative to the largest coordinate
_SAME = 1e-9
_AT_ONCE = 2**22  # numbers in an array


def directions(shape_1: Shape, shape_2: Shape, turns_1, turns_2, between) -> tuple[np.ndarray, np.ndarray] | None:
    """Per pose, unit vectors (n, KEPT, d) from body 1 to body 2 of the least depths, the least
    first, and that depth (n,) [m], negative where bodies (the cores of rounded ones) are apart;
    `turns_i` (n, d, d), from shape to world, and `between` (n, d), x_2 - x_1. None where a body has
    a curved face, no end, or a theta that is traced."""
    found = [features(shape) for shape in (shape_1, shape_2)]
    if any(own is None for own in found):
        return None
    axes = sum(len(normals) for _, normals, _ in found) + 2 * len(found[0][2]) * len(found[1][2])
    size = max(_AT_ONCE // (axes * max(len(corners) for corners, *_ in found)), 1)
    parts = [
        _least(found, turns_1[i : i + size], turns_2[i : i + size], between[i : i + size])
        for i in range(0, max(len(between), 1), size)
    ]
    return tuple(np.concatenate(of) for of in zip(*parts, strict=True))


def features(shape: Shape):
    """Corners (k, d) [m], outward normals (m, d) of faces and directions (e, d) of edges of a body
    whose faces are all flat (of the core of a rounded one), otherwise None."""
    of = shape.shape_class
    if isinstance(shape.theta, jax.core.Tracer) or not flat(of):
        return None
    return _found(of, tuple(np.asarray(shape.theta, dtype=float).tolist()))


def _least(features, turns_1, turns_2, between) -> tuple[np.ndarray, np.ndarray]:
    (corners_1, normals_1, edges_1), (corners_2, normals_2, edges_2) = (
        tuple(np.einsum("nij,kj->nki", turn, own) for own in of)
        for of, turn in zip(features, (turns_1, turns_2), strict=True)
    )

    def depths(axes, poses):
        reach_1 = np.max(np.einsum("nai,nki->nak", axes, corners_1[poses]), axis=2)
        reach_2 = np.max(np.einsum("nai,nki->nak", -axes, corners_2[poses]), axis=2)
        return reach_1 + reach_2 - np.einsum("nai,ni->na", axes, between[poses])

    axes = np.concatenate([normals_1, -normals_2], axis=1)
    found = depths(axes, np.arange(len(between)))
    if edges_1.size and edges_2.size:
        # the others are apart already
        meet = np.flatnonzero(np.min(found, axis=1, initial=np.inf) > 0)
        pairs = edges_1.shape[1] * edges_2.shape[1]
        common = np.cross(edges_1[meet, :, None], edges_2[meet, None]).reshape(len(meet), pairs, 3)
        size = np.linalg.norm(common, axis=2, keepdims=True)
        # parallel edges have the normals of faces
        common = np.where(size > _PARALLEL, common / np.where(size > 0, size, 1.0), normals_1[meet, :1])
        more = np.zeros((len(between), 2 * common.shape[1], 3))
        more[meet] = np.concatenate([common, -common], axis=1)
        axes = np.concatenate([axes, more], axis=1)
        found = np.concatenate([found, np.full(more.shape[:2], np.inf)], axis=1)
        found[meet, -more.shape[1] :] = depths(more[meet], meet)
    order = np.argsort(found, axis=1, kind="stable")[:, np.arange(KEPT) % axes.shape[1]]
    return np.take_along_axis(axes, order[..., None], axis=1), np.min(found, axis=1)


@functools.lru_cache(maxsize=256)
def _found(of: ShapeClass, theta: tuple[float, ...]):
    normals, offsets = half_spaces(of, np.array(theta))
    if halfspaces.escape(normals) is not None:
        return None
    corners = halfspaces.vertices(normals, offsets)
    if of.dimension == 2:
        return corners, normals, np.zeros((0, 2))
    on = np.abs(corners @ normals.T - offsets) <= _SAME * np.max(np.abs(corners))
    edges = []
    for first, second in zip(*np.triu_indices(len(normals), 1), strict=True):
        ends = corners[on[:, first] & on[:, second]]
        along = np.cross(normals[first], normals[second])
        if len(ends) < 2 or np.ptp(ends @ along) <= _SAME * np.max(np.abs(corners)):
            continue  # one corner, which may be there several times
        along /= np.linalg.norm(along)
        if all(np.linalg.norm(np.cross(along, other)) > _SAME for other in edges):
            edges.append(along)
    return corners, normals, np.array(edges).reshape(-1, 3)

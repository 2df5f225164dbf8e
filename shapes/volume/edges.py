"""Edges and corners of a convex body: where two or three of its inequalities are active at once.

Points y (n, d) are in balanced coordinates; active sets (n, m) say which inequalities hold with
equality at each point.
"""

from __future__ import annotations

import numpy as np

from .ray_casting import Balanced, zero

ON = 1e-9  # an inequality this close to its zero set (balanced coordinates) is active
_REACHED = 2.0  # a corner is at most this many sizes of a triangle away from its middle
_NEWTON_STEPS = 12
_SETTLED = 1e-6  # last step, as a share of the chord, of a search that has ended in round-off
_SINGULAR = 1e-10  # least volume of three unit normals that meet in a point


def curve(body: Balanced, s, ends, faces) -> tuple[np.ndarray, np.ndarray]:
    """Points b(s) (n, 3) on the edge f_i = f_j = 0, above the share s (n,) of the chord between
    `ends` (n, 2, 3), and db/ds.

    `faces` (n, 2) are (i, j). NaN where Newton's method does not find it near the chord.
    """
    chord = ends[:, 1] - ends[:, 0]
    foot = ends[:, 0] + s[:, None] * chord
    point, rows = foot.copy(), np.arange(len(s))[:, None]
    for _ in range(_NEWTON_STEPS):
        gradients = body.gradient(point)[rows, faces]
        matrix = np.concatenate([gradients, chord[:, None]], axis=1)
        off = np.concatenate([body.value(point)[rows, faces], np.sum(chord * (point - foot), axis=1)[:, None]], axis=1)
        step = _solved(matrix, off)
        point = point - step
        if np.all(np.linalg.norm(step, axis=1) < 1e-14):
            break
    tangent = np.cross(*np.moveaxis(body.gradient(point)[rows, faces], 1, 0))
    along = np.sum(chord**2, axis=1) / np.sum(chord * tangent, axis=1)
    length = np.linalg.norm(chord, axis=1)
    near = np.linalg.norm(point - foot, axis=1) < length
    lost = ~near | (np.linalg.norm(step, axis=1) > _SETTLED * length)
    point[lost] = np.nan
    return point, along[:, None] * tangent


def passages(body: Balanced, ends, active) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, d) where the ways over the surface between `ends` (n, 2, d) leave the inequalities
    that are active at their starts, and the active sets (n, m) there. active (n, 2, m): those of
    the ends."""
    n, m = len(ends), active.shape[2]
    own, points, found = active[:, 0], np.zeros((n, ends.shape[2])), np.zeros((n, m), dtype=bool)
    left = np.arange(n)
    # The excess of the others over the start's own is smooth where it vanishes beyond the exit from
    # the own alone, but there an inequality that is not convex by itself may have another part. At
    # the exit from the body it has a kink, and is safe.
    for alone in (True, False):
        points[left] = _way_out(body, ends[left], own[left], alone)
        distances = signed_distances(body, points[left])
        both = [np.argmax(np.where(mask, distances, -np.inf), axis=1) for mask in (own[left], ~own[left])]
        rows = np.arange(len(left))
        found[left] = distances > -ON
        for face in both:
            found[left, face] = True
        left = left[np.min([distances[rows, face] for face in both], axis=0) < -ON]
    return points, found


def _way_out(body, ends, own, alone: bool) -> np.ndarray:
    """Surface points (n, d) between ends (n, 2, d) where the excess over `own` (n, m) vanishes, as
    `alone` measures it."""

    def excess(s, rows):
        rays, mine = (1 - s)[:, None] * ends[rows, 0] + s[:, None] * ends[rows, 1], own[rows]
        with np.errstate(invalid="ignore"):
            f = body.value(body.exits(rays, chosen=mine if alone else None)[:, None] * rays)
        others = np.max(np.where(mine, -np.inf, f), axis=1)
        return others if alone else others - np.max(np.where(mine, f, -np.inf), axis=1)

    everywhere = np.arange(len(ends))
    bounds = np.zeros(len(ends)), np.ones(len(ends))
    s = zero(excess, *bounds, *(excess(t, everywhere) for t in bounds))[:, None]
    return body.surface((1 - s) * ends[:, 0] + s * ends[:, 1])


def corners(body: Balanced, triangles) -> tuple[np.ndarray, np.ndarray]:
    """Corners (k, 3) near triangles (n, 3, 3) on the surface, of the three inequalities that are
    nearest to being active at the middle of each, and their active sets (k, m)."""
    middle = body.surface(np.mean(triangles, axis=1))
    faces, rows = np.argsort(-signed_distances(body, middle), axis=1)[:, :3], np.arange(len(triangles))[:, None]
    if faces.shape[1] < 3:
        return middle[:0], faces[:0] > 0
    corner = middle.copy()
    for _ in range(_NEWTON_STEPS):
        corner = corner - _solved(body.gradient(corner)[rows, faces], body.value(corner)[rows, faces])
    size = np.max(np.linalg.norm(triangles - middle[:, None], axis=2), axis=1)
    found = np.linalg.norm(corner - middle, axis=1) < _REACHED * size
    found[found] = np.max(signed_distances(body, corner[found]), axis=1) < ON
    active = active_set(body, corner[found])
    active[np.arange(len(active))[:, None], faces[found]] = True
    return corner[found], active


def active_set(body: Balanced, points) -> np.ndarray:
    """Of surface points (n, d): (n, m), at least one each."""
    active = signed_distances(body, points) > -ON
    active[np.arange(len(points)), body.active(points)] = True
    return active


def signed_distances(body: Balanced, points) -> np.ndarray:
    """Of points (n, d) from the zero sets of the inequalities, to first order: (n, m), negative
    inside."""
    lengths = np.linalg.norm(body.gradient(points), axis=-1)
    return body.value(points) / np.maximum(lengths, 1e-300)


def _solved(matrix, right) -> np.ndarray:
    """Solutions (n, d) of n small systems; NaN for singular ones."""
    lengths = np.linalg.norm(matrix, axis=-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        matrix, right = matrix / lengths, right[..., None] / lengths
    usable = np.all(np.isfinite(matrix), axis=(1, 2))
    usable[usable] = np.abs(np.linalg.det(matrix[usable])) > _SINGULAR
    solution = np.full(right.shape[:2], np.nan)
    solution[usable] = np.linalg.solve(matrix[usable], right[usable])[..., 0]
    return solution

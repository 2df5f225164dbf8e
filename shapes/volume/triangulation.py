"""A convex body's surface cut into cells, triangles or (in the plane) segments, each on one
inequality.

Rays meet the surface in points, whose directions are triangulated. Where two neighbours share no
inequality, the point where the surface passes from one to the next is added between them; where
three neighbours share none, so is the corner.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from .edges import active_set, corners, curve, passages, signed_distances
from .ray_casting import Balanced, spread_directions

_SAME = 1e-7  # points closer than this are one
_MOST_ROUNDS = 40
# times as many points as there were; faces that touch without an angle never conform
_MOST_ADDED = 4
_CLEARANCE = 0.5  # least distance of points near edges and corners, as a share of the spacing
_LEAST_ACROSS = 6  # points along a small face, however small
# points tried around the best one in a search, which halves its step so many times
_PATTERN, _CLIMBS = 16, 20
# deviation of an edge's curve from its chord, as a share of the chord, that needs no further point
_MOST_BEND = 0.2
_REACH = 2.0  # in chords, how far a curve may deviate from its own


@dataclasses.dataclass(frozen=True)
class Tiling:
    """Points y (n, d) on the surface in balanced coordinates; cells (k, d) of their indices,
    counter-clockwise from outside.

    active (n, m): which inequalities hold with equality at each point. faces (k,): which one a cell
    lies on.
    """

    body: Balanced
    points: np.ndarray
    active: np.ndarray
    cells: np.ndarray
    faces: np.ndarray

    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """In space: pairs of points (e, 2) between cells on different inequalities, and those
        inequalities (e, 2): the first is that of the cell in which the pair is in counter-clockwise
        order."""
        ends, sides = self.edge_sides()
        return ends, self.faces[sides]

    def edge_sides(self) -> tuple[np.ndarray, np.ndarray]:
        """The same pairs, and the cells (e, 2) on both sides."""
        ends, sides = _sides(self.cells)
        faces = self.faces[sides]
        both = np.all(self.active[ends[:, :, None], faces[:, None, :]], axis=(1, 2))
        chosen = (faces[:, 0] != faces[:, 1]) & both
        return ends[chosen], sides[chosen]


def tile(body: Balanced, count: int) -> Tiling:
    """A tiling from about `count` points. Faces below their spacing are found if their inequality
    is on no other."""
    d = body.dimension
    spacing = 2 * np.pi / count if d == 2 else np.sqrt(4 * np.pi / count)
    points = body.surface(spread_directions(d, count))
    points = np.concatenate([points, _hidden(body, points, spacing)])
    points, active, _ = _refined(body, points, active_set(body, points))
    kept = _thinned(points, active, spacing)
    points, active, cells = _refined(body, points[kept], active[kept])
    return Tiling(body, points, active, cells, _faces(body, points, active, cells))


def with_points(tiling: Tiling, rays) -> Tiling:
    """With more points, where rays y (n, d) leave the body."""
    body = tiling.body
    new = body.surface(rays)
    new = new[_fresh(tiling.points, new)]
    points, active = np.concatenate([tiling.points, new]), np.concatenate([tiling.active, active_set(body, new)])
    points, active, cells = _refined(body, points, active)
    return Tiling(body, points, active, cells, _faces(body, points, active, cells))


def _hidden(body: Balanced, points, spacing) -> np.ndarray:
    """Points (k, d) on inequalities that none of `points` is on, by climbing to where each is
    nearest to being active."""
    distances = signed_distances(body, points)
    unseen = np.setdiff1d(np.arange(distances.shape[1]), body.active(points))
    best, pattern = points[np.argmax(distances[:, unseen], axis=0)], spread_directions(body.dimension, _PATTERN)
    for step in spacing * 0.5 ** np.arange(_CLIMBS if len(unseen) else 0):
        tried = np.concatenate([best[:, None], best[:, None] + step * pattern], axis=1)
        tried = body.surface(tried.reshape(-1, body.dimension)).reshape(tried.shape)
        values = signed_distances(body, tried.reshape(-1, body.dimension)).reshape(*tried.shape[:2], -1)
        rows = np.arange(len(unseen))
        best = tried[rows, np.argmax(values[rows, :, unseen], axis=1)]
    return best[body.active(best) == unseen]


def _refined(body: Balanced, points, active):
    """The points with those that conforming cells need, and the cells."""
    most = _MOST_ADDED * len(points)
    for _ in range(_MOST_ROUNDS):
        cells = cells_around(points)
        new, new_active = _missing(body, points, active, cells)
        fresh = _fresh(points, new)
        if not np.any(fresh) or len(points) > most:
            return points, active, cells
        points, active = np.concatenate([points, new[fresh]]), np.concatenate([active, new_active[fresh]])
    return points, active, cells_around(points)


def _missing(body, points, active, cells):
    """Points, with their active sets, without which some cell has no inequality of its own."""
    ends = cells if body.dimension == 2 else _sides(cells)[0]
    apart = ends[~np.any(active[ends[:, 0]] & active[ends[:, 1]], axis=1)]
    if body.dimension == 2:
        return passages(body, points[apart], active[apart])
    lone = cells[~np.any(np.all(active[cells], axis=1), axis=1)]
    if len(lone):
        found, found_active = corners(body, points[lone])
        fresh = _fresh(points, found)
        if np.any(fresh):
            return found[fresh], found_active[fresh]
        if len(apart):
            return passages(body, points[apart], active[apart])
        middles = body.surface(np.mean(points[lone], axis=1))
        return middles, active_set(body, middles)
    return _bends(body, Tiling(body, points, active, cells, _faces(body, points, active, cells)))


def _bends(body, tiling: Tiling):
    """Points on edges whose curves deviate much from their chords, or are not found: where the way
    from the chord's middle, at a right angle to it, leaves the face that the middle is on."""
    ends, sides = tiling.edge_sides()
    chords, faces = tiling.points[ends], tiling.faces[sides]
    middle, _ = curve(body, np.full(len(ends), 0.5), chords, faces)
    length = np.linalg.norm(chords[:, 1] - chords[:, 0], axis=1)
    bent = ~(np.linalg.norm(middle - np.mean(chords, axis=1), axis=1) <= _MOST_BEND * length)
    chords, sides, length = chords[bent], sides[bent], length[bent]
    start = body.surface(np.mean(chords, axis=1))
    face = body.active(start)
    centres = np.mean(tiling.points[tiling.cells[sides]], axis=2)
    beyond = np.where((face == faces[bent, 0])[:, None], centres[:, 1], centres[:, 0])
    across = np.cross(chords[:, 1] - chords[:, 0], start)
    across *= np.sign(np.sum(across * (beyond - start), axis=1))[:, None]
    end = body.surface(start + _REACH * length[:, None] * across / np.linalg.norm(across, axis=1)[:, None])
    left = body.active(end) != face
    ways = np.stack([start, end], axis=1)[left]
    return passages(body, ways, face[left, None, None] == np.arange(tiling.active.shape[1]) * np.ones((2, 1)))


def _faces(body, points, active, cells) -> np.ndarray:
    """Which inequality each cell is on: the one at its middle, if its vertices share that, else one
    that they share."""
    middle = body.value(body.surface(np.mean(points[cells], axis=1)))
    shared = np.all(active[cells], axis=1)
    return np.where(np.any(shared, axis=1), np.argmax(np.where(shared, middle, -np.inf), axis=1), np.argmax(middle, axis=1))


def cells_around(points) -> np.ndarray:
    """Delaunay triangles of the directions of points (n, d), as seen from the origin, or the
    segments between neighbours."""
    directions = points / np.linalg.norm(points, axis=1, keepdims=True)
    if points.shape[1] == 2:
        order = np.argsort(np.arctan2(directions[:, 1], directions[:, 0]))
        return np.stack([order, np.roll(order, -1)], axis=1)
    import scipy.spatial  # takes .2 s, which most shapes need not wait for

    triangles = scipy.spatial.ConvexHull(directions).simplices
    inward = np.linalg.det(directions[triangles]) < 0
    triangles[inward] = triangles[inward][:, ::-1]
    return triangles


def _sides(triangles) -> tuple[np.ndarray, np.ndarray]:
    """Edges (e, 2) of a closed surface, and the triangles (e, 2) that have each in this order and
    in the other."""
    ends = np.concatenate([triangles, np.roll(triangles, -1, axis=1), np.roll(triangles, -2, axis=1)])[:, :2]
    owner = np.tile(np.arange(len(triangles)), 3)
    forward = ends[:, 0] < ends[:, 1]
    order_1, order_2 = (np.lexsort(pairs.T) for pairs in (ends[forward], ends[~forward][:, ::-1]))
    return ends[forward][order_1], np.stack([owner[forward][order_1], owner[~forward][order_2]], axis=1)


def distinct(points) -> np.ndarray:
    """The points (k, d) without repetitions."""
    return points[_fresh(points[:0], points)]


def _fresh(points, new) -> np.ndarray:
    """Which of the new points (n, d) are neither among `points` nor repeated."""
    import scipy.spatial

    fresh = np.ones(len(points) + len(new), dtype=bool)
    pairs = scipy.spatial.cKDTree(np.concatenate([points, new])).query_pairs(_SAME, output_type="ndarray")
    fresh[pairs[:, 1]] = False  # the second has the larger index
    return fresh[len(points) :]


def _thinned(points, active, spacing) -> np.ndarray:
    """Points to keep (k,): all corners, those on edges that have none of the same edge and no
    corner near, and of the others those that have no kept one on an edge near. What is near shrinks
    with the face, so that small ones survive."""
    import scipy.spatial

    d, rank = points.shape[1], np.sum(active, axis=1)
    widths = [np.linalg.norm(np.ptp(points[on], axis=0)) if np.any(on) else np.inf for on in active.T]
    size = np.min(np.where(active, widths, np.inf), axis=1)
    near = scipy.spatial.cKDTree(points).query_ball_point(points, _CLEARANCE * np.minimum(spacing, size / _LEAST_ACROSS))
    kept = rank >= d
    for i in np.flatnonzero((rank > 1) & (rank < d)):
        kept[i] = not any(kept[k] and (rank[k] >= d or np.array_equal(active[i], active[k])) for k in near[i])
    for i in np.flatnonzero(rank == 1):
        kept[i] = not np.any(kept[near[i]] & (rank[near[i]] > 1))
    return np.flatnonzero(kept)

"""Triangles or an outline for drawing a body: their corners are on its surface, and among them are
its edges and corners."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from ..errors import ArgumentError
from .normals import arcs, spanning, unit_normals
from .ray_casting import balanced
from .triangulation import Tiling, cells_around, distinct, tile, with_points

RESOLUTION = 16  # subdivisions of an icosahedron's edge that give as many points on a smooth body
_MOST_TURN = 1.5  # of a smooth face from one point to the next, as a share of the step along an arc
# lengths of a point, by which it scales equations, are the radius of the ball that stands for it
_DOT = 0.02
_MOST_ADDED = 4  # times as many points as without rounding


@dataclasses.dataclass(frozen=True)
class Mesh:
    """A closed surface: vertices (n, 3) [m] and triangles (k, 3) of their indices,
    counter-clockwise from outside."""

    vertices: np.ndarray
    triangles: np.ndarray

    @property
    def volume(self) -> float:
        """Enclosed volume [m^3]; less than the body's by an amount of second order in
        1/resolution."""
        return float(np.sum(np.linalg.det(self.vertices[self.triangles] - self.vertices[0])) / 6)

    def moved(self, position, rotation) -> Mesh:
        """The mesh placed by x -> position + rotation x: `position` (3,) [m], `rotation` (3, 3)."""
        return dataclasses.replace(self, vertices=np.asarray(position) + self.vertices @ np.asarray(rotation).T)


@dataclasses.dataclass(frozen=True)
class Outline:
    """A planar body's closed outline: vertices (n, 2) [m], counter-clockwise, the last joined to
    the first."""

    vertices: np.ndarray

    @property
    def area(self) -> float:
        """Enclosed area [m^2]."""
        x, y = (self.vertices - self.vertices[0]).T
        return float(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)) / 2)

    def moved(self, position, rotation) -> Outline:
        """The outline placed by x -> position + rotation x: `position` (2,) [m], `rotation` (2,
        2)."""
        return Outline(np.asarray(position) + self.vertices @ np.asarray(rotation).T)


def mesh(shape_class, theta, resolution: int = RESOLUTION) -> Mesh | Outline:
    """Mesh of a shape class at theta (k,), from about 10 resolution^2 points; in the plane an
    outline of 6 resolution.

    Raises `ShapeError` for an unbounded body.
    """
    if not isinstance(resolution, int | np.integer) or resolution < 1:
        raise ArgumentError(f"`resolution` = {resolution!r} must be a whole number, 1 or more: 16 suits most drawings.")
    return _mesh(shape_class, tuple(np.asarray(theta, dtype=float).tolist()), resolution)


@functools.lru_cache(maxsize=128)
def _mesh(shape_class, theta: tuple[float, ...], resolution: int) -> Mesh | Outline:
    d = shape_class.dimension
    spacing = np.pi / (3 * resolution) if d == 2 else np.sqrt(4 * np.pi / (10 * resolution**2 + 2))
    tiling = tile(balanced(shape_class, theta), 6 * resolution if d == 2 else 10 * resolution**2 + 2)
    points, cells, radius = tiling.points, tiling.cells, float(shape_class.radius(theta))
    if radius > 0:
        # Arcs deviate from their chords as much as on a body of the same size with this spacing.
        step = spacing * np.sqrt(max(1.0, np.linalg.norm(tiling.body.axes, 2) / radius))
        points = _grown(_turned(tiling, step), radius, step)
        cells = cells_around(points @ np.linalg.inv(np.linalg.cholesky(np.cov(points.T))).T)
    vertices = tiling.body.place(points) * (_DOT if shape_class.point else 1.0)
    if d == 2:
        return Outline(vertices[cells[:, 0]])
    used, triangles = np.unique(cells, return_inverse=True)
    return Mesh(vertices[used], triangles.reshape(cells.shape))


def _turned(tiling: Tiling, step: float) -> Tiling:
    """With points added where the normal turns by much more than `step` [rad] from one point to the
    next on a face."""
    before, most = 0, _MOST_ADDED * len(tiling.points)
    while before < len(tiling.points) < most:
        before = len(tiling.points)
        ends = np.concatenate([tiling.cells, np.roll(tiling.cells, -1, axis=1)])[:, :2]
        faces, normals = np.tile(tiling.faces, 2), unit_normals(tiling.body, tiling.points)
        turn = np.linalg.norm(normals[ends[:, 0], faces] - normals[ends[:, 1], faces], axis=1)
        ends = np.unique(np.sort(ends[turn > _MOST_TURN * step], axis=1), axis=0)
        tiling = with_points(tiling, np.mean(tiling.points[ends], axis=1))
    return tiling


def _grown(tiling: Tiling, radius: float, step: float) -> np.ndarray:
    """Points y (n, d) at `radius` [m] from the tiled body: over its faces, around its edges and
    around its corners, where normals are `step` [rad] apart."""
    body = tiling.body
    at, face = np.unique(np.stack([tiling.cells.ravel(), np.repeat(tiling.faces, body.dimension)], axis=1), axis=0).T
    normals = unit_normals(body, tiling.points)
    feet, outward = [tiling.points[at]], [normals[at, face]]
    ends, faces = tiling.edges() if body.dimension == 3 else (np.zeros((0, 2), int), np.zeros((0, 2), int))
    around = np.unique(np.concatenate([np.column_stack([ends[:, k], np.sort(faces, axis=1)]) for k in (0, 1)]), axis=0)
    pairs = [(k, normals[k, [i, j]]) for k, i, j in around.tolist()]
    for k, active in enumerate(tiling.active):
        if np.sum(active) >= body.dimension:
            pairs += [(k, fan) for fan in _fan_of_normals(normals[k, active], body.axes @ tiling.points[k], step)]
    for k, (first, last) in pairs:
        n = arcs(first[None], last[None], np.linspace(0, 1, _points_along(first, last, step)))[0][0]
        feet.append(np.broadcast_to(tiling.points[k], n.shape))
        outward.append(n)
    offsets = np.linalg.solve(body.axes, np.concatenate(outward).T).T
    return distinct(np.concatenate(feet) + radius * offsets)


def _fan_of_normals(normals, outward, step) -> list[np.ndarray]:
    """Ends (2, d) of arcs that are about `step` [rad] apart and cover the cone of unit normals (k,
    d)."""
    around = spanning(normals, outward)
    if normals.shape[1] == 2 or not len(around):
        return [around] if len(around) else []
    middle = np.sum(around, axis=0) / np.linalg.norm(np.sum(around, axis=0))
    found = []
    for first, last in zip(around, np.roll(around, -1, axis=0), strict=True):
        reach = max(_points_along(middle, n, step) for n in (first, last))
        shares = np.linspace(0, 1, reach)
        rows = (arcs(middle[None], n[None], shares)[0][0] for n in (first, last))
        found += [np.stack(row) for row in zip(*rows, strict=True)]
    return found


def _points_along(first, last, step) -> int:
    """How many points, ends included, are at most `step` [rad] apart on the arc between two unit
    vectors (d,)."""
    angle = 2 * np.arcsin(min(1.0, np.linalg.norm(last - first) / 2))
    return max(2, int(np.ceil(angle / step)) + 1)

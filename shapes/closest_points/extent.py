"""How large a body is: a ball inside it and one around it, for checks that need no more.

Sampled: the ball inside is the largest that rays from the centre leave room for, the one around
follows the points that are farthest from the centre along the surface, which ends in corners, of
rays that are spread evenly where the body is stretched to about a ball. Where all faces are flat,
both are exact: by the corners, and by the distances of the faces.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from ..checks import halfspaces
from ..checks.interior import ENDLESS, ends, ray_lengths
from ..expressions.compile import Jet, compile_jet
from ..expressions.symbols import is_flat
from ..shape import Shape
from ..shape_class import ShapeClass
from .surface import surface

_RAYS = 64  # in opposite pairs, besides those along the axes
_CENTRINGS = 2
_ROUND, _MOST_ROUNDS = 1.5, 40  # a body that is less than this longer than wide needs no stretching
_CLIMBERS, _CLIMBS = 16, 14  # points that climb to the corners, and their steps,
_INSIDE = 1e-6  # of a body's size: rays from a point that is less deep tell nothing
_LEVEL = 1e-6  # until the surface is at right angles to their rays


@dataclasses.dataclass(frozen=True)
class Extent:
    """Balls of radius `inner` and `outer` [m] about `centre` (d,) [m] in shape coordinates, of
    which the body holds one and is held by the other; `outer` is infinite for unbounded bodies.

    `inner` says how far another body may get into this one, and is infinite for a point, which has
    no inside: it is the other body that says it."""

    centre: np.ndarray
    inner: float
    outer: float


def extent(shape: Shape) -> Extent:
    """The extent of a shape, computed once for each set of parameter values."""
    return _extent(shape.shape_class, tuple(np.asarray(shape.theta, dtype=float).tolist()))


@functools.lru_cache(maxsize=1024)
def _extent(shape_class: ShapeClass, theta: tuple[float, ...]) -> Extent:
    centre, radius = surface(Shape(shape_class, np.array(theta))).interior, shape_class.radius(np.array(theta))
    if shape_class.point:
        return Extent(np.zeros(shape_class.dimension), np.inf, 0.0)
    theta, corners = np.array(theta), None
    if flat(shape_class):
        normals, offsets = half_spaces(shape_class, theta)
        if halfspaces.escape(normals) is not None:
            return Extent(centre, float(np.min(offsets - normals @ centre) + radius), np.inf)
        corners = halfspaces.vertices(normals, offsets)
        if np.min(offsets - normals @ centre) < _INSIDE * np.ptp(corners):
            centre = np.mean(corners, axis=0)
    jet = compile_jet(shape_class.expressions, shape_class.dimension, shape_class.parameters, backend="numpy")
    random = np.random.default_rng(0).normal(size=(_RAYS // 2, len(centre)))
    half = np.concatenate([np.eye(len(centre)), random / np.linalg.norm(random, axis=1, keepdims=True)])
    rays = np.concatenate([half, -half])
    for _ in range(_CENTRINGS + 1):
        lengths = ray_lengths(jet, theta, centre, rays)
        bounded, inner = np.all(ends(lengths)), float(np.min(lengths) + radius)
        if not bounded:
            return Extent(centre, inner, np.inf)
        points = centre + lengths[:, None] * rays
        middle, centre = centre, np.mean(points, axis=0)
    if corners is not None:
        reach = np.linalg.norm(corners - middle, axis=1)
        return Extent(middle, float(np.min(offsets - normals @ middle) + radius), float(np.max(reach) + radius))
    points = _far_points(jet, theta, middle, rays, lengths)
    outer = _farthest(jet, theta, middle, points) if np.all(np.isfinite(points)) else np.inf
    return Extent(middle, inner, float(outer + radius))


@functools.lru_cache(maxsize=1024)
def flat(shape_class: ShapeClass) -> bool:
    """Whether all faces of a class of shapes are flat, and there are enough of them for a body."""
    return shape_class.count > shape_class.dimension and _without_curves(shape_class)


def half_space(shape_class: ShapeClass) -> bool:
    """Whether the shapes of a class are half-spaces, whatever their parameters."""
    return shape_class.count == 1 and not shape_class.point and _without_curves(shape_class)


def _without_curves(shape_class: ShapeClass) -> bool:
    return all(is_flat(f, shape_class.dimension) for f in shape_class.expressions)


def half_spaces(shape_class: ShapeClass, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unit normals (m, d) and offsets (m,) [m] of the faces of a shape that is `flat`."""
    jet = compile_jet(shape_class.expressions, shape_class.dimension, shape_class.parameters, backend="numpy")
    origin = np.zeros(shape_class.dimension)
    values, gradients = jet.value(origin, theta), jet.gradient(origin, theta)
    slopes = np.linalg.norm(gradients, axis=1)
    return gradients / slopes[:, None], -values / slopes


def _far_points(jet: Jet, theta, centre, rays, lengths) -> np.ndarray:
    """Those of the points (n, d) where `rays` (k, d) of these `lengths` (k,) [m] from `centre`
    leave the body that are farthest, and of rays alike where it is stretched to be about as long as
    wide: few rays go along a body that is much longer than wide. Infinite where that has no end."""
    d, axes, found = len(centre), np.eye(len(centre)), lengths[:, None] * rays
    t, points = lengths, found
    for _ in range(_MOST_ROUNDS):
        widths, turn = np.linalg.eigh((t ** (d + 2) * rays.T) @ rays / np.sum(t**d))
        if widths[0] <= 0 or widths[-1] < _ROUND**2 * widths[0]:
            break
        axes = axes @ turn * np.sqrt(widths / widths[-1]) @ turn.T
        ways = rays @ axes.T
        size = np.linalg.norm(ways, axis=1)
        reached = ray_lengths(jet, theta, centre, ways / size[:, None])
        if np.max(reached) >= ENDLESS * np.min(lengths):
            return np.full((1, d), np.inf)
        t, points = reached / size, (reached / size)[:, None] * ways
    found = np.concatenate([found, points])
    return centre + found[np.argsort(np.linalg.norm(found, axis=1))[-_CLIMBERS:]]


def _farthest(jet: Jet, theta, centre, points) -> float:
    """Distance [m] from `centre` (d,) of the farthest point to which surface `points` (n, d) climb:
    along the part of their ray that lies in the surface, then back onto it."""
    best = np.linalg.norm(points - centre, axis=1)
    share = np.ones(len(points))
    for _ in range(_CLIMBS):
        with np.errstate(all="ignore"):
            values, gradients = jet.value(points, theta), jet.gradient(points, theta)
        normal = gradients[np.arange(len(points)), np.argmax(values, axis=1)]
        normal = normal / np.linalg.norm(normal, axis=1, keepdims=True)
        ray = points - centre
        along = ray - np.sum(ray * normal, axis=1, keepdims=True) * normal
        if np.all(np.linalg.norm(along, axis=1) < _LEVEL * best):
            break
        towards = np.nan_to_num(ray + share[:, None] * along)
        towards = towards / np.linalg.norm(towards, axis=1, keepdims=True)
        lengths = ray_lengths(jet, theta, centre, towards)
        better = (lengths > best) & np.isfinite(lengths)
        points = np.where(better[:, None], centre + lengths[:, None] * towards, points)
        best, share = np.where(better, lengths, best), np.where(better, share, share / 2)
    return float(np.max(best))

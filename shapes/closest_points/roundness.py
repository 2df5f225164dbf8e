"""Whether a body is round: its surface bends in every direction, so that a body it touches does so
at one point, which moves along with both and never jumps.

Sampled: that of a superquadric bends nowhere in the middle of its sides, and is round all the same;
that of a capsule does not bend along any line of its side.
"""

from __future__ import annotations

import functools

import numpy as np

from ..checks.interior import ray_lengths
from ..expressions.compile import compile_jet
from ..shape import Shape
from ..shape_class import ShapeClass
from .surface import surface

_RAYS = 128
_MOST = 0.1  # of the rays may meet the surface where it is all but flat
_FLAT = 1e-12  # a curvature that rounding leaves, times the way to the surface


def is_round(shape: Shape) -> bool:
    """Of a body of several inequalities, or without an end, it is not said."""
    return _is_round(shape.shape_class, tuple(np.asarray(shape.theta, dtype=float).tolist()))


@functools.lru_cache(maxsize=1024)
def _is_round(of: ShapeClass, theta: tuple[float, ...]) -> bool:
    if of.point:
        return True
    if of.count > 1 or any(i is not None for i in of.sweep[: of.dimension]):
        return False
    values, centre = np.array(theta), surface(Shape(of, np.array(theta))).interior
    jet = compile_jet(of.expressions, of.dimension, of.parameters, backend="numpy")
    rays = np.random.default_rng(0).normal(size=(_RAYS, of.dimension))
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    lengths = ray_lengths(jet, values, centre, rays)
    if not np.all(np.isfinite(lengths)):
        return False
    points = centre + lengths[:, None] * rays
    gradient, hessian = jet.gradient(points, values)[:, 0], jet.hessian(points, values)[:, 0]
    # along the surface: the other axes of a frame whose first one is the normal
    frames = np.linalg.svd(gradient[:, None])[2][:, 1:]
    bends = np.min(np.linalg.eigvalsh(frames @ hessian @ np.swapaxes(frames, 1, 2)), axis=1)
    flat = ~(bends / np.linalg.norm(gradient, axis=1) * lengths > _FLAT)
    return bool(np.mean(flat) <= _MOST)

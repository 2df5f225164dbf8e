"""Facts about a shape's surface, found by sampling it once: an interior point and typical slopes of the inequalities."""

from __future__ import annotations

import functools

import numpy as np

from .compile import compile_jet
from .implicit import Shape, ShapeClass
from .validity import interior_point, surface_points


def interior_and_slope(shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    """A point (d,) [m] inside the body, and a typical |grad f_j| (m,) on its surface, by which residual rows are scaled."""
    return _interior_and_slope(shape.shape_class, tuple(np.asarray(shape.theta, dtype=float).tolist()))


@functools.lru_cache(maxsize=1024)
def _interior_and_slope(shape_class: ShapeClass, theta: tuple[float, ...]):
    theta = np.array(theta)
    jet = compile_jet(shape_class.expressions, shape_class.dimension, shape_class.parameters, backend="numpy")
    interior = interior_point(jet, theta, shape_class.dimension, shape_class.name)
    points, _ = surface_points(jet, theta, interior)
    return interior, np.median(np.linalg.norm(jet.gradient(points, theta), axis=-1), axis=0)

"""Facts about a shape that scale and start a search for contact: a point inside, typical slopes, and where rays leave."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from .compile import Jet, compile_jet
from .implicit import Shape, ShapeClass
from .shards import varying_like
from .validity import interior_point, surface_points

_NEAREST, _DOUBLINGS, _HALVINGS = 1e-6, 40, 50  # [m], then up to 1e6 m; to round-off
_ROUGH_HALVINGS = 8  # enough to be inside and to know a size
_OVERSHOOT = 1.5  # of the step to a violated inequality, so that a point is reached inside and not on the surface
_PROJECTIONS = 60


@dataclasses.dataclass(frozen=True)
class Surface:
    """What sampling showed: a point `interior` (d,) [m] inside the body; `slope` (m,), a typical |grad f_j| on the surface,
    by which residual rows are scaled; `sharpness`, the largest curvature times the typical radius: 1 for a ball, 0 for a
    half-space, infinite for bodies with edges."""

    interior: np.ndarray
    slope: np.ndarray
    sharpness: float


def surface(shape: Shape) -> Surface:
    """Samples a shape's surface, once for each set of parameter values."""
    return _surface(shape.shape_class, tuple(np.asarray(shape.theta, dtype=float).tolist()))


@functools.lru_cache(maxsize=1024)
def _surface(shape_class: ShapeClass, theta: tuple[float, ...]) -> Surface:
    theta = np.array(theta)
    jet = compile_jet(shape_class.expressions, shape_class.dimension, shape_class.parameters, backend="numpy")
    interior = interior_point(jet, theta, shape_class.dimension, shape_class.name)
    points, _ = surface_points(jet, theta, interior)
    slope = np.median(np.linalg.norm(jet.gradient(points, theta), axis=-1), axis=0)
    return Surface(interior, slope, _sharpness(jet, theta, interior, points) if shape_class.count == 1 else np.inf)


def _sharpness(jet: Jet, theta, interior, points) -> float:
    gradients, hessians = jet.gradient(points, theta)[:, 0], jet.hessian(points, theta)[:, 0]
    slopes = np.linalg.norm(gradients, axis=1)
    normals = gradients / slopes[:, None]
    tangential = np.eye(len(interior)) - normals[:, :, None] * normals[:, None, :]
    curvatures = np.linalg.norm(tangential @ hessians @ tangential, ord=2, axis=(1, 2)) / slopes
    return float(np.max(curvatures) * np.median(np.linalg.norm(points - interior, axis=1)))


def leave(shape_class: ShapeClass, theta, inside, direction, halvings: int = _HALVINGS):
    """Distance () [m] from a point `inside` (d,) to where the ray along the unit `direction` leaves {f_j <= 0}, in JAX; 1e6
    where it never does."""

    def is_inside(distance):
        return jnp.max(shape_class.jet.value(inside + distance * direction, theta)) < 0

    reaches = _NEAREST * 2.0 ** jnp.arange(_DOUBLINGS)
    outside = ~jax.vmap(is_inside)(reaches)
    far = jnp.where(jnp.any(outside), reaches[jnp.argmax(outside)], reaches[-1])

    def halve(_, bounds):
        near, far = bounds
        middle = (near + far) / 2
        inside_still = is_inside(middle)
        return jnp.where(inside_still, middle, near), jnp.where(inside_still, far, middle)

    bounds = jnp.where(far > _NEAREST, far / 2, 0.0), far
    return jax.lax.fori_loop(0, halvings, halve, bounds)[0]


def rough_interior_and_slope(shape_class: ShapeClass, theta):
    """Interior and slope like `surface`'s, in JAX for traced parameters, and the body's size () [m]."""
    d = shape_class.dimension
    near = jnp.concatenate([jnp.zeros((1, d)), jnp.eye(d), -jnp.eye(d)])
    start = near[jnp.argmin(jnp.max(shape_class.jet.value(near, theta), axis=1))]

    def distances(point):
        """About how far it is out of each inequality (m,) [m], and their unit gradients."""
        gradient = shape_class.jet.gradient(point, theta)
        slope = jnp.linalg.norm(gradient, axis=1)
        return shape_class.jet.value(point, theta) / slope, gradient / slope[:, None]

    def inwards(depth):
        """A point that much inside, if there is one, and how deep it is."""

        def project(_, point):
            """Towards and through the inequality that lacks most."""
            distance, normals = distances(point)
            worst = jnp.argmax(distance)
            lacks = distance[worst] + depth
            return jnp.where(lacks > 0, point - _OVERSHOOT * lacks * normals[worst], point)

        point = jax.lax.fori_loop(0, _PROJECTIONS, project, varying_like(start, theta))
        return point, -jnp.max(distances(point)[0])

    points, depths = jax.vmap(inwards)(_NEAREST * 2.0 ** jnp.arange(_DOUBLINGS // 2))  # to half a metre
    point = points[jnp.nanargmax(depths)]

    def centre(number, found):
        """To the middle of the chord along each axis in turn."""
        point, size = found
        axis = jnp.eye(d)[number]
        ahead, behind = jax.vmap(lambda sign: leave(shape_class, theta, point, sign * axis, _ROUGH_HALVINGS))(
            jnp.array([1.0, -1.0])
        )
        bounded = (ahead < 1e5) & (behind < 1e5)
        point = point + jnp.where(bounded, (ahead - behind) / 2, 0.0) * axis
        return point, jnp.maximum(size, jnp.where(bounded, (ahead + behind) / 2, 0.0))

    point, size = jax.lax.fori_loop(0, d, centre, varying_like((point, jnp.zeros(())), (point, theta)))
    size = jnp.where(size > 0, size, 1e5)  # a half-space is larger than any body near it
    directions = jnp.concatenate([jnp.eye(d), -jnp.eye(d)])
    exits = point + jax.vmap(lambda n: leave(shape_class, theta, point, n) * n)(directions)
    slopes = jnp.linalg.norm(shape_class.jet.gradient(exits, theta), axis=-1)
    usable = jnp.isfinite(slopes) & (slopes > 0) & (jnp.max(jnp.abs(exits), axis=1) < 1e5)[:, None]
    slope = jnp.nanmedian(jnp.where(usable, slopes, jnp.nan), axis=0)
    return point, jnp.where(jnp.isnan(slope), 1.0, slope), size

"""Facts about a shape that scale and start a search for contact: a point inside, typical slopes,
and where rays leave."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from ..checks.convexity import surface_points
from ..checks.interior import ENDLESS, REACHES, interior_point, slopes_at
from ..errors import EmptyShapeError
from ..expressions.compile import Jet, compile_jet
from ..shape import Shape
from ..shape_class import ShapeClass
from ..shards import varying_like

_HALVINGS = 50  # to round-off
# a curvature that rounding leaves, times the size; the share of a round surface that is as flat
_FLAT, _MOST = 1e-12, 0.1
_ROUGH_HALVINGS = 8  # enough to be inside and to know a size
# of the step to a violated inequality, so that a point is reached inside and not on the surface
_OVERSHOOT = 1.5
_PROJECTIONS = 60


@dataclasses.dataclass(frozen=True)
class Surface:
    """What sampling showed: a point `interior` (d,) [m] inside the body; `size` [m], the typical
    distance of the surface from it; `slope` (m,), a typical |grad f_j| on the surface, by which
    residual rows are scaled; `sharpness`, the largest curvature times the size: 1 for a ball, 0 for
    a half-space, infinite for bodies with edges; `round`, whether it bends in every direction, but
    in places: another body touches it at one point, which moves along with both and never jumps. A
    superquadric is round, though its sides bend nowhere in the middle; a capsule, which bends along
    no line of its side, is not."""

    interior: np.ndarray
    size: float
    slope: np.ndarray
    sharpness: float
    round: bool


def surface(shape: Shape) -> Surface:
    """Samples a shape's surface, once for each set of parameter values."""
    return _surface(shape.shape_class, tuple(np.asarray(shape.theta, dtype=float).tolist()))


@functools.lru_cache(maxsize=1024)
def _surface(shape_class: ShapeClass, theta: tuple[float, ...]) -> Surface:
    theta = np.array(theta)
    jet = compile_jet(shape_class.expressions, shape_class.dimension, shape_class.parameters, backend="numpy")
    interior = interior_point(jet, theta, shape_class.dimension, shape_class.name)
    points, _ = surface_points(jet, theta, interior)
    if len(points) == 0:
        raise EmptyShapeError(
            f"{shape_class.name} has no surface within {REACHES[-1]:.3g} m of {interior}: check its parameters."
        )
    slope = slopes_at(jet, theta, points)
    size = float(np.median(np.linalg.norm(points - interior, axis=1)))
    if shape_class.count > 1:
        return Surface(interior, size, slope, np.inf, False)
    bends = size * _curvatures(jet, theta, points)
    swept = any(i is not None for i in shape_class.sweep[: shape_class.dimension])
    flat = np.mean(~(np.linalg.eigvalsh(bends)[:, 1] > _FLAT))  # the least is 0, along the normal
    sharpness = float(np.max(np.linalg.norm(bends, ord=2, axis=(1, 2))))
    return Surface(interior, size, slope, sharpness, bool(not swept and flat <= _MOST))


def _curvatures(jet: Jet, theta, points) -> np.ndarray:
    """How the surface bends (n, d, d) [1/m] at `points` (n, d) of it, by directions along it."""
    gradients, hessians = jet.gradient(points, theta)[:, 0], jet.hessian(points, theta)[:, 0]
    slopes = np.linalg.norm(gradients, axis=1)
    normals = gradients / slopes[:, None]
    tangential = np.eye(points.shape[1]) - normals[:, :, None] * normals[:, None, :]
    return tangential @ hessians @ tangential / slopes[:, None, None]


def leave(shape_class: ShapeClass, theta, inside, direction, halvings: int = _HALVINGS):
    """Distance () [m] from a point `inside` (d,) to where the ray along the unit `direction` leaves
    {f_j <= 0}, in JAX; infinite where it never does."""

    def is_inside(distance):
        return jnp.max(shape_class.jet.value(inside + distance * direction, theta)) < 0

    outside = ~jax.vmap(is_inside)(jnp.asarray(REACHES))
    number = jnp.argmax(outside)
    far = jnp.asarray(REACHES)[number]

    def halve(_, bounds):
        near, far = bounds
        middle = (near + far) / 2
        inside_still = is_inside(middle)
        return jnp.where(inside_still, middle, near), jnp.where(inside_still, far, middle)

    near, _ = jax.lax.fori_loop(0, halvings, halve, (jnp.where(number > 0, far / 2, 0.0), far))
    return jnp.where(jnp.any(outside), near, jnp.inf)


def rough_interior_and_slope(shape_class: ShapeClass, theta):
    """Interior and slope like `surface`'s, in JAX for traced parameters, and the body's size ()
    [m]."""
    d = shape_class.dimension
    axes = jnp.concatenate([jnp.eye(d), -jnp.eye(d)])
    reaches = jnp.asarray(REACHES)
    near = jnp.concatenate([jnp.zeros((1, d)), (reaches[:, None, None] * axes).reshape(-1, d)])

    def distances(point):
        """About how far it is out of each inequality (m,) [m], and their unit gradients."""
        gradient = shape_class.jet.gradient(point, theta)
        slope = jnp.linalg.norm(gradient, axis=1)
        return shape_class.jet.value(point, theta) / slope, gradient / slope[:, None]

    def lack(point):
        """By how much a point is outside, about () [m]."""
        lacks = jnp.where(shape_class.jet.value(point, theta) <= 0, 0.0, distances(point)[0])
        return jnp.max(jnp.where(jnp.isnan(lacks), jnp.inf, lacks))

    start = near[jnp.argmin(jax.vmap(lack)(near))]

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

    points, depths = jax.vmap(inwards)(reaches)
    endless = depths[-1] > reaches[-1] / 2  # no depth is the largest: any will do
    point = points[jnp.where(endless, len(REACHES) // 2, jnp.nanargmax(depths))]

    def ways_out(point, halvings):
        """How far (2 d,) [m] the body reaches along the axes, infinite where it does not end."""
        lengths = jax.vmap(lambda axis: leave(shape_class, theta, point, axis, halvings))(axes)
        return jnp.where(lengths < ENDLESS * jnp.min(lengths), lengths, jnp.inf)

    def centre(number, found):
        """To the middle of the chord along each axis in turn."""
        point, size = found
        lengths = ways_out(point, _ROUGH_HALVINGS)
        ahead, behind = lengths[number], lengths[number + d]
        bounded = jnp.isfinite(ahead + behind)
        point = point + jnp.where(bounded, (ahead - behind) / 2, 0.0) * axes[number]
        return point, jnp.maximum(size, jnp.where(bounded, (ahead + behind) / 2, 0.0))

    point, size = jax.lax.fori_loop(0, d, centre, varying_like((point, jnp.zeros(())), (point, theta)))
    size = jnp.where(size > 0, size, reaches[-1])  # a half-space is larger than any body near it
    lengths = ways_out(point, _HALVINGS)
    exits = point + jnp.where(jnp.isfinite(lengths), lengths, 0.0)[:, None] * axes
    slopes = jnp.linalg.norm(shape_class.jet.gradient(exits, theta), axis=-1)
    usable = jnp.isfinite(slopes) & (slopes > 0) & jnp.isfinite(lengths)[:, None]
    slope = jnp.nanmedian(jnp.where(usable, slopes, jnp.nan), axis=0)
    return point, jnp.where(jnp.isnan(slope), 1.0, slope), size

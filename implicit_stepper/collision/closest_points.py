"""Closest points and signed distance of two bodies at given poses, for users: `closest_points`."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from shapes import Shape
from shapes.closest_points.conditions import PairClass, Placed
from shapes.closest_points.extent import half_space
from shapes.closest_points.surface import rough_interior_and_slope
from shapes.errors import ArgumentError
from shapes.shards import varying_like

from ..model import checks, poses, rotation
from ..model.results import ClosestPointsError
from ..runtime.compilation import jit
from ..runtime.errors import PoseError
from ..runtime.precision import double_precision
from ..runtime.threads import one_blas_thread
from ..solvers.newton import largest
from . import separating_axes, unproved
from .global_search import Deepest, one_by_one, search
from .local_search import QUERY_TOLERANCE, conditions_at, open_part, roots, units

_SHARE = 0.1  # of the larger body's size: the least unit of a search
_UNBOUNDED = 1e12  # of the smaller body's size: that of a half-space is beyond


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ClosestPoints:
    """Answer of `closest_points`, world frame; all fields may have leading batch axes.

    distance () [m], negative for overlapping bodies; point_1, point_2 (d,) [m] on the bodies;
    normal (d,) from body 1 to body 2, point_2 = point_1 + distance normal; active_1 (m1,), active_2
    (m2,): which inequalities carry the normal; residual (): what the conditions lack,
    dimensionless, the smaller of each complementary pair or, if less, their products, whose sum
    bounds the error of the distance; converged (): whether that is within round-off. On faces and
    edges parallel within some 1e-8 rad the points may be others than the closest ones, as far apart
    as these but for that sum. The depth of overlapping bodies whose faces are all flat is the least
    one, outside of traced code. That of others is local: a root, and the least of those found, but
    `converged` does not prove that there is no lesser one.
    """

    distance: jax.Array
    point_1: jax.Array
    point_2: jax.Array
    normal: jax.Array
    active_1: jax.Array
    active_2: jax.Array
    residual: jax.Array
    converged: jax.Array


@one_blas_thread()
def closest_points(shape_1: Shape, pose_1, shape_2: Shape, pose_2, *, on_failure: str = "raise") -> ClosestPoints:
    """Closest points of two convex bodies and their signed distance, Chakraborty (9) and (20)-(22),
    without a hint.

    A pose is (position (d,) [m], quaternion (4,), w first), in the plane (position, angle [rad]);
    positions and quaternions (or angles) with leading axes give that many answers. `vmap`, `jit`
    and derivatives in poses and in `shape.theta` work; where points are not unique (faces, parallel
    edges) the derivative of the distance is still right, that of the points is the shortest one.
    For overlapping bodies -distance is a penetration depth, the length of a translation along the
    common normal that parts them: the least of all where all faces are flat (see `separating_axes`)
    and neither poses nor parameters are traced, otherwise the least that was found from 12 starts.
    Raises `ValueError` for bad arguments, two half-spaces among them, and, outside traced code,
    `ClosestPointsError`, with all answers, when a pair is not proved. In traced code, and
    everywhere with `on_failure="return"`, ask `converged`.
    """
    double_precision()
    if on_failure not in ("raise", "return"):
        raise ArgumentError(f"`on_failure` = {on_failure!r} must be 'raise' or 'return'.")
    for name, shape in (("shape_1", shape_1), ("shape_2", shape_2)):
        if not isinstance(shape, Shape):
            raise ArgumentError(f"`{name}` = {shape!r} must come from `shapes`, for instance shapes.Sphere(1.0).")
    if shape_1.dimension != shape_2.dimension:
        raise ArgumentError(f"`shape_2` has dimension {shape_2.dimension}, `shape_1` {shape_1.dimension}.")
    if all(half_space(shape.shape_class) for shape in (shape_1, shape_2)):
        raise ArgumentError(
            "`shape_1` and `shape_2` are half-spaces, which overlap endlessly unless they are exactly parallel: compare "
            "their normals and offsets, or give one of them an end, as that of a Box."
        )
    placed = [checks.pose(name, pose, shape_1.dimension) for name, pose in (("pose_1", pose_1), ("pose_2", pose_2))]
    _refuse_unlike(*placed)
    pair = PairClass(shape_1.shape_class, shape_2.shape_class, eliminate=False)
    deepest = _deepest(shape_1, shape_2, *placed)
    answer = _query(pair, jnp.asarray(shape_1.theta), jnp.asarray(shape_2.theta), *placed, deepest)
    traced = isinstance(answer.converged, jax.core.Tracer)
    if on_failure == "raise" and not traced and not jnp.all(answer.converged):
        raise ClosestPointsError(unproved.message(answer, shape_1, shape_2), answer=answer)
    return answer


def _refuse_unlike(pose_1, pose_2) -> None:
    """Raises `ValueError` for leading axes of poses that do not fit each other."""
    axes = [[part.shape[:-1] for part in pose] for pose in (pose_1, pose_2)]
    try:
        np.broadcast_shapes(*axes[0], *axes[1])
    except ValueError as error:
        told = [" and ".join(map(str, dict.fromkeys(own))) for own in axes]
        raise PoseError(
            f"`pose_1` has leading axes {told[0]}, and `pose_2` {told[1]}: give as many poses of each, or one."
        ) from error


def _deepest(shape_1: Shape, shape_2: Shape, pose_1, pose_2) -> Deepest | None:
    """Of all poses, flattened, what `separating_axes` knows without a compiled program; None where
    it knows nothing."""
    if any(isinstance(a, jax.core.Tracer) for a in (*pose_1, *pose_2)):
        return None
    flat = [np.asarray(a) for a in _flat((*pose_1, *pose_2))]
    turns = [poses.matrices(turn) for turn in flat[1::2]]
    found = separating_axes.directions(shape_1, shape_2, *turns, flat[2] - flat[0])
    return None if found is None else Deepest(*found)


def _flat(arrays) -> list:
    """Poses with all their leading axes as one."""
    batch = np.broadcast_shapes(*(a.shape[:-1] for a in arrays))
    return [jnp.broadcast_to(a, batch + a.shape[-1:]).reshape(-1, a.shape[-1]) for a in arrays]


@functools.partial(jit, static_argnums=0)
def _query(pair: PairClass, theta_1, theta_2, pose_1, pose_2, deepest: Deepest | None) -> ClosestPoints:
    """`closest_points` of checked arguments, over the poses' leading axes, of which `deepest` has
    one."""

    def one(arrays, deepest):
        return _pair_query(pair, theta_1, theta_2, arrays[:2], arrays[2:], deepest)

    arrays = (*pose_1, *pose_2)
    batch = jnp.broadcast_shapes(*(a.shape[:-1] for a in arrays))
    if not batch:
        return one(arrays, jax.tree.map(lambda a: a[0], deepest))
    return jax.tree.map(lambda a: a.reshape(batch + a.shape[1:]), one_by_one(one)(_flat(arrays), deepest))


def _between(size_1, size_2):
    """The unit () [m] in which closest points of bodies of these sizes are looked for: between
    both, as an interior-point method stalls where distances are hundreds of its unit. Unbounded
    bodies have none."""
    smaller, larger = jnp.minimum(size_1, size_2), jnp.maximum(size_1, size_2)
    between = jnp.maximum(jnp.sqrt(smaller * larger), _SHARE * larger)
    return jnp.where(larger < _UNBOUNDED * smaller, between, smaller)


def _pair_query(pair: PairClass, theta_1, theta_2, pose_1, pose_2, deepest: Deepest | None) -> ClosestPoints:
    """One pair; derivatives by the implicit function theorem."""
    inside_1, slope_1, size_1 = rough_interior_and_slope(pair.first, lax.stop_gradient(theta_1))
    inside_2, slope_2, size_2 = rough_interior_and_slope(pair.second, lax.stop_gradient(theta_2))
    # Seen from body 1, so that bodies far from the origin lose nothing.
    first = Placed(theta_1, slope_1, jnp.zeros(pair.dimension), rotation.matrix(pose_1[1]))
    second = Placed(theta_2, slope_2, pose_2[0] - pose_1[0], rotation.matrix(pose_2[1]))
    length, rough = jnp.minimum(size_1, size_2), _between(size_1, size_2)
    unit = units(pair, length)

    def residual(z):
        return roots(pair, first, second, length, z)

    def solve(_, start):
        frozen = lax.stop_gradient((first, second))
        return search(pair, *frozen, inside_1, inside_2, length, QUERY_TOLERANCE, deepest, rough)

    def tangent_solve(linear, right):
        # Points on a common face are free to move: the pseudo-inverse takes the shortest motion.
        jacobian = jax.jacfwd(linear)(jnp.zeros_like(right))
        return jnp.linalg.pinv(jacobian, rtol=1e-10) @ right

    nowhere = varying_like(jnp.zeros(pair.unknowns), (first, second))
    z, psi = lax.custom_root(residual, nowhere, solve, tangent_solve, has_aux=True)
    rows = pair.rows(z * unit, first, second, jnp.eye(pair.dimension)[0], length)
    left = lax.stop_gradient(jnp.minimum(largest(residual(z)), open_part(conditions_at(pair, first, second, length, z))))
    active_1, active_2 = _active(pair, rows)
    g = rows.geometry
    points = pose_1[0] + g.a1, pose_1[0] + g.a2
    return ClosestPoints(g.psi, *points, g.n, active_1, active_2, left, psi > -jnp.inf)


def _active(pair: PairClass, rows):
    """Which inequalities (m1,), (m2,) carry: those whose multiplier exceeds their slack, and one
    with a support function."""
    carries, parts, at = rows.multipliers > rows.slacks, [], 0
    for side in (pair.first, pair.second):
        if side.support is None:
            parts.append(carries[at : at + side.count])
            at += side.count
        else:
            parts.append(jnp.ones(side.count, bool))
            at += sum(i is not None for i in side.sweep[: side.dimension])
    return parts

"""Closest points alone, at given poses: a public query, the starts of a step, and the gap where nothing else is unknown.

Always in the long form of the unknowns (`PairClass.general`), of which the short form is the beginning.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jax import lax

from shapes import Shape
from shapes.closest_points import PairClass, Placed
from shapes.surface import leave, rough_interior_and_slope

from . import checks, rotation
from .compilation import jit
from .complementarity import fischer_burmeister
from .newton import Solution, newton

_TOLERANCE = 1e-10
_ITERATIONS = 60
_TILTS = 11  # cold starts besides the line of centres
_TILT = 0.5  # how far they lean from it: enough to leave a ridge or an axis of symmetry
_QUERY_TOLERANCE = 1e-13  # of the smaller body's size, on top of 16 roundings of the distance


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ClosestPoints:
    """Answer of `closest_points`, world frame; all fields may have leading batch axes.

    distance () [m], negative for overlapping bodies; point_1, point_2 (d,) [m] on the bodies; normal (d,) from body 1 to
    body 2, point_2 = point_1 + distance normal; active_1 (m1,), active_2 (m2,): which inequalities carry the normal;
    residual (): what the conditions lack, dimensionless; converged (): whether that is within round-off.
    """

    distance: jax.Array
    point_1: jax.Array
    point_2: jax.Array
    normal: jax.Array
    active_1: jax.Array
    active_2: jax.Array
    residual: jax.Array
    converged: jax.Array


def closest_points(shape_1: Shape, pose_1, shape_2: Shape, pose_2) -> ClosestPoints:
    """Closest points of two convex bodies and their signed distance, Chakraborty (9) and (20)-(22), without a hint.

    A pose is (position (d,) [m], quaternion (4,), w first), in the plane (position, angle [rad]); positions and quaternions
    (or angles) with leading axes give that many answers. `vmap`, `jit` and derivatives in poses and in `shape.theta` work;
    where points are not unique (faces, parallel edges) the derivative of the distance is still right, that of the points is
    the shortest one. For overlapping bodies -distance is the least penetration depth that was found from 12 starts: the
    shortest translation along the common normal that parts them.
    Raises `ValueError` for bad poses and, outside traced code, `RuntimeError` when a pair is not solved; in traced code ask
    `converged`.
    """
    for name, shape in (("shape_1", shape_1), ("shape_2", shape_2)):
        if not isinstance(shape, Shape):
            raise ValueError(f"`{name}` = {shape!r} must come from `shapes`, for instance shapes.Sphere(1.0).")
    if shape_1.dimension != shape_2.dimension:
        raise ValueError(f"`shape_2` has dimension {shape_2.dimension}, `shape_1` {shape_1.dimension}.")
    poses = [checks.pose(name, pose, shape_1.dimension) for name, pose in (("pose_1", pose_1), ("pose_2", pose_2))]
    pair = PairClass(shape_1.shape_class, shape_2.shape_class, eliminate=False)
    answer = _query(pair, jnp.asarray(shape_1.theta), jnp.asarray(shape_2.theta), *poses)
    if not isinstance(answer.converged, jax.core.Tracer) and not jnp.all(answer.converged):
        raise RuntimeError(
            f"closest points of {pair.first.name} and {pair.second.name} were not found for "
            f"{int(jnp.sum(~answer.converged))} of {answer.converged.size} poses, residual "
            f"{float(jnp.max(answer.residual)):.2e}. Check for shapes of extreme aspect or bodies deep inside each other."
        )
    return answer


@functools.partial(jit, static_argnums=0)
def _query(pair: PairClass, theta_1, theta_2, pose_1, pose_2) -> ClosestPoints:
    """`closest_points` of checked arguments, over the poses' leading axes."""

    def one(position_1, orientation_1, position_2, orientation_2):
        return _pair_query(pair, theta_1, theta_2, (position_1, orientation_1), (position_2, orientation_2))

    arrays = (*pose_1, *pose_2)
    batch = jnp.broadcast_shapes(*(a.shape[:-1] for a in arrays))
    arrays = [jnp.broadcast_to(a, batch + a.shape[-1:]) for a in arrays]
    for _ in batch:
        one = jax.vmap(one)
    return one(*arrays)


def _pair_query(pair: PairClass, theta_1, theta_2, pose_1, pose_2) -> ClosestPoints:
    """One pair; derivatives by the implicit function theorem."""
    inside_1, slope_1, size_1 = rough_interior_and_slope(pair.first, lax.stop_gradient(theta_1))
    inside_2, slope_2, size_2 = rough_interior_and_slope(pair.second, lax.stop_gradient(theta_2))
    first = Placed(theta_1, slope_1, pose_1[0], rotation.matrix(pose_1[1]))
    second = Placed(theta_2, slope_2, pose_2[0], rotation.matrix(pose_2[1]))
    length = jnp.minimum(size_1, size_2)
    apart = lax.stop_gradient(jnp.linalg.norm(pose_2[0] - pose_1[0])) / length
    tolerance = _QUERY_TOLERANCE + 16 * jnp.finfo(float).eps * (1 + apart)
    unit = pair.unknown_scale(length)

    def residual(z):
        return _residual(pair, first, second, length, z)

    def solve(_, start):
        frozen = lax.stop_gradient((first, second))
        return _cold(pair, *frozen, inside_1, inside_2, length, tolerance)

    def tangent_solve(linear, right):
        # Points on a common face are free to move: the pseudo-inverse takes the shortest motion.
        jacobian = jax.jacfwd(linear)(jnp.zeros_like(right))
        return jnp.linalg.pinv(jacobian, rtol=1e-10) @ right

    z = lax.custom_root(residual, jnp.zeros(pair.unknowns), solve, tangent_solve)
    rows = pair.rows(z * unit, first, second, jnp.eye(pair.dimension)[0], length)
    left = lax.stop_gradient(jnp.max(jnp.abs(residual(z))))
    active_1, active_2 = _active(pair, rows)
    g = rows.geometry
    return ClosestPoints(g.psi, g.a1, g.a2, g.n, active_1, active_2, left, left <= tolerance)


def _active(pair: PairClass, rows):
    """Which inequalities (m1,), (m2,) carry: those whose multiplier exceeds their slack, and one with a support function."""
    carries, parts, at = rows.multipliers > rows.slacks, [], 0
    for side in (pair.first, pair.second):
        count = side.count if side.support is None else 0
        parts.append(carries[at : at + count] if count else jnp.ones(side.count, bool))
        at += count
    return parts


def _residual(pair: PairClass, first: Placed, second: Placed, length, z):
    """Closest-point conditions alone, dimensionless, at dimensionless long-form unknowns z."""
    unused = jnp.eye(pair.dimension)[0]  # tangents do not enter the long form
    rows = pair.rows(z * pair.unknown_scale(length), first, second, unused, length)
    return jnp.concatenate([rows.equations, fischer_burmeister(rows.multipliers, rows.slacks)])


def closest_points_from(pair: PairClass, start, first: Placed, second: Placed, length, tolerance=_TOLERANCE) -> Solution:
    """Closest points of one pair from `start`, long-form unknowns; `Solution.z` is the same, in metres.

    `length` [m] is the scale in which the tolerance is meant.
    """
    pair = pair.general
    unit = pair.unknown_scale(length)
    residual = functools.partial(_residual, pair, first, second, length)
    solution = newton(residual, jax.jacfwd(residual), start / unit, tolerance=tolerance, max_iterations=_ITERATIONS)
    return Solution(solution.z * unit, solution.residual, solution.iterations, solution.converged)


def closest_points_cold(pair: PairClass, first: Placed, second: Placed, inside_1, inside_2, length):
    """Long-form closest-point unknowns of one pair, without a hint; `inside_i` (d,): points inside, in shape coordinates."""
    general = pair.general
    return _cold(general, first, second, inside_1, inside_2, length, _TOLERANCE) * general.unknown_scale(length)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Best:
    z: jax.Array
    psi: jax.Array
    number: jax.Array


def _cold(pair: PairClass, first: Placed, second: Placed, inside_1, inside_2, length, tolerance):
    """Dimensionless unknowns from up to 12 starts: rays from a point inside each body towards the other, then tilted ones.

    The first root with a gap >= 0 is the only one. Overlapping bodies may have several; the largest psi is kept.
    """
    unit = pair.unknown_scale(length)
    centre_1 = first.position + first.rotation @ inside_1
    centre_2 = second.position + second.rotation @ inside_2
    between = centre_2 - centre_1
    distance = jnp.linalg.norm(between)
    axis = jnp.where(distance > 0, between / jnp.where(distance > 0, distance, 1.0), jnp.eye(pair.dimension)[-1])
    tilts = _TILT * jax.random.normal(jax.random.key(0), (_TILTS, pair.dimension))
    tilts = jnp.concatenate([jnp.zeros((1, pair.dimension)), tilts])
    psi_at = 3 * pair.dimension

    def attempt(best: _Best) -> _Best:
        direction = axis + tilts[best.number]
        direction = direction / jnp.linalg.norm(direction)
        a1 = centre_1 + direction * leave(pair.first, first.theta, inside_1, first.rotation.T @ direction)
        a2 = centre_2 - direction * leave(pair.second, second.theta, inside_2, -second.rotation.T @ direction)
        solution = closest_points_from(pair, pair.start(a1, a2, first, second), first, second, length, tolerance)
        psi = jnp.where(solution.converged, solution.z[psi_at], -jnp.inf)
        # the first start is kept, converged or not, until a better one comes
        better = (psi > best.psi) | (best.number == 0)
        z = jnp.where(better, solution.z / unit, best.z)
        return _Best(z, jnp.where(better, psi, best.psi), best.number + 1)

    nothing = _Best(jnp.zeros(pair.unknowns), -jnp.inf * jnp.ones(()), jnp.zeros((), int))
    found = lax.while_loop(lambda best: (best.psi < -tolerance * length) & (best.number < _TILTS + 1), attempt, nothing)
    return found.z

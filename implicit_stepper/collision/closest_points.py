"""Closest points alone, at given poses: a public query, the starts of a step, and the gap where nothing else is unknown.

Always in the long form of the unknowns (`PairClass.general`), of which the short form is the beginning.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from shapes import Shape
from shapes.closest_points.conditions import ClosestPointRows, PairClass, Placed
from shapes.closest_points.surface import rough_interior_and_slope
from shapes.shards import varying_like

from ..model import checks, poses, rotation
from ..model.results import ClosestPointsError
from ..runtime.compilation import jit
from ..runtime.threads import one_blas_thread
from ..solvers.complementarity import fischer_burmeister
from ..solvers.newton import LEAST_DAMPING, Solution, largest, linearized, newton
from . import approach, separating_axes, unproved
from .vantage import vantage

_TOLERANCE = 1e-10
_ITERATIONS = 60
_STARTS = 12
_QUERY_TOLERANCE = 1e-13  # of the smaller body's size, on top of what round-off leaves
_ANGLE = 1e3
_STALLED_DAMPING = 1e-20  # a side of |u|^8 has a curvature of 1e-10 where its normal is exact to 1e-16
_STRAY = 0.05  # lengths of gap by which a root may be worse than its start
# Rounding of a point, relative to the length, is that of its coordinates; of its normal, that times the curvature.
ROUND_OFF = 16 * np.finfo(float).eps


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ClosestPoints:
    """Answer of `closest_points`, world frame; all fields may have leading batch axes.

    distance () [m], negative for overlapping bodies; point_1, point_2 (d,) [m] on the bodies; normal (d,) from body 1 to
    body 2, point_2 = point_1 + distance normal; active_1 (m1,), active_2 (m2,): which inequalities carry the normal;
    residual (): what the conditions lack, dimensionless, the smaller of each complementary pair or, if less, their
    products, whose sum bounds the error of the distance; converged (): whether that is within round-off. On faces and edges
    parallel within some 1e-8 rad the points may be others than the closest ones, as far apart as these but for that sum.
    The depth of overlapping bodies whose faces are all flat is the least one, outside of traced code. That of others is
    local: a root, and the least of those found, but `converged` does not prove that there is no lesser one.
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
    """Closest points of two convex bodies and their signed distance, Chakraborty (9) and (20)-(22), without a hint.

    A pose is (position (d,) [m], quaternion (4,), w first), in the plane (position, angle [rad]); positions and quaternions
    (or angles) with leading axes give that many answers. `vmap`, `jit` and derivatives in poses and in `shape.theta` work;
    where points are not unique (faces, parallel edges) the derivative of the distance is still right, that of the points is
    the shortest one. For overlapping bodies -distance is a penetration depth, the length of a translation along the common
    normal that parts them: the least of all where all faces are flat (see `separating_axes`) and neither poses nor
    parameters are traced, otherwise the least that was found from 12 starts.
    Raises `ValueError` for bad arguments and, outside traced code, `ClosestPointsError`, with all answers, when a pair is
    not proved. In traced code, and everywhere with `on_failure="return"`, ask `converged`.
    """
    checks.double_precision()
    if on_failure not in ("raise", "return"):
        raise ValueError(f"`on_failure` = {on_failure!r} must be 'raise' or 'return'.")
    for name, shape in (("shape_1", shape_1), ("shape_2", shape_2)):
        if not isinstance(shape, Shape):
            raise ValueError(f"`{name}` = {shape!r} must come from `shapes`, for instance shapes.Sphere(1.0).")
    if shape_1.dimension != shape_2.dimension:
        raise ValueError(f"`shape_2` has dimension {shape_2.dimension}, `shape_1` {shape_1.dimension}.")
    placed = [checks.pose(name, pose, shape_1.dimension) for name, pose in (("pose_1", pose_1), ("pose_2", pose_2))]
    pair = PairClass(shape_1.shape_class, shape_2.shape_class, eliminate=False)
    deepest = _deepest(shape_1, shape_2, *placed)
    answer = _query(pair, jnp.asarray(shape_1.theta), jnp.asarray(shape_2.theta), *placed, deepest)
    traced = isinstance(answer.converged, jax.core.Tracer)
    if on_failure == "raise" and not traced and not jnp.all(answer.converged):
        raise ClosestPointsError(unproved.message(answer, shape_1, shape_2), answer=answer)
    return answer


def _deepest(shape_1: Shape, shape_2: Shape, pose_1, pose_2) -> Deepest | None:
    """Of all poses, flattened, what `separating_axes` knows without a compiled program; None where it knows nothing."""
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
    """`closest_points` of checked arguments, over the poses' leading axes, of which `deepest` has one."""

    def one(arrays, deepest):
        return _pair_query(pair, theta_1, theta_2, arrays[:2], arrays[2:], deepest)

    arrays = (*pose_1, *pose_2)
    batch = jnp.broadcast_shapes(*(a.shape[:-1] for a in arrays))
    if not batch:
        return one(arrays, jax.tree.map(lambda a: a[0], deepest))
    return jax.tree.map(lambda a: a.reshape(batch + a.shape[1:]), one_by_one(one)(_flat(arrays), deepest))


def one_by_one(function):
    """`jax.vmap(function)`; but on a CPU one after the other: overlapping bodies need twelve times the work, which a `vmap`
    would do for all."""
    if jax.default_backend() != "cpu":
        return jax.vmap(function)
    return lambda *arguments: lax.map(lambda own: function(*own), arguments)


def _pair_query(pair: PairClass, theta_1, theta_2, pose_1, pose_2, deepest: Deepest | None) -> ClosestPoints:
    """One pair; derivatives by the implicit function theorem."""
    inside_1, slope_1, size_1 = rough_interior_and_slope(pair.first, lax.stop_gradient(theta_1))
    inside_2, slope_2, size_2 = rough_interior_and_slope(pair.second, lax.stop_gradient(theta_2))
    # Seen from body 1, so that bodies far from the origin lose nothing.
    first = Placed(theta_1, slope_1, jnp.zeros(pair.dimension), rotation.matrix(pose_1[1]))
    second = Placed(theta_2, slope_2, pose_2[0] - pose_1[0], rotation.matrix(pose_2[1]))
    length = jnp.minimum(size_1, size_2)
    unit = _unit(pair, length)

    def residual(z):
        return _residual(pair, first, second, length, z)

    def solve(_, start):
        frozen = lax.stop_gradient((first, second))
        return _cold(pair, *frozen, inside_1, inside_2, length, _QUERY_TOLERANCE, deepest)

    def tangent_solve(linear, right):
        # Points on a common face are free to move: the pseudo-inverse takes the shortest motion.
        jacobian = jax.jacfwd(linear)(jnp.zeros_like(right))
        return jnp.linalg.pinv(jacobian, rtol=1e-10) @ right

    nowhere = varying_like(jnp.zeros(pair.unknowns), (first, second))
    z, psi = lax.custom_root(residual, nowhere, solve, tangent_solve, has_aux=True)
    rows = pair.rows(z * unit, first, second, jnp.eye(pair.dimension)[0], length)
    left = lax.stop_gradient(jnp.minimum(largest(residual(z)), _unproved(_rows(pair, first, second, length, z))))
    active_1, active_2 = _active(pair, rows)
    g = rows.geometry
    points = pose_1[0] + g.a1, pose_1[0] + g.a2
    return ClosestPoints(g.psi, *points, g.n, active_1, active_2, left, psi > -jnp.inf)


def _active(pair: PairClass, rows):
    """Which inequalities (m1,), (m2,) carry: those whose multiplier exceeds their slack, and one with a support function."""
    carries, parts, at = rows.multipliers > rows.slacks, [], 0
    for side in (pair.first, pair.second):
        if side.support is None:
            parts.append(carries[at : at + side.count])
            at += side.count
        else:
            parts.append(jnp.ones(side.count, bool))
            at += sum(i is not None for i in side.sweep[: side.dimension])
    return parts


def _unit(pair: PairClass, length):
    """Units (unknowns,) of the long-form unknowns. That of normals and weights is large: where corners nearly touch, a
    normal changes residuals by gap / length, which must stand out against the least damping of a Newton step."""
    d = pair.dimension
    points, angles = jnp.full(2 * d, length), jnp.full(d, _ANGLE)
    return jnp.concatenate([points, angles, jnp.full(1, length), jnp.full(pair.first.count + pair.second.count, _ANGLE)])


def _rows(pair: PairClass, first: Placed, second: Placed, length, z) -> ClosestPointRows:
    """Closest-point conditions at dimensionless long-form unknowns z."""
    unused = jnp.eye(pair.dimension)[0]  # tangents do not enter the long form
    return pair.rows(z * _unit(pair, length), first, second, unused, length)


def _residual(pair: PairClass, first: Placed, second: Placed, length, z, kappa=0.0):
    """These conditions as roots, dimensionless; products of multipliers and slacks are to be kappa^2."""
    rows = _rows(pair, first, second, length, z)
    return jnp.concatenate([rows.equations, fischer_burmeister(rows.multipliers, rows.slacks, kappa)])


def _unproved(rows: ClosestPointRows):
    """By how much () points and multipliers miss those that prove a distance, in lengths: of complementary pairs that
    are not negative, it is the products that weak duality leaves open."""
    pairs = jnp.maximum(rows.multipliers * rows.slacks, jnp.maximum(-rows.multipliers, -rows.slacks))
    return jnp.maximum(largest(rows.equations), jnp.max(pairs, initial=0.0))


def closest_points_from(
    pair: PairClass,
    start,
    first: Placed,
    second: Placed,
    length,
    tolerance=_TOLERANCE,
    kappa=0.0,
    most=_ITERATIONS,
    damping=LEAST_DAMPING,
) -> Solution:
    """Closest points of one pair from `start`, long-form unknowns; `Solution.z` is the same, in metres.

    `length` [m] is the scale in which the tolerance is meant; `kappa` smooths complementarity, see `_residual`; `most`
    bounds the iterations; `damping` is the least one of Newton's method.
    """
    pair = pair.general
    unit = _unit(pair, length)
    residual = functools.partial(_residual, pair, first, second, length, kappa=kappa)
    solution = newton(linearized(residual), start / unit, tolerance=tolerance, max_iterations=most, damping=damping)
    return Solution(solution.z * unit, solution.residual, solution.iterations, solution.converged)


def are_closest(pair: PairClass, z, first: Placed, second: Placed, length, tolerance):
    """Whether () the long-form unknowns z, in metres, hold these conditions within the `tolerance`."""
    pair = pair.general
    return largest(_residual(pair, first, second, length, z / _unit(pair, length))) <= tolerance


def closest_points_near(pair: PairClass, start, first: Placed, second: Placed, length, tolerance):
    """Closest points near `start`, both long-form unknowns in metres, and whether they are found (): a root within the
    `tolerance`, or what proves the distance.

    Of faces and edges that are parallel within 1e-8 the root may be out of the reach of Newton's method, for what decides
    between their points is as small as that; from the same start it then keeps the products of multipliers and slacks.
    Of a face against a point without curvature, like the middle of a side of a superquadric, it is approached ever more
    slowly: from where it stalled, Newton's method goes on with less damping, and ends with what weak duality proves.
    """
    d, unit = pair.dimension, _unit(pair, length)
    rows = _rows(pair, first, second, length, start / unit)
    products = jnp.sqrt(jnp.maximum(rows.multipliers * rows.slacks, 0.0))

    def attempt(before, kind):
        solved, stalled, left = before
        kappa, damping = kind
        last = damping < LEAST_DAMPING
        most = jnp.where(solved, -1, _ITERATIONS)
        begin = jnp.where(last, stalled, start)
        solution = closest_points_from(pair, begin, first, second, length, tolerance, kappa, most, damping)
        reached = _unproved(_rows(pair, first, second, length, solution.z / unit))
        back = last & ~(reached < left)  # the same rows serve both: what is traced here, every first call waits for
        z, unproved = jnp.where(back, stalled, solution.z), jnp.where(back, left, reached)
        near = z[3 * d] > start[3 * d] - _STRAY * length  # Newton's method may have left for a worse root
        found = near & jnp.where(last | jnp.any(kappa > 0), unproved <= tolerance, solution.converged)
        stays = near & jnp.all(kappa == 0)
        return (solved | found, jnp.where(stays, z, stalled), jnp.where(stays, unproved, left)), (z, found)

    curved = all(side.count == 1 and side.support is None for side in (pair.first, pair.second))
    kappas = [0 * products] if curved else [0 * products, products]
    dampings = [LEAST_DAMPING] * len(kappas) + [_STALLED_DAMPING]
    kinds = jnp.stack([*kappas, 0 * products]), jnp.array(dampings)
    begun = varying_like((jnp.asarray(False), start, _unproved(rows)), (start, products))
    _, (z, found) = lax.scan(attempt, begun, kinds)
    any_found = jnp.any(found)
    return z[jnp.where(any_found, jnp.argmax(found), len(found) - 1)], any_found


def closest_points_query(pair: PairClass, unknowns, first: Placed, second: Placed, length):
    """A `PairClass.query` that solves the closest-point conditions, from `unknowns`, by Newton's method of its own; its
    derivatives are those of the implicit function theorem."""
    plain, unit = dataclasses.replace(pair, query=None), pair.unknown_scale(length)

    def conditions(z, first, second):
        rows = plain.rows(z * unit, first, second, jnp.eye(pair.dimension)[0], length)
        return jnp.concatenate([rows.equations, fischer_burmeister(rows.multipliers, rows.slacks)])

    def solve(_, start):
        frozen = lax.stop_gradient((first, second))
        residual = functools.partial(conditions, first=frozen[0], second=frozen[1])
        farthest = jnp.max(jnp.abs(jnp.concatenate([p.position for p in frozen]))) / length
        tolerance = _QUERY_TOLERANCE + ROUND_OFF * farthest
        return newton(linearized(residual), start, tolerance=tolerance, max_iterations=_ITERATIONS).z

    def tangent_solve(linear, right):
        return jnp.linalg.solve(jax.jacfwd(linear)(jnp.zeros_like(right)), right)

    start = lax.stop_gradient(unknowns / unit)
    return unit * lax.custom_root(functools.partial(conditions, first=first, second=second), start, solve, tangent_solve)


def closest_points_cold(pair: PairClass, first: Placed, second: Placed, inside_1, inside_2, length):
    """Long-form closest-point unknowns of one pair, without a hint; `inside_i` (d,): points inside, in shape coordinates."""
    general = pair.general
    z, _ = _cold(general, first, second, inside_1, inside_2, length, _TOLERANCE)
    return z * _unit(general, length)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Best:
    """The best root so far, the `number` of starts, and whether the first one showed the cores `apart`."""

    z: jax.Array
    psi: jax.Array
    number: jax.Array
    apart: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Deepest:
    """Where depths are known to be least: `directions` (k, d), from body 1 to body 2, and the least `depth` () [m] of all;
    see `separating_axes`."""

    directions: jax.Array
    depth: jax.Array


def _cold(pair: PairClass, first: Placed, second: Placed, inside_1, inside_2, length, tolerance, deepest=None):
    """Dimensionless unknowns and their psi, -inf unless they are a root to `tolerance` or to what round-off allows, from up
    to 12 starts: the bodies as they are, then parted along directions all around, those of `deepest` first.

    Where the bodies (the cores of rounded ones) are apart there is one root. Else there may be several; the largest psi is
    kept, and of `deepest`, which knows it, no other is taken.
    """
    unit, d = _unit(pair, length), pair.dimension
    inside_1, inside_2 = vantage(pair, first, second, inside_1, inside_2, length)
    between = second.position + second.rotation @ inside_2 - first.position - first.rotation @ inside_1
    distance = jnp.linalg.norm(between)
    axis = jnp.where(distance > 0, between / jnp.where(distance > 0, distance, 1.0), jnp.eye(d)[-1])
    known = jnp.zeros((0, d)) if deepest is None else deepest.directions
    directions = jnp.concatenate([axis[None], known, _around(d)[len(known) :] @ first.rotation.T])
    reach = jnp.maximum(jnp.linalg.norm(first.position), jnp.linalg.norm(second.position)) / length

    overlap = -_TOLERANCE * length
    enough = overlap - (0.0 if deepest is None else jnp.maximum(deepest.depth, 0.0))

    def core_gap(psi):
        return psi + pair.radii(first, second)

    def attempt(best: _Best) -> _Best:
        # parted by little more than the least depth so far: only a lesser one is of interest
        depth = jnp.where(best.number > 0, jnp.maximum(-core_gap(best.psi), 0.0) + length, 0.0)
        depth = jnp.where(jnp.isfinite(depth), depth, length)
        where = (first, second, inside_1, inside_2, length)
        start, bend = approach.start(pair, *where, directions[best.number], depth)
        allowed = jnp.minimum(tolerance + ROUND_OFF * (1 + reach) * (1 + bend), _TOLERANCE)
        apart = jnp.where(best.number == 0, core_gap(start[3 * d]) > -overlap, best.apart)
        found, solved = closest_points_near(pair, start, first, second, length, allowed)
        # bodies apart have roots with psi < 0 too, which are no distance
        psi = jnp.where(solved & (~apart | (core_gap(found[3 * d]) > overlap)), found[3 * d], -jnp.inf)
        # the first start is kept, converged or not, until a better one comes
        better = (psi > best.psi) | (best.number == 0)
        new, old = (found / unit, psi), (best.z, best.psi)
        return _Best(*jax.tree.map(lambda a, b: jnp.where(better, a, b), new, old), best.number + 1, apart)

    nothing = _Best(jnp.zeros(pair.unknowns), -jnp.inf * jnp.ones(()), jnp.zeros((), int), jnp.asarray(False))
    nothing = varying_like(nothing, (first, second))
    found = lax.while_loop(lambda best: (core_gap(best.psi) < enough) & (best.number < _STARTS), attempt, nothing)
    if deepest is None:
        return found.z, found.psi
    return found.z, jnp.where(core_gap(found.psi) < enough, -jnp.inf, found.psi)


def _around(d: int) -> np.ndarray:
    """`_STARTS` - 1 unit vectors (.., d) spread evenly: on the circle, or along a spiral on the sphere."""
    steps = np.arange(_STARTS - 1) + 0.5
    if d == 2:
        angles = 2 * np.pi * steps / len(steps)
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)
    heights, angles = 1 - 2 * steps / len(steps), np.pi * (1 + np.sqrt(5)) * steps
    across = np.sqrt(1 - heights**2)
    return np.stack([across * np.cos(angles), across * np.sin(angles), heights], axis=1)

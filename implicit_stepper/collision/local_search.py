"""Closest points near a start, by Newton's method on their conditions alone; also as the gap of a
step by function call.

Always in the long form of the unknowns (`PairClass.general`), of which the short form is the
beginning.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from shapes.closest_points.conditions import ClosestPointRows, PairClass, Placed
from shapes.shards import varying_like

from ..solvers.complementarity import fischer_burmeister
from ..solvers.implicit_function import root
from ..solvers.linear import lu_factors, lu_solve
from ..solvers.newton import LEAST_DAMPING, Solution, largest, linearized, newton

TOLERANCE = 1e-10
QUERY_TOLERANCE = 1e-13  # of the smaller body's size, on top of what round-off leaves
# Rounding of a point, relative to the length, is that of its coordinates; of its normal, that times
# the curvature.
ROUND_OFF = 16 * np.finfo(float).eps
_ITERATIONS = 60
_ANGLE = 1e3
# a side of |u|^8 has a curvature of 1e-10 where its normal is exact to 1e-16
_STALLED_DAMPING = 1e-20
# by which bodies bend away from their points, in lengths: of faces that are parallel within 1e-12 a
# derivative that is damped or bent by more knows no end
_BENT = 1e-13
_UNDAMPED = 24  # such iterations at most where others find none
_STRAY = 0.05  # lengths of gap by which a root may be worse than its start


def units(pair: PairClass, length):
    """Units (unknowns,) of the long-form unknowns. That of normals and weights is large: where
    corners nearly touch, a normal changes residuals by gap / length, which must stand out against
    the least damping of a Newton step."""
    d = pair.dimension
    points, angles = jnp.full(2 * d, length), jnp.full(d, _ANGLE)
    return jnp.concatenate([points, angles, jnp.full(1, length), jnp.full(pair.first.count + pair.second.count, _ANGLE)])


def conditions_at(pair: PairClass, first: Placed, second: Placed, length, z) -> ClosestPointRows:
    """Closest-point conditions at dimensionless long-form unknowns z."""
    unused = jnp.eye(pair.dimension)[0]  # tangents do not enter the long form
    return pair.rows(z * units(pair, length), first, second, unused, length)


def roots(pair: PairClass, first: Placed, second: Placed, length, z, kappa=0.0):
    """These conditions as roots, dimensionless; products of multipliers and slacks are to be
    kappa^2."""
    rows = conditions_at(pair, first, second, length, z)
    return jnp.concatenate([rows.equations, fischer_burmeister(rows.multipliers, rows.slacks, kappa)])


def open_part(rows: ClosestPointRows):
    """By how much () points and multipliers miss those that prove a distance, in lengths: of
    complementary pairs that are not negative, it is the products that weak duality leaves open."""
    pairs = jnp.maximum(rows.multipliers * rows.slacks, jnp.maximum(-rows.multipliers, -rows.slacks))
    return jnp.maximum(largest(rows.equations), jnp.max(pairs, initial=0.0))


def closest_points_from(
    pair: PairClass,
    start,
    first: Placed,
    second: Placed,
    length,
    tolerance=TOLERANCE,
    kappa=0.0,
    most=_ITERATIONS,
    damping=LEAST_DAMPING,
) -> Solution:
    """Closest points of one pair from `start`, long-form unknowns; `Solution.z` is the same, in
    metres.

    `length` [m] is the scale in which the tolerance is meant; `kappa` smooths complementarity, see
    `roots`; `most` bounds the iterations; `damping` is the least one of Newton's method.
    """
    pair = pair.general
    unit = units(pair, length)
    residual = functools.partial(roots, pair, first, second, length, kappa=kappa)
    solution = newton(linearized(residual), start / unit, tolerance=tolerance, max_iterations=most, damping=damping)
    return Solution(solution.z * unit, solution.residual, solution.iterations, solution.converged)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Near:
    """The next z of a pair, the best one so far, which misses its conditions by `least` (), after
    `count` of them; whether that is all."""

    z: jax.Array
    best: jax.Array
    least: jax.Array
    count: jax.Array
    done: jax.Array


def undamped(pair: PairClass, start, first: Placed, second: Placed, length, enough, most):
    """Closest points of one pair of bodies that are apart, long-form unknowns in metres, by `most`
    undamped iterations from `start`, once more after they miss the conditions by no more than
    `enough` (); and by how much they do.

    Between faces and edges that are all but parallel a closest point lies at an end. The derivative
    along a face is zero to rounding there, so that damped iterations stay where they are; with
    bodies that bend by `_BENT` the first iteration leaves the face, and the complementarity of its
    end does the rest.
    """
    unit = units(pair, length)
    residual = linearized(functools.partial(roots, pair, first, second, length))
    bend = _BENT * pair.curvatures(len(unit))

    def follow(at: _Near) -> _Near:
        F, J = residual(at.z)
        size = largest(F)
        best, least = jnp.where(size < at.least, at.z, at.best), jnp.where(size < at.least, size, at.least)
        z = at.z - lu_solve(*lu_factors(J + bend), F)
        return _Near(z, best, least, at.count + 1, at.least <= enough)

    begun = _Near(start / unit, start / unit, jnp.asarray(jnp.inf), jnp.zeros((), int), jnp.asarray(False))
    begun = varying_like(begun, (first, second, start))
    end = lax.while_loop(lambda at: ~at.done & (at.count < most), follow, begun)
    return end.best * unit, end.least


def at_closest(pair: PairClass, found, first: Placed, second: Placed, length):
    """Closest points of one pair that were `found`, long-form unknowns in metres, with their
    derivatives by both bodies."""
    pair = pair.general
    unit = units(pair, length)
    return root(*_rows_of(pair), (first, second, length), found / unit) * unit


@functools.lru_cache(maxsize=256)
def _rows_of(pair: PairClass) -> tuple[Callable, Callable]:
    """What `implicit_function.root` asks for, the same functions for the same pair."""

    def residual(placed, z):
        return roots(pair, *placed, z)

    return residual, lambda placed, z: linearized(functools.partial(residual, placed))(z)


def are_closest(pair: PairClass, z, first: Placed, second: Placed, length, tolerance):
    """Whether () the long-form unknowns z, in metres, hold these conditions within the
    `tolerance`."""
    pair = pair.general
    return largest(roots(pair, first, second, length, z / units(pair, length))) <= tolerance


@functools.partial(jax.jit, static_argnums=0)  # one trace for all scenes with such a pair
def closest_points_near(pair: PairClass, start, first: Placed, second: Placed, length, tolerance):
    """Closest points near `start`, both long-form unknowns in metres, and whether they are found
    (): a root within the `tolerance`, or what proves the distance.

    Of faces and edges that are parallel within 1e-8 the root may be out of the reach of Newton's
    method, for what decides between their points is as small as that; from the same start it then
    keeps the products of multipliers and slacks. Of a face against a point without curvature, like
    the middle of a side of a superquadric, it is approached ever more slowly: from where it
    stalled, Newton's method goes on with less damping, and ends with what weak duality proves.
    """
    unit = units(pair, length)
    rows = conditions_at(pair, first, second, length, start / unit)
    products, missed = jnp.sqrt(jnp.maximum(rows.multipliers * rows.slacks, 0.0)), open_part(rows)

    def attempt(before, kind):
        solved, stalled, left = before
        kappa, damping = kind
        last = damping < LEAST_DAMPING
        most = jnp.where(solved, -1, _ITERATIONS)
        begin = jnp.where(last, stalled, start)
        solution = closest_points_from(pair, begin, first, second, length, tolerance, kappa, most, damping)
        reached = open_part(conditions_at(pair, first, second, length, solution.z / unit))
        # the same rows serve both: what is traced here, every first call waits for
        back = last & ~(reached < left)
        z, unproved = jnp.where(back, stalled, solution.z), jnp.where(back, left, reached)
        near = _not_worse(pair, z, start, missed, length)
        found = near & jnp.where(last | jnp.any(kappa > 0), unproved <= tolerance, solution.converged)
        stays = near & jnp.all(kappa == 0)
        return (solved | found, jnp.where(stays, z, stalled), jnp.where(stays, unproved, left)), (z, found)

    curved = all(side.count == 1 and side.support is None for side in (pair.first, pair.second))
    kappas = [0 * products] if curved else [0 * products, products]
    dampings = [LEAST_DAMPING] * len(kappas) + [_STALLED_DAMPING]
    kinds = jnp.stack([*kappas, 0 * products]), jnp.array(dampings)
    begun = varying_like((jnp.asarray(False), start, missed), (start, products))
    _, (z, found) = lax.scan(attempt, begun, kinds)
    any_found = jnp.any(found)
    return z[jnp.where(any_found, jnp.argmax(found), len(found) - 1)], any_found


def _not_worse(pair: PairClass, z, start, missed, length):
    """Whether () Newton's method has not left for a root z worse by more than the `start` `missed`
    the bodies, in lengths."""
    gap = 3 * pair.dimension
    return z[gap] > start[gap] - (_STRAY + 2 * missed) * length


@functools.partial(jax.jit, static_argnums=0)
def closest_points_along_faces(pair: PairClass, start, first: Placed, second: Placed, length, tolerance):
    """`closest_points_near` of bodies that are apart, one of which has faces or edges. Where these
    turned through being parallel their points jumped from end to end: where others found none,
    `undamped` iterations follow."""
    z, found = closest_points_near(pair, start, first, second, length, tolerance)
    other, misses = undamped(pair, start, first, second, length, tolerance, jnp.where(found, 0, _UNDAMPED))
    missed = open_part(conditions_at(pair, first, second, length, start / units(pair, length)))
    jumped = ~found & (misses <= tolerance) & _not_worse(pair, other, start, missed, length)
    return jnp.where(jumped, other, z), found | jumped


def closest_points_query(pair: PairClass, unknowns, first: Placed, second: Placed, length):
    """A `PairClass.query` that solves the closest-point conditions, from `unknowns`, by Newton's
    method of its own; its derivatives are those of the implicit function theorem."""
    plain, unit = dataclasses.replace(pair, query=None), pair.unknown_scale(length)

    def conditions(z, first, second):
        rows = plain.rows(z * unit, first, second, jnp.eye(pair.dimension)[0], length)
        return jnp.concatenate([rows.equations, fischer_burmeister(rows.multipliers, rows.slacks)])

    def solve(_, start):
        frozen = lax.stop_gradient((first, second))
        residual = functools.partial(conditions, first=frozen[0], second=frozen[1])
        farthest = jnp.max(jnp.abs(jnp.concatenate([p.position for p in frozen]))) / length
        tolerance = QUERY_TOLERANCE + ROUND_OFF * farthest
        return newton(linearized(residual), start, tolerance=tolerance, max_iterations=_ITERATIONS).z

    def tangent_solve(linear, right):
        return jnp.linalg.solve(jax.jacfwd(linear)(jnp.zeros_like(right)), right)

    start = lax.stop_gradient(unknowns / unit)
    return unit * lax.custom_root(functools.partial(conditions, first=first, second=second), start, solve, tangent_solve)

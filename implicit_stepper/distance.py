"""Closest points alone, at given poses: the starts of a step, and the gap where nothing else is unknown.

Always in the long form of the unknowns (`PairClass.general`), of which the short form is the beginning.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from shapes.closest_points import Placed

from . import ncp
from .complementarity import fischer_burmeister
from .newton import Solution, newton
from .system import ContactGroup

_TOLERANCE = 1e-10
_ITERATIONS = 60
_TILTS = 11  # cold starts besides the line of centres
_TILT = 0.5  # how far they lean from it: enough to leave a ridge or an axis of symmetry


def closest_points(member: ContactGroup, start, length, motion_1: ncp.Motion, motion_2: ncp.Motion) -> Solution:
    """Closest points of one contact from `start`, unknowns of `PairClass.general`; `Solution.z` is the same, in metres.

    `length` [m] is the scene's scale, in which the tolerance of 1e-10 is meant.
    """
    pair = member.pair.general
    unit = pair.unknown_scale(length)
    placed = ncp.placed(member, motion_1, motion_2)
    unused = jnp.eye(pair.dimension)[0]  # tangents do not enter the long form

    def residual(z):
        kkt = pair.rows(z * unit, *placed, unused, length)
        return jnp.concatenate([kkt.equations, fischer_burmeister(kkt.multipliers, kkt.slacks)])

    solution = newton(residual, jax.jacfwd(residual), start / unit, tolerance=_TOLERANCE, max_iterations=_ITERATIONS)
    return Solution(solution.z * unit, solution.residual, solution.iterations, solution.converged)


def closest_points_cold(member: ContactGroup, length, motion_1: ncp.Motion, motion_2: ncp.Motion):
    """Closest-point unknowns (`PairClass.general`) of one contact, without a hint.

    Rays from an interior point of each body towards the other, and some tilted ones, are the starts; of the roots the one
    with the largest signed gap is kept. It is unique for bodies apart, and the shallowest found for overlapping ones.
    """
    pair = member.pair.general
    first, second = ncp.placed(member, motion_1, motion_2)
    inside_1 = first.position + first.rotation @ member.interior_1
    inside_2 = second.position + second.rotation @ member.interior_2
    between = inside_2 - inside_1
    distance = jnp.linalg.norm(between)
    axis = jnp.where(distance > 0, between / jnp.where(distance > 0, distance, 1.0), jnp.eye(pair.dimension)[-1])
    psi_at = 3 * pair.dimension

    def attempt(tilt):
        direction = (axis + tilt) / jnp.linalg.norm(axis + tilt)
        a1 = _leave(pair.first, first, inside_1, direction, length)
        a2 = _leave(pair.second, second, inside_2, -direction, length)
        solution = closest_points(member, pair.start(a1, a2, first, second), length, motion_1, motion_2)
        return solution.z, jnp.where(solution.converged, solution.z[psi_at], -jnp.inf)

    tilts = _TILT * jax.random.normal(jax.random.key(0), (_TILTS, pair.dimension))
    closest, psi = jax.lax.map(attempt, jnp.concatenate([jnp.zeros((1, pair.dimension)), tilts]))
    return closest[jnp.argmax(psi)]


def _leave(shape_class, placed: Placed, inside, direction, length):
    """Where the ray from a point `inside` (d,) leaves the body, by bisection; a point far away if it never does."""
    far = 1e3 * length

    def halve(_, bounds):
        near, far = bounds
        middle = (near + far) / 2
        is_inside = jnp.max(placed.value(shape_class, inside + middle * direction)) < 0
        return jnp.where(is_inside, middle, near), jnp.where(is_inside, far, middle)

    near, _ = jax.lax.fori_loop(0, 50, halve, (jnp.zeros_like(far), far))
    return inside + near * direction

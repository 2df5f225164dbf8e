"""Closest points alone, at given poses: the starts of a step, and the gap where nothing else is unknown."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from shapes.closest_points import Placed

from . import ncp, rotation
from .complementarity import fischer_burmeister
from .newton import Solution, newton
from .scene import ContactGroup

_TOLERANCE = 1e-10
_ITERATIONS = 60
_TILTS = 7  # cold starts besides the line of centres
_TILT = 0.4  # how far they lean from it; enough to leave a ridge or the axis of symmetry


def closest_points(member: ContactGroup, start, reference, length, motion_1: ncp.Motion, motion_2: ncp.Motion) -> Solution:
    """Closest-point unknowns of one contact (`Solution.z`, dimensionless in `PairClass.unknown_scale`) from a start in the
    same units. `length` [m] is the scene's scale, in which the tolerance of 1e-10 is meant."""
    unit = member.pair.unknown_scale(length)

    def residual(z):
        kkt = ncp.geometry_rows(member, z * unit, reference, length, motion_1, motion_2)
        return jnp.concatenate([kkt.equations, fischer_burmeister(kkt.multipliers, kkt.slacks)])

    return newton(residual, jax.jacfwd(residual), start, tolerance=_TOLERANCE, max_iterations=_ITERATIONS)


def closest_points_cold(member: ContactGroup, length, motion_1: ncp.Motion, motion_2: ncp.Motion):
    """Closest-point unknowns (dimensional) of one contact without a hint, and a tangent reference (d,).

    Rays from an interior point of each body towards the other, and some tilted ones, are the starts; of the roots the one
    with the largest signed gap is kept. It is unique for bodies apart, and the shallowest found for overlapping ones.
    """
    placed_1, placed_2 = (
        Placed(theta, slope, m.position, rotation.matrix(m.orientation))
        for theta, slope, m in (
            (member.theta_1, member.slope_1, motion_1),
            (member.theta_2, member.slope_2, motion_2),
        )
    )
    inside_1 = placed_1.position + placed_1.rotation @ member.interior_1
    inside_2 = placed_2.position + placed_2.rotation @ member.interior_2
    between = inside_2 - inside_1
    distance = jnp.linalg.norm(between)
    axis = jnp.where(distance > 0, between / jnp.where(distance > 0, distance, 1.0), jnp.eye(between.size)[-1])
    unit = member.pair.unknown_scale(length)

    def attempt(tilt):
        direction = (axis + tilt) / jnp.linalg.norm(axis + tilt)
        reference = jnp.eye(direction.size)[jnp.argmin(jnp.abs(direction))]
        a1 = _leave(member.pair.first, placed_1, inside_1, direction, length)
        a2 = _leave(member.pair.second, placed_2, inside_2, -direction, length)
        start = member.pair.start(a1, a2, placed_1, placed_2)
        solution = closest_points(member, start / unit, reference, length, motion_1, motion_2)
        closest = solution.z * unit
        geometry = ncp.geometry_rows(member, closest, reference, length, motion_1, motion_2).geometry
        return closest, geometry.tangents[0], jnp.where(solution.converged, geometry.psi, -jnp.inf)

    tilts = _TILT * jax.random.normal(jax.random.key(0), (_TILTS, axis.size))
    closest, reference, psi = jax.vmap(attempt)(jnp.concatenate([jnp.zeros((1, axis.size)), tilts]))
    best = jnp.argmax(psi)
    return closest[best], reference[best]


def _leave(shape_class, placed: Placed, inside, direction, length):
    """Where the ray from a point `inside` (d,) leaves the body, by bisection; a point far away if it never does."""
    far = 1e3 * length

    def halve(_, bounds):
        near, far = bounds
        middle = (near + far) / 2
        is_inside = jnp.max(placed.value(shape_class, inside + middle * direction)) < 0
        return jnp.where(is_inside, middle, near), jnp.where(is_inside, far, middle)

    near, far = jax.lax.fori_loop(0, 50, halve, (jnp.zeros_like(far), far))
    return inside + near * direction

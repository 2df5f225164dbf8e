"""How closest points and normals move with two bodies: Montana's equations of rolling contact
(1988), here at any gap.

With n the unit normal from body 1 to body 2, T its tangents as columns, K_i = T^T Hess f_i T /
|grad f_i| the curvatures and xdot_i how fast the closest points wander over the bodies, in tangent
coordinates:

    T^T ndot     = T^T (omega_1 x n) + K_1 xdot_1 = T^T (omega_2 x n) - K_2 xdot_2
    T^T (v_2 - v_1) + xdot_2 - xdot_1 = psi T^T ndot

with v_i the velocity of the body at its closest point. In the plane omega x n is omega times n
turned by 90 degrees.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp

from shapes.closest_points.conditions import ContactGeometry, Placed, tangents
from shapes.shape_class import ShapeClass
from shapes.small_algebra import inner

from ..constraints import contact, kinematics
from ..constraints.conditions import Constraint
from ..constraints.kinematics import Motion
from ..model import rotation


def geometry_rates(member: Constraint, geometry: ContactGeometry, motion_1: Motion, motion_2: Motion):
    """Rates (d,) of a1 and a2 [m/s] and of n [rad/s] of one contact between bodies of one smooth
    inequality each."""
    first, second = kinematics.placed(member, motion_1, motion_2)
    T, n, d = geometry.tangents, geometry.n, geometry.n.shape[0]
    K_1 = _curvature(member.pair.first, first, geometry.a1, T)
    K_2 = _curvature(member.pair.second, second, geometry.a2, T)
    v_1 = rotation.point_velocity(motion_1.velocity, geometry.a1 - motion_1.position)
    v_2 = rotation.point_velocity(motion_2.velocity, geometry.a2 - motion_2.position)
    turn_1, turn_2 = (T @ _turned(motion.velocity, n) for motion in (motion_1, motion_2))
    one = jnp.eye(d - 1)
    matrix = jnp.block([[K_1, K_2], [-one - geometry.psi * K_1, one]])
    right = jnp.concatenate([turn_2 - turn_1, geometry.psi * turn_1 - T @ (v_2 - v_1)])
    wander_1, wander_2 = jnp.split(jnp.linalg.solve(matrix, right), 2)
    return v_1 + wander_1 @ T, v_2 + wander_2 @ T, (turn_1 + K_1 @ wander_1) @ T


def predicted(member: Constraint, geometry: ContactGeometry, motion_1: Motion, motion_2: Motion, h) -> ContactGeometry:
    """The geometry of one contact after h [s], to first order."""
    rate_1, rate_2, turning = geometry_rates(member, geometry, motion_1, motion_2)
    n = geometry.n + h * turning
    n = n / jnp.linalg.norm(n)
    approach = inner(geometry.n, rate_2 - rate_1)
    after = kinematics.moved(motion_1, motion_1.velocity, h)
    return dataclasses.replace(
        geometry,
        a1=geometry.a1 + h * rate_1,
        a2=geometry.a2 + h * rate_2,
        n=n,
        tangents=tangents(n, contact.along(member, after, geometry.tangents[0])),
        psi=geometry.psi + h * approach,
    )


def _curvature(shape_class: ShapeClass, placed: Placed, point, T):
    """K (d-1, d-1) [1/m] at a point (d,) of the surface."""
    core = placed.rotation.T @ (point - placed.position)
    gradient = shape_class.jet.gradient(core, placed.theta)[0]
    hessian = shape_class.jet.hessian(core, placed.theta)[0]
    across = T @ placed.rotation
    return across @ hessian @ across.T / jnp.linalg.norm(gradient)


def _turned(velocity, n):
    """omega x n (d,)."""
    if n.shape == (2,):
        return velocity[2] * jnp.stack([-n[1], n[0]])
    return jnp.cross(velocity[3:], n)


def smooth(member_classes: tuple[ShapeClass, ShapeClass]) -> bool:
    """Whether both bodies have one inequality of finite curvature and no rounding: what these
    equations need."""
    return all(side.count == 1 and side.support is None and not side.rounded for side in member_classes)

"""Rotations in the plane (one angle [rad], turning by +) and in space (unit quaternion, w first),
with one set of names.

The last axis of `orientation` tells which: 1 in the plane, 4 in space. Angular velocities have 1 or
3 components and are given in the inertial frame.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from shapes.small_algebra import CROSS, bilinear, cross, inner

# Below this squared half-angle the series of sin(a)/a to a^4 is exact to round-off: the next term
# is a^6/5040.
_SERIES = 1e-5

# The bilinear forms p q of quaternions, and R(q) - 1 = 2 (w [v]x + v v^T - v.v 1) of q = (w, v).
_PRODUCT = np.zeros((4, 4, 4))
_PRODUCT[0], _PRODUCT[1:, 1:, 1:] = np.diag([1.0, -1.0, -1.0, -1.0]), CROSS
_PRODUCT[1:, 0, 1:] = _PRODUCT[1:, 1:, 0] = np.eye(3)
_ROTATION = np.zeros((3, 3, 4, 4))
_ROTATION[:, :, 0, 1:] = -2 * CROSS
_ROTATION[:, :, 1:, 1:] = 2 * np.einsum("ik,jl->ijkl", np.eye(3), np.eye(3))
_ROTATION[[0, 1, 2], [0, 1, 2], 1:, 1:] -= 2 * np.eye(3)


def matrix(orientation):
    """Rotation matrix (d, d) from body to world, for a unit quaternion."""
    if orientation.shape[-1] == 1:
        c, s = jnp.cos(orientation[0]), jnp.sin(orientation[0])
        return jnp.stack([jnp.stack([c, -s]), jnp.stack([s, c])])
    return np.eye(3) + bilinear(_ROTATION, orientation, orientation)


def advance(orientation, turn):
    """exp(turn) applied after `orientation`: `turn` (1,) or (3,) [rad] is a rotation vector in the
    inertial frame.

    The exponential map keeps the quaternion on the unit sphere, which q + h G nu of Chakraborty (4)
    does not.
    """
    if orientation.shape[-1] == 1:
        return orientation + turn
    half = turn / 2
    sinc, cosine = _waves(inner(half, half))
    return multiply(jnp.concatenate([cosine[None], sinc * half]), orientation)


@jax.custom_jvp
def _waves(squared):
    """sin(a) / a and cos(a) of a^2."""
    angle = jnp.sqrt(squared)
    return jnp.where(angle > 0, jnp.sin(angle) / jnp.where(angle > 0, angle, 1.0), 1.0), jnp.cos(angle)


@_waves.defjvp
def _waves_jvp(primals, tangents):
    (squared,), (change,) = primals, tangents
    sinc, cosine = _waves(squared)
    small = squared < _SERIES
    series = squared * (1 / 60 - squared / 1680) - 1 / 6
    slope = jnp.where(small, series, (cosine - sinc) / (2 * jnp.where(small, 1.0, squared)))
    return (sinc, cosine), (slope * change, -sinc / 2 * change)


def multiply(p, q):
    """Quaternion product p q (4,): the rotation q followed by p."""
    return bilinear(_PRODUCT, p, q)


def small_turn(orientation):
    """(1,) or (3,) [rad]: 0, with the angular velocity as its derivative in time, of which the
    first alone means anything: no function of orientations in space has it at all of them."""
    here = lax.stop_gradient(orientation)
    if orientation.shape[-1] == 1:
        return orientation - here
    return 2 * multiply(orientation, jnp.concatenate([here[:1], -here[1:]]))[1:]


def small_move(position, orientation):
    """(6,) or (3,) [m, rad]: 0, with the velocity as its derivative in time, as `small_turn`."""
    return jnp.concatenate([position - lax.stop_gradient(position), small_turn(orientation)])


def unit(orientation):
    """Removes the round-off that products of unit quaternions gather; an angle is returned as it
    is."""
    if orientation.shape[-1] == 1:
        return orientation
    return orientation / jnp.linalg.norm(orientation, axis=-1, keepdims=True)


def moment(r, force):
    """r x force: (3,) in space, (1,) in the plane."""
    if r.shape == (2,):
        return (r[0] * force[1] - r[1] * force[0])[None]
    return cross(r, force)


def point_velocity(velocity, r):
    """Velocity (d,) [m/s] of the material point at r (d,) from the centre of a body with `velocity`
    (linear, angular)."""
    d = r.shape[0]
    linear, angular = velocity[:d], velocity[d:]
    if d == 2:
        return linear + angular[0] * jnp.stack([-r[1], r[0]])
    return linear + cross(angular, r)


def angular_velocity(turn, rate):
    """Angular velocity (3,) or (1,) in the inertial frame of exp(turn) Q while `turn` changes at
    `rate`: dexp(turn) rate."""
    if turn.shape == (1,):
        return rate
    squared = inner(turn, turn)
    small = squared < _SERIES
    angle = jnp.sqrt(jnp.where(small, 1.0, squared))
    cosine = jnp.where(small, 0.5 * (1 - squared / 12 * (1 - squared / 30)), (1 - jnp.cos(angle)) / angle**2)
    sine = jnp.where(small, (1 - squared / 20 * (1 - squared / 42)) / 6, (angle - jnp.sin(angle)) / angle**3)
    across = cross(turn, rate)
    return rate + cosine * across + sine * cross(turn, across)

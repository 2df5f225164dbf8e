"""Rotations in the plane (one angle [rad], turning by +) and in space (unit quaternion, w first), with one set of names.

The last axis of `orientation` tells which: 1 in the plane, 4 in space. Angular velocities have 1 or 3 components and are
given in the inertial frame.
"""

from __future__ import annotations

import jax.numpy as jnp

# Below this squared half-angle the series of sin(a)/a to a^4 is exact to round-off: the next term is a^6/5040.
_SERIES = 1e-5


def matrix(orientation):
    """Rotation matrix (d, d) from body to world."""
    if orientation.shape[-1] == 1:
        c, s = jnp.cos(orientation[0]), jnp.sin(orientation[0])
        return jnp.stack([jnp.stack([c, -s]), jnp.stack([s, c])])
    w, x, y, z = orientation
    return jnp.stack(
        [
            jnp.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)]),
            jnp.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)]),
            jnp.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]),
        ]
    )


def advance(orientation, turn):
    """exp(turn) applied after `orientation`: `turn` (1,) or (3,) [rad] is a rotation vector in the inertial frame.

    The exponential map keeps the quaternion on the unit sphere, which q + h G nu of Chakraborty (4) does not.
    """
    if orientation.shape[-1] == 1:
        return orientation + turn
    half = turn / 2
    squared = jnp.dot(half, half)
    small = squared < _SERIES
    angle = jnp.sqrt(jnp.where(small, 1.0, squared))
    sinc = jnp.where(small, 1 - squared / 6 * (1 - squared / 20), jnp.sin(angle) / angle)
    cosine = jnp.where(small, 1 - squared / 2 * (1 - squared / 12 * (1 - squared / 30)), jnp.cos(angle))
    return multiply(jnp.concatenate([cosine[None], sinc * half]), orientation)


def multiply(p, q):
    """Quaternion product p q (4,): the rotation q followed by p."""
    pw, px, py, pz = p
    qw, qx, qy, qz = q
    return jnp.stack(
        [
            pw * qw - px * qx - py * qy - pz * qz,
            pw * qx + px * qw + py * qz - pz * qy,
            pw * qy - px * qz + py * qw + pz * qx,
            pw * qz + px * qy - py * qx + pz * qw,
        ]
    )


def unit(orientation):
    """Removes the round-off that products of unit quaternions gather; an angle is returned as it is."""
    if orientation.shape[-1] == 1:
        return orientation
    return orientation / jnp.linalg.norm(orientation, axis=-1, keepdims=True)


def moment(r, force):
    """r x force: (3,) in space, (1,) in the plane."""
    if r.shape == (2,):
        return (r[0] * force[1] - r[1] * force[0])[None]
    return jnp.cross(r, force)


def point_velocity(velocity, r):
    """Velocity (d,) [m/s] of the material point at r (d,) from the centre of a body with `velocity` (linear, angular)."""
    d = r.shape[0]
    linear, angular = velocity[:d], velocity[d:]
    if d == 2:
        return linear + angular[0] * jnp.stack([-r[1], r[0]])
    return linear + jnp.cross(angular, r)


def angular_velocity(turn, rate):
    """Angular velocity (3,) or (1,) in the inertial frame of exp(turn) Q while `turn` changes at `rate`: dexp(turn) rate."""
    if turn.shape == (1,):
        return rate
    squared = jnp.dot(turn, turn)
    small = squared < _SERIES
    angle = jnp.sqrt(jnp.where(small, 1.0, squared))
    cosine = jnp.where(small, 0.5 * (1 - squared / 12 * (1 - squared / 30)), (1 - jnp.cos(angle)) / angle**2)
    sine = jnp.where(small, (1 - squared / 20 * (1 - squared / 42)) / 6, (angle - jnp.sin(angle)) / angle**3)
    across = jnp.cross(turn, rate)
    return rate + cosine * across + sine * jnp.cross(turn, across)

"""What a step leaves open of turns: those that gears and screws skip, and angles in space past half a turn,
where they begin anew, of springs and limits."""

from __future__ import annotations

import jax.numpy as jnp

from . import joint_frames
from .coordinates import Away, Beyond
from .gears import Gear

WITHIN = "angle within half a turn"  # a violation's name
_NOT_STRAIGHT = 0.05  # of the way of an angle in a step: what its last rate may tell of it too little
_OF_A_PITCH = 0.25  # the least slip of a gear or a screw in a step that its closure would not tell


def skips(member, rates, h):
    """1 () where a joint is a gear or a screw that moves further in a step of h [s], at the `rates`
    (k,) [rad/s, m/s] of its closure, than this could tell, as it would where a tooth, or a turn of
    the thread, is skipped, else 0."""
    if isinstance(member.closure, Gear):
        pitch = member.closure.pitch(member.parameters)
    elif member.closure is joint_frames.screw:
        pitch = 2 * jnp.pi  # of the last row
    else:
        return jnp.zeros(())
    return jnp.where(jnp.abs(rates[-1] * h) > _OF_A_PITCH * pitch, 1.0, 0.0)


def winds(member, g, rates, since):
    """1 () where the angle in space of a spring or a limit, whose closure is `g` (1,) and changes at the `rates` (1,), may
    have turned past half a turn `since` () [s], where it begins anew, else 0."""
    turned = member.closure.turned(member.parameters, g[0]) if isinstance(member.closure, Away | Beyond) else None
    if turned is None:
        return jnp.zeros(())
    sign = member.closure.sign if isinstance(member.closure, Beyond) else 1.0
    way = sign * rates[0] * since
    return jnp.where(jnp.abs(turned - way) + _NOT_STRAIGHT * jnp.abs(way) > jnp.pi, 1.0, 0.0)

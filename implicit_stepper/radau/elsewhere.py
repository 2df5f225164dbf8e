"""Whether bodies that touch in edges or faces meet at other points of these than the closest ones
that were found.

Of parallel edges every point is closest, and an impact at one of them leaves the bodies turning
into each other or apart. The gap a moment after it, with the velocities that it left, tells.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints import kinematics
from ..model import bodies, rotation
from ..model.bodies import State
from ..model.system import System, compliant, in_user_order
from ..runtime.compilation import jit
from ..stepping.stepper import closest_points

_MOMENT = 1e-7  # of sqrt(L / g)
_TOUCHING = 1e-8  # of the scene's length
_SUDDEN = 3.0  # of what gravity and spin change a speed by in that moment
_BEYOND = 1.001  # of the way to what strikes: beyond the rim of a face, so that what is found is on it
_SLIGHT = 1e-6  # of sqrt(g L): what rounding makes of a gap, by the moment


def meets_elsewhere(system: System, state: State, closest, asked=True) -> bool:
    """Whether rigid bodies that touch in `state` at the points `closest`, as
    `stepper.closest_points` has them, come to overlap at once, faster than loads can make them; of
    all contacts, or of those that are `asked` (nc,) about."""
    later = closest_points(system, _later(system, state))
    return bool(_closing(system, state, closest, later, np.broadcast_to(asked, system.contact_count)))


def strikes_elsewhere(system: System, state: State, closest) -> tuple[np.ndarray, ...] | None:
    """The points `closest` with those, of bodies that strike each other elsewhere, at which they do
    so fastest; None if none does."""
    later = closest_points(system, _later(system, state))
    strikes, ahead = _ahead(system, state, closest, later)
    return tuple(map(np.asarray, ahead)) if strikes else None


@jit
def _later(system: System, state: State) -> State:
    return bodies.moved(system, state, state.velocity, _moment(system))


def _moment(system: System):
    return _MOMENT * jnp.sqrt(system.length / system.acceleration)


@jit
def _closing(system: System, state: State, closest, later, asked):
    which, least = _closes(system, closest, later), _sudden(system, state)
    which = [on & (speed > least) for on, speed in which]
    return jnp.any(in_user_order(system, jnp.concatenate(which)) & asked) if which else jnp.asarray(False)


@jit
def _ahead(system: System, state: State, closest, later):
    d, h, found = system.dimension, _moment(system), []
    least = _sudden(system, state)
    for group, closes, before, after in zip(system.groups, _closes(system, closest, later), closest, later, strict=True):

        def one(on, speed, before, after, first, second):
            a1, a2, n = (before[i * d : (i + 1) * d] for i in range(3))
            v1, v2, there = (
                rotation.point_velocity(body.velocity, place - body.position)
                for body, place in ((first, a1), (second, a2), (second, after[d : 2 * d]))
            )
            on = on & (speed - n @ (v1 - v2) > least)
            # what strikes goes with the second body, and is moved along the face alone
            off = after[d : 2 * d] - h * there - a2
            off = jnp.where(on, _BEYOND * (off - (n @ off) * n), 0.0)
            return on, before + jnp.pad(jnp.tile(off, 2), (0, before.size - 2 * d))

        found.append(jax.vmap(one)(*closes, before, after, *kinematics.motions_of(system, state, group)))
    return jnp.any(jnp.concatenate([on for on, _ in found])), tuple(moved for _, moved in found)


def _sudden(system: System, state: State):
    """A speed () [m/s] that loads do not make in the moment."""
    d, h = system.dimension, _moment(system)
    speed, spin = (jnp.max(jnp.abs(part), initial=0.0) for part in (state.velocity[:, :d], state.velocity[:, d:]))
    usual = h * (system.acceleration + spin**2 * system.length + spin * speed + speed**2 / system.length)
    return _SUDDEN * usual + _SLIGHT * jnp.sqrt(system.acceleration * system.length)


def _closes(system: System, closest, later) -> list[tuple[jax.Array, jax.Array]]:
    """Per group, which contacts (n,) of rigid bodies with edges or faces are closed, and how fast
    (n,) [m/s] these come to overlap."""
    d, found, soft = system.dimension, [], compliant(system)
    for group, before, after in zip(system.groups, closest, later, strict=True):
        gap, numbers = before[:, 3 * d], np.array(group.numbers)
        on = ~soft[numbers] & (gap <= _TOUCHING * system.length) & (not group.pair.smooth)
        found.append((on, (gap - after[:, 3 * d]) / _moment(system)))
    return found

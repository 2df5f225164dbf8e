"""Whether bodies that touch in edges or faces meet at other points of these than the closest ones
that were found.

Of parallel edges every point is closest, and an impact at one of them leaves the bodies turning
into each other or apart. The gap a moment after it, with the velocities that it left, tells.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from ..model import bodies
from ..model.bodies import State
from ..model.system import System, compliant
from ..runtime.compilation import jit
from ..stepping.stepper import closest_points

_MOMENT = 1e-7  # of sqrt(L / g)
_TOUCHING = 1e-8  # of the scene's length
_SUDDEN = 3.0  # of what gravity and spin change a speed by in that moment
_SLIGHT = 1e-6  # of sqrt(g L): what rounding makes of a gap, by the moment


def meets_elsewhere(system: System, state: State, closest, asked=True) -> bool:
    """Whether rigid bodies that touch in `state` at the points `closest`, as
    `stepper.closest_points` has them, come to overlap at once, faster than loads can make them; of
    all contacts, or of those that are `asked` (nc,) about."""
    later = closest_points(system, _later(system, state))
    return bool(_closing(system, state, closest, later, np.broadcast_to(asked, system.contact_count)))


@jit
def _later(system: System, state: State) -> State:
    return bodies.moved(system, state, state.velocity, _moment(system))


def _moment(system: System):
    return _MOMENT * jnp.sqrt(system.length / system.acceleration)


@jit
def _closing(system: System, state: State, closest, later, asked):
    d, h, found = system.dimension, _moment(system), []
    speed, spin = (jnp.max(jnp.abs(part), initial=0.0) for part in (state.velocity[:, :d], state.velocity[:, d:]))
    usual = h * (system.acceleration + spin**2 * system.length + spin * speed + speed**2 / system.length)
    slight = _SLIGHT * jnp.sqrt(system.acceleration * system.length)
    soft = compliant(system)
    for group, before, after in zip(system.groups, closest, later, strict=True):
        if not group.pair.smooth:
            gap = before[:, 3 * d]
            numbers = np.array(group.numbers)
            rigid = ~soft[numbers] & asked[numbers] & (gap <= _TOUCHING * system.length)
            found.append(jnp.any(rigid & ((gap - after[:, 3 * d]) / h > _SUDDEN * usual + slight)))
    return jnp.any(jnp.array(found))

"""How motion goes on after an event: velocities after what met in it, the forces then, and what
holds on by static friction.

What does not slip has the coefficient mu_s, unless mu_s does not hold it: where it slips with mu_s
it has mu, as has what has just broken away.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints import detection
from ..constraints.static_friction import NO_SLIP, slips, with_mu_s
from ..model.bodies import State
from ..model.system import System, in_user_order
from ..runtime.compilation import jit
from . import impact, impact_records, stage_modes, stage_records, stage_step
from .impact import Impact
from .memory import Memory, steady
from .radau_contact import RadauContact
from .stages import Modes
from .way import Taken

_SLIPS = 1.0  # [m/s]: any slip that is one


@functools.partial(jit, static_argnums=(0, 6))
def resume(stepper: RadauContact, system: System, state: State, closest, references, holds, room: int | None = None):
    """The impact in `state`, of no impulses if there is none; the memory with which motion goes on;
    and a guess of its modes, in which a contact touches if it will: neither one that parts nor one
    that is still open, however fast it closes. `holds`: per group of constraints which of them (n,)
    have mu_s; empty where all have one coefficient."""
    system = with_mu_s(system, holds) if system.sticks_more else system
    hit, found = impact.meet(system, state, closest, references, stepper.impacts == "sequential", room)
    memory = steady(stepper.stages, hit.state, found)
    ahead = dataclasses.replace(memory, rates=memory.rates + found.h * found.acceleration)
    return hit, memory, stage_modes.lasting(stage_step.modes_at_end(stepper, system, hit.state, ahead))


@jit
def here(system: System, state: State, memory: Memory):
    """Closest points and tangents of `memory`, as `resume` asks for them."""
    references = jnp.concatenate([*memory.references, jnp.zeros((0, system.dimension))])
    return tuple(stage_records.long_forms(system, state, memory.constraints)), in_user_order(system, references)


@jit
def at_rest(system: System, state: State, closest) -> tuple[jax.Array, ...]:
    """Per group of constraints, which of them (n,) do not slip in `state`; no group where all have
    one coefficient."""
    least = NO_SLIP * jnp.sqrt(system.acceleration * system.length)
    return tuple(
        jnp.ones(len(group.bodies), bool) if slip is None else slip <= least
        for group, slip in zip(system.constraints, slips(system, state, closest), strict=True)
    )


def found(
    stepper: RadauContact,
    room: int | None,
    system: System,
    state: State,
    closest,
    references,
    modes: Modes | None,
    broke: bool,
) -> tuple[Impact, Memory, Modes, Modes | None]:
    """What `resume` says with mu_s for all that it holds; and the `modes` after the event, if they
    are known, in which nothing sticks that it does not hold. `broke`: whether the event is that
    something broke away."""
    if not system.sticks_more:
        return *resume(stepper, system, state, closest, references, (), room), modes
    holds = list(map(np.asarray, at_rest(system, state, closest)))
    if modes is not None:
        stuck = [np.asarray(own) for own in modes.sticking]
        holds = stuck if broke else [a | b for a, b in zip(holds, stuck, strict=True)]
    while True:
        hit, memory, guess = resume(stepper, system, state, closest, references, tuple(holds), room)
        slipping = [on & ~np.asarray(own) for on, own in zip(guess.touching, guess.sticking, strict=True)]
        # joints rub in an impact alone: the slip that it leaves tells, not forces after it
        still = list(holds)
        if bool(hit.acts):
            count = len(system.groups)
            still[count:] = map(np.asarray, at_rest(system, hit.state, closest)[count:])
        left = [a & ~b & c for a, b, c in zip(holds, slipping, still, strict=True)]
        if all(np.array_equal(a, b) for a, b in zip(holds, left, strict=True)):
            break
        holds = left
    if modes is not None:
        sticking = tuple(
            own if group.mu_s is None else own & on
            for group, own, on in zip(system.constraints, modes.sticking, holds, strict=True)
        )
        modes = dataclasses.replace(modes, sticking=sticking)
    return hit, memory, guess, modes


def no_steps(stepper: RadauContact, room: int | None, system: System, state: State, references) -> Taken:
    """Of a run from `state` whose first step failed: no step, in the form of those that it would
    have."""
    closest = detection.closest_points(system, state)
    hit, _, modes, _ = found(stepper, room, system, state, closest, references, None, False)
    return jax.tree.map(lambda a: a[:0], impact_records.standing(stepper.stages, system, state, hit, modes))


def told_slips(system: System, modes: Modes) -> tuple | None:
    """For the memory of steps of one stage: slips (n,) [m/s] per group by which these know what
    sticks in `modes`."""
    if not system.sticks_more:
        return None
    return tuple(
        None if group.mu_s is None else np.where(own, 0.0, _SLIPS)
        for group, own in zip(system.constraints, modes.sticking, strict=True)
    )


def broken(system: System, named: Modes, found: Modes, known) -> tuple[jax.Array, Modes]:
    """Whether () anything that is `named` to stick, by mu_s, slips with that in the modes `found`,
    if these are `known` (); and `named` without it."""
    pairs = [
        (own, own if group.mu_s is None else own & new)
        for group, own, new in zip(system.constraints, named.sticking, found.sticking, strict=True)
    ]
    any_ = functools.reduce(jnp.logical_or, [jnp.any(a & ~b) for a, b in pairs], jnp.asarray(False))
    return known & any_, dataclasses.replace(named, sticking=tuple(b for _, b in pairs))

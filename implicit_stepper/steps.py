"""A compiled loop of steps with their certificates, one program for any number of them."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jax import lax

from .bodies import State
from .compilation import jit
from .records import Contacts, Stats, StepResult
from .results import Result
from .steppers.base import Stepper
from .system import System

CHUNK = 128  # steps per compiled call: long enough to hide the call, short enough for progress and early errors


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Record:
    """Steps, first axis their number: the states they end in, and what they left."""

    state: State
    contacts: Contacts
    stats: Stats
    result: jax.Array
    certificates: dict[str, jax.Array]


@functools.partial(jit, static_argnums=0)
def advance(stepper: Stepper, system: System, state: State, memory, h, steps):
    """Up to `steps` <= CHUNK steps of h [s], stopping after one that is not solved.

    Returns the last state; the memory after it or, where it is not solved, before it; and a `Record` with first axis CHUNK
    whose first `steps` entries are filled.
    """
    shapes = jax.eval_shape(_step, stepper, system, state, memory, h)
    empty = (shapes.state, shapes.state, shapes.contacts, shapes.stats, shapes.result)
    empty = jax.tree.map(lambda s: jnp.zeros((CHUNK, *s.shape), s.dtype), empty)

    def proceed(carry):
        i, _, _, _, _, going = carry
        return (i < steps) & going

    def body(carry):
        i, state, memory, _, records, _ = carry
        step = _step(stepper, system, state, memory, h)
        new = (state, step.state, step.contacts, step.stats, step.result)
        records = jax.tree.map(lambda all_, one: all_.at[i].set(one), records, new)
        return i + 1, step.state, step.memory, memory, records, step.result == Result.SOLVED

    start = (jnp.zeros((), int), state, memory, memory, empty, jnp.asarray(True))
    _, state, memory, before, records, solved = lax.while_loop(proceed, body, start)
    starts, ends, contacts, stats, result = records
    certificates = jax.vmap(functools.partial(stepper.certificate, system), (0, 0, 0, None))(starts, ends, contacts, h)
    memory = jax.tree.map(lambda new, old: jnp.where(solved, new, old), memory, before)
    return state, memory, Record(ends, contacts, stats, result, certificates)


@functools.partial(jax.jit, static_argnums=0)
def _step(stepper: Stepper, system: System, state: State, memory, h) -> StepResult:
    """A step as a jitted function of its own, so that `advance` traces it once for its shapes and its loop."""
    return stepper.step(system, state, memory, h)

"""Steps of one length of one scene of a batch, as one pure program."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ..model.bodies import State
from ..model.results import Result
from ..model.system import System
from .parameters import changed
from .rollout import CERTIFIED

_CERTIFIED = 32  # steps at once


class _At(NamedTuple):
    """Where one scene is: `state` and `memory`, the `result` of its last step, how many were solved
    and certified, `number` (), and their `worst` violation ()."""

    state: State
    memory: Any
    result: jax.Array
    number: jax.Array
    worst: jax.Array


def one(stepper, system: System, start: State, values, h, steps):
    """One scene: its last state, whether all steps were solved, how many, the largest violation.

    Certificates are those of `_CERTIFIED` steps at once, which share the cost of their many small
    operations."""
    own, begun = changed(system, start, values)
    begun = jax.tree.map(lambda a: jnp.asarray(a, float), begun)
    none = jnp.asarray(int(Result.SOLVED)), jnp.zeros((), int), jnp.zeros(())

    def proceed(at: _At):
        return (at.result == Result.SOLVED) & (at.number < steps)

    def advance(at: _At) -> _At:
        memory, count, (ends, contacts, results) = _march(stepper, own, at.state, at.memory, h, steps - at.number)
        nodes = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), at.state, ends)
        before = jax.tree.map(lambda a: a[:-1], nodes)
        found = jax.vmap(lambda *of: stepper.certificate(own, *of, h))(before, ends, contacts)
        violation = jnp.max(jnp.stack([jnp.max(v, axis=1) for v in found.values() if v.size]), axis=0)
        certified = jnp.where(violation <= CERTIFIED, int(Result.SOLVED), int(Result.NOT_CERTIFIED))
        results = jnp.where(results == Result.SOLVED, certified, results)
        good = jnp.cumprod((jnp.arange(_CERTIFIED) < count) & (results == Result.SOLVED)).astype(bool)
        done = jnp.sum(good)
        result = jnp.where(done == count, int(Result.SOLVED), results[jnp.minimum(done, _CERTIFIED - 1)])
        worst = jnp.maximum(at.worst, jnp.max(jnp.where(good, violation, 0.0)))
        return _At(jax.tree.map(lambda a: a[done], nodes), memory, result, at.number + done, worst)

    end = lax.while_loop(proceed, advance, _At(begun, stepper.init(own, begun), *none))
    return end.state, end.result, end.number, end.worst


def _march(stepper, system: System, state: State, memory, h, most):
    """Up to `_CERTIFIED` steps, and up to `most` (), to the first that is not solved: the memory
    after them, how many, and for each its end, contacts and result."""
    shapes = jax.eval_shape(stepper.step_with_cuts, system, state, memory, h)
    empty = (shapes.state, shapes.contacts, shapes.result)
    empty = jax.tree.map(lambda s: jnp.zeros((_CERTIFIED, *s.shape), s.dtype), empty)

    def proceed(at):
        number, *_, going = at
        return (number < jnp.minimum(most, _CERTIFIED)) & going

    def advance(at):
        number, state, memory, records, _ = at
        step = stepper.step_with_cuts(system, state, memory, h)
        records = jax.tree.map(lambda all_, one: all_.at[number].set(one), records, (step.state, step.contacts, step.result))
        return number + 1, step.state, step.memory, records, step.result == Result.SOLVED

    number, _, memory, records, _ = lax.while_loop(
        proceed, advance, (jnp.zeros((), int), state, memory, empty, jnp.asarray(True))
    )
    return memory, number, records

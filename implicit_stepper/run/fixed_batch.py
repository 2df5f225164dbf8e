"""Steps of one length of a block of scenes, side by side, as one pure program."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ..implicit_euler import side_by_side
from ..model.bodies import State
from ..model.results import Result
from ..model.system import System, compliant
from ..runtime.compilation import jit
from .batch_values import scene_of
from .rollout import CERTIFIED

_TOGETHER = 8  # steps whose certificates are computed at once


class _At(NamedTuple):
    """Where the scenes (B,) are: `state` and `memory`, the `result` of the last step, how many were
    solved and certified, `number`, and their `worst` violation; and how many steps were `tried`
    ()."""

    state: State
    memory: Any
    result: jax.Array
    number: jax.Array
    worst: jax.Array
    tried: jax.Array


@functools.partial(jit, static_argnums=(0, 1))
def run(stepper, how: side_by_side.Pass, system: System, start: State, closest, deepest, values, h, steps):
    """Scenes whose `values` have a first axis (B,), each as if it were alone: the last states,
    whether all steps were solved, how many, the largest violation, and by how much [m] rigid
    contacts overlap at the start, where no step is taken of scenes in which one is deeper than
    `deepest` (B, nc) [m]. `closest` points are those of `start`, if they are those of all."""

    def of_one(values):
        own, begun = scene_of(system, start, values)
        return own, jax.tree.map(lambda a: jnp.asarray(a, float), begun)

    systems, begun = jax.vmap(of_one)(values)
    memories = side_by_side.each(how, lambda own: stepper.init(*own, closest), (systems, begun))
    certificates = jax.vmap(jax.vmap(stepper.certificate, (0, 0, 0, 0, None)), (None, 0, 0, 0, None))

    def proceed(at: _At):
        return jnp.any(at.result == Result.SOLVED) & (at.tried < steps)

    def advance(at: _At) -> _At:
        going, most = at.result == Result.SOLVED, jnp.minimum(steps - at.tried, _TOGETHER)
        memory, (ends, contacts, results) = _march(stepper, how, systems, at.state, at.memory, h, most, going)
        nodes = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), at.state, ends)
        before = jax.tree.map(lambda a: a[:-1], nodes)
        found = certificates(systems, before, ends, contacts, h)
        violation = jnp.max(jnp.stack([jnp.max(v, axis=2) for v in found.values() if v.size]), axis=0)
        certified = jnp.where(violation <= CERTIFIED, int(Result.SOLVED), int(Result.NOT_CERTIFIED))
        results = jnp.where(results == Result.SOLVED, certified, results)
        among = (jnp.arange(_TOGETHER) < most)[:, None] & going
        good = jnp.cumprod(among & (results == Result.SOLVED), axis=0).astype(bool)
        done = jnp.sum(good, axis=0)
        failed = jnp.take_along_axis(results, jnp.minimum(done, _TOGETHER - 1)[None], axis=0)[0]
        result = jnp.where(going & (done < most), failed, at.result)
        worst = jnp.maximum(at.worst, jnp.max(jnp.where(good, violation, 0.0), axis=0))
        last = jax.vmap(lambda own, done: jax.tree.map(lambda a: a[done], own), (1, 0))(nodes, done)
        return _At(last, memory, result, at.number + done, worst, at.tried + most)

    count = begun.time.shape
    depths = jnp.where(compliant(system), 0.0, jnp.maximum(-memories.gaps, 0.0))
    begins = jnp.where(jnp.any(depths > deepest, axis=1), int(Result.OVERLAPS), int(Result.SOLVED))
    none = begins, jnp.zeros(count, int), jnp.zeros(count), jnp.zeros((), int)
    end = lax.while_loop(proceed, advance, _At(begun, memories, *none))
    return end.state, end.result, end.number, end.worst, jnp.max(depths, axis=1, initial=0.0)


def _march(stepper, how: side_by_side.Pass, systems: System, states: State, memories, h, most, going):
    """`most` () <= `_TOGETHER` steps of the scenes that are `going` (B,), of each to the first that
    is not solved: the memories after them, and for each step its ends, contacts and results."""
    # a jitted function of its own, so that it is traced once for its shapes and the loop
    one_step = jax.jit(functools.partial(side_by_side.step, stepper, how, systems))
    shapes = jax.eval_shape(one_step, states, memories, h, going)
    empty = (shapes.state, shapes.contacts, shapes.result)
    empty = jax.tree.map(lambda s: jnp.zeros((_TOGETHER, *s.shape), s.dtype), empty)

    def advance(number, at):
        states, memories, records, going = at
        step = one_step(states, memories, h, going)
        records = jax.tree.map(
            lambda all_, one: lax.dynamic_update_index_in_dim(all_, one, number, 0),
            records,
            (step.state, step.contacts, step.result),
        )
        return step.state, step.memory, records, going & (step.result == Result.SOLVED)

    _, memories, records, _ = lax.fori_loop(0, most, advance, (states, memories, empty, going))
    return memories, records

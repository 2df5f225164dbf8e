"""A step of many scenes at once, that differ in numbers.

What XLA makes of a step is some hundred small kernels in loops, each of which costs a call. Nine of
ten steps need nothing but chord iterations: all scenes take these together, so that each call
serves all of them. On a CPU the others go on one after another: under `vmap` all would wait for the
slowest, and factorise in vain. An accelerator has room for what is in vain, and none for scenes one
after another: there those that are left are gathered, as many as a smaller pass holds, and finished
together, until none is left; at last those that need cuts. No number of one scene meets a number of
another.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jax import lax

from ..model.bodies import State
from ..model.records import StepResult
from ..model.system import System
from ..solvers.chord import as_it_is
from . import ladder, step_root


@dataclasses.dataclass(frozen=True)
class Pass:
    """How scenes go through a step: `width` of them in a block, and how many of those that chord
    iterations leave, `lanes`, are finished at once."""

    width: int
    lanes: int


CPU, ACCELERATOR = Pass(32, 1), Pass(8192, 512)


def of_platform(platform: str) -> Pass:
    """That of the devices of a `platform`, as JAX names it."""
    return CPU if platform == "cpu" else ACCELERATOR


def each(how: Pass, function, scenes):
    """`function` of every one of the `scenes`, a tree of arrays with a first axis."""
    return lax.map(function, scenes) if how.lanes == 1 else jax.vmap(function)(scenes)


def step(stepper, how: Pass, systems: System, states: State, memories, h, wanted) -> StepResult:
    """`stepper.step_with_cuts` of scenes with a first axis (B,), of h [s], without derivatives.

    Of those that are not `wanted` (B,) the result means nothing."""
    if systems.sticks_more:  # coefficients that follow from the solution
        return each(how, lambda own: stepper.step_with_cuts(*own, h), (systems, states, memories))
    problems = jax.vmap(lambda *own: stepper.problem(*own, h))(systems, states, memories)
    continued = jax.vmap(functools.partial(step_root.continued, stepper))(problems, memories)
    others = dataclasses.replace(memories, kept=None)

    def after(rounds, problem, memory, tried, kept):
        memory = dataclasses.replace(memory, kept=kept)
        without = functools.partial(ladder.without_cuts, stepper, problem.system, problem.state, memory, h)
        return step_root.after(stepper, problem, memory, without, rounds, tried)

    left, solutions = wanted & ~continued.quick, jax.vmap(as_it_is)(continued, memories.kept)
    scenes = problems, others, continued
    if how.lanes == 1:
        solutions = _one_by_one(functools.partial(after, stepper.rounds), scenes, left, solutions)
        return jax.vmap(stepper.result_of)(problems, solutions, others)
    # under `vmap` cuts are made wherever they may be asked for: only what fails without them asks
    for rounds in sorted({0, stepper.rounds if systems.groups else 0}):
        solutions = _gathered(functools.partial(after, rounds), how.lanes, scenes, left, solutions)
        left = left & ~solutions.converged
        solutions = dataclasses.replace(solutions, kept=_chosen(left, memories.kept, solutions.kept))
    return jax.vmap(stepper.result_of)(problems, solutions, others)


def _one_by_one(finish, scenes, left, solutions):
    """The `solutions`, with those of the `scenes` that are `left` (B,) by `finish`."""

    def one(at):
        left, solutions = at
        i = jnp.argmax(left)
        found = finish(*jax.tree.map(lambda a: a[i], (*scenes, solutions.kept)))
        return left.at[i].set(False), jax.tree.map(lambda all_, new: all_.at[i].set(new), solutions, found)

    return lax.while_loop(lambda at: jnp.any(at[0]), one, (left, solutions))[1]


def _gathered(finish, lanes: int, scenes, left, solutions):
    """`_one_by_one`, with so many `lanes` at once."""

    def several(at):
        left, solutions = at
        served = jnp.argsort(~left, stable=True)[:lanes]
        problem, memory, tried, kept = jax.tree.map(lambda a: a[served], (*scenes, solutions.kept))
        found = jax.vmap(finish)(problem, memory, _only(left[served], tried), kept)
        place = jnp.where(left[served], served, len(left))  # beyond the last: dropped
        return left.at[served].set(False), jax.tree.map(lambda a, new: a.at[place].set(new, mode="drop"), solutions, found)

    return lax.while_loop(lambda at: jnp.any(at[0]), several, (left, solutions))[1]


def _only(wanted, tried):
    """What chord iterations have `tried`, with nothing more to be done for scenes that are not
    `wanted` (B,)."""
    return dataclasses.replace(tried, quick=~wanted)


def _chosen(which, one, other):
    """Of every scene the leaves of `one` tree where `which` (B,), else of the `other`."""
    return jax.tree.map(lambda a, b: jnp.where(which.reshape(-1, *(1,) * (a.ndim - 1)), a, b), one, other)

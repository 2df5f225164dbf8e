"""A step of many scenes at once, that differ in numbers.

What XLA makes of a step on a CPU is some hundred small kernels in loops, each of which costs a
call. Nine of ten steps need nothing but chord iterations: all scenes take these together, so that
each call serves all of them. The others go on one after another: under `vmap` all would wait for
the slowest, and factorise in vain. No number of one scene meets a number of another.
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
from ..solvers.newton import as_it_is
from . import ladder, step_root


def step(stepper, systems: System, states: State, memories, h, wanted) -> StepResult:
    """`stepper.step_with_cuts` of scenes with a first axis (B,), of h [s], without derivatives.

    Of those that are not `wanted` (B,) the result means nothing."""
    if systems.sticks_more:  # coefficients that follow from the solution: one after another
        return lax.map(lambda own: stepper.step_with_cuts(*own, h), (systems, states, memories))
    problems = jax.vmap(lambda *own: stepper.problem(*own, h))(systems, states, memories)
    continued = jax.vmap(functools.partial(step_root.continued, stepper))(problems, memories)
    limits = step_root.Limits(stepper.max_iterations, stepper.damping)
    others = dataclasses.replace(memories, kept=None)

    def one(at):
        left, solutions = at
        i = jnp.argmax(left)
        problem, memory, tried, kept = jax.tree.map(lambda a: a[i], (problems, others, continued, solutions.kept))
        memory = dataclasses.replace(memory, kept=kept)
        without = functools.partial(ladder.without_cuts, stepper, problem.system, problem.state, memory, h)
        found = step_root.after(stepper, problem, memory, without, stepper.rounds, limits, tried)
        return left.at[i].set(False), jax.tree.map(lambda all_, new: all_.at[i].set(new), solutions, found)

    begun = wanted & ~continued.quick, jax.vmap(as_it_is)(continued, memories.kept)
    _, solutions = lax.while_loop(lambda at: jnp.any(at[0]), one, begun)
    return jax.vmap(stepper.result_of)(problems, solutions, others)

"""A step of many scenes at once, that differ in numbers.

What XLA makes of a step on a CPU is some thousand small kernels, of which each costs a call. Chord
iterations solve nine of ten steps; here all scenes take theirs together, and each call serves all
of them. The Newton's method that is left is that of one scene after another: under `vmap` all would
wait for the slowest, and factorise in vain. No number of one scene meets a number of another.
"""

from __future__ import annotations

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
    tried = jax.vmap(functools.partial(step_root.continued, stepper))(problems, memories)
    limits = step_root.Limits(stepper.max_iterations, stepper.damping)

    def one(at):
        left, solutions = at
        i = jnp.argmax(left)
        problem, memory, own = jax.tree.map(lambda a: a[i], (problems, memories, tried))
        without = functools.partial(ladder.without_cuts, stepper, problem.system, problem.state, memory, h)
        found = step_root.after(stepper, problem, memory, without, stepper.rounds, limits, own)
        return left.at[i].set(False), jax.tree.map(lambda all_, new: all_.at[i].set(new), solutions, found)

    begun = wanted & ~tried.quick, jax.vmap(as_it_is)(tried, memories.kept)
    _, solutions = lax.while_loop(lambda at: jnp.any(at[0]), one, begun)
    return jax.vmap(stepper.result_of)(problems, solutions, memories)

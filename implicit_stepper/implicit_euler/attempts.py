"""Solves of a step on the host, from a start and with limits of their own, by one program whatever
the limits are."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp

from ..model.bodies import State
from ..model.records import StepResult
from ..model.results import Result
from ..model.system import System
from ..runtime.compilation import jit
from .indeterminate import NEARLY
from .step_root import Limits

# a load of 10^6 times the weight of what carries it has a singular value of 1e-6
SLIGHT_DAMPING = 1e-20


@functools.partial(jit, static_argnums=0, apart=True)
def solved_from(stepper, system: System, state: State, memory, within: Limits, h) -> StepResult:
    """A step of h [s] from the start in `memory`, solved `within` limits, or where it stalls."""
    return stepper.attempt(system, state, memory, h, within)


def polished(stepper, system: System, state: State, start, h) -> StepResult:
    """The end of an attempt, and of one with less damping where it nearly arrives: on flat sides
    damping holds back what moves along them."""
    end = solved_from(stepper, system, state, start, limits(stepper), h)
    if end.result == Result.SOLVED or end.stats.residual > NEARLY:
        return end
    slight = limits(stepper, damping=SLIGHT_DAMPING)
    return solved_from(stepper, system, state, ending(start, end), slight, h)


def limits(stepper, patience: int = 1, damping: float | None = None) -> Limits:
    """Those of the `stepper`, with `patience` times as many iterations, and a `damping` if one is
    given."""
    damping = stepper.damping if damping is None else damping
    return Limits(jnp.asarray(patience * stepper.max_iterations), jnp.asarray(damping))


def ending(memory, end: StepResult):
    """A memory that starts where another attempt ended."""
    return starting_at(memory, end.memory.history[0])


def starting_at(memory, unknowns):
    """A memory whose every continuation is `unknowns` (N,), in physical units."""
    history = jnp.broadcast_to(unknowns, memory.history.shape)
    return dataclasses.replace(memory, history=history, kept=jax.tree.map(jnp.zeros_like, memory.kept))

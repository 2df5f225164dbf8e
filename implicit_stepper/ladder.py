"""What is tried for a step that its warm start does not solve, or whose solution is not certified.

It runs outside the compiled loop of steps, as a program of its own, so the easy steps neither compile nor pay for it: the
stepper's further rungs in turn, then two steps of half the length, each with the whole ladder.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp

from .bodies import State
from .certificate import certificate
from .compilation import jit
from .results import Result
from .steppers.base import Stepper, StepResult
from .system import System

_HALVINGS = 4  # sub-steps of h/16 at the shortest


@dataclasses.dataclass(frozen=True)
class Attempt:
    """One rung: its `name`, the solver's `residual` and its `iterations`; "h/2" stands for a half step with its own ladder."""

    name: str
    residual: float
    iterations: int


@dataclasses.dataclass(frozen=True)
class Climb:
    """The last step tried, its certificate (see `certificate`), all attempts, and whether it is solved and certified."""

    step: StepResult
    certificate: dict[str, jax.Array]
    attempts: tuple[Attempt, ...]
    solved: bool


def climb(stepper: Stepper, system: System, state: State, memory, h: float, tolerance: float, first: int = 1) -> Climb:
    """The step of h [s] from `state` by the rungs from `first` on, then by sub-steps; the first certified one is taken.

    `Climb.step.stats` has all iterations, the rung, and how many sub-steps stand for the step; their impulses are added up,
    the rest is that of the last one. Never raises: see `Climb.solved`.
    """
    return _climb(stepper, system, state, memory, h, tolerance, first, _HALVINGS)


def _climb(stepper: Stepper, system: System, state: State, memory, h, tolerance, first: int, halvings: int) -> Climb:
    attempts = []
    for rung in range(first, len(stepper.rungs)):
        step, violations = _try(stepper, rung, system, state, memory, h)
        attempts.append(Attempt(stepper.rungs[rung], float(step.stats.residual), int(step.stats.iterations)))
        solved = int(step.result) == Result.SOLVED and _largest(violations) <= tolerance
        if solved:
            return Climb(_counted(step, attempts), violations, tuple(attempts), True)
    if halvings == 0:
        return Climb(step, violations, tuple(attempts), False)
    halves = []
    for _ in range(2):
        half = _climb(stepper, system, state, memory, h / 2, tolerance, 0, halvings - 1)
        attempts.append(Attempt("h/2", half.attempts[-1].residual, sum(a.iterations for a in half.attempts)))
        if not half.solved:
            return Climb(half.step, half.certificate, tuple(attempts), False)
        state, memory = half.step.state, half.step.memory
        halves.append(half)
    return Climb(_joined(*halves, len(stepper.rungs), attempts), _worse(*halves), tuple(attempts), True)


@functools.partial(jit, static_argnums=0)
def _try(stepper: Stepper, rung, system: System, state: State, memory, h):
    """A step from one rung, and its certificate; one program for all rungs."""
    step = stepper.retry(system, state, memory, h, rung)
    return step, certificate(system, state, step.state, step.contacts, h)


def _largest(violations: dict[str, jax.Array]) -> float:
    """NaN if any violation is, so that it passes no comparison."""
    return float(jnp.max(jnp.concatenate([v.reshape(-1) for v in violations.values()])))


def _counted(step: StepResult, attempts: list[Attempt]) -> StepResult:
    """With the iterations of all rungs that were tried."""
    iterations = jnp.asarray(sum(a.iterations for a in attempts))
    return dataclasses.replace(step, stats=dataclasses.replace(step.stats, iterations=iterations))


def _joined(first: Climb, second: Climb, rung: int, attempts: list[Attempt]) -> StepResult:
    """Two half steps as one: impulses are those of both."""
    one, two = first.step, second.step
    contacts = dataclasses.replace(
        two.contacts,
        normal_impulse=one.contacts.normal_impulse + two.contacts.normal_impulse,
        friction_impulse=one.contacts.friction_impulse + two.contacts.friction_impulse,
        gap_start=one.contacts.gap_start,
    )
    stats = dataclasses.replace(
        _counted(two, attempts).stats,
        residual=jnp.maximum(one.stats.residual, two.stats.residual),
        rung=jnp.asarray(rung),
        substeps=one.stats.substeps + two.stats.substeps,
    )
    return dataclasses.replace(two, contacts=contacts, stats=stats)


def _worse(first: Climb, second: Climb) -> dict[str, jax.Array]:
    """Of each equation the larger violation of the two half steps."""
    return jax.tree.map(jnp.maximum, first.certificate, second.certificate)

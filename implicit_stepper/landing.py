"""A step that ends on an event: the modes of its start are held as equations, and h is one more unknown.

Where a contact changes its mode within a step, the polynomials of the step have a kink to cross and lose their order. So the
step is solved again with every complementarity replaced by the half that holds at the start, the first of these halves to be
left is found on its polynomials, and the step is solved once more so that it ends exactly there.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp

from . import stages
from .bodies import State
from .collocation import radau
from .newton import newton
from .records import StepResult
from .results import Result
from .stages import Modes
from .steppers import radau_contact
from .steppers.radau_contact import Memory, RadauContact
from .system import System

_SAMPLES = 64  # of a step's polynomials, in search of the first half that is left
_LEFT = 1e-9  # by how much a half must be violated to count as left, in the units of the rows
_TREMBLE = 1e-6  # by how much another may be at the event: the polynomials of forces have a lower order


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Landing:
    """`step`, of h [s], to `event`, the number () of the margin that vanishes, in the order of `stages.margins`, or -1;
    `whole`: whether the held step, before it was cut, could be solved; `earlier`: whether another half is left before the
    event; `missed` (nb, 6 or 3), see `radau_contact.missed_start`."""

    step: StepResult
    h: jax.Array
    event: jax.Array
    whole: jax.Array
    earlier: jax.Array
    missed: jax.Array


def land(stepper: RadauContact, system: System, state: State, memory: Memory, modes: Modes, h) -> Landing:
    """The step from `state`, at most h [s] long, on which `modes` hold, to the first event."""
    whole = stages.stage_problem(system, state, h, memory.references, stepper.stages, stepper.friction)
    held = functools.partial(stages.residual, whole, modes=modes)
    start = radau_contact.best_start(whole, memory, held)
    tolerance = stepper.tolerance + radau_contact.round_off(whole)
    options = {"max_iterations": stepper.max_iterations}
    first = newton(held, jax.jacfwd(held), start, tolerance=tolerance, **options)
    unknowns = first.z * stages.unknown_scale(whole)
    found = stages.points(whole, unknowns)[2]
    ahead = _directions(memory, found, whole.scales.speed)
    event, theta = _first_left(stepper.stages, stages.margins(whole, found, modes, ahead))

    at_event = radau_contact.memory_after(whole, unknowns, memory)
    part = stages.stage_problem(system, state, theta * h, memory.references, stepper.stages, stepper.friction)
    weights = radau(stepper.stages).basis(theta * radau(stepper.stages).c)
    inside = radau_contact.at_fractions(part, at_event, weights) / stages.unknown_scale(part)

    def ending_there(z):
        cut = dataclasses.replace(part, h=part.h * z[-1])
        found = stages.points(cut, z[:-1] * stages.unknown_scale(cut))[2]
        margin = stages.margins(cut, found, modes, ahead)[-1, event]
        return jnp.append(stages.residual(cut, z[:-1], modes), margin)

    second = newton(ending_there, jax.jacfwd(ending_there), jnp.append(inside, 1.0), tolerance=tolerance, **options)
    cut = dataclasses.replace(part, h=part.h * second.z[-1])
    solution = dataclasses.replace(second, z=second.z[:-1], iterations=first.iterations + second.iterations)
    step = radau_contact.result(cut, memory, solution)
    found = stages.points(cut, solution.z * stages.unknown_scale(cut))[2]
    rest = stages.margins(cut, found, modes, ahead).at[:, event].set(0.0)
    sane = second.converged & (cut.h > 0) & (cut.h <= 1.5 * h) & first.converged & (event >= 0)
    return Landing(
        step=dataclasses.replace(step, result=jnp.where(sane, int(Result.SOLVED), int(Result.NOT_CONVERGED))),
        h=cut.h,
        event=event,
        whole=first.converged,
        earlier=jnp.any(rest < -_TREMBLE),
        missed=radau_contact.missed_start(cut, step.contacts.stages.velocity),
    )


def _directions(memory: Memory, found, speed) -> tuple:
    """Unit vectors (nc, k) per group along the slips at the start, or where there is none yet, at the first stage."""

    def one(start, first):
        slip = jnp.where(jnp.linalg.norm(start) > _TREMBLE * speed, start, first)
        return slip / jnp.maximum(jnp.linalg.norm(slip), 1e-300)

    return tuple(jax.vmap(one)(start, p.w[0]) for start, p in zip(memory.slips, found, strict=True))


def _first_left(count: int, margins):
    """The number of the margin (s, n) that falls below zero first, or -1, and the fraction theta of the step at which."""
    theta = jnp.arange(1, _SAMPLES + 1) / _SAMPLES
    finite = jnp.minimum(margins, 1e9)  # of contacts without friction it is infinite
    left = radau(count).basis(theta) @ finite < -_LEFT
    when = jnp.where(jnp.any(left, axis=0), jnp.argmax(left, axis=0), _SAMPLES)
    if margins.shape[1] == 0:
        return jnp.asarray(-1), jnp.ones(())
    event = jnp.argmin(when)
    return jnp.where(when[event] < _SAMPLES, event, -1), theta[jnp.minimum(when[event], _SAMPLES - 1)]

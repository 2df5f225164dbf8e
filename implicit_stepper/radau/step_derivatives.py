"""Derivatives along a run of several stages: of a step, at the root that it recorded, and of an
impact.

A step is a root of `stages.residual` with the branches of its complementarities that held in it as
equations. Its length is an unknown with a row of its own: where it ends on an event, the margin
that vanishes there; elsewhere, that it ends at a given time. So the time of an event depends on
everything before it, and the step after it is as much shorter as it is later: the saltation of an
event needs no formula.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..constraints import slipping
from ..constraints.kinematics import Motion
from ..constraints.static_friction import NO_SLIP, held_in, slip_vectors, with_mu_s
from ..model import rotation
from ..model.bodies import State
from ..model.records import Contacts, StepResult
from ..model.results import Result
from ..model.system import System, in_user_order
from ..model.units import scales
from ..runtime.compilation import jit
from ..solvers.implicit_function import root
from ..solvers.newton import largest, linearized
from . import apart, impact, recorded_stages, stage_modes, stage_records, stage_unknowns, stages
from .after_events import at_rest
from .euler_steps import without_rebounds
from .memory import Memory
from .radau_contact import RadauContact
from .stage_modes import equal
from .stages import Modes, StageProblem

_TURNS = 1e-9  # of a slip, dimensionless, by a change of 1 in its SI unit: more than rounding
OFF = 1e-6  # a residual, dimensionless, that is more than rounding and the tolerance of solvers
_VANISHES = 1e-7  # of a margin at the end of a step, dimensionless: what rounding leaves of it in a short step


class Recorded(NamedTuple):
    """A step of `h` () [s] that left `contacts`, and what its end is an event of, as
    `events.branches_left` says."""

    contacts: Contacts
    h: jax.Array
    left: tuple[jax.Array, ...]


class Change(NamedTuple):
    """A change of the `system`, of the `state` in which a step begins, and of the time [s] at which
    it ends, with one more axis in front of several."""

    system: System
    state: State
    until: jax.Array


class Moved(NamedTuple):
    """What a step leads to: the `state`, its `changes` with one more axis, how far the recorded
    unknowns are `off` () from a root, dimensionless; whether several contacts change at its end, so
    that the order of events is not determined; and which changes (k,) would `turn` what begins to
    slip here, of which only a step of given length has a derivative."""

    state: State
    changes: State
    off: jax.Array
    ambiguous: jax.Array
    turn: jax.Array


class _Theta(NamedTuple):
    """What the root of a step depends on: the `problem`, in the units of a step of `unit` () [s],
    which is that of the unknown h; the time at which it ends; the `modes`, and whether they are
    `held` (); the number of the margin that vanishes, or -1; unknowns that are `given` (s n,), and
    what they are, `found` (s n,)."""

    problem: StageProblem
    unit: jax.Array
    until: jax.Array
    modes: Modes
    held: jax.Array
    event: jax.Array
    given: jax.Array
    found: jax.Array


@functools.partial(jit, static_argnums=0)
def step(stepper: RadauContact, system: System, state: State, until, recorded: Recorded, changes: Change) -> Moved:
    """The `recorded` step from `state` to the time `until` () [s], or to its event, with its
    derivatives."""

    def to_end(system, state, until):
        return _step(stepper, system, state, until, recorded)

    (after, _), (found, turn), (off, ambiguous) = derived(to_end, system, state, until, changes)
    return Moved(after, found, off, ambiguous, jnp.any(jnp.abs(turn) > _TURNS, axis=1))


@functools.partial(jit, static_argnums=0)
def meeting(stepper: RadauContact, system: System, state: State, after: State, recorded: Recorded, changes: Change) -> Moved:
    """The impact at the end of the `recorded` step, from `state` to that `after` it, with its
    derivatives."""
    references = recorded_stages.references_of(system, recorded.contacts)
    references = in_user_order(system, jnp.concatenate([*references, jnp.zeros((0, system.dimension))]))
    _, unknowns = recorded_stages.unknowns_of(system, recorded.contacts)
    closest = stage_records.long_forms(system, lax.stop_gradient(state), unknowns)

    def own(system):
        if not system.sticks_more:
            return system
        return with_mu_s(system, map(jnp.logical_and, *(at_rest(system, of, closest) for of in (state, after))))

    return impact_at(stepper, system, state, closest, references, changes, own)


@functools.partial(jit, static_argnums=0)
def one_stage(stepper: RadauContact, system: System, state: State, until, recorded: Recorded, changes: Change) -> Moved:
    """A `recorded` step of the paper's scheme, with its derivatives."""
    method = stepper.one_stage
    _, unknowns = recorded_stages.unknowns_of(system, recorded.contacts)
    closest = tuple(stage_records.long_forms(system, lax.stop_gradient(state), unknowns))

    def to_end(system, state, until):
        system = without_rebounds(system)
        memory = method.init(*lax.stop_gradient((system, state)), closest)
        found = method.step_with_cuts(system, state, memory, until - state.time)
        return found.state, found.result

    after, found, result = derived(to_end, system, state, until, changes)
    no = jnp.zeros(len(changes.until), bool)
    return Moved(after, found, jnp.where(result == 0, 0.0, jnp.inf), jnp.asarray(False), no)


def impact_at(stepper, system: System, state: State, closest, references, changes: Change, of: Callable) -> Moved:
    """The impact in `state` of contacts with these `closest` points and `references` of tangents in
    the system that is `of(system)`, with its derivatives."""

    def met(system, state, _):
        hit = impact.meet(of(system), state, closest, references, stepper.impacts == "sequential")[0]
        return hit.state, (hit.converged, jnp.sum(hit.met) > 1)

    after, found, (converged, several) = derived(met, system, state, state.time, changes)
    return Moved(after, found, jnp.where(converged, 0.0, jnp.inf), several, jnp.zeros(len(changes.until), bool))


def derived(function: Callable, system: System, state: State, until, changes: Change) -> tuple:
    """`function(system, state, until)`, a tree and what is not to be derived; between the two the
    changes of the tree, with one more axis in front."""

    def along(*change):
        return jax.jvp(function, (system, state, until), change, has_aux=True)

    return jax.vmap(along, out_axes=(None, 0, None))(*changes)


def of_length(stepper: RadauContact, system: System, state: State, memory: Memory, h) -> StepResult:
    """The step of h [s] of several stages, for programs that differentiate it: `stepper.step`,
    whose memory has no derivatives but those of its gaps."""
    found = stepper.step(*lax.stop_gradient((system, state, memory, h)))
    left = tuple(np.zeros((len(group.numbers), 3), bool) for group in system.constraints)
    recorded = Recorded(found.contacts, lax.stop_gradient(h), left)
    of, z, off, _ = _at_root(stepper, system, state, state.time + h, recorded)
    problem, own, ats = _stages(of, z)
    contacts = stage_records.records(problem, ats, memory.gaps, own.rates)
    converged = (found.result == Result.SOLVED) & (off <= OFF)
    return StepResult(
        state=_state(problem, jax.tree.map(lambda a: a[-1], ats.motion)),
        memory=dataclasses.replace(found.memory, gaps=contacts.gap),
        contacts=contacts,
        stats=found.stats,
        result=jnp.where(converged, int(Result.SOLVED), int(Result.NOT_CONVERGED)),
    )


def _step(stepper: RadauContact, system: System, state: State, until, recorded: Recorded):
    """The state at the end, and slips that begin here; and `Moved.off` and `Moved.ambiguous`."""
    of, z, off, ambiguous = _at_root(stepper, system, state, until, recorded)
    return (_end(of, z), _begun_slips(system, state, recorded, of.modes)), (off, ambiguous)


def _begun_slips(system: System, state: State, recorded: Recorded, modes: Modes):
    """(m,): in `state` the slips, 0 there, of what is to slip in the step, in units of speed; and 0
    of all others. Which way friction acts then depends on the side from which the state comes."""
    fixed, at = lax.stop_gradient((system, state))
    _, unknowns = recorded_stages.unknowns_of(fixed, recorded.contacts)
    closest = stage_records.long_forms(fixed, at, unknowns)
    unit, found = jnp.sqrt(fixed.length * fixed.acceleration), [jnp.zeros(0)]
    for g, (group, w) in enumerate(zip(system.constraints, slip_vectors(fixed, state, closest), strict=True)):
        if w is not None:
            slips = modes.touching[g] & ~modes.sticking[g] & (group.mu > 0)
            begins = slips & (jnp.max(jnp.abs(w), axis=1) <= NO_SLIP * unit)
            found.append(jnp.where(begins[:, None], w / unit, 0.0).reshape(-1))
    return jnp.concatenate(found)


def _at_root(stepper: RadauContact, system: System, state: State, until, recorded: Recorded):
    """What the root depends on, the root with its derivatives, and `Moved.off` and
    `Moved.ambiguous`."""
    system = with_mu_s(system, held_in(system, recorded.contacts)) if system.sticks_more else system
    fixed, begun = lax.stop_gradient((system, state))
    rates, unknowns = recorded_stages.unknowns_of(fixed, recorded.contacts)
    references = recorded_stages.references_of(fixed, recorded.contacts)

    def problem_of(system, state):
        return stages.stage_problem(system, state, recorded.h, references, stepper.stages, stepper.friction)

    plain = problem_of(fixed, begun)
    z = stage_unknowns.join(fixed, rates, unknowns) / stages.unknown_scale(plain)
    ats = jax.vmap(functools.partial(stages.at_stage, plain))(stages.split_stages(plain, z))
    unknowns = slipping.with_slips(fixed, unknowns, ats.points)
    z = stage_unknowns.join(fixed, rates, unknowns) / stages.unknown_scale(plain)
    each = stage_modes.lasting(stage_modes.modes_of(plain, ats))  # what is open, a step may leave about to close
    unknowns = recorded_stages.without_forces_apart(fixed, unknowns, each.touching)
    z = stage_unknowns.join(fixed, rates, unknowns) / stages.unknown_scale(plain)
    modes = jax.tree.map(lambda a: a[0], each)
    event, ambiguous = _event(recorded.left, modes, stage_modes.margins(plain, ats, modes)[-1])
    lands = event >= 0
    held = lands | equal(jax.tree.map(lambda a: jnp.broadcast_to(a[0], a.shape), each), each)
    away = apart.held_apart(fixed, modes, held, event)
    given = apart.unknowns_of(plain, away)[0]
    off = largest(jnp.where(given, 0.0, stages.residual(plain, z, modes, held)[0]))
    # in units of the step, what bounces ever lower would seem to graze: gaps grow as h falls
    unit = jnp.sqrt(system.length / system.acceleration)
    problem = dataclasses.replace(problem_of(system, state), scales=scales(fixed, unit))
    z = z * stages.unknown_scale(plain) / stages.unknown_scale(problem)
    theta, found = _Theta(problem, unit, until, modes, held, event, given, z), jnp.append(z, recorded.h / unit)
    return theta, root(_residual, _linearize, theta, found), off, ambiguous


def _event(left, modes: Modes, margins) -> tuple[jax.Array, jax.Array]:
    """The number () of the one of the `margins` (m,) at the end of a step that vanishes, of those
    that are `left`, or -1; and whether there are several."""
    named = [
        jnp.concatenate([own[:, :2], jnp.broadcast_to(own[:, 2:], active.shape)], axis=1).reshape(-1)
        for own, active in zip(left, modes.active, strict=True)
    ]
    size = jnp.where(jnp.concatenate([*named, jnp.zeros(0, bool)]), jnp.abs(margins), jnp.inf)
    vanish = jnp.sum(size <= _VANISHES)
    return jnp.where(vanish > 0, jnp.argmin(jnp.append(size, jnp.inf)), -1), vanish > 1


def _residual(of: _Theta, z):
    """(s n + 1,) at z (s n + 1,), the last of which is h."""
    problem = dataclasses.replace(of.problem, h=z[-1] * of.unit)
    F, ats, _ = stages.residual(problem, z[:-1], of.modes, of.held)
    margins = stage_modes.margins(problem, ats, of.modes)  # that of a motor's bound has h in it
    F = jnp.where(of.given, z[:-1] - lax.stop_gradient(of.found), F)
    ends = z[-1] - (of.until - problem.state.time) / of.unit
    return jnp.append(F, jnp.append(margins[-1], ends)[of.event])


def _linearize(of: _Theta, z):
    return linearized(functools.partial(_residual, of))(z)


def _stages(of: _Theta, z):
    """The problem at the root, its stages and what they say."""
    problem = dataclasses.replace(of.problem, h=z[-1] * of.unit)
    own = stages.split_stages(problem, z[:-1])
    return problem, own, jax.vmap(functools.partial(stages.at_stage, problem))(own)


def _end(of: _Theta, z) -> State:
    """Where a step ends."""
    problem = dataclasses.replace(of.problem, h=z[-1] * of.unit)
    own = jax.tree.map(lambda a: a[-1], stages.split_stages(problem, z[:-1]))
    return _state(problem, stages.at_stage(problem, own).motion)


def _state(problem: StageProblem, at: Motion) -> State:
    """The state at the end of the step, of the motion at its last stage."""
    return State(problem.state.time + problem.h, at.position, rotation.unit(at.orientation), at.velocity)

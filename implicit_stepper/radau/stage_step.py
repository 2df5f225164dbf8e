"""One step of several stages: its problem, with the contacts in slots, and what a root of it says.

Newton's method runs between the two: within one compiled program (`attempt`), or on the host
(`sparse_loop`).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np

from shapes.shards import when

from ..constraints.kinematics import Motion
from ..constraints.static_friction import with_mu_s
from ..implicit_euler import energy, ncp
from ..model import rotation
from ..model.bodies import State
from ..model.records import Stats, StepResult
from ..model.results import Result
from ..model.system import System
from ..solvers import static_condensation
from ..solvers.chord_newton import kept_newton
from ..solvers.collocation import radau
from ..solvers.newton import Solution
from ..solvers.static_condensation import Factors
from . import apart, slots, stage_modes, stage_records, stage_unknowns, stages
from .memory import Memory, at_fractions, felt, per_time
from .stage_jacobian import derivatives, with_h
from .stage_modes import equal
from .stages import Modes, StageProblem

# least pivot where forces are determined; where they are not, `stage_jacobian` makes it 1e-8
UNIQUE = 1e-6


class Method(Protocol):
    """What a step asks of a method, see `RadauContact`."""

    stages: int
    tolerance: float
    max_iterations: int
    friction: str


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Task:
    """How to solve a step: of `h` [s]; with the `modes` as equations where it is `held` (); with h
    such that the margin of number `event` () vanishes at its end, unless that is -1; from the
    polynomials of `hint` at `offset` () + c h / hint.h; with at most `patience` () Jacobians."""

    h: jax.Array
    modes: Modes
    held: jax.Array
    event: jax.Array
    hint: Memory
    offset: jax.Array
    patience: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Attempt:
    """A step of h [s] that was tried; the `modes` at its stages; the `margins` (s, n) of the task's
    modes; `missed` (nb, 6 or 3) [m/s, rad/s], V_n - sum_i l_i(0) V_i: how far the polynomial of the
    stages' velocities misses the start; energy `created` (), see `energy.created`; `unique` (),
    whether equations determine all forces; which contacts were in `slots`, and whether these ran
    out, `crowded` ()."""

    step: StepResult
    h: jax.Array
    modes: Modes
    margins: jax.Array
    missed: jax.Array
    created: jax.Array
    unique: jax.Array
    slots: slots.Slots
    crowded: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Equations:
    """F of a step's unknowns z (s n + 1,), dimensionless, with h in units of `h` () [s]: of the
    `problem` with the contacts in slots, whose `modes` are equations where it is `held` (), and
    whose margin of number `event` () vanishes, unless that is -1; but for what is left `aside`, see
    `apart`."""

    problem: StageProblem
    modes: Modes
    held: jax.Array
    event: jax.Array
    h: jax.Array
    aside: apart.Aside | None

    def cut(self, problem: StageProblem, z) -> StageProblem:
        """`problem` with the h of z."""
        return dataclasses.replace(problem, h=z[-1] * self.h)

    def residual(self, z):
        """F (s n + 1,) at z; and what its unknowns say, what pushes the bodies, and the margins."""
        F, ats, pushed = stages.residual(self.cut(self.problem, z), z[:-1], self.modes, self.held)
        margins = stage_modes.margins(self.problem, ats, self.modes)
        F = jnp.append(F, jnp.append(margins[-1], z[-1] - 1)[self.event])
        return F if self.aside is None else self.aside.rows(F, z), (ats, pushed, margins)

    def linearized(self, z) -> static_condensation.Condensed:
        """The derivative of F."""
        found = derivatives(self.cut(self.problem, z), z[:-1], self.modes, self.held)
        system = with_h(found, self.h, self.event)
        return system if self.aside is None else self.aside.system(system)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Posed:
    """What a task asks for: the `whole` problem; the `equations` of that with the contacts that are
    `chosen`, as many as there are slots, or all; whether slots run out, `crowded` (); which of the
    chosen are `away`, see `apart`; `starts` (k, s n + 1) and the `tolerance` () of F."""

    whole: StageProblem
    equations: Equations
    chosen: slots.Slots
    crowded: jax.Array
    away: tuple
    starts: jax.Array
    tolerance: jax.Array


def attempt(
    method: Method,
    system: System,
    state: State,
    memory: Memory,
    task: Task,
    factors: Factors,
    before: slots.Slots = (),
) -> tuple[Attempt, Factors]:
    """The step from `state`, after `memory`, that `task` asks for, from the `factors` of another
    step with these slots `before`; and the last ones."""
    problem = posed(method, system, state, memory, task, factors.least_pivot() > UNIQUE, before)
    if before:
        factors = dataclasses.replace(factors, valid=factors.valid & equal(problem.chosen, before))
    solution, said, factors = kept_newton(
        jax.jit(problem.equations.residual),
        problem.equations.linearized,
        problem.starts,
        factors,
        tolerance=problem.tolerance,
        max_iterations=task.patience,
    )
    return ended(method, memory, task, problem, solution, said, factors.least_pivot() > UNIQUE), factors


def posed(method: Method, system: System, state: State, memory: Memory, task: Task, unique, before: slots.Slots) -> Posed:
    """What `task` asks for; what sticks in its modes has mu_s. `unique`: whether () forces are, as
    far as known."""
    system = with_mu_s(system, task.modes.sticking) if system.sticks_more else system
    whole = stages.stage_problem(system, state, task.h, memory.references, method.stages, method.friction)
    chosen, crowded = slots.chosen(system, before, task.modes, task.event, memory.gaps, task.held)
    part, own = slots.part(whole, chosen), in_slots(task, chosen)
    away = apart.held_apart(part.system, own.modes, own.held, own.event)
    aside, starts = apart.left_out(part, away, _starts(part, own, unique))
    tolerance = method.tolerance + ncp.round_off(whole)
    equations = Equations(part, own.modes, own.held, own.event, own.h, aside)
    return Posed(whole, equations, chosen, crowded, away, starts, tolerance)


def ended(method: Method, memory: Memory, task: Task, posed: Posed, solution: Solution, said, unique) -> Attempt:
    """What a `solution` and what its residual `said` make of a step; `unique`: whether () equations
    determine all forces."""
    system, state, chosen, (ats, pushed, margins) = posed.whole.system, posed.whole.state, posed.chosen, said
    problem, part = (posed.equations.cut(of, solution.z) for of in (posed.whole, posed.equations.problem))
    found = stages.split_stages(part, solution.z[:-1])
    if chosen or apart.sharp(system):
        found, ats, pushed, good = _with_all(problem, task, chosen, posed.away, ats.motion, found)
        margins = stage_modes.margins(posed.whole, ats, task.modes)
        solution = dataclasses.replace(solution, converged=solution.converged & good)
    modes = stage_modes.modes_of(problem, ats)
    if chosen:
        lost = posed.crowded | slots.met(chosen, modes, task.held)
        solution = dataclasses.replace(solution, converged=solution.converged & ~lost)
    step, method_of = _result(problem, memory, solution, found, ats), radau(method.stages)
    return Attempt(
        step=step,
        h=problem.h,
        modes=modes,
        margins=margins,
        missed=state.velocity - jnp.einsum("i,ibw->bw", method_of.at_start, ats.motion.velocity),
        created=energy.created(system, state, step.state, problem.h, method_of.A[-1], pushed, ats.motion.velocity),
        unique=unique,
        slots=chosen,
        crowded=posed.crowded,
    )


def _with_all(problem: StageProblem, task: Task, chosen: slots.Slots, away, at: Motion, own: stages.Stage):
    """The stages `own` of the `chosen` contacts, where bodies are `at`, with the others and those
    that are `away`; what `stages.residual` says of them, but F; whether all were found ()."""
    if chosen:
        _, ahead = at_fractions(problem, task.hint, *2 * (_ahead(problem, task),))
        own = slots.put_back(problem.system, chosen, ahead, own)
    found, good = apart.completed(problem, slots.outside(problem.system, chosen, away), at, own)
    z = stage_unknowns.join(problem.system, found.rates, found.constraints) / stages.unknown_scale(problem)
    _, ats, pushed = stages.residual(problem, z, task.modes, task.held)
    return found, ats, pushed, good


def in_slots(task: Task, chosen: slots.Slots) -> Task:
    """The `task` of the problem with the `chosen` contacts alone."""
    modes, event = slots.modes_in(task.modes, chosen), slots.event_in(task.modes, chosen, task.event)
    hint = dataclasses.replace(task.hint, constraints=slots.of_groups(task.hint.constraints, chosen, axis=1))
    return dataclasses.replace(task, modes=modes, event=event, hint=hint)


def _starts(problem: StageProblem, task: Task, unique):
    """The hint's polynomials, their end, and the former with closest points of their own, (k, s n +
    1), dimensionless, with h. Forces that are not `unique` () stay what they are, unless the hint
    has them `follow`, as nothing would correct what polynomials make of them; joints begin without
    what they give to nobody, which would grow as they turn."""
    s = problem.stages
    ahead, end = _ahead(problem, task), np.zeros((s, s))
    end[:, -1] = 1.0
    weights, units = jnp.stack([ahead, end]), stages.unknown_scale(problem)
    forces = jnp.where(unique | task.hint.follow, weights, end)
    guesses = jax.vmap(lambda *w: at_fractions(problem, task.hint, *w))(weights, forces)
    if any(group.bilateral for group in problem.system.joints):
        constraints = tuple(guesses[1])
        follow = unique | task.hint.follow
        guesses = guesses[0], when(~follow, lambda: felt(problem, constraints), constraints)
    if apart.sharp(problem.system):
        ahead = stages.as_stages(problem, *jax.tree.map(lambda a: a[0], guesses))
        other = ahead.rates, apart.jumped(problem, ahead, task.modes, task.held)
        guesses = jax.tree.map(lambda a, b: jnp.concatenate([a, b[None]]), guesses, other)
    joined = jax.vmap(functools.partial(stage_unknowns.join, problem.system))(*guesses)
    return jnp.concatenate([joined / units, jnp.ones((len(joined), 1))], axis=1)


def _ahead(problem: StageProblem, task: Task):
    """The weights (s, s) that the values of the last stages have in those of the hint's polynomials
    at the next ones."""
    method = radau(problem.stages)
    return method.basis(task.offset + method.c * problem.h / task.hint.h)


def no_factors(method: Method, system: System, none: slots.Slots = ()) -> Factors:
    """Of the first step: those of the unknowns of all stages, and of h; with `none` in any slot."""
    counts = [*map(len, none), *(len(g.bodies) for g in system.constraints[len(none) :])]
    blocks = [(method.stages, n, g.determined) for n, g in zip(counts, system.constraints, strict=True)]
    left = sum((n - len(g.bodies)) * stage_unknowns.width(g) for n, g in zip(counts, system.constraints, strict=True))
    local = sum(s * k * m for s, k, m in blocks)
    return static_condensation.no_factors(method.stages * (stage_unknowns.size(system) + left) + 1 - local, blocks)


def free_task(method: Method, system: System, state: State, memory: Memory, h) -> Task:
    """A step of h [s] in which contacts may do what they like."""
    modes = modes_at_end(method, system, state, memory)
    most = jnp.asarray(method.max_iterations)
    return Task(jnp.asarray(h), modes, jnp.asarray(False), jnp.asarray(-1), memory, jnp.ones(()), most)


def modes_at_end(method: Method, system: System, state: State, memory: Memory) -> Modes:
    """Of all contacts in `state`, as the last stage of `memory` has them."""
    h = jnp.sqrt(system.length / system.acceleration)
    problem = stages.stage_problem(system, state, h, memory.references, method.stages, method.friction)
    rates, constraints = at_fractions(problem, memory, *2 * (np.eye(method.stages),))
    own = stages.Stage(jnp.zeros(method.stages), rates, 0 * rates, constraints)
    ats = jax.vmap(functools.partial(stages.at_stage, problem))(own)
    return jax.tree.map(lambda a: a[-1], stage_modes.modes_of(problem, ats))


def _result(problem: StageProblem, memory: Memory, solution: Solution, own, ats) -> StepResult:
    """State, memory and contacts at the root: its stages `own` and what they say, `ats`."""
    state, last = problem.state, jax.tree.map(lambda a: a[-1], ats.motion)
    contacts = stage_records.records(problem, ats, memory.gaps, own.rates)
    after = Memory(
        rates=own.rates,
        constraints=tuple(
            u * per_time(g, problem.h) for u, g in zip(own.constraints, problem.system.constraints, strict=True)
        ),
        h=problem.h,
        references=tuple(p.kkt.geometry.tangents[-1, :, 0] for p in ats.points[: len(problem.system.groups)]),
        gaps=contacts.gap,
        follow=jnp.asarray(False),
    )
    return StepResult(
        state=State(state.time + problem.h, last.position, rotation.unit(last.orientation), last.velocity),
        memory=after,
        contacts=contacts,
        stats=Stats(solution.iterations, solution.residual, jnp.asarray(0), jnp.asarray(1)),
        result=jnp.where(solution.converged, int(Result.SOLVED), int(Result.NOT_CONVERGED)),
    )

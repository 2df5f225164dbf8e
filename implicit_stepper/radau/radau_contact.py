"""Radau IIA with the whole contact NCP at every stage: order five with hard contact, and one stage
is the paper's scheme."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from shapes.arguments import positive

from ..constraints.detection import cold_closest
from ..constraints.friction import FRICTION_ROWS
from ..constraints.kinematics import Motion
from ..constraints.static_friction import with_mu_s
from ..implicit_euler import energy, ncp
from ..implicit_euler.geometrically_implicit import GeometricallyImplicit
from ..model import checks, rotation
from ..model.bodies import State
from ..model.records import Contacts, Stats, StepResult
from ..model.results import Result
from ..model.system import System
from ..runtime.compilation import jit
from ..solvers import static_condensation
from ..solvers.chord_newton import kept_newton
from ..solvers.collocation import radau
from ..solvers.newton import Solution
from ..solvers.static_condensation import Factors
from ..stepping.stepper import entry_point, init
from . import apart, impact, slots, stage_modes, stage_records, stage_unknowns, stages
from .memory import Memory, at_fractions, per_time, steady
from .stage_certificate import stage_certificate
from .stage_jacobian import derivatives, with_h
from .stage_modes import equal
from .stages import Modes, StageProblem

# least pivot where forces are determined; where they are not, `stage_jacobian` makes it 1e-8
_UNIQUE = 1e-6


@dataclasses.dataclass(frozen=True, kw_only=True)
class RadauContact:
    """`stages` 3, 2 or 1: order 5, 3 or 1 in position and velocity as long as no contact changes
    its mode, see `stages`.

    With `simulate(..., h=h)` steps have one length; those that an impact falls into are refused,
    solved or not. With `simulate(..., tol=tol)` h is chosen and steps end on events: see
    `adaptive`. Compliant contacts have no impacts, and obey S (3) at every stage. `tolerance`
    bounds every residual (dimensionless; 1e-8 to 1e-12), on top of what round-off leaves;
    `max_iterations` the Jacobians of a start; `friction` as in `GeometricallyImplicit`, which is
    what `stages=1` is. With `tol`, what meets at one time meets at once, or with
    `impacts="sequential"` pair after pair, the fastest first. Raises `ValueError` naming the
    argument."""

    normals_at_start: ClassVar[bool] = False
    takes_joints: ClassVar[bool] = True
    takes_joint_laws: ClassVar[bool] = True
    takes_static_friction: ClassVar[bool] = False
    rungs: ClassVar[tuple[str, ...]] = ("warm start", "forces at the start", *GeometricallyImplicit.rungs[1:])

    stages: int = 3
    tolerance: float = 1e-12
    max_iterations: int = 40
    friction: str = "projection"
    impacts: str = "simultaneous"

    def __post_init__(self):
        checks.one_of("stages", self.stages, (1, 2, 3))
        positive("tolerance", self.tolerance)
        checks.count("max_iterations", self.max_iterations)
        checks.one_of("friction", self.friction, FRICTION_ROWS)
        checks.one_of("impacts", self.impacts, ("simultaneous", "sequential"))

    @property
    def one_stage(self) -> GeometricallyImplicit:
        """The method of one stage with the same settings."""
        return GeometricallyImplicit(tolerance=self.tolerance, max_iterations=self.max_iterations, friction=self.friction)

    @property
    def divisible(self) -> bool:
        """Whether shorter steps may stand for one: several stages leave a polynomial inside the
        step that they would not."""
        return self.stages == 1

    @entry_point
    def init(self, system: System, state: State, closest: tuple | None = None) -> Any:
        """The forces that contacts need in `state`, and constant accelerations."""
        if self.stages == 1:
            return self.one_stage.init(system, state, closest)
        closest = tuple(cold_closest(system, state)) if closest is None else closest
        return steady(self.stages, system, state, impact.meet(system, state, closest)[1])

    @entry_point
    def step(self, system: System, state: State, memory: Any, h) -> StepResult:
        """One step of h [s] from the continuation of the last stages' polynomials; not solved, it
        says so in its `result`."""
        if self.stages == 1:
            return self.one_stage.step(system, state, memory, h)
        task = free_task(self, system, state, memory, h)
        factors = jax.tree.map(jnp.zeros_like, no_factors(self, system))
        return attempt(self, system, state, memory, task, factors)[0].step

    def certificate(self, system: System, before: State, after: State, contacts: Contacts, h) -> dict[str, jax.Array]:
        """The paper's equations at every stage, and a bound on the energy."""
        if self.stages == 1:
            return self.one_stage.certificate(system, before, after, contacts, h)
        return stage_certificate(system, before, after, contacts, h)

    def predicted_gap(self, contacts: Contacts, mu, h):
        """0: the gap is closed at the end of the step."""
        return jnp.zeros_like(contacts.gap)

    def restarts(self, system: System, state: State, memory: Any, h) -> Iterator[tuple[str, Any]]:
        """Other starts of the same step."""
        if self.stages == 1:
            yield from self.one_stage.restarts(system, state, memory, h)
        else:
            yield self.rungs[1], init(self, system, state, _closest_of(self, system, state, memory))


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


def attempt(
    stepper: RadauContact,
    system: System,
    state: State,
    memory: Memory,
    task: Task,
    factors: Factors,
    before: slots.Slots = (),
) -> tuple[Attempt, Factors]:
    """The step from `state`, after `memory`, that `task` asks for, from the `factors` of another step
    with these slots `before`; and the last ones. What sticks in its modes has mu_s."""
    system = with_mu_s(system, task.modes.sticking) if system.sticks_more else system
    whole = stages.stage_problem(system, state, task.h, memory.references, stepper.stages, stepper.friction)
    chosen, crowded = slots.chosen(system, before, task.modes, task.event, memory.gaps, task.held)
    part, own = slots.part(whole, chosen), in_slots(task, chosen)
    if chosen:
        factors = dataclasses.replace(factors, valid=factors.valid & equal(chosen, before))

    def cut(problem, z):
        return dataclasses.replace(problem, h=z[-1] * task.h)

    def residual(z):
        F, ats, pushed = stages.residual(cut(part, z), z[:-1], own.modes, own.held)
        margins = stage_modes.margins(part, ats, own.modes)
        return jnp.append(F, jnp.append(margins[-1], z[-1] - 1)[own.event]), (ats, pushed, margins)

    def linearize(z):
        return with_h(derivatives(cut(part, z), z[:-1], own.modes, own.held), task.h, own.event)

    away = apart.held_apart(part.system, own.modes, own.held, own.event)
    solution, (ats, pushed, margins), factors = kept_newton(
        *apart.left_out(part, away, residual, linearize, _starts(part, own, factors.least_pivot() > _UNIQUE)),
        factors,
        tolerance=stepper.tolerance + ncp.round_off(whole),
        max_iterations=task.patience,
    )
    problem, found = cut(whole, solution.z), stages.split_stages(cut(part, solution.z), solution.z[:-1])
    if chosen or apart.sharp(system):
        found, ats, pushed, good = _with_all(problem, task, chosen, away, ats.motion, found)
        margins = stage_modes.margins(whole, ats, task.modes)
        solution = dataclasses.replace(solution, converged=solution.converged & good)
    modes = stage_modes.modes_of(problem, ats)
    if chosen:
        lost = crowded | slots.met(chosen, modes, task.held)
        solution = dataclasses.replace(solution, converged=solution.converged & ~lost)
    step = _result(problem, memory, solution, found, ats)
    tried = Attempt(
        step=step,
        h=problem.h,
        modes=modes,
        margins=margins,
        missed=state.velocity - jnp.einsum("i,ibw->bw", radau(stepper.stages).at_start, ats.motion.velocity),
        created=energy.created(
            system, state, step.state, problem.h, radau(stepper.stages).A[-1], pushed, ats.motion.velocity
        ),
        unique=factors.least_pivot() > _UNIQUE,
        slots=chosen,
        crowded=crowded,
    )
    return tried, factors


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
    1), dimensionless, with h. Forces that are not `unique` () stay what they are, as nothing would
    correct what polynomials make of them."""
    s = problem.stages
    ahead, end = _ahead(problem, task), np.zeros((s, s))
    end[:, -1] = 1.0
    weights, units = jnp.stack([ahead, end]), stages.unknown_scale(problem)
    forces = jnp.where(unique, weights, end)
    guesses = jax.vmap(lambda *w: at_fractions(problem, task.hint, *w))(weights, forces)
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


def no_factors(stepper: RadauContact, system: System, none: slots.Slots = ()) -> Factors:
    """Of the first step: those of the unknowns of all stages, and of h; with `none` in any slot."""
    counts = [*map(len, none), *(len(g.bodies) for g in system.constraints[len(none) :])]
    blocks = [(stepper.stages, n, g.determined) for n, g in zip(counts, system.constraints, strict=True)]
    left = sum((n - len(g.bodies)) * stage_unknowns.width(g) for n, g in zip(counts, system.constraints, strict=True))
    local = sum(s * k * m for s, k, m in blocks)
    return static_condensation.no_factors(stepper.stages * (stage_unknowns.size(system) + left) + 1 - local, blocks)


@functools.partial(jit, static_argnums=0, once=True, apart=True)
def _closest_of(stepper: RadauContact, system: System, state: State, memory: Memory) -> tuple:
    """The closest points in `memory`, in long form."""
    return tuple(stage_records.long_forms(system, state, memory.constraints))


def free_task(stepper: RadauContact, system: System, state: State, memory: Memory, h) -> Task:
    """A step of h [s] in which contacts may do what they like."""
    modes = modes_at_end(stepper, system, state, memory)
    most = jnp.asarray(stepper.max_iterations)
    return Task(jnp.asarray(h), modes, jnp.asarray(False), jnp.asarray(-1), memory, jnp.ones(()), most)


def modes_at_end(stepper: RadauContact, system: System, state: State, memory: Memory) -> Modes:
    """Of all contacts in `state`, as the last stage of `memory` has them."""
    h = jnp.sqrt(system.length / system.acceleration)
    problem = stages.stage_problem(system, state, h, memory.references, stepper.stages, stepper.friction)
    rates, constraints = at_fractions(problem, memory, *2 * (np.eye(stepper.stages),))
    own = stages.Stage(jnp.zeros(stepper.stages), rates, 0 * rates, constraints)
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
    )
    return StepResult(
        state=State(state.time + problem.h, last.position, rotation.unit(last.orientation), last.velocity),
        memory=after,
        contacts=contacts,
        stats=Stats(solution.iterations, solution.residual, jnp.asarray(0), jnp.asarray(1)),
        result=jnp.where(solution.converged, int(Result.SOLVED), int(Result.NOT_CONVERGED)),
    )

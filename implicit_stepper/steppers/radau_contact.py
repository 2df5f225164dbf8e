"""Radau IIA with the whole contact NCP at every stage: order five with hard contact, and one stage is the paper's scheme."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from shapes.arguments import positive

from .. import checks, ncp, restart, rotation, stages
from ..bodies import State
from ..collocation import radau
from ..friction import FRICTION_ROWS
from ..kept_newton import kept_newton
from ..newton import Solution
from ..records import Contacts, Stats, StepResult
from ..results import Result
from ..stage_certificate import stage_certificate
from ..stages import Modes, StageProblem
from ..starts import cold_closest
from ..system import ContactGroup, System
from .geometrically_implicit import GeometricallyImplicit


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Memory:
    """Warm start: `rates` (s, nb, 6 or 3) and, per group, `contacts` (s, nc, width + 1), the last stages' unknowns with
    forces [N] in place of impulses; `h` [s] of that step; `references`, per group (nc, d), the last tangents t; `slips`, per
    group (nc, k), the last scaled slips w [m/s]; `gaps` (nc,) [m], in the order of `Scene.add_contact`."""

    rates: jax.Array
    contacts: tuple[jax.Array, ...]
    h: jax.Array
    references: tuple[jax.Array, ...]
    slips: tuple[jax.Array, ...]
    gaps: jax.Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class RadauContact:
    """`stages` 3, 2 or 1: order 5, 3 or 1 in position and velocity as long as no contact changes its mode, see `stages`.

    With `simulate(..., h=h)` steps have one length; those that an impact falls into are not solved, and refused. With
    `simulate(..., tol=tol)` h is chosen and steps end on events: see `adaptive`. `tolerance` bounds every residual
    (dimensionless; 1e-8 to 1e-12), on top of what round-off leaves; `max_iterations` the Jacobians of a start; `friction` as in
    `GeometricallyImplicit`, which is what `stages=1` is. Raises `ValueError` naming the argument.
    """

    rungs: ClassVar[tuple[str, ...]] = ("warm start", "forces at the start", *GeometricallyImplicit.rungs[1:])

    stages: int = 3
    tolerance: float = 1e-12
    max_iterations: int = 40
    friction: str = "projection"

    def __post_init__(self):
        checks.one_of("stages", self.stages, (1, 2, 3))
        positive("tolerance", self.tolerance)
        checks.count("max_iterations", self.max_iterations)
        checks.one_of("friction", self.friction, FRICTION_ROWS)

    @property
    def one_stage(self) -> GeometricallyImplicit:
        """The method of one stage with the same settings."""
        return GeometricallyImplicit(tolerance=self.tolerance, max_iterations=self.max_iterations, friction=self.friction)

    @property
    def divisible(self) -> bool:
        """Whether shorter steps may stand for one: several stages leave a polynomial inside the step that they would not."""
        return self.stages == 1

    def init(self, system: System, state: State, closest: tuple | None = None) -> Any:
        """Constant velocities, and the forces that contacts need in `state`, in all stages."""
        if self.stages == 1:
            return self.one_stage.init(system, state, closest)
        closest = tuple(cold_closest(system, state)) if closest is None else closest
        return constant(self.stages, system, state, restart.forces(system, state, closest))

    def step(self, system: System, state: State, memory: Any, h) -> StepResult:
        """One step of h [s] from the continuation of the last stages' polynomials; not solved, it says so in its `result`."""
        if self.stages == 1:
            return self.one_stage.step(system, state, memory, h)
        return attempt(self, system, state, memory, free_task(self, system, state, memory, h)).step

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
            closest = tuple(stages.long_forms(system, state, memory.contacts))
            yield self.rungs[1], constant(self.stages, system, state, restart.forces(system, state, closest))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Task:
    """How to solve a step: of `h` [s]; with the `modes` as equations where it is `held` (); with h such that the margin of
    number `event` () vanishes at its end, unless that is -1; from the polynomials of `hint` at `offset` () + c h / hint.h."""

    h: jax.Array
    modes: Modes
    held: jax.Array
    event: jax.Array
    hint: Memory
    offset: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Attempt:
    """A step of h [s] that was tried; the `modes` at its stages; the `margins` (s, n) of the task's modes; `missed` (nb, 6 or
    3) [m/s, rad/s], V_n - sum_i l_i(0) V_i: how far the polynomial of the stages' velocities misses the start."""

    step: StepResult
    h: jax.Array
    modes: Modes
    margins: jax.Array
    missed: jax.Array


def attempt(stepper: RadauContact, system: System, state: State, memory: Memory, task: Task) -> Attempt:
    """The step from `state`, after `memory`, that `task` asks for."""
    whole = stages.stage_problem(system, state, task.h, memory.references, stepper.stages, stepper.friction)

    def cut(z):
        return dataclasses.replace(whole, h=z[-1] * task.h)

    def residual(z):
        F, found = stages.residual(cut(z), z[:-1], task.modes, task.held)
        margins = jnp.append(stages.margins(cut(z), found, task.modes, memory.slips)[-1], z[-1] - 1)
        return jnp.append(F, margins[task.event])

    start, F = _best_start(whole, task, residual)
    solution = kept_newton(
        residual,
        jax.jacfwd(residual),
        start,
        F,
        tolerance=stepper.tolerance + ncp.round_off(whole),
        max_iterations=stepper.max_iterations,
    )
    problem, unknowns = cut(solution.z), solution.z[:-1] * stages.unknown_scale(whole)
    at, _, found = stages.points(problem, unknowns)
    step = _result(problem, memory, solution, unknowns, at, found)
    return Attempt(
        step=step,
        h=problem.h,
        modes=stages.modes_of(problem, found),
        margins=stages.margins(problem, found, task.modes, memory.slips),
        missed=state.velocity - jnp.einsum("i,ibw->bw", radau(stepper.stages).at_start, at.velocity),
    )


def _best_start(problem: StageProblem, task: Task, residual):
    """The better of the hint's polynomials and of their end, dimensionless, with h; and its residual."""
    method, s = radau(problem.stages), problem.stages
    ahead = method.basis(task.offset + method.c * problem.h / task.hint.h)
    weights = jnp.stack([ahead, jnp.zeros((s, s)).at[:, -1].set(1.0)])
    units = stages.unknown_scale(problem)
    starts = jax.vmap(lambda w: jnp.append(_at_fractions(problem, task.hint, w) / units, 1.0))(weights)
    F = jax.vmap(residual)(starts)
    sizes = jnp.max(jnp.abs(F), axis=1)
    best = jnp.argmin(jnp.where(jnp.isnan(sizes), jnp.inf, sizes))
    return starts[best], F[best]


def free_task(stepper: RadauContact, system: System, state: State, memory: Memory, h) -> Task:
    """A step of h [s] in which contacts may do what they like."""
    modes = modes_at_end(stepper, system, state, memory)
    return Task(jnp.asarray(h), modes, jnp.asarray(False), jnp.asarray(-1), memory, jnp.ones(()))


def modes_at_end(stepper: RadauContact, system: System, state: State, memory: Memory) -> Modes:
    """Of all contacts in `state`, as the last stage of `memory` has them."""
    h = jnp.sqrt(system.length / system.acceleration)
    problem = stages.stage_problem(system, state, h, memory.references, stepper.stages, stepper.friction)
    here = dataclasses.replace(memory, rates=0 * memory.rates)
    found = stages.points(problem, _at_fractions(problem, here, np.eye(stepper.stages)))[2]
    return jax.tree.map(lambda a: a[-1], stages.modes_of(problem, found))


def constant(count: int, system: System, state: State, found: restart.Forces) -> Memory:
    """Memory of a motion that goes on as in `state`, under the forces `found` there."""
    return Memory(
        rates=jnp.broadcast_to(state.velocity, (count, *state.velocity.shape)),
        contacts=tuple(jnp.broadcast_to(u, (count, *u.shape)) for u in found.unknowns),
        h=jnp.ones(()),
        references=found.references,
        slips=found.slips,
        gaps=found.gaps,
    )


def _per_time(group: ContactGroup, h):
    """Factors (width + 1,) that turn a contact's unknowns in a step of h [s] into those of `Memory`: impulses into forces."""
    n, k = group.pair.unknowns, group.e.shape[-1]
    return jnp.concatenate([jnp.ones(n), jnp.full(1 + k, 1 / h), jnp.ones(2)])


def _at_fractions(problem: StageProblem, memory: Memory, weights):
    """Unknowns (N,), physical, whose stage i has the values sum_j weights[i, j] of the last stages j."""
    parts = [jnp.einsum("ij,jbw->ibw", weights, memory.rates).reshape(-1)]
    for group, values in zip(problem.system.groups, memory.contacts, strict=True):
        parts.append((jnp.einsum("ij,jcw->icw", weights, values) / _per_time(group, problem.h)).reshape(-1))
    return jnp.concatenate(parts)


def _result(problem: StageProblem, memory: Memory, solution: Solution, unknowns, at, found) -> StepResult:
    """State, memory and contacts at the root: `unknowns` (N,), physical, with what `stages.points` finds there."""
    state, where = problem.state, stages.layout(problem.system, problem.stages)
    contacts = stages.records(problem, found, memory.gaps, unknowns[where.rates], at.velocity)
    after = Memory(
        rates=unknowns[where.rates],
        contacts=tuple(
            unknowns[index] * _per_time(group, problem.h)
            for index, group in zip(where.contacts, problem.system.groups, strict=True)
        ),
        h=problem.h,
        references=tuple(p.kkt.geometry.tangents[-1, :, 0] for p in found),
        slips=tuple(p.w[-1] for p in found),
        gaps=contacts.gap,
    )
    return StepResult(
        state=State(state.time + problem.h, at.position[-1], rotation.unit(at.orientation[-1]), at.velocity[-1]),
        memory=after,
        contacts=contacts,
        stats=Stats(solution.iterations, solution.residual, jnp.asarray(0), jnp.asarray(1)),
        result=jnp.where(solution.converged, int(Result.SOLVED), int(Result.NOT_CONVERGED)),
    )

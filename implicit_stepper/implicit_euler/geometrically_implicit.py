"""The time-stepper of Chakraborty, Berard, Akella and Trinkle (2007): one mixed NCP per step,
solved at its end."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import lax

from shapes.arguments import positive
from shapes.closest_points.conditions import PairClass

from ..collision.local_search import closest_points_query
from ..constraints import detection
from ..constraints.friction import FRICTION_ROWS
from ..constraints.static_friction import slips_of_joints
from ..model import bodies, checks, rotation
from ..model.bodies import State
from ..model.records import Contacts, Stats, StepResult
from ..model.results import Result
from ..model.system import System, in_user_order, take, with_queries
from ..runtime.errors import StepperError
from ..solvers.blocks import Kept
from ..solvers.linear import Inverse
from ..solvers.newton import LEAST_DAMPING, Solution
from ..stepping.capabilities import Capabilities, FindsPairs
from ..stepping.stepper import entry_point
from . import breaking_away, central_path, initial_guess, ladder, ncp, step_root
from .certificate import certificate
from .step_records import records


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Memory:
    """Warm start: `history` (ROOTS, N), the last roots in physical units, the latest first;
    `references`, per group (nc, d), the last tangents t, so that the friction components of the
    next step mean the same; `gaps` (nc,) [m], in the order of `Scene.add_contact`; `kept`, what
    solves linear systems with a recent Jacobian, dimensionless; `slips`, per group |w| (n,) [m/s],
    where what sticks has a coefficient of its own, see `breaking_away`."""

    history: jax.Array
    references: tuple[jax.Array, ...]
    gaps: jax.Array
    kept: Inverse | Kept
    slips: tuple[jax.Array | None, ...] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class GeometricallyImplicit:
    """Implicit Euler with contact conditions, friction and wrench maps at the end of the step,
    Chakraborty (10)-(11).

    `tolerance` bounds every residual in the units of `scales` (dimensionless; 1e-8 to 1e-12), on
    top of `ncp.round_off`; `max_iterations` bounds the Jacobians of one start; `rounds` the starts
    of the rungs with cuts, each with `sweeps` Gauss-Seidel sweeps; `damping` is the least one of
    Newton's method, see `newton.newton`; `friction` is the form of the friction rows, "projection"
    or "fischer-burmeister", which have the same roots. With `gap="in_ncp"` closest points are
    unknowns of the problem; with "query" its residual calls a closest-point solver, as a stepper
    with collision detection outside does; that serves bodies of one smooth inequality each. The
    `jacobian` is kept in blocks where there are many unknowns ("by size"), or always one matrix
    ("dense"); runs of `simulate` with more than 200 pairs that may touch, 100 of bodies with faces,
    1000 in scenes with joints, or with "sparse" any, find these step by step and solve sparse
    systems (see `many_bodies`), with less than 200 where contacts ask for nothing that such runs
    cannot do yet. In runs with a `restitution`, what meets at one time meets at once, or with
    `impacts="sequential"` pair after pair, the fastest first. Raises `ValueError` naming the
    argument.
    """

    rungs: ClassVar[tuple[str, ...]] = ladder.RUNGS

    tolerance: float = 1e-12
    max_iterations: int = 40
    rounds: int = 12
    sweeps: int = 60
    damping: float = LEAST_DAMPING
    friction: str = "projection"
    gap: str = "in_ncp"
    jacobian: str = "by size"
    impacts: str = "simultaneous"

    def __post_init__(self):
        positive("tolerance", self.tolerance)
        positive("damping", self.damping)
        for name in ("max_iterations", "rounds", "sweeps"):
            checks.count(name, getattr(self, name))
        checks.one_of("friction", self.friction, FRICTION_ROWS)
        checks.one_of("gap", self.gap, ("in_ncp", "query"))
        checks.one_of("jacobian", self.jacobian, ("by size", "dense", "sparse"))
        checks.one_of("impacts", self.impacts, ("simultaneous", "sequential"))

    @property
    def can(self) -> Capabilities:
        """All but to choose its steps."""
        found = {"dense": FindsPairs.NEVER, "sparse": FindsPairs.ALWAYS, "by size": FindsPairs.BY_SIZE}[self.jacobian]
        return Capabilities(
            joints=True,
            joint_laws=True,
            static_friction=True,
            compliance=True,
            closes_joints=True,
            keeps_gaps=True,
            rebounds=True,
            sequential=self.impacts == "sequential",
            differentiable=True,
            side_by_side=True,
            finds_pairs=found if self.gap == "in_ncp" else FindsPairs.NEVER,
        )

    @property
    def dense(self) -> bool:
        """Whether the Jacobian is one matrix whatever its size."""
        return self.jacobian == "dense"

    @functools.partial(entry_point, differentiable=True)
    def init(self, system: System, state: State, closest: tuple | None = None) -> Memory:
        """No impulses, at `closest` points, by default found without a hint."""
        closest = detection.cold_closest(*lax.stop_gradient((system, state))) if closest is None else closest
        contacts = initial_guess.resting_contacts(system, state, closest)
        unknowns, references, gaps, slips = zip(*contacts, strict=True) if contacts else ((), (), (), ())
        unknowns = [*unknowns, *(jnp.zeros((len(group.bodies), group.width)) for group in system.joints)]
        z = jnp.concatenate([jnp.asarray(state.velocity).reshape(-1), *(u.reshape(-1) for u in unknowns)])
        gaps = in_user_order(system, jnp.concatenate([*gaps, jnp.zeros(0)]))
        kept = ncp.nothing_kept(system, self.friction, self.dense)
        slips = (*slips, *slips_of_joints(system, state)) if system.sticks_more else None
        return Memory(jnp.broadcast_to(z, (initial_guess.ROOTS, z.size)), tuple(references), gaps, kept, slips)

    @functools.partial(entry_point, differentiable=True)
    def step(self, system: System, state: State, memory: Memory, h) -> StepResult:
        """One step of h [s] from the continuation of the last roots; not solved, it says so in
        its `result`. Its derivatives are those of its root (`implicit_function.root`); the memory
        has none but that of its gaps."""
        return self._step(system, state, memory, h, 0)

    @functools.partial(entry_point, differentiable=True)
    def step_with_cuts(self, system: System, state: State, memory: Memory, h) -> StepResult:
        """`step`, and where its warm start does not solve it, from cuts: what a program that cannot
        go back to the host has of the `restarts`."""
        return self._step(system, state, memory, h, self.rounds)

    @functools.partial(entry_point, differentiable=True)
    def smoothed_step(self, system: System, state: State, memory: Memory, h, kappa) -> StepResult:
        """A step of h [s] with `kappa` () > 0 in all its complementarities and friction, see
        `central_path`: not that of the paper, to which it tends as kappa falls."""
        known = dataclasses.replace(lax.stop_gradient(memory), gaps=memory.gaps)
        problem = dataclasses.replace(self.problem(system, state, known, h), kappa=kappa)
        allowed = self.tolerance + ncp.round_off(lax.stop_gradient(problem))
        solution = central_path.point(problem, known.history[0], allowed, self.max_iterations)
        return self.result_of(problem, dataclasses.replace(solution, kept=memory.kept), known)

    def at_root(self, system: System, state: State, memory: Memory, h, after: Memory) -> StepResult:
        """The step of h [s] after which its memory is this one, without solving it again: for the
        derivatives of its root. Of systems in which what sticks has no coefficient of its own."""
        known = dataclasses.replace(lax.stop_gradient(memory), gaps=memory.gaps)
        problem = self.problem(system, state, known, h)
        z = lax.stop_gradient(after.history[0] / ncp.unknown_scale(problem))
        nothing = jnp.zeros(()), jnp.zeros((), int), jnp.asarray(True)
        return self.result_of(problem, Solution(step_root.derived(problem, z), *nothing, after.kept), known)

    def attempt(self, system: System, state: State, memory: Memory, h, limits: step_root.Limits) -> StepResult:
        """`step` with other limits of Newton's method than its own."""
        return self._step(system, state, memory, h, 0, limits)

    def _step(
        self, system: System, state: State, memory: Memory, h, rounds: int, limits: step_root.Limits | None = None
    ) -> StepResult:
        known = dataclasses.replace(lax.stop_gradient(memory), gaps=memory.gaps)
        problem = self.problem(system, state, known, h)
        without = functools.partial(ladder.without_cuts, self, *lax.stop_gradient((system, state, known, h)))
        return self.result_of(*step_root.solved(self, problem, known, without, rounds, limits), known)

    def certificate(self, system: System, before: State, after: State, contacts: Contacts, h) -> dict[str, jax.Array]:
        """`certificate.certificate`: the paper's equations, and a bound on the energy."""
        return certificate(system, before, after, contacts, h)

    def predicted_gap(self, contacts: Contacts, mu, h):
        """0: the gap is closed at the end of the step."""
        return jnp.zeros_like(contacts.gap)

    def restarts(self, system: System, state: State, memory: Memory, h) -> Iterator[tuple[str, Memory]]:
        """Other starts of the same step, as memories for `step`, computed as they are asked for."""
        return ladder.restarts(self, system, state, memory, h)

    def problem(self, system: System, state: State, memory: Memory, h) -> ncp.StepProblem:
        """The NCP of a step of h [s] after `memory`."""
        if self.gap == "query":
            system = with_queries(system, _query)
        return ncp.step_problem(system, state, h, memory.references, self.friction, self.dense)

    def result_of(self, problem: ncp.StepProblem, solution: Solution, memory: Memory) -> StepResult:
        """State, memory and contacts at the root."""
        state, where = problem.state, ncp.layout(problem.system)
        unknowns = solution.z * ncp.unknown_scale(problem)
        velocity = take(unknowns, where.velocity)
        position, orientation = jax.vmap(bodies.advance, (0, 0, 0, None))(
            state.position, state.orientation, velocity, problem.h
        )
        end = State(state.time + problem.h, position, rotation.unit(orientation), velocity)
        contacts, references = records(problem, unknowns, memory.references, memory.gaps, end)
        return StepResult(
            state=end,
            memory=Memory(
                jnp.concatenate([unknowns[None], memory.history[:-1]]),
                references,
                contacts.gap,
                solution.kept,
                None if memory.slips is None else lax.stop_gradient(breaking_away.slips_at(problem, solution.z)),
            ),
            contacts=contacts,
            stats=Stats(solution.iterations, solution.residual, jnp.asarray(0), jnp.asarray(1)),
            result=jnp.where(solution.converged, int(Result.SOLVED), int(Result.NOT_CONVERGED)),
        )


def _query(pair: PairClass):
    """Raises `ValueError` for bodies with faces: their closest points are not unique, and only the
    moment balance, which a query does not see, finds the centre of pressure."""
    if max(pair.first.count, pair.second.count) > 1:
        raise StepperError(
            f'`gap` = "query" cannot treat {pair.first.name} and {pair.second.name}: it needs bodies of one '
            'inequality each. Use gap="in_ncp".'
        )
    return closest_points_query

"""The time-stepper of Chakraborty, Berard, Akella and Trinkle (2007): one mixed NCP per step, solved at its end."""

from __future__ import annotations

import dataclasses
import functools
import numbers

import jax
import jax.numpy as jnp
from jax import lax

from shapes.arguments import positive

from .. import bodies, contact, ncp, rotation, starts
from ..bodies import State
from ..complementarity import length_of
from ..friction import FRICTION_ROWS
from ..newton import Solution, newton
from ..results import Result
from ..system import ContactGroup, System
from .base import Contacts, Stats, StepResult


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Memory:
    """Warm start: `history` (3, N), the last roots in physical units, the latest first; `references`, per group (nc, d),
    the last tangents t, so that the friction components of the next step mean the same."""

    history: jax.Array
    references: tuple[jax.Array, ...]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Attempt:
    solution: Solution
    cuts: starts.Cuts
    number: jax.Array
    iterations: jax.Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class GeometricallyImplicit:
    """Implicit Euler with contact conditions, friction and wrench maps at the end of the step, Chakraborty (10)-(11).

    `tolerance` bounds every residual in the units of `scales` (dimensionless; 1e-8 to 1e-12), on top of `ncp.round_off`;
    `max_iterations` bounds the Jacobians of one start; `rounds` the cut starts tried after the warm start, each with
    `sweeps` Gauss-Seidel sweeps; `friction` is the form of the friction rows, "projection" or "fischer-burmeister", which
    have the same roots. Raises `ValueError` naming the argument.
    """

    tolerance: float = 1e-12
    max_iterations: int = 30
    rounds: int = 8
    sweeps: int = 60
    friction: str = "projection"

    def __post_init__(self):
        positive("tolerance", self.tolerance)
        for name in ("max_iterations", "rounds", "sweeps"):
            value = getattr(self, name)
            if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
                raise ValueError(f"`{name}` = {value!r} must be a positive integer.")
        if not isinstance(self.friction, str) or self.friction not in FRICTION_ROWS:
            raise ValueError(f"`friction` = {self.friction!r} must be one of {', '.join(FRICTION_ROWS)}.")

    def init(self, system: System, state: State) -> Memory:
        """Closest points found without a hint; no impulses."""
        unknowns, references = starts.cold_memory(system, state)
        z = jnp.concatenate([jnp.asarray(state.velocity).reshape(-1), *(u.reshape(-1) for u in unknowns)])
        return Memory(jnp.broadcast_to(z, (3, z.size)), tuple(references))

    def step(self, system: System, state: State, memory: Memory, h) -> StepResult:
        """One step of h [s]: the warm start, then the cut starts, until one is solved."""
        problem = ncp.step_problem(system, state, h, memory.references, self.friction)
        unit = ncp.unknown_scale(problem)
        residual = functools.partial(ncp.residual, problem)
        warm = starts.extrapolated(residual, memory.history / unit)
        last = self._climb(problem, residual, warm, memory.history[0] / unit)
        return self._result(problem, memory, last, last.solution.z * unit)

    def _climb(self, problem: ncp.StepProblem, residual, warm, previous) -> _Attempt:
        """One Newton solve in the compiled program, entered from start after start."""
        rounds = self.rounds if problem.system.groups else 0

        def attempt(carry: _Attempt) -> _Attempt:
            z0, cuts = lax.cond(
                carry.number == 0,
                lambda cuts: (warm, cuts),
                lambda cuts: starts.cut_start(problem, cuts, self.sweeps) if rounds else (warm, cuts),
                carry.cuts,
            )
            solution = newton(
                residual,
                functools.partial(ncp.jacobian, problem),
                z0,
                tolerance=self.tolerance + ncp.round_off(problem),
                max_iterations=self.max_iterations,
            )
            return _Attempt(solution, cuts, carry.number + 1, carry.iterations + solution.iterations)

        zero = jnp.zeros((), int)
        nothing = Solution(warm, jnp.asarray(jnp.inf, float), zero, jnp.asarray(False))
        return lax.while_loop(
            lambda carry: ~carry.solution.converged & (carry.number <= rounds),
            attempt,
            _Attempt(nothing, starts.no_cuts(problem, previous, rounds), zero, zero),
        )

    def _result(self, problem: ncp.StepProblem, memory: Memory, last: _Attempt, unknowns) -> StepResult:
        """State, memory and contacts at the root; unknowns (N,) in physical units."""
        system, state, where = problem.system, problem.state, ncp.layout(problem.system)
        velocity = unknowns[where.velocity]
        position, orientation = jax.vmap(bodies.advance, (0, 0, 0, None))(
            state.position, state.orientation, velocity, problem.h
        )
        end = State(state.time + problem.h, position, rotation.unit(orientation), velocity)
        most = tuple(
            max((count(g.pair) for g in system.groups), default=0)
            for count in (lambda pair: pair.first.count, lambda pair: pair.second.count)
        )
        records = [
            jax.vmap(functools.partial(_record, problem, most))(
                group, unknowns[index], references, *ncp.contact_motions(system, end, group)
            )
            for group, index, references in zip(system.groups, where.contacts, memory.references, strict=True)
        ]
        result = jnp.where(last.solution.converged, int(Result.SOLVED), int(Result.NOT_CONVERGED))
        rung = jnp.minimum(last.number - 1, 1)
        return StepResult(
            state=end,
            memory=Memory(jnp.stack([unknowns, memory.history[0], memory.history[1]]), tuple(r.tangent for r in records)),
            contacts=_in_user_order(system, records),
            stats=Stats(last.iterations, last.solution.residual, rung),
            result=result,
        )


def _record(problem: ncp.StepProblem, most, member: ContactGroup, unknowns, reference, motion_1, motion_2) -> Contacts:
    """One contact at the end of the step, from its unknowns (width,) in physical units; `most` = multipliers to pad to."""
    u = ncp.split(member, unknowns)
    kkt = ncp.geometry_rows(member, u.closest, reference, problem.scales.length, motion_1, motion_2)
    geometry = kkt.geometry
    _, slip = contact.slip_velocities(geometry, motion_1.position, motion_2.position, motion_1.velocity, motion_2.velocity)
    w = member.e * slip
    return Contacts(
        normal_impulse=u.p_n,
        friction_impulse=member.e * u.y,
        gap=geometry.psi,
        slip=slip,
        sigma=length_of(w),
        point_1=geometry.a1,
        point_2=geometry.a2,
        normal=geometry.n,
        tangent=geometry.tangents[0],
        multipliers_1=jnp.pad(kkt.l1, (0, most[0] - kkt.l1.size)),
        multipliers_2=jnp.pad(kkt.l2, (0, most[1] - kkt.l2.size)),
    )


def _in_user_order(system: System, records: list[Contacts]) -> Contacts:
    """Groups' records joined in the order in which the contacts were added."""
    if not records:
        d, k = system.dimension, 3 if system.dimension == 3 else 1
        width = {"friction_impulse": k, "slip": k, "point_1": d, "point_2": d, "normal": d, "tangent": d}
        width |= {"multipliers_1": 0, "multipliers_2": 0}
        return Contacts(
            **{f.name: jnp.zeros((0, width[f.name]) if f.name in width else 0) for f in dataclasses.fields(Contacts)}
        )
    order = jnp.argsort(jnp.array([number for group in system.groups for number in group.numbers]))
    return jax.tree.map(lambda *parts: jnp.concatenate(parts)[order], *records)

"""The mixed NCP of a step with several stages: Chakraborty (10)-(11) at every stage of a Radau IIA
method.

Per stage i, with the rates U_i = (x', theta') of all bodies as unknowns beside those of `ncp` for
every constraint, and an eta for each equation of positions, which keeps it and its rate at zero
together, as Gear, Gupta and Leimkuhler (1985) do:

    D_i = h sum_j A_ij U_j     x_i = x + D_i^x     Q_i = exp(D_i^theta) Q
    T_i = (x'_i, dexp(D_i^theta) theta'_i)
    pi_i = M(Q_i) T_i - sum_c W_n^T eta_c,i        V_i = M(Q_i)^-1 pi_i

    momentum    pi_i - pi = sum_j A_ij (h f_j + sum_c W_c(q_j)^T p_c,j)
    constraints what `branches.stage_rows` says with q_i and V_i, its impulses p and its eta

with p_c,j h times the contact force. V_i is explicit in the unknowns, which keeps them few. Without
eta, one stage would be the paper's step, which `ncp` has.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from shapes.small_algebra import inner

from ..constraints import branches, incidence, kinematics
from ..constraints.conditions import Held, Instant, Units
from ..constraints.kinematics import Motion, told
from ..model import bodies, loads, rotation
from ..model.bodies import State
from ..model.system import System
from ..model.units import Scales, scales
from ..solvers.collocation import radau
from ..solvers.linear import small_inverse
from . import stage_unknowns

_ROUNDINGS = 64  # errors of rounding in a gap


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class StageProblem:
    """Data of one step of h [s] with `stages` stages from `state`; the rest as in
    `ncp.StepProblem`, but `momentum` is that of `state` alone: loads act at the stages. `scales`
    may be those of another step. `noise` [m]: what rounding makes of a closed gap, which divided by
    h would disturb the rows of speeds. `inverse_inertia` as `System.inertia`, in the frames of the
    bodies."""

    stages: int = dataclasses.field(metadata={"static": True})
    friction: str = dataclasses.field(metadata={"static": True})
    system: System
    state: State
    h: jax.Array
    momentum: jax.Array
    references: tuple[jax.Array, ...]
    scales: Scales
    noise: jax.Array
    inverse_inertia: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Modes:
    """Which branch of each complementarity holds, per group: `touching` and `pressed` (nc,), that
    psi = 0 and that its rate is, or that the force of a compliant contact acts, both; `sticking`
    (nc,); `active` (nc, pairs), that the inequality carries the normal. With more axes in front: of
    stages."""

    touching: tuple[jax.Array, ...]
    pressed: tuple[jax.Array, ...]
    sticking: tuple[jax.Array, ...]
    active: tuple[jax.Array, ...]

    def of(self, group: int) -> Held:
        """Those of one group."""
        return Held(self.touching[group], self.pressed[group], self.sticking[group], self.active[group])


class Stage(NamedTuple):
    """The unknowns of a stage, physical: rates U_i (nb, 6 or 3); per group, `constraints` (n, width
    + etas), the unknowns as in `ncp` followed by the etas; with the time [s] and the `change` D_i
    (nb, 6 or 3) that the rates of all stages give."""

    time: jax.Array
    rates: jax.Array
    change: jax.Array
    constraints: tuple[jax.Array, ...]


class At(NamedTuple):
    """What a stage's unknowns say: its time [s]; the `motion` of all bodies, with V_i; T_i and pi_i
    (nb, 6 or 3); per group of constraints what `Constraint.point` says, with the axis (n,)."""

    time: jax.Array
    motion: Motion
    rates: jax.Array
    momenta: jax.Array
    points: tuple[Any, ...]


def stage_problem(system: System, state: State, h, references, stages: int, friction: str) -> StageProblem:
    """The NCP of a step of h [s] from `state`."""
    momentum = jax.vmap(bodies.momentum)(system.mass, system.inertia, state.orientation, state.velocity)
    everywhere = jnp.concatenate([state.position, system.fixed_position])
    noise = _ROUNDINGS * jnp.finfo(float).eps * (jnp.max(jnp.abs(everywhere)) + system.length)
    units, inverse = scales(system, h), jax.vmap(small_inverse)(system.inertia)
    return StageProblem(stages, friction, system, state, h, momentum, references, units, noise, inverse)


def split_stages(problem: StageProblem, z) -> Stage:
    """All stages, with an axis (s,) in front, of z (s n,), dimensionless."""
    return as_stages(problem, *stage_unknowns.split(problem.system, problem.stages, z * unknown_scale(problem)))


def as_stages(problem: StageProblem, rates, constraints) -> Stage:
    """All stages of physical rates (s, nb, 6 or 3) and, per group, constraints (s, n, width +
    etas)."""
    method = radau(problem.stages)
    change = problem.h * jnp.einsum("ij,jbw->ibw", method.A, rates)
    return Stage(method.seen(problem.state.time, problem.h), rates, change, constraints)


def unknown_scale(problem: StageProblem):
    """Units (s n,) of the unknowns."""
    units = problem.scales
    own = [group.with_etas(unit) for group, unit in zip(problem.system.constraints, units.unknowns, strict=True)]
    each = jax.tree.map(lambda a: jnp.broadcast_to(a, (problem.stages, *a.shape)), (units.velocity, own))
    return stage_unknowns.join(problem.system, *each)


def instant(problem: StageProblem, impulse, time) -> Instant:
    """A stage at `time` [s] as a constraint with the unit `impulse` [N s] sees it."""
    units = problem.scales
    measured = Units(units.length, units.gap, units.speed, impulse)
    # the units stay when h is an unknown
    unit_h = units.speed / problem.system.acceleration
    return Instant(measured, problem.h, unit_h, problem.noise, time, problem.friction)


def motion(problem: StageProblem, rates, change) -> Motion:
    """Poses of all bodies at a stage after the `change` (nb, 6 or 3), and T_i as their velocity."""
    d = problem.system.dimension
    orientation = jax.vmap(rotation.advance)(problem.state.orientation, change[:, d:])
    spin = jax.vmap(rotation.angular_velocity)(change[:, d:], rates[:, d:])
    return Motion(problem.state.position + change[:, :d], orientation, jnp.concatenate([rates[:, :d], spin], axis=1))


def at_stage(problem: StageProblem, stage: Stage) -> At:
    """Where bodies and constraints are, and how fast, at one stage."""
    system, impulses = problem.system, problem.scales.impulse
    moving = motion(problem, stage.rates, stage.change)
    momenta, found = momenta_of(system, moving), []

    def place(member, impulse, *where):
        return member.place(instant(problem, impulse, stage.time), *where)

    for g, group in enumerate(system.constraints):
        motions = kinematics.motions_of(system, moving, group)
        where = stage.constraints[g], reference_of(problem, g), *motions
        own, shifts = jax.vmap(place)(group, impulses[g], *where)
        momenta = momenta - incidence.on_bodies(system, group, *shifts)
        found.append(own)
    there = dataclasses.replace(moving, velocity=velocities(problem, moving.orientation, momenta))

    def point(member, impulse, *where):
        return member.point(instant(problem, impulse, stage.time), *where)

    points = [
        jax.vmap(point)(group, impulse, own, *kinematics.motions_of(system, there, group))
        for group, impulse, own in zip(system.constraints, impulses, found, strict=True)
    ]
    return At(stage.time, there, moving.velocity, momenta, tuple(points))


def reference_of(problem: StageProblem, group: int):
    """The `references` of a group of contacts, None of other constraints."""
    return problem.references[group] if group < len(problem.references) else None


def momenta_of(system: System, at: Motion):
    """M(Q) times the velocities (nb, 6 or 3) of `at`."""
    return jax.vmap(bodies.momentum)(system.mass, system.inertia, at.orientation, at.velocity)


def velocities(problem: StageProblem, orientation, momenta):
    """M(Q)^-1 pi (nb, 6 or 3)."""
    d = problem.system.dimension
    inverse = jax.vmap(bodies.world_inertia)(problem.inverse_inertia, orientation)
    return jnp.concatenate([momenta[:, :d] / problem.system.mass[:, None], jax.vmap(inner)(inverse, momenta[:, d:])], axis=1)


def rows_and_pushes(problem: StageProblem, stage: Stage, at: At, modes: Modes, held):
    """Of one stage: rows of the bodies (nb, 6 or 3), pi_i - pi; per group, rows of the constraints
    (n, width + etas); and what pushes the bodies (nb, 6 or 3) [N s, N m s] in h."""
    system = problem.system
    pushed, rows = problem.h * loads.forces(system, State(stage.time, *told(at.motion))), []

    def one(member, impulse, point, named):
        return branches.stage_rows(member, instant(problem, impulse, stage.time), point, named, held), member.pushes(point)

    for g, (group, point) in enumerate(zip(system.constraints, at.points, strict=True)):
        own, wrenches = jax.vmap(one)(group, problem.scales.impulse[g], point, modes.of(g))
        pushed = pushed + incidence.on_bodies(system, group, *wrenches)
        rows.append(own)
    return (at.momenta - problem.momentum) / problem.scales.momentum, rows, pushed


def residual(problem: StageProblem, z, modes: Modes, held) -> tuple[jax.Array, At, jax.Array]:
    """F (s n,) at z (s n,), both dimensionless; what the unknowns say, with an axis (s,) in front;
    and what pushes the bodies in h (s, nb, 6 or 3) [N s, N m s]. Where `held` (), complementarities
    are the equations of the branches that `modes` name."""
    stages = split_stages(problem, z)
    ats = jax.vmap(functools.partial(at_stage, problem))(stages)
    own, rows, pushed = jax.vmap(lambda stage, at: rows_and_pushes(problem, stage, at, modes, held))(stages, ats)
    gained = jnp.einsum("ij,jbw->ibw", radau(problem.stages).A, pushed) / problem.scales.momentum
    return stage_unknowns.join(problem.system, own - gained, rows), ats, pushed

"""The mixed NCP of a step with several stages: Chakraborty (10)-(11) at every stage of a Radau IIA method.

Per stage i, with the rates U_i = (x', theta') of all bodies as unknowns beside those of `ncp` for every contact, and one
more scalar eta a contact that keeps gap and gap rate at zero together, as Gear, Gupta and Leimkuhler (1985) do:

    D_i = h sum_j A_ij U_j     x_i = x + D_i^x     Q_i = exp(D_i^theta) Q     T_i = (x'_i, dexp(D_i^theta) theta'_i)
    pi_i = M(Q_i) T_i - sum_c W_n^T eta_c,i        V_i = M(Q_i)^-1 pi_i

    momentum    pi_i - pi = sum_j A_ij (h f_j + sum_c W_c(q_j)^T p_c,j)       p_c,j = h times the contact force
    position    0 <= p_n,i + eta_i _|_ psi_i >= 0          velocity   0 <= p_n,i _|_ W_n V_i + 100 psi_i+ / h >= 0

and the closest-point rows and the friction law of `ncp` with q_i and V_i. V_i is explicit in the unknowns, which keeps them
few. Without eta, one stage would be the paper's step, which `ncp` has.

A compliant contact is no constraint on positions, so that eta = 0, and its force obeys S (3) at the stage:

    0 <= p_n,i _|_ psi_i + tau W_n V_i + c p_n,i / h >= 0
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shapes.closest_points.conditions import ClosestPointRows
from shapes.small_algebra import inner

from ..constraints import contact, kinematics
from ..constraints.compliance import gap_unit, shifted_gap
from ..constraints.kinematics import Motion
from ..implicit_euler import ncp
from ..implicit_euler.ncp import ContactUnknowns
from ..model import bodies, rotation
from ..model.bodies import State
from ..model.system import ContactGroup, System
from ..model.units import Scales, scales
from ..solvers.collocation import radau
from ..solvers.complementarity import STEP, fischer_burmeister, length_of
from ..solvers.linear import small_inverse
from . import stage_unknowns

_ROUNDINGS = 64  # errors of rounding in a gap
_OPEN = 100.0  # gaps that close more slowly than in h over this leave the rate of the gap alone


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class StageProblem:
    """Data of one step of h [s] with `stages` stages from `state`; the rest as in `ncp.StepProblem`, but `momentum` is that
    of `state` alone: loads act at the stages. `scales` may be those of another step. `noise` [m]: what rounding makes of a
    closed gap, which divided by h would disturb the rows of speeds. `inverse_inertia` as `System.inertia`, in the frames of
    the bodies."""

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
    """Which half of each complementarity holds, per group: `touching` and `pressed` (nc,), that psi = 0 and that its rate
    is, or that the force of a compliant contact acts, both; `sticking` (nc,); `active` (nc, pairs), that the inequality
    carries the normal. With more axes in front: of stages."""

    touching: tuple[jax.Array, ...]
    pressed: tuple[jax.Array, ...]
    sticking: tuple[jax.Array, ...]
    active: tuple[jax.Array, ...]

    def of(self, group: int) -> Held:
        """Those of one group."""
        return Held(self.touching[group], self.pressed[group], self.sticking[group], self.active[group])


class Held(NamedTuple):
    """The modes of one group, or of one contact."""

    touching: jax.Array
    pressed: jax.Array
    sticking: jax.Array
    active: jax.Array


class Point(NamedTuple):
    """A group's contacts at one stage, all fields with the axis (nc,): unknowns, closest-point rows, eta [N s], the motions
    of both bodies (with V_i), slip v and scaled slip w [m/s], normal velocity v_n [m/s], unit of impulses [N s]."""

    u: ContactUnknowns
    kkt: ClosestPointRows
    eta: jax.Array
    motions: tuple[Motion, Motion]
    v: jax.Array
    w: jax.Array
    v_n: jax.Array
    impulse: jax.Array


class Stage(NamedTuple):
    """The unknowns of a stage, physical: rates U_i (nb, 6 or 3); per group, `contacts` (nc, width + 1), a contact's
    unknowns as in `ncp` followed by eta; with the time [s] and the `change` D_i (nb, 6 or 3) that the rates of all stages
    give."""

    time: jax.Array
    rates: jax.Array
    change: jax.Array
    contacts: tuple[jax.Array, ...]


class At(NamedTuple):
    """What a stage's unknowns say: the `motion` of all bodies, with V_i; T_i and pi_i (nb, 6 or 3); the contacts, per
    group."""

    motion: Motion
    rates: jax.Array
    momenta: jax.Array
    points: tuple[Point, ...]


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


def as_stages(problem: StageProblem, rates, contacts) -> Stage:
    """All stages of physical rates (s, nb, 6 or 3) and, per group, contacts (s, nc, width)."""
    method = radau(problem.stages)
    change = problem.h * jnp.einsum("ij,jbw->ibw", method.A, rates)
    return Stage(problem.state.time + problem.h * method.seen, rates, change, contacts)


def unknown_scale(problem: StageProblem):
    """Units (s n,) of the unknowns."""
    units = problem.scales
    contacts = [
        jnp.concatenate([own, impulse[:, None]], axis=1) for own, impulse in zip(units.contacts, units.impulse, strict=True)
    ]
    each = jax.tree.map(lambda a: jnp.broadcast_to(a, (problem.stages, *a.shape)), (units.velocity, contacts))
    return stage_unknowns.join(problem.system, *each)


def motion(problem: StageProblem, rates, change) -> Motion:
    """Poses of all bodies at a stage after the `change` (nb, 6 or 3), and T_i as their velocity."""
    d = problem.system.dimension
    orientation = jax.vmap(rotation.advance)(problem.state.orientation, change[:, d:])
    spin = jax.vmap(rotation.angular_velocity)(change[:, d:], rates[:, d:])
    return Motion(problem.state.position + change[:, :d], orientation, jnp.concatenate([rates[:, :d], spin], axis=1))


def at_stage(problem: StageProblem, stage: Stage) -> At:
    """Where bodies and contacts are, and how fast, at one stage."""
    system = problem.system
    moving = motion(problem, stage.rates, stage.change)
    momenta, found = momenta_of(system, moving), []
    for g, group in enumerate(system.groups):
        motions = kinematics.contact_motions(system, moving, group)
        own, shifts = jax.vmap(functools.partial(place, problem))(group, stage.contacts[g], problem.references[g], *motions)
        momenta = momenta - contact.on_bodies(system, group, *shifts)
        found.append(own)
    there = dataclasses.replace(moving, velocity=velocities(problem, moving.orientation, momenta))
    points = [
        jax.vmap(moving_point)(group, own, impulse, *kinematics.contact_motions(system, there, group))
        for group, own, impulse in zip(system.groups, found, problem.scales.impulse, strict=True)
    ]
    return At(there, moving.velocity, momenta, tuple(points))


def place(problem: StageProblem, member: ContactGroup, unknowns, reference, motion_1: Motion, motion_2: Motion):
    """Of one contact: its unknowns by name, closest-point rows and eta; and the shifts W_n eta of its bodies' momenta."""
    u = ncp.split(member, unknowns[:-1])
    angle = problem.scales.gap / problem.scales.length
    kkt = contact.geometry_rows(member, u.closest, reference, problem.scales.gap, motion_1, motion_2, angle)
    centres, none = (motion_1.position, motion_2.position), jnp.zeros(member.e.shape)
    return (u, kkt, unknowns[-1]), contact.wrenches(kkt.geometry, *centres, unknowns[-1], none)


def moving_point(member: ContactGroup, placed, impulse, motion_1: Motion, motion_2: Motion) -> Point:
    """One contact that was `placed`, of bodies with velocities V_i."""
    u, kkt, eta = placed
    centres, velocities = (motion_1.position, motion_2.position), (motion_1.velocity, motion_2.velocity)
    v_n, v = contact.slip_velocities(kkt.geometry, *centres, *velocities)
    return Point(u, kkt, eta, (motion_1, motion_2), v, member.e * v, v_n, impulse)


def momenta_of(system: System, at: Motion):
    """M(Q) times the velocities (nb, 6 or 3) of `at`."""
    return jax.vmap(bodies.momentum)(system.mass, system.inertia, at.orientation, at.velocity)


def velocities(problem: StageProblem, orientation, momenta):
    """M(Q)^-1 pi (nb, 6 or 3)."""
    d = problem.system.dimension
    inverse = jax.vmap(bodies.world_inertia)(problem.inverse_inertia, orientation)
    return jnp.concatenate([momenta[:, :d] / problem.system.mass[:, None], jax.vmap(inner)(inverse, momenta[:, d:])], axis=1)


def rows_and_pushes(problem: StageProblem, stage: Stage, at: At, modes: Modes, held):
    """Of one stage: rows of the bodies (nb, 6 or 3), pi_i - pi; per group, rows of the contacts (nc, width); and what
    pushes the bodies (nb, 6 or 3) [N s, N m s] in h."""
    system = problem.system
    pushed, rows = problem.h * loads(problem, stage.time, at.motion), []
    for g, (group, point) in enumerate(zip(system.groups, at.points, strict=True)):
        one = functools.partial(rows_and_wrenches, problem, held)
        own, wrenches = jax.vmap(one)(group, point, modes.of(g))
        pushed = pushed + contact.on_bodies(system, group, *wrenches)
        rows.append(own)
    return (at.momenta - problem.momentum) / problem.scales.momentum, rows, pushed


def rows_and_wrenches(problem: StageProblem, held, member: ContactGroup, point: Point, named: Held):
    """Of one contact at one stage: rows (width,) and the wrenches of its impulses on its bodies; see `residual`."""
    centres = [m.position for m in point.motions]
    wrenches = contact.wrenches(point.kkt.geometry, *centres, point.u.p_n, member.e * point.u.y)
    return contact_rows(problem, member, point, named, held), wrenches


def residual(problem: StageProblem, z, modes: Modes, held) -> tuple[jax.Array, At, jax.Array]:
    """F (s n,) at z (s n,), both dimensionless; what the unknowns say, with an axis (s,) in front; and what pushes the
    bodies in h (s, nb, 6 or 3) [N s, N m s]. Where `held` (), complementarities are the equations of the halves that
    `modes` name."""
    stages = split_stages(problem, z)
    ats = jax.vmap(functools.partial(at_stage, problem))(stages)
    own, rows, pushed = jax.vmap(lambda stage, at: rows_and_pushes(problem, stage, at, modes, held))(stages, ats)
    gained = jnp.einsum("ij,jbw->ibw", radau(problem.stages).A, pushed) / problem.scales.momentum
    return stage_unknowns.join(problem.system, own - gained, rows), ats, pushed


def loads(problem: StageProblem, time, at: Motion):
    """Gravity and wrenches (nb, 6 or 3) [N, N m] at one stage."""
    system = problem.system
    rows = [
        system.wrench[i] if function is None else function(time, at.position[i], at.orientation[i], at.velocity[i])
        for i, function in enumerate(system.wrench_functions)
    ]
    return jnp.stack(rows).at[:, : system.dimension].add(system.mass[:, None] * system.gravity)


def contact_rows(problem: StageProblem, member: ContactGroup, point: Point, named: Held, held):
    """Rows (width + 1,) of one contact at one stage; see `residual`."""
    u = point.u
    named_halves = (named.active, named.touching, named.pressed)
    holds = (held & named.touching, held, held)  # where bodies are apart, their closest points may wander over edges
    halves = [
        jnp.where(fixed, jnp.where(on, b, a), fischer_burmeister(a, b))
        for (a, b), on, fixed in zip(complementary(problem, member, point), named_halves, holds, strict=True)
    ]
    free = ncp.friction_rows(problem, member, u, point.w, point.impulse)
    fixed = _held_friction(problem, member, u, point.w, point.impulse, named.sticking)
    active, touching, pressed = halves
    if member.compliance is not None:
        touching = point.eta / point.impulse
    return jnp.concatenate([point.kkt.equations, active, pressed[None], jnp.where(held, fixed, free), touching[None]])


def give(problem: StageProblem, group: ContactGroup, held):
    """What it adds to the derivative (width, width) of `contact_rows` by a contact's unknowns if its speeds and its gap give
    way to p_n, y and eta by one unit each, with the signs of the rows."""
    n, k = group.pair.unknowns, group.e.shape[-1]
    complementarity = jnp.where(held, 1.0, -1.0)  # Fischer-Burmeister functions fall with both of their arguments
    friction = 1.0 if problem.friction == "projection" else complementarity
    normal, tangential, position = n, np.arange(n + 2, n + 2 + k), n + 2 + k
    matrix = jnp.zeros((position + 1, position + 1)).at[tangential, tangential - 1].set(friction)
    return matrix.at[(normal, position), (normal, position)].set(complementarity)


def complementary(problem: StageProblem, member: ContactGroup, point: Point):
    """The pairs 0 <= a _|_ b >= 0 of one contact at one stage, dimensionless: its inequalities', and those of p_n with the
    gap and with the gap's rate; of a compliant contact both are the one of its law."""
    units, p_n, psi = problem.scales, point.u.p_n / point.impulse, point.kkt.geometry.psi
    inequalities = point.kkt.multipliers, point.kkt.slacks
    if member.compliance is not None:
        h = units.speed / problem.system.acceleration  # of the units, which stay when h is an unknown
        unit = gap_unit(member, units.gap, units.speed, point.impulse, h)
        law = p_n, shifted_gap(member, psi, point.v_n, point.u.p_n, problem.h) / unit
        return inequalities, law, law
    return (
        inequalities,
        (p_n + point.eta / point.impulse, psi / units.gap),
        (p_n, (point.v_n + _OPEN * jnp.maximum(psi - problem.noise, 0.0) / problem.h) / units.speed),
    )


def _held_friction(problem: StageProblem, member: ContactGroup, u: ContactUnknowns, w, impulse, sticking):
    """`friction.projection_rows` on the named side: w = 0, or y of length mu p_n along y - STEP w."""
    on, speed = member.e > 0, problem.scales.speed
    y, w = jnp.where(on, u.y / impulse, 0.0), w / speed
    along = y - STEP * w
    size = length_of(along)
    slides = y - member.mu * u.p_n / impulse * along / jnp.where(size > 0, size, 1.0)
    rows = jnp.where(sticking, STEP * w, slides) + jnp.where(on, 0.0, u.y / impulse)
    return jnp.concatenate([(u.sigma / speed - length_of(w))[None], rows])

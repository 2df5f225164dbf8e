"""The mixed NCP of a step with several stages: Chakraborty (10)-(11) at every stage of a Radau IIA method.

Per stage i, with the rates U_i = (x', theta') of all bodies as unknowns beside those of `ncp` for every contact, and one
more scalar eta a contact that keeps gap and gap rate at zero together, as Gear, Gupta and Leimkuhler (1985) do:

    D_i = h sum_j A_ij U_j     x_i = x + D_i^x     Q_i = exp(D_i^theta) Q     T_i = (x'_i, dexp(D_i^theta) theta'_i)
    pi_i = M(Q_i) T_i - sum_c W_n^T eta_c,i        V_i = M(Q_i)^-1 pi_i

    momentum    pi_i - pi = sum_j A_ij (h f_j + sum_c W_c(q_j)^T p_c,j)       p_c,j = h times the contact force
    position    0 <= p_n,i + eta_i _|_ psi_i >= 0          velocity   0 <= p_n,i _|_ W_n V_i + psi_i / h >= 0

and the closest-point rows and the friction law of `ncp` with q_i and V_i. V_i is explicit in the unknowns, which keeps them
few. Without eta, one stage would be the paper's step, which `ncp` has.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shapes.closest_points import ClosestPointRows

from . import bodies, contact, ncp, rotation
from .bodies import State
from .collocation import radau
from .complementarity import STEP, fischer_burmeister, length_of
from .ncp import ContactUnknowns, Motion
from .nearby import most_multipliers
from .records import Contacts, Stages, no_contacts
from .scales import Scales, scales
from .system import ContactGroup, System, in_user_order

_NEVER = 1e9  # a margin that is not left
_SLIDES = 1e-6  # of g h: a slip that has a direction


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class StageProblem:
    """Data of one step of h [s] with `stages` stages from `state`; the rest as in `ncp.StepProblem`, but `momentum` is that
    of `state` alone: loads act at the stages. `scales` may be those of another step."""

    stages: int = dataclasses.field(metadata={"static": True})
    friction: str = dataclasses.field(metadata={"static": True})
    system: System
    state: State
    h: jax.Array
    momentum: jax.Array
    references: tuple[jax.Array, ...]
    scales: Scales


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Modes:
    """Which half of each complementarity holds, per group: `touching` and `pressed` (nc,), that psi = 0 and that its rate
    is; `sticking` (nc,); `active` (nc, pairs), that the inequality carries the normal. With more axes in front: of stages."""

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
    """A group's contacts at every stage, all fields with the axes (s, nc): unknowns, closest-point rows, eta [N s], the
    motions of both bodies (with V_i), slip v and scaled slip w [m/s], normal velocity v_n [m/s], unit of impulses [N s]."""

    u: ContactUnknowns
    kkt: ClosestPointRows
    eta: jax.Array
    motions: tuple[Motion, Motion]
    v: jax.Array
    w: jax.Array
    v_n: jax.Array
    impulse: jax.Array


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where things stand in z and F(z): `rates` (s, nb, 6 or 3), and per group `contacts` (s, nc, width + 1), a contact's
    unknowns as in `ncp` followed by eta."""

    size: int
    rates: np.ndarray
    contacts: tuple[np.ndarray, ...]


def layout(system: System, stages: int) -> Layout:
    """Indices of the unknowns; rows have the same ones."""
    width = 6 if system.dimension == 3 else 3
    rates = np.arange(stages * system.body_count * width).reshape(stages, -1, width)
    start, contacts = rates.size, []
    for group in system.groups:
        shape = (stages, len(group.bodies), group.pair.unknowns + group.e.shape[-1] + 3)
        contacts.append(start + np.arange(np.prod(shape)).reshape(shape))
        start += int(np.prod(shape))
    return Layout(start, rates, tuple(contacts))


def stage_problem(system: System, state: State, h, references, stages: int, friction: str) -> StageProblem:
    """The NCP of a step of h [s] from `state`."""
    momentum = jax.vmap(bodies.momentum)(system.mass, system.inertia, state.orientation, state.velocity)
    return StageProblem(stages, friction, system, state, h, momentum, references, scales(system, h))


def unknown_scale(problem: StageProblem):
    """Units (N,) of the unknowns."""
    units, s = problem.scales, problem.stages
    parts = [jnp.broadcast_to(units.velocity, (s, *units.velocity.shape)).reshape(-1)]
    for contacts, impulse in zip(units.contacts, units.impulse, strict=True):
        own = jnp.concatenate([contacts, impulse[:, None]], axis=1)
        parts.append(jnp.broadcast_to(own, (s, *own.shape)).reshape(-1))
    return jnp.concatenate(parts)


def motion(problem: StageProblem, rates):
    """Poses and T_i (s, nb, ...) of all bodies at the stages with `rates` U (s, nb, 6 or 3)."""
    state, d, method = problem.state, problem.system.dimension, radau(problem.stages)
    change = problem.h * jnp.einsum("ij,jbw->ibw", method.A, rates)
    turn = change[..., d:]
    over_bodies = jax.vmap(rotation.advance)
    orientation = jax.vmap(over_bodies, (None, 0))(state.orientation, turn)
    spin = jax.vmap(jax.vmap(rotation.angular_velocity))(turn, rates[..., d:])
    return Motion(state.position + change[..., :d], orientation, jnp.concatenate([rates[..., :d], spin], axis=-1))


def points(problem: StageProblem, unknowns) -> tuple[Motion, jax.Array, list[Point]]:
    """Motion of all bodies at the stages, with V_i; momenta pi_i (s, nb, 6 or 3); and the contacts of each group."""
    system, where = problem.system, layout(problem.system, problem.stages)
    at = motion(problem, unknowns[where.rates])
    over = jax.vmap(jax.vmap(bodies.momentum), (None, None, 0, 0))
    momenta = over(system.mass, system.inertia, at.orientation, at.velocity)
    found = []
    for index, group, references in zip(where.contacts, system.groups, problem.references, strict=True):
        motions = jax.vmap(lambda m, group=group: ncp.contact_motions(system, m, group))(at)

        def geometry(member, unknowns, reference, motion_1, motion_2):
            u = ncp.split(member, unknowns[:-1])
            angle = problem.scales.gap / problem.scales.length
            kkt = ncp.geometry_rows(member, u.closest, reference, problem.scales.gap, motion_1, motion_2, angle)
            none = jnp.zeros(member.e.shape)
            return (u, kkt, unknowns[-1]), contact.wrenches(
                kkt.geometry, motion_1.position, motion_2.position, unknowns[-1], none
            )

        (u, kkt, eta), wrenches = _over(geometry)(group, unknowns[index], references, *motions)
        momenta = momenta - on_bodies(system, group, wrenches)
        found.append((u, kkt, eta))
    at = dataclasses.replace(at, velocity=_velocity(system, at.orientation, momenta))
    return (
        at,
        momenta,
        [_point(problem, at, *entry) for entry in zip(system.groups, found, problem.scales.impulse, strict=True)],
    )


def _point(problem: StageProblem, at: Motion, group: ContactGroup, found, impulse) -> Point:
    u, kkt, eta = found
    motions = jax.vmap(lambda m: ncp.contact_motions(problem.system, m, group))(at)

    def slip(member, geometry, motion_1, motion_2):
        v_n, v = contact.slip_velocities(
            geometry, motion_1.position, motion_2.position, motion_1.velocity, motion_2.velocity
        )
        return v, member.e * v, v_n

    v, w, v_n = jax.vmap(jax.vmap(slip), (None, 0, 0, 0))(group, kkt.geometry, *motions)
    return Point(u, kkt, eta, motions, v, w, v_n, jnp.broadcast_to(impulse, v_n.shape))


def _velocity(system: System, orientation, momenta):
    """M(Q)^-1 pi (s, nb, 6 or 3)."""
    d = system.dimension
    inverse = jnp.linalg.inv(system.inertia)
    over = jax.vmap(jax.vmap(bodies.world_inertia), (None, 0))
    spin = jnp.einsum("sbij,sbj->sbi", over(inverse, orientation), momenta[..., d:])
    return jnp.concatenate([momenta[..., :d] / system.mass[:, None], spin], axis=-1)


def _over(function):
    """Over stages and contacts: arguments are a group, its unknowns, references, and motions."""
    return jax.vmap(jax.vmap(function), (None, 0, None, 0, 0))


def on_bodies(system: System, group: ContactGroup, wrenches):
    """Sum (s, nb, 6 or 3) of what acts on body 1 and body 2 of each contact, two (s, nc, 6 or 3)."""
    total = jnp.zeros((wrenches[0].shape[0], system.body_count, wrenches[0].shape[-1]))
    for i in (0, 1):
        if group.moving[i]:
            total = total.at[:, np.array(group.bodies)[:, i]].add(wrenches[i])
    return total


def residual(problem: StageProblem, z, modes: Modes, held):
    """F (N,) at z (N,), both dimensionless, and the contacts there. Where `held` (), complementarities are the equations of the
    halves that `modes` name."""
    system, where = problem.system, layout(problem.system, problem.stages)
    at, momenta, found = points(problem, z * unknown_scale(problem))
    pushed = problem.h * loads(problem, at)
    F = jnp.zeros(where.size)
    for g, (index, group, point) in enumerate(zip(where.contacts, system.groups, found, strict=True)):

        def rows(member, point, named):
            return contact_rows(problem, member, point, named, held)

        def push(member, point):
            centres = [m.position for m in point.motions]
            return contact.wrenches(point.kkt.geometry, *centres, point.u.p_n, member.e * point.u.y)

        F = F.at[index].set(jax.vmap(jax.vmap(rows), (None, 0, None))(group, point, modes.of(g)))
        pushed = pushed + on_bodies(system, group, jax.vmap(jax.vmap(push), (None, 0))(group, point))
    balance = momenta - problem.momentum - jnp.einsum("ij,jbw->ibw", radau(problem.stages).A, pushed)
    return F.at[where.rates].set(balance / problem.scales.momentum), found


def loads(problem: StageProblem, at: Motion):
    """Gravity and wrenches (s, nb, 6 or 3) [N, N m] at the stages."""
    system, c = problem.system, radau(problem.stages).c
    columns = []
    for i, function in enumerate(system.wrench_functions):
        if function is None:
            columns.append(jnp.broadcast_to(system.wrench[i], (len(c), system.wrench.shape[1])))
        else:
            times = problem.state.time + problem.h * c
            columns.append(jax.vmap(function)(times, at.position[:, i], at.orientation[:, i], at.velocity[:, i]))
    weight = system.mass[:, None] * system.gravity
    return jnp.stack(columns, axis=1).at[..., : system.dimension].add(weight)


def contact_rows(problem: StageProblem, member: ContactGroup, point: Point, named: Held, held):
    """Rows (width + 1,) of one contact at one stage; see `residual`."""
    u = point.u
    halves = [
        jnp.where(held, jnp.where(on, b, a), fischer_burmeister(a, b))
        for (a, b), on in zip(
            complementary(problem, member, point), (named.active, named.touching, named.pressed), strict=True
        )
    ]
    free = ncp.friction_rows(problem, member, u, point.w, point.impulse)
    fixed = _held_friction(problem, member, u, point.w, point.impulse, named.sticking)
    active, touching, pressed = halves
    return jnp.concatenate([point.kkt.equations, active, pressed[None], jnp.where(held, fixed, free), touching[None]])


def complementary(problem: StageProblem, member: ContactGroup, point: Point):
    """The pairs 0 <= a _|_ b >= 0 of one contact at one stage, dimensionless: its inequalities', and those of p_n with the
    gap and with the gap's rate."""
    units, p_n, psi = problem.scales, point.u.p_n / point.impulse, point.kkt.geometry.psi
    return (
        (point.kkt.multipliers, point.kkt.slacks),
        (p_n + point.eta / point.impulse, psi / units.gap),
        (p_n, (point.v_n + psi / problem.h) / units.speed),
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


def modes_of(problem: StageProblem, found: list[Point]) -> Modes:
    """The halves that hold in a solution, at every stage; without friction a contact slides."""

    def one(member, point):
        (weights, slacks), (p, gap), (force, rate) = complementary(problem, member, point)
        on, speed = member.e > 0, problem.scales.speed
        along = jnp.where(on, point.u.y / point.impulse, 0.0) - STEP * point.w / speed
        radius = member.mu * force
        return Held(p > gap, force > rate, (jnp.dot(along, along) <= radius**2) & (radius > 0), weights > slacks)

    each = [jax.vmap(jax.vmap(one), (None, 0))(group, p) for group, p in zip(problem.system.groups, found, strict=True)]
    return Modes(*(tuple(parts) for parts in zip(*each, strict=True))) if each else Modes((), (), (), ())


def margins(problem: StageProblem, found: list[Point], modes: Modes, slips):
    """How far (s, n) every half that `modes` name is from being left, dimensionless, >= 0 while it is not: per contact gap or
    force; cone, or slip along its direction at the start, that of `slips` (nc, k); the inequalities' multipliers or slacks."""
    parts = []
    for g, (group, point) in enumerate(zip(problem.system.groups, found, strict=True)):
        ahead = jax.vmap(_direction, (0, 0, None))(slips[g], point.w[0], problem.scales.speed)

        def one(member, point, held, ahead):
            (weights, slacks), (_, gap), (force, _) = complementary(problem, member, point)
            y = jnp.where(member.e > 0, point.u.y / point.impulse, 0.0)
            slip = jnp.dot(point.w, ahead) / problem.scales.speed
            friction = jnp.where(held.sticking, member.mu * force - length_of(y), slip)
            normal = jnp.where(held.touching, force, gap)
            # without contact or friction there is nothing to slip or stick
            rubs = jnp.where(held.touching & (member.mu > 0), friction, _NEVER)
            return jnp.concatenate([normal[None], rubs[None], jnp.where(held.active, weights, slacks)])

        over = jax.vmap(jax.vmap(one), (None, 0, None, None))
        parts.append(over(group, point, modes.of(g), ahead).reshape(problem.stages, -1))
    return jnp.concatenate([*parts, jnp.zeros((problem.stages, 0))], axis=1)


def _direction(start, first, speed):
    """Unit vector (k,) along the slip at the start, or where there is none yet, along that at the first stage."""
    slip = jax.lax.stop_gradient(jnp.where(length_of(start) > _SLIDES * speed, start, first))
    return slip / jnp.maximum(length_of(slip), 1e-300)


def records(problem: StageProblem, found: list[Point], gaps, rates, velocity) -> Contacts:
    """The contacts at the end of the step with its impulses, and those at the stages; `gaps` (nc,) at its start."""
    system, s = problem.system, problem.stages
    if not system.groups:
        return _no_contacts(system, rates, velocity)
    most = most_multipliers(system)
    parts = []
    for group, point in zip(system.groups, found, strict=True):
        kkt = point.kkt
        own = Contacts(
            normal_impulse=point.u.p_n,
            friction_impulse=group.e * point.u.y,
            gap=kkt.geometry.psi,
            gap_start=jnp.broadcast_to(gaps[np.array(group.numbers)], kkt.geometry.psi.shape),
            slip=point.v,
            sigma=jax.vmap(jax.vmap(length_of))(point.w),
            point_1=kkt.geometry.a1,
            point_2=kkt.geometry.a2,
            normal=kkt.geometry.n,
            tangent=kkt.geometry.tangents[:, :, 0],
            multipliers_1=jnp.pad(kkt.l1, ((0, 0), (0, 0), (0, most[0] - kkt.l1.shape[-1]))),
            multipliers_2=jnp.pad(kkt.l2, ((0, 0), (0, 0), (0, most[1] - kkt.l2.shape[-1]))),
        )
        parts.append((own, point.eta))
    joined, eta = jax.tree.map(lambda *a: jax.vmap(lambda v: in_user_order(system, v))(jnp.concatenate(a, axis=1)), *parts)
    share = radau(s).A[-1]  # of each stage's impulse in that of the step
    end = jax.tree.map(lambda a: a[-1], joined)
    return dataclasses.replace(
        end,
        normal_impulse=share @ joined.normal_impulse,
        friction_impulse=jnp.einsum("i,ick->ck", share, joined.friction_impulse),
        stages=Stages(rates, velocity, eta, joined),
    )


def _no_contacts(system: System, rates, velocity) -> Contacts:
    none = no_contacts(system.dimension)
    several = jax.tree.map(lambda a: jnp.zeros((len(rates), *a.shape)), none)
    return dataclasses.replace(none, stages=Stages(rates, velocity, several.gap, several))


def long_forms(system: System, state: State, contacts) -> list:
    """Per group, the closest-point unknowns (nc, unknowns) in long form of the last of stages' unknowns `contacts`."""

    def one(member: ContactGroup, unknowns, motion_1, motion_2):
        closest, d = unknowns[: member.pair.unknowns], member.pair.dimension
        if not member.pair.smooth:
            return closest
        return member.pair.general.start(closest[:d], closest[d:], *ncp.placed(member, motion_1, motion_2))

    return [
        jax.vmap(one)(group, unknowns[-1], *ncp.contact_motions(system, state, group))
        for group, unknowns in zip(system.groups, contacts, strict=True)
    ]

"""The mixed NCP of one time step, Chakraborty (10)-(11): its unknowns, its residual, and the blocks of its Jacobian.

Unknowns are z = [nu of every moving body; per contact the closest-point unknowns, p_n, y, sigma], dimensionless, with the
scaled friction impulse y = (p_t/e_t, p_o/e_o, p_r/e_r). Two contacts of smooth bodies on one moving body give the paper's
count, 6 + 2 x 11 = 28. Contacts couple only through the velocities of their bodies: each is a function of its own unknowns
and those velocities, hence one small dense block of the Jacobian.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from shapes.closest_points.conditions import ContactGeometry

from ..constraints import contact, kinematics
from ..constraints.compliance import gap_unit, shifted_gap
from ..constraints.friction import FRICTION_ROWS
from ..constraints.kinematics import Motion
from ..model import bodies, loads
from ..model.bodies import State
from ..model.system import ContactGroup, System, take
from ..model.units import Scales, scales
from ..solvers.blocks import Blocks, Kept, Links, Pattern, eliminated, no_factors
from ..solvers.complementarity import fischer_burmeister
from ..solvers.linear import Dense, Inverse, apart
from ..solvers.newton import linearized

_DENSE = 150  # unknowns up to which one dense matrix serves; beyond, blocks take less time to compile and to run
_ALL_SLOTS, _SLOTS = 250, 20  # unknowns that blocks may leave: so many in all, and so many per body where that is more


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class StepProblem:
    """Data of one step of h [s] from `state`. `momentum` (nb, 6 or 3): M(q) nu + p_app at its start [N s, N m s];
    `references`, per group (nc, d): world directions that orient the tangents where friction has no direction; `friction`:
    which of `friction.FRICTION_ROWS`; `dense`: whether its Jacobian is one matrix, whatever its size."""

    friction: str = dataclasses.field(metadata={"static": True})
    dense: bool = dataclasses.field(metadata={"static": True})
    system: System
    state: State
    h: jax.Array
    momentum: jax.Array
    references: tuple[jax.Array, ...]
    scales: Scales


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ContactUnknowns:
    """One contact's unknowns in physical units: closest-point unknowns, p_n [N s], y (k,) [N s], sigma [m/s]."""

    closest: jax.Array
    p_n: jax.Array
    y: jax.Array
    sigma: jax.Array


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where things stand in z, and in F(z): static index arrays `velocity` (nb, 6 or 3) and, per group, `contacts` (nc,
    width)."""

    size: int
    velocity: np.ndarray
    contacts: tuple[np.ndarray, ...]


def layout(system: System) -> Layout:
    """Indices of the unknowns; rows have the same ones."""
    width = 6 if system.dimension == 3 else 3
    velocity = np.arange(system.body_count * width).reshape(-1, width)
    start, contacts = velocity.size, []
    for group in system.groups:
        shape = (len(group.bodies), group.pair.unknowns + group.e.shape[-1] + 2)
        contacts.append(start + np.arange(np.prod(shape)).reshape(shape))
        start += int(np.prod(shape))
    return Layout(start, velocity, tuple(contacts))


def step_problem(
    system: System, state: State, h, references, friction: str = "projection", dense: bool = False
) -> StepProblem:
    """The NCP of a step of h [s] from `state`."""
    return StepProblem(
        friction, dense, system, state, h, loads.applied_momentum(system, state, h), references, scales(system, h)
    )


def unknown_scale(problem: StepProblem):
    """Units (N,) of the unknowns."""
    return jnp.concatenate([problem.scales.velocity.reshape(-1), *(c.reshape(-1) for c in problem.scales.contacts)])


def round_off(problem: StepProblem):
    """What rounding alone leaves in F (): far away and fast bodies have fewer digits for gaps and momenta.

    Velocities are rounded to eps |nu| and points to eps |x|, which a gap measures in `Scales.gap`; the factor 16 is for the
    operations in between (measured on bodies 40 m away: 5).
    """
    fastest = jnp.max(jnp.abs(problem.state.velocity / problem.scales.velocity))
    farthest = jnp.max(jnp.abs(problem.state.position)) / problem.scales.gap
    return 16 * jnp.finfo(float).eps * (fastest + farthest)


def split(group: ContactGroup, unknowns) -> ContactUnknowns:
    """One contact's unknowns (width,) by name."""
    n = group.pair.unknowns
    return ContactUnknowns(unknowns[:n], unknowns[n], unknowns[n + 1 : -1], unknowns[-1])


def join(unknowns: ContactUnknowns):
    """Inverse of `split`."""
    return jnp.concatenate([unknowns.closest, unknowns.p_n[None], unknowns.y, unknowns.sigma[None]])


def scaled_slip(member: ContactGroup, geometry: ContactGeometry, motion_1: Motion, motion_2: Motion):
    """w = (e_t v_t, e_o v_o, e_r v_r), or (e_t v_t,) [m/s]."""
    _, slip = contact.slip_velocities(geometry, motion_1.position, motion_2.position, motion_1.velocity, motion_2.velocity)
    return member.e * slip


def contact_rows(problem: StepProblem, member: ContactGroup, u: ContactUnknowns, reference, impulse, motion_1, motion_2):
    """Rows (width,) of one contact, dimensionless, and the wrenches of its impulses on its bodies; `impulse` is m g h."""
    # a normal turns in a step by what moves a point at the scene's length by the unit of gaps
    angle = problem.scales.gap / problem.scales.length
    kkt = contact.geometry_rows(member, u.closest, reference, problem.scales.gap, motion_1, motion_2, angle)
    rows = jnp.concatenate(
        [
            kkt.equations,
            fischer_burmeister(kkt.multipliers, kkt.slacks),
            gap_row(problem, member, u, kkt.geometry, impulse, motion_1, motion_2)[None],
            friction_rows(problem, member, u, scaled_slip(member, kkt.geometry, motion_1, motion_2), impulse),
        ]
    )
    p_f = member.e * u.y
    return rows, contact.wrenches(kkt.geometry, motion_1.position, motion_2.position, u.p_n, p_f)


def gap_row(problem: StepProblem, member: ContactGroup, u: ContactUnknowns, geometry, impulse, motion_1, motion_2):
    """Row () of 0 <= p_n _|_ psi >= 0, or of the compliant law in its place."""
    psi, unit = geometry.psi, problem.scales.gap
    if member.compliance is not None:
        v_n, _ = contact.slip_velocities(
            geometry, motion_1.position, motion_2.position, motion_1.velocity, motion_2.velocity
        )
        psi = shifted_gap(member, psi, v_n, u.p_n, problem.h)
        unit = gap_unit(member, unit, problem.scales.speed, impulse, problem.h)
    return fischer_burmeister(u.p_n / impulse, psi / unit)


def friction_rows(problem: StepProblem, member: ContactGroup, u: ContactUnknowns, w, impulse):
    """Rows (1 + k,) of maximum dissipation, in the form that the problem names; a semi-axis e_i = 0 gives y_i = 0."""
    on = member.e > 0
    y = u.y / impulse
    rows = FRICTION_ROWS[problem.friction](
        member.mu * u.p_n / impulse, jnp.where(on, y, 0.0), u.sigma / problem.scales.speed, w / problem.scales.speed
    )
    return rows + jnp.append(0.0, jnp.where(on, 0.0, y))


@jax.jit
def residual(problem: StepProblem, z):
    """F (N,) at z (N,), both dimensionless: Chakraborty (10)-(11) with complementarity as roots."""
    where, contacts = layout(problem.system), []
    balances = _over_bodies(problem, where, lambda f: f, z)
    for g, own in enumerate(_over_contacts(problem, where, lambda f: f, z)):
        rows, pushes = _parted(problem, where, g, own[..., None])
        balances = balances + pushes[..., 0]
        contacts.append(rows.reshape(-1))
    return jnp.concatenate([balances.reshape(-1), *contacts])


def linearize(problem: StepProblem, z):
    """F (N,) and dF/dz (N, N), assembled from one forward-mode block per body and per contact."""
    where = layout(problem.system)
    F, block = _over_bodies(problem, where, linearized, z)
    top = apart(block)
    top = jnp.concatenate([F[..., None], top, jnp.zeros((*F.shape, where.size - top.shape[2]))], axis=2)
    all_rows = []
    for g, (own, block) in enumerate(_over_contacts(problem, where, linearized, z)):
        size, (nc, width) = own.shape[1], where.contacts[g].shape
        by_contacts, by_velocities = jnp.split(block, [width], axis=2)
        columns = [jnp.zeros((nc, size, index.size)) for index in where.contacts]
        columns[g] = apart(by_contacts)
        moving = contact.by_body(contact.shares(problem.system, problem.system.groups[g]), by_velocities)
        rows, pushes = _parted(problem, where, g, jnp.concatenate([own[..., None], moving, *columns], axis=2))
        top = top + pushes
        all_rows.append(rows.reshape(nc * width, -1))
    both = jnp.concatenate([top.reshape(-1, where.size + 1), *all_rows])
    return both[:, 0], both[:, 1:]


def blocks(problem: StepProblem, z) -> tuple[jax.Array, Blocks]:
    """F (N,) and dF/dz by the blocks of bodies and contacts."""
    where, contacts, links = layout(problem.system), [], []
    balances, nodes = _over_bodies(problem, where, linearized, z)
    for g, (own, block) in enumerate(_over_contacts(problem, where, linearized, z)):
        rows, pushes = _parted(problem, where, g, own[..., None])
        balances = balances + pushes[..., 0]
        contacts.append(rows.reshape(-1))
        links.append(block)
    F = jnp.concatenate([balances.reshape(-1), *contacts])
    return F, eliminated(pattern(problem.system, problem.friction), nodes, links)


def system_of(problem: StepProblem, z) -> tuple[jax.Array, Dense | Blocks]:
    """F (N,) and dF/dz as a linear system: dense where there are few unknowns."""
    if in_blocks(problem.system, problem.dense):
        return blocks(problem, z)
    F, jacobian = linearize(problem, z)
    return F, Dense(jacobian)


def in_blocks(system: System, dense: bool = False) -> bool:
    """Whether the Jacobian of a step stays in blocks."""
    return not dense and system.unknown_count > _DENSE


def nothing_kept(system: System, friction: str, dense: bool = False) -> Inverse | Kept:
    """What `newton_again` has before the first step."""
    if in_blocks(system, dense):
        return no_factors(pattern(system, friction))
    return Inverse(jnp.zeros((system.unknown_count, system.unknown_count)))


@functools.lru_cache(maxsize=64)
def _pattern(body_count: int, width: int, groups: tuple) -> Pattern:
    links = []
    for bodies_of, moving, unknowns, axes, sign in groups:
        nodes = tuple(tuple(b for b, moves in zip(pair, moving, strict=True) if moves) for pair in bodies_of)
        p_n, sigma = unknowns, unknowns + axes + 1  # rows stand as closest points, gap, sigma, y
        scaled = tuple((p_n + 1 + i, p_n + 2 + i, sign, False) for i in range(axes))
        pairs = ((sigma, p_n + 1, sign, sign > 0), *scaled, (p_n, p_n, -1.0, False))
        links.append(Links(nodes, sigma + 1, unknowns, pairs))
    # a contact that presses leaves p_n and y, one with an edge or a face up to three more
    most = sum(len(group.nodes) * min(group.own, 4 + 3 * (group.free > 2 * (width // 2))) for group in links)
    return Pattern(body_count, width, tuple(links), min(most, max(_ALL_SLOTS, _SLOTS * body_count)))


def pattern(system: System, friction: str) -> Pattern:
    """Which blocks stand where."""
    sign = 1.0 if friction == "projection" else -1.0
    groups = tuple((g.bodies, g.moving, g.pair.unknowns, g.e.shape[-1], sign) for g in system.groups)
    return _pattern(system.body_count, 6 if system.dimension == 3 else 3, groups)


def _parted(problem: StepProblem, where: Layout, g: int, own):
    """Of a group's (nc, outputs, k): rows (nc, width, k), and the sum (nb, 6 or 3, k) of the impulses on every body."""
    rows, pushes = jnp.split(own, [where.contacts[g].shape[1]], axis=1)
    share = contact.shares(problem.system, problem.system.groups[g])
    pushes = pushes.reshape(*share.shape[:2], 1, -1, own.shape[2])
    return rows, jnp.sum(share[..., None, None] * pushes, axis=(0, 1))


def _over_bodies(problem: StepProblem, where: Layout, transform: Callable, z):
    """`transform` of each body's momentum balance as a function of its own unknowns."""
    system, state, units = problem.system, problem.state, problem.scales

    def one(nu, unit, momentum_unit, mass, inertia, position, orientation, momentum):
        def balance(nu):
            _, turned = bodies.advance(position, orientation, nu * unit, problem.h)
            return (bodies.momentum(mass, inertia, turned, nu * unit) - momentum) / momentum_unit

        return transform(balance)(nu)

    return jax.vmap(one)(
        take(z, where.velocity), units.velocity, units.momentum, system.mass, system.inertia,
        state.position, state.orientation, problem.momentum,
    )  # fmt: skip


def _over_contacts(problem: StepProblem, where: Layout, transform: Callable, z):
    """Per group, `transform` of each contact's rows and of its impulses on its moving bodies, as a function of the unknowns
    in the contact's block."""
    results = []

    def of_moving(group, values):
        sides = [np.array(group.bodies)[:, i] for i, moves in enumerate(group.moving) if moves]
        return jnp.concatenate([take(values, numbers) for numbers in sides], axis=1)

    for g, group in enumerate(problem.system.groups):
        width = where.contacts[g].shape[1]

        def one(block, unit, impulse, momentum_units, reference, member, starts, group=group, width=width):
            def rows_and_impulses(block):
                physical = block * unit
                parts = iter(jnp.split(physical[width:], sum(group.moving)))
                motions = [
                    kinematics.moved(start, next(parts), problem.h) if moves else start
                    for start, moves in zip(starts, group.moving, strict=True)
                ]
                u = split(group, physical[:width])
                rows, wrenches = contact_rows(problem, member, u, reference, impulse, *motions)
                on_moving = [w for w, moves in zip(wrenches, group.moving, strict=True) if moves]
                return jnp.concatenate([rows, -jnp.concatenate(on_moving) / momentum_units])

            return transform(rows_and_impulses)(block)

        index = where.contacts[g]
        results.append(
            jax.vmap(one)(
                jnp.concatenate([take(z, index), of_moving(group, take(z, where.velocity))], axis=1),
                jnp.concatenate([problem.scales.contacts[g], of_moving(group, problem.scales.velocity)], axis=1),
                problem.scales.impulse[g],
                of_moving(group, problem.scales.momentum),
                problem.references[g],
                group,
                kinematics.contact_motions(problem.system, problem.state, group),
            )
        )
    return results

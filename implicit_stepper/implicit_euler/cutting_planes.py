"""The cut start of a step that its warm start does not solve: a linearised contact problem with
ever more tangent planes.

A round moves the bodies with a trial velocity, asks for the closest points there, and adds one
tangent plane per contact to all the planes found before. Gauss-Seidel over all of them gives the
next trial velocity and, per contact, a pressure centre that can lie between several closest points
or far from the last one: at a box landing on a face the closest points are its corners in turn.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from shapes.shards import varying_like

from ..collision.local_search import closest_points_from
from ..constraints import contact, kinematics
from ..constraints.conditions import Constraint
from ..constraints.joint_rows import JointRows, by_group, elastic_forces, joint_rows
from ..model import bodies, rotation
from ..solvers.complementarity import length_of, project_to_disc
from . import ncp

_TILTS = (0.2, 0.5, 0.03)  # [rad]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class GroupCuts:
    """Tangent planes of one group's contacts, first axes (round, contact).

    closest: closest-point unknowns, long form; body_1, body_2 (.., d): the points in the frames of
    their bodies; rate (.., 1 + k, n): W_n.nu and the scaled slips w as linear functions of all
    velocities nu (n,); speed (..): psi/h - W_n.nu of the trial, so that the plane is W_n.nu + speed
    >= 0; impulse (.., 1 + k): p_n and y of the last sweep.
    """

    closest: jax.Array
    body_1: jax.Array
    body_2: jax.Array
    rate: jax.Array
    speed: jax.Array
    impulse: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Cuts:
    """All planes so far: `velocity` (nb, 6 or 3), the next trial; `free`, that without contact,
    with the multipliers of joints `pulls` (R,), one joint after the other; `rounds` (), how many
    rounds are filled."""

    velocity: jax.Array
    free: jax.Array
    pulls: jax.Array
    rounds: jax.Array
    groups: tuple[GroupCuts, ...]


def no_cuts(problem: ncp.StepProblem, closest, free, pulls, rounds: int) -> Cuts:
    """Room for `rounds` rounds of planes. `closest`, per group (nc, unknowns) in long form: where
    the first search begins; `free` (nb, 6 or 3): velocities without contact, the first trial, and
    the multipliers `pulls` (R,) of joints then."""
    n, groups = free.size, []
    for group, unknowns in zip(problem.system.groups, closest, strict=True):
        count, k, d = len(group.bodies), group.e.shape[-1], problem.system.dimension
        groups.append(
            GroupCuts(
                closest=jnp.broadcast_to(unknowns, (rounds, *unknowns.shape)),
                body_1=jnp.zeros((rounds, count, d)),
                body_2=jnp.zeros((rounds, count, d)),
                rate=jnp.zeros((rounds, count, 1 + k, n)),
                speed=jnp.zeros((rounds, count)),
                impulse=jnp.zeros((rounds, count, 1 + k)),
            )
        )
    return Cuts(free, free, pulls, jnp.zeros((), int), tuple(groups))


def cut_start(problem: ncp.StepProblem, cuts: Cuts, sweeps: int):
    """One more round: planes at the trial velocity, Gauss-Seidel over all planes. Returns a start
    (N,), dimensionless, and the cuts with the velocity found as the next trial."""
    system = problem.system
    groups = [
        _add_planes(problem, group, planes, reference, cuts)
        for group, planes, reference in zip(system.groups, cuts.groups, problem.references, strict=True)
    ]
    velocity, groups = _gauss_seidel(problem, cuts.free, groups, sweeps)
    found = Cuts(velocity, cuts.free, cuts.pulls, cuts.rounds + 1, tuple(groups))
    return at_planes(problem, found) / ncp.unknown_scale(problem), found


def at_planes(problem: ncp.StepProblem, cuts: Cuts):
    """The start (N,), in physical units, with the velocity and the impulses that are found at the
    planes of `cuts`."""
    start = [cuts.velocity.reshape(-1)]
    for group, planes, reference in zip(problem.system.groups, cuts.groups, problem.references, strict=True):
        start.append(_contact_start(problem, group, planes, reference, cuts.velocity, cuts.rounds - 1).reshape(-1))
    pushed = sum(jnp.einsum("rckn,rck->n", planes.rate, planes.impulse) for planes in cuts.groups)
    held = _held(problem, cuts.free)
    _, pulls = held.answer(held.alone(pushed.reshape(cuts.free.shape)), 0.0)
    change = by_group(problem.system, pulls * held.lengths, elastic_forces(problem.system, problem.state)[0])
    fixed = [
        jnp.pad(own * group.bilateral, ((0, 0), (0, group.width - own.shape[1])))
        for own, group in zip(change, problem.system.joints, strict=True)
    ]
    return jnp.concatenate([*start, cuts.pulls + jnp.concatenate([*(own.reshape(-1) for own in fixed), jnp.zeros(0)])])


def tilted(cuts: Cuts, h, number: int) -> Cuts:
    """The same cuts with a trial velocity that turns every body by a further angle, another one for
    each `number`.

    It shows planes of corners and edges that the trial velocities themselves never reach.
    """
    count, width = cuts.velocity.shape
    turns = 3 if width == 6 else 1
    angle = _TILTS[number % len(_TILTS)] * np.random.default_rng(number).uniform(-1, 1, (count, turns))
    return dataclasses.replace(cuts, velocity=cuts.velocity.at[:, -turns:].add(angle / h))


def end_motions(problem: ncp.StepProblem, group: Constraint, velocity):
    """Both bodies of each contact at the end of the step for the moving bodies' `velocity` (nb, 6
    or 3)."""
    ends = []
    for i, start in enumerate(kinematics.motions_of(problem.system, problem.state, group)):
        speeds = velocity[np.array(group.bodies)[:, i]] if group.moving[i] else start.velocity
        ends.append(jax.vmap(kinematics.moved, (0, 0, None))(start, speeds, problem.h))
    return ends


def _add_planes(problem: ncp.StepProblem, group: Constraint, planes: GroupCuts, references, cuts: Cuts) -> GroupCuts:
    """Closest points at the trial velocity, from those of the round before, and their tangent
    planes."""
    system, length = problem.system, problem.scales.length
    n, short, d = cuts.velocity.size, group.pair.unknowns, system.dimension
    where = ncp.layout(system)
    width = where.velocity.shape[1]

    def one(member, closest, reference, motion_1, motion_2):
        solution = closest_points_from(member.pair, closest, *kinematics.placed(member, motion_1, motion_2), length)
        found = jnp.where(solution.converged, solution.z, closest)
        geometry = contact.geometry_rows(member, found[:short], reference, length, motion_1, motion_2).geometry

        def rates(nu_1, nu_2):
            normal, slip = contact.slip_velocities(geometry, motion_1.position, motion_2.position, nu_1, nu_2)
            return jnp.concatenate([normal[None], member.e * slip])

        zero = jnp.zeros(width)
        rate_1, rate_2 = jax.jacfwd(rates, (0, 1))(zero, zero)
        body_1 = rotation.matrix(motion_1.orientation).T @ (found[:d] - motion_1.position)
        body_2 = rotation.matrix(motion_2.orientation).T @ (found[d : 2 * d] - motion_2.position)
        return found, body_1, body_2, (rate_1, rate_2), geometry.psi / problem.h

    latest = planes.closest[jnp.maximum(cuts.rounds - 1, 0)]
    found, body_1, body_2, pair_rates, approach = jax.vmap(one)(
        group, latest, references, *end_motions(problem, group, cuts.velocity)
    )
    rate = jnp.zeros((*planes.rate.shape[1:3], n))
    for i in (0, 1):
        if group.moving[i]:
            columns = where.velocity[np.array(group.bodies)[:, i]]
            contacts, rows = np.arange(len(columns))[:, None, None], np.arange(rate.shape[1])[:, None]
            rate = rate.at[contacts, rows, columns[:, None, :]].add(pair_rates[i])
    at = cuts.rounds
    return GroupCuts(
        closest=planes.closest.at[at].set(found),
        body_1=planes.body_1.at[at].set(body_1),
        body_2=planes.body_2.at[at].set(body_2),
        rate=planes.rate.at[at].set(rate),
        speed=planes.speed.at[at].set(approach - rate[:, 0] @ cuts.velocity.reshape(-1)),
        impulse=jnp.zeros_like(planes.impulse),
    )


def response(problem: ncp.StepProblem, free, force):
    """Changes of velocity by generalised impulses (..., n), and by what joints answer, where the
    velocities `free` (nb, 6 or 3) lead."""
    shaped = force.reshape(*force.shape[:-1], *free.shape)
    return _held(problem, free).response(shaped).reshape(force.shape)


def _held(problem: ncp.StepProblem, free) -> JointRows:
    """The joints, where the velocities `free` (nb, 6 or 3) lead."""
    there = bodies.moved(problem.state, free, problem.h)
    return joint_rows(problem.system, there, bodies.mass_matrices(problem.system, there))


def _gauss_seidel(problem: ncp.StepProblem, free, groups: list[GroupCuts], sweeps: int):
    """Solve 0 <= p_n _|_ W_n.nu + speed >= 0 with projected friction over all planes; empty rounds
    have zero rates."""
    system = problem.system

    def flat(name):
        return jnp.concatenate([getattr(g, name).reshape(-1, *getattr(g, name).shape[2:]) for g in groups])

    rate, speed = flat("rate"), flat("speed")
    mu = jnp.concatenate(
        [jnp.broadcast_to(g.mu, p.speed.shape).reshape(-1) for g, p in zip(system.groups, groups, strict=True)]
    )
    back = response(problem, free, rate)
    diagonal = jnp.sum(rate * back, axis=-1)
    present = diagonal[:, 0] > 0
    normal_diagonal = jnp.where(present, diagonal[:, 0], 1.0)
    friction_diagonal = jnp.max(diagonal[:, 1:], axis=1)
    friction_diagonal = jnp.where(friction_diagonal > 0, friction_diagonal, 1.0)

    # one after the other; of twelve rounds one is filled at first
    order, count = jnp.nonzero(present, size=speed.size, fill_value=0)[0], jnp.sum(present)

    def relax(i, carry):
        nu, impulse = carry
        j = order[i % count]
        p_n = jnp.maximum(impulse[j, 0] - (rate[j, 0] @ nu + speed[j]) / normal_diagonal[j], 0.0)
        nu = nu + back[j, 0] * (p_n - impulse[j, 0])
        y = project_to_disc(impulse[j, 1:] - rate[j, 1:] @ nu / friction_diagonal[j], mu[j] * p_n)
        nu = nu + (y - impulse[j, 1:]) @ back[j, 1:]
        return nu, impulse.at[j].set(jnp.concatenate([p_n[None], y]))

    start = varying_like((free.reshape(-1), jnp.zeros(rate.shape[:2])), (free, rate, speed))
    nu, impulse = jax.lax.fori_loop(0, sweeps * count, relax, start)
    sizes = [g.speed.size for g in groups]
    parts = jnp.split(impulse, np.cumsum(sizes)[:-1])
    groups = [dataclasses.replace(g, impulse=part.reshape(g.impulse.shape)) for g, part in zip(groups, parts, strict=True)]
    return nu.reshape(free.shape), groups


def _contact_start(problem: ncp.StepProblem, group: Constraint, planes: GroupCuts, references, velocity, latest):
    """Unknowns (nc, width) in physical units: impulses summed over the planes, points at their
    centre of pressure."""
    d, k = problem.system.dimension, group.e.shape[-1]

    def one(member, closest, body_1, body_2, impulse, reference, motion_1, motion_2):
        total = jnp.sum(impulse, axis=0)
        weight = jnp.where(total[0] > 0, impulse[:, 0], jnp.arange(impulse.shape[0]) == latest)
        weight = weight / jnp.sum(weight)
        points = [
            m.position + rotation.matrix(m.orientation) @ (weight @ body)
            for m, body in ((motion_1, body_1), (motion_2, body_2))
        ]
        closest = closest[latest].at[: 2 * d].set(jnp.concatenate(points))[: member.pair.unknowns]
        geometry = contact.geometry_rows(member, closest, reference, problem.scales.length, motion_1, motion_2).geometry
        w = contact.scaled_slip(member, geometry, motion_1, motion_2)
        return contact.join(contact.Unknowns(closest, total[0], total[1 : 1 + k], length_of(w)))

    return jax.vmap(one, (0, 1, 1, 1, 1, 0, 0, 0))(
        group, planes.closest, planes.body_1, planes.body_2, planes.impulse, references,
        *end_motions(problem, group, velocity),
    )  # fmt: skip

"""Gauss and Seidel's sweeps over tangent planes: what mends a correction of Newton's method, and
where that starts when the last step's root is too far.

With points and normals held, 0 <= p_n _|_ W_n.nu + psi/h >= 0 and Coulomb's law are solved contact
by contact, each with the velocities that the others have left (Jean and Moreau 1992): slow near the
root but for momentum from sweep to sweep, and safe from anywhere. Rounds follow each other as in
`implicit_euler.cutting_planes`: where the velocities found lead, closest points are asked for
again. Smooth bodies take the new plane in the place of the old one; those with edges and faces keep
all, so that the pressure may have its centre between several of them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..collision.global_search import one_by_one
from ..collision.local_search import closest_points_from
from ..constraints import contact, kinematics
from ..implicit_euler import energy
from ..implicit_euler.ncp import StepProblem
from ..model import bodies, poses, rotation
from ..runtime.compilation import filled_up, in_one_piece, jit
from ..solvers.complementarity import project_to_disc
from .colours import TOGETHER, coloured
from .equations import MANY, Slots, Step
from .problem import Point, Problem

_STILL = 1e-10  # of all impulses: a change of a sweep after which no other follows
_LEAST_ROWS, _GROWTH = 16, 4  # rows of the program that sweeps, of which there are few sizes


class Planes(NamedTuple):
    """r tangent planes: the numbers (r,) of their contacts, counted over all forms; linear maps
    `on` (r, 2, 1 + k, 6 or 3) from the velocities of body 1 and body 2 to (v_n, w); `speed` (r,),
    so that W_n.nu + speed >= 0; the points (r, 2, d) in the frames of the two bodies; and impulses
    (r, 1 + k) = (p_n, y)."""

    contact: np.ndarray
    on: np.ndarray
    speed: np.ndarray
    points: np.ndarray
    impulse: np.ndarray


@dataclasses.dataclass(frozen=True)
class Search:
    """What rounds of sweeps have found: `velocity` (nb + nf, 6 or 3) in physical units, all
    `planes`, and of each contact, form by form, the last closest-point unknowns (m, unknowns)."""

    velocity: np.ndarray
    planes: Planes
    closest: tuple[np.ndarray, ...]


def begun(problem: Problem, start: Point) -> Search:
    """Before the first round: the velocities and closest points of `start`, and no planes."""
    closest = tuple(
        (z * slots.unknowns[: len(z)])[:, : slots.group.pair.unknowns]
        for slots, z in zip(problem.slots[: problem.forms], start.contacts, strict=False)
    )
    still = np.zeros((problem.fixed, start.V.shape[1]))
    return Search(np.concatenate([start.V, still]) * units_of_bodies(problem), None, closest)


def swept(problem: Problem, start: Point, search: Search, sweeps: int) -> tuple[Point, Search]:
    """One more round with so many `sweeps`: a start for Newton's method, and the search. Impulses
    begin as in `start`, and bodies that joints place keep its velocities."""
    planes, closest, smooth = _planes(problem, start, search)
    if search.planes is not None:
        own = [getattr(search.planes, name)[~smooth[search.planes.contact]] for name in Planes._fields]
        fresh = planes._replace(impulse=np.where(smooth[planes.contact, None], planes.impulse, 0.0))
        planes = Planes(*(np.concatenate(both) for both in zip(own, fresh, strict=True)))
    forms = list(zip(problem.slots[: problem.forms], problem.counts, strict=False))
    sides = np.concatenate([s.sides[:c] for s, c in forms])
    mu = np.concatenate([np.asarray(s.group.mu)[:c] for s, c in forms])
    free, inverse = _without_contact(problem)
    free[problem.placed], inverse[problem.placed] = (start.V * problem.velocity)[problem.placed], 0.0
    moving = len(problem.velocity)
    # what joints place does not move, and has room for many planes of one colour
    numbers = coloured(np.where(np.isin(sides, problem.placed), moving, sides)[planes.contact], moving)
    count = len(numbers)
    size = filled_up(count, _LEAST_ROWS, _GROWTH)
    numbers = np.concatenate([numbers, np.full((size - count, TOGETHER), -1)])
    # an axis without friction is a quarter of all arithmetic; one of them stays at least
    acts = np.any(planes.on, axis=(0, 1, 3)) | (np.arange(planes.on.shape[2]) < 2)
    on, known = planes.on[:, :, acts], planes.impulse[:, acts]
    given = [a[numbers] for a in (sides[planes.contact], on, planes.speed, mu[planes.contact], known)]
    given[1][numbers < 0] = 0.0  # a plane that moves nothing
    velocity, impulse = (np.asarray(a) for a in _relaxed(sweeps, count, free, inverse, *given))
    impulses = np.zeros_like(planes.impulse)
    impulses[np.ix_(numbers[numbers >= 0], acts)] = impulse[numbers >= 0]
    found = Search(velocity, planes._replace(impulse=impulses), closest)
    return _start(problem, found, sides, start.contacts[problem.forms :]), found


def _planes(problem: Problem, start: Point, search: Search) -> tuple[Planes, tuple, np.ndarray]:
    """A plane for each contact where the velocities of the search lead; the closest points there;
    which contacts are smooth."""
    parts, closest, smooth, first = [], [], [], 0
    forms = zip(problem.slots[: problem.forms], problem.counts, start.contacts, search.closest, strict=False)
    for slots, count, z, last in forms:
        rows = np.minimum(np.arange(len(slots.impulse)), count - 1)
        find = _nearest_of_many if slots.smooth and len(rows) >= MANY else nearest
        own, *plane = (np.asarray(a)[:count] for a in find(problem.step, slots, search.velocity[slots.sides], last[rows]))
        n = slots.group.pair.unknowns
        impulse = (z * slots.unknowns[:count])[:, n:-1]
        parts.append(Planes(first + np.arange(count), *plane, impulse))
        closest.append(own)
        smooth.append(np.full(count, slots.group.pair.smooth))
        first += count
    return Planes(*map(np.concatenate, zip(*parts, strict=True))), tuple(closest), np.concatenate(smooth)


@functools.partial(jit, once=True)
def nearest(step: Step, slots: Slots, V, closest):
    """Closest points (c, unknowns) where the velocities V (c, 2, 6 or 3) lead, and of their planes
    `on`, `speed` and `points`."""
    return one_by_one(_plane(step))(slots.group, slots.starts, V, closest, slots.references)


@jit
def _nearest_of_many(step: Step, slots: Slots, V, closest):
    """`nearest` of many contacts of smooth bodies, side by side: a third of its time, for more than
    twice the time to compile it."""
    return jax.vmap(_plane(step))(slots.group, slots.starts, V, closest, slots.references)


def _plane(step: Step) -> Callable:
    """The function that `nearest` is of one contact."""

    def one(member, starts, V, last, reference):
        ends = [kinematics.moved(start, own, step.h) for start, own in zip(starts, V, strict=True)]
        placed, d, n = kinematics.placed(member, *ends), member.pair.dimension, member.pair.unknowns
        long = member.pair.general.start(last[:d], last[d:], *placed) if member.pair.smooth else last
        solution = closest_points_from(member.pair, long, *placed, step.length)
        found = jnp.where(solution.converged, solution.z[:n], last)
        geometry = contact.geometry_rows(member, found, reference, step.length, *ends).geometry

        def speeds(nu_1, nu_2):
            normal, slip = contact.slip_velocities(geometry, ends[0].position, ends[1].position, nu_1, nu_2)
            return jnp.concatenate([normal[None], member.e * slip])

        on = jnp.stack(jax.jacfwd(speeds, (0, 1))(*(jnp.zeros_like(end.velocity) for end in ends)))
        now = speeds(*V)[0]
        points = [
            rotation.matrix(end.orientation).T @ (point - end.position)
            for end, point in zip(ends, (geometry.a1, geometry.a2), strict=True)
        ]
        return found, on, geometry.psi / step.h - now, jnp.stack(points)

    return one


@jit
def _relaxed(sweeps, count, free, inverse, sides, on, speed, mu, impulse):
    """Velocities (n, w) and impulses (k, c, r) after so many `sweeps` over the first `count` of k
    rows of c planes of one colour, or fewer where nothing changes, from the velocities without
    contact, `free` (n, w); `inverse` (n, w, w): M^-1, zero of bodies that do not move; of the
    planes `sides` (k, c, 2), `on` (k, c, 2, r, w), `speed` and `mu` (k, c), and `impulse` (k, c, r)
    as in `Planes`.

    The loop has u (n, w) with nu = free + R u and M^-1 = R R^T: what an impulse changes, R^T W^T,
    is then the transpose of what it sees, W R (k, 2, r, w, c). Planes of a row stand last, as
    arithmetic takes several at once.

    A sweep begins ahead of the last one, by a share of the way from the one before it that grows
    with their number (Nesterov 1983), and from nothing again where a sweep changes more than the
    last one did (O'Donoghue and Candes 2015): what heavy piles tell their floor takes a hundred
    sweeps in the place of thousands."""
    moves = jnp.any(inverse != 0, axis=(1, 2))[:, None, None]
    root = jnp.where(moves, jnp.linalg.cholesky(jnp.where(moves, inverse, jnp.eye(inverse.shape[-1]))), 0.0)
    still = jnp.einsum("kcsrw,kcsw->krc", on, free[sides]).at[:, 0].add(speed)
    on = jnp.einsum("kcsrw,kcswx->ksrxc", on, root[sides])  # W R
    diagonal = jnp.sum(on**2, axis=(1, 3))
    normal = jnp.where(diagonal[:, 0] > 0, diagonal[:, 0], 1.0)
    friction = jnp.max(diagonal[:, 1:], axis=1)
    friction = jnp.where(friction > 0, friction, 1.0)
    impulse = jnp.where(diagonal[:, :1] > 0, jnp.moveaxis(impulse, 1, 2), 0.0)
    start = jnp.zeros_like(free).at[sides].add(jnp.einsum("krc,ksrwc->kcsw", impulse, on))

    def relax(share, j, carry):
        u, impulses, changed, large = carry
        own, W, (last, before) = jnp.moveaxis(u[sides[j]], 0, -1), on[j], impulses[j]
        ahead = last + share * (last - before)
        rate = still[j, 0] + jnp.sum(W[:, 0] * own, axis=(0, 1))
        p_n = jnp.maximum(ahead[0] - rate / normal[j], 0.0)
        own = own + (p_n - ahead[0]) * W[:, 0]
        slip = still[j, 1:] + jnp.sum(W[:, 1:] * own[:, None], axis=(0, 2))
        y = jax.vmap(project_to_disc, (1, 0), 1)(ahead[1:] - slip / friction[j], mu[j] * p_n)
        change = jnp.where(diagonal[j, 0] > 0, jnp.concatenate([p_n[None], y]) - ahead, 0.0)
        u = u.at[sides[j]].add(jnp.moveaxis(jnp.sum(change[:, None] * W, axis=1), -1, 0))
        found = ahead + change
        impulses = lax.dynamic_update_index_in_dim(impulses, jnp.stack([found, last]), j, 0)
        return u, impulses, changed + change**2, large + found**2

    def sweep(carry):
        number, since, change, _, last, before, impulses = carry
        share, none = since / (since + 3), jnp.zeros(impulse.shape[1:])
        ahead = last + share * (last - before)
        # the last two impulses of a row are replaced where they stand: no sweep copies them all
        found = lax.fori_loop(0, count, functools.partial(relax, share), (ahead, impulses, none, none))
        own, large = jnp.sum(found[2]), jnp.sum(found[3])
        return number + 1, jnp.where(own > change, 0, since + 1), own, large, found[0], last, found[1]

    def proceeds(carry):
        number, _, change, large, *_ = carry
        return (number < sweeps) & (change > _STILL**2 * large)

    begun = 0, 0, jnp.inf, 0.0, start, start, jnp.stack([impulse, impulse], axis=1)
    *_, u, _, impulses = in_one_piece(functools.partial(lax.while_loop, proceeds, sweep), begun)
    return free + jnp.einsum("nwx,nx->nw", root, u), jnp.moveaxis(impulses[:, 0], 1, 2)


def units_of_bodies(problem: Problem) -> np.ndarray:
    """Of the velocities of all bodies (nb + nf, 6 or 3)."""
    return np.concatenate([problem.velocity, np.ones((problem.fixed, problem.velocity.shape[1]))])


def _without_contact(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Velocities (nb + nf, 6 or 3) after a step without contact, and M^-1 (nb + nf, w, w), both
    zero of fixed bodies."""
    found = (np.asarray(a) for a in _free(problem.bare))
    return tuple(np.concatenate([a, np.zeros((problem.fixed, *a.shape[1:]))]) for a in found)


@jit
def _free(problem: StepProblem):
    system, state = problem.system, problem.state
    velocity = energy.free_velocity(system, state, problem.momentum, problem.h)
    return velocity, jnp.linalg.inv(bodies.mass_matrices(system, state))


def _start(problem: Problem, search: Search, sides, joints) -> Point:
    """The point (V, contacts) of a search: impulses summed over planes, points at the centre of
    pressure, and `joints` as they were."""
    planes = search.planes
    total = np.zeros((len(sides), planes.impulse.shape[1]))
    np.add.at(total, planes.contact, planes.impulse)
    last = np.zeros((len(sides), *planes.on.shape[1:]))
    last[planes.contact] = planes.on  # the latest plane of a contact stands last
    sigma = np.linalg.norm(np.einsum("csrw,csw->cr", last, search.velocity[sides])[:, 1:], axis=1)
    presses = total[:, 0] > 0
    weight = planes.impulse[:, 0] / np.where(presses, total[:, 0], 1.0)[planes.contact]
    centre = np.zeros((len(sides), *planes.points.shape[1:]))
    np.add.at(centre, planes.contact, weight[:, None, None] * planes.points)
    ends = jax.tree.map(np.asarray, moved(problem.motion, search.velocity, problem.step.h))
    turned = poses.matrices(ends.orientation)[sides]
    points = (ends.position[sides] + np.einsum("csij,csj->csi", turned, centre)).reshape(len(sides), -1)
    contacts, first = [], 0
    for slots, count, closest in zip(problem.slots[: problem.forms], problem.counts, search.closest, strict=False):
        own, closest = slice(first, first + count), closest.copy()
        if not slots.group.pair.smooth and not slots.group.pair.first.rounded and not slots.group.pair.second.rounded:
            closest[presses[own], : points.shape[1]] = points[own][presses[own]]
        units = slots.unknowns[:count]
        contacts.append(np.column_stack([closest, total[own], sigma[own]]) / units)
        first += count
    moving = len(problem.velocity)
    return Point((search.velocity / units_of_bodies(problem))[:moving], (*contacts, *joints))


@jit
def moved(motion: kinematics.Motion, V, h) -> kinematics.Motion:
    """Where velocities V (n, 6 or 3) lead in h [s]."""
    return jax.vmap(kinematics.moved, (0, 0, None))(motion, V, h)

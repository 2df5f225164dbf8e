"""Whether bodies that touch in edges or faces meet at other points of these than the closest ones
that were found.

Of parallel edges every point is closest, and an impact at one of them leaves the bodies turning
into each other or apart. The gap a moment after it, with the velocities that it left, tells. Faces
that are parallel within 1e-8 are out of the reach of that search; along these, speeds of approach
are linear, and the point at which bodies approach fastest is found by ever further steps along the
face, from which closest points lead back onto it.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints import contact, detection, kinematics, tilts
from ..constraints.detection import closest_points
from ..constraints.restitution import SUDDEN, TOUCHING, bending
from ..model import bodies, rotation
from ..model.bodies import State
from ..model.system import System, compliant, in_user_order
from ..runtime.compilation import jit

_MOMENT = 1e-7  # of sqrt(L / g)
_SLIGHT = 1e-6  # of sqrt(g L): what rounding makes of a gap, by the moment
_ROUNDED = 1e-10  # of the fastest speed: less is no approach
_PARALLEL = 1e-10  # of the scene's length: edges and faces that are no further off along them are parallel
_READ = 1e-3  # of the fastest speed: what is read of it from gaps over such a way
_FAR, _MOST = 10.0, 12  # of the scene's length, beyond most faces; and how often
_STAYS = 1e-12  # of the scene's length: points that are one
_CARRIES = 1e-8  # of a normal: the part of it of a side of an edge, below which it is a face


def meets_elsewhere(system: System, state: State, closest) -> bool:
    """Whether rigid bodies that touch in `state` at the points `closest`, as
    `detection.closest_points` has them, come to overlap at once, faster than by loads."""
    return _overlaps(system, state, closest, True, _MOMENT * np.sqrt(float(system.length) / float(system.acceleration)), 0.0)


def meets_again(system: System, state: State, closest, asked=True, slow: float = 0.0) -> bool:
    """Whether rigid bodies that touch in `state` at the points `closest` approach each other
    anywhere along edges or faces, or come to overlap before they could at points of which these are
    not parallel within 1e-10, faster than `slow` [m/s]; of all contacts, or of those that are
    `asked` (nc,) about."""
    fastest = float(np.max(np.abs(state.velocity), initial=0.0))
    if fastest == 0:
        return False
    moment = _PARALLEL * float(system.length) / fastest
    return enters(system, state, closest, asked, slow) or _overlaps(
        system, state, closest, asked, moment, slow + _READ * fastest
    )


def _overlaps(system: System, state: State, closest, asked, moment: float, slow: float) -> bool:
    """Whether those that are `asked` about overlap after a `moment` [s], faster than loads can make
    them, and than `slow` [m/s]."""
    later = closest_points(system, _later(system, state, moment))
    return bool(_closing(system, state, closest, later, np.broadcast_to(asked, system.contact_count), moment, slow))


@jit
def _later(system: System, state: State, h) -> State:
    return bodies.moved(state, state.velocity, h)


@jit
def _closing(system: System, state: State, closest, later, asked, h, slow):
    d, found = system.dimension, []
    speed, spin = (jnp.max(jnp.abs(part), initial=0.0) for part in (state.velocity[:, :d], state.velocity[:, d:]))
    usual = h * (system.acceleration + bending(spin, speed, system.length) + speed**2 / system.length)
    slight = _SLIGHT * jnp.sqrt(system.acceleration * system.length)
    soft = compliant(system)
    for group, before, after in zip(system.groups, closest, later, strict=True):
        if not group.pair.smooth:
            gap = before[:, 3 * d]
            numbers = np.array(group.numbers)
            rigid = ~soft[numbers] & asked[numbers] & (gap <= TOUCHING * system.length)
            found.append(jnp.any(rigid & ((gap - after[:, 3 * d]) / h > SUDDEN * usual + slight + slow)))
    return jnp.any(jnp.array(found))


class Tilts(NamedTuple):
    """Of the contacts of bodies with faces, in the order of `Scene.add_contact`: `rates` (nc, d -
    1) [rad/s] of the tilts that are forbidden, and `moves` (nc, d - 1, d), by which a point moves
    along the face for the moment about each of their axes."""

    rates: jax.Array
    moves: jax.Array


def strikes_elsewhere(system: System, state: State, closest) -> tuple[np.ndarray, ...] | None:
    """The points `closest` with those, of bodies that approach each other faster elsewhere along a
    face, at which they do so fastest; None if none do."""
    ahead = _fastest(system, state, closest)
    faster = speeds(system, state, ahead) - speeds(system, state, closest) > _least(system, state)
    if not np.any(faster):
        return None
    pairs = zip(system.groups, ahead, closest, strict=True)
    return tuple(np.where(faster[list(g.numbers), None], there, np.asarray(here)) for g, there, here in pairs)


def enters(system: System, state: State, closest, asked=True, slow: float = 0.0) -> bool:
    """Whether rigid bodies that touch in `state` at the points `closest` of edges or faces approach
    each other anywhere along these, faster than `slow` [m/s]; of all contacts, or of those that are
    `asked` (nc,) about."""
    fastest = speeds(system, state, _fastest(system, state, closest))
    return bool(np.any((fastest > _least(system, state) + slow) & asked))


def enters_at(system: System, state: State, points) -> bool:
    """Whether they approach each other at the `points` of edges or faces, well below what counts
    for `enters`."""
    return bool(np.any(speeds(system, state, points) > _least(system, state) / 2))


def _least(system: System, state: State) -> float:
    """A speed [m/s] that is more than rounding."""
    fastest = float(np.max(np.abs(state.velocity), initial=0.0))
    return _SLIGHT * float(np.sqrt(system.acceleration * system.length)) + _ROUNDED * fastest


def _fastest(system: System, state: State, closest) -> tuple[np.ndarray, ...]:
    """The points `closest` moved along edges and faces, where these are parallel, to where bodies
    approach each other fastest."""
    none, start, gap = np.zeros(system.contact_count), closest, 3 * system.dimension
    for _ in range(_MOST):
        rates, moves = map(np.asarray, tilts_of(system, state, state.velocity, closest, none))
        sizes = np.linalg.norm(rates, axis=1, keepdims=True)
        ahead = np.where(sizes > 0, _FAR * float(system.length) * rates / np.where(sizes > 0, sizes, 1.0), 0.0)
        there = tuple(map(np.asarray, _back(system, state, moved_along(system, closest, moves, ahead))))
        stays = apart(there, closest) <= _STAYS * float(system.length)
        closest = there
        if stays:
            break
    least = _PARALLEL * float(system.length)
    pairs = zip(closest, map(np.asarray, start), strict=True)
    return tuple(np.where((there - here)[:, gap, None] <= least, there, here) for there, here in pairs)


@jit
def _back(system: System, state: State, points):
    return detection.find(system, state, points, recorded=True).closest


@jit
def speeds(system: System, state: State, closest):
    """How fast (nc,) [m/s] rigid bodies with edges or faces that touch approach each other at the
    points `closest`; 0 of others."""
    d, soft, found = system.dimension, compliant(system), []
    for group, own in zip(system.groups, closest, strict=True):
        numbers = np.array(group.numbers)

        def one(z, first, second):
            a1, a2, n = (z[i * d : (i + 1) * d] for i in range(3))
            sides = ((a1, first), (a2, second))
            v1, v2 = (rotation.point_velocity(body.velocity, at - body.position) for at, body in sides)
            return n @ (v1 - v2)

        speed = jax.vmap(one)(own, *kinematics.motions_of(system, state, group))
        on = ~soft[numbers] & (own[:, 3 * d] <= TOUCHING * system.length) & (not group.pair.smooth)
        found.append(jnp.where(on, speed, 0.0))
    return in_user_order(system, jnp.concatenate(found))


@jit
def tilts_of(system: System, state: State, after, closest, shares) -> Tilts:
    """Of the impact in `state` at the points `closest` that leaves velocities `after` (nb, w), with
    e (nc,) by Newton's law, 0 where bodies are not to rebound."""
    d, parts = system.dimension, []
    later = dataclasses.replace(state, velocity=after)
    for group, own in zip(system.groups, closest, strict=True):
        numbers = np.array(group.numbers)

        def one(member, own, share, first, second, after_1, after_2):
            if member.pair.smooth:
                return Tilts(jnp.zeros(d - 1), jnp.zeros((d - 1, d)))
            kkt = contact.geometry_rows(member, own, jnp.eye(d)[0], system.length, first, second)
            tangents, n = kkt.geometry.tangents, kkt.geometry.n
            placed = kinematics.placed(member, first, second)
            active = (kkt.multipliers > kkt.slacks) & (kkt.multipliers > _CARRIES)
            axes = tilts.forbidden(member.pair, own, active, tangents, *placed, system.length)
            spins = [b.velocity[d:] + share * a.velocity[d:] for a, b in ((first, after_1), (second, after_2))]
            spin = spins[1] - spins[0]
            about = spin if d == 2 else tangents @ spin
            along = tangents if d == 2 else jnp.cross(tangents, n)
            return Tilts(axes @ about, axes @ along)

        motions = [kinematics.motions_of(system, s, group) for s in (state, later)]
        parts.append(jax.vmap(one)(group, own, shares[numbers], *motions[0], *motions[1]))
    return jax.tree.map(lambda *a: in_user_order(system, jnp.concatenate(a)), *parts)


def moved_along(system: System, closest, moves, shifts) -> tuple[np.ndarray, ...]:
    """The points `closest` moved along faces by `shifts` (nc, d - 1) [m], with the `moves` of
    `Tilts`."""
    off = np.einsum("ca,cad->cd", shifts, moves)
    return tuple(
        np.asarray(own) + np.pad(np.tile(off[list(group.numbers)], 2), ((0, 0), (0, own.shape[1] - 2 * system.dimension)))
        for group, own in zip(system.groups, closest, strict=True)
    )


def apart(some, others) -> float:
    """How far [m] the points of two sets are from each other, one for one."""
    return max(float(np.max(np.abs(np.asarray(a) - b), initial=0.0)) for a, b in zip(some, others, strict=True))

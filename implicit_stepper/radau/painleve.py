"""Painleve's region, where friction presses a sliding contact down more than its normal force lifts
it, and what jams there.

    W_n M^-1 (W_n - mu W_t)^T < 0        with W_t along the slip

No force need exist with which the contact slides on, or several do: an impulse may then stop it,
without any collision.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from ..constraints import linear_rows
from ..constraints.joint_rows import bound_names
from ..constraints.restitution import SUDDEN, TOUCHING, bending
from ..model import poses
from ..model.bodies import State
from ..model.records import Contacts
from ..model.system import System, contact_bodies
from .euler_steps import Series
from .events import Event
from .way import Taken

_NOTHING = 1e-6  # of m g h: an impulse that only rounding left
_SLIGHT = 1e-9  # of sqrt(g L): a slip that is none


class _Sliding(NamedTuple):
    """Of n steps and nc contacts at the velocities with which steps begin: how fast they open,
    `normal` (n, nc) [m/s]; their scaled slips |w| (n, nc) [m/s]; and the `lift` (n, nc) [1/kg],
    which is negative in Painleve's region."""

    normal: np.ndarray
    slip: np.ndarray
    lift: np.ndarray


def wedges(system: System, first: State, steps: Taken) -> list[Event]:
    """When contacts come into that region, to within a step: of bodies that no joint holds, whose
    motion would change it."""
    held = {body for group in system.joints for pair in group.bodies for body in pair if body < system.body_count}
    free = np.array([not held & set(pair.tolist()) for pair in _numbers(system)], bool)
    if not np.any(free) or not len(steps.h):
        return []
    velocity, starts = _begun(first.velocity, steps.state.velocity), _begun(first.time, steps.state.time)
    found = _sliding(system, velocity, steps.state, steps.contacts)
    touches = np.asarray(steps.contacts.gap_start) <= TOUCHING * float(system.length)
    slight = _SLIGHT * np.sqrt(float(system.acceleration) * float(system.length))
    # of what rolls, the velocities at the start have slips with the geometry at the end: what
    # sticks in a step and in the one before slides in neither; before the first there is none
    sticks = _sticks(system, steps)
    rolls = np.where(sticks[0], SUDDEN * steps.h[0] * _bends(system, velocity[:1])[0], 0.0)
    slides = np.concatenate([(found.slip[:1] > slight + rolls), (found.slip[1:] > slight) & ~sticks[1:]])
    inside = touches & slides & (found.lift < 0) & free
    enters = inside & ~np.concatenate([np.zeros((1, inside.shape[1]), bool), inside[:-1]])
    return [Event(float(starts[i]), int(c), "wedges") for i, c in np.argwhere(enters)]


def _bends(system: System, velocity) -> np.ndarray:
    """What spin alone changes a speed by in time (n,) [m/s^2], by velocities (n, nb, 6 or 3)."""
    spin, speed = (np.max(np.abs(part), axis=(1, 2)) for part in np.split(velocity, [system.dimension], axis=2)[::-1])
    return bending(spin, speed, float(system.length))


def _sticks(system: System, steps: Taken) -> np.ndarray:
    """Which contacts (n, nc) stick in a step and in the one before it."""
    sticks = np.zeros((len(steps.h), system.contact_count), bool)
    for group, own in zip(system.groups, steps.modes.sticking, strict=False):
        sticks[:, list(group.numbers)] = own
    return sticks & np.concatenate([sticks[:1], sticks[:-1]])


def jams(system: System, first: State, series: Series) -> list[Event]:
    """Of steps of first order from the state `first`: the beginnings of those in which velocities
    jump, though nothing approached, and a contact that slid had an impulse. Not told where joints
    have limits, which may be met."""
    if not system.groups or bound_names(system):
        return []
    states, contacts = (
        jax.tree.map(lambda *parts: np.concatenate(parts), *own)
        for own in zip(*((record.state, record.contacts) for record in series.records), strict=True)
    )
    h = series.h
    velocity, starts = _begun(first.velocity, states.velocity), _begun(first.time, states.time)
    found, d, length = _sliding(system, velocity, states, contacts), system.dimension, float(system.length)
    usual = SUDDEN * h * (float(system.acceleration) + _bends(system, velocity))
    jump = np.abs(np.asarray(states.velocity) - velocity) * np.append(np.ones(d), np.full(velocity.shape[-1] - d, length))
    presses = np.asarray(contacts.normal_impulse) > _NOTHING * np.min(system.mass) * float(system.acceleration) * h
    met = np.any(presses & (found.normal < -usual[:, None]), axis=1)
    sudden = (np.max(jump, axis=(1, 2)) > usual) & ~met
    stopped = sudden[:, None] & presses & (found.slip > usual[:, None])
    return [Event(float(starts[i]), int(c), "jams") for i, c in np.argwhere(stopped)]


def _begun(first, ends) -> np.ndarray:
    """Of each step what it begins with."""
    return np.concatenate([np.asarray(first)[None], np.asarray(ends)[:-1]])


def _numbers(system: System) -> np.ndarray:
    """The two body numbers (nc, 2) of every contact, fixed bodies after the moving ones."""
    pairs = np.zeros((system.contact_count, 2), int)
    for group in system.groups:
        pairs[list(group.numbers)] = group.bodies
    return pairs


def _sliding(system: System, velocity, ends, contacts: Contacts) -> _Sliding:
    """Of steps that begin with the `velocity` (n, nb, 6 or 3), with the geometry in which they
    end."""
    mu, e = (np.asarray(linear_rows.of_contacts(system, name)) for name in ("mu", "e"))
    normal, tangent, d = np.asarray(contacts.normal), np.asarray(contacts.tangent), system.dimension
    axes = [tangent] if d == 2 else [tangent, np.cross(normal, tangent)]
    turn, mass = poses.matrices(np.asarray(ends.orientation)), np.asarray(system.mass)
    inverse = np.linalg.inv(np.asarray(system.inertia))
    if d == 3:
        inverse = turn @ inverse @ np.swapaxes(turn, -1, -2)
    inverse = np.broadcast_to(inverse, (*turn.shape[:2], *inverse.shape[-2:]))
    sides = []
    for side, sign in ((0, -1.0), (1, 1.0)):
        bodies = contact_bodies(system)[:, side]
        moves, numbers = bodies < system.body_count, np.minimum(bodies, system.body_count - 1)
        point = np.asarray((contacts.point_1, contacts.point_2)[side])
        arm = point - np.asarray(ends.position)[:, numbers]
        sides.append((sign * moves[:, None], arm, velocity[:, numbers], mass[numbers], inverse[:, numbers]))

    def rate(axis, drills=False):
        """How fast (n, nc) bodies part along `axis` (n, nc, d), or turn about it."""
        total = 0.0
        for sign, arm, moving, _, _ in sides:
            turning = moving[..., d:] * axis if drills else moving[..., d:] * _moment(arm, axis)
            own = np.sum(turning, axis=-1) + (0.0 if drills else np.sum(moving[..., :d] * axis, axis=-1))
            total = total + sign[:, 0] * own
        return total

    slips = [rate(axis) for axis in axes] + ([rate(normal, drills=True)] if d == 3 else [])
    w = e * np.stack(slips, axis=-1)
    size = np.linalg.norm(w, axis=-1)
    # friction of a unit of p_n
    along = -mu[:, None] * e * w / np.where(size > 0, size, 1.0)[..., None]
    force = normal + sum(along[..., i, None] * axis for i, axis in enumerate(axes))
    lift = 0.0
    for sign, arm, _, m, inner in sides:
        turns = _moment(arm, force) + (along[..., 2:] * normal if d == 3 else 0.0)
        turned = np.einsum("ncij,ncj->nci", inner, turns)
        lift = lift + sign[:, 0] ** 2 * (
            np.sum(normal * force, axis=-1) / m + np.sum(_moment(arm, normal) * turned, axis=-1)
        )
    return _Sliding(rate(normal), size, lift)


def _moment(arm, force) -> np.ndarray:
    """arm x force, (..., 3) or (..., 1)."""
    if arm.shape[-1] == 2:
        return (arm[..., 0] * force[..., 1] - arm[..., 1] * force[..., 0])[..., None]
    return np.cross(arm, force)

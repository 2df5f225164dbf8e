"""What binds the steps of a run to each other: each begins with the gaps that the one before it
left, the first one with those of the closest points at the start. No record of a single step tells
of its `gap_start`, by which the work that parts bodies in overlap is measured; nor of the slip
before it, by which static friction holds a contact or does not."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from ..model.bodies import State
from ..model.records import Contacts
from ..model.system import System
from .fallback import Climb, Several
from .stepper import Stepper

GAP_AT_START = "gap at the start"  # a violation's name
HELD, JOINT_HELD = "held by static friction", "joint held by static friction"


def first_gaps(system: System, closest) -> np.ndarray:
    """Gaps (nc,) [m] of the `closest` points at the start of a run, as `detection.closest_points`
    finds them."""
    gaps = np.zeros(system.contact_count)
    for group, unknowns in zip(system.groups, closest, strict=True):
        gaps[list(group.numbers)] = np.asarray(unknowns)[:, 3 * system.dimension]
    return gaps


def gap_violations(system: System, first, contacts: Contacts) -> np.ndarray:
    """By how much (n, nc), in the scene's length, the `gap_start` of n steps one after another
    misses the `gap` of the step before; that of the first one `first` (nc,) [m]."""
    before = np.concatenate([np.asarray(first)[None], np.asarray(contacts.gap)[:-1]])
    return np.abs(np.asarray(contacts.gap_start) - before) / float(system.length)


def held_violations(system: System, last: Contacts | None, contacts: Contacts) -> dict[str, np.ndarray]:
    """How fast (n, nc) and (n, nj), in sqrt(g L), what has a coefficient mu_s in n steps one after
    another slipped at the end of the step before; that of the first one is `last`, None at the
    start of a run. Empty where all have one.

    (That mu_s could not have held what broke away, no record tells.)"""
    if not system.sticks_more:
        return {}
    unit, found = float(np.sqrt(system.acceleration * system.length)), {}

    def before(values, value):
        own = np.asarray(values)
        return np.concatenate([(0.0 * own[:1] if value is None else np.asarray(value)[None]), own[:-1]])

    if contacts.mu is not None:
        mu = np.zeros(system.contact_count)
        for group in system.groups:
            mu[list(group.numbers)] = group.mu
        slips = before(contacts.sigma, None if last is None else last.sigma)
        found[HELD] = np.where(np.asarray(contacts.mu) > mu, slips, 0.0) / unit
    if contacts.joints is not None and contacts.joints.mu is not None:
        mu, lever = np.zeros((2, len(system.joint_names)))
        for group in system.joints:
            if group.mu_s is not None:
                mu[list(group.numbers)], lever[list(group.numbers)] = group.mu, group.lever
        rate = before(contacts.joints.rate, None if last is None else last.joints.rate)[..., 0]
        found[JOINT_HELD] = np.where(np.asarray(contacts.joints.mu) > mu, lever * abs(rate), 0.0) / unit
    return found


def bound(
    stepper: Stepper, system: System, state: State, first, piece: Several, tolerance: float, last: Contacts | None = None
) -> Several:
    """`piece`, of steps from `state` with the gaps `first` (nc,) [m] and after the record `last`,
    with these violations in its record; up to the step that violates them by more than `tolerance`,
    which is then its climb, if there is one. (Steppers that ask for contacts at the start of a step
    have `gap_start` in their own certificate.)"""
    if stepper.can.normals_at_start:
        return piece
    violations = gap_violations(system, first, piece.record.contacts)
    held = held_violations(system, last, piece.record.contacts)
    # the coefficients of a step that was taken in parts are those of its last part
    whole = np.asarray(piece.record.stats.substeps)[:, None] == 1
    own = {GAP_AT_START: violations} | {name: np.where(whole, values, 0.0) for name, values in held.items()}
    record = dataclasses.replace(piece.record, certificates=piece.record.certificates | own)
    worst = np.max([np.max(v, axis=1, initial=0.0) for v in own.values()], axis=0)
    good = int(np.argmin(np.append(worst <= tolerance, False)))
    if good == len(violations):
        return dataclasses.replace(piece, record=record)
    attempts = () if piece.climb is None else piece.climb.attempts
    broken = Climb(jax.tree.map(lambda a: a[good], record), piece.memory, attempts, False)
    if good:
        state = jax.tree.map(lambda a: a[good - 1], record.state)
    return Several(state, piece.memory, jax.tree.map(lambda a: a[:good], record), broken)

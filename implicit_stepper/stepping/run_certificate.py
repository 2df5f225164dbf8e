"""What binds the steps of a run to each other: each begins with the gaps that the one before it left, the first one with
those of the closest points at the start. No record of a single step tells of its `gap_start`, by which the work that
parts bodies in overlap is measured."""

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


def first_gaps(system: System, closest) -> np.ndarray:
    """Gaps (nc,) [m] of the `closest` points at the start of a run, as `stepper.closest_points` finds them."""
    gaps = np.zeros(system.contact_count)
    for group, unknowns in zip(system.groups, closest, strict=True):
        gaps[list(group.numbers)] = np.asarray(unknowns)[:, 3 * system.dimension]
    return gaps


def gap_violations(system: System, first, contacts: Contacts) -> np.ndarray:
    """By how much (n, nc), in the scene's length, the `gap_start` of n steps one after another misses the `gap` of the step
    before; that of the first one `first` (nc,) [m]."""
    before = np.concatenate([np.asarray(first)[None], np.asarray(contacts.gap)[:-1]])
    return np.abs(np.asarray(contacts.gap_start) - before) / float(system.length)


def bound(stepper: Stepper, system: System, state: State, first, piece: Several, tolerance: float) -> Several:
    """`piece`, of steps from `state` with the gaps `first` (nc,) [m], with these violations in its record; up to the step
    that violates them by more than `tolerance`, which is then its climb, if there is one. (Steppers that ask for contacts at
    the start of a step have `gap_start` in their own certificate, with the closest points.)"""
    if stepper.normals_at_start:
        return piece
    violations = gap_violations(system, first, piece.record.contacts)
    certificates = piece.record.certificates | {GAP_AT_START: violations}
    record = dataclasses.replace(piece.record, certificates=certificates)
    good = int(np.argmin(np.append(np.max(violations, axis=1, initial=0.0) <= tolerance, False)))
    if good == len(violations):
        return dataclasses.replace(piece, record=record)
    attempts = () if piece.climb is None else piece.climb.attempts
    broken = Climb(jax.tree.map(lambda a: a[good], record), piece.memory, attempts, False)
    if good:
        state = jax.tree.map(lambda a: a[good - 1], record.state)
    return Several(state, piece.memory, jax.tree.map(lambda a: a[:good], record), broken)

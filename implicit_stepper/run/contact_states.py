"""What every contact of a run does at the end of every step: open, stick, impending slip, or slip;
and when that changes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..constraints import linear_rows
from ..model.records import Contacts
from ..model.system import System
from ..radau.events import Event
from ..runtime.errors import ForcesError
from ..scene.scene import Scene
from .arguments import of_kind
from .trajectory import Trajectory

_NONE = 1e-9  # of m g h, of g h, and of the bound of friction: what the tolerance of a step leaves

_KINDS = {"open": "opens", "stick": "sticks", "slip": "slips"}


class ContactStates(NamedTuple):
    """`states` (n, nc), "open", "stick", "impending" or "slip", of the n steps of a run, in the
    order of `Scene.add_contact`; and `changes`, when they are others than in the step before, to
    within that step."""

    states: np.ndarray
    changes: tuple[Event, ...]


def contact_states(scene: Scene, trajectory: Trajectory) -> ContactStates:
    """Of a `trajectory` of `scene`, by any stepper, from the forces and slips that it recorded.

    A contact without a normal force is open. One that slips faster than rounding slips, and so does
    one without friction; of the others those whose friction is at its bound, mu p_n (mu_s p_n where
    it has one and held on by it) in the ellipsoid, are about to slip, "impending". In steps of no
    length, which are impacts, contacts have the state before them, but for those that meet in one
    between steps of given length. Raises `ValueError` for a trajectory of another scene.
    """
    of_kind(scene, trajectory=trajectory, asked=("scene", "trajectory"))
    system, _ = scene.build()
    contacts, h = trajectory.contacts, np.broadcast_to(trajectory.h, len(trajectory))[:, None]
    if trajectory.contact_names != system.contact_names:
        raise ForcesError(
            f"`trajectory` has {len(trajectory.contact_names)} contacts, and `scene` {system.contact_count}: give the scene "
            "that it is of; a run that found its pairs step by step has those alone that touched."
        )
    given, longest = contacts.stages is None, np.max(h, initial=0.0)
    states = states_of(system, contacts, np.where(h[:, 0] > 0, h[:, 0], longest))
    for i in np.flatnonzero(h[:, 0] == 0):
        met = given & (states[i] != "open")
        states[i] = np.where(met, states[i], states[i - 1] if i else "open")
    changes = []
    for i in range(1, len(states)):
        for number in np.flatnonzero(states[i] != states[i - 1]):
            before, after = states[i - 1, number], states[i, number]
            if after in _KINDS or before == "open":
                kind = "closes" if before == "open" else _KINDS[after]
                changes.append(Event(float(trajectory.time[i + 1]), int(number), kind))
    return ContactStates(states, tuple(changes))


def states_of(system: System, contacts: Contacts, h: np.ndarray) -> np.ndarray:
    """Of `contacts` with a first axis n, of steps of `h` (n,) [s]: "open", "stick", "impending" or
    "slip" (n, nc)."""
    mu, e = (np.asarray(linear_rows.of_contacts(system, name)) for name in ("mu", "e"))
    p_n = np.asarray(contacts.normal_impulse)
    mu = mu if contacts.mu is None else np.asarray(contacts.mu)
    y = np.linalg.norm(np.asarray(contacts.friction_impulse) / np.where(e > 0, e, np.inf), axis=2)
    speed = float(system.acceleration) * h[:, None]
    slips = slipping(system, contacts, h) | (mu == 0)
    states = np.where(slips, "slip", np.where(y >= (1 - _NONE) * mu * p_n, "impending", "stick"))
    return np.where(p_n <= _NONE * float(np.min(system.mass)) * speed, "open", states)


def slipping(system: System, contacts: Contacts, h: np.ndarray) -> np.ndarray:
    """Which contacts (n, nc) slip faster than rounding, whether they carry or not."""
    return np.asarray(contacts.sigma) > _NONE * float(system.acceleration) * h[:, None]

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
from . import pile_run
from .arguments import of_kind
from .trajectory import Trajectory

NONE = 1e-9  # of m g h, of g h, and of the bound of friction: what the tolerance of a step leaves

_HOLDS = ("stick", "impending")


class ContactStates(NamedTuple):
    """`states` (n, nc), "open", "stick", "impending" or "slip", of the n steps of a run, in the
    order of its contacts; and `changes`, when they close, open, slip or stick, to within that
    step."""

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
    system, contacts = scene.build(contacts=False)[0], trajectory.contacts
    if trajectory.position.shape[1:] != (system.body_count, system.dimension):
        raise ForcesError(
            f"`trajectory` has {trajectory.position.shape[1]} moving bodies, and `scene` {system.body_count}, in "
            f"{system.dimension} dimensions: give the scene that it is of."
        )
    law = _law_in(scene, trajectory)
    h = np.broadcast_to(trajectory.h, len(trajectory))
    given, longest = contacts.stages is None, np.max(h, initial=0.0)
    states = states_of(system, law, contacts, np.where(h > 0, h, longest))
    for i in np.flatnonzero(h == 0):
        met = given & (states[i] != "open")
        states[i] = np.where(met, states[i], states[i - 1] if i else "open")
    return ContactStates(states, changes_of(states, trajectory.time, range(states.shape[1])))


def _law_in(scene: Scene, trajectory: Trajectory) -> tuple[np.ndarray, np.ndarray]:
    """`law_of` the contacts of a `trajectory` of `scene`: of all that are declared, or of those
    that it found. Raises `ValueError` for a trajectory of another scene."""
    if scene.pair_count() == len(trajectory.contact_names):
        system, _ = scene.build()
        if system.contact_names == trajectory.contact_names:
            return law_of(system)
    return pile_run.law_of_found(scene, trajectory)


def changes_of(states: np.ndarray, time: np.ndarray, names) -> tuple[Event, ...]:
    """When the `states` (n, m) at the ends `time` (n + 1,) [s] of steps become others, of what has
    these `names` (m,). What sticks and is about to slip holds on: that is no change."""
    changes = []
    for i in range(1, len(states)):
        for number in np.flatnonzero(states[i] != states[i - 1]):
            before, after = states[i - 1, number], states[i, number]
            if before in _HOLDS and after in _HOLDS:
                continue
            kind = "opens" if after == "open" else "sticks" if after in _HOLDS else "slips"
            changes.append(Event(float(time[i + 1]), names[number], "closes" if before == "open" else kind))
    return tuple(changes)


def law_of(system: System) -> tuple[np.ndarray, np.ndarray]:
    """mu (nc,) and the semi-axes (nc, k) of friction of all contacts of a system."""
    return tuple(np.asarray(linear_rows.of_contacts(system, name)) for name in ("mu", "e"))


def states_of(system: System, law: tuple[np.ndarray, np.ndarray], contacts: Contacts, h: np.ndarray) -> np.ndarray:
    """Of `contacts` with a first axis n, of steps of `h` (n,) [s], and with the `law` of `law_of`:
    "open", "stick", "impending" or "slip" (n, nc)."""
    mu, e = law
    p_n = np.asarray(contacts.normal_impulse)
    mu = mu if contacts.mu is None else np.asarray(contacts.mu)
    y = np.linalg.norm(np.asarray(contacts.friction_impulse) / np.where(e > 0, e, np.inf), axis=2)
    speed = float(system.acceleration) * h[:, None]
    slips = slipping(system, contacts, h) | (mu == 0)
    states = np.where(slips, "slip", np.where(y >= (1 - NONE) * mu * p_n, "impending", "stick"))
    return np.where(p_n <= NONE * float(np.min(system.mass)) * speed, "open", states)


def slipping(system: System, contacts: Contacts, h: np.ndarray) -> np.ndarray:
    """Which contacts (n, nc) slip faster than rounding, whether they carry or not."""
    return np.asarray(contacts.sigma) > NONE * float(system.acceleration) * h[:, None]

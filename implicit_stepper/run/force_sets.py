"""All forces of a finished run that give the same motion: contact and joint impulses within the
cones of friction, of which a step recorded one choice.

    A x = b,      x in K

with the impulses x = (p_n, y) of contacts and lambda of joints, in the unit of impulses, b what
those recorded give the bodies, and K what friction allows while what slips slips on, what sticks
sticks, and what is open stays open: (p_n, y) in the cone |y| <= mu p_n of a contact that sticks,
p_n >= 0 times (1, -mu w/|w|) of one that slips.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints import detection, joint_rows, linear_rows
from ..model import bodies
from ..model.bodies import State
from ..model.records import Contacts
from ..model.system import System, compliant
from ..runtime.compilation import jit
from ..runtime.errors import ForcesError
from ..scene.scene import Scene
from ..stepping.stepper import Stepper
from .contact_states import states_of
from .trajectory import Trajectory

_TOUCHES = 1e-12  # of the scene's length: a gap at which a contact may carry that does not


class Cone(NamedTuple):
    """What one contact may do: its `columns` of x, and the unit direction (m,) of one that slips,
    or mu of one that sticks."""

    columns: np.ndarray
    direction: np.ndarray | None
    mu: float


class ForceSet(NamedTuple):
    """Of one step: the matrix A, the recorded x, the cones, and which of x may be anything but 0.
    x is nc times (p_n, y), `width` numbers each, and then one row of a joint after the other, as
    lengths. `time` () [s], that of its end."""

    width: int
    A: np.ndarray
    x: np.ndarray
    cones: list[Cone]
    free: np.ndarray
    time: float


class RunForces(NamedTuple):
    """Of a run of n steps: the `system`; its states, n + 1 in all, of which those n in which forces
    act; `h` (n,) [s]; and of one step i its `ForceSet`, and impulses (nc, 1 + k) of contacts and
    multipliers (R,) of joints that an x is."""

    system: System
    every: State
    acting: State
    h: np.ndarray
    of: Callable
    parted: Callable


def forces_of_run(scene: Scene, stepper: Stepper, trajectory: Trajectory) -> RunForces:
    """Of a `trajectory` of `scene` by `stepper`. Raises `ValueError` for what has forces of other
    laws."""
    system, _ = scene.build()
    _refuse(system, trajectory)
    every = State(*(jnp.asarray(getattr(trajectory, f.name)) for f in dataclasses.fields(State)))
    acting = jax.tree.map(lambda a: a[:-1] if stepper.normals_at_start else a[1:], every)
    h = np.broadcast_to(trajectory.h, len(trajectory))
    A, lengths = (np.asarray(a) for a in _matrices(system, acting, trajectory.contacts))
    kinds = states_of(system, dataclasses.replace(trajectory.contacts, joints=None), h)

    def of(i: int) -> ForceSet:
        record = jax.tree.map(lambda a: np.asarray(a[i]), trajectory.contacts)
        return _force_set(system, A[i], lengths[i], record, kinds[i], float(trajectory.time[i + 1]))

    def parted(i: int, x):
        count, width = system.contact_count, 4 if system.dimension == 3 else 2
        return x[: count * width].reshape(count, width), x[count * width :] * lengths[i]

    return RunForces(system, every, acting, h, of, parted)


def _refuse(system: System, trajectory: Trajectory) -> None:
    """Raises `ValueError` for what has forces of other laws."""
    if trajectory.contact_names != system.contact_names or trajectory.joint_names != system.joint_names:
        raise ForcesError("`trajectory` has other contacts or joints than `scene`: give the scene that it is of.")
    if trajectory.contacts.stages is not None or trajectory.contacts.landing is not None:
        raise ForcesError("`trajectory` has steps of several stages or parts, with forces each: take one of a fixed `h`.")
    if np.any(np.asarray(trajectory.stats.substeps) > 1):
        raise ForcesError("`trajectory` has steps that were taken in parts, of which it keeps the last: take a smaller `h`.")
    if np.any(compliant(system)):
        raise ForcesError("`scene` has compliant contacts, whose forces are unique: take their `compliance` out.")
    for group in system.joints:
        if group.unilateral or not group.bilateral or group.mu is not None:
            name = system.joint_names[group.numbers[0]]
            raise ForcesError(f"joint {name!r} of `scene` has friction, a limit, a motor or a spring: its force is its own.")


@functools.partial(jit, once=True)
def _matrices(system: System, acting: State, contacts: Contacts):
    """A (n, nb w, nc (1 + k) + R), and what made the rows of joints lengths (n, R)."""

    def one(state, record):
        rows = linear_rows.linear_rows(system, state, detection.geometry_of(record))
        own = jax.jacfwd(rows.scaled)(jnp.zeros_like(state.velocity))
        joints = joint_rows.joint_rows(system, state, bodies.mass_matrices(system, state))
        return jnp.concatenate([own.reshape(-1, state.velocity.size), joints.matrix]).T, joints.lengths

    return jax.vmap(one)(acting, contacts)


def _force_set(system: System, A, lengths, record: Contacts, kinds, time: float) -> ForceSet:
    """That of a step with this `record`, of contacts of these `kinds` (nc,)."""
    e, mu = (np.asarray(linear_rows.of_contacts(system, name)) for name in ("e", "mu"))
    mu = mu if record.mu is None else record.mu
    y = np.where(e > 0, record.friction_impulse / np.where(e > 0, e, 1.0), 0.0)
    gamma = np.concatenate([record.normal_impulse[:, None], y], axis=1)
    count, width = gamma.shape
    acting = np.zeros(0) if record.joints is None else _flat(system, record.joints.multipliers) / lengths
    x = np.concatenate([gamma.reshape(-1), acting])
    cones, free = [], np.zeros(len(x), bool)
    free[count * width :] = True
    for c in range(count):
        if kinds[c] == "open" and record.gap[c] > _TOUCHES * float(system.length):
            continue
        columns = c * width + np.arange(width)[np.append(True, e[c] > 0)]
        direction = None
        if mu[c] == 0 or (kinds[c] == "slip" and record.sigma[c] > 0):
            along = e[c] * record.slip[c] / (record.sigma[c] if mu[c] > 0 else 1.0)
            direction = np.append(1.0, -mu[c] * along[e[c] > 0])
            direction = direction / np.linalg.norm(direction)
        cones.append(Cone(columns, direction, float(mu[c])))
        free[columns] = True
    return ForceSet(width, A, x, cones, free, time)


def _flat(system: System, multipliers):
    """Of the joints (nj, r), one row after the other (R,), in the order of `joint_rows`."""
    own = [multipliers[list(group.numbers), : group.closures].reshape(-1) for group in system.joints]
    return np.concatenate([*own, np.zeros(0)])

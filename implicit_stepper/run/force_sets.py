"""All forces of a finished run that give the same motion: contact and joint impulses within the
cones of friction, of which a step recorded one choice.

    A x = b,      x in K

with the impulses x = (p_n, y) of contacts and lambda of joints, in the unit of impulses, b what
those recorded give the bodies, and K what friction allows while what slips slips on, what sticks
sticks, and what is open stays open: (p_n, y) in the cone |y| <= mu p_n of a contact that sticks,
p_n >= 0 times (1, -mu w/|w|) of one that slips. Steps of several stages have such a set at each
stage, as each stage's forces move the bodies in their own share of the step.
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
from ..model.records import Contacts, Stages
from ..model.system import System, compliant
from ..runtime.compilation import jit
from ..runtime.errors import ForcesError
from ..scene.scene import Scene
from ..solvers.collocation import radau
from ..stepping.stepper import Stepper
from .arguments import of_kind
from .contact_states import law_of, slipping, states_of
from .trajectory import Trajectory

_ROUNDED = 1e-9  # of the largest impulse of a step: what sums of its stages leave
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
    lengths. `time` () [s], that at which its step ends."""

    width: int
    A: np.ndarray
    x: np.ndarray
    cones: list[Cone]
    free: np.ndarray
    time: float


class RunForces(NamedTuple):
    """Of a run of n steps of s stages: the `system`; its states, n + 1 in all; those `acting` in
    which forces act, n s of them, step after step, with the `records` of these; `h` (n,) [s]; and
    of force i its `ForceSet`, and impulses (nc, 1 + k) of contacts and multipliers (R,) of joints
    that an x is. `stages` is s, and None for steps that have their forces themselves."""

    system: System
    every: State
    acting: State
    records: Contacts
    h: np.ndarray
    stages: int | None
    of: Callable
    parted: Callable

    def by_step(self, values: np.ndarray) -> np.ndarray:
        """Values (n s, ...) of the forces as (n, s, ...), or as they are."""
        return values if self.stages is None else values.reshape(len(self.h), self.stages, *values.shape[1:])


def forces_of_run(scene: Scene, stepper: Stepper, trajectory: Trajectory) -> RunForces:
    """Of a `trajectory` of `scene` by `stepper`. Raises `ValueError` for what has forces of other
    laws."""
    of_kind(scene, stepper, trajectory, asked=("scene", "stepper", "trajectory"))
    system, _ = scene.build()
    _refuse(system, trajectory)
    every = State(*(jnp.asarray(getattr(trajectory, f.name)) for f in dataclasses.fields(State)))
    h, own = np.broadcast_to(trajectory.h, len(trajectory)), trajectory.contacts.stages
    before, after = (jax.tree.map(lambda a, part=part: a[part], every) for part in (slice(-1), slice(1, None)))
    stages = None if own is None else np.shape(own.rates)[1]
    acting, records, spans = before if stepper.can.normals_at_start else after, trajectory.contacts, h
    if own is not None:
        spans = np.repeat(h, stages)
        flat = jax.tree.map(
            lambda a: jnp.asarray(a).reshape(a.shape[0] * a.shape[1], *a.shape[2:]),
            (_at_stages(before, h, own), own.contacts),
        )
        acting, records = flat
    records = _with_far_ones(system, acting, records)
    A, lengths = (np.asarray(a) for a in _matrices(system, acting, records))
    alone = dataclasses.replace(records, joints=None)
    kinds, slips = states_of(system, law_of(system), alone, spans), slipping(system, alone, spans)

    def of(i: int) -> ForceSet:
        record = jax.tree.map(lambda a: np.asarray(a[i]), records)
        end = float(trajectory.time[1 + i // (stages or 1)])
        return _force_set(system, A[i], lengths[i], record, kinds[i] == "open", slips[i], end)

    def parted(i: int, x):
        count, width = system.contact_count, 4 if system.dimension == 3 else 2
        return x[: count * width].reshape(count, width), x[count * width :] * lengths[i]

    return RunForces(system, every, acting, records, h, stages, of, parted)


def _with_far_ones(system: System, acting: State, records: Contacts) -> Contacts:
    """The `records` (n, nc, ...) in which contacts that a run did not find near, of which it has no
    numbers, are what they are at the closest points of the states `acting` (n, ...)."""
    far = np.isnan(records.gap)
    if not np.any(far):
        return records
    filled = {f.name: getattr(records, f.name) for f in dataclasses.fields(records)}
    filled = {name: np.array(a) for name, a in filled.items() if isinstance(a, np.ndarray | jax.Array)}
    for i in np.flatnonzero(np.any(far, axis=1)):
        state = jax.tree.map(lambda a, i=i: a[i], acting)
        there = _open_at(system, state, detection.closest_points(system, state))
        there = dataclasses.replace(there, mu=linear_rows.of_contacts(system, "mu"))
        for name, values in filled.items():
            values[i, far[i]] = np.asarray(getattr(there, name))[far[i]]
    return dataclasses.replace(records, **filled)


@functools.partial(jit, once=True)
def _open_at(system: System, state: State, closest) -> Contacts:
    """Contacts that push nothing, in `state`, from `closest` points there."""
    nearby = detection.find(system, state, closest)
    rows = linear_rows.linear_rows(system, state, nearby.geometry)
    nothing = jnp.zeros((system.contact_count, rows.e.shape[1] + 1))
    return detection.record(nearby, rows, nothing, state.velocity, nearby.geometry.psi)


def _refuse(system: System, trajectory: Trajectory) -> None:
    """Raises `ValueError` for what has forces of other laws."""
    if trajectory.contact_names != system.contact_names or trajectory.joint_names != system.joint_names:
        raise ForcesError("`trajectory` has other contacts or joints than `scene`: give the scene that it is of.")
    if trajectory.contacts.landing is not None:
        raise ForcesError("`trajectory` has steps of two parts, with forces each: take one without landings.")
    _refuse_impacts(trajectory)
    if np.any(np.asarray(trajectory.stats.substeps) > 1):
        raise ForcesError("`trajectory` has steps that were taken in parts, of which it keeps the last: take a smaller `h`.")
    if np.any(compliant(system)):
        raise ForcesError("`scene` has compliant contacts, whose forces are unique: take their `compliance` out.")
    for group in system.joints:
        if group.unilateral or not group.bilateral or group.mu is not None:
            name = system.joint_names[group.numbers[0]]
            raise ForcesError(f"joint {name!r} of `scene` has friction, a limit, a motor or a spring: its force is its own.")


def _refuse_impacts(trajectory: Trajectory) -> None:
    """Raises `ValueError` for a step of several stages that ends with an impact, whose impulses are
    beside those of its stages, or that is one of one stage; and for an impact of no length."""
    own, contacts = trajectory.contacts.stages, trajectory.contacts
    h = np.broadcast_to(trajectory.h, len(trajectory))
    if own is None and np.any(h == 0):
        i = int(np.argmin(h))
        raise ForcesError(
            f"the step to t = {trajectory.time[i + 1]:.9g} s of `trajectory` is an impact: take the steps before and after "
            f"it, trajectory[:{i}] and trajectory[{i + 1}:]."
        )
    if own is None:
        return
    share = radau(np.shape(own.rates)[1]).A[-1]
    beside = np.abs(contacts.normal_impulse - np.einsum("s,nsc->nc", share, own.contacts.normal_impulse))
    size = np.max(np.abs(contacts.normal_impulse), axis=1, initial=0.0)
    other = (np.max(beside, axis=1, initial=0.0) > _ROUNDED * size) | (h == 0)
    if np.any(other):
        i = int(np.argmax(other))
        raise ForcesError(
            f"the step to t = {trajectory.time[i + 1]:.9g} s of `trajectory` ends with an impact or is one of one stage: "
            f"take the steps before and after it, trajectory[:{i}] and trajectory[{i + 1}:]."
        )


@jax.jit
def _at_stages(before: State, h, own: Stages) -> State:
    """States (n, s, ...) at the stages of steps of `h` (n,) [s] from the states `before` (n,
    ...)."""

    def of_step(state, h, rates, velocity):
        method = radau(len(rates))
        moves = h * jnp.einsum("ij,jbw->ibw", method.A, rates)
        over_bodies = jax.vmap(bodies.advance, (0, 0, 0, None))
        poses = jax.vmap(over_bodies, (None, None, 0, None))(state.position, state.orientation, moves, 1.0)
        return State(state.time + h * method.c, *poses, velocity)

    return jax.vmap(of_step)(before, h, own.rates, own.velocity)


@functools.partial(jit, once=True)
def _matrices(system: System, acting: State, contacts: Contacts):
    """A (n, nb w, nc (1 + k) + R), and what made the rows of joints lengths (n, R)."""

    def one(state, record):
        rows = linear_rows.linear_rows(system, state, detection.geometry_of(record))
        own = jax.jacfwd(rows.scaled)(jnp.zeros_like(state.velocity))
        joints = joint_rows.joint_rows(system, state, bodies.mass_matrices(system, state))
        return jnp.concatenate([own.reshape(-1, state.velocity.size), joints.matrix]).T, joints.lengths

    return jax.vmap(one)(acting, contacts)


def _force_set(system: System, A, lengths, record: Contacts, opens, slips, time: float) -> ForceSet:
    """That of a step with this `record`, whose contacts carry nothing if they are `opens` (nc,),
    and may slip (nc,) all the same."""
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
        if opens[c] and record.gap[c] > _TOUCHES * float(system.length):
            continue
        columns = c * width + np.arange(width)[np.append(True, e[c] > 0)]
        direction = None
        if mu[c] == 0 or slips[c]:
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

"""Derivatives along a finished run of several stages, of fixed or chosen steps: step after step, at
the roots that the run recorded."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ..model.bodies import State
from ..model.results import Result, StepError
from ..model.system import System
from ..radau import step_derivatives
from ..radau.events import branches_left
from ..radau.radau_contact import RadauContact
from ..radau.step_derivatives import Change, Moved, Recorded
from .parameters import changed
from .trajectory import Trajectory

SAME = 1e-8  # of the largest number: how far a step may lead from that of the trajectory
_LEAST = 1e-3  # of the unit of a number: what all smaller ones are compared with


def along(
    stepper: RadauContact, system: System, start: State, trajectory: Trajectory, values: Mapping[str, jax.Array]
) -> dict[str, State]:
    """d(state)/d(value) at the nodes of the `trajectory`, by name of the `values`: a `State` of
    arrays (n + 1, ..., *shape of the value). Raises `StepError` where a step is not that of the
    trajectory."""
    change, ends = changes_of(system, start, values)
    nodes, sizes = [change.state], np.broadcast_to(trajectory.h, len(trajectory))
    for i, h in enumerate(sizes):
        begun, after = node(trajectory, i), node(trajectory, i + 1)
        contacts = jax.tree.map(lambda a, i=i: a[i], trajectory.contacts)
        landed = [event for event in trajectory.events if event.time == trajectory.time[i + 1]]
        recorded, sided = Recorded(contacts, h, branches_left(system, landed)), i == 0 and np.ndim(trajectory.h) > 0
        change, before = change._replace(until=(i + 1) * ends), begun
        if h > 0:
            before = dataclasses.replace(after, velocity=contacts.stages.velocity[-1])
            found = _step(stepper, system, begun, before, recorded, change, sided)
            change = change._replace(state=found)
        if np.any(before.velocity != after.velocity):
            found = step_derivatives.meeting(stepper, system, before, after, recorded, change)
            change = change._replace(state=agreed(system, found, before, after))
        nodes.append(change.state)
    every = jax.tree.map(lambda *parts: np.moveaxis(np.stack(parts), 1, -1), *nodes)
    return by_name(every, values)


def _step(stepper, system: System, begun: State, end: State, recorded: Recorded, change: Change, sided: bool) -> State:
    """The changes of the state at the `end` of a step: of several stages, or of the paper's
    scheme. Where a change turns what begins to slip, it has no derivative if `sided`: later in a
    run such a step begins at an event, from which there is one way on."""
    arguments = stepper, system, begun, end.time, recorded, change
    found = step_derivatives.step(*arguments)
    if not found.off <= step_derivatives.OFF:
        found = step_derivatives.one_stage(*arguments)
    changes = agreed(system, found, begun, end)
    turn = found.turn & sided
    return jax.tree.map(lambda a: jnp.where(turn.reshape(-1, *[1] * (a.ndim - 1)), jnp.nan, a), changes)


def changes_of(system: System, start: State, values: Mapping[str, jax.Array]) -> tuple[Change, jax.Array]:
    """For every number of the `values`, one after the other, a change of system and first state;
    and by how much h grows (k,), by that the end of the step i does (i + 1) times."""
    flat, back = ravel_pytree(dict(values))

    def both(flat):
        own = {name: value for name, value in back(flat).items() if name != "h"}
        return changed(system, start, own), back(flat).get("h", jnp.zeros(()))

    def one(direction):
        return jax.jvp(both, (flat,), (direction,))[1]

    (of_system, of_state), of_h = jax.jit(jax.vmap(one))(jnp.eye(flat.size))
    return Change(of_system, of_state, of_h), of_h


def off(system: System, ours, theirs) -> float:
    """How far positions, orientations and velocities are from `theirs`, relative to the largest of
    each, or to `_LEAST`: velocities of what is held are rounding."""
    units = {"position": system.length, "orientation": 1.0, "velocity": np.sqrt(system.length * system.acceleration)}
    found = []
    for name, unit in units.items():
        one, other = np.asarray(getattr(ours, name)), np.asarray(getattr(theirs, name))
        found.append(np.max(np.abs(one - other)) / max(np.max(np.abs(other)), _LEAST * float(unit)))
    return float(np.max(found))  # NaN if any is


def agreed(system: System, found: Moved, begun: State, end: State) -> State:
    """The changes that were `found`, NaN where they do not exist. Raises `StepError` unless they
    are those of a step from `begun` to `end`."""
    apart = max(float(found.off) if not found.off <= step_derivatives.OFF else 0.0, off(system, found.state, end))
    if not apart <= SAME:
        raise StepError(
            f"no derivatives along this run: its step to t = {float(end.time):.9g} s is off by {apart:.1e} from a step of "
            "this scene and stepper. Give those that the run was made with; steps of first order within it may need starts "
            "that this function does not have.",
            result=Result.NOT_CERTIFIED,
            time=float(end.time),
            trajectory=None,
            state=begun,
            certificate={},
        )
    return jax.tree.map(lambda a: jnp.where(found.ambiguous, jnp.nan, a), found.changes)


def node(trajectory: Trajectory, i: int) -> State:
    """The state at node i: positions (nb, d) [m], orientations (nb, 4) or (nb, 1), velocities
    (nb, 6 or 3) [m/s, rad/s], time () [s]."""
    return State(trajectory.time[i], trajectory.position[i], trajectory.orientation[i], trajectory.velocity[i])


def by_name(every: State, values: Mapping[str, jax.Array]) -> dict[str, State]:
    """`every` derivative, with a last axis of all numbers, by the name of the value."""
    _, back = ravel_pytree(dict(values))
    sizes = jax.tree.map(np.size, back(jnp.zeros(every.time.shape[-1])))
    ends = np.cumsum([sizes[name] for name in sorted(sizes)])[:-1]
    found = {}
    for number, name in enumerate(sorted(sizes)):
        parts = jax.tree.map(lambda a, number=number: np.split(a, ends, axis=-1)[number], every)
        shape = np.shape(values[name])
        found[name] = jax.tree.map(lambda a, shape=shape: a.reshape(*a.shape[:-1], *shape), parts)
    return {name: found[name] for name in values}

"""What every joint that rubs does at the end of every step of a run: stick, impending slip, or
slip; and when that changes."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints import impact_friction, incidence, kinematics
from ..model.bodies import State
from ..model.system import System, take
from ..radau.events import Event
from ..runtime.compilation import jit
from ..runtime.errors import ForcesError
from ..scene.scene import Scene
from .arguments import of_kind
from .contact_states import NONE, changes_of
from .trajectory import Trajectory


class JointStates(NamedTuple):
    """`states` (n, m), "stick", "impending" or "slip", of the n steps of a run and the m joints
    that rub, by their `names`; and `changes`, when they are others than in the step before, to
    within that step."""

    names: tuple[str, ...]
    states: np.ndarray
    changes: tuple[Event, ...]


def joint_states(scene: Scene, trajectory: Trajectory) -> JointStates:
    """Of the joints with friction in a `trajectory` of `scene`, by any stepper, from the reactions
    that it recorded and the velocities.

    A joint that slips faster than rounding slips, and so does one that nothing presses, or without
    friction; of the others those whose friction is at its bound, mu R (mu_s R where it has one and
    holds on by it), are about to slip, "impending". An impact, a step of no length, leaves the
    state before it. Raises `ValueError` for a trajectory of another scene.
    """
    of_kind(scene, trajectory=trajectory, asked=("scene", "trajectory"))
    system = incidence.standing(scene.build(contacts=False)[0])
    bodies = system.body_count, system.dimension
    if trajectory.joint_names != system.joint_names or trajectory.position.shape[1:] != bodies:
        raise ForcesError(f"`trajectory` has the joints {trajectory.joint_names}, and `scene` {system.joint_names}.")
    groups, h = impact_friction.groups(system), np.broadcast_to(trajectory.h, len(trajectory))
    numbers = np.array([n for group in groups for n in group.numbers], int)
    names = tuple(system.joint_names[n] for n in np.sort(numbers))
    if not groups or not len(h):
        return JointStates(names, np.empty((len(h), len(names)), object), ())
    ends = State(*(jnp.asarray(getattr(trajectory, field.name)[1:]) for field in dataclasses.fields(State)))
    found = [np.asarray(own) for own in _measured(system, ends, _last(trajectory))]
    slip, y, bound = (own[:, np.argsort(numbers)] for own in found)
    speed = NONE * float(system.acceleration) * np.where(h > 0, h, np.max(h))[:, None]
    free = (slip > speed) | (bound <= float(np.min(system.mass)) * speed)
    states = np.where(free, "slip", np.where(y >= (1 - NONE) * bound, "impending", "stick"))
    for i in np.flatnonzero(h == 0):
        states[i] = states[max(i - 1, 0)]
    return JointStates(names, states, changes_of(states, trajectory.time, names))


def _last(trajectory: Trajectory):
    """What is recorded of joints at the ends of steps: of stages, the last one's."""
    stages = trajectory.contacts.stages
    if stages is None:
        return trajectory.joints
    return jax.tree.map(lambda a: a[:, -1], stages.contacts.joints)


@jit
def _measured(system: System, ends: State, joints):
    """The slip [m/s], the friction and its bound [N s] (n, m) of joints that rub, group after
    group, at the `ends` of n steps."""

    def of_step(state, multipliers, recorded):
        parts = []
        for group in impact_friction.groups(system):

            def one(member, own, coefficient, motion_1, motion_2):
                r, y = member.closures, own[member.closures : member.closures + member.rubbing] / member.lever
                slip = member.slip(motion_1, motion_2, state.time)
                return jnp.linalg.norm(slip), jnp.linalg.norm(y), coefficient * member.reaction(own[:r])

            mu = group.mu if recorded is None else take(recorded, group.numbers)
            motions = kinematics.motions_of(system, state, group)
            parts.append(jax.vmap(one)(group, take(multipliers, group.numbers), mu, *motions))
        return [jnp.concatenate(of) for of in zip(*parts, strict=True)]

    return jax.vmap(of_step)(ends, joints.multipliers, joints.mu)

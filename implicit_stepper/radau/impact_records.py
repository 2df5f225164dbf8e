"""Steps of one stage, steps of no length and impacts, in the form of steps of several stages."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from ..model.bodies import State
from ..model.records import OF_JOINTS, Stages, Stats
from ..model.results import Result
from ..model.system import System
from ..stepping.loop import Record
from . import impact
from .stages import Modes
from .way import Taken


def standing(count: int, system: System, state: State, hit: impact.Impact, modes: Modes) -> Taken:
    """A step of no length of several stages in `state`, that ends before the impact `hit`."""
    joints = hit.contacts.joints
    if joints is not None:
        joints = dataclasses.replace(joints, **{name: np.zeros_like(getattr(joints, name)) for name in OF_JOINTS})
    contacts = dataclasses.replace(
        hit.contacts,
        normal_impulse=np.zeros_like(hit.contacts.normal_impulse),
        friction_impulse=np.zeros_like(hit.contacts.friction_impulse),
        joints=joints,
    )
    stats = Stats(np.zeros((), int), np.zeros(()), np.zeros((), int), np.ones((), int))
    one = Record(state, contacts, stats, np.asarray(int(Result.SOLVED)), {})
    return as_stages(count, system, jax.tree.map(lambda a: np.asarray(a)[None], one), modes, 0.0)


def as_stages(count: int, system: System, record: Record, modes: Modes, h: float) -> Taken:
    """Steps of one stage, with a first axis, in the form of several: constant rates and forces."""
    contacts, velocity, steps = record.contacts, np.asarray(record.state.velocity), len(record.result)

    def repeated(a):
        return np.repeat(np.asarray(a)[:, None], count, axis=1)

    joints = contacts.joints and dataclasses.replace(contacts.joints, eta=0 * contacts.joints.closure)
    at_stages = jax.tree.map(repeated, dataclasses.replace(contacts, joints=joints))
    tilt = np.zeros((steps, count, system.contact_count, 2)) if system.tilts else None
    own = Stages(repeated(velocity), repeated(velocity), repeated(0 * contacts.gap), at_stages, tilt)
    modes = jax.tree.map(lambda a: np.broadcast_to(a, (steps, *np.shape(a))), modes)
    return Taken(record.state, dataclasses.replace(contacts, stages=own), record.stats, modes, np.full(steps, h))


def with_impacts(steps: Taken, hits) -> Taken:
    """`steps` with the impacts at their ends: (how many steps came before it, the impact)."""
    velocity, normal, friction = (
        np.array(a) for a in (steps.state.velocity, steps.contacts.normal_impulse, steps.contacts.friction_impulse)
    )
    joints = steps.contacts.joints
    if joints is not None:
        joints, rate = {name: np.array(getattr(joints, name)) for name in OF_JOINTS}, np.array(joints.rate)
    for count, hit in hits:
        velocity[count - 1] = hit.state.velocity
        normal[count - 1] += hit.contacts.normal_impulse
        friction[count - 1] += hit.contacts.friction_impulse
        if joints is not None:
            for name, values in joints.items():
                values[count - 1] += getattr(hit.contacts.joints, name)
            rate[count - 1] = hit.contacts.joints.rate
    state = dataclasses.replace(steps.state, velocity=velocity)
    contacts = dataclasses.replace(steps.contacts, normal_impulse=normal, friction_impulse=friction)
    if joints is not None:
        contacts = dataclasses.replace(contacts, joints=dataclasses.replace(steps.contacts.joints, rate=rate, **joints))
    return dataclasses.replace(steps, state=state, contacts=contacts)

"""Records of contacts, a form at a time, and of all joints."""

from __future__ import annotations

import dataclasses
import functools

import jax
import numpy as np

from ..constraints import joint
from ..constraints.kinematics import Motion
from ..constraints.static_friction import joint_coefficients
from ..implicit_euler.step_records import contact_record
from ..model.bodies import State
from ..model.records import Contacts, Joints
from ..model.system import System
from ..runtime.compilation import jit
from .catalog import Catalog
from .equations import Slots, of_sides
from .problem import Problem
from .step import Known


def recorded(catalog: Catalog, problem: Problem, slots: Slots, known: Known, unknowns, end: State) -> Contacts:
    """Records of the contacts of one form, with `unknowns` (m, width) in physical units, at the
    `end` of the step."""
    most = tuple(max((count(form.pair) for form in catalog.forms), default=0) for count in _COUNTS)
    moving = Motion(end.position, end.orientation, end.velocity)
    every = jax.tree.map(lambda moved, start: np.concatenate([moved, start[len(moved) :]]), moving, problem.motion)
    ends = of_sides(every, slots.sides)
    count = len(unknowns)
    rows = np.minimum(np.arange(len(slots.impulse)), count - 1)
    own = _records(most, problem.step.length, ends, slots, unknowns[rows], known.gaps[rows])
    return jax.tree.map(lambda a: np.asarray(a)[:count], own)


def joints_recorded(system: System, end: State, unknowns) -> Joints | None:
    """The record of all joints at the `end` of the step, with `unknowns` (n, width), group by
    group, in physical units; None where there are none."""
    return jax.tree.map(np.asarray, _joints(system, end, unknowns)) if system.joints else None


def no_joints(system: System, end: State) -> Joints | None:
    """The record of all joints of no steps: arrays with a first axis of length 0; None where there
    are none."""
    if not system.joints:
        return None
    unknowns = [jax.ShapeDtypeStruct((len(group.numbers), group.width), float) for group in system.joints]
    return jax.tree.map(lambda a: np.zeros((0, *a.shape)), jax.eval_shape(_joints, system, end, unknowns))


@jit
def _joints(system: System, end: State, unknowns) -> Joints:
    acting = [
        jax.vmap(lambda member, own: member.impulses(own))(group, own)
        for group, own in zip(system.joints, unknowns, strict=True)
    ]
    return dataclasses.replace(joint.record(system, end, acting), mu=joint_coefficients(system))


_COUNTS = (lambda pair: pair.first.count, lambda pair: pair.second.count)


@functools.partial(jit, static_argnums=0)
def _records(most, length, ends: tuple[Motion, Motion], slots: Slots, unknowns, gap_start) -> Contacts:
    def one(member, ends, own, reference, gap):
        return contact_record(length, most, member, own, reference, *ends, gap)

    return jax.vmap(one)(slots.group, ends, unknowns, slots.references, gap_start)

"""Records of contacts, a form at a time."""

from __future__ import annotations

import functools

import jax
import numpy as np

from ..constraints.kinematics import Motion
from ..implicit_euler.step_records import contact_record
from ..model.bodies import State
from ..model.records import Contacts
from ..runtime.compilation import jit
from .catalog import Catalog
from .equations import Slots, of_sides
from .problem import Problem
from .step import Known


def recorded(catalog: Catalog, problem: Problem, slots: Slots, known: Known, z, end: State) -> Contacts:
    """Records of the contacts of one form, with unknowns z (m, width), at the `end` of the step."""
    most = tuple(max((count(form.pair) for form in catalog.forms), default=0) for count in _COUNTS)
    moving = Motion(end.position, end.orientation, end.velocity)
    every = jax.tree.map(lambda moved, start: np.concatenate([moved, start[len(moved) :]]), moving, problem.motion)
    ends = of_sides(every, slots.sides)
    count = len(z)
    rows = np.minimum(np.arange(len(slots.impulse)), count - 1)
    own = _records(most, problem.step.length, ends, slots, (z * slots.unknowns[:count])[rows], known.gaps[rows])
    return jax.tree.map(lambda a: np.asarray(a)[:count], own)


_COUNTS = (lambda pair: pair.first.count, lambda pair: pair.second.count)


@functools.partial(jit, static_argnums=0)
def _records(most, length, ends: tuple[Motion, Motion], slots: Slots, unknowns, gap_start) -> Contacts:
    def one(member, ends, own, reference, gap):
        return contact_record(length, most, member, own, reference, *ends, gap)

    return jax.vmap(one)(slots.group, ends, unknowns, slots.references, gap_start)

"""Closest points of contacts that push nothing, found anew.

Between faces or edges that are all but parallel, apart, a closest point lies at an end. The
multiplier and the slack of that end are both nearly zero, and Newton's iterations of all unknowns
jump past it and back, where a few of the point's own, at the velocities they have reached, lead to
it. No force depends on such a point.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from ..collision.global_search import one_by_one
from ..collision.local_search import closest_points_from, undamped
from ..constraints import kinematics
from ..runtime.compilation import jit
from .equations import PUSHES, Slots, Step, cut
from .problem import Point, Problem, Rows, rows, slipping
from .sweeps import units_of_bodies

_AT_ONCE = 32
_DUE = 0.1  # of the tolerance
_ITERATIONS = 12


def renewed(problem: Problem, at: Point, F: Rows, tolerance: float) -> tuple[Point, Rows]:
    """The point with closest points where its velocities lead, of contacts of bodies with faces
    that push nothing and have rows near the tolerance, and F there."""
    velocity, contacts = problem.with_fixed(at.V) * units_of_bodies(problem), []
    for slots, z, f in zip(problem.slots, at.contacts, F.contacts, strict=True):
        z = np.array(z)
        if slots.touching and not slots.smooth:
            _renew(problem.step, slots, velocity, z, f, tolerance)
        contacts.append(z)
    there = Point(at.V, tuple(contacts))
    return slipping(problem, there, rows(problem, there))


def _renew(step: Step, slots: Slots, velocity, z, f, tolerance: float) -> None:
    """`renewed` of the contacts of one form, with unknowns z (m, width), which it changes, and rows
    f."""
    n = slots.closest
    pushes = np.max(np.abs(z[:, n:-1]), axis=1) > PUSHES
    wrong = np.max(np.abs(f), axis=1) > _DUE * tolerance
    due = np.flatnonzero(~pushes & wrong)
    for start, stop, count in cut(len(due), _AT_ONCE):
        own = due[np.minimum(np.arange(start, start + count), stop - 1)]
        some = slots.some(own)
        unit = some.unknowns[:, :n]
        z[own, :n] = np.asarray(_found(step, some, velocity[some.sides], z[own, :n] * unit)) / unit


@jit
def _found(step: Step, slots: Slots, V, closest):
    """Closest points (c, unknowns) [m] where the velocities V (c, 2, 6 or 3) lead, near the last
    ones."""

    def one(member, starts, V, last):
        ends = [kinematics.moved(start, own, step.h) for start, own in zip(starts, V, strict=True)]
        placed = kinematics.placed(member, *ends)
        solution = closest_points_from(member.pair, last, *placed, step.length)
        begun = jnp.where(solution.converged, solution.z, last)
        return undamped(member.pair, begun, *placed, step.length, 0.0, _ITERATIONS)[0]

    return one_by_one(one)(slots.group, slots.starts, V, closest)

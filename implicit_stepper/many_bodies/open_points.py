"""Closest points of contacts that push nothing, found anew where Newton's method stalls.

They follow from poses alone, but between faces or edges that are all but parallel they lie at an
end, past which iterations on their equations jump back and forth.
"""

from __future__ import annotations

import numpy as np

from .equations import cut
from .problem import Point, Problem, Rows
from .sweeps import nearest, units_of_bodies

_PUSHES = 1e-7  # of the unit of impulses
_AT_ONCE = 32


def renewed(problem: Problem, at: Point, F: Rows, tolerance: float) -> Point:
    """The point with closest points where its velocities lead, of contacts of bodies with faces
    that push nothing and have rows beyond the tolerance."""
    velocity, contacts = problem.with_fixed(at.V) * units_of_bodies(problem), []
    for slots, z, f in zip(problem.slots, at.contacts, F.contacts, strict=True):
        n, z = slots.group.pair.unknowns, np.array(z)
        pushes = np.max(np.abs(z[:, n:-1]), axis=1) > _PUSHES
        wrong = np.max(np.abs(f), axis=1) > tolerance
        due = np.flatnonzero(~pushes & wrong & (not slots.group.pair.smooth))
        for start, stop, rows in cut(len(due), _AT_ONCE):
            own = due[np.minimum(np.arange(start, start + rows), stop - 1)]
            some = slots.some(own)
            units = some.unknowns[:, :n]
            found = nearest(problem.step, some, velocity[some.sides], z[own, :n] * units)[0]
            z[own, :n] = np.asarray(found) / units
        contacts.append(z)
    return Point(at.V, tuple(contacts))

"""Proximal points: roots of F with a little of the way added, near a root that rounding hides.

Where forces are redundant J is singular, and along what nothing sees a residual of 1e-11 asks for
any correction. F + give D (z - centre), where D has the signs of what gives way in `linearization`,
has one root near the centre whatever nothing sees; F is there as large as the way times what gives
way, and zero where the next proximal points lead (Rockafellar 1976).
"""

from __future__ import annotations

import numpy as np

from ..solvers import sparse
from . import equations
from .linearization import Linear, correction, linear
from .open_points import renewed
from .problem import Point, Problem, Rows, moved

# by what forces give way first, at least, and how many times less or more around the next centre
_GIVE, _LEAST, _TIMES = 1e-7, 1e-10, 10.0
_SMALLER = 0.1  # of max |F_i| at the last centre: below it forces give way as before
_CENTRES, _JACOBIANS = 6, 8  # and Jacobians for each
_REACHED, _LOST = 0.1, 1e-2  # of the tolerance, and max |F_i|


def proximal(problem: Problem, at: Point, F: Rows, here: Linear | None, tolerance: float) -> tuple[Point, Rows, int]:
    """The point of the least max |F_i| on the way from one proximal point to the next, F, and how
    many Jacobians it took. The first within the tolerance ends it."""
    best, taken, give = (at, F), 0, _GIVE
    for _ in range(_CENTRES):
        z, there, left = at, F, np.inf
        for _ in range(_JACOBIANS):
            here, taken = linear(problem, z, there, give, here), taken + 1
            factors = sparse.factorised(here.nodes, here.links)
            if factors is None:
                break
            z, there = moved(problem, z, correction(problem, here.local, factors, _rows(problem, z, there, at, give)))
            left = _rows(problem, z, there, at, give).largest
            if not _REACHED * tolerance < left < _LOST:
                break
        reached = left <= _REACHED * tolerance
        if reached and there.largest > tolerance:
            z, there = renewed(problem, z, there, tolerance)
        best = min(best, (z, there), key=lambda one: one[1].largest)
        if best[1].largest <= tolerance:
            break
        if reached:
            give = give if there.largest < _SMALLER * F.largest else max(give / _TIMES, _LEAST)
            at, F = z, there
        else:
            give *= _TIMES
    return *best, taken


def _rows(problem: Problem, at: Point, F: Rows, centre: Point, give: float) -> Rows:
    """The rows of which the proximal point is the root."""
    contacts = tuple(
        f + np.einsum("mij,mj->mi", equations.giving(problem.friction, slots, z, give), z - c)
        for slots, f, z, c in zip(problem.slots, F.contacts, at.contacts, centre.contacts, strict=True)
    )
    return Rows(F.bodies + give * (at.V - centre.V), contacts)

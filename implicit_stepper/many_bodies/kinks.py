"""How far a correction leads until a contact changes its mode.

Where redundant friction holds, forces may move along a line on which hardly anything else changes.
Newton's method knows the modes of where it stands only: it goes far along that line, and throws
contacts at its end out of their cones. The root is near the first point where one of them slips or
opens, from where on the derivative is another one.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from ..runtime.compilation import rows_filled_up
from .problem import Point, Problem, Rows, moved

# of max |F|: by how much a row departs from what the derivative foretells, just past the change
_LEAST, _MOST = 2.0, 7.0
_SEARCHES = 60
_EDGE = 1e-3  # of the interval that is searched: how near its ends a point is tried
_FEW, _GROWTH = 32, 4  # contacts that are evaluated at once, of which there are few sizes


def to_kink(problem: Problem, at: Point, by: Point, F: Rows, there: Rows) -> tuple[Point, Rows]:
    """The point on the way along `by`, from `at` with rows F to where they are `there`, just past
    the first contact that changes its mode; F there. Only contacts whose rows grow beyond max |F|
    are evaluated on the way."""
    forms = zip(problem.slots, at.contacts, by.contacts, F.contacts, there.contacts, strict=True)
    some = [found for form in forms if form[0].touching and (found := _thrown(*form, F.largest))]
    if not some:
        return moved(problem, at, by)
    slots, start, way, before = zip(*some, strict=True)
    few = dataclasses.replace(problem, slots=slots, counts=tuple(map(len, before)))
    begin, step = Point(at.V, start), Point(by.V, way)

    def departure(share: float) -> float:
        """Of the rows at a `share` of the way from the line to zero."""
        found = moved(few, begin, step, share)[1].contacts
        return max(np.max(np.abs(f - (1 - share) * f_0)) for f, f_0 in zip(found, before, strict=True))

    return moved(problem, at, by, _share(departure, _LEAST * F.largest, _MOST * F.largest))


def _thrown(slots, z, dz, before, after, bound: float):
    """Of the contacts of one form those with rows `after` above the bound: their slots, unknowns,
    corrections and rows `before`; None if there are none."""
    numbers = np.flatnonzero(np.max(np.abs(after), axis=1) > bound)
    if not len(numbers):
        return None
    padded = rows_filled_up(len(numbers), _FEW, _GROWTH)
    return slots.some(numbers[padded]), z[numbers], dz[numbers], before[numbers]


def _share(departure, least: float, most: float) -> float:
    """Where `departure`, zero at 0, is between `least` and `most`; 1 if it is never so large. False
    position, as it grows from a kink in proportion, and halving by turns."""
    low, high, below, above = 0.0, 1.0, 0.0, departure(1.0)
    if above <= most:
        return 1.0
    for search in range(_SEARCHES):
        share, grown = (low + high) / 2, above - below
        if search % 2 == 0 and 0 < grown < np.inf:
            share = high - (above - (least + most) / 2) * (high - low) / grown
            share = float(np.clip(share, low + _EDGE * (high - low), high - _EDGE * (high - low)))
        found = departure(share)
        if found < least:
            low, below = share, found
        elif found > most:
            high, above = share, found
        else:
            break
    return share

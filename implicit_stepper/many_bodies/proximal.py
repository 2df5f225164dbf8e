"""Proximal points: roots of F with a little of the way added, where F alone leads nowhere.

Where forces are redundant J is singular, and along what nothing sees a residual of 1e-11 asks for
any correction; where contacts slip by 1e-6 m/s their friction turns as fast as a correction goes.
F + give D (z - centre), where D has the signs of what gives way in `linearization`, has one root
near the centre whatever nothing sees, and its friction turns no faster than what gives way allows.
F is there as large as the way times what gives way, and zero where the next proximal points lead
(Rockafellar 1976).
"""

from __future__ import annotations

from typing import NamedTuple

from ..solvers import sparse
from . import equations
from .linearization import Linear, correction, linear
from .open_points import renewed
from .problem import Point, Problem, Rows, felt, moved

# by what forces give way, at least and at most, and how many times less or more around the next
# centre, with at most so many Jacobians for the last one
_LEAST, _LEAST_SMOOTH, _MOST = 1e-10, 2e-8, 10.0
_LESS, _MORE, _QUICK = 2.0, 3.0, 8
_JACOBIANS = 15  # for a proximal point
# of max |F| of the rows of which it is the root: how large they may become in a correction, of
# which the least share, and how small they are where corrections go on with the same factors
_GROWTH, _LEAST_SHARE, _CONTRACTION, _CHORDS = 100.0, 1e-2, 0.3, 4
# those rows of what is a proximal point, of the tolerance and of max |F|; and of what is lost,
# where max |F| at the centre is less than a hundredth of that
_REACHED, _ROUGHLY, _LOST = 0.1, 0.1, 1.0
# proximal points that do not halve the least max |F_i|, after which rounding hides the root
_HALF, _STALE = 0.5, 12


class _Near(NamedTuple):
    """A `point` and F there; how many Jacobians that `took`, the last of which is `here`, and what
    it `missed` (as in `linear`); whether it is the proximal point that is `reached`."""

    point: Point
    F: Rows
    took: int
    here: Linear | None
    missed: Rows | None
    reached: bool


class _Trial(NamedTuple):
    """A `point`, F there, what is `left` of the rows of which the proximal point is the root, and
    how large that is."""

    point: Point
    F: Rows
    left: Rows
    size: float


def proximal(
    problem: Problem, at: Point, F: Rows, here: Linear | None, tolerance: float, give: float, most: int, enough: float = 0.0
) -> tuple[Point, Rows, int]:
    """The point of the least max |F_i| on the way from one proximal point to the next, F, and how
    many Jacobians it took, `most` at most. The first within the tolerance ends it, or several in a
    row after one that is `enough`, and of which none halves it. Forces `give` way by so much at
    first."""
    at, F = renewed(problem, at, F, tolerance)
    best, taken, stale, missed = (at, F), 0, 0, None
    least = _LEAST_SMOOTH if problem.sweeps else _LEAST
    while taken < most and give <= _MOST:
        near = _proximal_point(problem, at, F, here, missed, tolerance, give)
        z, there, here, taken = near.point, near.F, near.here, taken + near.took
        missed = near.missed if near.reached else None
        if near.reached and there.largest > tolerance:
            z, there = renewed(problem, z, there, tolerance)
        stale = 0 if there.largest < _HALF * best[1].largest else stale + 1
        best = min(best, (z, there), key=lambda one: one[1].largest)
        if best[1].largest <= tolerance or best[1].largest <= enough and stale >= _STALE:
            break
        if near.reached:
            at, F = z, there
            give = max(give / _LESS, least) if near.took <= _QUICK else give
        else:
            give *= _MORE
    return *best, taken


def _proximal_point(
    problem: Problem, at: Point, F: Rows, here: Linear | None, missed: Rows | None, tolerance: float, give: float
) -> _Near:
    """The root around the centre `at` with rows F, as far as corrections lead to it: its rows but
    for those that nothing depends on (`problem.felt`)."""
    z, there, left, took, reached = at, F, F, 0, False
    size = first = felt(problem, at, F)
    while took < _JACOBIANS:
        here, took = linear(problem, z, left, give, here, missed), took + 1
        factors = sparse.factorised(here.nodes, here.links)
        if factors is None:
            break
        before, share, by = size, 1.0, correction(problem, here.local, factors, left)
        trial = _moved(problem, z, by, share, at, give)
        while not trial.size < _GROWTH * before and share > _LEAST_SHARE:
            share /= 2
            trial = _moved(problem, z, by, share, at, give)
        z, there, left, size = trial
        halved, reached = share == 1.0 and size < _HALF * before, _reached(problem, z, there, size, tolerance)
        for _ in range(_CHORDS if share == 1.0 else 0):
            if not size < _CONTRACTION * before or reached:
                break
            trial = _moved(problem, z, correction(problem, here.local, factors, left), 1.0, at, give)
            if not trial.size < size:
                break
            before = size
            z, there, left, size = trial
            reached = _reached(problem, z, there, size, tolerance)
        missed = left if halved and problem.sweeps else None
        if reached or not size < max(_LOST, _GROWTH * first):
            break
    return _Near(z, there, took, here, missed, reached)


def _moved(problem: Problem, z: Point, by: Point, share: float, centre: Point, give: float) -> _Trial:
    """Where a point leads as far as `share` along `by`."""
    trial, there = moved(problem, z, by, share)
    left = _rows(problem, trial, there, centre, give)
    return _Trial(trial, there, left, felt(problem, trial, left))


def _reached(problem: Problem, z: Point, F: Rows, left: float, tolerance: float) -> bool:
    """Whether a point with rows F, of which so much is `left`, is the proximal one."""
    return left <= max(_REACHED * tolerance, _ROUGHLY * felt(problem, z, F))


def _rows(problem: Problem, at: Point, F: Rows, centre: Point, give: float) -> Rows:
    """The rows of which the proximal point is the root."""
    contacts = tuple(
        f + equations.yielded(problem.friction, slots, z, z - c, give)
        for slots, f, z, c in zip(problem.slots, F.contacts, at.contacts, centre.contacts, strict=True)
    )
    return Rows(F.bodies + give * (at.V - centre.V), contacts)

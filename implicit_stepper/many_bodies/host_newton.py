"""Newton's method for a step of many bodies: contacts are evaluated form by form in compiled
programs, and one sparse system of bodies and of what presses is factorised on the host."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from ..implicit_euler import central_path
from ..solvers import sparse
from ..solvers.newton import Solution
from .linearization import Linear, correction, linear
from .open_points import renewed
from .problem import Point, Problem, Rows, moved, rows, slipping
from .sweeps import begun, swept

_ENOUGH = 0.5  # of max |F|: what corrections leave that need no sweeps
_GROWTH = 10.0  # times max |F|: beyond it sweeps begin where the correction began
_SWEEPS = 50  # of the first time, as many more each time
_BEGINS = 1e-3  # kappa of the first point of a short path
_PATIENCE = 10  # iterations without a new least |F|
# of the least |F| so far: from there on closest points of open contacts are found anew
_PROGRESS = 0.9
_FAR = 1e6  # of |F_i|: iterations that came so far from any root are given up
# by what share of max |F| forces give way to speeds, and bodies to forces
_YIELD, _LEAST_GIVE = 1e-3, 1e-9
# corrections with one factorisation, while each reduces |F| by this factor
_CONTRACTION, _CHORDS = 0.3, 4


class Found(NamedTuple):
    """The end of the iterations: `point`, the largest |F_i| there, how many Jacobians they took,
    whether they `converged`."""

    point: Point
    residual: float
    iterations: int
    converged: bool


def newton(problem: Problem, start: Point, tolerance: float, most: int, mends: bool = True) -> Found:
    """The root from `start`, with at most so many Jacobians. A point within the tolerance is
    corrected once more, and kept where that makes it worse.

    If it `mends`, where a correction gains nothing, closest points of open contacts are found anew;
    and where it does not halve max |F| and all bodies are smooth, sweeps from contact to contact
    follow: they mend the few contacts that it threw out of place, which is what Newton's method is
    bad at, and leave what is wrong over many bodies, which is what they are bad at. Of bodies with
    faces they are not asked, because their one plane a contact does not tell where a face presses."""
    at, F = slipping(problem, start, rows(problem, start))
    if not np.isfinite(F.largest):
        return Found(start, np.inf, 0, False)
    stale, mended, least, here = 0, 0, np.inf, None
    smooth = all(slots.group.pair.smooth for slots in problem.slots)
    for iterations in range(1, most + 1):
        here = linear(problem, at, F, _give(F), here)
        factors = sparse.factorised(here.nodes, here.links)
        if factors is None:
            break
        trial, there = _corrected(problem, at, F, here, factors, tolerance)
        if there.largest <= tolerance:
            return Found(trial, there.largest, iterations, True)
        if F.largest <= tolerance:  # where J is singular to rounding, a root is left for worse
            return Found(at, F.largest, iterations, True)
        if mends and not there.largest < _PROGRESS * F.largest:
            trial = renewed(problem, trial, there, tolerance)
            trial, there = slipping(problem, trial, rows(problem, trial))
            if there.largest <= tolerance:
                return Found(trial, there.largest, iterations, True)
        if mends and smooth and not there.largest < _ENOUGH * F.largest:
            source = trial if there.largest < _GROWTH * F.largest else at
            trial = swept(problem, source, begun(problem, source), _SWEEPS * (1 + mended))[0]
            trial, there = slipping(problem, trial, rows(problem, trial))
            mended += 1
        if not there.largest < _FAR:
            break
        stale = 0 if there.largest < least else stale + 1
        if stale > _PATIENCE:
            break
        least = min(least, there.largest)
        at, F = trial, there
    return Found(at, F.largest, iterations, False)


def short_path(problem: Problem, start: Point, tolerance: float, most: int) -> Found:
    """The root at the end of the central path (`implicit_euler.central_path`) that begins near a
    stalled `start`: where redundant friction holds, it tells which contact is to slip."""
    taken = []

    def solve(at: Point, kappa: float) -> Solution:
        step = dataclasses.replace(problem.step, kappa=np.asarray(kappa))
        on_path = dataclasses.replace(problem, step=step)
        found = newton(on_path, at, float(central_path.tolerance(kappa)), most, mends=False)
        taken.append(found.iterations)
        return Solution(found.point, found.residual, found.iterations, found.converged)

    end = central_path.end_of_path(solve, start, _BEGINS)
    if end is None:
        return Found(start, np.inf, sum(taken), False)
    found = newton(problem, end, tolerance, most, mends=False)
    return found._replace(iterations=found.iterations + sum(taken))


def _corrected(problem: Problem, at: Point, F: Rows, here: Linear, factors: sparse.Sparse, tolerance: float):
    """The point and F after corrections with one factorisation, for as long as it contracts."""
    size, (trial, there) = F.largest, moved(problem, at, correction(problem, here.local, factors, F))
    for _ in range(_CHORDS):
        if not there.largest < _CONTRACTION * size or (there.largest <= tolerance and size <= tolerance):
            break
        further, beyond = moved(problem, trial, correction(problem, here.local, factors, there))
        if not beyond.largest < max(there.largest, tolerance):
            break
        size, trial, there = there.largest, further, beyond
    return trial, there


def _give(F: Rows) -> float:
    """How much forces give way where rows are F."""
    return float(np.clip(_YIELD * F.largest, _LEAST_GIVE, 1.0))

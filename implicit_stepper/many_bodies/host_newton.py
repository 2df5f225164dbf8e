"""Newton's method for a step of many bodies: contacts are evaluated form by form in compiled
programs, and one sparse system of bodies and of what presses is factorised on the host."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..solvers import sparse
from .linearization import correction, linear
from .problem import Point, Problem, Rows, moved, rows, slipping

_GROWTH, _MEMORY, _PATIENCE = 10.0, 20, 15  # as in `solvers.newton`
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


def newton(problem: Problem, start: Point, tolerance: float, most: int) -> Found:
    """The root from `start`, with at most so many Jacobians. A point within the tolerance is
    corrected once more."""
    at, F = slipping(problem, start, rows(problem, start))
    if not np.isfinite(F.largest):
        return Found(start, np.inf, 0, False)
    recent, stale, least, here = [F.largest], 0, np.inf, None
    for iterations in range(1, most + 1):
        here = linear(problem, at, F, _give(F), here)
        factors = sparse.factorised(here.nodes, here.links)
        if factors is None:
            break
        size, dz = F.largest, correction(problem, here.local, factors, F)
        trial, there = moved(problem, at, dz)
        # one factorisation for as long as it contracts
        for _ in range(_CHORDS):
            if not there.largest < _CONTRACTION * size or (there.largest <= tolerance and size <= tolerance):
                break
            further, beyond = moved(problem, trial, correction(problem, here.local, factors, there))
            if not beyond.largest < max(there.largest, tolerance):
                break
            size, trial, there = there.largest, further, beyond
        if there.largest <= tolerance:
            return Found(trial, there.largest, iterations, True)
        bound, share = _GROWTH * max(recent[-_MEMORY:]), 1.0
        if stale >= _PATIENCE:
            bound = F.largest
        while not there.largest < bound and share > 1e-2:
            share /= 2
            trial, there = moved(problem, at, dz, share)
        if not there.largest < _FAR:
            break
        stale = 0 if there.largest < least else stale + 1
        least = min(least, there.largest)
        at, F = trial, there
        recent.append(F.largest)
    return Found(at, F.largest, iterations, False)


def _give(F: Rows) -> float:
    """How much forces give way where rows are F."""
    return float(np.clip(_YIELD * F.largest, _LEAST_GIVE, 1.0))


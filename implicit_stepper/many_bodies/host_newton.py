"""Newton's method for a step of many bodies: contacts are evaluated form by form in compiled
programs, and one sparse system of bodies and of what presses is factorised on the host."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..implicit_euler import central_path
from ..solvers import sparse
from ..solvers.newton import Solution
from .few_contacts import settled
from .kinks import to_kink
from .linearization import Factored, Linear, correction, linear
from .open_points import renewed
from .problem import Point, Problem, Rows, moved, rows, slipping, smoothed
from .proximal import proximal
from .standing import allowed
from .sweeps import begun, swept

_ENOUGH = 0.5  # of max |F|: what corrections leave that need no sweeps
_GROWTH, _MEMORY, _PATIENCE = 10.0, 20, 15  # as in `solvers.newton`
_SMOOTH_PATIENCE = 10  # iterations of smooth bodies without a new least |F|
# the first time as many as there are bodies, within bounds, as what a contact learns travels one
# body a sweep; so many times more each time, at most
_SWEEPS, _MORE, _MOST_SWEEPS = (200, 400), 2, 3200
_TRIED, _LAST = 7, 4  # after so many times they are given up where the last of them halve nothing
# max |F| up to which few contacts are undecided, and how often in a row their law may be in vain
_FEW, _VAIN = 1e-3, 3
# of max |F|, of smooth bodies and of those with faces, up to which corrections that multiply it
# lead to the first kink only; and how many kinks in a row: smooth bodies go on by sweeps
_NEAR, _NEAR_FACES, _MULTIPLIES = 1e-3, 1.0, 2.0
_KINKS, _KINKS_FACES = 6, 20
_MENDED = 1e-6  # max |F| of smooth bodies below which sweeps mend nothing
_BEGINS = 1e-3  # kappa of the first point of a short path
# kappa of a point of the path near which forces are far from the edges of their cones, and of
# kappa, max |F| of what is near enough: forces, not roots, are asked for
_CENTRE, _ROUGH = 1e-2, 0.2
# of the least |F| so far: from there on closest points of open contacts are found anew
_PROGRESS = 0.9
_LEAST_SHARE = 1e-2  # of a correction
_FAR = 1e6  # of |F_i|: iterations that came so far from any root are given up
# by what share of max |F| forces give way to speeds, and bodies to forces, and by how much at
# least: of smooth bodies by what leaves contacts an inverse (`sparse.condensed`), without which the
# matrix has twice the rows
_YIELD, _LEAST_GIVE, _SMOOTH_GIVE = 1e-3, 1e-9, 2e-8
# max |F| below which rounding may hide a root, where forces are redundant; and below which proximal
# points follow at once where a correction of smooth bodies leads no further
_HIDDEN, _CLOSE_SMOOTH = 1e-10, 1e-7
# of bodies with faces: max |F| below which proximal points follow, where a correction makes it no
# smaller
_CLOSE = 1e-9
_CLOSE_BY = 1e-7, 48  # by what forces give way there first, and how many Jacobians follow
# by what forces give way around a stalled point, as much as max |F|, within bounds; and how many
# Jacobians follow
_GIVES, _MOST_PROXIMAL = (1e-7, 1.0), 600
# of the tolerance, as `blocks.Kept.shaken`: max |F| of a start that corrections by the derivative
# of another step do not halve, which is a root for one's own too
_SHAKEN = 10.0
# corrections with one factorisation, while each reduces |F| by this factor
_CONTRACTION, _CHORDS = 0.3, 4


class Found(NamedTuple):
    """The end of the iterations: `point`, the largest |F_i| there, how many Jacobians they took,
    whether they `converged`; of bodies with faces the derivative that led to a root."""

    point: Point
    residual: float
    iterations: int
    converged: bool
    kept: Factored | None = None


def newton(problem: Problem, start: Point, tolerance: float, most: int, mends: bool = True, enough: float = 0.0) -> Found:
    """The root from `start`, with at most so many Jacobians, none where bodies stand. A
    point within the tolerance is corrected once more, and kept where that makes it worse; so is one
    with max |F_i| of `enough` that a correction does not halve.

    Where a correction near a root throws contacts out of place, these are solved by their own law
    (`few_contacts`), or it is followed to the first that changes its mode (`kinks`); still nearer,
    smooth bodies leave it to proximal points. Of smooth bodies, if it `mends`, sweeps follow where
    a correction does not halve max |F|: they mend contacts out of place, not what is wrong over
    many bodies. Of bodies with faces, where one plane does not tell where a contact presses,
    corrections are shortened, open contacts get closest points anew, and proximal points end it."""
    at, F = slipping(problem, start, rows(problem, start))
    smooth, finite = problem.sweeps, bool(np.isfinite(F.largest))
    if not finite or F.largest <= allowed(smooth, np.any(at.V)) * tolerance:
        return Found(at, F.largest if finite else np.inf, 0, finite)
    recent, stale, mended, kinks, vain, here, more = [F.largest], 0, [], 0, 0, None, 0
    for iterations in range(1, most + 1):
        here = linear(problem, at, F, _give(F, smooth), here)
        factors = sparse.factorised(here.nodes, here.links)
        if factors is None:
            break
        dz, trial, there = _corrected(problem, at, F, here, factors, tolerance)
        kept = None if smooth else Factored(here, factors)
        if there.largest <= tolerance:
            return Found(trial, there.largest, iterations + more, True, kept)
        # where J is singular to rounding, a root is left for worse
        if F.largest <= max(tolerance, enough) and not there.largest < _ENOUGH * F.largest:
            return Found(at, F.largest, iterations + more, True, kept)
        if F.largest < _CLOSE and not smooth and problem.step.kappa is None and not there.largest < F.largest:
            trial, there, taken = proximal(problem, at, F, here, tolerance, *_CLOSE_BY)
            more += taken
            if there.largest <= tolerance:
                return Found(trial, there.largest, iterations + more, True, kept)
        far = not there.largest < (_ENOUGH if smooth and F.largest < _MENDED else _MULTIPLIES) * F.largest
        if smooth and mends and far and F.largest < _CLOSE_SMOOTH:
            break
        near, most_kinks = (_NEAR, _KINKS if mends else 0) if smooth else (_NEAR_FACES, _KINKS_FACES)
        if far and F.largest < near and kinks < most_kinks:
            few = smooth and mends and F.largest < _FEW and vain < _VAIN and problem.forms == len(problem.slots)
            found = settled(problem, at, F, here, there) if few else (at, F)
            kinks, vain = (0, 0) if found[1].largest < _ENOUGH * F.largest else (kinks + 1, vain + few)
            trial, there = to_kink(problem, at, dz, F, there) if kinks else found
        elif not smooth:
            bound = F.largest if stale >= _PATIENCE else _GROWTH * max(recent[-_MEMORY:])
            trial, there = _shortened(problem, at, dz, trial, there, bound)
            kinks = 0
        elif mends and not there.largest < _ENOUGH * F.largest:
            trial, there = _mended(problem, trial if there.largest < _GROWTH * F.largest else at, len(mended))
            mended, kinks = [*mended, there.largest], 0
        stale = 0 if there.largest < (1.0 if smooth else _PROGRESS) * min(recent) else stale + 1
        if not there.largest < _FAR or _in_vain(mended) or (smooth and stale > _SMOOTH_PATIENCE + kinks):
            at, F = min((at, F), (trial, there), key=lambda one: one[1].largest)
            break
        if stale and not smooth:
            trial, there = renewed(problem, trial, there, tolerance)
            if there.largest <= tolerance:
                return Found(trial, there.largest, iterations + more, True, kept)
        at, F, recent = trial, there, [*recent, there.largest]
    return Found(at, F.largest, iterations + more, False)


def again(problem: Problem, start: Point, tolerance: float, enough: float, kept: Factored) -> Found | None:
    """The root to which corrections lead by the derivative that is `kept` of another step, or the
    start where bodies stand or rounding shakes what corrections leave of it, None otherwise."""
    at, F = slipping(problem, start, rows(problem, start))
    if F.largest <= allowed(problem.sweeps, np.any(at.V)) * tolerance:
        return Found(at, F.largest, 0, True, kept)
    _, trial, there = _corrected(problem, at, F, *kept, tolerance)
    if there.largest <= tolerance:
        return Found(trial, there.largest, 0, True, kept)
    if F.largest <= min(_SHAKEN * tolerance, enough) and not there.largest < _ENOUGH * F.largest:
        return Found(at, F.largest, 0, True, kept)
    return None


def proximal_points(problem: Problem, start: Point, tolerance: float, enough: float) -> Found:
    """The root to which one proximal point after the other leads from a stalled `start`, or a point
    with max |F_i| of `enough`, and no more than rounding makes, that they come no nearer to."""
    F = rows(problem, start)
    give = float(np.clip(F.largest, *_GIVES))
    point, F, taken = proximal(problem, start, F, None, tolerance, give, _MOST_PROXIMAL, min(enough, _HIDDEN))
    return Found(point, F.largest if np.isfinite(F.largest) else np.inf, taken, F.largest <= tolerance)


def short_path(problem: Problem, start: Point, tolerance: float, most: int) -> Found:
    """The root at the end of the central path (`implicit_euler.central_path`) that begins near a
    stalled `start`: where redundant friction holds, it tells which contact is to slip."""
    taken = []

    def solve(at: Point, kappa: float) -> Solution:
        found = newton(smoothed(problem, kappa), at, float(central_path.tolerance(kappa)), most, mends=False)
        taken.append(found.iterations)
        return Solution(found.point, found.residual, found.iterations, found.converged)

    end = central_path.end_of_path(solve, start, _BEGINS)
    if end is None:
        return Found(start, np.inf, sum(taken), False)
    found = newton(problem, end, tolerance, most, mends=False)
    return found._replace(iterations=found.iterations + sum(taken))


def centred(problem: Problem, root: Found, tolerance: float, most: int) -> Found:
    """A root near the central path, which forces at the edges of their cones lead away from, from
    another `root` of the step; that one where it leads nowhere."""
    near = newton(smoothed(problem, _CENTRE), root.point, _ROUGH * _CENTRE, most, mends=False)
    found = newton(problem, near.point, tolerance, most, mends=False)
    best = found if near.converged and found.converged else root
    return best._replace(iterations=root.iterations + near.iterations + found.iterations)


def _corrected(problem: Problem, at: Point, F: Rows, here: Linear, factors: sparse.Sparse, tolerance: float):
    """The first correction, and the point and F after corrections with one factorisation, for as
    long as it contracts."""
    size, first = F.largest, correction(problem, here.local, factors, F)
    trial, there = moved(problem, at, first)
    for _ in range(_CHORDS):
        if not there.largest < _CONTRACTION * size or (there.largest <= tolerance and size <= tolerance):
            break
        further, beyond = moved(problem, trial, correction(problem, here.local, factors, there))
        if not beyond.largest < max(there.largest, tolerance):
            break
        size, trial, there = there.largest, further, beyond
    return first, trial, there


def _mended(problem: Problem, at: Point, times: int) -> tuple[Point, Rows]:
    """Where sweeps lead from a point, more of them after so many `times` in vain, and F there."""
    count = min(int(np.clip(len(at.V), *_SWEEPS)) * _MORE**times, _MOST_SWEEPS)
    trial = swept(problem, at, begun(problem, at), count)[0]
    return slipping(problem, trial, rows(problem, trial))


def _in_vain(mended: list[float]) -> bool:
    """Whether none of the last sweeps has left half of what those before had `mended`, max |F|
    after each time."""
    return len(mended) >= _TRIED and not min(mended[-_LAST:]) < _ENOUGH * min(mended[:-_LAST])


def _shortened(problem: Problem, at: Point, dz, trial: Point, there: Rows, bound: float) -> tuple[Point, Rows]:
    """The `trial`, or the first of ever shorter parts of the correction `dz` that leaves max |F|
    below the `bound`."""
    share = 1.0
    while not there.largest < bound and share > _LEAST_SHARE:
        share /= 2
        trial, there = moved(problem, at, dz, share)
    return trial, there


def _give(F: Rows, smooth: bool) -> float:
    """How much forces give way where rows are F."""
    return float(np.clip(_YIELD * F.largest, _SMOOTH_GIVE if smooth else _LEAST_GIVE, 1.0))

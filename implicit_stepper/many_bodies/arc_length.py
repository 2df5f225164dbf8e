"""The central path by its arc length: it leads to a root where no other start does.

Where faces press and slide in great number, the central path (`implicit_euler.central_path`) folds:
on its way to kappa = 0 it turns back for a while, and a continuation by ever smaller kappa ends at
the first such point. Here log kappa is one more unknown, and the path is followed by its own length
(Keller 1977): from a point of it along the tangent, then to the path again at right angles to that,
so that a fold is a point like any other.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from ..implicit_euler import central_path
from ..solvers import sparse
from .host_newton import Found, newton
from .linearization import correction, linear
from .problem import Point, Problem, Rows, rows, smoothed

# of kappa: how near a point is to the path; of log kappa: for differences
_NEAR, _DIFFERENCE = 1e-3, 1e-6
_GIVE = 1e-12  # by how much forces give way: all but nothing, as the path itself is smooth
_CORRECTIONS, _QUICK, _SLOW = 8, 3, 5  # of a point; up to which the length grows, from which it falls
_FIRST, _LONGER, _SHORTER, _REFUSED, _SHORTEST = 0.3, 1.6, 1.3, 2.5, 1e-9  # lengths and their factors
# kappa from which on the step itself is tried, and by what share of it next; the bounds of kappa
_TRIED, _NEXT, _LEAST, _MOST = 1e-3, 0.1, 1e-10, 1e2
_BUDGET = 6000  # Jacobians


class _At(NamedTuple):
    """A point of the path: `unknowns` (n,), the last of them log kappa, and its unit `tangent`
    (n,), with how many Jacobians its corrections took."""

    unknowns: np.ndarray
    tangent: np.ndarray
    corrections: int


class _Tangent(NamedTuple):
    """At unknowns (n,): rows F (n - 1,); J^-1 F and J^-1 dF/d log kappa, both (n - 1,)."""

    rows: np.ndarray
    to_path: np.ndarray
    along: np.ndarray


def followed(problem: Problem, start: Point, tolerance: float, most: int) -> Found:
    """The root that the path leads to which begins near `start`, with at most `most` Jacobians for
    its beginning and for each time that the step itself is tried."""
    best, at, taken = Found(start, np.inf, 0, False), None, 0
    for kappa in central_path.STARTS:
        bound = float(central_path.tolerance(kappa))
        begun = newton(smoothed(problem, kappa), start, bound, most, mends=False)
        taken += begun.iterations
        if begun.converged:
            at = _corrected(problem, start, np.append(_packed(*begun.point), np.log(kappa)), None)
            break
    tried, length = _TRIED, _FIRST
    while at is not None and length > _SHORTEST and taken < _BUDGET:
        kappa = np.exp(at.unknowns[-1])
        if not _LEAST < kappa:
            break
        if kappa < tried:
            found = newton(problem, _unpacked(at.unknowns, start), tolerance, most, mends=False)
            taken, tried = taken + found.iterations, _NEXT * kappa
            best = min(best, found, key=lambda one: one.residual)
            if found.converged:
                break
        further = _corrected(problem, start, at.unknowns + length * at.tangent, at, length)
        if further is None:
            taken, length = taken + _CORRECTIONS, length / _REFUSED
            continue
        taken += further.corrections
        length *= _LONGER if further.corrections <= _QUICK else 1.0
        length /= _SHORTER if further.corrections > _SLOW else 1.0
        at = further
    return best._replace(iterations=taken)


def _corrected(problem: Problem, shape: Point, guess: np.ndarray, last: _At | None, length: float = 0.0) -> _At | None:
    """The point of the path near `guess` (n,), at right angles to the tangent of the `last` one as
    far along that as `length`; without a last one, at the kappa of the guess. None if corrections
    do not lead there."""
    begun = -np.eye(len(guess))[-1]  # towards smaller kappa
    origin, along = (guess, begun) if last is None else (last.unknowns, last.tangent)
    size = np.inf
    for corrections in range(1, _CORRECTIONS + 1):
        found = _tangent(problem, guess, shape)
        if found is None:
            return None
        left = np.max(np.abs(found.rows))
        if left <= _NEAR * min(np.exp(guess[-1]), 1.0):
            tangent = np.append(-found.along, 1.0)
            tangent /= np.linalg.norm(tangent) * np.sign(tangent @ along)
            return _At(guess, tangent, corrections)
        if not left < size and corrections > _QUICK:
            return None
        size = left
        ahead = along @ (guess - origin) - length
        dt = (along[:-1] @ found.to_path - ahead) / (along[-1] - along[:-1] @ found.along)
        guess = guess + np.append(-found.to_path - found.along * dt, dt)
    return None


def _tangent(problem: Problem, unknowns: np.ndarray, shape: Point) -> _Tangent | None:
    """Rows and what solves for them at unknowns (n,) of a path, None where they are not finite, J is
    singular, or kappa is out of bounds."""
    if not unknowns[-1] < np.log(_MOST):
        return None
    kappa, at = np.exp(unknowns[-1]), _unpacked(unknowns, shape)
    on_path = smoothed(problem, kappa)
    F = rows(on_path, at)
    if not np.isfinite(F.largest):
        return None
    here = linear(on_path, at, F, _GIVE)
    factors = sparse.factorised(here.nodes, here.links)
    if factors is None:
        return None
    more, less = (_packed(*rows(smoothed(problem, kappa * np.exp(e)), at)) for e in (_DIFFERENCE, -_DIFFERENCE))
    by_kappa = _unpacked((more - less) / (2 * _DIFFERENCE), shape)
    solved = [-_packed(*correction(on_path, here.local, factors, Rows(*f))) for f in (F, by_kappa)]
    return _Tangent(_packed(*F), *solved)


def _packed(bodies, contacts) -> np.ndarray:
    """Of bodies (nb, 6 or 3) and of contacts, form by form, one array (n,)."""
    return np.concatenate([np.ravel(part) for part in (bodies, *contacts)])


def _unpacked(values: np.ndarray, shape: Point) -> Point:
    """The first of `values` in the shapes of a point."""
    parts, first = [], 0
    for like in (shape.V, *shape.contacts):
        parts.append(values[first : first + like.size].reshape(like.shape))
        first += like.size
    return Point(parts[0], tuple(parts[1:]))

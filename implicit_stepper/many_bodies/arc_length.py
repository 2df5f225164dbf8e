"""The central path by its arc length: it leads to a root where no other start does.

Where faces press and slide in great number, the central path (`implicit_euler.central_path`) folds:
on its way to kappa = 0 it turns back for a while, and a continuation by ever smaller kappa ends at
the first such point. Here log kappa is one more unknown, and the path is followed by its own length
(Keller 1977): from a point of it along the tangent, then to the path again at right angles to that,
so that a fold is a point like any other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..implicit_euler import central_path
from ..solvers import sparse
from ..solvers.elimination import Local
from .host_newton import Found, newton
from .linearization import correction, linear
from .problem import Point, Problem, Rows, rows, slipping, smoothed

_NEAR = 1e-3  # of kappa: max |F| of what counts as a point of the path
_DIFFERENCE = 1e-6  # of log kappa
# by how much forces give way, as far as that is little beside kappa: dampers of redundant friction
# have singular values of kappa, which a larger one hides; less is lost in rounding
_GIVE, _OF_KAPPA, _LEAST_GIVE = 1e-9, 1e-2, 1e-13
# corrections of a point; with how many the next way grows, and with more than how many it falls
_CORRECTIONS, _QUICK, _SLOW = 12, 3, 6
_CONTRACTION = 0.5  # of max |F|: corrections by a Jacobian that leave more ask for another
# the first and the shortest way along a tangent, and the factors by which it changes
_FIRST, _SHORTEST, _LONGER, _SHORTER, _REFUSED = 0.3, 1e-9, 1.6, 1.3, 2.5
# kappa from which on the step itself is tried, and by what share of it next; the bounds of kappa
_TRIED, _NEXT, _LEAST, _MOST = 1e-3, 0.1, 1e-14, 1e2
# kappa from which on a point of the path may be a root as it is, and max |F| that rounding leaves
# there
_ENDS, _ROUNDED = 1e-9, 1e-13
_BUDGET = 3000  # Jacobians


class _Linear(NamedTuple):
    """At a point of a path: what -J^-1 asks for, `problem`, `local` and `factors`; and J^-1 dF/d
    log kappa, `along` (n - 1,)."""

    problem: Problem
    local: tuple[Local, ...]
    factors: sparse.Sparse
    along: np.ndarray

    def solved(self, F: Rows) -> np.ndarray:
        """J^-1 F (n - 1,)."""
        return -_packed(*correction(self.problem, self.local, self.factors, F))


class _At(NamedTuple):
    """A point of the path: `unknowns` (n,), the last of them log kappa, its unit `tangent` (n,), J
    there, and how many corrections led to it."""

    unknowns: np.ndarray
    tangent: np.ndarray
    linear: _Linear
    corrections: int


def followed(problem: Problem, start: Point, tolerance: float, most: int) -> Found:
    """The root that the path leads to which begins near `start`, with at most `most` Jacobians for
    its beginning and for each time that the step itself is tried."""
    best, at, taken = Found(start, np.inf, 0, False), None, 0
    for kappa in central_path.STARTS:
        bound = float(central_path.tolerance(kappa))
        begun = newton(smoothed(problem, kappa), start, bound, most, mends=False)
        taken += begun.iterations
        if begun.converged:
            at = _first(problem, start, np.append(_packed(*begun.point), np.log(kappa)))
            break
    tried, length = _TRIED, _FIRST
    while at is not None and length > _SHORTEST and taken < _BUDGET:
        kappa = np.exp(at.unknowns[-1])
        if kappa < _LEAST:
            break
        if kappa < tried:
            found = newton(problem, _unpacked(at.unknowns, start), tolerance, most, mends=False)
            taken, tried = taken + found.iterations, _NEXT * kappa
            best = min(best, found, key=lambda one: one.residual)
            if found.converged:
                break
        further, jacobians = _further(problem, start, at, length)
        taken += jacobians
        if further is None:
            length /= _REFUSED
            continue
        length *= _LONGER if further.corrections <= _QUICK else 1.0
        length /= _SHORTER if further.corrections > _SLOW else 1.0
        at = further
        if np.exp(at.unknowns[-1]) < _ENDS:
            best = min(best, _as_it_is(problem, start, at, tolerance), key=lambda one: one.residual)
            if best.converged:
                break
    return best._replace(iterations=taken)


def _as_it_is(problem: Problem, shape: Point, at: _At, tolerance: float) -> Found:
    """A point of the path without its kappa. Where forces are redundant, corrections of the step
    itself would throw it as far as kappa ever was."""
    point = _unpacked(at.unknowns, shape)
    point, F = slipping(problem, point, rows(problem, point))
    return Found(point, F.largest, 0, F.largest <= tolerance)


def _first(problem: Problem, shape: Point, unknowns: np.ndarray) -> _At | None:
    """A path begins at `unknowns` (n,), towards smaller kappa."""
    unknowns, F = _rows(problem, unknowns, shape)
    linear = None if F is None else _linear(problem, unknowns, shape, F)
    if linear is None:
        return None
    return _At(unknowns, _tangent(linear, -np.eye(len(unknowns))[-1]), linear, 0)


def _further(problem: Problem, shape: Point, last: _At, length: float) -> tuple[_At | None, int]:
    """The point of the path that corrections at right angles to the tangent of the `last` one lead
    to, as far along that as `length`, or None; and how many Jacobians it took. That of the last
    point serves for as long as it contracts."""
    guess, linear = last.unknowns + length * last.tangent, last.linear
    before, jacobians, fresh = np.inf, 0, False
    for corrections in range(_CORRECTIONS):
        guess, F = _rows(problem, guess, shape)
        if F is None:
            break
        near = F.largest <= max(_NEAR * min(np.exp(guess[-1]), 1.0), _ROUNDED)
        slow = not F.largest < _CONTRACTION * before
        if fresh and slow and not F.largest < before:
            break
        if near or slow:
            linear, fresh, jacobians = _linear(problem, guess, shape, F), True, jacobians + 1
        if linear is None:
            break
        if near:
            return _At(guess, _tangent(linear, last.tangent), linear, corrections), jacobians
        before, along = F.largest, last.tangent
        to_path, ahead = linear.solved(F), along @ (guess - last.unknowns) - length
        dt = (along[:-1] @ to_path - ahead) / (along[-1] - along[:-1] @ linear.along)
        guess = guess + np.append(-to_path - linear.along * dt, dt)
    return None, jacobians


def _rows(problem: Problem, unknowns: np.ndarray, shape: Point) -> tuple[np.ndarray, Rows | None]:
    """The unknowns (n,) of a path with sigma as it has to be, and F there, None where that is not
    finite or kappa too large."""
    if not unknowns[-1] < np.log(_MOST):
        return unknowns, None
    on_path, at = smoothed(problem, np.exp(unknowns[-1])), _unpacked(unknowns, shape)
    at, F = slipping(on_path, at, rows(on_path, at))
    return np.append(_packed(*at), unknowns[-1]), F if np.isfinite(F.largest) else None


def _linear(problem: Problem, unknowns: np.ndarray, shape: Point, F: Rows) -> _Linear | None:
    """J at unknowns (n,) of a path with rows F, None where it is singular."""
    kappa, at = np.exp(unknowns[-1]), _unpacked(unknowns, shape)
    on_path = smoothed(problem, kappa)
    here = linear(on_path, at, F, float(np.clip(_OF_KAPPA * kappa, _LEAST_GIVE, _GIVE)))
    factors = sparse.factorised(here.nodes, here.links)
    if factors is None:
        return None
    more, less = (_packed(*rows(smoothed(problem, kappa * np.exp(e)), at)) for e in (_DIFFERENCE, -_DIFFERENCE))
    found = _Linear(on_path, here.local, factors, np.zeros(0))
    by_kappa = _unpacked((more - less) / (2 * _DIFFERENCE), shape)
    return found._replace(along=found.solved(Rows(*by_kappa)))


def _tangent(linear: _Linear, along: np.ndarray) -> np.ndarray:
    """The unit tangent (n,) of a path that goes on as `along` (n,)."""
    tangent = np.append(-linear.along, 1.0)
    return tangent / (np.linalg.norm(tangent) * np.sign(tangent @ along))


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

"""The impulses of an impact of many contacts: by Newton's method for projections, from those of the
step; and where that fails by the central path (`implicit_euler.central_path`), on which all
complementarity is smooth, with slips of kappa in the place of none, down to a kappa that nothing
shows any more, and by Newton's method from there."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .impact_joints import NOTHING, Answers, velocity_rows

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_TOLERANCE = 1e-13  # max |F_i|, in the largest impulse that a contact alone would take
_ENOUGH = 1e-11  # of a root that no correction comes nearer to
_SLOW = 1e-4  # of the motion: impacts that are slow beside it have no more digits
_NO_AXIS = 1e100  # [kg]: a step along an axis along which nothing moves
_CORRECTIONS, _SHARES = 40, 8  # of Newton's method, and how often one of them is halved
# the path: by what kappa falls, where it ends, corrections at a point of it, and what of kappa is
# left there; and from a fold on once more, with shorter steps
_SHRINKS, _LAST, _MOST, _LEFT = (0.3, 0.6), 1e-12, 25, 1e-2
_GIVE = 1e-9  # of D, in derivatives: redundant impulses stay near


class Law(NamedTuple):
    """Contacts between bodies `sides` (m, 2): maps `on` (m, 2, 1 + k, w) from the velocities of
    both to (v_n, w), the least v_n after the impact, `bounds` (m,) [m/s], the `least` impulses (m,)
    [N s], and coefficients `mu` (m,)."""

    sides: np.ndarray
    on: np.ndarray
    bounds: np.ndarray
    least: np.ndarray
    mu: np.ndarray


class Root(NamedTuple):
    """Velocities (nb, w) after the impact, `impulses` (m, 1 + k) (p_n, y), how many Jacobians they
    took, the largest |F_i| left, and whether they `converged`."""

    velocity: np.ndarray
    impulses: np.ndarray
    iterations: int
    residual: float
    converged: bool


def root(law: Law, answers: Answers, velocity, known, start) -> Root:
    """Of bodies with the `velocity` (nb, w) that the `known` impulses (m, 1 + k) gave them, near
    those of `start` (m, 1 + k):

        u = u(V) + D (P - known),   0 <= P_n - least _|_ u_n - bound >= 0,   |y| <= mu P_n

    y against w, with D = W M^-1 W^T, and with the answer of joints in the place of M^-1."""
    problem, back = _problem(law, answers, velocity, known)
    P, size, taken = _newton(problem, start)
    for shrink in _SHRINKS:
        if size <= _ENOUGH:
            break
        end, more = _end_of_path(problem, shrink)
        end, off, last = _newton(problem, end)
        P, size, taken = (end, off, taken + more + last) if off < size else (P, size, taken + more + last)
    after = velocity + (back @ (P - known).reshape(-1)).reshape(velocity.shape)
    return Root(after, P, taken, float(size), bool(size <= _ENOUGH))


class _Problem(NamedTuple):
    """A `law`; D, and D with what gives way in derivatives, `soft`; speeds u (m, 1 + k) without
    impulses; the `step` (m, 1 + k) [kg] of projections; units of impulses and speeds."""

    law: Law
    D: csr_matrix
    soft: csr_matrix
    u: np.ndarray
    step: np.ndarray
    unit: float
    speed: float

    def speeds(self, P) -> np.ndarray:
        """u (m, 1 + k) with the impulses P."""
        return self.u + (self.D @ P.reshape(-1)).reshape(P.shape)

    def correction(self, F, by_impulse, by_speed) -> np.ndarray | None:
        """That of the impulses (m, 1 + k), None where there is none."""
        from scipy.sparse.linalg import splu  # here, as few runs need it

        J = (_diagonal(by_impulse) + _diagonal(by_speed) @ self.soft).tocsc()
        if not np.all(np.isfinite(J.data)):  # SuperLU would go on with them
            return None
        try:
            found = -splu(J).solve(F.reshape(-1)).reshape(F.shape)
        except RuntimeError:  # an exact zero in the place of a pivot
            return None
        return found if np.all(np.isfinite(found)) else None


def _problem(law: Law, answers: Answers, velocity, known) -> tuple[_Problem, csr_matrix]:
    """And M^-1 W^T."""
    from scipy.sparse import diags_array

    count, _, width, _ = law.on.shape
    W = velocity_rows(law.sides, law.on, len(velocity))
    back = answers.inverse @ W.T
    D = (W @ back).tocsr()
    ends = (W @ velocity.reshape(-1)).reshape(count, width)
    u = ends - (D @ known.reshape(-1)).reshape(count, width)
    own = D.diagonal().reshape(count, width)
    # along an axis on which joints leave nothing, rounding is left
    own = np.where(own > NOTHING * np.asarray((W @ answers.alone).multiply(W).sum(axis=1)).reshape(own.shape), own, 0.0)
    step = 1 / np.maximum(own, 1 / _NO_AXIS)
    along = np.min(step[:, 1:], axis=1, keepdims=True)  # one step for all axes that have friction
    step[:, 1:] = np.where(step[:, 1:] < _NO_AXIS, along, _NO_AXIS)
    # no digits are left of impacts that are slow beside the motion, or what the step has stopped
    speed = max(np.max(np.abs(law.bounds - ends[:, 0])), _SLOW * np.max(np.abs(velocity)))
    heaviest = np.max(step[:, 0])
    unit = float(max(speed * heaviest, np.max(law.least), _SLOW * np.max(np.abs(known[:, 0]))))
    soft = (D + diags_array(_GIVE * own.reshape(-1))).tocsr()
    return _Problem(law, D, soft, u, step, unit, unit / float(heaviest)), back


def _newton(problem: _Problem, P) -> tuple[np.ndarray, float, int]:
    """Impulses near the root from P, how far off they are, and how many Jacobians they took."""
    F, *by = _projections(problem, P)
    best, taken = (P, float(np.max(np.abs(F))) / problem.unit), 0
    while taken < _CORRECTIONS and best[1] > _TOLERANCE:
        dP = problem.correction(F, *by)
        if dP is None:
            break
        P, (F, *by) = _shortened(functools.partial(_projections, problem), P, dP, F)
        taken += 1
        size = float(np.max(np.abs(F))) / problem.unit
        best = (P, size) if size < best[1] else best
    return *best, taken


def _end_of_path(problem: _Problem, shrink: float) -> tuple[np.ndarray, int]:
    """Impulses at the end of the central path, or where a fold ends it; and how many Jacobians."""
    P, kappa, taken = np.zeros_like(problem.u), 1.0, 0
    P[:, 0] = problem.law.least + problem.unit / 2
    while kappa > _LAST:
        at = functools.partial(_smoothed, problem, kappa)
        (F, *by), left = at(P), _MOST
        while np.max(np.abs(F)) > _LEFT * kappa:
            dP = problem.correction(F, *by) if left else None
            if dP is None:
                return P, taken
            P, (F, *by) = _shortened(at, P, dP, F)
            taken, left = taken + 1, left - 1
        kappa *= shrink
    return P, taken


def _shortened(function: Callable, P, dP, F):
    """P + s dP and the `function` there, with the first s of 1, 1/2, ... with which |F| falls."""
    for halvings in range(_SHARES):
        share = 0.5**halvings
        found = function(P + share * dP)
        if np.linalg.norm(found[0]) <= (1 - 1e-4 * share) * np.linalg.norm(F):
            break
    return P + share * dP, found


def _diagonal(blocks) -> csr_matrix:
    """A sparse matrix with `blocks` (m, a, a) along its diagonal."""
    from scipy.sparse import bsr_matrix

    return bsr_matrix((blocks, np.arange(len(blocks)), np.arange(len(blocks) + 1))).tocsr()


def _smoothed(problem: _Problem, kappa: float, P):
    """F (m, 1 + k), dimensionless, at impulses P, of a point of the path, and its derivatives (m, 1
    + k, 1 + k) by the impulses and the speeds of the same contact: Fischer and Burmeister's
    function of p_n and u_n, and y sqrt(|w|^2 + kappa^2) = -mu p_n w."""
    law, (count, width) = problem.law, P.shape
    p, v = P / problem.unit, problem.speeds(P) / problem.speed
    v[:, 0] -= law.bounds / problem.speed
    F, by_impulse, by_speed = np.zeros_like(p), *np.zeros((2, count, width, width))
    normal, more = p[:, 0], p[:, 0] - law.least / problem.unit
    length = np.sqrt(more**2 + v[:, 0] ** 2 + 2 * kappa**2)
    F[:, 0] = more + v[:, 0] - length
    by_impulse[:, 0, 0], by_speed[:, 0, 0] = 1 - more / length, 1 - v[:, 0] / length
    w, y, one = v[:, 1:], p[:, 1:], np.eye(width - 1)
    sigma = np.sqrt(np.sum(w**2, axis=1) + kappa**2)
    F[:, 1:] = y * sigma[:, None] + (law.mu * normal)[:, None] * w
    by_impulse[:, 1:, 1:], by_impulse[:, 1:, 0] = sigma[:, None, None] * one, law.mu[:, None] * w
    by_speed[:, 1:, 1:] = y[:, :, None] * (w / sigma[:, None])[:, None] + (law.mu * normal)[:, None, None] * one
    return F, by_impulse / problem.unit, by_speed / problem.speed


def _projections(problem: _Problem, P):
    """F (m, 1 + k), in impulses, at impulses P, and its derivatives (m, 1 + k, 1 + k) by the
    impulses and the speeds of the same contact."""
    law, step, u, width = problem.law, problem.step, problem.speeds(P), P.shape[1]
    F, by_speed, more = np.array(P), np.zeros((*P.shape, width)), P[:, 0] - law.least
    by_impulse = np.array(np.broadcast_to(np.eye(width), by_speed.shape))
    pushed = more - step[:, 0] * (u[:, 0] - law.bounds)
    presses = pushed > 0
    F[:, 0] = more - np.maximum(pushed, 0.0)
    by_impulse[presses, 0, 0] = 0.0
    by_speed[presses, 0, 0] = step[presses, 0]
    most, rho = law.mu * np.maximum(P[:, 0], 0.0), np.min(step[:, 1:], axis=1)
    q = P[:, 1:] - rho[:, None] * u[:, 1:]
    size = np.linalg.norm(q, axis=1)
    sticks = (size <= most) & (most > 0)
    F[sticks, 1:] = (rho[:, None] * u[:, 1:])[sticks]
    by_impulse[sticks, 1:, 1:] = 0.0
    by_speed[sticks, 1:, 1:] = rho[sticks, None, None] * np.eye(width - 1)
    slips = ~sticks & (most > 0)
    along = q[slips] / size[slips, None]
    F[slips, 1:] = P[slips, 1:] - most[slips, None] * along
    turns = most[slips] / size[slips]
    across = turns[:, None, None] * (np.eye(width - 1) - along[:, :, None] * along[:, None])
    by_impulse[slips, 1:, 1:] -= across
    by_impulse[slips, 1:, 0] = -law.mu[slips, None] * along
    by_speed[slips, 1:, 1:] = rho[slips, None, None] * across
    none = step >= _NO_AXIS  # an axis without friction, which has no impulse
    F[none], by_impulse[none], by_speed[none] = P[none], np.broadcast_to(np.eye(width), by_impulse.shape)[none], 0.0
    return F, by_impulse, by_speed

"""Newton's method for large smooth problems: one factorisation for as long as it contracts, and
damped steps where it fails. Compiled as a whole, or on the host, where linear systems may be those
of a library."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from shapes.shards import varying_like, when

from .newton import Solution

_WORTH = 7  # corrections that a Jacobian costs: with more to come, at the rate of the last, the factorisation is renewed
_OVERSHOOT = 2.0  # growth of max |F| that the first correction may bring: rows of slips that vanish, |w|, take one longer
_FAR_WITHIN = 0.03  # of the tolerance: what needs no further correction
_PATIENCE = 10  # factorisations before steps are damped
_GROWTH, _MEMORY, _LEAST_DAMPING, _FIRST_DAMPING = 10.0, 20, 1e-12, 1e-10  # as in `newton`


class Runner(NamedTuple):
    """How loops and choices run: `repeat(proceed, advance, start)` and `when(wanted, found,
    instead)`, as `lax.while_loop` and `shards.when`; `shapes(function, z)`, arrays like its results
    or their shapes; and which arrays, those of NumPy or of JAX's `numpy`."""

    repeat: Callable
    when: Callable
    shapes: Callable
    numpy: ModuleType


def _repeat(proceed: Callable, advance: Callable, at):
    while proceed(at):
        at = advance(at)
    return at


COMPILED = Runner(lax.while_loop, when, jax.eval_shape, jnp)
ON_HOST = Runner(_repeat, lambda wanted, found, instead: found() if wanted else instead, lambda F, z: F(z), np)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Iterate:
    """`said`: what came with the last F; `start`, `F_start`: the best of the starts, once they are
    `chosen`; `damped`: whether kept factors were given up; `within`: whether z was within the
    tolerance before its last correction."""

    z: jax.Array
    F: jax.Array
    said: Any
    start: jax.Array
    F_start: jax.Array
    chosen: jax.Array
    factors: Any
    damped: jax.Array
    within: jax.Array
    recent: jax.Array
    damping: jax.Array
    jacobians: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Chord:
    """Corrections with one Jacobian: the next goes to z + dz and is taken if max |F| is below
    `bound` there; of those tried how many were taken. While a start is chosen, a trial is a start,
    and taken if it is the best so far."""

    z: jax.Array
    F: jax.Array
    said: Any
    dz: jax.Array
    bound: jax.Array
    tried: jax.Array
    taken: jax.Array
    within: jax.Array
    going: jax.Array


@dataclasses.dataclass(frozen=True)
class _Problem:
    """The arguments of `kept_newton`."""

    residual: Callable
    linearize: Callable
    starts: jax.Array
    tolerance: float
    max_iterations: int
    runner: Runner

    def proceed(self, iterate: _Iterate):
        """Whether () there is more to do."""
        return ~iterate.chosen | (~iterate.within & (iterate.jacobians < self.max_iterations))

    def advance(self, iterate: _Iterate) -> _Iterate:
        """The choice of a start, or corrections with one Jacobian, new where none is of use."""
        choosing, damped, run, xp = ~iterate.chosen, iterate.damped, self.runner, self.runner.numpy
        renew = iterate.chosen & (damped | ~iterate.factors.valid)

        def renewed():
            system = self.linearize(iterate.z)
            dz = run.when(damped, lambda: system.damped_step(iterate.F, iterate.damping), xp.zeros_like(iterate.z))
            return run.when(~damped, system.factorised, iterate.factors), dz  # damped steps have no use for factors

        factors, dz = run.when(renew, renewed, (iterate.factors, xp.zeros_like(iterate.z)))
        dz = xp.where(damped, dz, -factors.solve(iterate.F))
        zero, no = xp.zeros((), int), xp.asarray(False)
        bound = xp.where(renew, _GROWTH * xp.max(iterate.recent), _OVERSHOOT * _largest(xp, iterate.F))
        start = _Chord(iterate.z, iterate.F, iterate.said, dz, bound, zero, zero, no, ~no)
        correct = functools.partial(self.correct, choosing, damped, factors)
        chord = run.repeat(lambda chord: chord.going, correct, varying_like(start, iterate))
        accepted, jacobians = chord.taken > 0, iterate.jacobians + renew
        gives_up = ~damped & renew & ~chord.within & (~accepted | (jacobians >= _PATIENCE))
        lower, higher = xp.maximum(iterate.damping / 10, _LEAST_DAMPING), xp.maximum(iterate.damping * 10, _FIRST_DAMPING)
        size = _largest(xp, chord.F)
        recent = xp.where(choosing, xp.full(_MEMORY, size), xp.append(size, iterate.recent[:-1]))
        return _Iterate(
            z=xp.where(gives_up, iterate.start, chord.z),
            F=xp.where(gives_up, iterate.F_start, chord.F),
            said=chord.said,
            start=xp.where(choosing, chord.z, iterate.start),
            F_start=xp.where(choosing, chord.F, iterate.F_start),
            chosen=iterate.chosen | choosing,
            factors=dataclasses.replace(factors, valid=xp.where(choosing, factors.valid, chord.within)),
            damped=damped | gives_up,
            within=chord.within,
            recent=xp.where(accepted, recent, iterate.recent),
            damping=xp.where(damped, xp.where(accepted, lower, higher), iterate.damping),
            jacobians=jacobians,
        )

    def correct(self, choosing, damped, factors, chord: _Chord) -> _Chord:
        """One evaluation of F: at the next start, or after one more correction."""
        count, tolerance, xp = len(self.starts), self.tolerance, self.runner.numpy
        z = xp.where(choosing, self.starts[xp.minimum(chord.tried, count - 1)], chord.z + chord.dz)
        F, said = varying_like(self.residual(z), z)
        size, before = _largest(xp, F), _largest(xp, chord.F)
        better = (chord.tried == 0) | (size < before) | xp.isnan(before)
        taken = xp.where(choosing, better, (size < chord.bound) | (size <= tolerance))  # false for NaN
        within = ~choosing & (size <= tolerance) & ((before <= tolerance) | (size <= _FAR_WITHIN * tolerance))
        # that |F| falls to the tolerance at this rate, in as many corrections (but the first)
        quick = (size / tolerance) <= (before / size) ** _WORTH
        slow = (chord.tried > 0) & (size > tolerance) & ~quick
        # the last correction of what is within the tolerance made it worse: back to the one before
        back = ~choosing & ~taken & (before <= tolerance)
        return _Chord(
            z=xp.where(taken, z, chord.z),
            F=xp.where(taken, F, chord.F),
            said=said,
            dz=xp.where(back, 0.0, -factors.solve(F)),
            bound=size,
            tried=chord.tried + 1,
            taken=chord.taken + taken,
            within=within,
            going=xp.where(choosing, chord.tried < count - 1, (taken & ~within & ~slow & ~damped) | back),
        )


def kept_newton(
    residual: Callable,
    linearize: Callable,
    starts,
    factors,
    *,
    tolerance: float,
    max_iterations: int,
    runner: Runner = COMPILED,
) -> tuple[Solution, Any, Any]:
    """Solve F(z) = 0 for z (n,) from the best of `starts` (k, n), beginning with the `factors` of a
    similar problem; `residual(z)` gives F and a tree that is handed on, `linearize(z)` the Jacobian
    as a system with `damped_step(F, damping)` and `factorised()`, factors that say whether they are
    `valid` and `solve(F)`, see `static_condensation`; at most `max_iterations` are used. Returns
    the solution, its tree (that of another z if it did not converge), and the last factors. Never
    raises: see `Solution.converged`.

    Where corrections become too many, the factorisation is renewed; after `_PATIENCE` of them, or
    where |F| grows by more than non-monotone steps may, the damped steps of `newton` begin at the
    start. What is barely within the tolerance is corrected once more. Starts and corrections are
    evaluated in one place, as in `newton`.
    """
    problem = _Problem(residual, linearize, starts, tolerance, max_iterations, runner)
    xp = runner.numpy
    z, no, infinite = starts[0], xp.asarray(False), xp.full(_MEMORY, xp.inf)
    F, said = jax.tree.map(lambda a: xp.zeros(a.shape, a.dtype), runner.shapes(residual, z))
    damping = xp.asarray(_LEAST_DAMPING, float)
    start = _Iterate(z, F, said, z, F, no, factors, no, no, infinite, damping, xp.zeros((), int))
    end = runner.repeat(problem.proceed, problem.advance, varying_like(start, (starts, factors)))
    solution = Solution(end.z, _largest(xp, end.F), end.jacobians, _largest(xp, end.F) <= tolerance)
    return solution, end.said, dataclasses.replace(end.factors, valid=end.factors.valid & ~end.damped)


def _largest(xp: ModuleType, F):
    """`newton.largest`, of arrays of `xp`."""
    return xp.max(xp.abs(F), initial=0.0)

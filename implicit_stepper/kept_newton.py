"""Newton's method for large smooth problems: one factorisation for as long as it contracts, and damped steps where it
fails."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import jax.scipy.linalg
from jax import lax

from .linear import damped_step
from .newton import Solution

_CONTRACTION = 0.4  # by which max |F| must fall with kept factors, every time
_OVERSHOOT = 2.0  # but for the first time: rows of slips that vanish, |w|, take one correction longer
_PATIENCE = 10  # factorisations before steps are damped
_GROWTH, _MEMORY, _LEAST_DAMPING, _FIRST_DAMPING = 10.0, 20, 1e-12, 1e-10  # as in `newton`


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Factors:
    """LU factors (n, n) of a Jacobian with its rows in that `order` (n,), if they are `valid` ()."""

    lu: jax.Array
    order: jax.Array
    valid: jax.Array


def no_factors(n: int) -> Factors:
    """For want of any."""
    return Factors(jnp.zeros((n, n)), jnp.zeros(n, jnp.int32), jnp.asarray(False))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Iterate:
    """`damped`: whether kept factors were given up; `within`: whether z was within the tolerance before its last
    correction."""

    z: jax.Array
    F: jax.Array
    factors: Factors
    damped: jax.Array
    within: jax.Array
    recent: jax.Array
    damping: jax.Array
    jacobians: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Chord:
    """Corrections with one Jacobian: the next goes to z + dz and is taken if max |F| is below `bound` there; how many
    were."""

    z: jax.Array
    F: jax.Array
    dz: jax.Array
    bound: jax.Array
    taken: jax.Array
    within: jax.Array
    going: jax.Array


def kept_newton(
    residual: Callable, linearize: Callable, z0, F0, factors: Factors, *, tolerance: float, max_iterations: int
) -> tuple[Solution, Factors]:
    """Solve F(z) = 0 for z (n,) from z0 with F0 = F(z0), beginning with the `factors` of a similar problem; `linearize(z)`
    is the Jacobian (n, n), of which at most `max_iterations` are used. Also returns the last factors. Never raises: see
    `Solution.converged`.

    Where max |F| does not fall by `_CONTRACTION`, the factorisation is renewed; after `_PATIENCE` of them, or where |F|
    grows by more than non-monotone steps may, the damped steps of `newton` begin at z0. What is within the tolerance is
    corrected once more."""

    def proceed(iterate):
        return ~iterate.within & (iterate.jacobians < max_iterations)

    def advance(iterate):
        damped, renew = iterate.damped, iterate.damped | ~iterate.factors.valid

        def renewed():
            jacobian = linearize(iterate.z)
            lu, _, order = lax.linalg.lu(jacobian)
            dz = lax.cond(
                damped, lambda: damped_step(jacobian, iterate.F, iterate.damping), lambda: jnp.zeros_like(iterate.z)
            )
            return Factors(lu, order, jnp.asarray(True)), dz

        factors, dz = lax.cond(renew, renewed, lambda: (iterate.factors, jnp.zeros_like(iterate.z)))
        dz = jnp.where(damped, dz, -_solve(factors, iterate.F))

        def correct(chord):
            z = chord.z + chord.dz
            F = residual(z)
            size, before = _largest(F), _largest(chord.F)
            taken = (size < chord.bound) | (size <= tolerance)  # false for NaN
            within = (before <= tolerance) & (size <= tolerance)
            return _Chord(
                z=jnp.where(taken, z, chord.z),
                F=jnp.where(taken, F, chord.F),
                dz=-_solve(factors, F),
                bound=_CONTRACTION * size,
                taken=chord.taken + taken,
                within=within,
                going=taken & ~within & ~damped,
            )

        zero, no = jnp.zeros((), int), jnp.asarray(False)
        bound = jnp.where(renew, _GROWTH * jnp.max(iterate.recent), _OVERSHOOT * _largest(iterate.F))
        start = _Chord(iterate.z, iterate.F, dz, bound, zero, no, jnp.asarray(True))
        chord = lax.while_loop(lambda chord: chord.going, correct, start)
        accepted, jacobians = chord.taken > 0, iterate.jacobians + renew
        gives_up = ~damped & renew & ~chord.within & (~accepted | (jacobians >= _PATIENCE))
        lower, higher = jnp.maximum(iterate.damping / 10, _LEAST_DAMPING), jnp.maximum(iterate.damping * 10, _FIRST_DAMPING)
        return _Iterate(
            z=jnp.where(gives_up, z0, chord.z),
            F=jnp.where(gives_up, F0, chord.F),
            factors=dataclasses.replace(factors, valid=chord.within),
            damped=damped | gives_up,
            within=chord.within,
            recent=jnp.where(accepted, jnp.roll(iterate.recent, 1).at[0].set(_largest(chord.F)), iterate.recent),
            damping=jnp.where(damped, jnp.where(accepted, lower, higher), iterate.damping),
            jacobians=jacobians,
        )

    no, damping, recent = jnp.asarray(False), jnp.asarray(_LEAST_DAMPING, float), jnp.full(_MEMORY, _largest(F0))
    start = _Iterate(z0, F0, factors, no, no, recent, damping, jnp.zeros((), int))
    end = lax.while_loop(proceed, advance, start)
    solution = Solution(end.z, _largest(end.F), end.jacobians, _largest(end.F) <= tolerance)
    return solution, dataclasses.replace(end.factors, valid=end.factors.valid & ~end.damped)


def _solve(factors: Factors, right):
    """Solution (n,) of the factorised system. (SciPy's interface would find the order of rows anew every time.)"""
    lower = jax.scipy.linalg.solve_triangular(factors.lu, right[factors.order], lower=True, unit_diagonal=True)
    return jax.scipy.linalg.solve_triangular(factors.lu, lower)


def _largest(F):
    """max |F_i|, NaN if any is."""
    return jnp.max(jnp.abs(F), initial=0.0)

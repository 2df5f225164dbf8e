"""Newton's method for large smooth problems: one factorisation for as long as it contracts, and damped steps where it fails."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import jax.scipy.linalg
from jax import lax

from .linear import damped_step
from .newton import Solution

_CONTRACTION = 0.2  # by which max |F| must fall with kept factors, every time
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
    """`factors` of a Jacobian, which are renewed unless they are valid; `damped`: whether the kept ones were given up; `within`: whether `z` was
    within the tolerance before its last correction; `bound`: what max |F| must stay below."""

    z: jax.Array
    F: jax.Array
    factors: Factors
    damped: jax.Array
    within: jax.Array
    bound: jax.Array
    recent: jax.Array
    damping: jax.Array
    jacobians: jax.Array


def kept_newton(
    residual: Callable, linearize: Callable, z0, F0, factors: Factors, *, tolerance: float, max_iterations: int
) -> tuple[Solution, Factors]:
    """Solve F(z) = 0 for z (n,) from z0 with F0 = F(z0), beginning with the `factors` of a similar problem; `linearize(z)` is the
    Jacobian (n, n), of which at most `max_iterations` are used. Also returns the last factors. Never raises: see
    `Solution.converged`.

    Where max |F| does not fall like `_CONTRACTION`^k, the factorisation is renewed; after `_PATIENCE` of them, or where |F| grows by
    more than non-monotone steps may, the damped steps of `newton` begin at z0. What is within the tolerance is corrected once more.
    """

    def proceed(iterate):
        return ~iterate.within & (iterate.jacobians < max_iterations)

    def advance(iterate):
        renew = iterate.damped | ~iterate.factors.valid

        def renewed():
            jacobian = linearize(iterate.z)
            dz = lax.cond(
                iterate.damped,
                lambda: damped_step(jacobian, iterate.F, iterate.damping),
                lambda: jnp.zeros_like(iterate.z),
            )
            lu, _, order = lax.linalg.lu(jacobian)
            return Factors(lu, order, jnp.asarray(True)), dz

        factors, dz = lax.cond(renew, renewed, lambda: (iterate.factors, jnp.zeros_like(iterate.z)))
        dz = jnp.where(iterate.damped, dz, -_solve(factors, iterate.F))
        trial = iterate.z + dz
        F = residual(trial)
        size, before = _largest(F), _largest(iterate.F)
        within = (before <= tolerance) & (size <= tolerance)
        contracts = (size < iterate.bound) | (size <= tolerance)
        accepted = jnp.where(renew, size < _GROWTH * jnp.max(iterate.recent), contracts)  # false for NaN
        gives_up = ~iterate.damped & renew & (~accepted | (iterate.jacobians >= _PATIENCE))
        z, F = jnp.where(accepted, trial, iterate.z), jnp.where(accepted, F, iterate.F)
        damping = jnp.where(
            accepted, jnp.maximum(iterate.damping / 10, _LEAST_DAMPING), jnp.maximum(iterate.damping * 10, _FIRST_DAMPING)
        )
        recent = jnp.where(accepted, jnp.roll(iterate.recent, 1).at[0].set(size), iterate.recent)
        return _Iterate(
            z=jnp.where(gives_up, z0, z),
            F=jnp.where(gives_up, F0, F),
            factors=dataclasses.replace(factors, valid=contracts),
            damped=iterate.damped | gives_up,
            within=within,
            bound=jnp.where(contracts & ~renew, _CONTRACTION * iterate.bound, _OVERSHOOT * jnp.where(accepted, size, before)),
            recent=recent,
            damping=jnp.where(iterate.damped, damping, iterate.damping),
            jacobians=iterate.jacobians + renew,
        )

    no, damping = jnp.asarray(False), jnp.asarray(_LEAST_DAMPING, float)
    size = _largest(F0)
    start = _Iterate(z0, F0, factors, no, no, _OVERSHOOT * size, jnp.full(_MEMORY, size), damping, jnp.zeros((), int))
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

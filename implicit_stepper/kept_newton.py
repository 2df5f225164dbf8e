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

_CONTRACTION = 0.3  # by which max |F| must fall with a kept factorisation
_GROWTH, _MEMORY, _LEAST_DAMPING, _FIRST_DAMPING = 10.0, 20, 1e-12, 1e-10  # as in `newton`


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Iterate:
    """`factors` of a Jacobian, if they are `kept`; `damped`: whether the kept ones were given up; `within`: whether `z` was
    within the tolerance before its last correction."""

    z: jax.Array
    F: jax.Array
    factors: tuple[jax.Array, jax.Array]
    kept: jax.Array
    damped: jax.Array
    within: jax.Array
    recent: jax.Array
    damping: jax.Array
    jacobians: jax.Array


def kept_newton(residual: Callable, linearize: Callable, z0, F0, *, tolerance: float, max_iterations: int) -> Solution:
    """Solve F(z) = 0 for z (n,) from z0 with F0 = F(z0); `linearize(z)` is the Jacobian (n, n), of which at most
    `max_iterations` are used. Never raises: see `Solution.converged`.

    Where max |F| does not fall by `_CONTRACTION`, the factorisation is renewed; where it does not with a new one either, the
    damped steps of `newton` begin at z0. What is within the tolerance is corrected once more.
    """

    def proceed(iterate):
        return ~iterate.within & (iterate.jacobians < max_iterations)

    def advance(iterate):
        renew = iterate.damped | ~iterate.kept

        def renewed():
            jacobian = linearize(iterate.z)
            dz = lax.cond(
                iterate.damped,
                lambda: damped_step(jacobian, iterate.F, iterate.damping),
                lambda: jnp.zeros_like(iterate.z),
            )
            return jax.scipy.linalg.lu_factor(jacobian), dz

        factors, dz = lax.cond(renew, renewed, lambda: (iterate.factors, jnp.zeros_like(iterate.z)))
        dz = jnp.where(iterate.damped, dz, -jax.scipy.linalg.lu_solve(factors, iterate.F))
        trial = iterate.z + dz
        F = residual(trial)
        size, before = _largest(F), _largest(iterate.F)
        within = (before <= tolerance) & (size <= tolerance)
        contracts = (size < _CONTRACTION * before) | (size <= tolerance)
        accepted = jnp.where(iterate.damped, size < _GROWTH * jnp.max(iterate.recent), contracts)
        gives_up = ~iterate.damped & ~contracts & renew
        z, F = jnp.where(accepted, trial, iterate.z), jnp.where(accepted, F, iterate.F)
        damping = jnp.where(
            accepted, jnp.maximum(iterate.damping / 10, _LEAST_DAMPING), jnp.maximum(iterate.damping * 10, _FIRST_DAMPING)
        )
        recent = jnp.where(accepted & iterate.damped, jnp.roll(iterate.recent, 1).at[0].set(size), iterate.recent)
        return _Iterate(
            z=jnp.where(gives_up, z0, z),
            F=jnp.where(gives_up, F0, F),
            factors=factors,
            kept=contracts,
            damped=iterate.damped | gives_up,
            within=within,
            recent=recent,
            damping=jnp.where(iterate.damped, damping, iterate.damping),
            jacobians=iterate.jacobians + renew,
        )

    n, size, no = z0.size, _largest(F0), jnp.asarray(False)
    factors = (jnp.zeros((n, n)), jnp.zeros(n, jnp.int32))
    damping = jnp.asarray(_LEAST_DAMPING, float)
    start = _Iterate(z0, F0, factors, no, no, no, jnp.full(_MEMORY, size), damping, jnp.zeros((), int))
    end = lax.while_loop(proceed, advance, start)
    return Solution(end.z, _largest(end.F), end.jacobians, _largest(end.F) <= tolerance)


def _largest(F):
    """max |F_i|, NaN if any is."""
    return jnp.max(jnp.abs(F), initial=0.0)

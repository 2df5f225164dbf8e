"""Semismooth Newton with non-monotone Levenberg-Marquardt acceptance, and a front end for any mixed complementarity problem.

Crossing a kink (stick to slip, an impact) has to raise |F| for a few iterations, so a step is taken whenever |F| stays
below `_GROWTH` times the largest of the last `_MEMORY` values; a monotone line search loses such steps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from .complementarity import fischer_burmeister
from .linear import damped_step

_GROWTH = 10.0
_MEMORY = 20
_PATIENCE = 15  # iterations without a new least |F| after which only descent is taken: free steps may cycle for ever
_LEAST_DAMPING = 1e-12  # relative to a dimensionless, well-scaled Jacobian
_FIRST_DAMPING = 1e-10  # after the first refused step


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Solution:
    """z (n,); residual (), the largest |F_i|; iterations (), Jacobians used; converged (), residual <= tolerance."""

    z: jax.Array
    residual: jax.Array
    iterations: jax.Array
    converged: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Iterate:
    z: jax.Array
    F: jax.Array
    recent: jax.Array
    least: jax.Array
    stale: jax.Array
    damping: jax.Array
    iterations: jax.Array


def newton(residual: Callable, linearize: Callable, z0, *, tolerance: float = 1e-10, max_iterations: int = 30) -> Solution:
    """Solve F(z) = 0 for z (n,), dimensionless, from z0.

    `residual(z)` is F (n,); `linearize(z)` gives its Jacobian for `linear.damped_step`. `tolerance` bounds max |F_i|;
    1e-8 to 1e-12 is sane, round-off of a well-scaled problem is near 1e-15. Never raises: see `Solution.converged`.
    """

    def proceed(iterate):
        # Even a start within the tolerance takes one step: what it still lacks would add up over thousands of time-steps.
        unsolved = (_largest(iterate.F) > tolerance) | (iterate.iterations == 0)
        return unsolved & (iterate.iterations < max_iterations)

    def advance(iterate):
        trial = iterate.z + damped_step(linearize(iterate.z), iterate.F, iterate.damping)
        F = residual(trial)
        size = _largest(F)
        free = size < _GROWTH * jnp.max(iterate.recent)  # false for NaN
        descends = jnp.dot(F, F) < jnp.dot(iterate.F, iterate.F)
        accepted = jnp.where(iterate.stale < _PATIENCE, free, descends)
        return _Iterate(
            z=jnp.where(accepted, trial, iterate.z),
            F=jnp.where(accepted, F, iterate.F),
            recent=jnp.where(accepted, jnp.roll(iterate.recent, 1).at[0].set(size), iterate.recent),
            least=jnp.minimum(iterate.least, jnp.where(accepted, size, jnp.inf)),
            stale=jnp.where(accepted & (size < iterate.least), 0, iterate.stale + 1),
            damping=jnp.where(
                accepted,
                jnp.maximum(iterate.damping / 10, _LEAST_DAMPING),
                jnp.maximum(iterate.damping * 10, _FIRST_DAMPING),
            ),
            iterations=iterate.iterations + 1,
        )

    F0 = residual(z0)
    zero, size = jnp.zeros((), int), _largest(F0)
    start = _Iterate(z0, F0, jnp.full(_MEMORY, size), size, zero, jnp.asarray(_LEAST_DAMPING, float), zero)
    end = lax.while_loop(proceed, advance, start)
    return Solution(end.z, _largest(end.F), end.iterations, _largest(end.F) <= tolerance)


def solve_ncp(
    function: Callable, z0, complementary, *, tolerance: float = 1e-10, max_iterations: int = 100, kappa: float = 0.0
) -> Solution:
    """Solve a mixed nonlinear complementarity problem, Chakraborty's Definition 2.

    function: z (n,) to F(z) (n,), in JAX; `complementary` (n,) is true where 0 <= z_i _|_ F_i(z) >= 0 and false where
    z_i is free and F_i(z) = 0. `kappa` smooths the complementarity to z_i F_i = kappa^2. The answer must be checked:
    `Solution.converged` is false when no root was reached.
    """
    z0 = jnp.asarray(z0, dtype=float)
    complementary = jnp.asarray(complementary)
    if complementary.shape != z0.shape or complementary.dtype != bool:
        raise ValueError(f"`complementary` = {complementary} must be booleans of shape {z0.shape}.")

    def residual(z):
        F = function(z)
        return jnp.where(complementary, fischer_burmeister(z, F, kappa), F)

    return newton(residual, jax.jacfwd(residual), z0, tolerance=tolerance, max_iterations=max_iterations)


def _largest(F):
    """max |F_i|, NaN if any is."""
    return jnp.max(jnp.abs(F), initial=0.0)

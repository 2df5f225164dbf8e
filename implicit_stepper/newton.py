"""Semismooth Newton with non-monotone Levenberg-Marquardt acceptance, and a front end for any mixed complementarity problem.

Crossing a kink (stick to slip, an impact) has to raise |F| for a few iterations, so a step is taken whenever |F| stays
below `_GROWTH` times the largest of the last `_MEMORY` values; a monotone line search loses such steps.

Where one problem follows another of the same kind, chord iterations come first: they take the inverse that the last one
left instead of a Jacobian, and give way to Newton's method from the same start as soon as they slow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from .complementarity import fischer_burmeister
from .linear import damped_inverse, damped_step

_GROWTH = 10.0
_MEMORY = 20
_PATIENCE = 15  # iterations without a new least |F| after which only descent is taken: free steps may cycle for ever
_LEAST_DAMPING = 1e-12  # relative to a dimensionless, well-scaled Jacobian
_FIRST_DAMPING = 1e-10  # after the first refused step
_KEPT_DAMPING = 1e-8  # of a kept inverse: directions that J hardly sees are left alone, for they will have turned
_CONTRACTION = 0.3  # chord iterations that reduce |F| by less cost more than a Jacobian
_OVERSHOOT = 10.0  # times the bound of chord iterations: the first ones shift |F| from row to row
_QUICK = 8  # chord iterations; after more the inverse is renewed


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Solution:
    """z (n,); residual (), the largest |F_i|; iterations (), Jacobians used; converged (), residual <= tolerance; inverse
    (n, n), the one to keep for the next problem of the same kind, None unless one was asked for."""

    z: jax.Array
    residual: jax.Array
    iterations: jax.Array
    converged: jax.Array
    inverse: jax.Array | None = None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Iterate:
    z: jax.Array
    F: jax.Array
    jacobian: jax.Array | None
    recent: jax.Array
    least: jax.Array
    stale: jax.Array
    damping: jax.Array
    iterations: jax.Array


def newton(
    residual: Callable,
    linearize: Callable,
    z0,
    *,
    tolerance: float = 1e-10,
    max_iterations: int = 30,
    kept=None,
    F0=None,
) -> Solution:
    """Solve F(z) = 0 for z (n,), dimensionless, from z0.

    `residual(z)` is F (n,); `linearize(z)` gives its Jacobian for `linear.damped_step`. `tolerance` bounds max |F_i|;
    1e-8 to 1e-12 is sane, round-off of a well-scaled problem is near 1e-15. `F0` (n,) is F(z0) where it is known already.
    With `kept` (n, n), the `Solution.inverse` of a similar problem or zeros for want of one, chord iterations are tried
    first. Never raises: see `Solution.converged`.
    """
    F0 = residual(z0) if F0 is None else F0
    if kept is None:
        end = _damped_newton(residual, linearize, z0, F0, tolerance, max_iterations, keep=False)
        return Solution(end.z, _largest(end.F), end.iterations, _largest(end.F) <= tolerance)
    z, F, solved, count = chord(residual, z0, F0, kept, tolerance)
    z, F, keep = jnp.where(solved, z, z0), jnp.where(solved, F, F0), solved & (count <= _QUICK)
    end = _damped_newton(residual, linearize, z, F, tolerance, jnp.where(keep, 0, max_iterations), keep=True)
    inverse = lax.cond(keep, lambda: kept, lambda: damped_inverse(end.jacobian, _KEPT_DAMPING))
    return Solution(end.z, _largest(end.F), end.iterations, _largest(end.F) <= tolerance, inverse)


def chord(residual: Callable, z, F, inverse, tolerance):
    """z (n,) <- z - `inverse` F(z), from z with F = F(z) (n,), while max |F_i| shrinks like `_CONTRACTION`^k.

    Returns the last z, its F, whether max |F_i| <= `tolerance` there and already before, because what the first z within the
    tolerance lacks would add up over thousands of time-steps; and the number of iterations. An `inverse` of zeros is none.
    """

    def advance(carry):
        z, F, bound, _, _, count = carry
        z = z - inverse @ F
        within = _largest(F) <= tolerance
        F = residual(z)
        size = _largest(F)
        solved = within & (size <= tolerance)
        going = ~solved & (size < jnp.maximum(bound, tolerance))  # false for NaN, and for infinity under an infinite bound
        return z, F, bound * _CONTRACTION, solved, going, count + 1

    first = _OVERSHOOT * _CONTRACTION * _largest(F)
    start = (z, F, first, jnp.asarray(False), jnp.any(inverse != 0), jnp.zeros((), int))
    z, F, _, solved, _, count = lax.while_loop(lambda carry: carry[4], advance, start)
    return z, F, solved, count


def _damped_newton(residual, linearize, z0, F0, tolerance, max_iterations, keep: bool) -> _Iterate:
    """Levenberg-Marquardt iterations; `keep` has the last Jacobian in the result."""

    def proceed(iterate):
        # Even a start within the tolerance takes one step: what it still lacks would add up over thousands of time-steps.
        unsolved = (_largest(iterate.F) > tolerance) | (iterate.iterations == 0)
        return unsolved & (iterate.iterations < max_iterations)

    def advance(iterate):
        jacobian = linearize(iterate.z)
        trial = iterate.z + damped_step(jacobian, iterate.F, iterate.damping)
        F = residual(trial)
        size = _largest(F)
        free = size < _GROWTH * jnp.max(iterate.recent)  # false for NaN
        descends = jnp.dot(F, F) < jnp.dot(iterate.F, iterate.F)
        accepted = jnp.where(iterate.stale < _PATIENCE, free, descends)
        return _Iterate(
            z=jnp.where(accepted, trial, iterate.z),
            F=jnp.where(accepted, F, iterate.F),
            jacobian=jacobian if keep else None,
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

    zero, size = jnp.zeros((), int), _largest(F0)
    jacobian = jnp.zeros((z0.size, z0.size)) if keep else None
    damping = jnp.asarray(_LEAST_DAMPING, float)
    start = _Iterate(z0, F0, jacobian, jnp.full(_MEMORY, size), size, zero, damping, zero)
    return lax.while_loop(proceed, advance, start)


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

"""Semismooth Newton with non-monotone Levenberg-Marquardt acceptance, and a front end for any mixed
complementarity problem.

Crossing a kink (stick to slip, an impact) has to raise |F| for a few iterations, so a step is taken
whenever |F| stays below `_GROWTH` times the largest of the last `_MEMORY` values, or `_FREE`
times the tolerance; a monotone line search loses such steps.

Where one problem follows another of the same kind, chord iterations come first (`chord`). The loop
evaluates its function in one place, because every further place is compiled again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from shapes.errors import ArgumentError
from shapes.shards import varying_like, when

from ..runtime.precision import double_precision
from ..runtime.threads import one_blas_thread
from .complementarity import fischer_burmeister
from .linear import Dense

_GROWTH = 10.0
# times the tolerance, 1e-4 at most: what is free anyway, as beside a kink rounding alone decides on
# which side of it a start is
_FREE = 1e3
_MEMORY = 20
# iterations without a new least |F| after which only descent is taken: free steps may cycle for
# ever
_PATIENCE = 15
LEAST_DAMPING = 1e-12  # relative to a dimensionless, well-scaled Jacobian
_FIRST_DAMPING = 1e-10  # after the first refused step
_NEAR = 1e-4  # max |F_i| from which the Jacobian serves at the root that its step leads to
_STALLS = 5  # iterations near a root, within which |F| that is not halved stalls
_SAME = 1e-3  # of |F|: iterates that agree so well with every other one before them go to and fro


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Solution:
    """z (n,); residual (), the largest |F_i|; iterations (), Newton steps tried; converged (),
    residual <= tolerance; kept, what solves linear systems of the next problem of the same kind,
    None unless it was asked for."""

    z: jax.Array
    residual: jax.Array
    iterations: jax.Array
    converged: jax.Array
    kept: Any = None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Iterate:
    """`iterations` is -1 until z0 itself is evaluated."""

    z: jax.Array
    F: jax.Array
    jacobian: Any
    recent: jax.Array
    least: jax.Array
    stale: jax.Array
    damping: jax.Array
    iterations: jax.Array


def linearized(residual: Callable) -> Callable:
    """The function z -> (F, dF/dz), in forward mode."""

    def twice(z):
        F = residual(z)
        return F, F

    def both(z):
        jacobian, F = jax.jacfwd(twice, has_aux=True)(z)
        return F, jacobian

    return both


def newton(
    linearize: Callable, z0, *, tolerance: float = 1e-10, max_iterations: int = 30, damping: float = LEAST_DAMPING
) -> Solution:
    """Solve F(z) = 0 for z (n,), dimensionless, from z0; `linearize(z)` gives F (n,) and its
    Jacobian (n, n).

    `tolerance` bounds max |F_i|; 1e-8 to 1e-12 is sane, round-off of a well-scaled problem is near
    1e-15. `damping` is the least one: singular values below its square root are hardly followed.
    Never raises: see `Solution.converged`.
    """
    none = Dense(jnp.zeros((z0.size, z0.size)))
    end = damped_newton(dense(linearize), z0, none, tolerance, max_iterations, damping)
    return Solution(end.z, largest(end.F), end.iterations, largest(end.F) <= tolerance)


def dense(linearize: Callable) -> Callable:
    """`linearize` with its Jacobian (n, n) as a linear system, which is the last one where F is not
    accepted."""

    def both(z, last, accepts, _):
        F, jacobian = linearize(z)
        return F, Dense(jnp.where(accepts(F), jacobian, last.matrix))

    return both


def damped_newton(linearize: Callable, z0, jacobian, tolerance, max_iterations, least_damping) -> _Iterate:
    """Levenberg-Marquardt iterations; `jacobian` is the last one, of another problem or of none.
    `linearize(z, last, accepts, enough)`: see `chord.newton_again`."""

    def proceed(iterate):
        # Even a start within the tolerance takes one step: what it still lacks would add up over
        # thousands of time-steps.
        unsolved = ~(largest(iterate.F) <= tolerance) | (iterate.iterations <= 0)
        return unsolved & (iterate.iterations < max_iterations)

    def advance(iterate):
        first = iterate.iterations < 0
        near = largest(iterate.F) <= _NEAR  # before the first, F is infinite
        stalls = near & (iterate.iterations >= _STALLS) & (iterate.recent[_STALLS - 1] <= 2 * largest(iterate.F))
        damping = jnp.where(stalls, iterate.jacobian.slight * iterate.damping, iterate.damping)
        step = when(~first, lambda: iterate.jacobian.step(iterate.F, damping), jnp.zeros_like(z0))
        trial = iterate.z + jnp.exp2(-_returns(iterate.recent, iterate.iterations)) * step
        bound = jnp.maximum(_GROWTH * jnp.max(iterate.recent), jnp.minimum(_FREE * tolerance, _NEAR))

        def accepts(F):
            free = largest(F) < bound  # false for NaN
            descends = jnp.dot(F, F) < jnp.dot(iterate.F, iterate.F)
            return first | (free & (descends | (iterate.stale < _PATIENCE)))

        F, jacobian = linearize(trial, iterate.jacobian, accepts, jnp.where(near, tolerance, -1.0))
        size, accepted = largest(F), accepts(F)
        recent = jnp.where(first, jnp.full(_MEMORY, size), jnp.append(size, iterate.recent[:-1]))
        damping = jnp.where(
            accepted,
            jnp.maximum(iterate.damping / 10, least_damping),
            jnp.maximum(iterate.damping * 10, _FIRST_DAMPING),
        )
        return _Iterate(
            z=jnp.where(accepted, trial, iterate.z),
            F=jnp.where(accepted, F, iterate.F),
            jacobian=jacobian,
            recent=jnp.where(accepted, recent, iterate.recent),
            least=jnp.minimum(iterate.least, jnp.where(accepted, size, jnp.inf)),
            stale=jnp.where(accepted & (size < iterate.least), 0, iterate.stale + 1),
            damping=damping,
            iterations=iterate.iterations + 1,
        )

    infinite, zero = jnp.asarray(jnp.inf), jnp.zeros((), int)
    start = _Iterate(
        z=z0,
        F=jnp.full_like(z0, jnp.inf),
        jacobian=jacobian,
        recent=jnp.full(_MEMORY, infinite),
        least=infinite,
        stale=zero,
        damping=jnp.asarray(least_damping, float),
        iterations=zero - 1,
    )
    return lax.while_loop(proceed, advance, varying_like(start, z0))


def _returns(recent, iterations):
    """How often () of the last `iterations` () the iterate was where it is again, with |F| as in
    `recent`, the latest first, from another that is worse: what lies near it, on the way to that,
    may be beyond its kink."""
    others = 2 * np.arange(1, _MEMORY // 2)
    same = (jnp.abs(recent[others] - recent[0]) <= _SAME * recent[0]) & (others <= iterations)
    return jnp.where(recent[0] < recent[1] / 2, jnp.sum(same), 0)


@one_blas_thread()
def solve_ncp(
    function: Callable, z0, complementary, *, tolerance: float = 1e-10, max_iterations: int = 100, kappa: float = 0.0
) -> Solution:
    """Solve a mixed nonlinear complementarity problem, Chakraborty's Definition 2.

    function: z (n,) to F(z) (n,), in JAX; `complementary` (n,) is true where 0 <= z_i _|_ F_i(z) >=
    0 and false where z_i is free and F_i(z) = 0. `kappa` smooths the complementarity to z_i F_i =
    kappa^2. The answer must be checked: `Solution.converged` is false when no root was reached.
    """
    double_precision()
    z0 = jnp.asarray(z0, dtype=float)
    complementary = jnp.asarray(complementary)
    if complementary.shape != z0.shape or complementary.dtype != bool:
        raise ArgumentError(f"`complementary` = {complementary} must be booleans of shape {z0.shape}.")

    def residual(z):
        F = function(z)
        return jnp.where(complementary, fischer_burmeister(z, F, kappa), F)

    solution = newton(linearized(residual), z0, tolerance=tolerance, max_iterations=max_iterations)
    return jax.block_until_ready(solution)


def largest(F):
    """max |F_i|, NaN if any is."""
    return jnp.max(jnp.abs(F), initial=0.0)

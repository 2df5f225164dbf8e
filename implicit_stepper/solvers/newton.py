"""Semismooth Newton with non-monotone Levenberg-Marquardt acceptance, and a front end for any mixed
complementarity problem.

Crossing a kink (stick to slip, an impact) has to raise |F| for a few iterations, so a step is taken
whenever |F| stays below `_GROWTH` times the largest of the last `_MEMORY` values; a monotone line
search loses such steps.

Where one problem follows another of the same kind (`newton_again`), chord iterations come first:
they take the inverse that the last one left instead of a Jacobian, and give way to Newton's method
from the same start as soon as they slow. Each of the two loops evaluates its function in one place,
because every further place is compiled again.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from shapes.errors import ArgumentError
from shapes.shards import varying_like, when

from ..runtime.precision import double_precision
from ..runtime.threads import one_blas_thread
from .complementarity import fischer_burmeister
from .linear import Dense

_GROWTH = 10.0
_MEMORY = 20
# iterations without a new least |F| after which only descent is taken: free steps may cycle for
# ever
_PATIENCE = 15
LEAST_DAMPING = 1e-12  # relative to a dimensionless, well-scaled Jacobian
_FIRST_DAMPING = 1e-10  # after the first refused step
_OVERSHOOT = 10.0  # times the bound of chord iterations: the first ones shift |F| from row to row
_SPARE = 0.1  # of the tolerance: no last iteration need gain more
_NEAR = 1e-4  # max |F_i| from which the Jacobian serves at the root that its step leads to


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


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Chord:
    """Where chord iterations are: the `start` for what comes after them, and the `size` of F there;
    the last z and F, whether they are `solved`, `quick` enough to keep what solved linear systems,
    `going` on, or `over`; the `bound` on the next max |F_i|; `count` of evaluations so far."""

    start: jax.Array
    size: jax.Array
    z: jax.Array
    F: jax.Array
    solved: jax.Array
    quick: jax.Array
    going: jax.Array
    over: jax.Array
    bound: jax.Array
    count: jax.Array


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
    end = _damped_newton(dense(linearize), z0, none, tolerance, max_iterations, damping)
    return Solution(end.z, largest(end.F), end.iterations, largest(end.F) <= tolerance)


def dense(linearize: Callable) -> Callable:
    """`linearize` with its Jacobian (n, n) as a linear system, of which the last one is of no
    use."""

    def both(z, *_):
        F, jacobian = linearize(z)
        return F, Dense(jacobian)

    return both


def newton_again(
    residual: Callable,
    linearize: Callable,
    z0,
    kept,
    *,
    tolerance: float = 1e-10,
    max_iterations: int = 30,
    damping: float = LEAST_DAMPING,
) -> Solution:
    """`newton` from z0 (n,), after chord iterations with the `Solution.kept` of a problem like it.

    `residual(z)` is F alone; `linearize(z, last, enough)` gives F and the Jacobian as a linear
    system, which may be the `last` one where max |F_i| <= `enough`: `linear.Dense` or
    `blocks.Blocks`, with `step(F, damping)`, about -J^-1 F, and `keep()`, which has `solve(F)`,
    tells whether it is `valid`, and has `system()`, the `last` one to begin with. Chord iterations
    that reduce |F| by less than `kept.contraction` each cost more than a Jacobian, and after more
    than `kept.quick` of them there is a new one."""
    tried = chord(residual, z0, kept, tolerance)
    return renewed(linearize, tried, kept, tolerance=tolerance, max_iterations=max_iterations, damping=damping)


def renewed(linearize: Callable, tried: Chord, kept, *, tolerance, max_iterations, damping) -> Solution:
    """What chord iterations with what is `kept` have `tried` if they were quick, else the end of
    Newton's method: from where they ended if they solved, and from their start if not."""

    def once(at):
        # under `vmap` all lanes run: those that keep their inverse do not ask for iterations
        most = jnp.where(tried.quick, -1, max_iterations)
        start = jnp.where(tried.solved, tried.z, tried.start)
        end = _damped_newton(linearize, start, at[1].kept.system(), tolerance, most, damping)
        found = Solution(end.z, largest(end.F), end.iterations, largest(end.F) <= tolerance, end.jacobian.keep())
        return jnp.asarray(False), found

    # a loop of one trip at most leaves what is kept where it is, of which a choice makes a copy
    start = varying_like((~tried.quick, as_it_is(tried, kept)), (tried, kept))
    return lax.while_loop(lambda at: at[0], lambda at: varying_like(once(at), start), start)[1]


def as_it_is(tried: Chord, kept) -> Solution:
    """The solution of chord iterations that were quick."""
    return Solution(tried.z, largest(tried.F), jnp.zeros((), int), jnp.asarray(True), kept)


def untried(z) -> Chord:
    """No chord iterations: Newton's method is to begin at z (n,)."""
    no, zero = jnp.asarray(False), jnp.zeros(())
    return Chord(z, zero, z, z, no, no, no, no, zero, jnp.zeros((), int))


def chord(residual: Callable, z0, kept, tolerance, other=None, F0=None) -> Chord:
    """z (n,) <- z - `kept`.solve(F(z)) from z0 (n,), where F is `F0` (n,) if that is known, while
    max |F_i| shrinks like `kept.contraction`^k. Where that does not solve, the start of what
    follows is the `other` one if F is less there.

    Solved is what was within the `tolerance` already before the last iteration, because what the
    first z within it lacks would add up over thousands of time-steps. For the same reason the last
    iteration must gain, as long as they are quick: from a near start even a stale inverse gets
    there. What an iteration changes by no more than `kept.unseen` of it, as it is where redundant
    forces are shared, need not gain.
    """

    def advance(at: Chord) -> Chord:
        first = at.count == 0
        z = when(~first & ~at.over, lambda: at.z - kept.solve(at.F), at.z)
        return judged(at, z, residual(z))

    def judged(at: Chord, z, F) -> Chord:
        first = at.count == 0
        size, before, quick = largest(F), largest(at.F), at.count <= kept.quick
        gains = size <= jnp.maximum(kept.contraction * before, _SPARE * tolerance)
        gains = gains | (jnp.abs(size - before) <= kept.unseen * before)
        solved = ~first & ~at.over & (before <= tolerance) & (size <= tolerance) & (gains | ~quick)
        # false for NaN, and for infinity under an infinite bound
        shrinks = size < jnp.maximum(at.bound, tolerance)
        going = jnp.where(first, kept.valid, ~solved & shrinks) & ~at.over
        best = first | (at.over & ((size < at.size) | jnp.isnan(at.size)))
        start, least = jnp.where(best, z, at.start), jnp.where(best, size, at.size)
        bound = jnp.where(first, _OVERSHOOT * size, at.bound) * kept.contraction
        over = ~going & ~solved & ~at.over
        if other is not None:
            z, going = jnp.where(over, other, z), going | over
        return Chord(start, least, z, F, solved, solved & quick, going, over, bound, at.count + 1)

    at = dataclasses.replace(untried(z0), going=jnp.asarray(True))
    at = at if F0 is None else judged(at, z0, F0)
    return lax.while_loop(lambda at: at.going, advance, varying_like(at, z0))


def _damped_newton(linearize: Callable, z0, jacobian, tolerance, max_iterations, least_damping) -> _Iterate:
    """Levenberg-Marquardt iterations; `jacobian` is the last one, of another problem or of none."""

    def proceed(iterate):
        # Even a start within the tolerance takes one step: what it still lacks would add up over
        # thousands of time-steps.
        unsolved = ~(largest(iterate.F) <= tolerance) | (iterate.iterations <= 0)
        return unsolved & (iterate.iterations < max_iterations)

    def advance(iterate):
        first = iterate.iterations < 0
        step = when(~first, lambda: iterate.jacobian.step(iterate.F, iterate.damping), jnp.zeros_like(z0))
        trial = iterate.z + step
        near = largest(iterate.F) <= _NEAR  # before the first, F is infinite
        F, jacobian = linearize(trial, iterate.jacobian, jnp.where(near, tolerance, -1.0))
        size = largest(F)
        free = size < _GROWTH * jnp.max(iterate.recent)  # false for NaN
        descends = jnp.dot(F, F) < jnp.dot(iterate.F, iterate.F)
        accepted = first | jnp.where(iterate.stale < _PATIENCE, free, descends)
        recent = jnp.where(first, jnp.full(_MEMORY, size), jnp.roll(iterate.recent, 1).at[0].set(size))
        damping = jnp.where(
            accepted,
            jnp.maximum(iterate.damping / 10, least_damping),
            jnp.maximum(iterate.damping * 10, _FIRST_DAMPING),
        )
        return _Iterate(
            z=jnp.where(accepted, trial, iterate.z),
            F=jnp.where(accepted, F, iterate.F),
            jacobian=jax.tree.map(functools.partial(jnp.where, accepted), jacobian, iterate.jacobian),
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

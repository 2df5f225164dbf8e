"""Newton's method where one problem follows another of the same kind: chord iterations come first,
with the inverse that the last one left in the place of a Jacobian, and give way as soon as they
slow.

Unknowns on which no other row depends may be found apart from the rest (`Apart`). The loop
evaluates its function in one place, because every further place is compiled again.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from shapes.shards import varying_like, when

from .newton import LEAST_DAMPING, Solution, damped_newton, largest

_OVERSHOOT = 10.0  # times the bound of chord iterations: the first ones shift |F| from row to row
_SPARE = 0.1  # of the tolerance: no last iteration need gain more
# evaluations beside what is found apart, and by how much each is to reduce |F|
_MOST_APART, _SHRINKS = 24, 0.5


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

    `residual(z)` is F alone; `linearize(z, last, accepts, enough)` gives F and the Jacobian as a
    linear system, which is the `last` one where `accepts(F)` says that z is refused, and may be it
    where max |F_i| <= `enough`: `linear.Dense` or `blocks.Blocks`, with `step(F, damping)`, about
    -J^-1 F, and `keep()`, which has `solve(F)`, tells whether it is `valid`, and has `system()`,
    the `last` one to begin with; `slight` is the part of the damping that is left where Newton's
    method stalls. Chord iterations that reduce |F| by less than `kept.contraction` each cost more
    than a Jacobian, and after more than `kept.quick` of them there is a new one."""
    tried = chord(residual, z0, kept, tolerance)
    return renewed(linearize, tried, kept, tolerance=tolerance, max_iterations=max_iterations, damping=damping)


def renewed(linearize: Callable, tried: Chord, kept, *, tolerance, max_iterations, damping) -> Solution:
    """What chord iterations with what is `kept` have `tried` if they were quick, else the end of
    Newton's method: from where they ended if they solved, and from their start if not."""

    def once(at):
        # under `vmap` all lanes run: those that keep their inverse do not ask for iterations
        most = jnp.where(tried.quick, -1, max_iterations)
        start = jnp.where(tried.solved, tried.z, tried.start)
        end = damped_newton(linearize, start, at[1].kept.system(), tolerance, most, damping)
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


@dataclasses.dataclass(frozen=True)
class Apart:
    """Unknowns (n,) and their rows, where `own`, on which no other row depends. They begin at
    `start` (n,); `solve(z, F)` gives z with those that the others lead to, and `follow(z, F)` z and
    F with those that a row of their own says at once."""

    own: jax.Array
    start: jax.Array
    solve: Callable
    follow: Callable


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Rest:
    """Iterations for the rest, without what is found apart: `count` of evaluations, max |F_i| of
    it, `size`, and whether they are `going` on, or it is `solved`."""

    count: jax.Array
    size: jax.Array
    going: jax.Array
    solved: jax.Array


def chord(residual: Callable, z0, kept, tolerance, other=None, F0=None, apart: Apart | None = None) -> Chord:
    """z (n,) <- z - `kept`.solve(F(z)) from z0 (n,), where F is `F0` (n,) if that is known, while
    max |F_i| shrinks like `kept.contraction`^k. Where that does not solve, the start of what
    follows is the `other` one if F is less there, and what is found `apart` does without the
    others.

    Solved is what was within the `tolerance` already before the last iteration, because what the
    first z within it lacks would add up over thousands of time-steps. For the same reason the last
    iteration must gain, as long as they are quick: from a near start even a stale inverse gets
    there. What an iteration changes by no more than `kept.unseen` of it, as it is where redundant
    forces are shared, need not gain. Corrections of what is within the tolerance may shake |F| to
    `kept.shaken` of it, times an overshoot; where they lead further, the end is the least of
    what was within the tolerance, the start or after it, as another Jacobian would lead as far.
    """

    judged = functools.partial(_judged, kept, tolerance, other)

    def advance(both: tuple[Chord, _Rest]) -> tuple[Chord, _Rest]:
        at, rest = both
        stays = (at.count == 0) | at.over
        if apart is None:
            z = when(~stays, lambda: at.z - kept.solve(at.F), at.z)
            return judged(at, z, residual(z)), rest
        left_out, stays = rest.going & apart.own, jnp.where(rest.going, rest.count == 0, stays)
        ways = [
            lambda: at.z - jnp.where(left_out, 0.0, kept.solve(jnp.where(left_out, 0.0, at.F))),
            lambda: at.z,
            lambda: apart.solve(at.z, at.F),
        ]
        z = lax.switch(jnp.where(stays, 1, jnp.where(rest.solved, 2, 0)), ways)
        F = residual(z)
        without, every = _without(kept, apart.own, tolerance, at, rest, *apart.follow(z, F)), begun(judged(at, z, F))
        return jax.tree.map(lambda own, all_: jnp.where(rest.going, own, all_), without, every)

    def begun(at: Chord) -> tuple[Chord, _Rest]:
        going = kept.valid & ~at.going & ~at.solved
        at = dataclasses.replace(at, z=jnp.where(going, apart.start, at.z))
        return at, dataclasses.replace(none, going=going)

    no = jnp.asarray(False)
    none = _Rest(jnp.zeros((), int), jnp.asarray(jnp.inf), no, no)
    at = dataclasses.replace(untried(z0), going=jnp.asarray(True))
    at = at if F0 is None else judged(at, z0, F0)
    begin = varying_like((at, none), z0)
    return lax.while_loop(lambda both: both[0].going | both[1].going, advance, begin)[0]


def _judged(kept, tolerance, other, at: Chord, z, F) -> Chord:
    """After a chord iteration that led from `at` to z (n,) and F there."""
    first = at.count == 0
    size, before, quick = largest(F), largest(at.F), at.count <= kept.quick
    gains = size <= jnp.maximum(kept.contraction * before, _SPARE * tolerance)
    gains = gains | (jnp.abs(size - before) <= kept.unseen * before)
    solved = ~first & ~at.over & (before <= tolerance) & (size <= tolerance) & (gains | ~quick)
    # false for NaN, and for infinity under an infinite bound
    shrinks = size < jnp.maximum(at.bound, tolerance)
    going = jnp.where(first, kept.valid, ~solved & shrinks) & ~at.over
    settles = (kept.shaken > 0) & (size <= tolerance)
    best = first | ((at.over | settles) & ((size < at.size) | jnp.isnan(at.size)))
    start, least = jnp.where(best, z, at.start), jnp.where(best, size, at.size)
    near = (kept.shaken > 0) & kept.valid & (least <= tolerance)
    bound = jnp.where(first, _OVERSHOOT * jnp.maximum(size, kept.shaken * tolerance), at.bound) * kept.contraction
    over, stays = ~going & ~solved & ~at.over, at.over & near
    if other is not None:
        z, going = jnp.where(over, other, z), going | over
    z, going = jnp.where(over & near, start, z), going | (over & near)
    return Chord(start, least, z, F, solved | stays, (solved & quick) | stays, going, over, bound, at.count + 1)


def _without(kept, own, tolerance, at: Chord, rest: _Rest, z, F) -> tuple[Chord, _Rest]:
    """The same of an iteration without the rows that are their `own` (n,)."""
    size, every, found = largest(jnp.where(own, 0.0, F)), largest(F), rest.solved
    going = ~found & (size <= jnp.maximum(_SHRINKS * rest.size, tolerance)) & (rest.count < _MOST_APART)
    solved, better, quick = found & (every <= tolerance), found & (every < at.size), rest.count <= kept.quick
    start, least = jnp.where(better, z, at.start), jnp.where(better, every, at.size)
    at = dataclasses.replace(at, start=start, size=least, z=z, F=F, solved=solved, quick=solved & quick, count=at.count + 1)
    return at, _Rest(rest.count + 1, size, going, (rest.size <= tolerance) & (size <= tolerance))

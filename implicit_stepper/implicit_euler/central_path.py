"""The central path: from a smoothed problem, in which nothing has to be chosen, to the step's own.

With kappa > 0 every pair of a constraint has a product instead of a choice, and friction acts as a
damper does:

    a b = kappa^2,      sigma = sqrt(|w|^2 + kappa^2),      y sigma = -mu p_n w

(`conditions.rows`). Its solution moves continuously with kappa, to one of the step at kappa = 0,
whichever contacts that closes and whichever of them slide: many that meet at once need no other
start. Closest points are part of it, so that those of parallel faces are not undecided on the way.
What interior-point methods do for convex programs; here the problem is not convex, and the path may
fold.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from shapes.shards import varying_like

from ..solvers.implicit_function import root
from ..solvers.newton import Solution, newton
from . import ncp

STARTS = (1.0, 3.0, 0.3)  # kappa where a path begins: none serves always
NEAR = 1e-2  # where one begins near the step
# Where redundant friction holds, one contact or joint must slip by what the others disagree by,
# 1e-7 and less: which one, only paths that end below tell.
_END = 1e-10
# of kappa from one solution to the next; powers of it
_FACTOR, _LEAST, _FASTER, _SLOWER = 0.3, 0.02, 1.5, 0.4
_QUICK = 6  # iterations
# points not found, iterations: paths that arrive take 20 to 100, some 300
_REFUSALS, _BUDGET = 8, 400
_POINTS = 12  # on the path to a smoothed step


def seeded(problem: ncp.StepProblem, unknowns, kappa: float | None):
    """The start (N,), dimensionless, of a path: the `unknowns` (N,), in physical units, with normal
    impulses of `kappa`, or as they are where that is None."""
    where, z = ncp.layout(problem.system), unknowns / ncp.unknown_scale(problem)
    if kappa is None:
        return z
    for group, index in zip(problem.system.groups, where.unknowns, strict=False):
        z = z.at[index[:, group.pair.unknowns]].set(kappa)
    return z


def end_of_path(solve: Callable[..., Solution], z, kappa: float):
    """The last z (N,) that `solve(z, kappa)` reaches of the path that begins at `kappa`, None if
    not even its beginning."""
    factor, reached, refusals, iterations = _FACTOR, None, 0, 0
    while True:
        found = solve(z, kappa)
        iterations += found.iterations
        if found.converged:
            z, reached = found.z, kappa
            if kappa <= _END or iterations > _BUDGET:
                return z
            if found.iterations <= _QUICK:
                factor = max(factor**_FASTER, _LEAST)
        else:
            refusals += 1
            if reached is None or refusals > _REFUSALS or iterations > _BUDGET:
                return None if reached is None else z
            factor = factor**_SLOWER
        kappa = factor * reached


class _At(NamedTuple):
    """The last `solution` on a path, and the number of the next one."""

    solution: Solution
    number: jax.Array


def point(problem: ncp.StepProblem, last, allowed, max_iterations: int) -> Solution:
    """The point of the path at the `kappa` of the problem, within the tolerance `allowed` (), with
    its derivatives (`implicit_function.root`): from the `last` root (N,), in physical units, or
    along the path from 1. A pure program."""
    fixed, start = lax.stop_gradient((problem, last / ncp.unknown_scale(problem)))
    beginning = seeded(fixed, lax.stop_gradient(last), 1.0)

    def advance(at: _At) -> _At:
        along = jnp.maximum(at.number - 1, 0) / (_POINTS - 1)
        kappa = jnp.where(at.number == 0, fixed.kappa, fixed.kappa**along)
        z = jnp.where(at.number == 0, start, jnp.where(at.number == 1, beginning, at.solution.z))
        linearize = functools.partial(ncp.linearize, dataclasses.replace(fixed, kappa=kappa))
        bound = jnp.where(kappa == fixed.kappa, allowed, tolerance(kappa))
        found = newton(linearize, z, tolerance=bound, max_iterations=max_iterations)
        return _At(dataclasses.replace(found, iterations=at.solution.iterations + found.iterations), at.number + 1)

    zero, no = jnp.zeros((), int), jnp.asarray(False)
    begun = varying_like(_At(Solution(start, jnp.zeros(()), zero, no), zero), (problem, last))
    end = lax.while_loop(lambda at: ~(at.solution.converged & (at.number == 1)) & (at.number <= _POINTS), advance, begun)
    return dataclasses.replace(end.solution, z=root(ncp.residual, ncp.linearize, problem, end.solution.z))


def damping(kappa):
    """The least one of Newton's method on the path: dampers of redundant friction have singular
    values of kappa, which a larger one does not follow."""
    return (1e-3 * kappa) ** 2


def tolerance(kappa):
    """Of a solution on the path: a hundredth of what the next one changes."""
    return jnp.maximum(1e-2 * kappa, 1e-12)

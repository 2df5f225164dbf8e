"""Static friction in steps of first order: what stuck has the coefficient mu_s until it slips, and
then mu until it sticks.

A contact or joint whose slip is nil at the beginning of a step has mu_s in it. Where it slips in
the solution with mu_s, mu_s cannot hold it: it breaks away, and the step is solved again with mu.
As ever fewer hold on, this ends.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from shapes.shards import varying_like

from ..constraints.static_friction import NO_SLIP, with_mu_s
from ..model.system import take
from ..solvers.newton import Solution
from . import ncp


def slips_at(problem: ncp.StepProblem, z) -> tuple:
    """Per group of constraints, sigma (n,) [m/s] of a root z (N,), and None where it is not asked
    for."""
    where = ncp.layout(problem.system)
    return tuple(
        None if group.mu_s is None else problem.scales.speed * abs(take(z, index)[:, -1])
        for group, index in zip(problem.system.constraints, where.unknowns, strict=True)
    )


def held(problem: ncp.StepProblem, holds: tuple) -> ncp.StepProblem:
    """The problem with mu_s for those contacts and joints that hold, per group (n,) or None."""
    return dataclasses.replace(problem, system=with_mu_s(problem.system, holds))


def solved(
    problem: ncp.StepProblem, slips: tuple, tolerance, solve: Callable[[ncp.StepProblem], Solution]
) -> tuple[ncp.StepProblem, Solution]:
    """What `solve` finds for the `problem`, without derivatives, with the coefficients of the step,
    which are in the problem returned; `slips` per group (n,) [m/s], those at the beginning, and
    `tolerance` () that of the solver. It has converged if every solution did that said what breaks
    away."""
    fixed, slips = lax.stop_gradient((problem, slips))
    least = (NO_SLIP + 10 * (tolerance + ncp.round_off(fixed))) * fixed.scales.speed
    begun = jax.tree.map(lambda own: own <= least, slips)

    solve = jax.jit(solve)  # so that it is traced once for its shapes and the loop

    def attempt(carry):
        holds, found, _ = carry
        own = held(fixed, holds)
        new = solve(own)
        new = dataclasses.replace(
            new, iterations=found.iterations + new.iterations, converged=found.converged & new.converged
        )
        left = jax.tree.map(lambda on, slip: on & (slip <= least), holds, slips_at(own, new.z))
        broken = functools.reduce(jnp.logical_or, [jnp.any(a != b) for a, b in _pairs(holds, left)])
        # the last solution is that of the coefficients that it is told with
        return jax.tree.map(lambda a, b: jnp.where(new.converged, b, a), holds, left), new, broken & new.converged

    shapes = jax.eval_shape(solve, held(fixed, begun))
    nothing = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)
    nothing = dataclasses.replace(nothing, converged=jnp.asarray(True))
    start = varying_like((begun, nothing, jnp.asarray(True)), (fixed, slips))
    holds, found, _ = lax.while_loop(lambda carry: carry[2], attempt, start)
    return held(problem, holds), found


def _pairs(one, other):
    return zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)

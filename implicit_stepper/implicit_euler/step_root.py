"""The root of a step's NCP: from the warm start, on request from cuts and tilted cuts where that
fails, and with the root's derivatives.

All of it is one pure program, for steps within the programs of others; `fallback` has more starts,
but runs on the host.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from shapes.shards import varying_like, when

from ..model.system import take
from ..solvers.chord import Chord, as_it_is, chord, renewed, untried
from ..solvers.implicit_function import root, without_noise
from ..solvers.newton import Solution
from . import breaking_away, initial_guess, ncp
from .cutting_planes import Cuts, cut_start, tilted
from .points_apart import points_apart

_FORCE = 1e-10  # p_n in its unit, which the tolerance of solvers does not tell from 0
_SLIPS = 1e-10  # sigma in its unit, which is none
_SLIGHT = 1e-30  # a coefficient of friction that changes no digit


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Search:
    """After `number` of starts: the last solution, all its iterations, and the cuts so far."""

    solution: Solution
    iterations: jax.Array
    number: jax.Array
    cuts: Cuts


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Limits:
    """Of Newton's method from one start: `max_iterations` () Jacobians, and its least `damping`
    ()."""

    max_iterations: jax.Array | int
    damping: jax.Array | float


def solved(
    stepper, problem: ncp.StepProblem, memory, without: Callable[[], Cuts], rounds: int = 0, limits: Limits | None = None
) -> tuple[ncp.StepProblem, Solution]:
    """The root from the continuation of `memory`, and if that fails from up to `rounds` starts
    with cuts, which begin as `without`, and as many with tilted ones; and the problem that it is
    of, with the coefficients of friction of what sticks. The `limits` are the stepper's, unless
    they are given. It has derivatives by all data of the `problem` (`implicit_function.root`);
    `memory` is a constant."""
    known = lax.stop_gradient(memory)

    def solve(fixed):
        # with limits of their own, steps begin where nothing is kept
        tried = continued(stepper, fixed, known, apart=limits is None)
        return after(stepper, fixed, known, without, rounds, tried, limits)

    if memory.slips is None:
        found = solve(lax.stop_gradient(problem))
    else:
        problem, found = breaking_away.solved(problem, known.slips, stepper.tolerance, solve)
    return problem, dataclasses.replace(found, z=derived(problem, found.z))


def derived(problem: ncp.StepProblem, z):
    """The root z (N,) of a `problem` with its derivatives by all data of this."""
    return root(_residual, _linearize, problem, z)


def _residual(problem: ncp.StepProblem, z):
    return ncp.residual(_derived(problem, z), _exact(problem, z))


def _linearize(problem: ncp.StepProblem, z):
    return ncp.linearize(_derived(problem, z), _exact(problem, z))


def _derived(problem: ncp.StepProblem, z):
    """The problem of which derivatives are taken, with the same root. What slips without friction
    has next to none, as the row of a disc that is a point says nothing of the friction that there
    would be with a coefficient above 0; nor do those of the other form, where the disc is small."""
    where, found = ncp.layout(problem.system), []
    for group, index in zip(problem.system.constraints, where.unknowns, strict=True):
        if group.mu is not None:
            bare = (group.mu == 0) & (take(z, index[:, -1]) > _SLIPS)
            group = dataclasses.replace(group, mu=jnp.where(bare, group.mu + _SLIGHT, group.mu))
        found.append(group)
    count = len(problem.system.groups)
    system = dataclasses.replace(problem.system, groups=tuple(found[:count]), joints=tuple(found[count:]))
    return dataclasses.replace(problem, friction="projection", system=system)


def _exact(problem: ncp.StepProblem, z):
    """A root (N,) in which contacts that do not press have no impulse."""
    where, noise = ncp.layout(problem.system), jnp.zeros(z.shape, bool)
    for group, index in zip(problem.system.groups, where.unknowns, strict=False):
        impulses = index[:, group.pair.unknowns : group.width - 1]
        none = take(z, impulses[:, :1]) <= _FORCE
        noise = noise.at[impulses].set(jnp.broadcast_to(none, np.shape(impulses)))
    return without_noise(z, noise)


def continued(stepper, problem: ncp.StepProblem, memory, apart: bool = True) -> Chord:
    """Chord iterations from the continuation of `memory`, without derivatives, at last with points
    that are found `apart`; what they do not solve begins there or at the last root."""
    tolerance, history = _tolerance(stepper, problem), memory.history / ncp.unknown_scale(problem)
    start = initial_guess.extrapolated(history, tolerance)
    start, F = initial_guess.determined(problem, start, history[0], memory.kept, tolerance)
    points = points_apart(problem, start, history[0], tolerance) if apart else None
    return chord(functools.partial(ncp.residual, problem), start, memory.kept, tolerance, history[0], F, points)


def after(
    stepper,
    fixed: ncp.StepProblem,
    known,
    without: Callable[[], Cuts],
    rounds: int,
    tried: Chord,
    limits: Limits | None = None,
) -> Solution:
    """The root of a `fixed` problem, without derivatives, that chord iterations have `tried`."""
    limits = Limits(stepper.max_iterations, stepper.damping) if limits is None else limits

    def newton(tried: Chord, kept) -> Solution:
        return renewed(
            functools.partial(ncp.system_of, fixed),
            tried,
            kept,
            tolerance=_tolerance(stepper, fixed),
            max_iterations=limits.max_iterations,
            damping=limits.damping,
        )

    rounds = rounds if fixed.system.groups else 0
    return _search(stepper, fixed, known, newton, tried, without, rounds) if rounds else newton(tried, known.kept)


def _tolerance(stepper, problem: ncp.StepProblem):
    return stepper.tolerance + ncp.round_off(problem)


def _search(stepper, problem: ncp.StepProblem, memory, newton, tried: Chord, without, rounds: int) -> Solution:
    """The warm start, of which chord iterations were `tried`, then the others, in one loop, as
    Newton's method is compiled wherever it is called."""

    def another(cuts: Cuts):
        z, cuts = cut_start(problem, cuts, stepper.sweeps)
        return untried(z), jax.tree.map(jnp.zeros_like, memory.kept), cuts

    without = jax.jit(without)  # so that it is traced once for its shapes and the loop
    still = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(without))
    turns = [tilted(still, 1.0, number).velocity for number in range(rounds)]
    turns = jnp.stack([still.velocity, *turns]) / problem.h

    def attempt(at: _Search) -> _Search:
        cuts = when((at.number == 1) | (at.number == rounds + 1), without, at.cuts)
        cuts = dataclasses.replace(cuts, velocity=cuts.velocity + turns[jnp.maximum(at.number - rounds, 0)])
        warm = tried, memory.kept, cuts
        begin, kept, cuts = when(at.number > 0, lambda: another(cuts), warm)
        solution = newton(begin, kept)
        return _Search(solution, at.iterations + solution.iterations, at.number + 1, cuts)

    zero = jnp.zeros((), int)
    none = jax.tree.map(jnp.zeros_like, as_it_is(tried, memory.kept))
    begun = varying_like(_Search(none, zero, zero, still), (problem, memory))
    end = lax.while_loop(lambda at: ~at.solution.converged & (at.number <= 2 * rounds), attempt, begun)
    return dataclasses.replace(end.solution, iterations=end.iterations)

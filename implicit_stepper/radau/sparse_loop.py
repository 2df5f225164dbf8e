"""The loop of `event_loop` on the host, for scenes with many bodies: problem by problem, each with
sparse Jacobians.

What a problem is and what follows from it are the same compiled functions; Newton's method between
them is the same code (`solvers.chord_newton`), run step by step. Jacobians are put together from
their pieces (`sparse_jacobian`) and factorised by SuperLU.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from ..model.system import System
from ..runtime.compilation import jit
from ..solvers.chord_newton import ON_HOST, kept_newton
from ..solvers.newton import Solution
from ..solvers.sparse_condensation import SparseCondensed, SparseFactors
from ..stepping.loop import CHUNK
from . import event_loop, sparse_jacobian, stage_step, stage_unknowns
from .radau_contact import RadauContact
from .slots import Slots
from .stage_step import UNIQUE, Equations, Posed
from .way import Counts, Limits, Point, Reason, Way

_LARGE = 600  # unknowns of all stages, but for closest points, from which sparse systems take less time
_NO_FACTORS = SparseFactors(None, np.False_)
_under_way = jit(event_loop.under_way)


def suits(stepper: RadauContact, system: System, slots: Slots) -> bool:
    """Whether steps with these `slots` are solved here."""
    counts = [*map(len, slots), *(len(g.bodies) for g in system.constraints[len(slots) :])]
    own = sum(n * (stage_unknowns.width(g) - g.determined) for n, g in zip(counts, system.constraints, strict=True))
    return stepper.stages * (np.prod(stage_unknowns.rates_shape(system)) + own) >= _LARGE


def way_from(stepper: RadauContact, system: System, point: Point, none: Slots = ()) -> Way:
    """As `event_loop.way_from`."""
    return dataclasses.replace(event_loop.way_from(stepper, system, point, none), factors=_NO_FACTORS)


def advance(stepper: RadauContact, system: System, way: Way, limits: Limits):
    """As `event_loop.advance`, with as many `Taken` as there are steps; None if there is none."""
    taken, counts, paused = [], Counts(*[np.zeros((), int)] * 3), way.reason == Reason.PAUSED
    factors, way = way.factors if paused else _NO_FACTORS, _under_way(dataclasses.replace(way, factors=None), limits)
    while len(taken) < CHUNK and counts.solves < limits.solves and way.reason == Reason.PAUSED:
        problem, patience = posed(stepper, system, way, _unique(factors))
        same = all(map(np.array_equal, problem.chosen, way.slots))
        solution, factors = _solved(problem, dataclasses.replace(factors, valid=factors.valid & same), int(patience))
        after = concluded(stepper, system, limits, way, problem, solution, _unique(factors), counts)
        factors = dataclasses.replace(factors, valid=factors.valid & bool(after.keeps))
        way, counts = after.way, after.counts
        if after.accepts:
            taken.append(jax.tree.map(np.asarray, after.one))
    records = jax.tree.map(lambda *steps: np.stack(steps), *taken) if taken else None
    return dataclasses.replace(way, factors=factors), records, len(taken), counts


def programs(ahead: Callable, stepper: RadauContact, system: System, way: Way, limits: Limits):
    """What `advance` calls, for `compilation.prepare`; its `Taken`."""
    way, counts = dataclasses.replace(way, factors=None), Counts(*[np.zeros((), int)] * 3)
    way = ahead(_under_way, way, limits)
    problem, _ = ahead(posed, stepper, system, way, np.asarray(False))
    z = jax.eval_shape(lambda starts: starts[0], problem.starts)
    ahead(residual, problem.equations, z)
    ahead(pieces, problem.equations, z)
    solution = Solution(z, *jax.eval_shape(lambda: (jnp.zeros(()), jnp.zeros((), int), jnp.asarray(False))))
    after = ahead(concluded, stepper, system, limits, way, problem, solution, np.asarray(False), counts)
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct((CHUNK, *a.shape), a.dtype), after.one)


@functools.partial(jit, static_argnums=0)
def posed(stepper: RadauContact, system: System, way: Way, unique) -> tuple[Posed, jax.Array]:
    """The problem that comes next on a `way`, and how many Jacobians it may have."""
    task = event_loop.task_of(stepper, system, way.point, way.plan)
    return stage_step.posed(stepper, system, way.point.state, way.point.memory, task, unique, way.slots), task.patience


@jit
def residual(equations: Equations, z):
    """F (s n + 1,) at z."""
    return equations.residual(z)[0]


@jit
def pieces(equations: Equations, z) -> sparse_jacobian.Known:
    """What the Jacobian at z (s n + 1,) is put together from."""
    own = equations
    return sparse_jacobian.known_at(own.cut(own.problem, z), z[:-1], own.modes, own.held, own.h)


@functools.partial(jit, static_argnums=0)
def concluded(
    stepper: RadauContact,
    system: System,
    limits: Limits,
    way: Way,
    problem: Posed,
    solution: Solution,
    unique,
    counts: Counts,
) -> event_loop.Following:
    """What follows from the `solution` of the `problem` that came next."""
    task = event_loop.task_of(stepper, system, way.point, way.plan)
    _, said = problem.equations.residual(solution.z)
    tried = stage_step.ended(stepper, way.point.memory, task, problem, solution, said, unique)
    return event_loop.following(stepper, system, limits, way, tried, counts)


def _solved(problem: Posed, factors: SparseFactors, patience: int) -> tuple[Solution, SparseFactors]:
    equations = problem.equations
    constraints, event = equations.problem.system.constraints, int(equations.event)

    def F(z):
        return np.asarray(residual(equations, z)), ()

    def linearized(z) -> SparseCondensed:
        known = jax.tree.map(np.asarray, pieces(equations, z))
        found = sparse_jacobian.with_h(known, constraints, event)
        return found if equations.aside is None else found.with_rows_of_their_own(np.asarray(equations.aside.own))

    with np.errstate(all="ignore"):  # a start may be far off
        solution, _, factors = kept_newton(
            F,
            linearized,
            np.asarray(problem.starts),
            factors,
            tolerance=float(problem.tolerance),
            max_iterations=patience,
            runner=ON_HOST,
        )
    return solution, factors


def _unique(factors: SparseFactors) -> np.ndarray:
    return np.asarray(factors.least_pivot() > UNIQUE)

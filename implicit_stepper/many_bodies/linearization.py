"""The derivative of F for a step of many bodies, contact by contact, and corrections by it.

A contact that pushes nothing, and whose rows are small, keeps its derivative, on which no other row
depends. So does any whose rows a whole correction has left small: what a correction leaves is what
the derivative missed. Only the others are differentiated again.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from ..implicit_euler import ncp
from ..runtime.compilation import jit
from ..solvers import sparse
from ..solvers.elimination import Local
from ..solvers.newton import linearized
from . import equations
from .equations import PUSHES, cut
from .problem import Point, Problem, Rows, padded

# contacts that are differentiated and eliminated at once: more leave the processor's caches
_AT_ONCE = 128
# as in `implicit_euler.ncp.blocks`: of max |F_i|, of |F_i|, and of max |F_i| again
_LAGS, _ROUGHLY, _MOST = 0.01, 1e-10, 0.5


class Linear(NamedTuple):
    """The derivative of F: of bodies `nodes` (nb, w, w), and of contacts what is eliminated and
    what is left, form by form."""

    nodes: np.ndarray
    local: tuple[Local, ...]
    links: tuple[sparse.Left, ...]


class Factored(NamedTuple):
    """A derivative with its factors, None where they were not kept."""

    linear: Linear
    factors: sparse.Sparse | None


@jit
def _blocks(problem: ncp.StepProblem, V):
    return ncp.over_bodies(problem, linearized, V)[1]


def linear(
    problem: Problem, at: Point, F: Rows, give: float, last: Linear | None = None, missed: Rows | None = None
) -> Linear:
    """The derivative at a point with rows F, where forces `give` way. Contacts that push nothing
    may have that of the `last` point; so may all whose rows it foretold, if a whole correction by
    it led here: `missed` is what that left of the rows."""
    nodes = np.array(_blocks(problem.bare, at.V))
    everyone, least = problem.with_fixed(at.V), max(_LAGS * F.largest, min(_ROUGHLY, _MOST * F.largest))
    found = []
    for k, (slots, count, z, f) in enumerate(zip(problem.slots, problem.counts, at.contacts, F.contacts, strict=True)):
        due, kept = np.ones(count, bool), None
        if last is not None and slots.touching:
            pushes = np.max(np.abs(z[:, slots.closest : -1]), axis=1) > PUSHES
            due = pushes | ~(np.max(np.abs(f), axis=1) < least) | np.any(last.links[k].rows, axis=1)
            if missed is not None:
                due &= ~(np.max(np.abs(missed.contacts[k]), axis=1) < _LAGS * F.largest)
            kept = last.local[k], last.links[k].rest
        found.append(_renewed(problem, (slots, slots.moving(everyone), padded(z, slots)), due, give, kept))
    local, rest = zip(*found, strict=True) if found else ((), ())
    links = tuple(
        sparse.Left(slots.movers(count), own.rows, own.columns, own_rest)
        for slots, count, own, own_rest in zip(problem.slots, problem.counts, local, rest, strict=True)
    )
    return Linear(nodes + give * np.eye(nodes.shape[1]), local, links)


def _renewed(problem: Problem, arguments, due, give: float, kept):
    """What is eliminated, and what is left, in contacts of one form: those that are `due` (m,)
    anew, of the others what is `kept`."""
    numbers = np.flatnonzero(due)
    if not len(numbers):
        return kept
    if not arguments[0].touching:  # all joints of a group, as many in every step
        *_, local, rest = equations.eliminated(problem.friction, problem.step, *arguments, give)
        return jax.tree.map(np.asarray, (local, rest))
    fresh = []
    for start, stop, rows in cut(len(numbers), _AT_ONCE):
        own = numbers[np.minimum(np.arange(start, start + rows), stop - 1)]
        *_, local, rest = equations.eliminated(problem.friction, problem.step, *_taken(arguments, own), give)
        fresh.append((numbers[start:stop], (local, rest)))
    if len(numbers) < len(due):
        every = jax.tree.map(np.array, kept)
    else:
        every = jax.tree.map(lambda a: np.empty((len(due), *a.shape[1:]), a.dtype), fresh[0][1])
    for own, new in fresh:
        for into, values in zip(jax.tree.leaves(every), jax.tree.leaves(new), strict=True):
            into[own] = np.asarray(values)[: len(own)]
    return every


def _taken(arguments, numbers) -> tuple:
    """`arguments` of `equations.eliminated`, of the contacts with these numbers."""
    slots, *others = arguments
    return slots.some(numbers), *(np.asarray(a)[numbers] for a in others)


def correction(problem: Problem, local: tuple[Local, ...], factors: sparse.Sparse, F: Rows) -> Point:
    """-J^-1 F."""
    pushed = [np.einsum("mij,mj->mi", own.push, f) for own, f in zip(local, F.contacts, strict=True)]
    V, left = factors.solve(F.bodies, pushed)
    contacts = []
    for own, f, slots, values in zip(local, F.contacts, problem.slots, left, strict=True):
        moves = V[slots.movers(len(f))].reshape(len(f), -1)
        follows = np.einsum("mij,mj->mi", own.follow, np.concatenate([values, moves], axis=1))
        contacts.append(follows - values - np.einsum("mij,mj->mi", own.alone, f))
    return Point(-V, tuple(contacts))

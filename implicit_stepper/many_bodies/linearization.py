"""The derivative of F for a step of many bodies, contact by contact, and corrections by it.

A contact whose rows are small where a correction has led behaved as its derivative said, and keeps
that derivative: only the others are differentiated again.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import numpy as np

from ..implicit_euler import ncp
from ..runtime.compilation import jit
from ..solvers import sparse
from ..solvers.elimination import Local
from ..solvers.newton import linearized
from . import equations
from .equations import Slots, cut
from .problem import Point, Problem, Rows, padded

# of max |F_i|: rows of a contact below which its derivative is kept
_LAGS = 0.003
# times as much as forces give way now: a derivative in which they give way more is not kept
_STIFFER = 30.0


class Linear(NamedTuple):
    """The derivative of F: of bodies `nodes` (nb, w, w), and of contacts what is eliminated and
    what is left, form by form; `gave` (m,), by how much forces give way in each."""

    nodes: np.ndarray
    local: tuple[Local, ...]
    links: tuple[sparse.Left, ...]
    gave: tuple[np.ndarray, ...]


@jit
def _blocks(problem: ncp.StepProblem, V):
    return ncp.over_bodies(problem, linearized, V)[1]


def linear(problem: Problem, at: Point, F: Rows, give: float, last: Linear | None = None) -> Linear:
    """The derivative at a point with rows F, where forces `give` way; of contacts whose rows are
    small that of the `last` point."""
    nodes = np.array(_blocks(problem.bare, at.V))
    everyone, least = problem.with_fixed(at.V), _LAGS * F.largest
    found = []
    for k, (slots, count, z, f) in enumerate(zip(problem.slots, problem.counts, at.contacts, F.contacts, strict=True)):
        due = np.ones(count, bool)
        if last is not None:
            due = ~(np.max(np.abs(f), axis=1) < least) | (last.gave[k] > _STIFFER * give)
        arguments = slots, slots.moving(everyone), padded(z, slots)
        kept = None if last is None else (last.local[k], last.links[k].rest, last.gave[k])
        found.append(_renewed(problem, arguments, count, due, give, kept))
    local, rest, gave = zip(*found, strict=True) if found else ((),) * 3
    links = tuple(
        sparse.Left(slots.movers(count), own.rows, own.columns, own_rest)
        for slots, count, own, own_rest in zip(problem.slots, problem.counts, local, rest, strict=True)
    )
    return Linear(nodes + give * np.eye(nodes.shape[1]), local, links, gave)


def _renewed(problem: Problem, arguments, count: int, due, give: float, kept):
    """What is eliminated, what is left and by how much forces give way in `count` contacts of one
    form: those that are `due` anew, of the others what is `kept`."""
    numbers = np.flatnonzero(due)
    if 2 * len(numbers) > count:
        *_, local, rest = equations.eliminated(problem.friction, problem.step, *arguments, give)
        return *jax.tree.map(lambda a: np.asarray(a)[:count], (local, rest)), np.full(count, give)
    if not len(numbers):
        return kept
    local, rest, gave = jax.tree.map(np.array, kept)
    for start, stop, rows in cut(len(numbers)):
        own = numbers[np.minimum(np.arange(start, start + rows), stop - 1)]
        *_, new, new_rest = equations.eliminated(problem.friction, problem.step, *_taken(arguments, own), give)
        own = own[: stop - start]
        for into, values in zip(jax.tree.leaves((local, rest)), jax.tree.leaves((new, new_rest)), strict=True):
            into[own] = np.asarray(values)[: len(own)]
        gave[own] = give
    return local, rest, gave


def _taken(arguments, numbers) -> tuple:
    """`arguments` of `equations.eliminated`, of the contacts with these numbers."""
    slots, *others = jax.tree.map(lambda a: np.asarray(a)[numbers], arguments)
    group = dataclasses.replace(slots.group, bodies=slots.group.bodies[:1] * len(numbers))
    return dataclasses.replace(slots, group=group), *others


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

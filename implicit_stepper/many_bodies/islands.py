"""Islands of a step: moving bodies that contacts connect. Those that stand are left as they are,
and those that are lost together are solved apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from .host_newton import Found
from .problem import Point, Problem, rows, slipping
from .step import Posed


@dataclasses.dataclass(frozen=True)
class Islands:
    """`count` islands; the number of that of each `body` (nb,) and, form by form, of each of
    `contacts` (m,); whether all contacts of an island are of `smooth` (count,) bodies."""

    count: int
    body: np.ndarray
    contacts: tuple[np.ndarray, ...]
    smooth: np.ndarray

    def moving(self, V) -> np.ndarray:
        """Whether any body of each island (count,) has a velocity, of V (nb, 6 or 3)."""
        return np.bincount(self.body, np.any(V, axis=1), self.count) > 0


def islands(problem: Problem) -> Islands | None:
    """The islands of a step without joints, or None where it has one island or joints. What does
    not move connects nothing; a body that touches no other moving one is an island."""
    bodies = len(problem.velocity)
    if problem.forms < len(problem.slots):
        return None
    sides = [slots.sides[:count] for slots, count in zip(problem.slots, problem.counts, strict=True)]
    first, second = np.concatenate([*sides, np.zeros((0, 2), int)]).T
    links = (first < bodies) & (second < bodies)
    graph = coo_array((np.ones(np.sum(links)), (first[links], second[links])), shape=(bodies, bodies))
    count, body = connected_components(graph, directed=False)
    if count < 2:
        return None
    # moving bodies have the lower numbers
    contacts, smooth = tuple(body[np.min(own, axis=1)] for own in sides), np.ones(count, bool)
    for slots, numbers in zip(problem.slots, contacts, strict=True):
        smooth[numbers] &= slots.smooth
    return Islands(count, body, contacts, smooth)


def residuals(problem: Problem, at: Point, of: Islands) -> tuple[Point, np.ndarray]:
    """A point with sigma as there, and max |F_i| (count,) of each island."""
    at, F = slipping(problem, at, rows(problem, at))
    found = np.zeros(of.count)
    for numbers, values in ((of.body, F.bodies), *zip(of.contacts, F.contacts, strict=True)):
        np.maximum.at(found, numbers, np.max(np.abs(values), axis=1, initial=0.0))
    return at, found


def without_others(whole: Posed, of: Islands, group, at: Point, pose: Callable, solve: Callable) -> tuple[Found, int, dict]:
    """The point `at` with the islands `group` (k,) solved without the others; and the rung and the
    residuals of the starts by name. `pose(pairs)` poses a step in which only these may touch, and
    `solve(posed)` says what was found."""
    own = [np.isin(numbers, group) for numbers in of.contacts]
    pairs = [pairs[mask] for pairs, mask in zip(whole.pairs, own, strict=True)]
    part = pose(np.concatenate([*pairs, np.zeros((0, 2), int)]))
    found, rung, told = solve(part)
    V, contacts = np.where(np.isin(of.body, group)[:, None], found.point.V, at.V), [np.array(z) for z in at.contacts]
    for form in set(part.forms):
        # in the same order as in the whole, but cut otherwise
        values = np.concatenate([z for name, z in zip(part.forms, found.point.contacts, strict=True) if name == form])
        for name, z, mask in zip(whole.forms, contacts, own, strict=True):
            if name == form:
                z[mask], values = values[: np.sum(mask)], values[np.sum(mask) :]
    return found._replace(point=Point(V, tuple(contacts)), kept=None), rung, told

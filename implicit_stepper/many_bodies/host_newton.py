"""Newton's method for a step of many bodies: contacts are evaluated form by form in compiled
programs, and one sparse system of bodies and of what presses is factorised on the host."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from ..constraints.kinematics import Motion
from ..implicit_euler import ncp
from ..runtime.compilation import jit
from ..solvers import sparse
from ..solvers.dissection import ordered
from ..solvers.newton import linearized
from . import equations
from .equations import Slots, Step

_GROWTH, _MEMORY, _PATIENCE = 10.0, 20, 15  # as in `solvers.newton`
# by what share of max |F| forces give way to speeds, and bodies to forces
_YIELD, _LEAST_GIVE = 1e-3, 1e-9
# corrections with one factorisation, while each reduces |F| by this factor
_CONTRACTION, _CHORDS = 0.3, 4


class Point(NamedTuple):
    """Dimensionless unknowns: velocities V (nb, 6 or 3) of moving bodies, and those of contacts (m,
    width), form by form."""

    V: np.ndarray
    contacts: tuple[np.ndarray, ...]


class Rows(NamedTuple):
    """F at a point: of the bodies' momenta (nb, 6 or 3), and of contacts (m, width), form by
    form."""

    bodies: np.ndarray
    contacts: tuple[np.ndarray, ...]

    @property
    def largest(self) -> float:
        """max |F_i|, NaN if any is."""
        return float(np.max([np.max(np.abs(part), initial=0.0) for part in (self.bodies, *self.contacts)]))

    @property
    def squared(self) -> float:
        """F.F"""
        return float(sum(np.sum(part**2) for part in (self.bodies, *self.contacts)))


class Found(NamedTuple):
    """The end of the iterations: `point`, the largest |F_i| there, how many Jacobians they took,
    whether they `converged`."""

    point: Point
    residual: float
    iterations: int
    converged: bool


@dataclasses.dataclass(frozen=True)
class Problem:
    """A step: the momentum balances are those of `bare`, a `StepProblem` without contacts; `slots`
    form by form, of which the first `counts` are contacts; the `motion` of all bodies at its start,
    moving ones first; units `velocity` (nb, 6 or 3)."""

    friction: str
    bare: ncp.StepProblem
    step: Step
    motion: Motion
    velocity: np.ndarray
    slots: tuple[Slots, ...]
    counts: tuple[int, ...]

    @property
    def places(self) -> np.ndarray:
        """Where moving bodies are (nb, d) [m] at the start of the step."""
        return self.motion.position[: len(self.velocity)]

    @property
    def fixed(self) -> int:
        """Number of bodies that do not move."""
        return len(self.motion.position) - len(self.velocity)


@jit
def _balances(problem: ncp.StepProblem, V):
    return ncp.over_bodies(problem, lambda f: f, V)


@jit
def _balances_and_blocks(problem: ncp.StepProblem, V):
    return ncp.over_bodies(problem, linearized, V)


def rows(problem: Problem, at: Point) -> Rows:
    """F at a point."""
    everyone = _with_fixed(problem, at.V)
    bodies = np.array(_balances(problem.bare, at.V))
    own = []
    for slots, count, z in zip(problem.slots, problem.counts, at.contacts, strict=True):
        found, pushes = equations.evaluated(problem.friction, problem.step, slots, slots.moving(everyone), _padded(z, slots))
        own.append(np.asarray(found)[:count])
        _push(bodies, slots, np.asarray(pushes)[:count], count)
    return Rows(bodies, tuple(own))


class Linear(NamedTuple):
    """F, and its derivative: of bodies (nb, w, w), and of contacts what is eliminated and what is
    left, form by form."""

    rows: Rows
    nodes: np.ndarray
    local: tuple
    links: tuple[sparse.Left, ...]


def linear(problem: Problem, at: Point, give=1e-9) -> Linear:
    """F and its derivative at a point."""
    everyone = _with_fixed(problem, at.V)
    bodies, nodes = (np.array(a) for a in _balances_and_blocks(problem.bare, at.V))
    own, local, links = [], [], []
    for slots, count, z in zip(problem.slots, problem.counts, at.contacts, strict=True):
        found, pushes, eliminated, rest = equations.eliminated(
            problem.friction, problem.step, slots, slots.moving(everyone), _padded(z, slots), give
        )
        own.append(np.asarray(found)[:count])
        _push(bodies, slots, np.asarray(pushes)[:count], count)
        local.append(eliminated)
        left = (np.asarray(a)[:count] for a in (eliminated.rows, eliminated.columns, rest))
        links.append(sparse.Left(_moving(slots, count), *left))
    return Linear(Rows(bodies, tuple(own)), nodes + give * np.eye(nodes.shape[1]), tuple(local), tuple(links))


def correction(problem: Problem, local, factors: sparse.Sparse, F: Rows) -> Point:
    """-J^-1 F."""
    pushed = [
        np.asarray(equations.pushed(own, _padded(f, slots)))[:count]
        for own, f, slots, count in zip(local, F.contacts, problem.slots, problem.counts, strict=True)
    ]
    V, left = factors.solve(F.bodies, pushed)
    contacts = []
    for own, f, slots, count, values in zip(local, F.contacts, problem.slots, problem.counts, left, strict=True):
        moves = V[_moving(slots, count)].reshape(count, -1)
        full = (_padded(a, slots) for a in (f, values, moves))
        contacts.append(-np.asarray(equations.followed(own, *full))[:count])
    return Point(-V, tuple(contacts))


def newton(problem: Problem, start: Point, tolerance: float, most: int) -> Found:
    """The root from `start`, with at most so many Jacobians. A point within the tolerance is
    corrected once more."""

    def give(F: Rows) -> float:
        return float(np.clip(_YIELD * F.largest, _LEAST_GIVE, 1.0))

    at, first = _slipping(problem, start, rows(problem, start))
    if not np.isfinite(first.largest):
        return Found(start, np.inf, 0, False)
    here = linear(problem, at, give(first))
    recent, stale, least, order = [here.rows.largest], 0, np.inf, None
    for iterations in range(1, most + 1):
        size = here.rows.largest
        edges = np.concatenate([np.zeros((0, 2), int), *(links.edges() for links in here.links)])
        order = ordered(problem.places, edges, order)
        factors = sparse.factorised(here.nodes, here.links, order.rank)
        if factors is None:
            break
        dz = correction(problem, here.local, factors, here.rows)
        trial, there = _moved(problem, at, dz)
        # one factorisation for as long as it contracts
        for _ in range(_CHORDS):
            if not there.largest < _CONTRACTION * size or (there.largest <= tolerance and size <= tolerance):
                break
            further, beyond = _moved(problem, trial, correction(problem, here.local, factors, there))
            if not beyond.largest < max(there.largest, tolerance):
                break
            size, trial, there = there.largest, further, beyond
        if there.largest <= tolerance:
            return Found(trial, there.largest, iterations, True)
        bound, share = _GROWTH * max(recent[-_MEMORY:]), 1.0
        if stale >= _PATIENCE:
            bound = here.rows.largest
        while not there.largest < bound and share > 1e-2:
            share /= 2
            trial, there = _moved(problem, at, dz, share)
        if not np.isfinite(there.largest):
            break
        stale = 0 if there.largest < least else stale + 1
        least = min(least, there.largest)
        at, here = trial, linear(problem, trial, give(there))
        recent.append(here.rows.largest)
    return Found(at, here.rows.largest, iterations, False)


def _moved(problem: Problem, at: Point, by: Point, share: float = 1.0) -> tuple[Point, Rows]:
    """A point as far as `share` along `by`, with sigma as there, and F."""
    contacts = tuple(a + share * b for a, b in zip(at.contacts, by.contacts, strict=True))
    trial = Point(at.V + share * by.V, contacts)
    return _slipping(problem, trial, rows(problem, trial))


def _slipping(problem: Problem, at: Point, F: Rows) -> tuple[Point, Rows]:
    """The same point with sigma = |w|, which no other row has, and F there."""
    if problem.friction != "projection":
        return at, F
    contacts, own = [], []
    for slots, z, f in zip(problem.slots, at.contacts, F.contacts, strict=True):
        row = slots.group.pair.unknowns + 1
        contacts.append(np.column_stack([z[:, :-1], z[:, -1] - f[:, row]]))
        own.append(np.column_stack([f[:, :row], np.zeros(len(f)), f[:, row + 1 :]]))
    return Point(at.V, tuple(contacts)), Rows(F.bodies, tuple(own))


def _with_fixed(problem: Problem, V) -> np.ndarray:
    return np.concatenate([V, np.zeros((problem.fixed, V.shape[1]))])


def _moving(slots: Slots, count: int) -> np.ndarray:
    """Numbers (count, sides) of the bodies that move."""
    return slots.sides[:count, [i for i in (0, 1) if slots.group.moving[i]]]


def _push(bodies, slots: Slots, pushes, count: int) -> None:
    """Adds impulses (count, acting) to the balances of `bodies`."""
    width = bodies.shape[1]
    for side, numbers in enumerate(_moving(slots, count).T):
        np.add.at(bodies, numbers, pushes[:, side * width : (side + 1) * width])


def _padded(values, slots: Slots) -> np.ndarray:
    """With the last row (m, k) for the rows that are no contacts."""
    missing = len(slots.impulse) - len(values)
    return np.concatenate([values, np.repeat(values[-1:], missing, axis=0)]) if missing else values

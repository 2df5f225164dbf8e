"""A step of many bodies as a problem: its unknowns, its rows F, and F where a correction leads."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from ..constraints.conditions import places
from ..constraints.kinematics import Motion
from ..implicit_euler import ncp
from ..runtime.compilation import jit
from . import equations
from .equations import PUSHES, Slots, Step


class Point(NamedTuple):
    """Dimensionless unknowns: velocities V (nb, 6 or 3) of moving bodies, and those of contacts (m,
    width), form by form, and of joints after them."""

    V: np.ndarray
    contacts: tuple[np.ndarray, ...]


class Rows(NamedTuple):
    """F at a point: of the bodies' momenta (nb, 6 or 3), and of contacts (m, width), form by form,
    and joints."""

    bodies: np.ndarray
    contacts: tuple[np.ndarray, ...]

    @property
    def largest(self) -> float:
        """max |F_i|, NaN if any is."""
        return float(np.max([np.max(np.abs(part), initial=0.0) for part in (self.bodies, *self.contacts)]))


@dataclasses.dataclass(frozen=True)
class Problem:
    """A step: the momentum balances are those of `bare`, a `StepProblem` without contacts; `slots`
    form by form, of which the first `counts` are contacts, and after them those of joints; the
    `motion` of all bodies at its start, moving ones first; units `velocity` (nb, 6 or 3)."""

    friction: str
    bare: ncp.StepProblem
    step: Step
    motion: Motion
    velocity: np.ndarray
    slots: tuple[Slots, ...]
    counts: tuple[int, ...]

    @property
    def fixed(self) -> int:
        """Number of bodies that do not move."""
        return len(self.motion.position) - len(self.velocity)

    @property
    def forms(self) -> int:
        """How many of the slots are forms of contacts."""
        return sum(slots.touching for slots in self.slots)

    @property
    def placed(self) -> np.ndarray:
        """The numbers (k,) of moving bodies that joints place."""
        joints, width = self.slots[self.forms :], self.velocity.shape[1]
        found = [slots.movers(len(slots.sides)).reshape(-1) for slots in joints if places(slots.group, width)]
        return np.concatenate([np.zeros(0, int), *found])

    @property
    def sweeps(self) -> bool:
        """Whether sweeps from contact to contact may mend a point: all contacts are of smooth
        bodies, and joints, if there are any, do no more than place some of them."""
        joints, width = self.slots[self.forms :], self.velocity.shape[1]
        smooth = all(slots.smooth for slots in self.slots[: self.forms])
        return smooth and (self.forms > 0 or not joints) and all(places(slots.group, width) for slots in joints)

    def with_fixed(self, V) -> np.ndarray:
        """Velocities (nb + nf, 6 or 3) of all bodies, from those of moving ones."""
        return np.concatenate([V, np.zeros((self.fixed, V.shape[1]))])


def smoothed(problem: Problem, kappa: float) -> Problem:
    """The problem of which a point of the central path is the root."""
    return dataclasses.replace(problem, step=dataclasses.replace(problem.step, kappa=np.asarray(kappa)))


@jit
def _balances(problem: ncp.StepProblem, V):
    return ncp.over_bodies(problem, lambda f: f, V)


def rows(problem: Problem, at: Point) -> Rows:
    """F at a point."""
    everyone = problem.with_fixed(at.V)
    bodies, width = np.array(_balances(problem.bare, at.V)), at.V.shape[1]
    own = []
    for slots, count, z in zip(problem.slots, problem.counts, at.contacts, strict=True):
        found, pushes = equations.evaluated(problem.friction, problem.step, slots, slots.moving(everyone), padded(z, slots))
        own.append(np.asarray(found)[:count])
        for side, numbers in enumerate(slots.movers(count).T):
            np.add.at(bodies, numbers, np.asarray(pushes)[:count, side * width : (side + 1) * width])
    return Rows(bodies, tuple(own))


def moved(problem: Problem, at: Point, by: Point, share: float = 1.0) -> tuple[Point, Rows]:
    """A point as far as `share` along `by`, with sigma as there, and F."""
    contacts = tuple(a + share * b for a, b in zip(at.contacts, by.contacts, strict=True))
    trial = Point(at.V + share * by.V, contacts)
    return slipping(problem, trial, rows(problem, trial))


def slipping(problem: Problem, at: Point, F: Rows) -> tuple[Point, Rows]:
    """The same point with sigma = |w|, which no other row has, and F there. Friction in the form of
    Fischer and Burmeister has sigma in all of its rows, and keeps it."""
    if problem.friction != "projection":
        return at, F
    contacts, own = [], []
    for slots, z, f in zip(problem.slots, at.contacts, F.contacts, strict=True):
        row = slots.closest + 1
        z, f = np.array(z), np.array(f)
        if slots.touching:
            z[:, -1] -= f[:, row]
            f[:, row] = 0.0
        contacts.append(z)
        own.append(f)
    return Point(at.V, tuple(contacts)), Rows(F.bodies, tuple(own))


def felt(problem: Problem, at: Point, F: Rows) -> float:
    """max |F_i| without what nothing depends on: rows of closest points of bodies with faces that
    push nothing. Faces all but parallel, apart, have these anywhere, and iterations of all unknowns
    seek them long where `open_points` finds them."""
    found = [np.max(np.abs(F.bodies), initial=0.0)]
    for slots, z, f in zip(problem.slots, at.contacts, F.contacts, strict=True):
        f, n = np.abs(f), slots.closest
        if slots.touching and not slots.smooth:
            f[np.max(np.abs(z[:, n:-1]), axis=1) <= PUSHES, :n] = 0.0
        found.append(np.max(f, initial=0.0))
    return float(np.max(found))


def padded(values, slots: Slots) -> np.ndarray:
    """With the last row (m, k) for the rows that are no contacts."""
    missing = len(slots.impulse) - len(values)
    return np.concatenate([values, np.repeat(values[-1:], missing, axis=0)]) if missing else values

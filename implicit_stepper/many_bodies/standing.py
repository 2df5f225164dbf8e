"""What stands: bodies at rest stay at rest to the bit, and a step in which nothing moves is the one
before it."""

from __future__ import annotations

import dataclasses

import numpy as np

from ..model.bodies import State
from ..model.system import System
from .equations import PUSHES
from .linearization import Factored, correction
from .problem import Point, Problem, moved, rows, slipping
from .step import Done, Memory, Still, no_memory

# of the tolerance: max |F_i| of a start that is the root, of smooth bodies that move and of any
# that stand. Walls of bodies with faces that move by so little buckle
_MOVES, _STANDS = 0.5, 1.0
# of the tolerance: what redundant forces leave of a velocity; how often they are corrected
_SLOW, _CORRECTIONS = 100.0, 4


def allowed(smooth, moves):
    """Of the tolerance: max |F_i| of a start that is the root of its step as it is, by whether
    bodies are `smooth` and whether any `moves`."""
    return np.where(moves, np.where(smooth, _MOVES, -np.inf), _STANDS)


def stilled(problem: Problem, root: Point, residual: float, kept: Factored | None, tolerance: float) -> tuple[Point, float]:
    """A `root` with max |F_i| of `residual`, or another one as good in which bodies stand that
    contacts press and that move by hardly more than the `tolerance` (): no pose changes by what
    rounding or redundant forces leave of a velocity. Forces are corrected by the derivative that
    led to the root, if that was `kept`."""
    V, pressed = root.V, np.zeros(len(root.V), bool)
    for slots, z in zip(problem.slots, root.contacts, strict=True):
        if slots.touching:
            pressed[slots.movers(len(z))[z[:, slots.closest] > PUSHES]] = True
    rests = pressed & np.any(V, axis=1) & (np.max(np.abs(V), axis=1, initial=0.0) <= _SLOW * tolerance)
    at = root
    for _ in range(_CORRECTIONS if np.any(rests) else 0):
        at = Point(np.where(rests[:, None], 0.0, at.V), at.contacts)
        at, F = slipping(problem, at, rows(problem, at))
        if F.largest <= max(tolerance, residual):
            return at, F.largest
        if kept is None:
            break
        at, _ = moved(problem, at, correction(problem, kept.linear.local, kept.factors, F))
    return root, residual


def remembered(system: System, start: State, done: Done, h: float) -> Done:
    """A step of h [s] from `start`, which those after it repeat if nothing moved in it and neither
    loads nor joints know what time it is."""
    timeless = not system.joints and not any(system.wrench_functions)
    if not timeless or not _same(start, done.state):
        return done
    still = Still(h, dataclasses.replace(done, memory=no_memory(), iterations=0, rung=0))
    return dataclasses.replace(done, memory=done.memory._replace(still=still))


def repeated(state: State, memory: Memory, h: float) -> Done | None:
    """The last step once more, where nothing moved in it and all is as it was when it began."""
    if memory.still is None or memory.still.h != h or len(memory.held):
        return None
    step = memory.still.step
    if not _same(state, step.state):
        return None
    return dataclasses.replace(step, state=dataclasses.replace(step.state, time=np.asarray(state.time + h)), memory=memory)


def _same(first: State, second: State) -> bool:
    """Whether two states differ in time alone."""
    return all(
        np.array_equal(getattr(first, name), getattr(second, name)) for name in ("position", "orientation", "velocity")
    )

"""Steps of the paper's scheme within a run of several stages: where bodies meet in faces, for the
forces after an event, and across what no smooth step can."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shapes.closest_points.mixture import unpacked
from shapes.closest_points.surface import surface

from ..constraints import contact
from ..constraints.detection import geometry_of
from ..constraints.restitution import SUDDEN, TOUCHING, bending
from ..implicit_euler import ncp
from ..implicit_euler.geometrically_implicit import GeometricallyImplicit
from ..model.bodies import State
from ..model.records import Contacts
from ..model.results import Failure, Result
from ..model.system import System, compliant, contact_bodies, in_user_order, take
from ..runtime.compilation import jit
from ..stepping.fallback import anew, pieces, warm
from ..stepping.loop import Record
from . import impact
from .memory import Memory, steady

_NOT_SOLVED = "a step of one stage was not solved either. Try another `tol`, or GeometricallyImplicit with a fixed `h`."

# sizes of steps, of sqrt(tol L / g): those up to 1 are of no weight in an error, longer ones are
# counted
THROUGH = (10.0, 1.0, 1e-1, 1e-2, 1e-3)  # an impact, as short as can be
FORCES = (1.0, 10.0, 1e-1, 1e-2)  # not taken; on nearly flat ground short ones are hard
ACROSS = (1.0, 10.0, 100.0)
_SHORTER = tuple(10.0**-k for k in range(7))  # shares of steps, until nothing meets in them
_WARM = 2  # sizes tried from warm starts alone before other starts
_ROUNDINGS = 64  # errors of rounding that a violation gathers
_LOST = 1e-8  # what rounding leaves: beyond it no certificate of 1e-8 to 1e-10 has digits
_NOTHING = 1e-6  # of m g h: an impulse that only rounding left


@dataclasses.dataclass(frozen=True)
class Series:
    """Steps of `h` [s]: `records` of them, the state `before` the last one and `after` it,
    `memory`; the number of other `starts`, whether any was solved, and if not, `why`."""

    records: list[Record]
    before: State
    after: State
    memory: Any
    h: float
    starts: int
    solved: bool
    why: Failure = Failure(Result.NOT_CONVERGED, _NOT_SOLVED)


class Known(NamedTuple):
    """Of the state from which steps begin: the `gaps` (nc,) [m] of its contacts; and where what
    sticks has a coefficient of its own, the `slips` per group of constraints (n,) [m/s], if not
    those of its velocities."""

    gaps: Any
    slips: tuple | None = None

    def told(self, memory):
        """The `memory` of a stepper with these slips."""
        return memory if self.slips is None else dataclasses.replace(memory, slips=self.slips)


def steps(
    stepper: GeometricallyImplicit,
    system: System,
    state: State,
    known: Known,
    sizes: Sequence[float],
    tolerance: float,
    count: int,
    unmet: bool = False,
) -> Series:
    """Up to `count` steps from `state`, of which so much is `known`, certified within `tolerance`
    and what rounding adds to it, of one of `sizes` [s], the first ones by preference: those before
    the first that is not solved. With `unmet`, where something meets in one of them, single ones
    that are ever shorter, until nothing does, since they know no rebounds; where all do, none is
    solved."""
    one_by_one = [(share, 1) for share in _SHORTER] if unmet else []
    for share, most in [(1.0, count), *one_by_one[int(count == 1) :]]:
        for found in _tries(stepper, system, state, known, [share * h for h in sizes], tolerance, most):
            if found.solved:
                break
        if not (unmet and found.solved and any(_met(system, *step, found.h) for step in each(state, found))):
            return found
    return dataclasses.replace(found, solved=False, why=Failure(Result.MISSED_REBOUND))


def _tries(
    stepper, system: System, state: State, known: Known, sizes: Sequence[float], tolerance: float, count: int
) -> Iterator[Series]:
    """Of all `sizes`, with the `starts` so far. The first ones are tried from their warm starts
    alone before others for any: where a body pivots it takes seconds for a step
    whose neighbour in size takes milliseconds."""
    memory, starts = known.told(anew(stepper, system, state, known.gaps)), 0
    for h, climbs in [*((h, False) for h in sizes[:_WARM]), *((h, True) for h in sizes)]:
        allowed = float(tolerance + rounding(system, state, h))
        found = _series(stepper, system, state, memory, h, 1 if climbs else count, allowed, climbs)
        starts += found.starts
        yield dataclasses.replace(found, starts=starts)


def _series(stepper, system: System, state: State, memory, h, count: int, tolerance: float, climbs: bool) -> Series:
    records, starts, before = [], 0, state
    for piece in pieces(stepper, system, state, memory, h, count, tolerance, climbs=climbs):
        taken = len(piece.record.result)
        starts += 0 if piece.climb is None else len(piece.climb.attempts)
        if taken:
            records.append(piece.record)
            before = state if taken == 1 else jax.device_put(jax.tree.map(lambda a: a[-2], piece.record.state))
        state, memory = piece.state, piece.memory
    return Series(records, before, state, memory, h, starts, bool(records))


def forces(
    stepper: GeometricallyImplicit, system: System, state: State, known: Known, sizes: Sequence[float], tolerance: float
) -> Series:
    """One step from `state` that leaves its forces, of the first of `sizes` [s] that does. (Of a
    step that is certified although the solver stalled, no memory is left.)"""
    for found in _tries(stepper, system, state, known, sizes, tolerance, 1):
        if found.solved and remembers(system, found):
            break
    return found


def remembers(system: System, found: Series) -> bool:
    """Whether the memory after the last step is that of its root."""
    where, root = ncp.layout(system), np.asarray(found.memory.history)[0]
    kept = [np.any(root[c[:, g.pair.unknowns]] > 0) for c, g in zip(where.unknowns, system.groups, strict=False)]
    return any(kept) or not np.any(found.records[-1].contacts.normal_impulse > 0)


def through(
    stepper: GeometricallyImplicit, system: System, state: State, known: Known, sizes: Sequence[float], tolerance: float
) -> Series:
    """One step through an impact in `state`, which costs a share of the step: of the last of
    `sizes` [s], ever smaller ones, that is solved from the root of the one before; the first of
    these is the second size, or else the first. Where faces are nearly flat other starts are no
    help for short steps."""
    found = steps(stepper, system, state, known, sizes[1::-1], tolerance, 1)
    for h in [h for h in sizes if h < found.h] if found.solved else ():
        allowed = float(tolerance + rounding(system, state, h))
        # the root of another end, but the same start
        guess = known.told(dataclasses.replace(found.memory, gaps=known.gaps))
        after, memory, record = warm(stepper, system, state, guess, h, 1, allowed)
        if not len(record.result):
            break
        found = dataclasses.replace(found, records=[record], after=after, memory=memory, h=h)
    return found


def meet(system: System, found: Series) -> bool:
    """Whether bodies that press on each other after the last step approached each other at these
    points before it, faster than loads can make them: then they met elsewhere than at one closest
    point. Round ones that touched before it did not: their point moves along, however fast over
    what is all but flat."""
    return _met(system, found.before, found.after, _last(found), found.h)


def _met(system: System, before: State, after: State, last: Contacts, h: float) -> bool:
    rolls = rolling(system) & (np.asarray(last.gap_start) <= TOUCHING * float(system.length))
    return bool(np.any(~rolls & np.asarray(sudden(system, before, after, last, h))))


def each(state: State, found: Series) -> Iterator[tuple[State, State, Contacts]]:
    """Of every step of `found` from `state`: the states before and after it, and its contacts."""
    for record in found.records:
        for i in range(len(record.result)):
            after, contacts = jax.tree.map(lambda a, i=i: a[i], (record.state, record.contacts))
            yield state, after, contacts
            state = after


def rolling(system: System) -> np.ndarray:
    """Which contacts (nc,) have a body that is round, see `Surface`."""
    found = []
    for group in system.groups:
        sides = ((group.pair.first, group.theta_1), (group.pair.second, group.theta_2))
        rounds = [[surface(unpacked(kind, theta)).round for theta in np.asarray(own)] for kind, own in sides]
        found.append(np.any(rounds, axis=0))
    return in_user_order(system, np.concatenate(found))


@jit
def sudden(system: System, before: State, after: State, last: Contacts, h):
    """Of the contacts `last` of a step of h [s] from `before` to `after`, those (nc,) by which
    bodies `meet`."""
    normal = opening(system, before, after, last)
    presses = last.normal_impulse > _NOTHING * jnp.min(system.mass) * system.acceleration * h
    presses = presses & ~compliant(system)  # which press on each other as they approach
    return presses & (normal < -of_loads(system, before, h))


def opening(system: System, before: State, after: State, last: Contacts):
    """How fast (nc,) [m/s] contacts that a step left at the points of `last`, where bodies are
    `after` it, would open with the velocities `before` it."""
    numbers, d = contact_bodies(system), system.dimension
    velocity = jnp.concatenate([before.velocity, jnp.zeros((1, before.velocity.shape[1]))])
    # that of bodies at rest may be any
    centre = jnp.concatenate([after.position, jnp.zeros((1, d))])
    first, second = numbers.T
    over = jax.vmap(contact.slip_velocities)
    return over(geometry_of(last), centre[first], centre[second], velocity[first], velocity[second])[0]


def of_loads(system: System, state: State, h):
    """A speed [m/s] that loads, and paths that bend, may give to bodies that touch in `state`,
    within h [s]."""
    speed, spin = jnp.split(jnp.abs(state.velocity), [system.dimension], axis=1)
    return SUDDEN * h * (system.acceleration + bending(jnp.max(spin), jnp.max(speed), system.length))


def memory_before(stages: int, system: System, found: Series) -> Memory:
    """Memory of a motion that goes on from the state before the last step of `found`, with its
    forces."""
    return remembered(stages, system, found.before, found.after, found.memory, _last(found).gap_start, found.h)


@functools.partial(jit, static_argnums=0)
def remembered(stages: int, system: System, before: State, after: State, memory, gaps, h) -> Memory:
    """`memory_before` for a step of h [s] from `before`, with `gaps` (nc,) [m], to `after`, with
    the stepper's `memory`."""
    where, root = ncp.layout(system), memory.history[0]
    unknowns = []
    for index, group in zip(where.unknowns, system.constraints, strict=True):
        own = jnp.pad(take(root, index), ((0, 0), (0, group.etas)))
        unknowns.append(jnp.where(group.forces, own / h, own))
    acceleration = (after.velocity - before.velocity) / h
    forces = impact.Forces(tuple(unknowns), memory.references, gaps, acceleration, jnp.asarray(h, float))
    return steady(stages, before, forces)


def without_rebounds(system: System) -> System:
    """The system as these steps know it."""
    groups = tuple(dataclasses.replace(group, restitution=None, of_impulses=False) for group in system.groups)
    return dataclasses.replace(system, groups=groups)


def _last(found: Series) -> Contacts:
    return jax.tree.map(lambda a: a[-1], found.records[-1].contacts)


def rounding(system: System, state: State, h):
    """What rounding alone leaves in a certificate of a step of h [s] from `state`, of arrays (...,
    nb, :): the units of speeds and gaps shrink with h, but not their digits. In the plane angles
    count turns, and have the fewer digits the more there are."""
    numbers, at = (float(system.acceleration), float(system.length)), jax.tree.map(np.asarray, state)
    return np.asarray(left_by_rounding(*numbers, at, h))


def left_by_rounding(acceleration, length, state: State, h):
    """`rounding` in a scene with this `acceleration` () [m/s^2] and `length` () [m], of arrays of
    NumPy or of JAX."""
    speed, gap = acceleration * h, (acceleration * length) ** 0.5 * h
    fastest = abs(state.velocity).max(axis=(-2, -1)) + speed
    farthest = abs(state.position).max(axis=(-2, -1)) + length
    if state.orientation.shape[-1] == 1:
        farthest = farthest + abs(state.orientation).max(axis=(-2, -1)) * length
    return _ROUNDINGS * np.finfo(float).eps * (fastest / speed + farthest / gap)


def lost(system: System, state: State, h) -> bool:
    """Whether `rounding` leaves no digits of such a step."""
    return bool(rounding(system, state, h) > _LOST)


def or_rounded(result: Result, system: System, state: State, h: float) -> Result:
    """Why a step of h [s] from `state` fails: `result`, or rounding, if the step is `lost` in
    it."""
    other = (Result.PASSED, Result.TOO_MANY_PAIRS)
    return Result.ROUNDED if result not in other and h > 0 and lost(system, state, h) else result


def blamed(system: System, state: State, h, failure: Failure) -> Failure:
    """The `failure` of what is solved in `state`, or rounding, if a step of h [s] is `lost` in it:
    that a solver does not converge there says nothing of masses and friction."""
    other = failure.result not in (Result.IMPACT, Result.NOT_CONVERGED)
    return failure if other or not lost(system, state, h) else Failure(Result.ROUNDED)

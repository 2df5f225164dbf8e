"""What is tried for a step that its warm start does not solve, or whose solution is not certified.

The stepper's other starts in turn, each into the same compiled step; among them, where the stepper
says that shorter steps cost less than its last starts (`SHORTER`), two steps of half the length
without those; all starts once more without its memory; then, or as soon as a few more do no better,
the best of them that is certified although the solver stalled above its own, finer tolerance; then
two steps of half the length, each with the whole sequence. Where bodies pass through each other
within a step, only shorter steps help. It runs on the host, so that easy steps neither compile nor
pay for it.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from ..model.bodies import State
from ..model.records import with_impulses_of
from ..model.results import Failure, Result
from ..model.system import System
from ..runtime.progress import doing, first_call, next_call
from .loop import CHUNK, Record, advance
from .stepper import SHORTER, Stepper, begin
from .sweep import Passage, Sweep

_MORE = 8  # starts tried for the solver's own tolerance once one of them is certified
_QUICK = 2  # halvings before the last starts
_HALVINGS = 4  # sub-steps of h/16 at the shortest,
_FINEST = 10  # or of h/1024 around the time at which bodies pass through each other


@dataclasses.dataclass(frozen=True)
class Attempt:
    """A start: its `name` ("h/2" for a half step with starts of its own), the solver's `residual`
    and its `iterations`."""

    name: str
    residual: float
    iterations: int


@dataclasses.dataclass(frozen=True)
class Climb:
    """The last step tried as a `Record` of one, without its first axis, and the memory after it;
    all attempts; whether the step is solved and certified; the contact through which bodies
    `passed` in the shortest step, if they did; and the `reason`, where it is none that the record
    tells."""

    record: Record
    memory: Any
    attempts: tuple[Attempt, ...]
    solved: bool
    passed: int | None = None
    reason: Failure | None = None


@dataclasses.dataclass(frozen=True)
class Several:
    """Steps one after another: `state` and `memory` after them; a `Record` of them, NumPy arrays
    with a first axis; and the `climb` of the only one, if its warm start was not enough."""

    state: State
    memory: Any
    record: Record
    climb: Climb | None

    @property
    def solved(self) -> bool:
        """Whether all were."""
        return self.climb is None or self.climb.solved


def climb(
    stepper: Stepper, system: System, state: State, memory, h: float, tolerance: float, sweep: Sweep | None = None
) -> Climb:
    """The step of h [s] from `state`, by all starts but the warm one, then by sub-steps; the first
    certified one in which `sweep` finds no passage is taken.

    `Climb.record.stats` has all iterations, the rung, and how many sub-steps stand for the step;
    their impulses are added up, the rest is that of the last one. Never raises: see `Climb.solved`.
    """
    # shorter steps would leave another polynomial inside the step than a method of several stages
    # records
    halvings = (_HALVINGS, _FINEST) if stepper.can.divisible else (0, 0)
    return _climb(stepper, system, state, memory, h, (tolerance, sweep), halvings)


def pieces(
    stepper: Stepper,
    system: System,
    state: State,
    memory,
    h: float,
    count: int,
    tolerance: float,
    sweep: Sweep | None = None,
    climbs: bool = True,
) -> Iterator[Several]:
    """`count` certified steps of h [s] in which `sweep` finds no passage, as far as they are
    solved: by their warm starts, as many at once as a tenth of a second allows, and one by the
    fallback sequence, unless nothing `climbs`, where those are not enough. Never raises: see
    `Several.solved`."""
    steps = first_call(system.unknown_count)
    while count > 0:
        steps = min(steps, count)
        begun = time.perf_counter()
        state, memory, record = warm(stepper, system, state, memory, h, steps, tolerance, sweep)
        done = len(record.result)
        count -= done
        yield Several(state, memory, record, None)
        if done == steps:
            steps = next_call(steps, time.perf_counter() - begun, CHUNK)
            continue
        if not climbs:
            return
        with doing(f"fallback starts at t = {float(state.time):.6g} s"):
            climbed = climb(stepper, system, state, memory, h, tolerance, sweep)
        record = jax.tree.map(lambda a: a[None], climbed.record)
        if not climbed.solved:
            yield Several(state, memory, jax.tree.map(lambda a: a[:0], record), climbed)
            return
        state, memory = jax.device_put(climbed.record.state), climbed.memory
        count -= 1
        yield Several(state, memory, record, climbed)


def warm(
    stepper: Stepper,
    system: System,
    state: State,
    memory,
    h: float,
    steps: int,
    tolerance: float,
    sweep: Sweep | None = None,
):
    """Up to `steps` certified steps of the first rung in which `sweep` finds no passage: the state
    and memory after them and their record, with NumPy arrays shorter than `steps` where one
    failed."""
    before = memory
    end, memory, record = advance(stepper, system, state, before, h, steps)
    # NumPy slices: JAX would compile one for every length. Where little of a program's arrays is
    # filled, they are not kept
    record = jax.tree.map(lambda a: np.asarray(a) if steps == len(a) else np.array(np.asarray(a)[:steps]), record)
    good = int(np.argmin(np.append(certified(record, tolerance), False)))
    passage = _passage(sweep, state, jax.tree.map(lambda a: a[:good], record), h)
    good = good if passage is None else passage.step
    if good == steps:
        return end, memory, record
    last = int(np.argmax(np.append(record.result != Result.SOLVED, True)))
    if good > 0:
        state = jax.device_put(jax.tree.map(lambda a: a[good - 1], record.state))
    if last != good:  # solved but not certified: the loop went on, and the memory with it
        gaps = record.contacts.gap[good - 1] if good > 0 else _gaps(stepper, before)
        memory = anew(stepper, system, state, gaps)
    return state, memory, jax.tree.map(lambda a: a[:good], record)


def certified(record: Record, tolerance: float) -> np.ndarray:
    """Which steps (n,) are solved and violate nothing by more than `tolerance`."""
    worst = [np.max(np.asarray(v), axis=-1, initial=0.0) for v in record.certificates.values()]
    return (np.asarray(record.result) == Result.SOLVED) & (np.max(worst, axis=0) <= tolerance)


def _passage(sweep: Sweep | None, before: State, record: Record, h) -> Passage | None:
    """The first in the steps of a `record` with a first axis, if there is a `sweep`."""
    return None if sweep is None else sweep.first(before, record.state, record.contacts, h)


def _climb(
    stepper: Stepper,
    system: System,
    state: State,
    memory,
    h,
    demands,
    halvings: tuple[int, int],
    warm=(),
    early: int | None = None,
) -> Climb:
    """`climb`, from the starts `warm` first, with the `demands` tolerance and sweep; `halvings`:
    how often the step may be halved for what is not solved, and for what passes; `early`: how often
    instead of the starts after `SHORTER`, None where these are tried too."""
    (tolerance, sweep), attempts, spare, first, passage = demands, [], None, 0, None
    quick = min(_QUICK if early is None else early, halvings[0])
    starts = (warm, stepper.restarts(system, state, memory, h), _without_memory(stepper, system, state, memory, h))
    for name, start in itertools.chain(*starts):
        if spare is not None and len(attempts) >= first + _MORE:
            break
        if name == SHORTER:
            if quick > 0 and spare is None:
                found = _halves(stepper, system, state, memory, h, demands, halvings, attempts, quick - 1)
                if found.solved:
                    return found
            if early is not None:
                break
            quick = 0
            continue
        _, after, record = advance(stepper, system, state, start, h, 1)
        record = jax.tree.map(lambda a: np.array(a)[0], record)
        attempts.append(Attempt(name, float(record.stats.residual), int(record.stats.iterations)))
        rung = stepper.rungs.index(name)
        stalled = dataclasses.replace(record, result=np.array(Result.SOLVED))
        if not certified(stalled, tolerance):
            continue
        passage = _passage(sweep, state, jax.tree.map(lambda a: a[None], record), h)
        if passage is not None:
            break  # no other start helps
        if certified(record, tolerance):
            return Climb(_counted(record, attempts, rung), after, tuple(attempts), True)
        first = len(attempts) if spare is None else first
        if spare is None or record.stats.residual < spare[0].stats.residual:
            # `advance` hands back the memory before an unsolved step: the next one starts without a
            # hint
            spare = stalled, anew(stepper, system, record.state, record.contacts.gap), rung
    if spare is not None:
        record, after, rung = spare
        return Climb(_counted(record, attempts, rung), after, tuple(attempts), True)
    number = None if passage is None else passage.number
    if halvings[number is not None] <= 0 or (early is not None and passage is None):
        return Climb(record, memory, tuple(attempts), False, number)
    return _halves(stepper, system, state, memory, h, demands, halvings, attempts, early)


def _halves(
    stepper: Stepper,
    system: System,
    state: State,
    memory,
    h,
    demands,
    halvings: tuple[int, int],
    attempts: list[Attempt],
    early: int | None,
) -> Climb:
    """Two steps of half the length as one, each from its warm start, otherwise by `_climb`; adds
    what each took to `attempts`."""
    halves, fewer, before = [], tuple(most - 1 for most in halvings), memory
    for _ in range(2):
        first = [(stepper.rungs[0], memory)]
        half = _climb(stepper, system, state, memory, h / 2, demands, fewer, first, early)
        attempts.append(Attempt("h/2", half.attempts[-1].residual, sum(a.iterations for a in half.attempts)))
        if not half.solved:
            return Climb(half.record, before, tuple(attempts), False, half.passed)
        state, memory = half.record.state, half.memory
        halves.append(half.record)
    return Climb(_counted(_joined(*halves), attempts, len(stepper.rungs)), memory, tuple(attempts), True)


def _without_memory(stepper: Stepper, system: System, state: State, memory, h) -> Iterator[tuple[str, Any]]:
    """The stepper's restarts from closest points found without a hint, which may be far from those
    of the last step; none where the memory is that already, as each start would end as before."""
    without = anew(stepper, system, state, _gaps(stepper, memory))
    (one, first), (other, second) = jax.tree.flatten(without), jax.tree.flatten(memory)
    if first != second or not all(map(np.array_equal, one, other)):
        yield from stepper.restarts(system, state, without, h)


def anew(stepper: Stepper, system: System, state: State, gaps) -> Any:
    """Memory without a hint, but with the `gaps` (nc,) [m] of the last step, if these are known and
    the stepper keeps any: of bodies that overlap, closest points found anew may be others."""
    memory = begin(stepper, system, state)
    return dataclasses.replace(memory, gaps=gaps) if stepper.can.keeps_gaps and gaps is not None else memory


def _gaps(stepper: Stepper, memory):
    """Those in its memory (nc,) [m], or None."""
    return memory.gaps if stepper.can.keeps_gaps else None


def _counted(record: Record, attempts: list[Attempt], rung: int) -> Record:
    """With the iterations of all attempts, and the rung that ended them."""
    stats = dataclasses.replace(record.stats, iterations=np.array(sum(a.iterations for a in attempts)), rung=np.array(rung))
    return dataclasses.replace(record, stats=stats)


def _joined(one: Record, two: Record) -> Record:
    """Two half steps as one: impulses are those of both, violations the larger ones."""
    contacts = with_impulses_of(two.contacts, one.contacts)
    contacts = dataclasses.replace(contacts, gap_start=one.contacts.gap_start)
    stats = dataclasses.replace(
        two.stats,
        residual=np.maximum(one.stats.residual, two.stats.residual),
        substeps=one.stats.substeps + two.stats.substeps,
    )
    certificates = jax.tree.map(np.maximum, one.certificates, two.certificates)
    return dataclasses.replace(two, contacts=contacts, stats=stats, certificates=certificates)

"""A run with error control that ends its steps on events: the host's part, from event to event.

`advance` of a loop takes steps up to an event and ends one there; `impact.meet` gives velocities
and forces after it. What cannot be landed on is crossed by shorter steps, at last the paper's."""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Callable

import jax
import numpy as np

from ..constraints.detection import closest_points
from ..model.bodies import State
from ..model.results import Failure, Interrupted, Result
from ..model.system import System
from ..runtime.compilation import prepare
from ..runtime.progress import Progress, doing, first_call, next_call
from ..stepping.loop import CHUNK
from ..stepping.run_certificate import first_gaps
from ..stepping.sweep import Passage, Sweep
from . import after_events, euler_steps, event_loop, face_rebounds, flat_places, folds, painleve, sparse_loop
from .apart import sharp
from .elsewhere import meets_again, meets_elsewhere
from .error_control import Tolerance
from .euler_steps import Known
from .events import event_of
from .impact import Impact
from .made import Made, Run
from .programs import programs
from .radau_contact import RadauContact
from .refusals import SHORTEST, refuse_overlap, unit
from .slots import first_slots, more_slots, room, with_room
from .stages import Modes
from .way import Limits, Point, Reason, Taken, Way

_FIRST = 1e-2  # of sqrt(L / g): the first step to try
_AFTER = 0.5  # of the step before an event: the one after it, of motion that nothing extrapolates yet
_ROUGH = 40.0  # by so much may the estimate of a first step after these exceed 1: they leave rates of inclinations
_MOST = 64  # steps of one stage at once
_PASSAGES = 100  # of bodies through each other from one time on, that a run goes back from
_KEPT = ("point", "way", "span", "began", "end", "starts", "across", "flat", "turned", "passages", "slots")
_PER_UNIT = 2_000  # solves per sqrt(L / g): more are a cascade of events without end


def run(
    stepper: RadauContact,
    system: System,
    state: State,
    tolerance: Tolerance,
    ends,
    step_tolerance,
    told: Progress,
    sweep: Sweep,
    kept: dict | None = None,
    offer: Callable[[Callable[[], dict]], None] = lambda kept: None,
) -> Run:
    """From `state` to the last of `ends` [s], times at which a step must end; `step_tolerance`
    certifies the paper's steps; `told` hears how far the run is; `sweep` tells where bodies pass
    through each other. Ctrl-C ends it, as far as it is. Where it can go on from later, it calls
    `offer` with what gives the `kept` to do so."""
    driver, stopped = _Driver(stepper, system, state, tolerance, step_tolerance, ends[0], told, sweep), False
    driver.offer = offer
    try:
        driver.begin() if kept is None else driver.take_up(kept)
        for end in ends[ends.index(driver.end) :]:
            if driver.failure:  # of an impact at the start, or a step
                break
            driver.to(end)
            if end != ends[-1] and not driver.failure:
                driver.resume()
        if not driver.made.taken:
            driver.made.taken = [after_events.no_steps(stepper, room(driver.slots), system, state, driver.references)]
    except KeyboardInterrupt:
        stopped = True
    if stopped and not driver.made.taken:
        raise Interrupted(trajectory=None, state=state, end=ends[-1])
    return driver.made.run(driver.failure, stopped, driver.flat.told(float(tolerance.relative)))


class _Driver:
    """The present `Point` of a run, and what was made so far."""

    def __init__(
        self, stepper: RadauContact, system: System, state: State, tolerance: Tolerance, step_tolerance, end, told, sweep
    ):
        self.stepper, self.system, self.tolerance, self.step_tolerance = stepper, system, tolerance, step_tolerance
        self.sweep, self.passages, self.unit, self.slots = sweep, (0.0, 0), unit(system), first_slots(system)
        relative = min(float(tolerance.position) / float(system.length), float(tolerance.angle))
        self.small = self.unit * np.sqrt(relative)  # [s]: the error of a step of one stage is the tolerance
        self.first, self.start, self.end, self.told, self.begun = state, state.position, end, told, float(state.time)
        self.made = Made(stepper.stages, system, state, np.zeros(system.contact_count))
        self.starts, self.across, self.turned = 0, 1, -math.inf
        self.failure: Failure | None = None
        self.flat, self.began = flat_places.Flat(), 0.0  # and the time left as the way between two events began
        self.references = np.tile(np.eye(system.dimension)[0], (system.contact_count, 1))  # for tangents not yet known
        self.faces, self.rebounds = sharp(system), any(group.restitution is not None for group in system.groups)
        self.solves = first_call(stepper.stages * system.unknown_count)
        self.way: Way | None = None  # between two events, if on one
        self.span: tuple[int, int] | None = None  # the work done and allowed until `end`

    def kept(self) -> dict:
        """All that the run depends on from here on, and what it left."""
        return {name: getattr(self, name) for name in _KEPT} | {"made": self.made.kept(), "swept": self.sweep.last}

    def take_up(self, kept: dict) -> None:
        """Goes on from what another process has `kept`."""
        for name in _KEPT:
            setattr(self, name, kept[name])
        self.made.take_up(kept["made"])
        self.point, self.sweep.last = jax.device_put(self.point), kept["swept"]

    def begin(self) -> None:
        """Compiles, and finds the first `Point`."""
        system, state, h = self.system, self.first, np.asarray(_FIRST * self.unit)
        prepare(programs, self.stepper, system, state, self.references, self._limits(0), h, self.slots)
        closest = closest_points(system, state)
        self.made.gaps = first_gaps(system, closest)
        refuse_overlap(system, self.made.gaps)
        self._go_on(state, closest, self.references, h)

    def to(self, end: float) -> None:
        """Steps until `end` [s], or until nothing helps."""
        self.end = end
        if self.span is None:
            self.span = self._work(), int(_PER_UNIT * max(self._left() / self.unit, 1.0))
        before, most = self.span
        while not self.failure and self._left() > SHORTEST * self.unit:
            reason = self._smoothly(before + most)
            self.across = 1 if self.began - self._left() > self.across * self.small else self.across
            if reason == Reason.END:
                break
            if self._work() - before >= most:
                self.failure = Failure(Result.ENDLESS)
            elif reason == Reason.TOO_SHORT and not self._turn():
                self._cross()
            elif reason == Reason.EVENT:
                self.resume(self.point.modes)
            if not self.failure:
                self.offer(self.kept)
        self.span = self.way = None

    def _smoothly(self, most: int) -> Reason:
        """Steps for a while, to the end or an event, with work up to `most`; and why these are
        all."""
        loop = sparse_loop if sparse_loop.suits(self.stepper, self.system, self.slots) else event_loop
        if self.way is None:
            self.way, self.began = loop.way_from(self.stepper, self.system, self.point, self.slots), self._left()
        solves, begun = min(self.solves, most - self._work()), time.perf_counter()
        way, records, count, counts = loop.advance(self.stepper, self.system, self.way, self._limits(solves))
        count, reason, solves = int(count), Reason(int(way.reason)), int(counts.solves)
        self.solves = next_call(solves, time.perf_counter() - begun, CHUNK)
        for name in ("solves", "inaccurate", "landings"):
            self.made.counts[name] += int(getattr(counts, name))
        if count:
            taken = jax.tree.map(lambda a: np.asarray(a)[:count], records)
            passage = self.sweep.first(self.point.state, taken.state, taken.contacts, taken.h)
            if passage is not None:
                self.way = None
                self._meet_earlier(taken, passage)
                return Reason.PAUSED
            if reason == Reason.EVENT:  # noted first: an interruption leaves no step without it
                last = jax.tree.map(lambda a: a[-1], taken)
                self.made.landed.append(event_of(self.system, last.modes, float(last.state.time), int(way.event)))
            self.made.taken.append(taken)
        self.point, self.way = way.point, way if reason == Reason.PAUSED else None
        self.told.to(float(self.point.state.time) - self.begun)
        if reason == Reason.CROWDED:
            self.slots, reason = more_slots(self.system, self.slots, self.point.modes.touching), Reason.PAUSED
        return reason

    def _meet_earlier(self, taken: Taken, passage: Passage) -> None:
        """Goes on from the step of `taken` in which bodies pass through each other, or graze, with
        one that ends where they overlap, so that their meeting is an event in it."""
        before = self.point.state
        if passage.step:
            self.made.taken.append(jax.tree.map(lambda a: a[: passage.step], taken))
            before = jax.device_put(jax.tree.map(lambda a: a[passage.step - 1], taken.state))
        begun = float(before.time)
        self.passages = (begun, self.passages[1] + 1 if self.passages[0] == begun else 1)
        if self.passages[1] > _PASSAGES:
            pair = " and ".join(self.system.contact_names[passage.number])
            self.failure = Failure(Result.PASSED, f"{pair}: {Result.PASSED.message}")
        h = np.asarray(passage.share * taken.h[passage.step])
        self._go_on(before, closest_points(self.system, before), self.references, h)

    def resume(self, modes: Modes | None = None, rough: float = 1.0) -> None:
        """Goes on with forces found anew, after an impact if bodies meet; else with `modes`."""
        closest, references = after_events.here(self.system, self.point.state, self.point.memory)
        h = np.asarray(_FIRST * self.unit if rough > 1 else self.point.h * (1.0 if modes is None else _AFTER))
        self._go_on(self.point.state, closest, references, h, modes, rough)

    def _limits(self, most: int) -> Limits:
        """Of the way to the present end, with `most` problems at once."""
        return Limits(self.tolerance, self.start, np.asarray(self.end), np.asarray(SHORTEST * self.unit), np.asarray(most))

    def _go_on(self, state: State, closest, references, h, modes: Modes | None = None, rough: float = 1.0) -> None:
        """From `state` with `closest` points like these: the next `Point`, and a step h [s] to try.

        Where bodies meet in faces or edges, steps of the paper's scheme find the centres of
        pressure. One that is not taken leaves the forces, unless it leaves none and those before
        are the start; where bodies turn out to meet elsewhere, a tiny one goes through it."""
        broke = bool(self.made.landed) and self.made.landed[-1].kind == "slips"
        self.slots = with_room(self.system, self.slots, self.made.last_gaps())
        find = functools.partial(after_events.found, self.stepper, room(self.slots))
        found, closest, rebounds, moved = face_rebounds.meet(find, self.system, state, closest, references, modes, broke)
        if found is None:
            self.failure = Failure(Result.NO_CENTRES)
            return
        hit, memory, guess, modes = found
        # those found here are as good as the start from `closest`, which may be of another corner
        memory = dataclasses.replace(memory, gaps=jax.device_put(self.made.last_gaps()))
        if not self.made.taken:
            self.made.add_first_meetings(hit)
        smooth = modes is not None and not bool(hit.acts)
        memory, modes = (self.point.memory, modes) if smooth and self.faces else (memory, modes if smooth else guess)
        self.point = Point(hit.state, memory, modes, np.asarray(False), h, np.asarray(rough))
        if not self.faces:
            self._count_impact(hit)
            return
        meets = meets_again if self.rebounds else meets_elsewhere
        good, after = rebounds or (bool(hit.converged) and not meets(self.system, hit.state, closest)), None
        if good:
            after = self._forces(hit.state)
            if after.solved and euler_steps.meet(self.system, after):  # what rebounds meets again, later
                good, after = self.rebounds, None
        if good:
            self.failure = None
            self._count_impact(hit, moved)
        else:
            self.point = dataclasses.replace(self.point, state=state)
            known, sizes = Known(self.point.memory.gaps), self._sizes(euler_steps.THROUGH)
            through = euler_steps.through(*self._one(), state, known, sizes, self.step_tolerance)
            self._take(through)
            if through.solved and face_rebounds.forgotten(self.system, through):
                self.failure = Failure(Result.NO_CENTRES)
            after = self._forces(self.point.state)
        if after is not None and after.solved and euler_steps.remembers(self.system, after):
            memory = euler_steps.memory_before(self.stepper.stages, self.system, after)
            self.point = dataclasses.replace(self.point, memory=memory)

    def _forces(self, state: State) -> euler_steps.Series:
        found = euler_steps.forces(*self._one(), state, self._known(), self._sizes(euler_steps.FORCES), self.step_tolerance)
        self.starts += found.starts
        return found

    def _count_impact(self, hit: Impact, moved: bool = False) -> None:
        """Notes an impact where the run is, which may have `moved` from where its step ended."""
        self.failure = self.failure if bool(hit.converged) else self._blamed(Failure(Result.IMPACT))
        self.made.add_impact(hit, self.point.modes, moved)

    def _blamed(self, failure: Failure) -> Failure:
        return euler_steps.blamed(self.system, self.point.state, _FIRST * self.unit, failure)

    def _turn(self) -> bool:
        """Whether a direction of friction ends here: then the point is where the next begins. Once
        at one time, and in the first half of the work allowed: what spins on an edge may slide to
        and fro for ever."""
        now, late = float(self.point.state.time), self._work() - self.span[0] > self.span[1] / 2
        if late or not self.made.taken or now <= self.turned + SHORTEST * self.unit:
            return False
        memory = folds.beyond(self.system, self.point, self.made.taken[-1])
        if memory is not None:
            self.turned, h = now, np.asarray(self.small)
            self.point = dataclasses.replace(self.point, memory=memory, known=np.asarray(False), h=h)
        return memory is not None

    def _cross(self) -> None:
        """Steps of the paper's scheme, as error allows, more of them the longer others fail."""
        count = min(self.across, math.ceil(self._left() / self.small))
        self.across = min(2 * self.across, _MOST)
        known = self.point.state, self._known(), self._sizes(euler_steps.ACROSS, count), self.step_tolerance, count
        with doing(f"steps of first order from t = {float(self.point.state.time):.6g} s"):
            found = euler_steps.steps(*self._one(), *known, unmet=self.rebounds)
        self.flat = self.flat.crossed(self.system, self.point.state, found, float(self.tolerance.relative))
        self._take(found)
        if not self.failure and self._left() > SHORTEST * self.unit:
            self.resume(rough=_ROUGH)
            self.flat = self.flat.struck(self.system, found, self.point.state)

    def _take(self, found: euler_steps.Series) -> None:
        """Steps of the paper's scheme from the present point."""
        self.starts += found.starts
        if not found.solved:
            self.failure = self._blamed(found.why)
            return
        self.made.landed += painleve.jams(self.system, self.point.state, found)
        self.made.add_one_stage(found, self.point.modes, found.h > 1.5 * self.small)
        memory = self.point.memory
        if euler_steps.remembers(self.system, found):  # an impact that follows is at the points which the steps recorded
            memory = euler_steps.memory_before(self.stepper.stages, self.system, found)
        memory = dataclasses.replace(memory, gaps=jax.device_put(found.records[-1].contacts.gap[-1]))
        self.point = dataclasses.replace(self.point, state=jax.device_put(found.after), memory=memory)
        self.told.to(float(self.point.state.time) - self.begun)

    def _one(self):
        return self.stepper.one_stage, euler_steps.without_rebounds(self.system)

    def _known(self) -> Known:
        """Of the present point, with what sticks in it."""
        return Known(self.point.memory.gaps, after_events.told_slips(self.system, self.point.modes))

    def _sizes(self, sizes, count: int = 1) -> list[float]:
        """In seconds; `count` such steps do not pass the end."""
        most = max(self._left(), SHORTEST * self.unit) / count
        return [float(min(k * self.small, most)) for k in sizes]

    def _left(self) -> float:
        """Time to the end [s]."""
        return self.end - float(self.point.state.time)

    def _work(self) -> int:
        """Problems solved; of steps of one stage, their starts."""
        return self.made.counts["solves"] + self.starts

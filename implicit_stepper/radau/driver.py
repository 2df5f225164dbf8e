"""A run with error control that ends its steps on events: the host's part, from event to event.

`event_loop.advance` takes steps up to an event and ends one exactly there; `impact.meet` gives bodies that meet their
new velocities and the forces with which motion goes on. What cannot be landed on is crossed by shorter steps, which the
error estimate judges, and at last by the paper's step."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints.joint_limits import limit_names
from ..model.bodies import State
from ..model.results import Interrupted, Result, StepError
from ..model.system import System, in_user_order
from ..runtime.compilation import jit, prepare
from ..runtime.progress import Progress, doing, first_call, next_call
from ..stepping import loop
from ..stepping.run_certificate import first_gaps
from ..stepping.stepper import closest_points
from ..stepping.sweep import Passage, Sweep
from . import after_events, euler_steps, impact_records, painleve, stage_records
from .apart import sharp
from .elsewhere import meets_elsewhere
from .error_control import Tolerance
from .event_loop import Limits, Point, Reason, Taken, Way, advance, way_from
from .events import Event, event_of, found_events
from .euler_steps import Known
from .impact import Impact
from .radau_contact import Memory, RadauContact
from .refusals import SHORTEST, refuse_overlap, unit
from .stages import Modes

_FIRST = 1e-2  # of sqrt(L / g): the first step to try
_AFTER = 0.5  # of the step before an event: the one after it, of motion that nothing extrapolates yet
# of sqrt(tol L / g): steps of one stage; those up to 1 are of no weight in the error of a smooth motion, longer ones are
# counted
_THROUGH = (10.0, 1.0, 1e-1, 1e-2, 1e-3)  # an impact, as short as can be
_FORCES = (1.0, 10.0, 1e-1, 1e-2)  # not taken; on nearly flat ground short ones are hard
_ACROSS = (1.0, 10.0, 100.0)
_MOST = 1024  # steps of one stage at once
_PASSAGES = 100  # of bodies through each other that a run goes back from
# what a run depends on from here on, and has left
_KEPT = ("point", "way", "span", "began", "end", "taken", "landed", "one_stage", "hits", "counts", "starts", "across",
         "gaps", "passages")  # fmt: skip
_PER_UNIT = 2_000  # solves per sqrt(L / g): more are a cascade of events without end


@dataclasses.dataclass(frozen=True)
class Run:
    """What a run leaves: the `first` state and its `gaps` (nc,) [m]; `steps`, NumPy arrays with a first axis, of which the
    first has no length if the run began with an impact; `events`; `one_stage`, the certificates of steps of the paper's
    scheme by their number; `counts` of solves by kind; why it stopped early, if it did; and whether it was interrupted."""

    first: State
    gaps: np.ndarray
    steps: Taken
    events: list[Event]
    one_stage: dict[int, dict[str, np.ndarray]]
    counts: dict[str, int]
    failure: str
    interrupted: bool


@jit
def _here(system: System, state: State, memory: Memory):
    """Closest points and tangents of `memory`, as `after_events.resume` asks for them."""
    references = jnp.concatenate([*memory.references, jnp.zeros((0, system.dimension))])
    return tuple(stage_records.long_forms(system, state, memory.constraints)), in_user_order(system, references)


def _programs(ahead: Callable, stepper: RadauContact, system: System, state: State, references, limits: Limits, h) -> None:
    """What a run from `state` calls, for `compilation.prepare`."""
    closest = ahead(closest_points, system, state)
    holds = ahead(after_events.at_rest, system, state, closest) if system.sticks_more else ()
    hit, memory, modes = ahead(after_events.resume, stepper, system, state, closest, references, holds)
    after = hit.state
    way = way_from(stepper, system, Point(after, memory, modes, np.asarray(False), h))
    _, taken, *_ = ahead(advance, stepper, system, way, limits)
    if sharp(system):
        loop.programs(ahead, stepper.one_stage, system, state, 0.0, closest)
    ahead(_here, system, after, memory)
    ahead(loop.certificates, stepper, system, after, taken.state, taken.contacts, taken.h)


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
    """From `state` to the last of `ends` [s], times at which a step must end; `step_tolerance` certifies the paper's steps;
    `told` hears how far the run is; `sweep` tells where bodies pass through each other. Ctrl-C ends it, as far as it is.
    Where it can go on from later, it calls `offer` with what gives the `kept` to do so."""
    driver, stopped = _Driver(stepper, system, state, tolerance, step_tolerance, ends[0], told, sweep), False
    driver.offer = offer
    try:
        driver.begin() if kept is None else driver.take_up(kept)
        for end in ends[ends.index(driver.end) :]:
            driver.to(end)
            if driver.failure:
                break
            if end != ends[-1]:
                driver.resume()
    except KeyboardInterrupt:
        stopped = True
    if stopped and not driver.taken:
        raise Interrupted(trajectory=None, state=state, end=ends[-1])
    return driver.left(stopped)


class _Driver:
    """The state of a run: the present `Point`, and what was left so far."""

    def __init__(
        self,
        stepper: RadauContact,
        system: System,
        state: State,
        tolerance: Tolerance,
        step_tolerance: float,
        end: float,
        told: Progress,
        sweep: Sweep,
    ):
        self.stepper, self.system, self.tolerance, self.step_tolerance = stepper, system, tolerance, step_tolerance
        self.sweep, self.passages = sweep, 0
        self.unit = unit(system)
        relative = min(float(tolerance.position) / float(system.length), float(tolerance.angle))
        self.small = self.unit * np.sqrt(relative)  # [s]: the error of a step of one stage is the tolerance
        self.first, self.start, self.end = state, state.position, end
        self.gaps = np.zeros(system.contact_count)
        self.told, self.begun = told, float(state.time)
        self.taken: list[Taken] = []
        self.landed: list[Event] = []
        self.one_stage: dict[int, dict[str, np.ndarray]] = {}
        self.hits: list[tuple[int, Impact]] = []
        self.counts = dict.fromkeys(("solves", "inaccurate", "landings", "impacts", "one-stage steps", "coarse steps"), 0)
        self.starts, self.across = 0, 1
        self.failure = ""
        self.faces = sharp(system)
        self.solves = first_call(stepper.stages * system.unknown_count)
        # the way between two events, if on one; the work done and allowed until `end`; the time left as it began
        self.way: Way | None = None
        self.span: tuple[int, int] | None = None
        self.began = 0.0

    def kept(self) -> dict:
        """All that the run depends on from here on, and what it left."""
        self.taken = [jax.tree.map(lambda *parts: np.concatenate(parts), *self.taken)] if self.taken else []
        return {name: getattr(self, name) for name in _KEPT} | {"swept": self.sweep.last}

    def take_up(self, kept: dict) -> None:
        """Goes on from what another process has `kept`."""
        for name in _KEPT:
            setattr(self, name, kept[name])
        self.point, self.way, self.sweep.last = *jax.device_put((self.point, self.way)), kept["swept"]

    def begin(self) -> None:
        """Compiles, and finds the first `Point`."""
        stepper, system, state = self.stepper, self.system, self.first
        references = np.tile(np.eye(system.dimension)[0], (system.contact_count, 1))
        h = np.asarray(_FIRST * self.unit)
        prepare(_programs, stepper, system, state, references, self._limits(0), h)
        closest = closest_points(system, state)
        self.gaps = first_gaps(system, closest)
        refuse_overlap(system, self.gaps)
        self._go_on(state, closest, references, h)

    def to(self, end: float) -> None:
        """Steps until `end` [s], or until nothing helps."""
        self.end = end
        if self.span is None:
            self.span = self._work(), int(_PER_UNIT * max(self._left() / self.unit, 1.0))
        before, most = self.span
        while not self.failure and self._left() > SHORTEST * self.unit:
            reason = self._smoothly(before + most)
            if self.began - self._left() > self.across * self.small:
                self.across = 1
            if reason == Reason.END:
                break
            if self._work() - before >= most:
                self.failure = (
                    f"more than {_PER_UNIT} problems were solved for every {self.unit:.3g} s: events follow each other "
                    "without end. Look at the last ones; a larger `tol`, or GeometricallyImplicit with a fixed `h`, steps "
                    "over them."
                )
            elif reason == Reason.TOO_SHORT:
                self._cross()
            elif reason == Reason.EVENT:
                self.resume(self.point.modes)
        self.span = None

    def _smoothly(self, most: int) -> Reason:
        """Steps to the end or to an event, if there is a way there before the work is `most`; and why these are all."""
        if self.way is None:
            self.way, self.began = way_from(self.stepper, self.system, self.point), self._left()
        way, reason = self.way, Reason.PAUSED
        while reason == Reason.PAUSED and self._work() < most:
            solves, begun = min(self.solves, most - self._work()), time.perf_counter()
            way, records, count, counts = advance(self.stepper, self.system, way, self._limits(solves))
            count, reason, solves = int(count), Reason(int(way.reason)), int(counts.solves)
            self.solves = next_call(solves, time.perf_counter() - begun, loop.CHUNK)
            for name in ("solves", "inaccurate", "landings"):
                self.counts[name] += int(getattr(counts, name))
            if count:
                taken = jax.tree.map(lambda a, count=count: np.asarray(a)[:count], records)
                passage = self.sweep.first(self.point.state, taken.state, taken.contacts, taken.h)
                if passage is not None:
                    self.way = None
                    self._meet_earlier(taken, passage)
                    return Reason.PAUSED
                if reason == Reason.EVENT:  # noted first: an interruption leaves no step without it
                    last = jax.tree.map(lambda a: a[-1], taken)
                    self.landed.append(event_of(self.system, last.modes, float(last.state.time), int(way.event)))
                self.taken.append(taken)
            self.point, self.way = way.point, way if reason == Reason.PAUSED else None
            self.told.to(float(self.point.state.time) - self.begun)
            if reason == Reason.PAUSED:
                self.offer(self.kept)
        self.way = None
        return reason

    def _meet_earlier(self, taken: Taken, passage: Passage) -> None:
        """Goes on from the step of `taken` in which bodies pass through each other, with one that ends where they overlap
        most, so that their meeting is an event in it."""
        before = self.point.state
        if passage.step:
            self.taken.append(jax.tree.map(lambda a: a[: passage.step], taken))
            before = jax.device_put(jax.tree.map(lambda a: a[passage.step - 1], taken.state))
        references = np.tile(np.eye(self.system.dimension)[0], (self.system.contact_count, 1))
        h = np.asarray(passage.share * taken.h[passage.step])
        self.passages += 1
        if self.passages > _PASSAGES:
            self.failure = f"{' and '.join(self.system.contact_names[passage.number])}: {Result.PASSED.message}"
        self._go_on(before, closest_points(self.system, before), references, h)

    def resume(self, modes: Modes | None = None) -> None:
        """Goes on from the present state with forces found anew, after an impact if bodies meet in it; otherwise with
        `modes`, if they are given."""
        closest, references = _here(self.system, self.point.state, self.point.memory)
        h = np.asarray(self.point.h) * (1.0 if modes is None else _AFTER)
        self._go_on(self.point.state, closest, references, h, modes)

    def left(self, stopped: bool) -> Run:
        """The run as it is now."""
        if not self.taken:
            state = jax.tree.map(np.asarray, self.first)
            begun = float(state.time)
            what = f"the first step, from t = {begun:.9g} s, failed: {self.failure}"
            raise StepError(what, result=Result.NOT_CONVERGED, time=begun, trajectory=None, state=state, certificate={})
        taken = impact_records.with_impacts(jax.tree.map(lambda *parts: np.concatenate(parts), *self.taken), self.hits)
        moves = jax.tree.map(lambda a: a[int(taken.h[0] == 0) :], taken)
        events = found_events(self.system, self.first, moves, self.landed)
        events = sorted(painleve.wedges(self.system, self.first, moves) + events, key=lambda event: event.time)
        own = {number: values for number, values in self.one_stage.items() if number < len(taken.h)}
        return Run(self.first, self.gaps, taken, events, own, self.counts, self.failure, stopped)

    def _limits(self, most: int) -> Limits:
        """Of the way to the present end, with `most` problems at once."""
        return Limits(self.tolerance, self.start, np.asarray(self.end), np.asarray(SHORTEST * self.unit), np.asarray(most))

    def _go_on(self, state: State, closest, references, h, modes: Modes | None = None) -> None:
        """From `state` with closest points like `closest`: the next `Point`, with a step of h [s] to
        try; after no impact, with `modes`.

        Where bodies meet in faces or edges, one point of each does not say where impulses act; steps
        of the paper's scheme find the centres of pressure. One that is not taken leaves the forces;
        where it, or the motion after the impact, tells that bodies meet elsewhere than at that point,
        a tiny one before it goes through the impact."""
        broke = bool(self.landed) and self.landed[-1].kind == "slips"
        hit, memory, guess, modes = after_events.found(self.stepper, self.system, state, closest, references, modes, broke)
        # those found here are as good as the start from `closest`, which may be of another corner
        gaps = self.taken[-1].contacts.gap[-1] if self.taken else self.gaps
        memory = dataclasses.replace(memory, gaps=jax.device_put(gaps))
        if not self.taken:
            names = [*range(self.system.contact_count), *limit_names(self.system)]
            self.landed = [Event(float(state.time), names[which], "closes") for which in np.flatnonzero(hit.met)]
        smooth = modes is not None and not bool(hit.acts)
        self.point = Point(hit.state, memory, modes if smooth else guess, np.asarray(False), h)
        if not self.faces:
            self._count_impact(hit)
            return
        good = bool(hit.converged) and not meets_elsewhere(self.system, hit.state, closest)
        if good:
            found = self._forces(hit.state)
            good = not (found.solved and euler_steps.meet(self.system, found))
        if good:
            self._count_impact(hit)
        else:
            self.point = dataclasses.replace(self.point, state=state)
            known, sizes = Known(self._gaps()), self._sizes(_THROUGH)
            self._take(euler_steps.through(*self._one(), state, known, sizes, self.step_tolerance))
            found = self._forces(self.point.state)
        if found.solved:
            memory = euler_steps.memory_before(self.stepper.stages, self.system, found)
            self.point = dataclasses.replace(self.point, memory=memory)

    def _forces(self, state: State) -> euler_steps.Series:
        found = euler_steps.forces(*self._one(), state, self._known(), self._sizes(_FORCES), self.step_tolerance)
        self.starts += found.starts
        return found

    def _count_impact(self, hit: Impact) -> None:
        """Notes an impact at the end of the steps so far: at the start, of one that has no length."""
        if not bool(hit.converged):
            self.failure = (
                "the impact was not solved. Check masses and friction for values that are off by orders of magnitude."
            )
        if bool(hit.acts):
            self.counts["impacts"] += 1
            none = [] if self.taken else [impact_records.standing(self.stepper.stages, self.first, hit, self.point.modes)]
            # noted first: an interruption leaves no such step without it
            self.hits.append((sum(len(taken.h) for taken in self.taken) + len(none), hit))
            self.taken += none

    def _cross(self) -> None:
        """Steps of the paper's scheme, as long as their error allows, the more of them the longer smooth steps fail."""
        rebounds = any(group.restitution is not None for group in self.system.groups)
        count = 1 if rebounds else min(self.across, math.ceil(self._left() / self.small))
        self.across = min(2 * self.across, _MOST)
        self.point = dataclasses.replace(self.point, h=np.asarray(self.small))
        sizes = self._sizes(_ACROSS, count)
        with doing(f"steps of first order from t = {float(self.point.state.time):.6g} s"):
            found = euler_steps.steps(*self._one(), self.point.state, self._known(), sizes, self.step_tolerance, count)
        if rebounds and found.solved and euler_steps.meet(self.system, found):
            self.failure = "bodies met in a step of first order, which knows no `restitution`. Try another `tol`."
            return
        self._take(found)
        if not self.failure and self._left() > SHORTEST * self.unit:
            self.resume()

    def _take(self, found: euler_steps.Series) -> None:
        """Steps of the paper's scheme from the present point."""
        self.starts += found.starts
        if not found.solved:
            self.failure = (
                "a step of one stage was not solved either. Try another `tol`, or GeometricallyImplicit with a fixed `h`."
            )
            return
        self.landed += painleve.jams(self.system, self.point.state, found)
        for record in found.records:
            first = sum(len(taken.h) for taken in self.taken)
            for i in range(len(record.result)):
                self.one_stage[first + i] = {name: values[i] for name, values in record.certificates.items()}
            self.taken.append(impact_records.as_stages(self.stepper.stages, record, self.point.modes, found.h))
            self.counts["one-stage steps"] += len(record.result)
            self.counts["coarse steps"] += len(record.result) * int(found.h > 1.5 * self.small)
        memory = dataclasses.replace(self.point.memory, gaps=jax.device_put(found.records[-1].contacts.gap[-1]))
        self.point = dataclasses.replace(self.point, state=jax.device_put(found.after), memory=memory)
        self.told.to(float(self.point.state.time) - self.begun)

    def _one(self):
        return self.stepper.one_stage, euler_steps.without_rebounds(self.system)

    def _gaps(self):
        """Of the present point (nc,) [m]."""
        return self.point.memory.gaps

    def _known(self) -> Known:
        """Of the present point, with what sticks in it."""
        return Known(self._gaps(), after_events.told_slips(self.system, self.point.modes))

    def _sizes(self, sizes, count: int = 1) -> list[float]:
        """In seconds; `count` such steps do not pass the end."""
        most = max(self._left(), SHORTEST * self.unit) / count
        return [float(min(k * self.small, most)) for k in sizes]

    def _left(self) -> float:
        """Time to the end [s]."""
        return self.end - float(self.point.state.time)

    def _work(self) -> int:
        """Problems solved; of steps of one stage, the starts of their ladder."""
        return self.counts["solves"] + self.starts

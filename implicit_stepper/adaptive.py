"""A run with error control that ends its steps on events: the host's part, from event to event.

`smooth_steps.advance` takes steps up to an event and ends one exactly there; `restart.meet` gives bodies that meet their
new velocities and the forces with which motion goes on. What cannot be landed on is crossed by shorter steps, which the
error estimate judges, and at last by the paper's step."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from . import restart, stage_records
from .bodies import State
from .compilation import jit
from .error_control import Tolerance
from .events import Event, event_of, found_events
from .ladder import climb
from .records import Stages
from .results import Result, StepError
from .smooth_steps import Limits, Point, Reason, Taken, advance
from .stages import Modes
from .steppers import radau_contact
from .steppers.base import begin, closest_points
from .steppers.radau_contact import Memory, RadauContact
from .steps import Record
from .system import System, in_user_order

_SHORTEST = 1e-9  # of sqrt(L / g): shorter steps have no digits left
_FIRST = 1e-2  # of sqrt(L / g): the first step to try
# of sqrt(tol L / g): steps of one stage at an event; those up to 1 are of no weight in the error, longer ones are counted
_SHORT = (1e-2, 1e-1, 1.0, 10.0, 100.0)
_FORCES = (1.0, 10.0, 1e-1, 1e-2)  # of the same: a step that finds forces; on nearly flat ground short ones are hard
_ROUNDINGS = 64  # errors of rounding that a violation gathers
_LADDER = 200  # problems that a step of one stage counts as
_PER_UNIT = 2_000  # solves per sqrt(L / g): more are a cascade of events without end


@dataclasses.dataclass(frozen=True)
class Run:
    """What a run leaves: the `first` state, after an impact if it began with one; `steps`, NumPy arrays with a first axis;
    `events`; `one_stage`, the certificates of steps of the paper's scheme by their number; `counts` of solves by kind; and
    why it stopped early, if it did."""

    first: State
    steps: Taken
    events: list[Event]
    one_stage: dict[int, dict[str, np.ndarray]]
    counts: dict[str, int]
    failure: str


@functools.partial(jit, static_argnums=0)
def _resume(stepper: RadauContact, system: System, state: State, closest, references):
    """Velocities after an impact in `state`, if there is one, its impulses (nc, 1 + k), whether it was solved; the memory
    with which motion goes on; and a guess of its modes."""
    hit, found = restart.meet(system, state, closest, references)
    memory = radau_contact.steady(stepper.stages, system, hit.state, found)
    return hit.state, hit.impulses, hit.converged, memory, radau_contact.modes_at_end(stepper, system, hit.state, memory)


@jit
def _here(system: System, state: State, memory: Memory):
    """Closest points and tangents of `memory`, as `_resume` asks for them."""
    references = jnp.concatenate([*memory.references, jnp.zeros((0, system.dimension))])
    return tuple(stage_records.long_forms(system, state, memory.contacts)), in_user_order(system, references)


def run(stepper: RadauContact, system: System, state: State, tolerance: Tolerance, ends, step_tolerance, report) -> Run:
    """From `state` to the last of `ends` [s], times at which a step must end; `step_tolerance` certifies the paper's steps;
    `report(time)` is called as the run goes on."""
    driver = _Driver(stepper, system, state, tolerance, step_tolerance)
    for end in ends:
        driver.to(end, report)
        if driver.failure:
            break
        if end != ends[-1]:
            driver.resume()
    return driver.left()


class _Driver:
    """The state of a run: the present `Point`, and what was left so far."""

    def __init__(self, stepper: RadauContact, system: System, state: State, tolerance: Tolerance, step_tolerance: float):
        self.stepper, self.system, self.tolerance, self.step_tolerance = stepper, system, tolerance, step_tolerance
        self.unit = float(np.sqrt(system.length / system.acceleration))  # [s]
        self.start = state.position
        self.taken: list[Taken] = []
        self.landed: list[Event] = []
        self.one_stage: dict[int, dict[str, np.ndarray]] = {}
        self.hits: list[tuple[int, np.ndarray, np.ndarray]] = []
        self.counts = dict.fromkeys(("solves", "inaccurate", "landings", "impacts", "one-stage steps", "coarse steps"), 0)
        self.failure = ""
        references = jnp.broadcast_to(jnp.eye(system.dimension)[0], (system.contact_count, system.dimension))
        self.faces = any(max(g.pair.first.count, g.pair.second.count) > 1 for g in system.groups)
        after, impulses, solved, memory, modes = _resume(stepper, system, state, closest_points(system, state), references)
        self.first = state if self.faces else after
        self.point = Point(self.first, memory, modes, jnp.asarray(False), jnp.asarray(_FIRST * self.unit, float))
        if self.faces:
            self.resume()
        else:
            self._count_impact(impulses, solved, after)

    def to(self, end: float, report) -> None:
        """Steps until `end` [s], or until nothing helps."""
        most = int(_PER_UNIT * max((end - float(self.point.state.time)) / self.unit, 1.0))
        shortest = jnp.asarray(_SHORTEST * self.unit, float)
        limits = Limits(self.tolerance, self.start, jnp.asarray(end, float), shortest, jnp.asarray(most))
        before = self._work()
        while not self.failure:
            self.point, records, count, reason, event, counts = advance(self.stepper, self.system, self.point, limits)
            count, reason = int(count), Reason(int(reason))
            for name in ("solves", "inaccurate", "landings"):
                self.counts[name] += int(getattr(counts, name))
            if count:
                self.taken.append(jax.tree.map(lambda a, count=count: np.asarray(a)[:count], records))
            report(float(self.point.state.time))
            if reason == Reason.END:
                return
            if self._work() - before >= most:
                self.failure = (
                    f"more than {_PER_UNIT} problems were solved for every {self.unit:.3g} s: events follow each other "
                    "without end. Look at the last ones; a larger `tol`, or GeometricallyImplicit with a fixed `h`, steps "
                    "over them."
                )
            elif reason == Reason.TOO_SHORT:
                self._cross(end)
            elif reason == Reason.EVENT:
                self.landed.append(event_of(self.system, self.point.modes, float(self.point.state.time), int(event)))
                self.resume()

    def resume(self) -> None:
        """Goes on from the present state with forces found anew, after an impact if bodies meet in it.

        Where bodies meet in faces or edges, one point of each does not say where the impulses act: there, two steps of the
        paper's scheme find the centres of pressure, the first through an impact, the second the forces after it."""
        if self.faces:
            memory, h = self._one_stage_step(None)
            before = self.point.state
            memory, h = self._one_stage_step(memory, _FORCES)
            if not self.failure:
                found = radau_contact.after_one_stage(self.stepper, self.system, before, self.point.state, memory, h)
                self.point = dataclasses.replace(self.point, memory=found, known=jnp.asarray(False))
            return
        closest, references = _here(self.system, self.point.state, self.point.memory)
        state, impulses, solved, memory, _ = _resume(self.stepper, self.system, self.point.state, closest, references)
        self._count_impact(impulses, solved, state)
        self.point = dataclasses.replace(self.point, state=state, memory=memory, known=jnp.asarray(False))

    def left(self) -> Run:
        """The run as it is now."""
        if not self.taken:
            state = jax.tree.map(np.asarray, self.first)
            what = f"the first step, from t = {float(state.time):.9g} s, failed: {self.failure}"
            raise StepError(
                what, result=Result.NOT_CONVERGED, time=float(state.time), trajectory=None, state=state, certificate={}
            )
        steps = with_impacts(jax.tree.map(lambda *parts: np.concatenate(parts), *self.taken), self.hits)
        events = found_events(self.system, self.first, steps, self.landed)
        return Run(self.first, steps, events, self.one_stage, self.counts, self.failure)

    def _count_impact(self, impulses, solved, state: State) -> None:
        """Notes an impact at the end of the steps so far."""
        impulses = np.asarray(impulses)
        if not bool(solved):
            self.failure = (
                "the impact was not solved. Check masses and friction for values that are off by orders of magnitude."
            )
        if np.any(impulses[:, 0] > 0):
            self.counts["impacts"] += 1
            self.hits.append((self._length(), np.asarray(state.velocity), impulses))

    def _cross(self, end: float) -> None:
        """A step of the paper's scheme, as long as its error allows: it crosses what no smooth step can."""
        h = self.unit * np.sqrt(self._relative())
        self._one_stage_step(None, _SHORT[2:])
        self.point = dataclasses.replace(self.point, h=jnp.asarray(h, float))
        if not self.failure:
            self.resume()

    def _one_stage_step(self, memory, sizes=None):
        """One step of the paper's scheme from the present point, by its whole ladder, of the first of `sizes` [s] that is
        solved: its memory and h."""
        one, state = self.stepper.one_stage, self.point.state
        memory = begin(one, self.system, state) if memory is None else memory
        sizes = self.unit * np.sqrt(self._relative()) * np.array(_SHORT if sizes is None else sizes)
        for h in sizes:
            allowed = self.step_tolerance + rounding(self.system, state.position, state.velocity, h)
            climbed = climb(one, self.system, state, memory, h, allowed)
            self.counts["one-stage steps"] += 1
            if climbed.solved:
                self.counts["coarse steps"] += int(h > 1.5 * self.unit * np.sqrt(self._relative()))
                self.one_stage[self._length()] = climbed.record.certificates
                self.taken.append(_as_stages(self.stepper.stages, climbed.record, self.point.modes, h))
                self.point = dataclasses.replace(self.point, state=jax.tree.map(jnp.asarray, climbed.record.state))
                return climbed.memory, h
        self.failure = (
            "a step of one stage was not solved either. Try another `tol`, or GeometricallyImplicit with a fixed `h`."
        )
        return memory, h

    def _work(self) -> int:
        """Problems solved, a step of one stage with its ladder counted as many."""
        return self.counts["solves"] + _LADDER * self.counts["one-stage steps"]

    def _relative(self) -> float:
        """The tolerance as a fraction of the scene's length."""
        return min(float(self.tolerance.position) / float(self.system.length), float(self.tolerance.angle))

    def _length(self) -> int:
        return sum(len(taken.h) for taken in self.taken)


def rounding(system: System, position, velocity, h):
    """What rounding alone leaves in a certificate of a step of h [s]: the units of speeds and gaps shrink with h, but not
    their digits. `position` and `velocity` (..., nb, :)."""
    speed, gap = system.acceleration * h, np.sqrt(system.acceleration * system.length) * h
    fastest = np.max(np.abs(velocity), axis=(-2, -1)) + speed
    farthest = np.max(np.abs(position), axis=(-2, -1)) + system.length
    return _ROUNDINGS * np.finfo(float).eps * np.asarray(fastest / speed + farthest / gap)


def with_impacts(steps: Taken, hits) -> Taken:
    """`steps` with the impacts at their ends: (how many steps came before it, velocity (nb, 6 or 3) after it, impulses)."""
    velocity, normal, friction = (
        np.array(a) for a in (steps.state.velocity, steps.contacts.normal_impulse, steps.contacts.friction_impulse)
    )
    for count, after, impulses in hits:
        if count > 0:
            velocity[count - 1] = after
            normal[count - 1] += impulses[:, 0]
            friction[count - 1] += impulses[:, 1:]
    state = dataclasses.replace(steps.state, velocity=velocity)
    contacts = dataclasses.replace(steps.contacts, normal_impulse=normal, friction_impulse=friction)
    return dataclasses.replace(steps, state=state, contacts=contacts)


def _as_stages(count: int, record: Record, modes: Modes, h: float) -> Taken:
    """A step of one stage in the form of several: constant rates and forces."""
    contacts, velocity = record.contacts, np.asarray(record.state.velocity)

    def repeated(a):
        return np.broadcast_to(a, (count, *np.shape(a)))

    own = Stages(repeated(velocity), repeated(velocity), repeated(0 * contacts.gap), jax.tree.map(repeated, contacts))
    one = Taken(record.state, dataclasses.replace(contacts, stages=own), record.stats, modes, np.asarray(h))
    return jax.tree.map(lambda a: np.asarray(a)[None], one)

"""What a run with error control has made so far: its steps, events, impacts and counts."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from ..constraints import impact_rows
from ..model.bodies import State
from ..model.results import Failure
from ..model.system import System
from . import impact_records, painleve
from .euler_steps import Series
from .events import Event, found_events, named
from .impact import Impact
from .stages import Modes
from .way import Taken

_COUNTS = ("solves", "inaccurate", "landings", "impacts", "one-stage steps", "coarse steps")


@dataclasses.dataclass(frozen=True)
class Run:
    """What a run leaves: the `first` state and its `gaps` (nc,) [m]; `steps`, NumPy arrays with a
    first axis, of which some have no length and hold an impact; `events`;
    `one_stage`, the certificates of steps of the paper's scheme by their number; `counts` of solves
    by kind; why it stopped early, if it did; whether it was interrupted; and what else the user is
    `told`."""

    first: State
    gaps: np.ndarray
    steps: Taken
    events: list[Event]
    one_stage: dict[int, dict[str, np.ndarray]]
    counts: dict[str, int]
    failure: Failure | None
    interrupted: bool
    told: str


@dataclasses.dataclass
class Made:
    """The parts of a `Run` of a method of `stages`, as far as it is: `taken`, its steps piece by
    piece; `landed`, the events that steps ended on; `hits`, impacts with how many steps came before
    them."""

    stages: int
    system: System
    first: State
    gaps: np.ndarray
    taken: list[Taken] = dataclasses.field(default_factory=list)
    landed: list[Event] = dataclasses.field(default_factory=list)
    one_stage: dict[int, dict[str, np.ndarray]] = dataclasses.field(default_factory=dict)
    hits: list[tuple[int, Impact]] = dataclasses.field(default_factory=list)
    counts: dict[str, int] = dataclasses.field(default_factory=lambda: dict.fromkeys(_COUNTS, 0))

    def kept(self) -> dict:
        """What another process needs to go on, see `take_up`."""
        self.taken = [_joined(self.taken)] if self.taken else []
        return {name: getattr(self, name) for name in ("gaps", "taken", "landed", "one_stage", "hits", "counts")}

    def take_up(self, kept: dict) -> None:
        """Goes on from what another process has `kept`."""
        for name, values in kept.items():
            setattr(self, name, values)

    def last_gaps(self) -> np.ndarray:
        """Gaps (nc,) [m] where the steps so far end."""
        return self.taken[-1].contacts.gap[-1] if self.taken else self.gaps

    def add_first_meetings(self, hit: Impact) -> None:
        """Notes as events what meets where the run begins."""
        self.landed = [Event(float(self.first.time), name, "closes") for name in self._met(hit)]

    def add_impact(self, hit: Impact, modes: Modes, moved: bool) -> None:
        """Notes an impact at the end of the steps so far: at the start, and where it has `moved` to
        other points of contact than theirs, of one that has no length, with `modes`."""
        if not bool(hit.acts):
            return
        self.counts["impacts"] += 1
        if self.taken:
            self._add_meetings(hit)
        here = jax.tree.map(lambda a: a[-1], self.taken[-1].state) if self.taken else self.first
        none = [impact_records.standing(self.stages, self.system, here, hit, modes)] if moved or not self.taken else []
        # noted first: an interruption leaves no such step without it
        self.hits.append((self._count() + len(none), hit))
        self.taken += none

    def _met(self, hit: Impact) -> list[int | str]:
        """What events call all that met in `hit`."""
        names = impact_rows.names(self.system)
        return [names[which] for which in np.flatnonzero(hit.met)]

    def _add_meetings(self, hit: Impact) -> None:
        """Notes as events what met at the end of the steps so far and had not touched in the last
        of them: it ended on one of several that meet at once, and what rebounds changes no mode."""
        time, last, apart = float(hit.state.time), self.taken[-1].modes, set()
        for g, group in enumerate(self.system.constraints):
            of = zip(group.numbers, last.touching[g][-1], strict=True)
            apart |= {named(self.system, g, number) for number, touched in of if not touched}
        apart -= {event.contact for event in self.landed if event.kind == "closes" and event.time == time}
        self.landed += [Event(time, name, "closes") for name in self._met(hit) if name in apart]

    def add_one_stage(self, found: Series, modes: Modes, coarse: bool) -> None:
        """Notes steps of the paper's scheme, which may be `coarse`."""
        for record in found.records:
            steps = len(record.result)
            for i in range(steps):
                self.one_stage[self._count() + i] = {name: values[i] for name, values in record.certificates.items()}
            self.taken.append(impact_records.as_stages(self.stages, self.system, record, modes, found.h))
            self.counts["one-stage steps"] += steps
            self.counts["coarse steps"] += steps * int(coarse)

    def run(self, failure: Failure | None, stopped: bool, told: str) -> Run:
        """The run as it is now, of which the user is `told`; it may be of no step."""
        if not self._count():
            return Run(self.first, self.gaps, _joined(self.taken), [], {}, self.counts, failure, stopped, told)
        taken = impact_records.with_impacts(_joined(self.taken), self.hits)
        met = taken.h[0] == 0  # as the run begins
        begun = dataclasses.replace(self.first, velocity=taken.state.velocity[0]) if met else self.first
        moves = jax.tree.map(lambda a: a[int(met) :], taken)
        events = found_events(self.system, self.first, moves, self.landed)
        events = sorted(painleve.wedges(self.system, begun, moves) + events, key=lambda event: event.time)
        own = {number: values for number, values in self.one_stage.items() if number < len(taken.h)}
        return Run(self.first, self.gaps, taken, events, own, self.counts, failure, stopped, told)

    def _count(self) -> int:
        """How many steps there are."""
        return sum(len(taken.h) for taken in self.taken)


def _joined(taken: list[Taken]) -> Taken:
    return jax.tree.map(lambda *parts: np.concatenate(parts), *taken)

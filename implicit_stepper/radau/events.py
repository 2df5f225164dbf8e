"""The events of a run: when which contact opened or closed, began to slide or to stick, or passed
to another face or edge."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shapes.errors import ArgumentError

from ..model.bodies import State
from ..model.system import System
from .stages import Modes
from .way import Taken

# [s]: times of one event; steps of one stage may lie between its landing and its change of modes
_SAME = 1e-5


_BRANCHES = {"opens": 0, "closes": 0, "slips": 1, "sticks": 1, "moves": 2}


class Event(NamedTuple):
    """At `time` [s], `contact`, in the order of the trajectory's contacts, "opens", "closes",
    "slips", "sticks" or "moves": to another face or edge; "wedges" or "jams": see `painleve`. Of a
    joint, `contact` is its name."""

    time: float
    contact: int | str
    kind: str


def event_of(system: System, modes: Modes, time: float, margin: int) -> Event:
    """The event at which the branch of `modes` is left whose number `stage_modes.margins`
    counts."""
    for g, group in enumerate(system.constraints):
        width = 2 + np.shape(modes.active[g])[-1]
        if margin < len(group.numbers) * width:
            contact, which = divmod(margin, width)
            if which == 0:
                kind = "opens" if bool(modes.touching[g][contact]) else "closes"
            elif which == 1:
                kind = "slips" if bool(modes.sticking[g][contact]) else "sticks"
            else:
                kind = "moves"
            return Event(time, named(system, g, group.numbers[contact]), kind)
        margin -= len(group.numbers) * width
    raise ArgumentError(f"`margin` = {margin} is not that of a contact.")


def branches_left(system: System, events: list[Event]) -> tuple[np.ndarray, ...]:
    """Per group of constraints, which branches (n, 3) are left in these `events`: of its gap or
    force, of friction, and of its faces and edges."""
    found = []
    for g, group in enumerate(system.constraints):
        own = np.zeros((len(group.numbers), 3), bool)
        for i, number in enumerate(group.numbers):
            for event in events:
                if event.contact == named(system, g, number) and event.kind in _BRANCHES:
                    own[i, _BRANCHES[event.kind]] = True
        found.append(own)
    return tuple(found)


def found_events(system: System, first: State, steps: Taken, landed: list[Event]) -> list[Event]:
    """All events in the order of time: changes of modes between steps, and those `landed` on that
    changed none. What comes to stick and slides on, as it turns back, slips at once."""
    starts = np.concatenate([[np.asarray(first.time)], steps.state.time[:-1]])
    events, stuck = [], set(landed)
    for g, group in enumerate(system.constraints):
        touching, sticking, active = steps.modes.touching[g], steps.modes.sticking[g], steps.modes.active[g]
        for i in range(1, len(starts)):
            for c, number in enumerate(group.numbers):
                before, after = touching[i - 1, c], touching[i, c]
                if before != after:
                    kind = "closes" if after else "opens"
                elif not after:
                    continue
                elif sticking[i - 1, c] != sticking[i, c]:
                    kind = "sticks" if sticking[i, c] else "slips"
                elif not sticking[i, c] and Event(float(starts[i]), named(system, g, number), "sticks") in stuck:
                    kind = "slips"
                elif np.any(active[i - 1, c] != active[i, c]):
                    kind = "moves"
                else:
                    continue
                events.append(Event(float(starts[i]), named(system, g, number), kind))
    # one that was landed on and changed a mode is known twice, and more exactly from its landing
    twice = [any(e[1:] == other[1:] and abs(e.time - other.time) <= _SAME for other in landed) for e in events]
    every = landed + [event for event, known in zip(events, twice, strict=True) if not known]
    # contacts have numbers, and joints names
    return sorted(every, key=lambda event: (event.time, isinstance(event.contact, str), event.contact, _late(event)))


def _late(event: Event) -> tuple[bool, str]:
    """Of events of one contact at one time what slips comes last."""
    return event.kind == "slips", event.kind


def named(system: System, group: int, number: int) -> int | str:
    """What an event calls a constraint: a contact by its number, a joint by its name."""
    return number if group < len(system.groups) else system.joint_names[number]

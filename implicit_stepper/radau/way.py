"""Where the loop of chosen steps is between two problems: what it has reached and what it tries
next."""

from __future__ import annotations

import dataclasses
import enum

import jax

from ..model.bodies import State
from ..model.records import Contacts, Stats
from ..solvers.static_condensation import Factors
from .error_control import Tolerance
from .memory import Memory
from .slots import Slots
from .stages import Modes


class Reason(enum.IntEnum):
    """Why the loop returned: to be called again, as its records are full or enough problems are
    solved; at the end of its time; at an event; the step that would do is too short; or more
    contacts touch than there are slots for."""

    PAUSED = -1
    END = 0
    EVENT = 1
    TOO_SHORT = 2
    CROWDED = 3


class Kind(enum.IntEnum):
    """How a step is solved."""

    FREE = 0
    HELD = 1
    LANDING = 2


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Point:
    """Between two steps: `state` and `memory`; the `modes` of all contacts, a guess after an event
    unless they are `known` (); `h` [s], the step to try next; `rough` (), by how much its error may
    exceed what others are allowed, 1 but after steps of first order."""

    state: State
    memory: Memory
    modes: Modes
    known: jax.Array
    h: jax.Array
    rough: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Taken:
    """One accepted step: the `state` it ends in, what it left, its `modes` and `h` [s]."""

    state: State
    contacts: Contacts
    stats: Stats
    modes: Modes
    h: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Limits:
    """What a run holds to: `tolerance`; `start` (nb, d), the bodies' first positions; `end` [s];
    `shortest` h [s]; `solves`, the largest number of problems at once."""

    tolerance: Tolerance
    start: jax.Array
    end: jax.Array
    shortest: jax.Array
    solves: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Counts:
    """Problems solved, with modes free or held; steps refused as inaccurate; landings tried."""

    solves: jax.Array
    inaccurate: jax.Array
    landings: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Try:
    """What is tried next: `kind` (), with step `h` [s], towards `event` (), from `hint` (see
    `Task`); `approached`: whether the way to the event was cut short; `tested`: whether the step
    was solved as it stands; how many branches of a guess were `turned` ()."""

    kind: jax.Array
    h: jax.Array
    event: jax.Array
    hint: Memory
    approached: jax.Array
    tested: jax.Array
    turned: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Way:
    """Where the loop is: the `point` that it has reached, the `plan` for what comes next, the
    `factors` of the last Jacobian, the contacts that were in its `slots`, the `last` h [s] taken,
    `failed` (), landings since then, and the `reason` () why it returned."""

    point: Point
    plan: Try
    factors: Factors
    slots: Slots
    last: jax.Array
    failed: jax.Array
    reason: jax.Array

    @property
    def event(self) -> jax.Array:
        """The number of the margin that vanishes at an event (see `stage_modes.margins`)."""
        return self.plan.event

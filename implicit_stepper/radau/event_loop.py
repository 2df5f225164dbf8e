"""A compiled loop of steps with error control, until a contact changes its mode: then to that event.

A step is solved with every complementarity replaced by the half that held at its start (`HELD`). If no half is left on the
way, that is a root of the complementarity problem. If one is, a root would have a kink within the step and lose its order:
so the first half to be left is found on the polynomials, and the step is solved once more so that it ends exactly there
(`LANDING`), h being one more unknown. Where halves are not known, or nothing else helps, the problem is solved as it stands
(`FREE`). All three are one program: see `radau_contact.Task`."""

from __future__ import annotations

import dataclasses
import enum
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..model.bodies import State
from ..model.records import Contacts, Stats
from ..model.results import Result
from ..model.system import System
from ..runtime.compilation import jit
from ..solvers.collocation import radau
from ..solvers.static_condensation import Factors
from ..stepping.loop import CHUNK
from . import radau_contact
from .after_events import broken
from .error_control import Tolerance, next_step, ratio
from .radau_contact import Attempt, Memory, RadauContact, Task
from .stage_modes import equal, switched
from .stages import Modes

_LESS, _MUCH_LESS = 0.9, 0.25  # by which a refused step is shortened at least, and one whose modes are unclear
# of a step: an event before it is looked for again in a step this much shorter, whose polynomials are exact enough
_EARLY = 0.1
_SAMPLES = 64  # of a step's polynomials, in search of the first half that is left
_LEFT = 5e-11  # by how much a half must be violated to count as left, in the units of the rows: less than certificates see
_APPROACH = 0.75  # of the way to an event is one step, so that the last one is short, and its forces exact
_SHORT = 0.5  # of the last step: one that needs no such approach
_PATIENCE = 8  # Jacobians, where few are needed or others would not help
_LENIENT = 3  # failed landings before a change of modes within a step is accepted, if the step is accurate all the same


class Reason(enum.IntEnum):
    """Why the loop returned: to be called again, as its records are full or enough problems are solved; at the end of its
    time; at an event; or the step that would do is too short."""

    PAUSED = -1
    END = 0
    EVENT = 1
    TOO_SHORT = 2


class Kind(enum.IntEnum):
    """How a step is solved."""

    FREE = 0
    HELD = 1
    LANDING = 2


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Point:
    """Between two steps: `state` and `memory`; the `modes` of all contacts, a guess after an event unless they are `known`
    (); `h` [s], the step to try next."""

    state: State
    memory: Memory
    modes: Modes
    known: jax.Array
    h: jax.Array


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
    """What a run holds to: `tolerance`; `start` (nb, d), the bodies' first positions; `end` [s]; `shortest` h [s];
    `solves`, the largest number of problems at once."""

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
class _Try:
    """What is tried next: `kind` (), with step `h` [s], towards `event` (), from `hint` (see `Task`); `approached`: whether
    the way to the event was cut short; `tested`: whether the step was solved as it stands."""

    kind: jax.Array
    h: jax.Array
    event: jax.Array
    hint: Memory
    approached: jax.Array
    tested: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Way:
    """Where the loop is: the `point` that it has reached, the `plan` for what comes next, the `factors` of the last
    Jacobian, the `last` h [s] taken, `failed` (), landings since then, and the `reason` () why it returned."""

    point: Point
    plan: _Try
    factors: Factors
    last: jax.Array
    failed: jax.Array
    reason: jax.Array

    @property
    def event(self) -> jax.Array:
        """The number of the margin that vanishes at an event (see `stage_modes.margins`)."""
        return self.plan.event


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Carry:
    way: Way
    records: Taken
    count: jax.Array
    counts: Counts


def way_from(stepper: RadauContact, system: System, point: Point) -> Way:
    """At `point`, to begin anew; in NumPy, so that nothing is compiled for it."""
    no = np.asarray(False)
    plan = _Try(np.asarray(int(Kind.FREE)), point.h, np.asarray(-1), point.memory, no, no)
    factors = radau_contact.no_factors(stepper, system)
    return Way(point, plan, factors, np.asarray(np.inf), np.asarray(0), np.asarray(int(Reason.END)))


@functools.partial(jit, static_argnums=0)
def advance(stepper: RadauContact, system: System, way: Way, limits: Limits):
    """Goes on from where a `way` is paused, otherwise begins anew at its point. The way then; `Taken` with a first axis of
    CHUNK, and how many of them are filled; `Counts` of this call. Pauses change no number."""
    zero, no, point = jnp.zeros((), int), jnp.asarray(False), way.point
    clear = equal(point.modes.touching, point.modes.pressed)
    plan = _ordinary(jnp.where(clear, int(Kind.HELD), int(Kind.FREE)), point, limits, point.h, no)
    factors = jax.tree.map(jnp.zeros_like, way.factors)
    shapes, _ = jax.eval_shape(functools.partial(_attempt, stepper), system, point, plan, factors)
    empty = Taken(shapes.step.state, shapes.step.contacts, shapes.step.stats, point.modes, point.h)
    empty = jax.tree.map(lambda s: jnp.zeros((CHUNK, *jnp.shape(s)), s.dtype), empty)
    anew = Way(point, plan, factors, jnp.asarray(jnp.inf), zero, zero + int(Reason.PAUSED))
    way = jax.tree.map(lambda a, b: jnp.where(way.reason == Reason.PAUSED, a, b), way, anew)

    def proceed(carry):
        room = (carry.count < CHUNK) & (carry.counts.solves < limits.solves)
        return room & (carry.way.reason == Reason.PAUSED)

    start = _Carry(way, empty, zero, Counts(zero, zero, zero))
    end = lax.while_loop(proceed, functools.partial(_next, stepper, system, limits), start)
    return end.way, end.records, end.count, end.counts


def _ordinary(kind, point: Point, limits: Limits, h, approached) -> _Try:
    """A step of about `h` [s], that leaves no crumbs before the end."""
    left = limits.end - point.state.time
    h = jnp.where(left < 1.01 * h, left, jnp.where(left < 2 * h, left / 2, h))
    return _Try(kind, h, jnp.asarray(-1), point.memory, approached, jnp.asarray(False))


@functools.partial(jax.jit, static_argnums=0)
def _attempt(stepper: RadauContact, system: System, point: Point, plan: _Try, factors: Factors) -> tuple[Attempt, Factors]:
    landing, free = plan.kind == Kind.LANDING, plan.kind == Kind.FREE
    patience = jnp.where(landing | (free & ~point.known), stepper.max_iterations, _PATIENCE)
    task = Task(plan.h, point.modes, ~free, plan.event, plan.hint, jnp.where(landing, 0.0, 1.0), patience)
    return radau_contact.attempt(stepper, system, point.state, point.memory, task, factors)


def _next(stepper: RadauContact, system: System, limits: Limits, carry: _Carry) -> _Carry:
    """One more problem solved, and what follows from it."""
    way, counts = carry.way, carry.counts
    point, plan = way.point, way.plan
    tried, factors = _attempt(stepper, system, point, plan, way.factors)
    step, h = tried.step, tried.h
    errors = (tried.missed, tried.created)
    estimate = functools.partial(ratio, system, limits.tolerance, stepper.stages, point.state, limits.start, *errors)
    size, slopes = estimate(h), estimate(jnp.sqrt(system.length / system.acceleration))
    solved, fine = step.result == Result.SOLVED, size <= 1
    free, held, landing = (plan.kind == kind for kind in Kind)

    event, theta = _first_left(stepper.stages, tried.margins)
    earlier, missed = _others_left(tried.margins, plan.event), _missed(tried.margins, plan.event)
    here = solved & landing & (h > 0) & (h <= 1.5 * plan.h) & ~missed
    last = jax.tree.map(lambda a: a[-1], tried.modes)
    uniform = equal(jax.tree.map(lambda a: jnp.broadcast_to(a[-1], a.shape), tried.modes), tried.modes)
    same = uniform & equal(last.touching, last.pressed) & (~point.known | equal(point.modes, last))
    # forces are continuous where contact or sticking ends; only their slopes are not, which the estimate must see
    lenient = (way.failed >= _LENIENT) & (slopes <= 1)

    slips, weaker = broken(system, point.modes, last, free & solved)
    keeps, loosens = held & solved & (event < 0), slips & ~point.known
    regular = (free & solved & same & ~slips) | keeps
    takes = fine & (regular | (free & solved & lenient & ~slips))
    lands = here & fine & ~earlier
    refused = solved & ~fine & ((free & ~loosens) | keeps | here)
    # the modes after an event: a short step has one set of them
    unclear = solved & fine & free & ~takes & ~point.known & ~loosens
    # forces that are not unique may leave their halves where others would not: the problem as it stands finds those
    left = held & solved & (event >= 0) & point.known & (tried.unique | plan.tested)
    finds, searches = left & (theta >= _EARLY), left & (theta < _EARLY)
    frees = held & ~plan.tested & ~(takes | refused | left)
    switches = free & point.known & ~(takes | refused)
    near = plan.approached | (theta * h <= _SHORT * way.last)
    again = here & fine & earlier
    fails = ~(takes | lands | refused | unclear | frees | switches | left | again | loosens)

    wanted = next_step(stepper.stages, h, size)
    full = jnp.where(h < point.h, jnp.maximum(wanted, point.h), wanted)
    wanted = jnp.select(
        [takes & regular, takes, refused, unclear | fails, finds & ~near],
        [full, _MUCH_LESS * h, jnp.minimum(wanted, _LESS * h), _MUCH_LESS * plan.h, _APPROACH * theta * h],
        point.h,
    )
    modes, accepts = _either(free, last, point.modes), takes | lands
    after = _either(landing, switched(point.modes, plan.event), modes)
    reached = Point(step.state, step.memory, after, takes, wanted)
    stays = dataclasses.replace(point, modes=_either(loosens, weaker, point.modes), h=wanted)
    point = _either(accepts, reached, stays)
    one = Taken(step.state, step.contacts, step.stats, modes, h)
    counts = Counts(counts.solves + 1, counts.inaccurate + refused, counts.landings + landing)
    failed = jnp.where(accepts, 0, way.failed + (fails & ~free))
    reason = jnp.select(
        [lands, takes & (plan.h >= limits.end - way.point.state.time)],
        [int(Reason.EVENT), int(Reason.END)],
        int(Reason.PAUSED),
    )
    # what a contact does after an event is not guessed twice
    unheld = ~accepts & ((free & ~point.known) | (failed >= _LENIENT))
    kind = jnp.where(unheld, int(Kind.FREE), int(Kind.HELD))
    ordinary = _ordinary(kind, point, limits, wanted, (finds & ~near) | (plan.approached & ~accepts))
    shorter = jnp.where(searches, _EARLY * h, plan.h)
    hold = dataclasses.replace(
        plan, kind=jnp.asarray(int(Kind.HELD)), h=shorter, event=jnp.asarray(-1), hint=point.memory, tested=~again
    )
    land = _Try(jnp.asarray(int(Kind.LANDING)), theta * h, event, step.memory, plan.approached, plan.tested)
    release = dataclasses.replace(plan, kind=jnp.asarray(int(Kind.FREE)))
    following = _either(again | searches | switches, hold, ordinary)
    following = _either(frees, release, _either(finds & near, land, following))
    following = _either(lands, plan, following)  # keeps the event's number
    stuck = ~accepts & (following.h < limits.shortest)
    return _Carry(
        way=Way(
            point=point,
            plan=following,
            # those of another kind are of other equations
            factors=dataclasses.replace(factors, valid=factors.valid & ~landing & (following.kind == plan.kind)),
            last=jnp.where(takes, h, way.last),
            failed=failed,
            reason=jnp.where(stuck, int(Reason.TOO_SHORT), reason).astype(int),  # as strongly typed as the first one
        ),
        # what is not accepted is overwritten by the next attempt
        records=jax.tree.map(lambda all_, new: all_.at[carry.count].set(new), carry.records, one),
        count=carry.count + accepts,
        counts=counts,
    )


def _either(which, one, other):
    """One of two trees alike, the first where `which` ()."""
    return jax.tree.map(lambda a, b: jnp.where(which, a, b), one, other)


def _others_left(margins, event):
    """Whether any of `margins` (s, n) but that of number `event` is left."""
    return jnp.any((margins < -_LEFT) & (jnp.arange(margins.shape[1]) != event))


def _missed(margins, event):
    """Whether the margin of number `event` is left before the last stage, where it vanishes for a second time."""
    return jnp.any((margins[:-1] < -_LEFT) & (jnp.arange(margins.shape[1]) == event))


def _first_left(count: int, margins):
    """The number of the margin (s, n) that falls below zero first, or -1, and the fraction theta of the step at which. One
    that is negative between stages only is not left: margins that grow from zero, as t^3, have polynomials that dip."""
    if margins.shape[1] == 0:
        return jnp.asarray(-1), jnp.ones(())
    theta = jnp.arange(_SAMPLES + 1) / _SAMPLES
    values = radau(count).basis(theta) @ margins
    left = values[1:] < -_LEFT
    when = jnp.where(jnp.any(margins < -_LEFT, axis=0), jnp.argmax(left, axis=0), _SAMPLES)
    event = jnp.argmin(when)
    before, after = (values[jnp.minimum(when[event] + i, _SAMPLES), event] for i in (0, 1))
    share = jnp.clip(before / jnp.where(before > after, before - after, 1.0), 0.0, 1.0)
    return jnp.where(when[event] < _SAMPLES, event, -1), (when[event] + share) / _SAMPLES

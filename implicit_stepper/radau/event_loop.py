"""A compiled loop of steps with error control, until a contact changes its mode: then to that
event.

A step is solved with every complementarity replaced by the branch that held at its start (`HELD`).
If no branch is left on the way, that is a root of the complementarity problem. If one is, a root
would have a kink within the step and lose its order: so the first branch to be left is found on the
polynomials, and the step is solved once more so that it ends exactly there (`LANDING`), h being one
more unknown. Halves after an event are guessed; where one is left as soon as the step begins, or
nothing else helps, the problem is solved as it stands (`FREE`). All three are one program: see
`stage_step.Task`."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..model.system import System
from ..runtime.compilation import jit
from ..solvers.static_condensation import Factors
from ..stepping.loop import CHUNK
from . import slots, stage_step
from .apart import sharp
from .radau_contact import RadauContact
from .stage_modes import switched
from .stage_step import Attempt, Task
from .verdict import EARLY, LENIENT, Verdict, judged
from .way import Counts, Kind, Limits, Point, Reason, Taken, Try, Way

_LESS, _MUCH_LESS = 0.9, 0.25  # by which a refused step is shortened at least, and one whose modes are unclear
_AFTER_TEST = 2.0  # by which a step may grow that was a tenth of one in which a branch seemed to be left
_APPROACH = 0.75  # of the way to an event is one step, so that the last one is short, and its forces exact
# Jacobians, where few are needed or others would not help; and of smooth bodies where nothing is
# held: what takes more seldom ends, and a shorter step finds it. Where points move along faces more
# are needed, and shorter steps are no easier.
_PATIENCE, _OF_SMOOTH = 8, 16


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Carry:
    way: Way
    records: Taken
    count: jax.Array
    counts: Counts


def way_from(stepper: RadauContact, system: System, point: Point, none: slots.Slots = ()) -> Way:
    """At `point`, to begin anew, with `none` in any slot of each group; in NumPy, so that nothing
    is compiled for it."""
    no = np.asarray(False)
    plan = Try(np.asarray(int(Kind.FREE)), point.h, np.asarray(-1), point.memory, no, no, np.asarray(0))
    factors = stage_step.no_factors(stepper, system, none)
    return Way(point, plan, factors, none, np.asarray(np.inf), np.asarray(0), np.asarray(int(Reason.END)))


@functools.partial(jit, static_argnums=0)
def advance(stepper: RadauContact, system: System, way: Way, limits: Limits):
    """Goes on from where a `way` is paused, otherwise begins anew at its point. The way then;
    `Taken` with a first axis of CHUNK, and how many of them are filled; `Counts` of this call.
    Pauses change no number."""
    zero, way = jnp.zeros((), int), under_way(way, limits)
    point = way.point
    # of types as in the loop, so that it is traced once
    shapes, _ = jax.eval_shape(functools.partial(_attempt, stepper), system, way.point, way.plan, way.factors, way.slots)
    empty = Taken(shapes.step.state, shapes.step.contacts, shapes.step.stats, point.modes, point.h)
    empty = jax.tree.map(lambda s: jnp.zeros((CHUNK, *jnp.shape(s)), s.dtype), empty)

    def proceed(carry):
        room = (carry.count < CHUNK) & (carry.counts.solves < limits.solves)
        return room & (carry.way.reason == Reason.PAUSED)

    start = _Carry(way, empty, zero, Counts(zero, zero, zero))
    end = lax.while_loop(proceed, functools.partial(_next, stepper, system, limits), start)
    return end.way, end.records, end.count, end.counts


def under_way(way: Way, limits: Limits) -> Way:
    """The `way` if it is paused, otherwise as it begins at its point."""
    zero, no, point = jnp.zeros((), int), jnp.asarray(False), way.point
    plan = _ordinary(zero + int(Kind.HELD), point, limits, point.h, no)
    factors = jax.tree.map(jnp.zeros_like, way.factors)
    anew = Way(point, plan, factors, way.slots, jnp.asarray(jnp.inf), zero, zero + int(Reason.PAUSED))
    return jax.tree.map(lambda a, b: jnp.where(way.reason == Reason.PAUSED, a, b), way, anew)


def _ordinary(kind, point: Point, limits: Limits, h, approached) -> Try:
    """A step of about `h` [s], that leaves no crumbs before the end."""
    left = limits.end - point.state.time
    h = jnp.where(left < 1.01 * h, left, jnp.where(left < 2 * h, left / 2, h))
    return Try(kind, h, jnp.asarray(-1), point.memory, approached, jnp.asarray(False), jnp.zeros((), int))


@functools.partial(jax.jit, static_argnums=0)
def _attempt(
    stepper: RadauContact, system: System, point: Point, plan: Try, factors: Factors, chosen: slots.Slots
) -> tuple[Attempt, Factors]:
    return stage_step.attempt(
        stepper, system, point.state, point.memory, task_of(stepper, system, point, plan), factors, chosen
    )


def task_of(stepper: RadauContact, system: System, point: Point, plan: Try) -> Task:
    """What a `plan` at a `point` asks for."""
    landing, free = plan.kind == Kind.LANDING, plan.kind == Kind.FREE
    most = stepper.max_iterations if sharp(system) else min(stepper.max_iterations, _OF_SMOOTH)
    # an event under a guess of modes is one if it is soon found
    patience = jnp.where(landing & point.known, stepper.max_iterations, jnp.where(free & ~point.known, most, _PATIENCE))
    offset = jnp.where(landing, 0.0, 1.0).astype(float)
    return Task(plan.h, point.modes, ~free, plan.event, plan.hint, offset, patience.astype(int))


def _next(stepper: RadauContact, system: System, limits: Limits, carry: _Carry) -> _Carry:
    """One more problem solved, and what follows from it."""
    way = carry.way
    tried, factors = _attempt(stepper, system, way.point, way.plan, way.factors, way.slots)
    after = following(stepper, system, limits, way, tried, carry.counts)
    return _Carry(
        way=dataclasses.replace(after.way, factors=dataclasses.replace(factors, valid=factors.valid & after.keeps)),
        # what is not accepted is overwritten by the next attempt
        records=jax.tree.map(
            lambda all_, new: lax.dynamic_update_index_in_dim(all_, new, carry.count, 0), carry.records, after.one
        ),
        count=carry.count + after.accepts,
        counts=after.counts,
    )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Following:
    """What follows from a problem: the `way` on, but for its factors, and whether it `keeps` those
    of this one (); the step `one` that was taken, if it `accepts` it (); and `counts`."""

    way: Way
    keeps: jax.Array
    one: Taken
    accepts: jax.Array
    counts: Counts


def following(stepper: RadauContact, system: System, limits: Limits, way: Way, tried: Attempt, counts: Counts) -> Following:
    """What follows from `tried`, the problem that `way.plan` asked for."""
    begun, plan = way.point, way.plan
    step, h, found = tried.step, tried.h, judged(stepper, system, limits, way, tried)
    free, _, landing = (plan.kind == kind for kind in Kind)
    accepts, approaches = found.takes | found.lands, found.finds & ~found.near

    full = jnp.where(h < begun.h, jnp.maximum(found.wanted, begun.h), found.wanted)
    # what failed a moment ago would again, and so would a step in which nothing was left after all
    full = jnp.where(way.failed > 0, jnp.minimum(full, h), jnp.where(plan.tested, jnp.minimum(full, _AFTER_TEST * h), full))
    wanted = jnp.select(
        [found.takes & found.regular, found.takes, found.refused, found.unclear | found.fails, approaches],
        [full, _MUCH_LESS * h, jnp.minimum(found.wanted, _LESS * h), _MUCH_LESS * plan.h, _APPROACH * found.theta * h],
        begun.h,
    )
    modes = _either(free, found.last, begun.modes)
    after = _either(landing, switched(begun.modes, plan.event), modes)
    reached = Point(step.state, step.memory, after, found.takes, wanted, jnp.ones(()))
    named = _either(found.turns, switched(begun.modes, found.event), begun.modes)
    stays = dataclasses.replace(begun, modes=_either(found.loosens, found.weaker, named), h=wanted)
    point, one = _either(accepts, reached, stays), Taken(step.state, step.contacts, step.stats, modes, h)
    failed = jnp.where(accepts, 0, way.failed + (found.fails & ~free))
    # what a contact does after an event is not guessed twice; every third failure frees modes
    unheld = ~accepts & ((free & ~begun.known) | ((failed > 0) & (failed % LENIENT == 0)))
    kind = jnp.where(unheld, int(Kind.FREE), int(Kind.HELD))
    ordinary = _ordinary(kind, point, limits, wanted, approaches | (plan.approached & ~accepts))
    ahead = _planned(plan, found, ordinary, point, step, h)
    ends = found.takes & (plan.h >= limits.end - begun.state.time)
    reason = jnp.select([found.lands, ends], [int(Reason.EVENT), int(Reason.END)], int(Reason.PAUSED))
    stuck = ~accepts & (ahead.h < limits.shortest)
    reason = jnp.where(stuck, int(Reason.TOO_SHORT), reason)
    if tried.slots:
        point = _either(tried.crowded, begun, point)
        reason = jnp.where(tried.crowded, int(Reason.CROWDED), reason)
    last = jnp.where(found.takes, h, way.last)
    return Following(
        # the reason as strongly typed as the first one
        way=Way(point, ahead, None, tried.slots, last, failed, reason.astype(int)),
        keeps=~landing & (ahead.kind == plan.kind),  # those of another kind are of other equations
        one=one,
        accepts=accepts,
        counts=Counts(counts.solves + 1, counts.inaccurate + found.refused, counts.landings + landing),
    )


def _planned(plan: Try, found: Verdict, ordinary: Try, point: Point, step, h) -> Try:
    """What is tried after a verdict on `plan`: an `ordinary` step, unless the same one is to be
    held, freed or landed on its event first."""
    hold = dataclasses.replace(
        plan,
        kind=jnp.asarray(int(Kind.HELD)),
        h=jnp.where(found.searches, EARLY * h, plan.h),
        event=jnp.asarray(-1),
        hint=point.memory,
        tested=~(found.again | found.turns),
        turned=plan.turned + found.turns,
    )
    landing = jnp.asarray(int(Kind.LANDING))
    land = Try(landing, found.theta * h, found.event, step.memory, plan.approached, plan.tested, plan.turned)
    release = dataclasses.replace(plan, kind=jnp.asarray(int(Kind.FREE)))
    following = _either(found.again | found.searches | found.switches | found.turns, hold, ordinary)
    following = _either(found.frees, release, _either(found.finds & found.near, land, following))
    return _either(found.lands, plan, following)  # keeps the event's number


def _either(which, one, other):
    """One of two trees alike, the first where `which` ()."""
    return jax.tree.map(lambda a, b: jnp.where(which, a, b), one, other)

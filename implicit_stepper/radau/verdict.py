"""What a problem solved on the way says of its step: taken, refused, cut at an event, or tried anew
with other modes."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp

from ..model.results import Result
from ..model.system import System
from ..solvers.collocation import radau
from .after_events import broken
from .error_control import next_step, ratio
from .radau_contact import RadauContact
from .stage_modes import equal
from .stage_step import Attempt
from .stages import Modes
from .way import Kind, Limits, Way

# of a step: an event before it is looked for again in a step this much shorter, whose polynomials
# are exact enough
EARLY = 0.1
_SAMPLES = 64  # of a step's polynomials, in search of the first branch that is left
_LEFT = 5e-11  # by how much a branch must be violated to count as left, in the units of the rows: less than certificates see
_SHORT = 0.5  # of the last step: one that needs no such approach
_TURNS = 6  # branches of a guess, one after another, before modes are free
LENIENT = 3  # failed landings before a change of modes within a step is accepted, if the step is accurate all the same


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What follows from one problem solved, as a table of decisions: facts, and one row for each
    thing that may follow, true or false ().

    Of the step: whether it is `solved`, accurate, `fine`, or so but for its change of modes,
    `lenient`; which `Kind` it was; whether its modes are the `same` at all stages and as told,
    `slips` by what is told to stick, to the `weaker` modes; whether it ends `here`, at its event,
    and another comes `earlier`. Of its plan: whether modes were `known`, and `tested` as they
    stand; whether another branch of a guess `may_turn`, and the event may be landed on, `near`;
    whether forces are `unique`, and a step was `failed` a moment ago. The first branch that is left
    is number `event`, at the fraction `theta` () of the step; `wanted` [s] is the step to try next
    if errors alone decide, `last` the modes at its end.
    """

    solved: jax.Array
    fine: jax.Array
    lenient: jax.Array
    free: jax.Array
    held: jax.Array
    same: jax.Array
    slips: jax.Array
    here: jax.Array
    earlier: jax.Array
    known: jax.Array
    tested: jax.Array
    may_turn: jax.Array
    near: jax.Array
    unique: jax.Array
    failed: jax.Array
    wanted: jax.Array
    event: jax.Array
    theta: jax.Array
    last: Modes
    weaker: Modes

    @functools.cached_property
    def keeps(self):
        """No branch that is held is left."""
        return self.held & self.solved & (self.event < 0)

    @functools.cached_property
    def regular(self):
        """The step has the order that it should have."""
        return (self.free & self.solved & self.same & ~self.slips) | self.keeps

    @functools.cached_property
    def takes(self):
        """The step is taken."""
        return self.fine & (self.regular | (self.free & self.solved & self.lenient & ~self.slips))

    @functools.cached_property
    def lands(self):
        """It ends at its event."""
        return self.here & self.fine & ~self.earlier

    @functools.cached_property
    def again(self):
        """Another event comes earlier."""
        return self.here & self.fine & self.earlier

    @functools.cached_property
    def loosens(self):
        """What was guessed to stick breaks away."""
        return self.slips & ~self.known

    @functools.cached_property
    def refused(self):
        """It is not accurate."""
        return self.solved & ~self.fine & ((self.free & ~self.loosens) | self.keeps | self.here)

    @functools.cached_property
    def unclear(self):
        """The modes after an event are not told: a short step has one set of them."""
        return self.solved & self.fine & self.free & ~self.takes & ~self.known & ~self.loosens

    @functools.cached_property
    def left(self):
        """A branch is left. Forces that are not unique may leave theirs where others would not: the
        problem as it stands finds those."""
        certain = (self.known | (self.theta >= 1 / _SAMPLES)) & (self.unique | self.tested)
        return self.held & self.solved & (self.event >= 0) & certain

    @functools.cached_property
    def finds(self):
        """When that is, is known well enough to go there."""
        return self.left & (self.theta >= EARLY)

    @functools.cached_property
    def searches(self):
        """It is too early in the step for that."""
        return self.left & (self.theta < EARLY)

    @functools.cached_property
    def turns(self):
        """A branch that is held wrongly is left as the step begins, and the other one is held."""
        wrongly = ~self.known & ~(self.theta >= 1 / _SAMPLES)
        return self.held & self.solved & (self.event >= 0) & wrongly & self.unique & ~self.tested & self.may_turn

    @functools.cached_property
    def frees(self):
        """The same step is tried with modes free; not what failed so a moment ago, which needs a
        shorter one."""
        shorter = ~self.solved & self.known & self.failed
        return self.held & ~self.tested & ~(self.takes | self.refused | self.left | self.turns | shorter)

    @functools.cached_property
    def switches(self):
        """It is tried with modes held."""
        return self.free & self.known & ~(self.takes | self.refused)

    @functools.cached_property
    def fails(self):
        """Nothing of these."""
        ends = self.takes | self.lands | self.refused | self.unclear
        return ~(ends | self.turns | self.frees | self.switches | self.left | self.again | self.loosens)


def judged(stepper: RadauContact, system: System, limits: Limits, way: Way, tried: Attempt) -> Verdict:
    """What `tried`, the problem that `way.plan` asked for at `way.point`, says of its step, within
    the `limits`: errors by `error_control.ratio`, branches by `stage_modes`."""
    point, plan, step, h = way.point, way.plan, tried.step, tried.h
    errors = (tried.missed, tried.created)
    estimate = functools.partial(ratio, system, limits.tolerance, stepper.stages, point.state, limits.start, *errors)
    size, slopes = estimate(h), estimate(jnp.sqrt(system.length / system.acceleration))
    solved = step.result == Result.SOLVED
    free, held, landing = (plan.kind == kind for kind in Kind)

    event, theta = _first_left(stepper.stages, tried.margins)
    missed = _missed(tried.margins, plan.event)
    last = jax.tree.map(lambda a: a[-1], tried.modes)
    uniform = equal(jax.tree.map(lambda a: jnp.broadcast_to(a[-1], a.shape), tried.modes), tried.modes)
    slips, weaker = broken(system, point.modes, last, free & solved)
    return Verdict(
        solved=solved,
        fine=size <= point.rough,
        # forces are continuous where contact or sticking ends; only their slopes are not, which the
        # estimate must see
        lenient=(way.failed >= LENIENT) & (slopes <= 1),
        free=free,
        held=held,
        same=uniform & equal(last.touching, last.pressed) & (~point.known | equal(point.modes, last)),
        slips=slips,
        here=solved & landing & (h > 0) & (h <= 1.5 * plan.h) & ~missed,
        earlier=_others_left(tried.margins, plan.event),
        known=point.known,
        tested=plan.tested,
        may_turn=plan.turned < _TURNS,
        near=plan.approached | (theta * h <= _SHORT * way.last),
        unique=tried.unique,
        failed=way.failed > 0,
        wanted=next_step(stepper.stages, h, size),
        event=event,
        theta=theta,
        last=last,
        weaker=weaker,
    )


def _others_left(margins, event):
    """Whether any of `margins` (s, n) but that of number `event` is left."""
    return jnp.any((margins < -_LEFT) & (jnp.arange(margins.shape[1]) != event))


def _missed(margins, event):
    """Whether the margin of number `event` is left before the last stage, where it vanishes for a
    second time."""
    return jnp.any((margins[:-1] < -_LEFT) & (jnp.arange(margins.shape[1]) == event))


def _first_left(count: int, margins):
    """The number of the margin (s, n) that falls below zero first, or -1, and the fraction theta of
    the step at which. One that is negative between stages only is not left: margins that grow from
    zero, as t^3, have polynomials that dip."""
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

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
    """What follows from one problem solved; each () true or false.

    The step is taken (`takes`), with the order it should have (`regular`), ends at its event
    (`lands`), or is not accurate (`refused`). Otherwise: modes after an event are not told
    (`unclear`) or break away (`loosens`, to the `weaker` modes); the first branch that is left is
    found (`finds`), `near` enough to land on, or is too early in the step (`searches`); one of a
    guess is left as the step begins, and the other branch is held (`turns`); the modes are freed
    (`frees`) or held (`switches`); another event comes earlier (`again`); or nothing of
    these (`fails`). `wanted` [s] is the step to try next if errors alone decide; `event` and
    `theta` () name the margin and the fraction of the step; `last` are the modes at its end.
    """

    takes: jax.Array
    regular: jax.Array
    lands: jax.Array
    refused: jax.Array
    unclear: jax.Array
    loosens: jax.Array
    finds: jax.Array
    near: jax.Array
    searches: jax.Array
    turns: jax.Array
    frees: jax.Array
    switches: jax.Array
    again: jax.Array
    fails: jax.Array
    wanted: jax.Array
    event: jax.Array
    theta: jax.Array
    last: Modes
    weaker: Modes


def judged(stepper: RadauContact, system: System, limits: Limits, way: Way, tried: Attempt) -> Verdict:
    """What `tried`, the problem that `way.plan` asked for at `way.point`, says of its step, within
    the `limits`: errors by `error_control.ratio`, branches by `stage_modes`."""
    point, plan, step, h = way.point, way.plan, tried.step, tried.h
    errors = (tried.missed, tried.created)
    estimate = functools.partial(ratio, system, limits.tolerance, stepper.stages, point.state, limits.start, *errors)
    size, slopes = estimate(h), estimate(jnp.sqrt(system.length / system.acceleration))
    solved, fine = step.result == Result.SOLVED, size <= point.rough
    free, held, landing = (plan.kind == kind for kind in Kind)

    event, theta = _first_left(stepper.stages, tried.margins)
    earlier, missed = _others_left(tried.margins, plan.event), _missed(tried.margins, plan.event)
    here = solved & landing & (h > 0) & (h <= 1.5 * plan.h) & ~missed
    last = jax.tree.map(lambda a: a[-1], tried.modes)
    uniform = equal(jax.tree.map(lambda a: jnp.broadcast_to(a[-1], a.shape), tried.modes), tried.modes)
    same = uniform & equal(last.touching, last.pressed) & (~point.known | equal(point.modes, last))
    # forces are continuous where contact or sticking ends; only their slopes are not, which the
    # estimate must see
    lenient = (way.failed >= LENIENT) & (slopes <= 1)

    slips, weaker = broken(system, point.modes, last, free & solved)
    keeps, loosens = held & solved & (event < 0), slips & ~point.known
    regular = (free & solved & same & ~slips) | keeps
    takes = fine & (regular | (free & solved & lenient & ~slips))
    lands = here & fine & ~earlier
    refused = solved & ~fine & ((free & ~loosens) | keeps | here)
    # the modes after an event: a short step has one set of them
    unclear = solved & fine & free & ~takes & ~point.known & ~loosens
    # forces that are not unique may leave their branches where others would not: the problem as it
    # stands finds those
    guessed_well = theta >= 1 / _SAMPLES  # a branch that is held wrongly is left as the step begins
    left = held & solved & (event >= 0) & (point.known | guessed_well) & (tried.unique | plan.tested)
    guessed_wrongly = held & solved & (event >= 0) & ~point.known & ~guessed_well
    turns = guessed_wrongly & tried.unique & ~plan.tested & (plan.turned < _TURNS)
    # what was not solved with modes free either a moment ago needs a shorter step
    shorter = ~solved & point.known & (way.failed > 0)
    frees = held & ~plan.tested & ~(takes | refused | left | turns | shorter)
    switches = free & point.known & ~(takes | refused)
    again = here & fine & earlier
    return Verdict(
        takes=takes,
        regular=regular,
        lands=lands,
        refused=refused,
        unclear=unclear,
        loosens=loosens,
        finds=left & (theta >= EARLY),
        near=plan.approached | (theta * h <= _SHORT * way.last),
        searches=left & (theta < EARLY),
        turns=turns,
        frees=frees,
        switches=switches,
        again=again,
        fails=~(takes | lands | refused | unclear | turns | frees | switches | left | again | loosens),
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

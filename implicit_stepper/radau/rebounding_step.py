"""A step of given length with the rebounds in it, as one pure function of JAX, for programs that
differentiate it or run many at once.

It is the step that `landings` makes between compiled ones: cut where a contact with a restitution
closes, by the impact there, and by what is left of it. Lengths of its parts are found without
derivatives; each is then the root of an equation, that the gap is closed or the step at its end,
and has the derivative of that root. Bodies that meet in edges and faces, where an impulse has a
centre to be found, and what sticks by a coefficient of its own, `landings` alone knows.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from shapes.shards import varying_like

from ..constraints import detection
from ..constraints.restitution import SLIGHT, TOUCHING, restitutions
from ..implicit_euler import ncp
from ..implicit_euler.geometrically_implicit import GeometricallyImplicit
from ..model.bodies import State
from ..model.records import Contacts, with_impulses_of
from ..model.results import Result
from ..model.system import System, in_user_order, take
from ..runtime.errors import StepperError
from ..solvers.implicit_function import root
from ..solvers.newton import linearized
from . import closing, rebounds
from .euler_steps import left_by_rounding, without_rebounds
from .face_rebounds import approach_at
from .impact_certificate import impact_violations
from .stage_records import long_forms


class Ended(NamedTuple):
    """The `state` at the end of a step; the `memory` for the next one; `contacts` as in its last
    part, with the impulses of all of them; a `Result` (); the largest violation () of all their
    certificates; and the times (k,) [s] of impacts, NaN of those that are none."""

    state: State
    memory: Any
    contacts: Contacts
    result: jax.Array
    violation: jax.Array
    times: jax.Array


class _Part(NamedTuple):
    """What is `left` () of a step [s]; `met` (nc,), which contacts rebound no more in it; whether
    something `strikes` () in the state, and which contacts are then `elastic` (nc,). The others as
    in `Ended`, so far."""

    state: State
    memory: Any
    left: jax.Array
    met: jax.Array
    strikes: jax.Array
    elastic: jax.Array
    contacts: Contacts
    result: jax.Array
    violation: jax.Array


class _Search(NamedTuple):
    """The length of a part: its `size` () [s], of which `tries` () have been made in a `bracket`,
    and the memory `after` it; whether it is the `whole` of what is left. Which contacts (nc,)
    `land` in it, have `met`, and are `elastic`, if something `strikes` () at its end; there the one
    with this `number` () closes, or `several` () do. A `Result` (), and whether the search has
    `ended`."""

    size: jax.Array
    after: Any
    bracket: closing.Bracket
    whole: jax.Array
    lands: jax.Array
    met: jax.Array
    elastic: jax.Array
    strikes: jax.Array
    number: jax.Array
    several: jax.Array
    tries: jax.Array
    result: jax.Array
    ended: jax.Array


class _Until(NamedTuple):
    """A part from `state`, with the memory before and `after` it, that ends where the contact with
    a `number` () closes, if it `closes` (), or else after what is `left` () [s]; whether `several`
    () close there."""

    system: System
    state: State
    memory: Any
    after: Any
    left: jax.Array
    closes: jax.Array
    number: jax.Array
    several: jax.Array


@dataclasses.dataclass(frozen=True)
class _Misses:
    """By how much (1,) a part of z (1,) [s] misses its end: a gap [m], or a time [s]."""

    stepper: GeometricallyImplicit

    def __call__(self, until: _Until, z):
        def gap(z):
            found = self.stepper.at_root(until.system, until.state, until.memory, z, until.after)
            return found.contacts.gap[until.number]

        return lax.cond(until.closes, gap, lambda z: z - until.left, z[0])[None]


@dataclasses.dataclass(frozen=True)
class _Linearized:
    """`misses`, and its derivative by z: none, so that nothing after it has one, where several
    contacts close at once, of which each would have its own time."""

    misses: _Misses

    def __call__(self, until: _Until, z):
        F, slope = linearized(lambda z: self.misses(until, z))(z)
        return F, jnp.where(until.several, 0.0, slope)


def refuse(system: System) -> None:
    """Raises `ValueError` for what such a step does not know of a `system` that rebounds."""
    others = "take `simulate`, `simulate_batch` or `sensitivities`"
    for group in system.groups:
        if group.restitution is not None and not group.pair.smooth:
            pair = " and ".join(system.contact_names[group.numbers[0]])
            raise StepperError(
                f"{pair} have a `restitution` and meet in edges or faces, where the impulse has a centre that only runs of "
                f"`simulate` find: {others}, or leave it out."
            )
    if system.sticks_more:
        raise StepperError(
            f"a `restitution` beside a `mu_s` of what sticks is known to runs of `simulate` alone: {others}, or leave one."
        )


def most_impacts(system: System) -> int:
    """How many impacts a step may have at most: in each of them a contact rebounds that does so no
    more."""
    return int(np.sum([len(group.numbers) for group in system.groups if group.restitution is not None]))


def strikes_at(system: System, state: State, memory) -> jax.Array:
    """Whether () anything rebounds in the `state` in which a run begins."""
    system, state, memory = lax.stop_gradient((system, state, memory))
    here = detection.find(without_rebounds(system), state, _closest(system, state, memory)).geometry
    every = jnp.ones(system.contact_count, bool)
    return jnp.any(_rebounding(system, every, here.psi, approach_at(system, state, here.n, here.a1, here.a2)))


def step(stepper, system: System, state: State, memory, h, strikes, most: int, certified: float) -> Ended:
    """The step of h () [s] from `state`, which begins with an impact if anything `strikes` (), with
    at most so many others; what is `certified` within this and what rounding adds to it."""
    plain, count = without_rebounds(system), system.contact_count
    shapes = jax.eval_shape(stepper.step_with_cuts, plain, state, memory, h).contacts
    nothing = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)
    begun = _Part(
        state, memory, jnp.asarray(h, float), ~(restitutions(system) > 0), strikes, jnp.ones(count, bool), nothing,
        jnp.where(h > 0, int(Result.SOLVED), int(Result.NOT_CONVERGED)), jnp.zeros(()),
    )  # fmt: skip
    begun = varying_like(begun, (system, state, memory, begun.left))

    def further(part: _Part, _):
        solved = part.result == int(Result.SOLVED)
        time = jnp.where(part.strikes & solved, part.state.time, jnp.nan)
        part = lax.cond(part.strikes & solved, lambda p: _struck(stepper, system, p, certified), lambda p: p, part)
        goes_on = (part.left > 0) & (part.result == int(Result.SOLVED))
        # side by side all scenes go this way: where nothing is left, every start would be tried in
        # vain
        some = part._replace(left=jnp.where(goes_on, part.left, begun.left))
        part = lax.cond(
            goes_on, lambda some, _: _moved_on(stepper, system, some, begun.left, certified), lambda _, p: p, some, part
        )
        return part, time

    end, times = lax.scan(further, begun, None, length=most + 1)
    missed = (end.result == int(Result.SOLVED)) & ((end.left > 0) | end.strikes)
    result = jnp.where(missed, int(Result.MISSED_REBOUND), end.result)
    contacts = dataclasses.replace(end.contacts, gap_start=memory.gaps)
    return Ended(end.state, end.memory, contacts, result, end.violation, times)


def _struck(stepper, system: System, part: _Part, certified: float) -> _Part:
    """After the impact in the state of a `part`, which becomes the state of the next one."""
    state, own, sums = part.state, rebounds.only(system, part.elastic), stepper.impacts == "sequential"
    closest = _closest(system, *lax.stop_gradient((state, part.memory)))
    oriented = lax.stop_gradient(part.memory.references)  # so that impulses of all parts have the same tangents
    references = in_user_order(system, jnp.concatenate(oriented))
    hit = rebounds.impact_of(sums, own, state, closest, references, ())
    violation = _worst(impact_violations(*lax.stop_gradient((own, state, hit.state, hit.contacts, 0.0)), sums))
    result = jnp.where(violation <= certified, int(Result.SOLVED), int(Result.NOT_CERTIFIED))
    memory = stepper.init(*lax.stop_gradient((without_rebounds(system), hit.state)), closest)
    contacts, ends = with_impulses_of(part.contacts, hit.contacts), hit.contacts
    contacts = dataclasses.replace(contacts, slip=ends.slip, sigma=ends.sigma)
    if contacts.joints is not None:
        contacts = dataclasses.replace(contacts, joints=dataclasses.replace(contacts.joints, rate=ends.joints.rate))
    return part._replace(
        state=hit.state,
        memory=dataclasses.replace(memory, gaps=part.memory.gaps, references=oriented),
        strikes=part.strikes & False,
        contacts=contacts,
        result=jnp.where(hit.converged, result, int(Result.IMPACT)),
        violation=jnp.maximum(part.violation, violation),
    )


def _moved_on(stepper, system: System, part: _Part, h, certified: float) -> _Part:
    """After what is left of a step of h () [s], or what comes before the next impact in it."""
    plain, before = without_rebounds(system), (part.state, part.memory)
    search = _searched(stepper, *lax.stop_gradient((system, *before, part.left, part.met)))
    until = _Until(plain, *before, search.after, part.left, search.strikes, search.number, search.several)
    misses = _Misses(stepper)
    size = root(misses, _Linearized(misses), until, search.size[None])[0]
    found = stepper.at_root(plain, *before, size, search.after)
    asked = lax.stop_gradient((plain, part.state, found.state, found.contacts, size))
    violation = _worst(stepper.certificate(*asked))
    # of a part: the units of a short one hold fewer digits
    rounded = left_by_rounding(plain.acceleration, plain.length, asked[1], asked[-1])
    allowed = certified + jnp.where(asked[-1] < h, rounded, 0.0)
    result = jnp.where(violation <= allowed, int(Result.SOLVED), int(Result.NOT_CERTIFIED))
    return _Part(
        found.state,
        found.memory,
        part.left - size,
        search.met,
        search.strikes,
        search.elastic,
        with_impulses_of(found.contacts, part.contacts),
        jnp.where(search.result == int(Result.SOLVED), result, search.result),
        jnp.maximum(part.violation, violation),
    )


def _searched(stepper, system: System, state: State, memory, left, met) -> _Search:
    """How long the next part is, as `landings` finds it: the whole, or up to where the first of
    what closes in it touches. What closes too slowly to rebound has met."""
    plain, touching, mass = without_rebounds(system), TOUCHING * system.length, jnp.min(system.mass)
    none, no = jnp.zeros(system.contact_count, bool), jnp.asarray(False)
    first = _Search(
        left, memory, closing.around(left, left), ~no, none, met, none, no, jnp.zeros((), int), no, jnp.zeros((), int),
        jnp.asarray(int(Result.SOLVED)), no,
    )  # fmt: skip
    first = varying_like(first, (system, state, memory, left))

    def tried(search: _Search) -> _Search:
        found = stepper.step_with_cuts(plain, state, memory, search.size)
        own, fails = found.contacts, found.result != int(Result.SOLVED)
        closes = (own.gap_start > touching) & (own.gap <= touching) & ~search.met
        lands = jnp.where(search.whole, closes, search.lands)
        gap, number = jnp.min(jnp.where(lands, own.gap, jnp.inf)), jnp.argmin(jnp.where(lands, own.gap, jnp.inf))
        pressed = jnp.max(jnp.where(lands, own.normal_impulse, 0.0))
        presses = closing.presses(system, pressed, search.size)
        ends, now = ~presses & (gap <= touching), lands & closes  # what lands later is not there yet
        approach = approach_at(system, found.state, own.normal, own.point_1, own.point_2)
        elastic = now | ~(search.met | (approach > _slight(system)))
        strikes = ends & jnp.any(_rebounding(system, elastic, own.gap, approach)) & ~fails
        slowly = ends & ~strikes
        free = search.whole & ~jnp.any(lands)
        fresh = closing.around(left, jnp.min(jnp.where(lands, own.gap_start, jnp.inf)))
        bracket = jax.tree.map(lambda new, old: jnp.where(search.whole, new, old), fresh, search.bracket)
        way = jnp.maximum(pressed * search.size / mass, touching)
        bracket, size = closing.narrowed(bracket, search.size, gap, presses, way)
        lost = (search.tries >= closing.MOST) & ~strikes & ~free
        result = jnp.where(lost, int(Result.NO_LANDING), int(Result.SOLVED))
        return _Search(
            jnp.where(strikes | free | fails, search.size, jnp.where(slowly, left, size)),
            found.memory,
            bracket,
            slowly,
            lands,
            search.met | (now & ends),
            elastic,
            strikes,
            number,
            strikes & (jnp.sum(now) > 1),
            search.tries + 1,
            jnp.where(fails, found.result, result),
            strikes | free | fails | lost,
        )

    return lax.while_loop(lambda search: ~search.ended, tried, first)


def _closest(system: System, state: State, memory) -> tuple:
    """Per group, the closest points (nc, unknowns) of the last root, in long form."""
    where = ncp.layout(system).unknowns[: len(system.groups)]
    return tuple(long_forms(system, state, [take(memory.history[0], index)[None] for index in where]))


def _slight(system: System):
    return SLIGHT * jnp.sqrt(system.acceleration * system.length)


def _rebounding(system: System, elastic, gap, approach):
    """Which contacts (nc,) that are `elastic` touch and part other than slightly."""
    return elastic & (gap <= TOUCHING * system.length) & (restitutions(system) * approach > _slight(system))


def _worst(violations) -> jax.Array:
    return jnp.max(jnp.stack([jnp.max(v) for v in violations.values() if v.size]))

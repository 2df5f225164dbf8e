"""Steps of given length that land before they rebound.

A step of the paper's scheme in which a contact with a restitution closes is cut where it closes.
One part ends there, with a gap within that of an impact and no impulse; the impact is a step of no
length, by the laws of `impact_laws`; and what is left of the step is one more part, or several, if
others land in it. Each part is a step of the scheme with a certificate of its own.

What has met in a step of given length and comes back to the same point within it rests
(`meetings`): it lands as without a restitution. By that repeated small rebounds end. A contact that
was closed as the part began has no rebound from the speed that the scheme leaves along a curved
path; and where that speed is one at which bodies part, Newton's law leaves e times it, as an
approach that the next step ends.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import numpy as np

from ..constraints.detection import closest_points
from ..constraints.restitution import SLIGHT, TOUCHING, restitutions
from ..model.bodies import State
from ..model.records import Contacts
from ..model.results import Failure, Result
from ..model.system import System, in_user_order
from ..runtime.compilation import jit
from ..stepping import fallback
from ..stepping.fallback import Climb, Several, anew
from ..stepping.loop import CHUNK, Record, advance, joined
from ..stepping.stepper import Stepper
from ..stepping.sweep import Sweep
from . import closing, face_rebounds, rebounds
from .elsewhere import speeds
from .euler_steps import of_loads, rolling, rounding, sudden, without_rebounds
from .events import Event
from .meetings import Meetings
from .rebounds import Fails, Hit

_BISECTIONS = 45  # of the time at which bodies strike at another point
_LEAST = 1e-4  # of a given step: bodies that strike elsewhere sooner do so without rebound
_FASTER = 0.5  # of the speed at another point: bodies that approach so fast where they touch do not strike there


class Parts(NamedTuple):
    """`several` parts of steps one after another, of so many `sizes` (m,) [s], 0 of impacts, the
    last one that of a part which is not solved, if there is one; and how many `steps` of given
    length they complete."""

    several: Several
    sizes: np.ndarray
    steps: int


class Landings:
    """The steps of one run of a `system` whose contacts rebound: what it has noted of `events`."""

    def __init__(self, stepper: Stepper, system: System, tolerance: float, sweep: Sweep):
        self.stepper, self.system, self.tolerance, self.sweep = stepper, system, tolerance, sweep
        self.plain = without_rebounds(system)
        self.touching, self.rebounds = TOUCHING * float(system.length), np.asarray(restitutions(system)) > 0
        sharp = [np.full(len(group.numbers), not group.pair.smooth) for group in system.groups]
        self.sharp = in_user_order(system, np.concatenate(sharp)) & self.rebounds
        self.elsewhere = self.sharp & ~rolling(system)
        self.events: list[Event] = []

    def begin(self, state: State, memory, h: float, closest, ended: tuple[Contacts, float] | None = None) -> Parts | None:
        """The impact at the start of a run in steps of h [s] from `state`, whose `closest` points
        are given; None if nothing rebounds in it. Of a run that goes on after a step that has
        `ended`, with such contacts and of such a length [s], it is that of what landed in this and
        has not rebounded yet."""
        count = self.system.contact_count
        lands = elastic = np.ones(count, bool)
        if ended is not None:
            last, size = ended
            lands = self._closes(last) & ~np.asarray(closing.presses(self.system, last.normal_impulse, size))
            if not np.any(lands):
                return None
            elastic = lands | ~self._creeps(state, last)
        references = np.broadcast_to(np.eye(self.system.dimension)[0], (count, self.system.dimension))
        hit = self._impact(state, closest, references, elastic, lands)
        if isinstance(hit, Fails):  # a step tells what records of none look like
            *_, record = advance(self.stepper, self.plain, state, memory, h, 1)
            return Parts(_stopped(state, memory, jax.tree.map(np.asarray, record), hit), np.zeros(1), 0)
        return None if hit is None else Parts(Several(hit.state, hit.memory, hit.record, None), np.zeros(1), 0)

    def pieces(self, state: State, memory, h: float, count: int) -> Iterator[Parts]:
        """`fallback.pieces` with what lands and rebounds in them."""
        done = 0
        while done < count:
            for found in fallback.pieces(
                self.stepper, self.plain, state, memory, h, count - done, self.tolerance, self.sweep
            ):
                lands = np.any(self._closes(found.record.contacts) | self._strikes(state, found.record, h), axis=1)
                good = int(np.argmax(np.append(lands, True)))
                if good == len(lands):
                    yield Parts(found, np.full(good + (not found.solved), h), good)
                    done, state, memory = done + good, found.state, found.memory
                    if not found.solved:
                        return
                    continue
                if good:
                    record = jax.tree.map(lambda a, good=good: a[:good], found.record)
                    state = jax.device_put(jax.tree.map(lambda a: a[-1], record.state))
                    memory = anew(self.stepper, self.plain, state, record.contacts.gap[-1])
                    yield Parts(Several(state, memory, record, None), np.full(good, h), good)
                parts = self._step(state, memory, h)
                yield parts
                done, state, memory = done + good + 1, parts.several.state, parts.several.memory
                if not parts.several.solved:
                    return
                break

    def _closes(self, contacts: Contacts) -> np.ndarray:
        """Which `contacts` (..., nc) with a restitution close in their steps."""
        opened = np.asarray(contacts.gap_start) > self.touching
        return opened & (np.asarray(contacts.gap) <= self.touching) & self.rebounds

    def _creeps(self, state: State, contacts: Contacts) -> np.ndarray:
        """Which `contacts` (nc,) approach in `state` faster than by rounding."""
        slight = SLIGHT * np.sqrt(float(self.system.acceleration) * float(self.system.length))
        return np.asarray(face_rebounds.approach(self.plain, state, contacts)) > slight

    def _strikes(self, state: State, record: Record, h: float) -> np.ndarray:
        """Which contacts (n, nc) with a restitution, of bodies with edges or faces of which none is
        round, come to press at another point than that at which they touched as the steps of a
        `record` from `state` began, where they approached faster than loads make them in h [s].
        (Where they touch, what landed without rebound keeps its speed to the next step.)"""
        count = len(record.result)
        closed = (np.asarray(record.contacts.gap_start) <= self.touching) & self.elsewhere
        if not np.any(closed):
            return closed
        most = 1 if count == 1 else CHUNK  # one program for any number of steps
        starts = jax.tree.map(lambda one, more: np.concatenate([np.asarray(one)[None], more[:-1]]), state, record.state)
        contacts = dataclasses.replace(record.contacts, joints=None)
        index = np.minimum(np.arange(most), count - 1)
        steps = jax.tree.map(lambda a: np.asarray(a)[index], (starts, record.state, contacts))
        struck = closed & np.asarray(_sudden(self.plain, *steps, h))[:count]
        for step in np.flatnonzero(np.any(struck, axis=1)):
            before, _, last = jax.tree.map(lambda a, step=step: a[step], steps)
            here = np.asarray(speeds(self.plain, before, closest_points(self.plain, before)))
            struck[step] &= here < _FASTER * np.asarray(face_rebounds.approach(self.plain, before, last))
        return struck

    def _step(self, state: State, memory, left: float) -> Parts:
        """A step of `left` [s] from `state`, with the impacts in it."""
        records, sizes, met, h = [], [], Meetings(self.system, self.sharp, ~self.rebounds), left
        while True:
            size, hit, found = left, None, self._part(state, memory, left)
            lands = self._anew(lambda record: self._closes(record.contacts), found, met)
            if np.any(lands):
                size, found = self._cut(state, memory, left, found, lands)
                if found.solved:
                    lands = lands & self._closes(found.record.contacts)[0]  # what lands later is not there yet
                    back = lands & met.again(found.state, _last(found.record))
                    if np.any(back):  # they come back to where they have met
                        met.rest = met.rest | back
                        continue
            strikes = self._anew(functools.partial(self._strikes, state, h=h), found, met)
            if np.any(strikes):
                size, found = self._halved(state, memory, (size, h), found, strikes)
                lands = strikes
            if not found.solved:
                return _parts(Several(state, memory, found.record, found.climb), records, [*sizes, size], 0)
            if np.any(lands):
                hit = self._land(found, lands, met.rest, h)
                if hit is None:  # they part too slowly to rebound
                    met.rest = met.rest | lands
                    continue
                if isinstance(hit, Hit):
                    met.note(hit.state, _last(hit.record), lands)
            records, sizes, left = [*records, found.record], [*sizes, size], left - size
            if isinstance(hit, Fails):
                return _parts(_stopped(found.state, found.memory, found.record, hit), records, [*sizes, 0.0], 0)
            if hit is None:
                return _parts(found, records[:-1], sizes, 1)
            if left <= 0.0:
                return _parts(Several(hit.state, hit.memory, hit.record, None), records, [*sizes, 0.0], 1)
            records, sizes, state, memory = [*records, hit.record], [*sizes, 0.0], hit.state, hit.memory

    def _anew(self, find: Callable, found: Several, met: Meetings) -> np.ndarray:
        """What `find` says of the contacts (nc,) of a step that is `found`, of those that have not
        `met` there; of a step that is not solved, nothing."""
        if not found.solved:
            return np.zeros(self.system.contact_count, bool)
        return find(found.record)[0] & ~met.again(found.state, _last(found.record))

    def _part(self, state: State, memory, size: float) -> Several:
        """One step of a `size` [s], without rebounds."""
        size = float(size)  # one of NumPy's would be another program
        allowed = self.tolerance + float(rounding(self.plain, state, size))
        *_, found = fallback.pieces(self.stepper, self.plain, state, memory, size, 1, allowed, self.sweep)
        return found

    def _cut(self, state: State, memory, h: float, whole: Several, lands) -> tuple[float, Several]:
        """A step at whose end the first of those that `lands` (nc,) in the `whole` step of h [s]
        touches, and does not press yet (`closing`); and its size [s]."""
        mass, first = float(np.min(self.system.mass)), np.min(np.asarray(whole.record.contacts.gap_start)[0][lands])
        size, found, bracket = h, whole, closing.around(h, first)
        for _ in range(closing.MOST):
            own = _last(found.record)
            gap, pressed = np.min(own.gap[lands]), np.max(own.normal_impulse[lands])
            presses = bool(closing.presses(self.system, pressed, size))
            if not presses and gap <= self.touching:
                return size, found
            way = max(pressed * size / mass, self.touching)
            bracket, size = closing.narrowed(bracket, size, gap, presses, way)
            size = float(size)
            found = self._part(state, memory, size)
            if not found.solved:
                return size, found
        return size, _without(found)

    def _halved(self, state: State, memory, sizes: tuple[float, float], whole: Several, strikes) -> tuple[float, Several]:
        """The longest step at whose end nothing that `strikes` (nc,) in one of sizes[0] [s] has
        done so, by the loads of sizes[1] [s]; and its size [s]."""
        low, high, best = 0.0, sizes[0], whole
        for _ in range(_BISECTIONS):
            size = (low + high) / 2
            if size < _LEAST * sizes[1]:
                return sizes[0], whole
            found = self._part(state, memory, size)
            if not found.solved:
                return size, found
            if np.any(self._strikes(state, found.record, sizes[1])[0] & strikes):
                high = size
            else:
                low, best = size, found
        return low, best

    def _land(self, cut: Several, lands, met, h: float) -> Hit | Fails | None:
        """The impact of what `lands` (nc,) at the end of a step `cut` from one of h [s]."""
        own = _last(cut.record)
        closest, creeps = closest_points(self.plain, cut.state), self._creeps(cut.state, own)
        slow = float(of_loads(self.plain, cut.state, h))
        return self._impact(cut.state, closest, own.tangent, lands | ~(met | creeps), lands, slow)

    def _impact(self, state: State, closest, references, elastic, lands, slow: float = 0.0) -> Hit | Fails | None:
        """The impact in `state` at its `closest` points, in which only those that are `elastic`
        (nc,) rebound, noted as an event of those that `lands` (nc,), with approaches after it that
        are `slow` [m/s]; None if nothing rebounds."""
        system = rebounds.only(self.system, elastic)
        hit = rebounds.find(self.stepper, system, self.tolerance, state, closest, references, slow)
        if isinstance(hit, Hit):
            self.events += [Event(float(state.time), int(n), "closes") for n in np.flatnonzero(hit.met & lands)]
        return hit


def _last(record: Record) -> Contacts:
    """The contacts of the last step."""
    return jax.tree.map(lambda a: np.asarray(a)[-1], record.contacts)


def _stopped(state: State, memory, record: Record, fails: Fails) -> Several:
    """No step from `state`, where an impact `fails`, in the form of a `record` of others."""
    last = dataclasses.replace(jax.tree.map(lambda a: a[0], record), certificates=fails.violated)
    climb = Climb(last, memory, (), False, reason=fails.why)
    return Several(state, memory, jax.tree.map(lambda a: a[:0], record), climb)


def _without(found: Several) -> Several:
    """`found`, a step that is not the one that was looked for."""
    climb = Climb(jax.tree.map(lambda a: a[0], found.record), found.memory, (), False, reason=Failure(Result.NO_LANDING))
    return dataclasses.replace(found, record=jax.tree.map(lambda a: a[:0], found.record), climb=climb)


@jit
def _sudden(system: System, starts: State, ends: State, contacts: Contacts, h):
    return jax.vmap(lambda *step: sudden(system, *step, h))(starts, ends, contacts)


def _parts(last: Several, records: list[Record], sizes: list[float], steps: int) -> Parts:
    """`last` after `records`, of `sizes` [s] all together."""
    return Parts(dataclasses.replace(last, record=joined([*records, last.record])), np.array(sizes), steps)

"""The impact between two parts of a step of given length, in which bodies rebound."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import numpy as np

from ..constraints import detection, linear_rows
from ..constraints.static_friction import with_mu_s
from ..constraints.violations import described
from ..model.bodies import State
from ..model.records import Stats
from ..model.results import Failure, Result
from ..model.system import System
from ..runtime.compilation import jit
from ..stepping.loop import Record
from ..stepping.stepper import Stepper, init
from . import face_rebounds, impact
from .after_events import at_rest
from .elsewhere import meets_again
from .euler_steps import without_rebounds
from .impact import Impact
from .impact_certificate import gain, impact_violations


class Hit(NamedTuple):
    """An impact: the `record` of a step of no length, the state and the memory after it, and which
    contacts (nc,) `met` in it."""

    record: Record
    state: State
    memory: Any
    met: np.ndarray


class Fails(NamedTuple):
    """Why an impact is none that a run may have, and what it has `violated`."""

    why: Failure
    violated: dict[str, np.ndarray]


def find(stepper: Stepper, system: System, tolerance: float, state: State, closest, references, slow: float):
    """The `Hit` in `state` at its `closest` points, certified within `tolerance`, or how it
    `Fails`; approaches after it may be as fast as is `slow` [m/s]. None if nothing rebounds."""
    sums, plain = stepper.impacts == "sequential", without_rebounds(system)
    found, centres, centred, _ = face_rebounds.meet(
        functools.partial(_meet, sums), system, state, closest, references, slow=slow
    )
    if found is None:
        return Fails(Failure(Result.NO_CENTRES), {})
    (hit,) = found
    if not np.any(face_rebounds.rebounds(system, state, hit)):
        return None
    if not bool(hit.converged):
        return Fails(Failure(Result.IMPACT), {})
    sharp = not all(group.pair.smooth for group in system.groups)
    if sharp and not centred and meets_again(plain, hit.state, centres, slow=slow):
        return Fails(Failure(Result.NO_CENTRES), {})
    violations = impact_violations(system, state, hit.state, hit.contacts, 0.0, sums)
    violations, record = jax.tree.map(np.asarray, violations), _recorded(hit, violations)
    violated = {name: v for name, v in violations.items() if v.size and not np.max(v) <= tolerance}
    if violated:
        told = f"its impact violates {described(system, violated)} (allowed {tolerance:.0e})."
        return Fails(Failure(Result.NOT_CERTIFIED, f"{told}{gain(system, violated)}"), violated)
    memory = dataclasses.replace(init(stepper, plain, hit.state, centres), gaps=hit.contacts.gap)
    return Hit(record, hit.state, memory, np.asarray(hit.met)[: system.contact_count])


def _meet(sequential: bool, system: System, state: State, closest, references) -> tuple[Impact]:
    """The impact in `state`, in which what slips neither before nor after it has mu_s."""
    if not system.sticks_more:
        return (impact_of(sequential, system, state, closest, references, ()),)
    holds = at_rest(system, state, closest)
    while True:
        hit = impact_of(sequential, system, state, closest, references, holds)
        before, holds = holds, tuple(map(np.logical_and, holds, at_rest(system, hit.state, closest)))
        if all(map(np.array_equal, before, holds)):
            return (hit,)


@functools.partial(jit, static_argnums=0)
def impact_of(sequential: bool, system: System, state: State, closest, references, holds) -> Impact:
    """The impact with mu_s for those that hold, per group of constraints (n,), and the slips after
    it: the step of no length ends with them."""
    system = with_mu_s(system, holds) if system.sticks_more else system
    hit = impact.meet(system, state, closest, references, sequential)[0]
    rows = linear_rows.linear_rows(system, state, detection.geometry_of(hit.contacts))
    return dataclasses.replace(hit, contacts=detection.with_slips(hit.contacts, rows, hit.state.velocity))


def only(system: System, elastic) -> System:
    """The system in which only those that are `elastic` (nc,) rebound."""
    groups = tuple(
        group
        if group.restitution is None
        else dataclasses.replace(group, restitution=group.restitution * elastic[np.array(group.numbers)])
        for group in system.groups
    )
    return dataclasses.replace(system, groups=groups)


def _recorded(hit: Impact, violations) -> Record:
    """A step of no length, with a first axis of one."""
    stats = Stats(np.zeros((), int), np.zeros(()), np.zeros((), int), np.ones((), int))
    one = Record(hit.state, hit.contacts, stats, np.asarray(int(Result.SOLVED)), violations)
    return jax.tree.map(lambda a: np.asarray(a)[None], one)

"""Derivatives along a finished run of first order whose steps have several lengths, as those that
land before they rebound: step after step, and through impacts.

A step that ends where a contact closes is as long as its gap says, and so depends on everything
before it; what follows in the step of given length is as much shorter as it is later.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..constraints import detection
from ..constraints.static_friction import held_in, with_mu_s
from ..implicit_euler.geometrically_implicit import GeometricallyImplicit
from ..model.bodies import State
from ..model.records import Contacts
from ..model.results import Result
from ..model.system import System
from ..radau.euler_steps import without_rebounds
from ..radau.rebounds import only
from ..radau.step_derivatives import Change, Moved, derived, impact_at
from ..runtime.compilation import jit
from .stage_sensitivities import SAME, agreed, by_name, changes_of, node, off
from .trajectory import Trajectory


def along(
    stepper: GeometricallyImplicit, system: System, start: State, trajectory: Trajectory, values: Mapping[str, jax.Array]
) -> dict[str, State]:
    """d(state)/d(value) at the nodes of the `trajectory`, as `stage_sensitivities.along`. What
    meets in several contacts at once has none: which of them is first decides."""
    change, ends = changes_of(system, start, values)
    nodes, sizes = [change.state], np.broadcast_to(trajectory.h, len(trajectory))
    for i, h in enumerate(sizes):
        begun, after = node(trajectory, i), node(trajectory, i + 1)
        change = change._replace(until=(i + 1) * ends)
        if h > 0:
            lands = _landed(trajectory, i + 1) if i + 1 < len(sizes) and sizes[i + 1] == 0 else []
            found = _through(stepper, system, begun, after, lands, change)
        else:
            found = _rebounded(stepper, system, trajectory, i, change)
        change = change._replace(state=agreed(system, found, begun, after))
        nodes.append(change.state)
    every = jax.tree.map(lambda *parts: np.moveaxis(np.stack(parts), 1, -1), *nodes)
    return by_name(every, values)


def _landed(trajectory: Trajectory, i: int) -> list[int]:
    """The contacts that close at node i."""
    return [event.contact for event in trajectory.events if event.time == trajectory.time[i]]


def _through(stepper, system: System, begun: State, after: State, lands: list[int], change: Change) -> Moved:
    """The step from `begun` to about `after`, which ends where the first of those that it `lands`
    touches, if there are some."""
    plain = without_rebounds(system)
    points = [detection.closest_points(plain, state) for state in (begun, after)]
    found = _step(stepper, system, begun, after.time, points, np.asarray(lands[0] if lands else -1), change)
    return found._replace(ambiguous=np.asarray(len(lands) > 1))


def _rebounded(stepper, system: System, trajectory: Trajectory, i: int, change: Change) -> Moved:
    """The impact that is step i, in which all contacts rebound, or those alone that close."""
    begun, contacts = node(trajectory, i), jax.tree.map(lambda a: a[i], trajectory.contacts)
    closest, every = detection.closest_points(without_rebounds(system), begun), np.ones(system.contact_count, bool)
    landed = np.isin(np.arange(system.contact_count), _landed(trajectory, i))
    for elastic in (every, landed):
        found = _impact(stepper, system, begun, closest, contacts, elastic, change)
        if off(system, found.state, node(trajectory, i + 1)) <= SAME:
            break
    return found


@functools.partial(jit, static_argnums=0)
def _step(stepper, system: System, state: State, until, points, lands, changes: Change) -> Moved:
    """The step to the time `until` () [s], or to where the contact that `lands` () touches, -1 for
    none; `points`, the closest ones of contacts at its start and about its end."""

    def to_end(system, state, until):
        plain = without_rebounds(system)
        memory = stepper.init(*lax.stop_gradient((plain, state)), points[0])
        found = stepper.step_with_cuts(plain, state, memory, until - state.time)
        gaps = detection.find(plain, found.state, points[1]).geometry.psi
        return (found.state, jnp.append(gaps, 0.0)[lands]), found.result

    # the change of its length alone comes last; all in one place, as each is compiled again
    every = jax.tree.map(lambda a: jnp.concatenate([a, jnp.zeros((1, *a.shape[1:]))]), changes)
    own = every._replace(until=jnp.where(lands < 0, every.until, 0.0).at[-1].set(1.0))
    (after, _), (found, gaps), result = derived(to_end, system, state, until, own)
    later = jnp.where(lands < 0, 0.0, -gaps[:-1] / gaps[-1])
    moved = jax.tree.map(lambda a: a[:-1] + jnp.multiply.outer(later, a[-1]), found)
    unsolved = jnp.where(result == int(Result.SOLVED), 0.0, jnp.inf)
    return Moved(after, moved, unsolved, jnp.asarray(False), jnp.zeros(len(later), bool))


@functools.partial(jit, static_argnums=0)
def _impact(stepper, system: System, state: State, closest, recorded: Contacts, elastic, changes: Change) -> Moved:
    """The impact in `state` that is `recorded`, in which those that are `elastic` (nc,) rebound."""

    def own(system):
        return only(with_mu_s(system, held_in(system, recorded)) if system.sticks_more else system, elastic)

    return impact_at(stepper, system, state, closest, recorded.tangent, changes, own)

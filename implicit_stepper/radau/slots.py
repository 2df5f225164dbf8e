"""Which contacts a step of several stages is solved with: those that touch, and of the others the
nearest, as many as there are slots.

The Jacobian of several stages is dense, and most pairs of a scene do not touch. One that is open
pushes nothing, so that the step is solved without it; its closest points are found after it, at the
poses of the stages, and with them its margins. Where it turns out to have closed, a step whose
modes are held ends on that event, as with any other; one whose modes are free is not solved.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints.chosen_contacts import chosen_from
from ..constraints.restitution import TOUCHING
from ..model.system import System, take
from .stages import Modes, Stage, StageProblem

_FEW = 12  # contacts of a scene that are all solved with: their Jacobian costs no more than what leaves them out
_SPARE = 2  # slots for what may come to touch
_GROWTH = 1.5  # of slots, so that few programs are compiled
_NEARLY = 10.0  # times the gap up to which a contact is closed: what a further iteration may find closed
_WORTH = 0.7  # of the contacts: with more of them in slots nothing is gained

Slots = tuple[jax.Array, ...]
"""Per group of contacts the numbers (k,) of those in slots, in ascending order; or nothing, where
all of them are solved with."""


def first_slots(system: System) -> Slots:
    """As many slots for each group as bodies usually touch, each two fixed ones and one that moves;
    none of them chosen."""
    return _none_chosen(system, [system.body_count * (1 if all(g.moving) else 2) + _SPARE for g in system.groups])


def more_slots(system: System, slots: Slots, touching) -> Slots:
    """More of those `slots` of which there are too few for what is `touching` (nc,), per group."""
    sizes = []
    for own, on in zip(slots, touching, strict=False):
        needed = int(np.sum(on)) + _SPARE
        sizes.append(len(own) if needed <= len(own) else max(needed, int(_GROWTH * len(own))))
    return _none_chosen(system, sizes)


def with_room(system: System, slots: Slots, gaps) -> Slots:
    """At least as many slots as contacts whose `gaps` (nc,) [m] are closed."""
    closed = [np.asarray(gaps)[list(group.numbers)] <= _NEARLY * TOUCHING * float(system.length) for group in system.groups]
    if all(np.sum(touching) <= len(own) for own, touching in zip(slots, closed, strict=False)):
        return slots
    return more_slots(system, slots, closed)


def room(slots: Slots) -> int | None:
    """For how many contacts, None for all."""
    return sum(map(len, slots)) if slots else None


def _none_chosen(system: System, sizes: list[int]) -> Slots:
    """So many slots at most; none, where all contacts are solved with. In NumPy, so that nothing is
    compiled for them."""
    counts = [len(group.bodies) for group in system.groups]
    found = [min(own, count) for own, count in zip(sizes, counts, strict=True)]
    few = sum(counts) <= _FEW or sum(found) > _WORTH * sum(counts)
    return () if few else tuple(np.zeros(own, int) for own in found)


def chosen(system: System, before: Slots, modes: Modes, event, gaps, held) -> tuple[Slots, jax.Array]:
    """The contacts in slots in a step whose `modes` are equations if they are `held` (): those that
    touch, and the one whose margin has the number `event` (); then, if held, those that were
    `before`, so that factors last; then the nearest by their `gaps` (nc,) [m] at the start. And
    whether slots run out ()."""
    found, crowded, start = [], jnp.asarray(False), 0
    for group, slots, touching, active in zip(system.groups, before, modes.touching, modes.active, strict=False):
        count, width = len(touching), 2 + active.shape[1]
        needed = touching | ((event - start) // width == np.arange(count))
        kept = held & jnp.zeros(count, bool).at[slots].set(True)
        order = jnp.lexsort((take(gaps, group.numbers), jnp.where(needed, 0, jnp.where(kept, 1, 2))))
        found.append(jnp.sort(order[: len(slots)]))
        spare = 0 if len(slots) == count else jnp.where(held, 0, _SPARE)
        crowded = crowded | (jnp.sum(needed) > len(slots) - spare)
        start += count * width
    return tuple(found), crowded


def of_groups(values, slots: Slots, axis: int = 0) -> tuple:
    """Of `values` per group of constraints, trees with the contacts as their `axis`, those in
    slots."""
    if not slots:
        return tuple(values)
    own = [jax.tree.map(functools.partial(jnp.take, indices=n, axis=axis), v) for v, n in zip(values, slots, strict=False)]
    return (*own, *values[len(slots) :])


def modes_in(modes: Modes, slots: Slots) -> Modes:
    """Those of the contacts in slots, and of joints."""
    return Modes(*(of_groups(getattr(modes, f.name), slots) for f in dataclasses.fields(modes)))


def event_in(modes: Modes, slots: Slots, event):
    """The number of the margin among those of the contacts in slots and of joints that has the
    number `event` () among all."""
    if not slots:
        return event
    found, start, own = jnp.asarray(-1), 0, 0
    for numbers, touching, active in zip(slots, modes.touching, modes.active, strict=False):
        width = 2 + active.shape[1]
        contact, margin = jnp.divmod(event - start, width)
        within = (contact >= 0) & (contact < len(touching))
        found = jnp.where(within, own + jnp.argmax(numbers == contact) * width + margin, found)
        start, own = start + len(touching) * width, own + len(numbers) * width
    return jnp.where(event >= start, event - start + own, found)


def part(problem: StageProblem, slots: Slots) -> StageProblem:
    """The `problem` with the contacts in slots alone."""
    if not slots:
        return problem
    system, units = problem.system, problem.scales
    groups = [chosen_from(group, numbers) for group, numbers in zip(system.groups, slots, strict=True)]
    own = dataclasses.replace(units, impulse=of_groups(units.impulse, slots), unknowns=of_groups(units.unknowns, slots))
    return dataclasses.replace(
        problem,
        system=dataclasses.replace(system, groups=tuple(groups)),
        references=of_groups(problem.references, slots),
        scales=own,
    )


def outside(system: System, slots: Slots, away) -> tuple:
    """Which contacts (nc,) of every group are in no slot or, of those in slots, are `away`; None
    for a group that has none of either."""
    if not slots:
        return tuple(away)
    found = []
    for group, numbers, own in zip(system.groups, slots, away, strict=True):
        count, left = len(group.bodies), own
        if len(numbers) < count:
            left = jnp.ones(count, bool).at[numbers].set(False if own is None else own)
        found.append(left)
    return tuple(found)


def put_back(system: System, slots: Slots, ahead, own: Stage) -> Stage:
    """The stages `own` of the contacts in slots, with the others where they are in the constraints
    `ahead`, pushing nothing."""
    found = []
    for group, all_, numbers, those in zip(system.groups, ahead, slots, own.constraints, strict=False):
        closest = np.arange(all_.shape[2]) < group.pair.unknowns
        found.append(jnp.where(closest, all_, 0.0).at[:, numbers].set(those))
    return own._replace(constraints=(*found, *own.constraints[len(slots) :]))


def met(slots: Slots, modes: Modes, held):
    """Whether () any contact that is in no slot touches or presses at a stage in the
    `modes` (s, nc) of all, unless modes were `held` (): also one that is still open would be told
    to slow down."""
    found = jnp.asarray(False)
    for numbers, touching, pressed in zip(slots, modes.touching, modes.pressed, strict=False):
        found = found | jnp.any((touching | pressed).at[:, numbers].set(False))
    return found & ~held

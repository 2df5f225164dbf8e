"""Contacts of a finished run, with which the step after it begins."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints import contact
from ..model.bodies import State
from ..model.records import Contacts
from ..model.system import System
from ..runtime.compilation import jit
from .catalog import Catalog
from .equations import Slots, Step
from .step import NEW, Known, Memory, begins, empty_slots, no_memory

# largest residual of closest points that a step begins with: of the scene's length, and in radians
_NEAR = 1e-3


def recalled(catalog: Catalog, system: System, state: State, h: float, pairs: np.ndarray, contacts: Contacts) -> Memory:
    """The memory of a step of h [s] from `state`: what the `contacts` between `pairs` (m, 2) of
    parts were at the end of the step before, with impulses for a step of h. Those are left out
    whose order is another, that were not in that step, or whose points are no longer closest."""
    kept = np.isfinite(contacts.gap)
    if not np.any(kept):
        return no_memory()
    pairs, contacts = pairs[kept], jax.tree.map(lambda a: np.asarray(a)[kept], contacts)
    ordered, laws = catalog.ordered(pairs)
    _, own, there = np.intersect1d(*(a @ np.array([len(catalog.body), 1]) for a in (pairs, ordered)), return_indices=True)
    pairs, laws, contacts = pairs[own], laws[there], jax.tree.map(lambda a: a[own], contacts)
    numbers, (step, bodies), known = catalog.forms_of(pairs, laws), begins(system, state, h), []
    for form in np.unique(numbers):
        rows = np.flatnonzero(numbers == form)
        for first in range(0, len(rows), NEW):
            some = rows[first : first + NEW]
            slots = empty_slots(catalog, int(form), pairs[some], laws[some], NEW, step, bodies)
            known.append(_known(step, slots, pairs[some], jax.tree.map(lambda a, some=some: a[some], contacts)))
    return no_memory()._replace(known=tuple(k for k in known if k is not None))


def _known(step: Step, slots: Slots, pairs: np.ndarray, records: Contacts) -> Known | None:
    """What `records` say of the contacts in the first `slots`; None of shapes of other classes."""
    rows = np.minimum(np.arange(len(slots.impulse)), len(pairs) - 1)
    counts = [side.count for side in (slots.group.pair.first, slots.group.pair.second)]
    both = records.multipliers_1, records.multipliers_2
    if any(np.shape(multipliers)[1] < count for multipliers, count in zip(both, counts, strict=True)):
        return None
    off, *found = _recalled(step, slots, jax.tree.map(lambda a: a[rows], records))
    near = np.asarray(off)[: len(pairs)] <= _NEAR
    return Known(pairs[near], *(np.asarray(a)[: len(pairs)][near] for a in found))


@functools.partial(jit, once=True)
def _recalled(step: Step, slots: Slots, records: Contacts):
    """How far (c,) the points of `records` are from being closest where the step begins; and as
    `Known` has them unknowns, tangents, normals and gaps."""

    def one(member, starts, record):
        closest = _closest(member, record)
        rows = contact.geometry_rows(member, closest, record.tangent, step.length, *starts)
        off = jnp.concatenate([rows.equations, jnp.minimum(rows.multipliers, rows.slacks)])
        y = record.friction_impulse / jnp.where(member.e > 0, member.e, 1.0)
        own = contact.Unknowns(closest, record.normal_impulse, y, record.sigma)
        geometry = rows.geometry
        return jnp.max(jnp.abs(off)), contact.join(own), geometry.tangents[0], geometry.n, geometry.psi

    return jax.vmap(one)(slots.group, slots.starts, records)


def _closest(member, record: Contacts):
    """The closest-point unknowns of one contact: points of cores, and of bodies with faces what
    holds them."""
    pair, n = member.pair, record.normal
    core_1 = record.point_1 - pair.first.radius(member.theta_1) * n
    core_2 = record.point_2 + pair.second.radius(member.theta_2) * n
    if pair.smooth:
        return jnp.concatenate([core_1, core_2])
    l1 = record.multipliers_1[: pair.first.count] * member.slope_1
    l2 = record.multipliers_2[: pair.second.count] * member.slope_2
    return jnp.concatenate([core_1, core_2, n, record.gap[None], l1, l2])

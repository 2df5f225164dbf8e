"""The unknowns of a step of several stages, from what the step recorded."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from shapes.closest_points.conditions import tangents

from ..constraints import slipping
from ..constraints.conditions import Constraint
from ..model.records import Contacts
from ..model.system import System, take


def references_of(system: System, contacts: Contacts) -> tuple[jax.Array, ...]:
    """Per group of contacts, the tangents t (nc, d) at the first stage of a step, which orient
    those of all its stages."""
    return tuple(take(contacts.stages.contacts.tangent[0], group.numbers) for group in system.groups)


def unknowns_of(system: System, contacts: Contacts) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    """Rates (s, nb, 6 or 3) and, per group of constraints, (s, n, width + etas), as
    `stage_unknowns.join` takes them, of a step that left these `contacts`, with tangents oriented
    by `references_of`."""
    own, found = contacts.stages, []
    records, joints = dataclasses.replace(own.contacts, joints=None), own.contacts.joints
    tilts = jnp.zeros((*own.eta.shape, 2)) if own.tilt is None else own.tilt
    for group, reference in zip(system.groups, references_of(system, contacts), strict=True):
        each = jax.tree.map(lambda a, group=group: a[:, np.array(group.numbers)], (records, own.eta, tilts))
        at_stage = jax.vmap(_of_contact, (0, 0, 0, 0, 0))
        found.append(jax.vmap(at_stage, (None, None, 0, 0, 0))(group, reference, *each))
    return own.rates, (*found, *(slipping.recorded(group, joints) for group in system.joints))


def _of_contact(member: Constraint, reference, record: Contacts, eta, tilt):
    """(width + etas,) of one contact at one stage."""
    pair, n = member.pair, record.normal
    a1 = record.point_1 - pair.first.radius(member.theta_1) * n
    a2 = record.point_2 + pair.second.radius(member.theta_2) * n
    closest = [a1, a2]
    if not pair.smooth:
        weights = (
            record.multipliers_1[: pair.first.count] * member.slope_1,
            record.multipliers_2[: pair.second.count] * member.slope_2,
        )
        closest += [n, record.gap[None], *weights]
    y = jnp.where(member.e > 0, record.friction_impulse / jnp.where(member.e > 0, member.e, 1.0), 0.0)
    if pair.dimension == 3:  # that of a contact whose friction has a direction is recorded along it
        oriented = jnp.where(jnp.any(member.direction != 0), record.tangent, reference)
        impulse = y[0] * record.tangent + y[1] * jnp.cross(n, record.tangent)
        t, o = tangents(n, oriented)
        y = jnp.stack([impulse @ t, impulse @ o, y[2]])
    etas = jnp.concatenate([eta[None], tilt[: member.tilts]])
    return jnp.concatenate([*closest, record.normal_impulse[None], y, record.sigma[None], etas])


def without_forces_apart(system: System, unknowns: tuple[jax.Array, ...], touching) -> tuple[jax.Array, ...]:
    """The `unknowns` with forces that are 0 for contacts that are not `touching` (s, nc), per group
    of constraints: what solvers leave of these, over a slip that is hardly one, would be a
    derivative of friction."""
    found = list(unknowns)
    for g, group in enumerate(system.groups):
        forces = slice(group.pair.unknowns, group.width - 1)
        found[g] = found[g].at[..., forces].multiply(touching[g][..., None])
    return tuple(found)

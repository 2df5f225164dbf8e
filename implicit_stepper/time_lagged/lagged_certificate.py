"""What the certificates of steppers have in common that ask for contacts before they solve:
geometry, slips and momenta, by the second writing of mechanics, from the step's result alone."""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ..constraints import certificate_mechanics as mechanics
from ..constraints.certificate_mechanics import Bodies
from ..constraints.conditions import Constraint, Units
from ..constraints.violations import (
    closest_points_violation,
    overlap_violation,
    pose_violations,
    slip_violation,
    tangent_violation,
    unaided_violation,
)
from ..model.bodies import State
from ..model.records import Contacts
from ..model.system import System, in_user_order, take
from ..model.units import Scales, scales
from ..solvers.complementarity import length_of
from .joint_certificate import LaggedJoints, joints_of


class Lagged(NamedTuple):
    """`violations` (nc,) by name; (v_n, w) (nc, 1 + k) [m/s] of all contacts at the end's
    velocities, and their (p_n, y) (nc, 1 + k) [N s]; what these give the bodies (nb, 6 or 3), and
    the size (nb, 6 or 3) of what passes through them; the rotations (nb, d, d) of the bodies."""

    violations: dict[str, jax.Array]
    speeds: jax.Array
    impulses: jax.Array
    given: jax.Array
    passing: jax.Array
    rotation: jax.Array


def contacts_of(system: System, at: State, velocity, contacts: Contacts, h, *, closest: bool = True) -> Lagged:
    """Contacts in the poses `at`, with `gap_start` as their gap, at the bodies' `velocity` (nb, 6
    or 3). `closest`: whether their points are the closest ones there, or others, as of a
    prediction."""
    measures, parts = scales(system, h), []
    every = mechanics.everywhere(system, at.position, at.orientation, velocity)
    given, passing = jnp.zeros_like(velocity), jnp.zeros_like(velocity)
    contacts = dataclasses.replace(contacts, joints=None)  # whose rows are others
    for group, impulse in zip(system.groups, measures.impulse, strict=False):
        record = jax.tree.map(functools.partial(take, numbers=group.numbers), contacts)
        sides = mechanics.of_contacts(group, every)
        *own, frames = jax.vmap(functools.partial(_of_one, measures, closest))(group, record, impulse, *sides)
        more, size = mechanics.on_bodies(system, group, frames, record.normal_impulse, record.friction_impulse)
        given, passing = given + more, passing + size
        parts.append(own)
    if not parts:
        none = jnp.zeros((0, 4 if system.dimension == 3 else 2))
        return Lagged({}, none, none, given, passing, every.rotation[: system.body_count])
    joined = jax.tree.map(lambda *of: in_user_order(system, jnp.concatenate(of)), *parts)
    return Lagged(*joined, given, passing, every.rotation[: system.body_count])


def _of_one(units: Scales, closest: bool, member: Constraint, record: Contacts, impulse, *sides: Bodies):
    """`of_contact` of a contact with its unit `impulse` () [N s]."""
    return of_contact(Units(units.length, units.gap, units.speed, impulse), closest, member, record, *sides)


def of_contact(units: Units, closest: bool, member: Constraint, record: Contacts, body_1: Bodies, body_2: Bodies):
    """Violations () of one contact by name; its (v_n, w) and (p_n, y) (1 + k,); where it acts."""
    frame = mechanics.frame_of(record, body_1, body_2)
    v_n, v, fast = mechanics.slip(frame, body_1, body_2)
    w, on = member.e * v, member.e > 0
    y = jnp.where(on, record.friction_impulse / jnp.where(on, member.e, 1.0), 0.0)
    unaided = unaided_violation(units.length, member, record, jnp.maximum(units.impulse, record.normal_impulse))
    violations = {
        "no impulse on an axis without friction": unaided,
        "tangent": tangent_violation(member, body_1, frame),
        "slip": slip_violation(units, member, record, v, mechanics.length(w), fast),
    }
    if closest:
        there, placed = dataclasses.replace(record, gap=record.gap_start), mechanics.placed(member, body_1, body_2)
        violations["closest points"] = jnp.maximum(
            closest_points_violation(units, member, there, *placed), overlap_violation(units, member, there, *placed)
        )
    return violations, jnp.append(v_n, w), jnp.append(record.normal_impulse, y), frame


def units(system: System, h):
    """An impulse (nc, 1) [N s] of each contact, m g h of the lighter of its bodies, and a speed
    [m/s]. (In that of the lightest body of all, those of heavy ones would be so large that nothing
    told of their gaps.)"""
    scale = scales(system, h)
    impulse = jnp.concatenate([*scale.impulse[: len(system.groups)], jnp.zeros(0)])
    return (in_user_order(system, impulse) if system.groups else impulse)[:, None], scale.speed


def outside_cone(gamma, mu):
    """How far (nc,) impulses gamma (nc, 1 + k) = (p_n, y) are outside of |y| <= mu p_n, which for
    mu = 0 says nothing of pulls, and p_n >= 0."""
    return jnp.maximum(jnp.maximum(jax.vmap(length_of)(gamma[:, 1:]) - mu * gamma[:, 0], -gamma[:, 0]), 0.0)


def cone_laws(d, gamma, mu, *, relaxed: bool) -> dict[str, jax.Array]:
    """Violations (nc,) by name of cone complementarity, Negrut (10), of contacts with d = (v_n, w)
    and gamma = (p_n, y) (nc, 1 + k), both dimensionless: gamma is in the cone, d in its dual, and
    gamma.d = 0, in two parts. Unless it is `relaxed`, d_n >= 0 takes the place of the dual cone.
    What impulses are part of is measured in p_n, where that is above 1."""
    largest, size = jnp.maximum(1.0, gamma[:, 0]), jax.vmap(length_of)(d[:, 1:])
    room = d[:, 0] - (mu * size if relaxed else 0.0)
    dissipated = jnp.sum(gamma[:, 1:] * d[:, 1:], axis=1) + mu * gamma[:, 0] * size
    return {
        "cone": outside_cone(gamma, mu) / largest,
        "dual cone": jnp.maximum(-room, 0.0),
        "complementarity": jnp.abs(gamma[:, 0] * room) / largest**2,
        "dissipation": jnp.abs(dissipated) / largest**2,
    }


def pose(system: System, before: State, after: State, velocity, h):
    """Violations (nb,) of: `after` is where `velocity` (nb, 6 or 3) leads in h [s]."""
    d = system.dimension
    turn = h * velocity[:, d:]
    position, orientation = before.position + h * velocity[:, :d], mechanics.turned(before.orientation, turn)
    there = State(before.time + h, position, orientation, velocity)
    return pose_violations(scales(system, h), before, after, there, turn, h)


def half_implicit(system: System, before: State, after: State, contacts: Contacts, h) -> tuple[Lagged, dict]:
    """The contacts of a step of `common.half_implicit_step`; and by name all violations but those
    of their laws: of Negrut (5a), of the motion, of geometry at the start, and of joints."""
    found = contacts_of(system, before, after.velocity, contacts, h)
    joints = joints_of(system, before, after, contacts.joints, h)
    balance = half_implicit_balance(system, before, after, found, joints, h)
    moved = pose(system, before, after, after.velocity, h)
    return found, {"momentum": balance, "pose": moved, **found.violations, **joints.violations}


def half_implicit_balance(system: System, before: State, after: State, found: Lagged, joints: LaggedJoints, h):
    """Violations (nb,) of Negrut (5a): M (nu_next - nu) = h (loads and gyroscopic moment) +
    impulses of contacts and joints, all in the poses of `before`."""
    d = system.dimension
    known = mechanics.momentum(system, found.rotation, before.velocity)
    push = h * mechanics.loads(system, before)
    if d == 3:
        push = push.at[:, d:].add(-h * mechanics.across(before.velocity[:, d:], known[:, d:]))
    gained = mechanics.momentum(system, found.rotation, after.velocity - before.velocity)
    passing = jnp.abs(known) + jnp.abs(gained) + jnp.abs(push) + found.passing + joints.passing
    return jnp.max(
        mechanics.imbalance(scales(system, h).momentum, gained - push - found.given - joints.given, passing), axis=1
    )

"""The certificate of a step: the paper's equations in the paper's form, from the step's result
alone.

Nothing here comes from the solver's residual: the momentum balance of Chakraborty (10), the motion
of the bodies and a bound on the energy are written out beside the laws of contact in `violations`,
in their units.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp

from ..constraints import certificate_mechanics as mechanics
from ..constraints import joint_violations, violations
from ..constraints.turn_violations import WITHIN, wound
from ..model.bodies import State
from ..model.records import Contacts
from ..model.system import System, in_user_order, take
from ..model.units import Scales, scales
from .energy import excess_energy, parting_work


def certificate(system: System, before: State, after: State, contacts: Contacts, h) -> dict[str, jax.Array]:
    """Violations by name, of the step of h [s] from `before` to `after`.

    "momentum" and "pose" are (nb,), "energy" (1,), those of `joint_violations` (nj,), all others
    (nc,) in the order of `Scene.add_contact`. "pose" holds q_next = q (+) h nu_next and the time;
    "tangent", that t is a unit vector across n, along `direction` if there is one; "slip", the
    slips and sigma. Every number of `after` and of `contacts` is bound by one of these, but for
    `gap_start`, which the record of the step before tells: see `run_certificate`. Three changes of
    several numbers at once are no violation either, as they leave another solution: t turned about
    n with all that is measured along it, unless there is a `direction`; the points of bodies apart
    moved along faces that are parallel; and multipliers of more faces than are needed to span n.
    """
    units = scales(system, h)
    end, known, gained, off = of_bodies(system, units, before, after, h)
    parts, balance, passing = [], gained - known, jnp.abs(gained) + jnp.abs(known)
    own = dataclasses.replace(contacts, joints=None)
    for group, impulse in zip(system.groups, units.impulse, strict=False):
        record = jax.tree.map(lambda a, group=group: take(a, group.numbers), own)
        check = jax.vmap(functools.partial(violations.contact_violations, units, h))
        found, frames, _ = check(group, record, impulse, *mechanics.of_contacts(group, end))
        given, size = mechanics.on_bodies(system, group, frames, record.normal_impulse, record.friction_impulse)
        balance, passing = balance - given, passing + size
        parts.append(found)
    joined = jax.tree.map(lambda *own: in_user_order(system, jnp.concatenate(own)), *parts) if parts else {}
    kinetic = jnp.sum(gained * after.velocity) / 2
    free = mechanics.free_energy(system, before, known, h)
    if system.joints:
        checked = joint_violations.check(system, units, after, contacts.joints, h)
        balance, passing = balance - checked.given, passing + checked.passing
        joined |= checked.violations | {WITHIN: wound(system, before, after)}
        free = free + jnp.maximum(checked.work, 0.0)  # of what moves by the clock
    parting = parting_work(contacts.normal_impulse, contacts.gap_start, h)
    return {
        "momentum": jnp.max(mechanics.imbalance(units.momentum, balance, passing), axis=1),
        "pose": off,
        "energy": excess_energy(system, kinetic, parting, free)[None],
        **joined,
    }


def of_bodies(
    system: System, units: Scales, before: State, after: State, h
) -> tuple[mechanics.Bodies, jax.Array, jax.Array, jax.Array]:
    """All bodies `after` the step; the momenta (nb, 6 or 3) that are known before contact acts, and
    those gained; how far (nb,) poses and time are from where the velocities lead."""
    d = system.dimension
    end = mechanics.everywhere(system, after.position, after.orientation, after.velocity)
    gained = mechanics.momentum(system, end.rotation[: system.body_count], after.velocity)
    known = violations.known_momentum(system, before) + h * mechanics.loads(system, before)
    turn = h * after.velocity[:, d:]
    there = State(
        before.time + h,
        before.position + h * after.velocity[:, :d],
        mechanics.turned(before.orientation, turn),
        after.velocity,
    )
    return end, known, gained, violations.pose_violations(units, before, after, there, turn, h)

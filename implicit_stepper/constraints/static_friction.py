"""The coefficients of friction of what sticks and of what slips, where they are two.

A contact or joint that sticks is held by mu_s until that cannot hold it: it breaks away, with mu,
which it has until it sticks again. What slips faster than rounding does not stick.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ..model.bodies import State
from ..model.records import Contacts
from ..model.system import System, in_joint_order, in_user_order
from ..solvers.complementarity import length_of
from . import contact, kinematics

NO_SLIP = 5e-11  # of the unit of speeds: a slip that is none, below what a certificate allows


def with_mu_s(system: System, holds: Sequence) -> System:
    """The system with the coefficient mu_s of those constraints that hold, per group (n,); None or
    anything of groups that have one coefficient."""
    groups = tuple(
        group if group.mu_s is None else dataclasses.replace(group, mu=jnp.where(on, group.mu_s, group.mu))
        for group, on in zip(system.constraints, holds, strict=True)
    )
    count = len(system.groups)
    return dataclasses.replace(system, groups=groups[:count], joints=groups[count:])


def held_in(system: System, recorded: Contacts) -> list:
    """Per group of constraints, which of them (n,) had mu_s in the step, or impact, that is
    `recorded`; None of those with one coefficient."""
    kinds = [(recorded.mu, system.groups)]
    kinds += [(recorded.joints.mu, system.joints)] if system.joints else []
    return [None if g.mu_s is None else mu[np.array(g.numbers)] > g.mu for mu, groups in kinds for g in groups]


def slips_of_joints(system: System, state: State) -> list:
    """Per group of joints, |w| (n,) [m/s] in `state`, and None of those with one coefficient."""
    found = [None if group.mu_s is None else _of_joint(system, state, group) for group in system.joints]
    return [None if w is None else length_of(w) for w in found]


def slips(system: System, state: State, closest) -> list:
    """Per group of constraints, |w| (n,) [m/s] in `state`, whose contacts have the `closest` points
    of `detection`, and None of those with one coefficient."""
    of_contacts = [
        None if group.mu_s is None else length_of(_of_contact(system, state, group, own))
        for group, own in zip(system.groups, closest, strict=True)
    ]
    return [*of_contacts, *slips_of_joints(system, state)]


def slip_vectors(system: System, state: State, closest) -> list:
    """Per group of constraints, w (n, k) [m/s], as of `slips`, and None of those without
    friction."""
    contacts = zip(system.groups, closest, strict=True)
    joints = (None if group.mu is None else _of_joint(system, state, group) for group in system.joints)
    return [*(_of_contact(system, state, *own) for own in contacts), *joints]


def _of_joint(system: System, state: State, group):
    def one(member, *motions):
        return member.slip(*motions, state.time)

    return jax.vmap(one)(group, *kinematics.motions_of(system, state, group))


def _of_contact(system: System, state: State, group, closest):
    def one(member, z, *motions):
        short, reference = z[: member.pair.unknowns], jnp.eye(member.pair.dimension)[0]
        geometry = contact.geometry_rows(member, short, reference, system.length, *motions).geometry
        return contact.scaled_slip(member, geometry, *motions)

    return jax.vmap(one)(group, closest, *kinematics.motions_of(system, state, group))


def contact_coefficients(system: System):
    """Of all contacts (nc,), None where none has a mu_s."""
    return _coefficients(system, system.groups, in_user_order)


def joint_coefficients(system: System):
    """Of all joints (nj,), 0 of those without friction; None where none has a mu_s."""
    return _coefficients(system, system.joints, in_joint_order)


def _coefficients(system: System, groups, ordered):
    if all(group.mu_s is None for group in groups):
        return None
    own = [jnp.zeros(len(group.bodies)) if group.mu is None else group.mu for group in groups]
    return ordered(system, jnp.concatenate(own))

"""What a step of the paper's scheme leaves: contacts and joints at its end."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp

from ..constraints import contact, joint, kinematics
from ..constraints.conditions import Constraint
from ..constraints.static_friction import contact_coefficients, joint_coefficients
from ..model.bodies import State
from ..model.records import Contacts, no_contacts
from ..model.system import in_user_order, take
from ..solvers.complementarity import length_of
from . import ncp


def records(problem: ncp.StepProblem, unknowns, references, gaps, end: State) -> tuple[Contacts, tuple]:
    """The contacts at the `end` of the step from all unknowns (N,) in physical units, and the
    tangents of each group; `references` are those before the step, and `gaps` (nc,) [m]."""
    system, where = problem.system, ncp.layout(problem.system)
    acting = [
        jax.vmap(lambda member, own: member.impulses(own))(group, take(unknowns, index))
        for group, index in zip(system.joints, where.unknowns[len(system.groups) :], strict=True)
    ]
    joints = joint.record(system, end, acting)
    if joints is not None:
        joints = dataclasses.replace(joints, mu=joint_coefficients(system))
    if not system.groups:
        return dataclasses.replace(no_contacts(system.dimension), joints=joints), ()
    most = tuple(max(count(g.pair) for g in system.groups) for count in (lambda p: p.first.count, lambda p: p.second.count))
    records = [
        jax.vmap(functools.partial(contact_record, problem.scales.length, most))(
            group,
            take(unknowns, index),
            reference,
            *kinematics.motions_of(system, end, group),
            take(gaps, group.numbers),
        )
        for group, index, reference in zip(system.groups, where.unknowns, references, strict=False)
    ]
    joined = jax.tree.map(lambda *parts: in_user_order(system, jnp.concatenate(parts)), *records)
    joined = dataclasses.replace(joined, joints=joints, mu=contact_coefficients(system))
    return joined, tuple(record.tangent for record in records)


def contact_record(length, most, member: Constraint, unknowns, reference, motion_1, motion_2, gap_start) -> Contacts:
    """One contact at the end of the step, from its unknowns (width,) in physical units; `length` ()
    [m] of the scene; `most` = multipliers to pad to."""
    u = contact.split(member, unknowns)
    kkt = contact.geometry_rows(member, u.closest, reference, length, motion_1, motion_2)
    geometry = kkt.geometry
    _, slip = contact.slip_velocities(geometry, motion_1.position, motion_2.position, motion_1.velocity, motion_2.velocity)
    w = member.e * slip
    return Contacts(
        normal_impulse=u.p_n,
        friction_impulse=member.e * u.y,
        gap=geometry.psi,
        gap_start=gap_start,
        slip=slip,
        sigma=length_of(w),
        point_1=geometry.a1,
        point_2=geometry.a2,
        normal=geometry.n,
        tangent=geometry.tangents[0],
        multipliers_1=jnp.pad(kkt.l1, (0, most[0] - kkt.l1.size)),
        multipliers_2=jnp.pad(kkt.l2, (0, most[1] - kkt.l2.size)),
    )

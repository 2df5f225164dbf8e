"""What a step of several stages leaves: contacts at its end and at its stages, and closest points
to go on from."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from ..constraints import joint, kinematics
from ..constraints.conditions import Constraint
from ..constraints.detection import most_multipliers
from ..constraints.static_friction import contact_coefficients, joint_coefficients
from ..model.bodies import State
from ..model.records import Contacts, Joints, Stages, no_contacts
from ..model.system import System, in_user_order, take
from ..solvers.collocation import radau
from ..solvers.complementarity import length_of
from .stages import At, StageProblem


def records(problem: StageProblem, ats: At, gaps, rates) -> Contacts:
    """The contacts at the end of the step with its impulses, and those at the stages; `gaps` (nc,)
    at its start."""
    system, s, velocity = problem.system, problem.stages, ats.motion.velocity
    joints = _joints(problem, ats)
    if not system.groups:
        return _with_joints(_no_contacts(system, rates, velocity), joints)
    most = most_multipliers(system)
    parts = []
    for group, point in zip(system.groups, ats.points, strict=False):
        kkt = point.kkt
        own = Contacts(
            normal_impulse=point.u.p_n,
            friction_impulse=group.e * point.u.y,
            gap=kkt.geometry.psi,
            gap_start=jnp.broadcast_to(take(gaps, group.numbers), kkt.geometry.psi.shape),
            slip=point.v,
            sigma=jax.vmap(jax.vmap(length_of))(point.w),
            point_1=kkt.geometry.a1,
            point_2=kkt.geometry.a2,
            normal=kkt.geometry.n,
            tangent=kkt.geometry.tangents[:, :, 0],
            multipliers_1=jnp.pad(kkt.l1, ((0, 0), (0, 0), (0, most[0] - kkt.l1.shape[-1]))),
            multipliers_2=jnp.pad(kkt.l2, ((0, 0), (0, 0), (0, most[1] - kkt.l2.shape[-1]))),
        )
        parts.append((own, point.eta, jnp.pad(point.tilt, ((0, 0), (0, 0), (0, 2 - point.tilt.shape[-1])))))
    joined, eta, tilt = jax.tree.map(
        lambda *a: jax.vmap(lambda v: in_user_order(system, v))(jnp.concatenate(a, axis=1)), *parts
    )
    mu = contact_coefficients(system)
    if mu is not None:
        joined = dataclasses.replace(joined, mu=jnp.broadcast_to(mu, (s, *mu.shape)))
    share = radau(s).A[-1]  # of each stage's impulse in that of the step
    end = jax.tree.map(lambda a: a[-1], joined)
    found = dataclasses.replace(
        end,
        normal_impulse=share @ joined.normal_impulse,
        friction_impulse=jnp.einsum("i,ick->ck", share, joined.friction_impulse),
        stages=Stages(rates, velocity, eta, joined, tilt if system.tilts else None),
    )
    return _with_joints(found, joints)


def _joints(problem: StageProblem, ats: At) -> Joints | None:
    """What the joints do at the stages, with an axis (s,) in front; None where there are none."""
    system, first = problem.system, len(problem.system.groups)
    points = ats.points[first:]

    def at_stage(time, motion, points):
        state = State(time, motion.position, motion.orientation, motion.velocity)
        found = joint.record(system, state, [p.multipliers for p in points], [p.eta for p in points])
        return dataclasses.replace(found, mu=joint_coefficients(system))

    return jax.vmap(at_stage)(ats.time, ats.motion, points) if points else None


def _with_joints(contacts: Contacts, joints: Joints | None) -> Contacts:
    """`contacts` of a step with its `joints`: impulses of the step, closures at its end, and those
    of its stages."""
    if joints is None:
        return contacts
    share, at_stages = radau(len(joints.closure)).A[-1], dataclasses.replace(contacts.stages.contacts, joints=joints)
    last = {name: jnp.tensordot(share, getattr(joints, name), 1) for name in ("impulse_1", "impulse_2", "multipliers")}
    end = Joints(**last, **{name: getattr(joints, name)[-1] for name in ("closure", "coordinate", "rate")})
    end = dataclasses.replace(end, mu=None if joints.mu is None else joints.mu[-1])
    return dataclasses.replace(contacts, joints=end, stages=dataclasses.replace(contacts.stages, contacts=at_stages))


def _no_contacts(system: System, rates, velocity) -> Contacts:
    none = no_contacts(system.dimension)
    several = jax.tree.map(lambda a: jnp.zeros((len(rates), *a.shape)), none)
    return dataclasses.replace(none, stages=Stages(rates, velocity, several.gap, several))


def long_forms(system: System, state: State, contacts) -> list:
    """Per group, the closest-point unknowns (nc, unknowns) in long form of the last of stages'
    unknowns `contacts`."""

    def one(member: Constraint, unknowns, motion_1, motion_2):
        closest, d = unknowns[: member.pair.unknowns], member.pair.dimension
        if not member.pair.smooth:
            return closest
        return member.pair.general.start(closest[:d], closest[d:], *kinematics.placed(member, motion_1, motion_2))

    return [
        jax.vmap(one)(group, unknowns[-1], *kinematics.motions_of(system, state, group))
        for group, unknowns in zip(system.groups, contacts, strict=False)
    ]

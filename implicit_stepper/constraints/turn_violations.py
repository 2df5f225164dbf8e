"""What a step leaves open of turns: those that gears and screws skip, and angles in space past half
a turn, where they begin anew, of springs and limits."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from ..model.bodies import State
from ..model.system import System, in_joint_order
from . import joint_frames, kinematics
from .certificate_mechanics import orientation_rate
from .coordinates import Away, Beyond
from .gears import Gear

WITHIN = "angle within half a turn"  # a violation's name
_OF_A_PITCH = 0.25  # the least slip of a gear or a screw in a step that its closure would not tell


def remedy(violated) -> str:
    """What to say of a step in which these laws are `violated`, nothing where turns are not among
    them."""
    if WITHIN not in violated:
        return ""
    return (
        " Angles of springs and limits in space are told within half a turn. No shorter step helps where one passes that: "
        "use a scene in the plane, where angles count turns, or a PairLoad. Where a gear or a screw would skip a tooth, a "
        "smaller `h` helps."
    )


def skips(member, rates, h):
    """1 () where a joint is a gear or a screw that moves further in a step of h [s], at the `rates`
    (k,) [rad/s, m/s] of its closure, than this could tell, as it would where a tooth, or a turn of
    the thread, is skipped, else 0."""
    if isinstance(member.closure, Gear):
        pitch = member.closure.pitch(member.parameters)
    elif member.closure is joint_frames.screw:
        pitch = 2 * jnp.pi  # of the last row
    else:
        return jnp.zeros(())
    return jnp.where(jnp.abs(rates[-1] * h) > _OF_A_PITCH * pitch, 1.0, 0.0)


def of_stage(system: System, before: State, h, at: State, rates):
    """What a stage leaves open of turns (nj,), where the state is `at`: `wound` since `before` a
    step of h [s], and `skips` at the `rates` (nb, 6 or 3) by which bodies move there, which
    velocities need not be."""
    return jnp.maximum(wound(system, before, at), _skipped(system, dataclasses.replace(at, velocity=rates), h))


def _skipped(system: System, at: State, h):
    """`skips` (nj,) of all joints of bodies that move so."""
    parts = []
    for group in system.joints:
        found = jnp.zeros(len(group.numbers))
        if isinstance(group.closure, Gear) or group.closure is joint_frames.screw:

            def one(member, *motions):
                return skips(member, _rates(member, motions, at.time), h)

            found = jax.vmap(one)(group, *kinematics.motions_of(system, at, group))
        parts.append(found)
    return in_joint_order(system, jnp.concatenate(parts))


def _rates(member, motions, time):
    """Of the closure of one joint (r,) as its bodies move."""
    poses, d = [(motion.position, motion.orientation) for motion in motions], motions[0].position.size
    moving = [(own.velocity[:d], orientation_rate(own.orientation, own.velocity[d:])) for own in motions]

    def closure(*poses):
        return member.equations(*poses, time)[: member.closures]

    return jax.jvp(closure, tuple(poses), tuple(moving))[1]


def wound(system: System, before: State, at: State):
    """1 (nj,) for a spring or a limit whose angle in space passed half a turn, where it begins
    anew, between the state `before` a step and one `at` its end or at a stage, else 0. Of a damper
    alone nothing depends on the angle."""
    parts = []
    for group in system.joints:
        found = jnp.zeros(len(group.numbers))
        if isinstance(group.closure, Away | Beyond):
            first, last = (_angles(system, state, group) for state in (before, at))
            pulls = True if group.stiffness is None else jnp.any(group.stiffness != 0, axis=1)
            found = jnp.where((jnp.abs(last - first) > jnp.pi) & pulls, 1.0, 0.0)
        parts.append(found)
    return in_joint_order(system, jnp.concatenate(parts))


def _angles(system: System, state: State, group):
    """The angles (n,) of springs or limits, 0 where they count turns or are lengths."""

    def one(member, *motions):
        poses = [(motion.position, motion.orientation) for motion in motions]
        found = member.closure.turned(member.parameters, member.closure(member.parameters, *poses, state.time)[0])
        return jnp.zeros(()) if found is None else found

    return jax.vmap(one)(group, *kinematics.motions_of(system, state, group))

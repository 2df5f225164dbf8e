"""What a step leaves open of turns: those that gears, screws and prescribed angles skip, and angles
in space past half a turn, where they begin anew, of springs and limits."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from shapes.small_algebra import inner, product

from ..model.bodies import State
from ..model.system import System, in_joint_order
from . import joint_frames, kinematics
from .certificate_mechanics import orientation_rate
from .coordinates import Away, Beyond
from .gears import Gear
from .prescribed import Follows

WITHIN = "angle within half a turn"  # a violation's name
_OF_A_PITCH = 0.25  # the least slip of a gear or a screw in a step that its closure would not tell
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)  # from -1 to 1: a motion within a step
_OF_BODIES = Away, Follows  # closures that may prescribe a turn, which bodies make or miss as a whole


def remedy(violated) -> str:
    """What to say of a step in which these laws are `violated`, nothing where turns are not among
    them."""
    within = (
        " Angles of springs and limits in space are told within half a turn. No shorter step helps where one passes that: "
        "use a scene in the plane, where angles count turns, or a PairLoad."
    )
    skipped = " Where a gear or a screw would skip a tooth, or a prescribed angle a turn, a smaller `h` helps."
    return within * (WITHIN in violated) + skipped * bool({WITHIN, "closure"} & set(violated))


def skips(member, moved, begun, h, at):
    """1 () where a joint is a gear, a screw or a prescribed turn that bodies miss, in a step of h
    [s] from the time `begun` [s], by more than its closure can tell, as they do where a tooth, or a
    turn, is skipped, else 0. `moved` (k,) [rad, m]: what its closure at the time `at` [s] gains by
    their velocities alone, times h."""
    if isinstance(member.closure, Gear):
        pitch = member.closure.pitch(member.parameters)
    elif member.closure is joint_frames.screw:
        pitch = 2 * jnp.pi  # of the last row
    elif isinstance(member.closure, _OF_BODIES):
        missed = _missed(member.closure, moved, begun, h, at)
        return jnp.where(jnp.sum(missed**2) <= jnp.pi**2, 0.0, 1.0)  # the next root is a turn away
    else:
        return jnp.zeros(())
    return jnp.where(jnp.abs(moved[-1]) > _OF_A_PITCH * pitch, 1.0, 0.0)


def _missed(closure: Away | Follows, moved, begun, h, at):
    """By how much (1,) or (3,) [rad] bodies whose angles have `moved` so turned otherwise than is
    prescribed; 0 where no angle is. It integrates the prescribed rate, so that motions may be told
    within a turn."""
    if isinstance(closure, Follows):
        d = 2 if moved.size == 3 else 3
        turned = moved[d:] if d == 2 else inner(closure.turn(at, d), moved[d:])

        def rate(time):
            turn, change = jax.jvp(lambda at: closure.turn(at, d), (time,), (jnp.ones(()),))
            skew = product(change, turn.T)
            return skew[1:, 0] if d == 2 else jnp.stack([skew[2, 1], skew[0, 2], skew[1, 0]])

    elif closure.angle and closure.motion is not None:
        turned = moved

        def rate(time):
            told = jax.jvp(lambda at: jnp.asarray(closure.motion(at), float), (time,), (jnp.ones(()),))[1]
            return jnp.reshape(told, (1,))

    else:
        return jnp.zeros(1)
    times = begun + h * (1 + _NODES) / 2
    return turned - h * inner(jax.vmap(rate)(times).T, _WEIGHTS / 2)


def of_stage(system: System, before: State, h, at: State, rates, change):
    """What a stage leaves open of turns (nj,), where the state is `at`: `wound` since `before` a
    step of h [s], and `skips` at the `rates` (nb, 6 or 3) by which bodies move there, which
    velocities need not be, or by their `change` (nb, 6 or 3) [m, rad] since the step began."""
    return jnp.maximum(wound(system, before, at), _skipped(system, before, h, at, rates, change))


def _skipped(system: System, before: State, h, at: State, rates, change):
    """`skips` (nj,) of all joints of bodies that move so."""
    parts = []
    for group in system.joints:
        found = jnp.zeros(len(group.numbers))
        prescribed = isinstance(group.closure, _OF_BODIES)
        if prescribed or isinstance(group.closure, Gear) or group.closure is joint_frames.screw:
            moves, since = (change, at.time - before.time) if prescribed else (h * rates, h)

            def one(member, *motions, since=since):
                return skips(member, _moved(member, motions, at.time), before.time, since, at.time)

            found = jax.vmap(one)(group, *kinematics.motions_of(system, dataclasses.replace(at, velocity=moves), group))
        parts.append(found)
    return in_joint_order(system, jnp.concatenate(parts))


def _moved(member, motions, time):
    """The change of the closure (r,) of one joint as its bodies move so."""
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

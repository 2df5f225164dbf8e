"""What the certificates of steppers that ask beforehand say of joints: their linear equations, from
the record alone.

    G V + g_t = -g/h,      impulses G^T lambda,      with g and G before the step, V after it
    G V + g_t = 0          where joints act in the poses ahead
    lambda = -h (k g + c g')      of elastic joints, before the step

The record tells g, coordinates and rates after the step, which are taken again there.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints import joint_violations, turn_violations
from ..constraints.certificate_mechanics import beyond_rounding
from ..constraints.conditions import Constraint
from ..model.bodies import State
from ..model.records import Joints
from ..model.system import System, in_joint_order, take
from ..model.units import Scales, scales


class LaggedJoints(NamedTuple):
    """`violations` (nj,) by name; what the impulses give the moving bodies (nb, 6 or 3), and the
    size of what passes."""

    violations: dict[str, jax.Array]
    given: jax.Array
    passing: jax.Array


class _Side(NamedTuple):
    """One body: its poses (position, orientation) and velocities before the step and after it."""

    before: tuple[jax.Array, jax.Array]
    after: tuple[jax.Array, jax.Array]
    velocity_before: jax.Array
    velocity: jax.Array


def joints_of(system: System, before: State, after: State, record: Joints | None, h, *, ahead=False) -> LaggedJoints:
    """Joints in a step of h [s]. "closure": what they had come apart `before` it is undone to first
    order, or, with joints that act in the poses `ahead` of the velocities, nothing moves them apart
    there; of elastic ones, their force is that before the step; and the record tells what is so
    after it. "reaction": impulses are G^T times the multipliers."""
    none = jnp.zeros_like(after.velocity)
    if not system.joints:
        return LaggedJoints({}, none, none)
    units, parts = scales(system, h), []
    still = jnp.zeros((len(system.fixed_position), none.shape[1]))
    poses = [
        (jnp.concatenate([at.position, system.fixed_position]), jnp.concatenate([at.orientation, system.fixed_orientation]))
        for at in (before, after)
    ]
    every = _Side(*poses, *(jnp.concatenate([at.velocity, still]) for at in (before, after)))
    for number, group in enumerate(system.joints, start=len(system.groups)):
        own = jax.tree.map(functools.partial(take, numbers=group.numbers), record)
        sides = [jax.tree.map(functools.partial(take, numbers=of_side), every) for of_side in np.array(group.bodies).T]
        one = functools.partial(_of_one, system, units, (before.time, h, ahead))
        parts.append(jax.vmap(one)(group, own, units.impulse[number], *sides))
    joined = jax.tree.map(lambda *of: in_joint_order(system, jnp.concatenate(of)), *parts)
    joined |= {turn_violations.WITHIN: turn_violations.wound(system, before, after)}
    given = joint_violations.given(system, record)
    return LaggedJoints(joined, given, joint_violations.given(system, jax.tree.map(jnp.abs, record)))


def _of_one(system: System, units: Scales, clock, member: Constraint, record: Joints, impulse, side_1: _Side, side_2: _Side):
    """Violations () of one joint by name."""
    (time, h, ahead), sides, elastic = clock, (side_1, side_2), member.stiffness is not None
    lengths = jnp.where(np.array(member.angles, bool), units.length, 1.0)
    end, velocities = [side.after for side in sides], [side.velocity for side in sides]
    acting = end if ahead and not elastic else [side.before for side in sides]
    moving = [side.velocity_before for side in sides] if elastic else velocities
    known = time + h * (ahead and not elastic)
    g, rates, by_1, by_2 = joint_violations.derivatives(member, acting, moving, known)
    lambdas = record.multipliers[: g.size]
    off, arms = joint_violations.reaction(system, units, record, by_1 @ lambdas, by_2 @ lambdas, by_1, by_2)
    size = jnp.maximum(impulse, jnp.max(jnp.abs(lambdas / lengths)))
    far = sum(jnp.sum(jnp.abs(position)) for position, _ in (*acting, *end)) + units.length
    fast = sum(jnp.sum(jnp.abs(velocity)) for velocity in (*moving, *velocities)) * arms * units.length
    if elastic:
        lost = (member.stiffness * far + member.damping * fast) * h
        law = lambdas + h * (member.stiffness * g + member.damping * rates)
        left = jnp.max(beyond_rounding(law, lost) / lengths) / size
    else:
        law = (0.0 * g if ahead else g) + h * rates
        left = jnp.max(beyond_rounding(law * lengths, far + h * fast)) / units.gap
    told = joint_violations.told(
        units, member, record, member.equations(*end, time + h), lengths, end, velocities, far, fast
    )
    moved = h * (moving[0] @ by_1 + moving[1] @ by_2)
    told = jnp.maximum(told, turn_violations.skips(member, moved, time, h, known))
    return {"closure": jnp.maximum(left, told), "reaction": off / size}

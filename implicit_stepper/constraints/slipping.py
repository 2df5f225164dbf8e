"""The slips of joints that rub: where Newton's method starts, and of what steps record.

In a start joints hold, and slip by all that they can:

    G V = -g(q, t + h) / h,   V = V_free + M^-1 G^T lambda,   y = -mu R(lambda) w / |w|,   w = r q'

A joint that sticks in a start, though others move it, says nothing of its friction: there the law
asks for no slip, whatever the force, and what closures ask for contradicts it.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from ..model import bodies
from ..model.bodies import State
from ..model.records import Joints
from ..model.system import System
from ..solvers.complementarity import length_of
from . import joint_rows, kinematics


def slipping(system: System, state: State, free, h) -> tuple[jax.Array, list]:
    """Velocities (nb, 6 or 3) near the `free` ones which lead in h [s] from `state` to where joints
    hold, to first order, without friction; and per group of joints its unknowns (n, width), with
    all the friction that its reactions allow."""
    rows = joint_rows.joint_rows(system, state, bodies.mass_matrices(system, state))
    added, multipliers = rows.answer(free, joint_rows.ending_targets(system, state, rows, h))
    there = dataclasses.replace(state, time=state.time + h, velocity=free + added)
    others = [None if group.bilateral else jnp.zeros((len(group.numbers), group.closures)) for group in system.joints]
    held = joint_rows.by_group(system, multipliers * rows.lengths, others)
    return there.velocity, [_unknowns(system, there, group, own, h) for group, own in zip(system.joints, held, strict=True)]


def _unknowns(system: System, state: State, group, held, h):
    """Of a group whose closures are `held` by so much (n, r)."""
    if group.mu is None:
        return jnp.pad(held, ((0, 0), (0, group.width - held.shape[1])))

    def one(member, multipliers, motion_1, motion_2):
        w = member.slip(motion_1, motion_2, state.time)
        size = length_of(w)
        y = -member.bound(multipliers, h) * w / jnp.where(size > 0, size, 1.0)
        return jnp.concatenate([multipliers, y, size[None]])

    return jax.vmap(one)(group, held, *kinematics.motions_of(system, state, group))


def recorded(group, joints: Joints):
    """Unknowns (s, n, width + etas) of a group of joints at the s stages that `joints` record; of a
    slip, which they do not, 0: see `with_slips`."""
    numbers = np.array(group.numbers)
    impulses, etas = joints.multipliers[:, numbers], joints.eta[:, numbers, : group.etas]
    if group.mu is None:
        return jnp.concatenate([impulses[..., : group.width], etas], axis=-1)
    r, k = group.closures, group.rubbing
    y = impulses[..., r : r + k] / group.lever[:, None]
    return jnp.concatenate([impulses[..., :r], y, jnp.zeros((*y.shape[:-1], 1)), etas], axis=-1)


def with_slips(system: System, unknowns: tuple[jax.Array, ...], points) -> tuple[jax.Array, ...]:
    """The `unknowns` of all groups of constraints, (s, n, width + etas), with the slips of joints
    that rub, which are not recorded, at the `points` of the stages."""
    found = list(unknowns)
    for g, group in enumerate(system.joints, start=len(system.groups)):
        if group.mu is not None:
            slips = jnp.linalg.norm(points[g].w, axis=-1)
            found[g] = found[g].at[..., group.closures + group.rubbing].set(slips)
    return tuple(found)

"""Dry friction of ball joints in space: a moment against the relative spin.

    |y| <= mu |F|,   y against w = r (omega_2 - omega_1), and |y| = mu |F| where |w| = sigma > 0

y [N s] (3,) acts at the radius r of the ball by the moment r y on body 2 and -r y on body 1, in the
inertial frame, and F is the whole reaction: a cone of three components, in which the ball holds,
drills and rolls alike.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from ..model import rotation
from .joint_friction import FrictionGroup
from .kinematics import Motion


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class BallFrictionGroup(FrictionGroup):
    """n ball joints in space with friction; `along` is `relative_turn`."""

    def slip(self, motion_1: Motion, motion_2: Motion, time):
        """w (3,) [m/s]."""
        return self.lever * (motion_2.velocity[3:] - motion_1.velocity[3:])

    def moments(self, rubs, motion_1: Motion, motion_2: Motion, time):
        """The wrenches of the moment `rubs` (3,) [N m s]."""
        on_2 = jnp.concatenate([jnp.zeros(3), rubs])
        return -on_2, on_2


def relative_turn(parameters, pose_1, pose_2, time):
    """(3,) [rad]: 0, with the derivative omega_2 - omega_1, see `rotation.small_turn`."""
    return rotation.small_turn(pose_2[1]) - rotation.small_turn(pose_1[1])

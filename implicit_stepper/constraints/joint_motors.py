"""Motors: a coordinate is driven to a speed, by no more than a force.

    |y| <= h F,    y against w = q' - v and of that length where w is not 0

the law of dry friction with a known bound, and with the slip against a belt that runs at the speed
v.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from .joint_friction import FrictionGroup
from .kinematics import Motion


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MotorGroup(FrictionGroup):
    """n motors, of joints without closures: `most` (n,) [N, N m], and `speed` (n,) [m/s, rad/s];
    `mu` is not used."""

    most: jax.Array
    speed: jax.Array

    bilateral = property(lambda self: False)
    drives = property(lambda self: True)

    def bound(self, multipliers, h):
        """h F () over the radius."""
        return h * self.most / self.lever

    def slip(self, motion_1: Motion, motion_2: Motion, time):
        """w () [m/s]."""
        return super().slip(motion_1, motion_2, time) - self.lever * self.speed


def nothing(parameters, pose_1, pose_2, time):
    """The closure (0,) of what is no joint."""
    return jnp.zeros(0)

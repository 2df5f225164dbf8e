"""Limits of joints: a coordinate that may not pass a bound, as bodies may not pass into each other.

    end of a step     0 <= p _|_ g >= 0                 g, how far the coordinate is from its bound
    stages            0 <= p + eta _|_ g >= 0           0 <= p _|_ g' + 100 g+ / h >= 0
    impacts           0 <= P _|_ g'+ >= 0 where the bound is met

as the normal direction of a contact, without friction and inelastic.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from ..solvers.elimination import Links
from .conditions import NOTHING, OPEN, Conditions, Held, Instant, StageConditions, Units
from .joint import JointGroup, Point
from .kinematics import Motion


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LimitGroup:
    """n limits: `gap`, how far coordinates are from their bounds, as a closure of one row."""

    gap: JointGroup

    bodies = property(lambda self: self.gap.bodies)
    moving = property(lambda self: self.gap.moving)
    numbers = property(lambda self: self.gap.numbers)
    angles = property(lambda self: self.gap.angles)
    closure = property(lambda self: self.gap.closure)
    parameters = property(lambda self: self.gap.parameters)
    coordinates = property(lambda self: None)
    free_angles = property(lambda self: ())
    stiffness = property(lambda self: None)
    bilateral = property(lambda self: False)
    elastic = property(lambda self: False)
    drives = property(lambda self: False)
    holds_velocities = property(lambda self: False)
    unilateral = property(lambda self: True)
    mu = property(lambda self: None)
    mu_s = property(lambda self: None)
    closures = property(lambda self: 1)
    width = property(lambda self: 1)
    etas = property(lambda self: 1)
    determined = property(lambda self: 0)
    forces = property(lambda self: np.array([True, False]))

    def with_etas(self, own):
        """As of a joint."""
        return self.gap.with_etas(own)

    def lengths(self, length):
        """As of a joint."""
        return self.gap.lengths(length)

    def unknown_units(self, length, speed, impulse):
        """As of a joint."""
        return self.gap.unknown_units(length, speed, impulse)

    def links(self, nodes, sign: float) -> Links:
        """p follows where the coordinate is away from its bound."""
        return Links(nodes, 1, 0, ((0, 0, -1.0, False),))

    def pressing(self) -> int:
        """p is left at the bound."""
        return 1

    def impulses(self, unknowns):
        """As of a joint."""
        return unknowns

    def equations(self, pose_1, pose_2, time):
        """The gap (1,)."""
        return self.gap.equations(pose_1, pose_2, time)

    def wrenches(self, multipliers, motion_1: Motion, motion_2: Motion, time):
        """As of a joint."""
        return self.gap.wrenches(multipliers, motion_1, motion_2, time)

    def free(self, motion_1: Motion, motion_2: Motion):
        """A limit has no coordinates of its own."""
        return jnp.zeros(0), jnp.zeros(0)

    def conditions(self, unknowns, reference, units: Units, motion_1: Motion, motion_2: Motion, time, h):
        """Of one limit: its pair, and the wrenches of p on its bodies."""
        g, on_bodies = self.wrenches(unknowns, motion_1, motion_2, time)
        lengths = self.lengths(units.length)
        pair = unknowns / (units.impulse * lengths), g * lengths / units.gap
        return Conditions(jnp.zeros(0), pair, None), on_bodies

    def place(self, at: Instant, unknowns, reference, motion_1: Motion, motion_2: Motion):
        """As of a joint."""
        return self.gap.place(at, unknowns, reference, motion_1, motion_2)

    def point(self, at: Instant, placed, motion_1: Motion, motion_2: Motion) -> Point:
        """As of a joint, g being the gap."""
        return self.gap.point(at, placed, motion_1, motion_2)

    def pushes(self, point: Point):
        """The wrenches of p on its bodies."""
        return point.pushes

    def stage_conditions(self, at: Instant, point: Point) -> StageConditions:
        """Of one limit at a stage: (p, rate), and (p + eta, gap)."""
        units, lengths = at.units, self.lengths(at.units.length)
        p, eta = (a / (units.impulse * lengths) for a in (point.multipliers, point.eta))
        gap, rate = point.g * lengths, point.rates * lengths
        opens = rate + OPEN * jnp.maximum(gap - at.noise, 0.0) / at.h
        return StageConditions(jnp.zeros(0), NOTHING, (p, opens / units.speed), None, (p + eta, gap / units.gap))

    def eta_equations(self, at: Instant, point: Point, named: Held, held):
        """None."""
        return jnp.zeros(0)

    def give(self, at: Instant, held):
        """What the derivative gains if rate and gap give way by one unit each, with the signs of
        the rows."""
        return jnp.eye(2) * jnp.where(held, 1.0, -1.0)

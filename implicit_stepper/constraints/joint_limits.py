"""Limits of joints: a coordinate that may not pass a bound, as bodies may not pass into each other.

    end of a step     0 <= p _|_ g >= 0                 g, how far the coordinate is from its bound
    stages            0 <= p + eta _|_ g >= 0           0 <= p _|_ g' + 100 g+ / h >= 0
    impacts           0 <= P _|_ g'+ >= 0 where the bound is met

as the normal direction of a contact, without friction and inelastic.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..model.bodies import State
from ..model.system import System
from ..solvers.elimination import Links
from . import kinematics
from .conditions import NOTHING, OPEN, Conditions, Held, Instant, StageConditions, Units
from .joint import JointGroup, Point
from .kinematics import Motion
from .linear_rows import Rows


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


def limit_rows(system: System, state: State, k: int) -> tuple[Rows, jax.Array]:
    """The limits as rows of impacts, in lengths, with k rows each for friction that they have not;
    and their gaps (m,)."""
    w, bodies, sides, gaps = state.velocity.shape[1], [], [jnp.zeros((0, 2, state.velocity.shape[1]))], [jnp.zeros(0)]
    for group in limits(system):

        def one(member, motion_1, motion_2):
            lengths = member.lengths(system.length)
            gap, acting = member.wrenches(lengths, motion_1, motion_2, state.time)
            return jnp.stack(acting), (gap * lengths)[0]

        acting, own = jax.vmap(one)(group, *kinematics.motions_of(system, state, group))
        bodies += [tuple(min(b, system.body_count) for b in pair) for pair in group.bodies]
        sides.append(acting)
        gaps.append(own)
    sides = jnp.concatenate(sides)
    rows = jnp.zeros((len(sides), 2, 1 + k, w)).at[:, :, 0].set(sides)
    return Rows(tuple(bodies), rows[:, 0], rows[:, 1], jnp.zeros((len(sides), k))), jnp.concatenate(gaps)


def limits(system: System) -> list[Any]:
    """The groups of joints that bound."""
    return [group for group in system.joints if group.unilateral]


def limit_names(system: System) -> list[str]:
    """Of the limits, as `limit_rows` has them."""
    return [system.joint_names[number] for group in limits(system) for number in group.numbers]


def with_limits(system: System, forces: list, impulses) -> list:
    """`forces` per group, None of what is not elastic, with the `impulses` (m,) of the limits,
    measured in lengths."""
    found, start = [], 0
    for group, own in zip(system.joints, forces, strict=True):
        if group.unilateral:
            stop = start + len(group.numbers)
            own, start = impulses[start:stop, None] * group.lengths(system.length), stop
        found.append(own)
    return found

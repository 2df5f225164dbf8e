"""Dry friction in joints: bounded by the joint's own reaction, exact and in the same problem.

    |y| <= mu R(lambda),    y against w = r q' and of that length where w is not 0,    sigma = |w|

y [N s] acts at the radius r along the coordinate q of the joint, by the moment r y of a hinge, and
R is the reaction across it: of a hinge the radial force, of a slider the force on its guide, or
those on both ends of a guide of length L, which bear the moment M across it as well:

    R = |N_1| + |N_2|,    N_1, N_2 = F / 2 +- (M x axis) / L

A `BallFrictionGroup` has y and w of three components. As R may change with y, solutions may cease
to be unique where mu r is large against the lever of what drives the joint: it locks. That is
physics, and not smoothed away."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shapes.small_algebra import inner

from ..solvers.complementarity import length_of
from ..solvers.elimination import Links
from .conditions import Conditions, Cone, Held, Instant, StageConditions, Units
from .joint import JointGroup
from .kinematics import Motion


class Point(NamedTuple):
    """One joint at a stage: that of its closure; y (k,) [N s], sigma () and w (k,) [m/s]; and what
    records ask of any joint."""

    joint: Any
    y: jax.Array
    sigma: jax.Array
    w: jax.Array
    multipliers: jax.Array
    eta: jax.Array
    pushes: tuple[jax.Array, jax.Array]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FrictionGroup:
    """n joints with friction: the `joint` itself; `along`, the coordinate that rubs, as a closure
    of k = 1 row; `mu` (n,) and the radius `lever` (n,) [m], 1 where the coordinate is a length;
    `mu_s` (n,), the coefficient of what sticks, None where that is mu. `pads` (n, p, a, r): what
    takes the multipliers to the force (a,) on each of the p places that rub."""

    pads: jax.Array
    joint: JointGroup
    along: JointGroup
    mu: jax.Array
    lever: jax.Array
    mu_s: jax.Array | None = dataclasses.field(default=None, kw_only=True)

    bodies = property(lambda self: self.joint.bodies)
    moving = property(lambda self: self.joint.moving)
    numbers = property(lambda self: self.joint.numbers)
    angles = property(lambda self: self.joint.angles)
    closure = property(lambda self: self.joint.closure)
    parameters = property(lambda self: self.joint.parameters)
    coordinates = property(lambda self: self.joint.coordinates)
    free_angles = property(lambda self: self.joint.free_angles)
    stiffness = property(lambda self: None)
    bilateral = property(lambda self: True)
    elastic = property(lambda self: False)
    drives = property(lambda self: False)
    holds_velocities = property(lambda self: False)
    unilateral = property(lambda self: False)

    @property
    def closures(self) -> int:
        """Equations of the joint."""
        return self.joint.width

    @property
    def rubbing(self) -> int:
        """Components k of y."""
        return self.along.width

    @property
    def width(self) -> int:
        """Multipliers of the joint, y and sigma."""
        return self.joint.width + self.rubbing + 1

    @property
    def etas(self) -> int:
        """As of the joint."""
        return self.joint.etas

    @property
    def determined(self) -> int:
        """As of the joint."""
        return 0

    @property
    def forces(self) -> np.ndarray:
        """Which of the unknowns of a stage are impulses: multipliers and y."""
        return np.arange(self.width + self.etas) < self.joint.width + self.rubbing

    def with_etas(self, own):
        """Values for a stage, from those `own` (n, width) of a step of one stage."""
        return jnp.concatenate([own, own[:, : self.joint.width]], axis=1)

    def lengths(self, length):
        """As of the joint."""
        return self.joint.lengths(length)

    def unknown_units(self, length, speed, impulse):
        """Units (n, width) of multipliers, y and sigma."""
        own = self.joint.unknown_units(length, speed, impulse)
        rubs = jnp.broadcast_to(impulse[:, None], (len(own), self.rubbing))
        return jnp.concatenate([own, rubs, jnp.broadcast_to(speed, (len(own), 1))], axis=1)

    def links(self, nodes, sign: float) -> Links:
        """sigma follows from its row, and y where the joint slips by nothing; rows stand as
        closures, sigma, y."""
        r, k = self.joint.width, self.rubbing
        slips = tuple((r + i, r + 1 + i, sign, False) for i in range(k))
        return Links(nodes, self.width, r, ((r + k, r, sign, sign > 0), *slips))

    def pressing(self) -> int:
        """Multipliers and y are left."""
        return self.joint.width + self.rubbing

    def _split(self, unknowns):
        """Multipliers (r,), y (k,), sigma () and, at a stage, etas (r,)."""
        r, k = self.joint.width, self.rubbing
        return unknowns[:r], unknowns[r : r + k], unknowns[r + k], unknowns[r + k + 1 :]

    def impulses(self, unknowns):
        """What acts (r + k,) [N s, N m s]: the multipliers of the joint and, along its coordinate,
        lever y."""
        multipliers, y, _, _ = self._split(unknowns)
        return jnp.concatenate([multipliers, self.lever * y])

    def equations(self, pose_1, pose_2, time):
        """What the impulses are multipliers of (r + k,): closures and coordinate."""
        own = (member.equations(pose_1, pose_2, time) for member in (self.joint, self.along))
        return jnp.concatenate(list(own))

    def wrenches(self, multipliers, motion_1: Motion, motion_2: Motion, time):
        """Of one joint: g (r,), and the wrenches of `impulses`, or of multipliers (r,) alone, on
        its bodies."""
        r = self.joint.width
        g, of_joint = self.joint.wrenches(multipliers[:r], motion_1, motion_2, time)
        if multipliers.size == r:
            return g, of_joint
        rubbing = self.moments(multipliers[r:], motion_1, motion_2, time)
        return g, jax.tree.map(jnp.add, of_joint, rubbing)

    def moments(self, rubs, motion_1: Motion, motion_2: Motion, time):
        """The wrenches of what `rubs` (k,) [N s, N m s] along the coordinate."""
        return self.along.wrenches(rubs, motion_1, motion_2, time)[1]

    def rates(self, motion_1: Motion, motion_2: Motion, time):
        """As of the joint."""
        return self.joint.rates(motion_1, motion_2, time)

    def rates_grow(self, motion_1: Motion, motion_2: Motion, time):
        """As of the joint."""
        return self.joint.rates_grow(motion_1, motion_2, time)

    def free(self, motion_1: Motion, motion_2: Motion):
        """As of the joint."""
        return self.joint.free(motion_1, motion_2)

    def reaction(self, multipliers):
        """R () [N s]: the forces on all places that rub, together."""
        return jnp.sum(jax.vmap(length_of)(inner(self.pads, multipliers)))

    def slip(self, motion_1: Motion, motion_2: Motion, time):
        """w = r q' (k,) [m/s]."""
        return self.lever * self.along.rates(motion_1, motion_2, time)

    def bound(self, multipliers, h):
        """The most () [N s] that |y| can be in a step of h [s]."""
        return self.mu * self.reaction(multipliers)

    def cone(self, units: Units, multipliers, y, sigma, w, h) -> Cone:
        """The law, dimensionless."""
        bound, on = self.bound(multipliers, h) / units.impulse, jnp.ones(self.rubbing, bool)
        return Cone(bound, y / units.impulse, sigma / units.speed, w / units.speed, on, jnp.asarray(True))

    def conditions(self, unknowns, reference, units: Units, motion_1: Motion, motion_2: Motion, time, h):
        """Of one joint: its closures, its friction, and the wrenches of its impulses."""
        multipliers, y, sigma, _ = self._split(unknowns)
        stated, _ = self.joint.conditions(multipliers, reference, units, motion_1, motion_2, time, h)
        w = self.slip(motion_1, motion_2, time)
        _, on_bodies = self.wrenches(self.impulses(unknowns), motion_1, motion_2, time)
        cone = self.cone(units, multipliers, y, sigma, w, h)
        return Conditions(stated.equations, stated.pairs, cone), on_bodies

    def place(self, at: Instant, unknowns, reference, motion_1: Motion, motion_2: Motion):
        """Of one joint at a stage: what its unknowns say there, and the shifts of its bodies'
        momenta."""
        multipliers, _, _, etas = self._split(unknowns)
        placed, shifts = self.joint.place(at, jnp.concatenate([multipliers, etas]), reference, motion_1, motion_2)
        return (placed, unknowns), shifts

    def point(self, at: Instant, placed, motion_1: Motion, motion_2: Motion) -> Point:
        """One joint that was `placed`, of bodies with velocities V_i."""
        own, unknowns = placed
        joint = self.joint.point(at, own, motion_1, motion_2)
        impulses = self.impulses(unknowns)
        _, pushes = self.wrenches(impulses, motion_1, motion_2, at.time)
        w = self.slip(motion_1, motion_2, at.time)
        _, y, sigma, _ = self._split(unknowns)
        return Point(joint, y, sigma, w, impulses, joint.eta, pushes)

    def pushes(self, point: Point):
        """The wrenches of its impulses on its bodies."""
        return point.pushes

    def stage_conditions(self, at: Instant, point: Point) -> StageConditions:
        """Of one joint at a stage: what its closure states, and friction."""
        cone = self.cone(at.units, point.joint.multipliers, point.y, point.sigma, point.w, at.h)
        return self.joint.stage_conditions(at, point.joint)._replace(cone=cone)

    def eta_equations(self, at: Instant, point: Point, named: Held, held):
        """As of the joint."""
        return self.joint.eta_equations(at, point.joint, named, held)

    def give(self, at: Instant, held):
        """As of the joint, with y giving way to the slip."""
        r, k = self.joint.width, self.rubbing
        own, y = self.joint.give(at, held), r + np.arange(k)
        friction = 1.0 if at.friction == "projection" else jnp.where(held, 1.0, -1.0)
        matrix = jnp.zeros((2 * r + k + 1, 2 * r + k + 1)).at[y + 1, y].set(friction)
        keep = np.concatenate([np.arange(r), r + k + 1 + np.arange(r)])
        return matrix.at[keep[:, None], keep].set(own)

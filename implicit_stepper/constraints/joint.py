"""Joints: bilateral constraints g(q_1, q_2, t) = 0, of which g is all that anybody writes.

The impulse of multipliers lambda is G^T lambda, with G the derivative of g by displacements of the
bodies: translations, and rotations about the axes of the inertial frame. It is a vector-Jacobian
product of g, and the rate G V + g_t of g is a Jacobian-vector product, so that neither G nor its
transpose is ever written or stored.

A joint may be elastic. It is then no constraint but a force at the end of the step, or at the
stage, as implicit as g = 0:

    lambda / h = -(k g + c g'),     g' = G V + g_t
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..model import bodies, rotation
from ..model.bodies import State
from ..model.records import Joints
from ..model.system import System, in_joint_order
from ..solvers.elimination import Links
from . import kinematics
from .conditions import NOTHING, Conditions, Held, Instant, StageConditions, Units
from .kinematics import Motion


class Point(NamedTuple):
    """One joint at a stage: multipliers and eta (r,) [N s, N m s], g (r,) and its rates (r,), the
    wrenches on its bodies."""

    multipliers: jax.Array
    eta: jax.Array
    g: jax.Array
    rates: jax.Array
    pushes: tuple[jax.Array, jax.Array]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class JointGroup:
    """n joints of one form. Static: `closure`, g(parameters, pose_1, pose_2, time) -> (r,) with
    poses (position (d,), orientation (4,) or (1,)); `angles`, which of its r components are angles
    [rad], the others being lengths [m]; `bodies`, `moving` and `numbers` as in
    `conditions.Constraint`. Arrays: `parameters`, a pytree with the first axis n; of elastic joints
    `stiffness` (n, r) [N/m, N m/rad] and `damping` (n, r) [N s/m, N m s/rad], None of others.
    `coordinates`, static, gives what is free of them, (parameters, pose_1, pose_2) -> (c,) [m,
    rad]."""

    closure: Callable = dataclasses.field(metadata={"static": True})
    angles: tuple[bool, ...] = dataclasses.field(metadata={"static": True})
    bodies: tuple[tuple[int, int], ...] = dataclasses.field(metadata={"static": True})
    moving: tuple[bool, bool] = dataclasses.field(metadata={"static": True})
    numbers: tuple[int, ...] = dataclasses.field(metadata={"static": True})
    coordinates: Callable | None = dataclasses.field(metadata={"static": True})
    parameters: Any
    stiffness: jax.Array | None = None
    damping: jax.Array | None = None
    free_angles: tuple[bool, ...] = dataclasses.field(default=(), metadata={"static": True})

    @property
    def width(self) -> int:
        """Multipliers of a joint."""
        return len(self.angles)

    mu = property(lambda self: None)
    mu_s = property(lambda self: None)

    @property
    def bilateral(self) -> bool:
        """Whether it is a constraint, and no force."""
        return self.stiffness is None

    @property
    def unilateral(self) -> bool:
        """Whether it bounds a coordinate."""
        return False

    @property
    def drives(self) -> bool:
        """Whether it is a motor."""
        return False

    @property
    def elastic(self) -> bool:
        """Whether it is a force that poses and velocities determine."""
        return self.stiffness is not None

    @property
    def holds_velocities(self) -> bool:
        """Whether its equations are of velocities alone."""
        return False

    @property
    def closures(self) -> int:
        """Equations of a joint."""
        return len(self.angles)

    @property
    def etas(self) -> int:
        """Each closure has an eta of its own in a step of several stages."""
        return self.width

    @property
    def determined(self) -> int:
        """None of the multipliers is known from poses."""
        return 0

    @property
    def forces(self) -> np.ndarray:
        """Which of the unknowns of a stage (2 r,) are impulses, h times a force: the
        multipliers."""
        return np.arange(2 * self.width) < self.width

    def with_etas(self, own):
        """Values (n, 2 r) of the unknowns of a stage, from those `own` (n, r) of a step of one
        stage."""
        return jnp.concatenate([own, own], axis=1)

    def unknown_units(self, length, speed, impulse):
        """Units (n, r) of the multipliers: impulses [N s], and moments [N m s] where g is an
        angle."""
        return impulse[:, None] * self.lengths(length)

    def lengths(self, length):
        """(r,): what makes the components of g lengths; 1 for those that are."""
        return jnp.where(np.array(self.angles, bool), length, 1.0)

    def links(self, nodes, sign: float) -> Links:
        """Nothing can be eliminated: g does not depend on its multipliers."""
        return Links(nodes, self.width, self.width, ())

    def pressing(self) -> int:
        """All of them are left."""
        return self.width

    def conditions(self, unknowns, reference, units: Units, motion_1: Motion, motion_2: Motion, time, h):
        """Of one joint: g = 0, or its force, and the wrenches of the multipliers `unknowns` (r,) on
        its bodies."""
        g, on_bodies = self.wrenches(unknowns, motion_1, motion_2, time)
        none, rows = jnp.zeros(0), g * self.lengths(units.length) / units.gap
        if self.stiffness is not None:
            rows = self.defect(units, h, unknowns, g, self.rates(motion_1, motion_2, time))
        return Conditions(rows, (none, none), None), on_bodies

    def defect(self, units: Units, h, multipliers, g, rates):
        """Of one elastic joint: lambda + h (k g + c g') (r,), in the sum of the units of its
        terms."""
        lengths = self.lengths(units.length)
        unit = units.impulse * lengths + h * (self.stiffness * units.gap + self.damping * units.speed) / lengths
        return (multipliers + h * (self.stiffness * g + self.damping * rates)) / unit

    def wrenches(self, multipliers, motion_1: Motion, motion_2: Motion, time):
        """Of one joint: g (r,), and G^T times `multipliers` (r,) on body 1 and body 2, each (6,) or
        (3,) [N s, N m s]."""

        def closure(pose_1, pose_2):
            return self.closure(self.parameters, pose_1, pose_2, time)

        poses = [(motion.position, motion.orientation) for motion in (motion_1, motion_2)]
        g, back = jax.vjp(closure, *poses)
        return g, tuple(_wrench(*pose, *by_pose) for pose, by_pose in zip(poses, back(multipliers), strict=True))

    def impulses(self, unknowns):
        """What acts (r,) [N s, N m s]: the multipliers."""
        return unknowns

    def equations(self, pose_1, pose_2, time):
        """What the impulses are multipliers of: g (r,) at two poses."""
        return self.closure(self.parameters, pose_1, pose_2, time)

    def place(self, at: Instant, unknowns, reference, motion_1: Motion, motion_2: Motion):
        """Of one joint at a stage where bodies have these poses: multipliers, eta and g; and the
        shifts G^T eta of its bodies' momenta."""
        multipliers, eta = jnp.split(unknowns, 2)
        g, shifts = self.wrenches(eta, motion_1, motion_2, at.time)
        return (multipliers, eta, g), shifts

    def point(self, at: Instant, placed, motion_1: Motion, motion_2: Motion) -> Point:
        """One joint that was `placed`, of bodies with velocities V_i."""
        _, pushes = self.wrenches(placed[0], motion_1, motion_2, at.time)
        return Point(*placed, self.rates(motion_1, motion_2, at.time), pushes)

    def pushes(self, point: Point):
        """The wrenches of its multipliers on its bodies."""
        return point.pushes

    def stage_conditions(self, at: Instant, point: Point) -> StageConditions:
        """Of one joint at a stage: G V + g_t = 0, or the force of an elastic one."""
        if self.stiffness is not None:
            rows = self.defect(at.units, at.h, point.multipliers, point.g, point.rates)
        else:
            rows = point.rates * self.lengths(at.units.length) / at.units.speed
        return StageConditions(rows, NOTHING, NOTHING, None, NOTHING)

    def eta_equations(self, at: Instant, point: Point, named: Held, held):
        """Of one joint at a stage: g = 0 (r,), or that an elastic one has no eta."""
        lengths = self.lengths(at.units.length)
        if self.stiffness is not None:
            return point.eta / (at.units.impulse * lengths)
        return point.g * lengths / at.units.gap

    def give(self, at: Instant, held):
        """What it adds to the derivative (2 r, 2 r) of `branches.stage_rows` if its rates and
        closures give way by one unit each."""
        return jnp.eye(2 * self.width) * (self.stiffness is None)

    def elastic_forces(self, motion_1: Motion, motion_2: Motion, time):
        """Of one elastic joint: multipliers per time (r,) [N, N m], and the wrenches of these [N, N
        m] on its bodies."""
        g, _ = self.wrenches(jnp.zeros(self.width), motion_1, motion_2, time)
        force = -(self.stiffness * g + self.damping * self.rates(motion_1, motion_2, time))
        return force, self.wrenches(force, motion_1, motion_2, time)[1]

    def free(self, motion_1: Motion, motion_2: Motion) -> tuple[jax.Array, jax.Array]:
        """Of one joint: its coordinates (c,) [m, rad] and their rates."""

        def coordinates(pose_1, pose_2):
            return jnp.zeros(0) if self.coordinates is None else self.coordinates(self.parameters, pose_1, pose_2)

        return jax.jvp(coordinates, *_moving(motion_1, motion_2))

    def rates(self, motion_1: Motion, motion_2: Motion, time):
        """Of one joint: G V + g_t (r,) [1/s] at the velocities of the motions."""

        def closure(pose_1, pose_2, at):
            return self.closure(self.parameters, pose_1, pose_2, at)

        poses, changes = _moving(motion_1, motion_2)
        return jax.jvp(closure, (*poses, time), (*changes, jnp.ones(())))[1]

    def rates_grow(self, motion_1: Motion, motion_2: Motion, time):
        """Of one joint: how G V + g_t (r,) changes [1/s^2] while the velocities stay."""

        def moved(since):
            poses = [
                bodies.advance(motion.position, motion.orientation, motion.velocity, since)
                for motion in (motion_1, motion_2)
            ]
            return self.closure(self.parameters, *poses, time + since)

        def rate(since):
            return jax.jvp(moved, (since,), (jnp.ones(()),))[1]

        return jax.jvp(rate, (jnp.zeros(()),), (jnp.ones(()),))[1]


def _wrench(position, orientation, by_position, by_orientation):
    """What does the same work (6,) or (3,) on displacements of a body as these derivatives by its
    pose do on changes of that."""
    if position.size == 2:
        return jnp.concatenate([by_position, by_orientation])
    back = jnp.concatenate([orientation[:1], -orientation[1:]])
    return jnp.concatenate([by_position, rotation.multiply(by_orientation, back)[1:] / 2])


def _moving(*motions: Motion) -> tuple[list, list]:
    """Poses (position, orientation) and how fast they change."""
    return [(m.position, m.orientation) for m in motions], [_changes(m) for m in motions]


def _changes(motion: Motion):
    d = motion.position.size
    linear, angular = motion.velocity[:d], motion.velocity[d:]
    if d == 2:
        return linear, angular
    return linear, rotation.multiply(jnp.append(0.0, angular / 2), motion.orientation)


def record(system: System, state: State, multipliers, etas=None) -> Joints | None:
    """What the joints do in `state` with the `multipliers` and, at a stage, `etas`, per group (n,
    r); None where there are none."""
    if not system.joints:
        return None
    most, widest = max(group.width for group in system.joints), _most_coordinates(system, state)

    def one(member, own, eta, *motions):
        g, on_bodies = member.wrenches(own, *motions, state.time)
        closed = [None if a is None else jnp.pad(a, (0, most - a.size)) for a in (own, g, eta)]
        free = [jnp.pad(a, (0, widest - a.size)) for a in member.free(*motions)]
        return Joints(*on_bodies, *closed[:2], *free, closed[2])

    parts = [
        jax.vmap(one)(group, own, eta, *kinematics.motions_of(system, state, group))
        for group, own, eta in zip(system.joints, multipliers, etas or [None] * len(multipliers), strict=True)
    ]
    return jax.tree.map(lambda *own: in_joint_order(system, jnp.concatenate(own)), *parts)


def _most_coordinates(system: System, state: State) -> int:
    """The largest number of coordinates that a joint has."""

    def count(group):
        motions = kinematics.motions_of(system, state, group)
        return jax.eval_shape(jax.vmap(lambda member, *of: member.free(*of)), group, *motions)[0].shape[-1]

    return max(count(group) for group in system.joints)

"""Loads between two bodies, functions of their poses and velocities and of time, at the end of a
step or at a stage.

    lambda / h = f(q_1, V_1, q_2, V_2, t),

the force and moment on body 2 at its centre, and the opposite there on body 1. This lambda is an
unknown, so that f may be as stiff as it likes: it is solved for together with the motion.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..model import rotation
from ..runtime.errors import FunctionError
from .conditions import NOTHING, Conditions, Instant, StageConditions, Units
from .joint import Point
from .kinematics import Motion, told
from .nonholonomic import VelocityGroup


@dataclasses.dataclass(frozen=True)
class Between:
    """A user's `load`, and as a closure what it acts along: (6,) or (3,), 0 at all poses, with the
    velocity of body 2 against a part of body 1 at its place as the derivative in time, of which the
    first alone means anything."""

    load: Callable

    def __call__(self, parameters, pose_1, pose_2, time):
        first, second = (rotation.small_move(*pose) for pose in (pose_1, pose_2))
        arm = lax.stop_gradient(pose_2[0] - pose_1[0])
        return second - jnp.concatenate([rotation.point_velocity(first, arm), first[len(arm) :]])


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PairLoadGroup(VelocityGroup):
    """n loads between two bodies; their closure is `Between`, and like constraints on velocities
    they have no eta."""

    holds_velocities = property(lambda self: False)
    bilateral = property(lambda self: False)
    elastic = property(lambda self: True)

    def load(self, motion_1: Motion, motion_2: Motion, time):
        """f (r,) [N, N m]."""
        return self.closure.load(told(motion_1), told(motion_2), time)

    def wrenches(self, multipliers, motion_1: Motion, motion_2: Motion, time):
        """Nothing (r,) in the place of g, and the `multipliers` (r,) on body 2 and what they are on
        body 1."""
        d = len(motion_1.position)
        force, moment = multipliers[:d], multipliers[d:]
        turns = moment + rotation.moment(motion_2.position - motion_1.position, force)
        return jnp.zeros(self.width), (-jnp.concatenate([force, turns]), multipliers)

    def elastic_forces(self, motion_1: Motion, motion_2: Motion, time):
        """f (r,) [N, N m], and its wrenches."""
        force = self.load(motion_1, motion_2, time)
        return force, self.wrenches(force, motion_1, motion_2, time)[1]

    def _defect(self, units: Units, multipliers, force, h):
        """lambda - h f (r,), in the unit of impulses."""
        return (multipliers - h * force) / (units.impulse * self.lengths(units.length))

    def conditions(self, unknowns, reference, units: Units, motion_1: Motion, motion_2: Motion, time, h):
        """Of one: lambda = h f, and the wrenches of its multipliers `unknowns` (r,)."""
        none, force = jnp.zeros(0), self.load(motion_1, motion_2, time)
        rows = self._defect(units, unknowns, force, h)
        return Conditions(rows, (none, none), None), self.wrenches(unknowns, motion_1, motion_2, time)[1]

    def point(self, at: Instant, placed, motion_1: Motion, motion_2: Motion) -> Point:
        """One that was `placed`, of bodies with velocities V_i; f in the place of rates."""
        _, pushes = self.wrenches(placed[0], motion_1, motion_2, at.time)
        return Point(*placed, self.load(motion_1, motion_2, at.time), pushes)

    def stage_conditions(self, at: Instant, point: Point) -> StageConditions:
        """Of one at a stage: lambda = h f."""
        rows = self._defect(at.units, point.multipliers, point.rates, at.h)
        return StageConditions(rows, NOTHING, NOTHING, None, NOTHING)

    def give(self, at: Instant, held):
        """Nothing gives way: lambda follows from f."""
        return jnp.zeros((self.width, self.width))


def refuse_load(name: str, load: Callable, poses) -> None:
    """Raises `ValueError` where `load` cannot be traced at the two `poses`, or is not as many
    finite numbers as bodies have velocities."""
    w = 6 if len(poses[0][0]) == 3 else 3
    try:
        found = np.asarray(jax.jit(lambda: jnp.stack([load(*((*pose, jnp.zeros(w)) for pose in poses), 0.0)]))())[0]
    except Exception as error:  # of any type: it is the user's function that JAX's tracers run through
        what = (str(error).splitlines() or [type(error).__name__])[0]
        raise FunctionError(
            f"the load of {name!r} cannot be traced by JAX ({what}): write it with jax.numpy, as a function of two bodies "
            "(position, orientation, velocity) and the time, that returns one array."
        ) from error
    if found.shape != (w,) or not np.all(np.isfinite(found)):
        raise FunctionError(
            f"the load of {name!r} is {found.tolist()} at rest: it needs {w} finite numbers, force and moment."
        )

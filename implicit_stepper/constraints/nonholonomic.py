"""Constraints on velocities alone, which no equation of positions replaces: blades, and wheels that
roll.

    a(q_1, V_1, q_2, V_2, t) = A V + b = 0,    momenta gain A^T lambda

at the end of a step, at every stage, and after impacts. Positions have no equation, and stages no
eta. A and b are derivatives of a user's function, which is linear in the velocities but for b, what
drives them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..model import bodies, rotation
from ..runtime.errors import FunctionError
from .conditions import NOTHING, Conditions, Held, Instant, StageConditions, Units
from .joint import JointGroup, Point
from .kinematics import Motion, told

_LINEAR = 1e-9  # of its values: what is linear, but for rounding


@dataclasses.dataclass(frozen=True)
class Rolled:
    """A user's `rate` as a closure (r,) that is 0 at all poses, and has the rate as its derivative
    in time, of which the first alone means anything: no function of poses has it at all poses."""

    rate: Callable

    def __call__(self, parameters, pose_1, pose_2, time):
        sides = [(*pose, rotation.small_move(*pose)) for pose in (pose_1, pose_2)]
        still = [(position, orientation, jnp.zeros_like(moved)) for position, orientation, moved in sides]
        driven = self.rate(*still, time)
        moves = self.rate(*sides, time) - driven
        return moves + lax.stop_gradient(driven) * (time - lax.stop_gradient(time))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class VelocityGroup(JointGroup):
    """n constraints on velocities; its closure is `Rolled`."""

    holds_velocities = property(lambda self: True)
    etas = property(lambda self: 0)
    forces = property(lambda self: np.ones(self.width, bool))

    def with_etas(self, own):
        """As in a step of one stage."""
        return own

    def rates(self, motion_1: Motion, motion_2: Motion, time):
        """a (r,) [m/s, rad/s]."""
        return self.closure.rate(*map(told, (motion_1, motion_2)), time)

    def rates_grow(self, motion_1: Motion, motion_2: Motion, time):
        """How a (r,) changes [m/s^2] while the velocities stay."""

        def moved(since):
            there = [
                (*bodies.advance(m.position, m.orientation, m.velocity, since), m.velocity) for m in (motion_1, motion_2)
            ]
            return self.closure.rate(*there, time + since)

        return jax.jvp(moved, (jnp.zeros(()),), (jnp.ones(()),))[1]

    def wrenches(self, multipliers, motion_1: Motion, motion_2: Motion, time):
        """Nothing (r,) in the place of g, and A^T times the multipliers (r,) on body 1 and body
        2."""
        (x_1, q_1, v_1), (x_2, q_2, v_2) = map(told, (motion_1, motion_2))
        _, back = jax.vjp(lambda one, other: self.closure.rate((x_1, q_1, one), (x_2, q_2, other), time), v_1, v_2)
        return jnp.zeros(self.width), back(multipliers)

    def conditions(self, unknowns, reference, units: Units, motion_1: Motion, motion_2: Motion, time, h):
        """Of one: a = 0 at the end of the step, and the wrenches of its multipliers `unknowns`
        (r,)."""
        rows = self.rates(motion_1, motion_2, time) * self.lengths(units.length) / units.speed
        none = jnp.zeros(0)
        return Conditions(rows, (none, none), None), self.wrenches(unknowns, motion_1, motion_2, time)[1]

    def place(self, at: Instant, unknowns, reference, motion_1: Motion, motion_2: Motion):
        """Of one at a stage: its multipliers; it shifts no momenta."""
        none = jnp.zeros(0)
        return (unknowns, none, none), (jnp.zeros_like(motion_1.velocity), jnp.zeros_like(motion_2.velocity))

    def stage_conditions(self, at: Instant, point: Point) -> StageConditions:
        """Of one at a stage: a = 0."""
        rows = point.rates * self.lengths(at.units.length) / at.units.speed
        return StageConditions(rows, NOTHING, NOTHING, None, NOTHING)

    def eta_equations(self, at: Instant, point: Point, named: Held, held):
        """None."""
        return jnp.zeros(0)

    def give(self, at: Instant, held):
        """What the derivative gains if its rates give way by one unit each."""
        return jnp.eye(self.width)


def refuse_nonlinear(name: str, rate: Callable, poses) -> None:
    """Raises `ValueError` where `rate`, which JAX can trace at the two `poses`, is not linear in
    the velocities."""
    w = 6 if len(poses[0][0]) == 3 else 3
    first, second = np.random.default_rng(0).normal(size=(2, 2, w))

    def at(velocities):
        return rate(*((*pose, velocity) for pose, velocity in zip(poses, velocities, strict=True)), 0.0)

    still, one, other, both = values = np.asarray(
        jax.jit(jax.vmap(at))(np.stack([0 * first, first, second, 2 * first - 3 * second]))
    )
    bent = np.abs(both - still - 2 * (one - still) + 3 * (other - still))
    if not np.max(bent) <= _LINEAR * np.max(np.abs(values)):
        raise FunctionError(
            f"the rate of joint {name!r} is not linear in the velocities (component {int(np.argmax(bent))}): write A V + b, "
            "with A and b of poses and time."
        )

"""What acts along a coordinate of a joint: springs, prescribed motions, limits, motors, and
friction."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from .joint_motors import nothing
from .joints import Form


def elastic(form: Form, which: int, stiffness, damping, rest) -> Form:
    """A spring and a damper along coordinate `which` of the joint of a `form`."""
    angle = form.free_angles[which]
    return Form(
        Away(form.coordinates, which, angle, None),
        (angle,),
        form.parameters | {"rest": np.asarray(rest)},
        stiffness=np.array([stiffness]),
        damping=np.array([damping]),
    )


def driven(form: Form, which: int, motion: Callable) -> Form:
    """Coordinate `which` of the joint of a `form` is motion(time)."""
    angle = form.free_angles[which]
    return Form(Away(form.coordinates, which, angle, motion), (angle,), form.parameters)


def motorised(form: Form, which: int, speed: float, most: float, lever: float) -> Form:
    """Coordinate `which` of the joint of a `form` is driven at a `speed` by at most a force or
    moment, at a radius."""
    coordinates, angle = _Only(form.coordinates, which), form.free_angles[which]
    motor = speed, most, lever if angle else 1.0
    return Form(nothing, (), form.parameters, coordinates, (angle,), motor=motor)


@dataclasses.dataclass(frozen=True)
class _Only:
    """One (1,) of some coordinates."""

    coordinates: Callable
    which: int

    def __call__(self, parameters, pose_1, pose_2):
        return self.coordinates(parameters, pose_1, pose_2)[self.which : self.which + 1]


def bounded(form: Form, which: int, side: str, bound: float, middle: float) -> Form:
    """Coordinate `which` of the joint of a `form` is not below ("low") or not above ("high") a
    `bound`; an angle in space is told within half a turn of the `middle`."""
    angle, sign = form.free_angles[which], {"low": 1.0, "high": -1.0}[side]
    parameters = form.parameters | {"bound": np.asarray(bound), "middle": np.asarray(middle)}
    return Form(Beyond(form.coordinates, which, angle, sign), (angle,), parameters, bounds=True)


@dataclasses.dataclass(frozen=True)
class Beyond:
    """How far a coordinate is above its parameter `bound`, or below it where the `sign` is -1."""

    coordinates: Callable
    which: int
    angle: bool
    sign: float

    def __call__(self, parameters, pose_1, pose_2, time):
        q = self.coordinates(parameters, pose_1, pose_2)[self.which]
        if _within(self, parameters):
            q = q - 2 * jnp.pi * jnp.round((q - parameters["middle"]) / (2 * jnp.pi))
        return jnp.reshape(self.sign * (q - parameters["bound"]), (1,))

    def turned(self, parameters, g):
        """The angle () from the middle, where this is `g`, of which nothing is known beyond half a
        turn, or None."""
        return parameters["bound"] + self.sign * g - parameters["middle"] if _within(self, parameters) else None


@dataclasses.dataclass(frozen=True)
class Along:
    """The first of some `coordinates` as a closure of one row, of whose rate alone there is use."""

    coordinates: Callable

    def __call__(self, parameters, pose_1, pose_2, time):
        return self.coordinates(parameters, pose_1, pose_2)[:1]


@dataclasses.dataclass(frozen=True)
class Away:
    """How far a coordinate is from its parameter `rest`, an angle in space within half a turn of 0;
    or from its `motion`, of angles the least turn."""

    coordinates: Callable
    which: int
    angle: bool
    motion: Callable | None

    def __call__(self, parameters, pose_1, pose_2, time):
        wanted = parameters["rest"] if self.motion is None else self.motion(time)
        away = self.coordinates(parameters, pose_1, pose_2)[self.which] - wanted
        turns = self.angle and self.motion is not None
        return jnp.reshape(jnp.arctan2(jnp.sin(away), jnp.cos(away)) if turns else away, (1,))

    def turned(self, parameters, g):
        """As of `Beyond`; a motion may turn on."""
        return g + parameters["rest"] if self.motion is None and _within(self, parameters) else None


def _within(closure: Beyond | Away, parameters) -> bool:
    """Whether a coordinate is an angle in space, which is told within half a turn."""
    return closure.angle and "zero" not in parameters

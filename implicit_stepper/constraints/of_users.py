"""Joints of a user's own: a function in JAX, of which nothing else is written."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import jax.numpy as jnp

from ..runtime.errors import FunctionError
from .joints import LIBRARY, Form, Place
from .nonholonomic import Rolled
from .pair_loads import Between


@dataclasses.dataclass(frozen=True)
class UserConstraint:
    """`rows` equations of one's own: g((position_1, quaternion_1), (position_2, quaternion_2),
    time) -> (rows,), in JAX, in lengths [m]; positions are those of the centres of mass. `angles`:
    where g has angles [rad] instead, for each row."""

    g: Callable
    rows: int
    angles: Sequence[bool] | None = None

    def form(self, place_1: Place, place_2: Place) -> Form:
        """As that of any joint. Raises `ValueError` naming the argument."""
        if not callable(self.g):
            raise FunctionError(f"`g` = {self.g!r} must be a function of two poses and the time.")
        return Form(_Users(self.g), _angles(self), ())


@dataclasses.dataclass(frozen=True)
class VelocityConstraint:
    """`rows` equations of velocities: rate((position_1, quaternion_1, velocity_1), (position_2,
    quaternion_2, velocity_2), time) -> (rows,) [m/s], in JAX, 0 in every motion, as of a blade or a
    wheel that rolls. A velocity is (v, omega), (6,) in space and (3,) in the plane, in the inertial
    frame, of the centre of mass, as positions are. The function is linear in both velocities, but
    for what drives them, a function of poses and time. `angles`: which rows are [rad/s] instead."""

    rate: Callable
    rows: int
    angles: Sequence[bool] | None = None

    def form(self, place_1: Place, place_2: Place) -> Form:
        """As that of any joint. Raises `ValueError` naming the argument."""
        if not callable(self.rate):
            raise FunctionError(f"`rate` = {self.rate!r} must be a function of two bodies and the time.")
        return Form(Rolled(self.rate), _angles(self), (), velocities=True)


def _angles(of: UserConstraint | VelocityConstraint) -> tuple[bool, ...]:
    """Which of the `rows` are angular."""
    if not isinstance(of.rows, int) or of.rows < 1:
        raise FunctionError(f"`rows` = {of.rows!r} must be a whole number of equations, 1 or more.")
    angles = (False,) * of.rows if of.angles is None else tuple(map(bool, of.angles))
    if len(angles) != of.rows:
        raise FunctionError(f"`angles` = {of.angles!r} must name each of the {of.rows} `rows`.")
    return angles


@dataclasses.dataclass(frozen=True)
class _Users:
    """A user's g as a closure: two of one g are one program."""

    g: Callable

    def __call__(self, parameters, pose_1, pose_2, time):
        return jnp.asarray(self.g(pose_1, pose_2, time))


@dataclasses.dataclass(frozen=True)
class PairLoad:
    """A load between two bodies, such as a spring that is not linear: load((position_1,
    quaternion_1, velocity_1), (position_2, quaternion_2, velocity_2), time) -> (6,), or (3,) in the
    plane: the force [N] and moment [N m] on body 2 at its centre of mass, in JAX; body 1 has the
    opposite at the same place. Bodies are as a `VelocityConstraint` has them. It acts at the end of
    a step of first order, and at stages, as implicit as contact, so that stiff ones need no small
    steps; impacts do not feel it."""

    load: Callable

    def form(self, place_1: Place, place_2: Place) -> Form:
        """As that of any joint. Raises `ValueError` naming the argument."""
        if not callable(self.load):
            raise FunctionError(f"`load` = {self.load!r} must be a function of two bodies and the time.")
        d = len(place_1.centre)
        return Form(Between(self.load), (False,) * d + (True,) * (2 * d - 3), (), load=True)


OF_USERS = (UserConstraint, VelocityConstraint, PairLoad)  # functions, which no file can hold
JOINTS = (*LIBRARY, *OF_USERS)

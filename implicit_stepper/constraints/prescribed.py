"""A body whose pose is a function of time: a joint with the inertial frame that leaves nothing
free.

    x_2 + R_2 c = x(t) + R(t) c,     R(t)^T R_2 = 1

for the pose (x, R) of the coordinates in which its centre of mass is at c. Its multipliers are the
force and moment that drive it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from shapes.arguments import vector
from shapes.small_algebra import inner, product

from ..model import rotation
from ..runtime.errors import FunctionError
from .joint_frames import locked
from .joints import Form


@dataclasses.dataclass(frozen=True)
class Follows:
    """The closure of a body 2 with this `pose`: two of one function are one program."""

    pose: Callable

    def __call__(self, parameters, pose_1, pose_2, time):
        position, orientation = pose_2
        place, turn = placed(self.pose, time, len(position))
        away = position - (place + inner(turn, parameters["centre"]))
        return jnp.concatenate([away, locked(product(turn.T, rotation.matrix(orientation)))])

    def turn(self, time, d: int) -> jax.Array:
        """The rotation (d, d) that body 2 is to have at a `time` [s]."""
        return placed(self.pose, time, d)[1]


def following(pose: Callable, centre: np.ndarray) -> Form:
    """Body 2, with its centre of mass at `centre` (d,) [m] in its coordinates, has these at
    `pose`(time)."""
    d = len(centre)
    return Form(Follows(pose), (False,) * d + (True,) * (3 if d == 3 else 1), {"centre": np.asarray(centre, float)})


def placed(pose: Callable, time, d: int) -> tuple[jax.Array, jax.Array]:
    """Position (d,) [m] and rotation (d, d) of `pose`(time) = (position, quaternion or angle)."""
    position, turned = pose(time)
    turned = jnp.reshape(jnp.asarray(turned, float), (4 if d == 3 else 1,))
    return jnp.reshape(jnp.asarray(position, float), (d,)), rotation.matrix(rotation.unit(turned))


def first_pose(pose: Callable, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Position (d,) [m], and unit quaternion (4,) or angle (1,) [rad], at time 0. Raises
    `ValueError` for what is no motion."""
    if not callable(pose):
        raise FunctionError(f"`pose` = {pose!r} must be a function of the time [s] that returns (position, quaternion).")
    try:
        position, turned = pose(0.0)
        jax.eval_shape(lambda time: placed(pose, time, d), 0.0)
    except Exception as error:  # of any type: it is the user's function that JAX's tracers run through
        what = (str(error).splitlines() or [type(error).__name__])[0]
        raise FunctionError(
            f"`pose` = {pose!r} must be a function of the time [s], written with jax.numpy, that returns a position ({d},) "
            f"and a {'quaternion (4,)' if d == 3 else 'number, the angle'}: {what}"
        ) from error
    turned = vector("orientation of `pose`(0)", np.reshape(turned, -1), 4 if d == 3 else 1)
    if d == 3 and not np.linalg.norm(turned) > 0:
        raise FunctionError("the quaternion of `pose`(0) is zero: no rotation has it, (1, 0, 0, 0) is none.")
    return vector("position of `pose`(0)", position, d), np.asarray(rotation.unit(turned))


def first_velocity(pose: Callable, centre: np.ndarray) -> np.ndarray:
    """Velocity (6,) or (3,) of the centre of mass, at `centre` (d,) [m], and of the body at time
    0."""
    d = len(centre)

    def there(time):
        place, turn = placed(pose, time, d)
        return place + inner(turn, centre), turn

    (_, turn), (linear, spin) = jax.jvp(there, (0.0,), (1.0,))
    return np.concatenate([linear, _axial(np.asarray(spin) @ np.asarray(turn).T)])


def _axial(skew: np.ndarray) -> np.ndarray:
    """The vector of a skew matrix, omega of omega x."""
    return skew[1:, 0] if len(skew) == 2 else np.array([skew[2, 1], skew[0, 2], skew[1, 0]])

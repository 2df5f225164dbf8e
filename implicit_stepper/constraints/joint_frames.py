"""What joints hold and what they leave free, from two frames, one on each body.

With `away` the point of body 2 seen from that of body 1, in the frame on body 1, and `turned` the
rotation from the frame on body 1 to that on body 2, whose x axes are the axes of the joint:

    BallJoint  away = 0                            Slider       away_y = away_z = 0, no rotation
    Hinge      away = 0, x axes parallel           Cylindrical  away_y = away_z = 0, x axes parallel
    Universal  away = 0, x axes at right angles    Planar       away_x = 0, x axes parallel
    Fixed      away = 0, no rotation               Distance     |away| = length
    Screw      as Cylindrical, and the angle about the x axes is 2 pi away_x / lead
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from shapes.small_algebra import inner, product

from ..model import rotation


def _placed(parameters, pose_1, pose_2) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The rotation (d, d) of body 2, the frame (d, d) on body 1, and the way (d,) [m] from the
    point of body 1 to that of body 2, all in the inertial frame."""
    r_1, r_2 = (rotation.matrix(orientation) for _, orientation in (pose_1, pose_2))
    point_1, point_2 = (
        position + inner(turn, parameters[name])
        for (position, _), turn, name in ((pose_1, r_1, "point_1"), (pose_2, r_2, "point_2"))
    )
    return r_2, product(r_1, parameters["frame_1"]), point_2 - point_1


def _seen(parameters, pose_1, pose_2) -> tuple[jax.Array, jax.Array]:
    """`away` (d,) [m] and `turned` (d, d)."""
    r_2, frame_1, apart = _placed(parameters, pose_1, pose_2)
    return inner(frame_1.T, apart), product(frame_1.T, product(r_2, parameters["frame_2"]))


def _axis_seen(parameters, pose_1, pose_2) -> tuple[jax.Array, jax.Array]:
    """`away` (3,) [m] and the first column (3,) of `turned`, the axis of body 2: half the kernels
    of `_seen`."""
    r_2, frame_1, apart = _placed(parameters, pose_1, pose_2)
    both = jnp.stack([apart, inner(r_2, parameters["frame_2"][:, 0])])
    away, axis = inner(frame_1.T, both[:, None, :])
    return away, axis


def locked(turned):
    """0 where nothing is turned: (3,), or (1,) in the plane."""
    if turned.shape == (2, 2):
        return turned[1:, 0]
    return jnp.stack([turned[2, 1] - turned[1, 2], turned[0, 2] - turned[2, 0], turned[1, 0] - turned[0, 1]]) / 2


def ball_joint(parameters, pose_1, pose_2, time):
    """Closure (d,) [m]."""
    return _seen(parameters, pose_1, pose_2)[0]


def hinge(parameters, pose_1, pose_2, time):
    """Closure: (3,) [m] and (2,) [rad]: the x axes are parallel where that of body 2 has no other
    components."""
    away, axis = _axis_seen(parameters, pose_1, pose_2)
    return jnp.concatenate([away, axis[1:]])


def slider(parameters, pose_1, pose_2, time):
    """Closure: (2,) [m] and (3,) [rad], or (1,) and (1,)."""
    away, turned = _seen(parameters, pose_1, pose_2)
    return jnp.concatenate([away[1:], locked(turned)])


def cylindrical(parameters, pose_1, pose_2, time):
    """Closure: (2,) [m] and (2,) [rad]."""
    away, axis = _axis_seen(parameters, pose_1, pose_2)
    return jnp.concatenate([away[1:], axis[1:]])


def screw(parameters, pose_1, pose_2, time):
    """Closure: (2,) [m] and (3,) [rad]; the last, of whole turns, is told within one."""
    away, turned = _seen(parameters, pose_1, pose_2)
    ahead = _angle(turned) - 2 * jnp.pi * away[0] / parameters["lead"]
    ahead = jnp.arctan2(jnp.sin(ahead), jnp.cos(ahead))
    return jnp.append(jnp.concatenate([away[1:], turned[1:, 0]]), ahead)


def planar(parameters, pose_1, pose_2, time):
    """Closure: (1,) [m] and (2,) [rad]."""
    away, axis = _axis_seen(parameters, pose_1, pose_2)
    return jnp.concatenate([away[:1], axis[1:]])


def universal(parameters, pose_1, pose_2, time):
    """Closure: (3,) [m] and (1,) [rad]."""
    away, axis = _axis_seen(parameters, pose_1, pose_2)
    return jnp.append(away, axis[0])


def fixed(parameters, pose_1, pose_2, time):
    """Closure: (3,) [m] and (3,) [rad], or (2,) and (1,)."""
    away, turned = _seen(parameters, pose_1, pose_2)
    return jnp.concatenate([away, locked(turned)])


def distance(parameters, pose_1, pose_2, time):
    """Closure (1,) [m]."""
    away, _ = _seen(parameters, pose_1, pose_2)
    return (jnp.sqrt(inner(away, away)) - parameters["length"])[None]


def _angle(turned):
    """By how much the frame on body 2 is turned about the x axis, within half a turn."""
    return jnp.arctan2(turned[2, 1] - turned[1, 2], turned[1, 1] + turned[2, 2])


def turn(parameters, pose_1, pose_2):
    """Coordinate (1,) [rad] of a hinge; in the plane over any number of turns."""
    if "zero" in parameters:
        return pose_2[1] - pose_1[1] - parameters["zero"]
    return _angle(_seen(parameters, pose_1, pose_2)[1])[None]


def two_turns(parameters, pose_1, pose_2):
    """Coordinates (2,) [rad] of a universal joint: of the axis on body 2 about that on body 1, and
    against the axis on body 2 of that on body 1 about it, both from where they were."""
    _, turned = _seen(parameters, pose_1, pose_2)
    about_1 = jnp.arctan2(turned[2, 0], turned[1, 0])
    about_2 = -jnp.arctan2(turned[0, 2], turned[0, 1])
    since = jnp.stack([about_1, about_2]) - parameters["first"]
    return jnp.arctan2(jnp.sin(since), jnp.cos(since))


def shift(parameters, pose_1, pose_2):
    """Coordinate (1,) [m] of a slider."""
    return _seen(parameters, pose_1, pose_2)[0][:1]


def shift_and_turn(parameters, pose_1, pose_2):
    """Coordinates [m], [rad] of a cylindrical joint."""
    away, turned = _seen(parameters, pose_1, pose_2)
    return jnp.append(away[:1], _angle(turned))


def in_a_plane(parameters, pose_1, pose_2):
    """Coordinates [m], [m], [rad] of a planar joint."""
    away, turned = _seen(parameters, pose_1, pose_2)
    return jnp.append(away[1:], _angle(turned))


def completed(x: np.ndarray, near: np.ndarray) -> np.ndarray:
    """The right-handed frame (d, d) with the columns `x` and, across it, what is nearest to
    `near`."""
    if len(x) == 2:
        return np.stack([x, [-x[1], x[0]]], axis=1)
    y = near - (near @ x) * x
    y = y / np.linalg.norm(y)
    return np.stack([x, y, np.cross(x, y)], axis=1)

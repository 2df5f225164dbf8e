"""Exact motions of one body on a plane, found without a time-stepper: rolling and frictionless
bodies, a landing ball.

Units are SI; vectors are in the inertial frame, whose z axis is the plane's normal, unless they are
said to be in body axes. Only numpy and scipy are used, and nothing of this package, so that an
error cannot be on both sides.

A strictly convex body with the support function H touches the plane below it in one point. With the
direction down in body axes, d = -R^T e_z, that point is grad H(d) in body axes, and the centre is
at the height H(d). A body that stays on the plane and either rolls or feels no friction therefore
has its rotation as only freedom, and an ordinary differential equation for it. Rolling means no
slip; turning about the normal is free of torque (e_r = 0). The model has no restitution: what lands
stays down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gamma

import numpy as np
import scipy  # imports integrate once it is called, which takes .3 s

from ..runtime.errors import ExactSolutionError, OutsideRunError

GRAVITY = 9.81
UP = np.array([0.0, 0.0, 1.0])
# solve_ivp on place [m], quaternion, spin [rad/s]; scipy refuses rtol < 2.3e-14
RELATIVE, ABSOLUTE = 3e-14, 1e-14

# Of a unit direction (3,): height [m], contact point (3,) [m] and its derivative (3, 3) [m]. All in
# body axes.
Support = Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Solid:
    """A body about its centre of mass: mass [kg], principal moments (3,) [kg m^2], support function
    with derivatives."""

    mass: float
    inertia: np.ndarray
    support: Support


@dataclass(frozen=True)
class States:
    """n times: position (n, 3) [m] of the centre; quaternion (n, 4), w first; velocity (n, 6)
    linear [m/s], angular [rad/s]; arm (n, 3) [m] from the centre to the contact point; force (n, 3)
    [N] of the plane on the body; energy (n,) [J], kinetic and potential."""

    position: np.ndarray
    quaternion: np.ndarray
    velocity: np.ndarray
    arm: np.ndarray
    force: np.ndarray
    energy: np.ndarray


@dataclass(frozen=True)
class Motion:
    """A `solid` on the plane from 0 to `duration` [s]; `state(t)` (9,) is the place (2,) [m] of its
    centre along the plane, its quaternion and its angular velocity [rad/s]. It `rolls`, or glides
    at the constant velocity `glide` (2,) [m/s]."""

    solid: Solid
    rolls: bool
    glide: np.ndarray
    duration: float
    state: Callable[[float], np.ndarray]

    def at(self, time: np.ndarray) -> States:
        """States at `time` (n,) [s], each in [0, duration]."""
        time = np.atleast_1d(np.asarray(time, dtype=float))
        if not np.all((time >= 0.0) & (time <= self.duration)):
            raise OutsideRunError(f"`time` must lie in 0 to {self.duration} s.")
        rows = [_observe(self, self.state(t)) for t in time]
        return States(*(np.array(field) for field in zip(*rows, strict=True)))


def ellipsoid(semi_axes: Sequence[float], mass: float) -> Solid:
    """Homogeneous ellipsoid, `semi_axes` (3,) [m] along its body axes: H(n) = |(a n_x, b n_y, c
    n_z)|."""
    squares = np.square(semi_axes)

    def support(n):
        height = np.sqrt(squares @ n**2)
        point = squares * n / height
        return height, point, (np.diag(squares) - np.outer(point, point)) / height

    return Solid(mass, mass / 5.0 * (np.sum(squares) - squares), support)


def superquadric(semi_axes: Sequence[float], exponent: float, mass: float) -> Solid:
    """Homogeneous body |x/a|^p + |y/b|^p + |z/c|^p <= 1, `semi_axes` (a, b, c) [m]; its H is the
    dual norm, of exponent q = p/(p - 1). H is analytic where no component of its direction is zero,
    and everywhere if q is even."""
    axes, p = np.asarray(semi_axes, dtype=float), exponent
    q = p / (p - 1.0)

    def support(n):
        sizes = np.abs(axes * n)
        height = np.sum(sizes**q) ** (1.0 / q)
        along = (sizes / height) ** (q - 1.0) * np.sign(n)
        bend = np.diag((sizes / height) ** (q - 2.0)) - np.outer(along, along)
        return height, axes * along, (q - 1.0) / height * axes[:, None] * bend * axes

    # the mean of (x/a)^2 over the body
    square = gamma(3 / p) * gamma(3 / p + 1) / (gamma(1 / p) * gamma(5 / p + 1))
    return Solid(mass, mass * square * (np.sum(axes**2) - axes**2), support)


def move(
    solid: Solid, quaternion: Sequence[float], spin: Sequence[float], duration: float, *,
    rolls: bool = True, glide: Sequence[float] = (0.0, 0.0), method: str = "DOP853",
    relative: float = RELATIVE, absolute: float = ABSOLUTE,
) -> Motion:  # fmt: skip
    """The motion from (0, 0) with the orientation `quaternion` (4,) and the angular velocity `spin`
    (3,) [rad/s]. A body that does not roll feels no friction, and its centre keeps the velocity
    `glide` (2,) [m/s] along the plane.

    Raises `RuntimeError` if the integration fails, or if the body would leave the plane.
    """
    quaternion, glide = np.asarray(quaternion, dtype=float), np.asarray(glide, dtype=float)
    solve = _rolling if rolls else _gliding

    def rate(_, state):
        rotation, omega = rotation_matrix(state[2:6]), state[6:]
        velocity, angular_acceleration, _, _ = solve(solid, rotation, omega, glide)
        return np.concatenate([velocity[:2], quaternion_rate(state[2:6], omega), angular_acceleration])

    start = np.concatenate([[0.0, 0.0], quaternion / np.linalg.norm(quaternion), spin])
    found = scipy.integrate.solve_ivp(rate, (0.0, duration), start, method, rtol=relative, atol=absolute, dense_output=True)
    if not found.success:
        raise ExactSolutionError(f"the motion could not be integrated: {found.message}")
    motion = Motion(solid, rolls, glide, duration, found.sol)
    if np.any(motion.at(found.t).force[:, 2] <= 0.0):
        raise ExactSolutionError("the plane would have to pull: the body lifts off, and this is not its motion.")
    return motion


def rotation_matrix(quaternion: np.ndarray) -> np.ndarray:
    """R (3, 3) from body to inertial axes; the `quaternion` (4,), w first, may have any length but
    0."""
    w, u = quaternion[0], quaternion[1:]
    return ((w**2 - u @ u) * np.eye(3) + 2.0 * (np.outer(u, u) + w * _cross_matrix(u))) / (quaternion @ quaternion)


def quaternion_rate(quaternion: np.ndarray, omega: np.ndarray) -> np.ndarray:
    """(4,) [1/s] for an angular velocity (3,) [rad/s] in the inertial frame: half the product (0,
    omega) quaternion."""
    w, u = quaternion[0], quaternion[1:]
    return np.concatenate([[-omega @ u], w * omega + _cross_matrix(omega) @ u]) / 2.0


@dataclass(frozen=True)
class Ball:
    """A solid homogeneous ball: radius [m], friction mu [-], and its start: position (3,) [m] of
    the centre, above or on the plane z = 0, and velocity (6,) linear [m/s], angular [rad/s]. Its
    mass does not matter."""

    radius: float
    mu: float
    position: tuple[float, ...]
    velocity: tuple[float, ...]


@dataclass(frozen=True)
class Landing:
    """A `ball` that falls, lands at `lands` [s], slides, and rolls from `rolls` [s] on (infinite
    without friction).

    Landing stops the fall by an impulse p_n; friction of the impact is at most mu p_n, and what
    would stop the slip if that is less. Slip keeps its direction, along the unit vector
    `slip_direction` (2,), as impulses against it do not turn it. `kick` [m/s] is the friction
    impulse of the impact per mass.
    """

    ball: Ball
    lands: float
    rolls: float
    kick: float
    slip_direction: np.ndarray

    def at(self, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Positions (n, 3) [m] and velocities (n, 6), linear [m/s] and angular [rad/s], at `time`
        (n,) [s]; just after the impact at its time."""
        time, ball = np.atleast_1d(np.asarray(time, dtype=float)), self.ball
        flight, down, rolling = np.minimum(time, self.lands), time >= self.lands, np.maximum(time - self.rolls, 0.0)
        ground = np.maximum(time - self.lands, 0.0)
        sliding, brake = ground - rolling, ball.mu * GRAVITY
        # of friction, per mass [m/s], and its integral over time [m]
        impulse = down * self.kick + brake * sliding
        lag = self.kick * ground + brake * sliding * (sliding / 2.0 + rolling)
        start, speed = np.array(ball.position), np.array(ball.velocity)
        height = start[2] + speed[2] * flight - GRAVITY * flight**2 / 2.0
        position = np.column_stack([start[:2] + np.outer(time, speed[:2]) - np.outer(lag, self.slip_direction), height])
        velocity = np.tile(speed, (len(time), 1))
        velocity[:, :2] -= np.outer(impulse, self.slip_direction)
        velocity[:, 2] = np.where(down, 0.0, speed[2] - GRAVITY * time)
        x, y = self.slip_direction
        velocity[:, 3:5] += np.outer(2.5 / ball.radius * impulse, [-y, x])
        return position, velocity


def land(ball: Ball) -> Landing:
    """The motion of a ball. Its slip falls by 7/2 of the friction impulse per mass: 1 for the
    centre, 5/2 for the spin."""
    v, omega = np.array(ball.velocity[:3]), ball.velocity[3:]
    hits = np.sqrt(v[2] ** 2 + 2.0 * GRAVITY * (ball.position[2] - ball.radius))  # [m/s]
    slip = v[:2] + ball.radius * np.array([-omega[1], omega[0]])
    speed = float(np.linalg.norm(slip))
    kick = float(min(ball.mu * hits, speed / 3.5))
    left = max(speed - 3.5 * kick, 0.0)
    lands = (v[2] + hits) / GRAVITY
    slides = 0.0 if left == 0.0 else np.inf if ball.mu == 0.0 else left / (3.5 * ball.mu * GRAVITY)
    return Landing(ball, float(lands), float(lands) + slides, kick, slip / speed if speed > 0.0 else slip)


@lru_cache(maxsize=4)
def wobbling_ellipsoid(duration: float = 2.0, *, rolls: bool = True) -> Motion:
    """A tilted ellipsoid of 1 kg that rolls on the plane for `duration` [s]; or, on ice, from no
    speed along the plane."""
    solid = ellipsoid((0.5, 0.4, 0.3), 1.0)
    return move(solid, (0.9, 0.3, 0.2, 0.1), (1.0, 2.0, 3.0), duration, rolls=rolls)


@lru_cache(maxsize=1)
def tumbling_superquadric() -> Motion:
    """A superquadric of exponent 4 and 1 kg that rolls on a rounded corner for 1.4 s: it keeps off
    the directions with a zero component, at which its surface is flat and its support function not
    analytic."""
    solid = superquadric((0.4, 0.35, 0.3), 4.0, 1.0)
    return move(solid, (0.22, -0.5, 0.37, 0.0), (1.95, 1.8, 4.45), 1.4)


def landing_ball() -> Landing:
    """A ball of radius .25 m thrown from .5 m above the plane with spin: it slides through its
    impact and beyond."""
    return land(Ball(radius=0.25, mu=0.2, position=(0.0, 0.0, 0.75), velocity=(3.0, 1.0, 0.0, 2.0, -4.0, 5.0)))


def _rolling(solid: Solid, rotation: np.ndarray, omega: np.ndarray, _):
    """Velocity (3,) [m/s] of the centre, angular acceleration (3,) [rad/s^2], force (3,) [N] and
    arm (3,) [m].

    No slip: v = arm x omega. Newton's law then gives the force from the acceleration, and with it
    Euler's law is an equation for the angular acceleration alone.
    """
    arm, arm_rate, inertia, gyration = _geometry(solid, rotation, omega)
    across = _cross_matrix(arm)
    # force per mass at zero angular acceleration
    known = _cross_matrix(arm_rate) @ omega + GRAVITY * UP
    angular_acceleration = np.linalg.solve(inertia - solid.mass * across @ across, solid.mass * across @ known - gyration)
    return across @ omega, angular_acceleration, solid.mass * (across @ angular_acceleration + known), arm


def _gliding(solid: Solid, rotation: np.ndarray, omega: np.ndarray, glide: np.ndarray):
    """The same without friction: the force is vertical, and v_z = lever . omega keeps the body on
    the plane."""
    arm, arm_rate, inertia, gyration = _geometry(solid, rotation, omega)
    lever, lever_rate = (_cross_matrix(UP) @ a for a in (arm, arm_rate))
    known = solid.mass * (lever_rate @ omega + GRAVITY)  # normal force at zero angular acceleration
    law = inertia + solid.mass * np.outer(lever, lever)
    angular_acceleration = np.linalg.solve(law, -lever * known - gyration)
    force = UP * (solid.mass * lever @ angular_acceleration + known)
    return np.append(glide, lever @ omega), angular_acceleration, force, arm


def _geometry(solid: Solid, rotation: np.ndarray, omega: np.ndarray):
    """Arm (3,) [m] and its rate [m/s], inertia (3, 3) [kg m^2], and omega x inertia omega (3,) [N
    m]; inertial axes."""
    _, point, bend = solid.support(-rotation[2])
    arm = rotation @ point
    turning = _cross_matrix(omega)
    # of the contact point through the body
    wandering = rotation @ (bend @ (rotation.T @ (turning @ UP)))
    inertia = rotation * solid.inertia @ rotation.T
    return arm, turning @ arm + wandering, inertia, turning @ (inertia @ omega)


def _observe(motion: Motion, state: np.ndarray) -> tuple[np.ndarray, ...]:
    """The fields of `States` at one `state` (9,)."""
    solid, quaternion, omega = motion.solid, state[2:6], state[6:]
    rotation = rotation_matrix(quaternion)
    velocity, _, force, arm = (_rolling if motion.rolls else _gliding)(solid, rotation, omega, motion.glide)
    kinetic = (solid.mass * velocity @ velocity + solid.inertia @ (rotation.T @ omega) ** 2) / 2.0
    position = np.append(state[:2], -arm[2])
    twist = np.concatenate([velocity, omega])
    return position, quaternion, twist, arm, force, kinetic + solid.mass * GRAVITY * position[2]


def _cross_matrix(a: np.ndarray) -> np.ndarray:
    """(3, 3), which takes b to a x b."""
    return np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])

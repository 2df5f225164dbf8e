"""The three examples of Chakraborty, Berard, Akella, Trinkle (RSS 2007), section V, "C" below, as
scenes in SI units.

The numbers are the paper's. `exact` states them again on its own, so that a misprint cannot be on
both sides; so does `exact_rolling` those of the ellipsoid, the superquadric and the ball. These,
the sliding block and the pile are for comparing methods.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

import shapes

from ..constraints.friction import FrictionEllipsoid
from ..model import rotation
from ..scene.scene import Scene


def disc() -> Scene:
    """Example 1, C section V-A: a unit disc (1 kg, 0.5 kg m^2) that rolls without slip along -x on
    the line y = 0."""
    scene = Scene(dimension=2, gravity=(0.0, -9.81))
    line = scene.add_fixed(name="line", shape=shapes.HalfPlane(normal=(0.0, 1.0)))
    rolling = scene.add_body(
        name="disc", shape=shapes.Disc(1.0), mass=1.0, inertia=0.5, position=(0.0, 1.0), velocity=(-3.0, 0.0, 3.0)
    )
    scene.add_contact(line, rolling, friction=0.4)
    return scene


def spin() -> Scene:
    """Example 2, C section V-B: a unit sphere (0.4 kg m^2) that spins about the normal of the plane
    z = 0.

    C does not state the mass; with 1 kg its spin falls by 1.962 rad/s^2, as C has it.
    """
    scene = Scene(gravity=(0.0, 0.0, -9.81))
    plane = scene.add_fixed(name="plane", shape=shapes.HalfSpace(normal=(0.0, 0.0, 1.0)))
    sphere = scene.add_body(
        name="sphere",
        shape=shapes.Ellipsoid((1.0, 1.0, 1.0)),
        mass=1.0,
        inertia=(0.4, 0.4, 0.4),
        position=(0.0, 0.0, 1.0),
        velocity=(0.0, 0.0, 0.0, 0.0, 0.0, 1.962),
    )
    scene.add_contact(plane, sphere, friction=FrictionEllipsoid(mu=0.2, e_t=1.0, e_o=1.0, e_r=0.4))
    return scene


def two_spheres(shape: Callable[[float], shapes.Shape] | None = None, *, e_r: float = 0.3) -> Scene:
    """Example 3, C section V-C: a unit sphere from rest on two fixed ones, under a constant force
    instead of gravity.

    The spheres are written as ellipsoids, as C does, or as `shape(radius)`. Contact 0 is the
    paper's contact 1, with the sphere of radius 10 m.
    """
    shape = shape or (lambda radius: shapes.Ellipsoid((radius, radius, radius)))
    radii, centres = (10.0, 9.0), np.array([[0.0, 0.0, 0.0], [0.0, 11.4, 0.0]])
    scene = Scene(gravity=(0.0, 0.0, 0.0))
    small = scene.add_body(
        name="small sphere",
        shape=shape(1.0),
        mass=1.0,
        inertia=(0.4, 0.4, 0.4),
        position=_resting_place(centres[1, 1], radii[0] + 1.0, radii[1] + 1.0),
        wrench=(1.0, 2.6, -9.81, 0.0, 0.0, 0.0),
    )
    friction = FrictionEllipsoid(mu=0.2, e_t=1.0, e_o=1.0, e_r=e_r)
    for number, (radius, centre) in enumerate(zip(radii, centres, strict=True), start=1):
        large = scene.add_fixed(name=f"sphere {number}", shape=shape(radius), position=centre)
        scene.add_contact(large, small, friction=friction)
    return scene


def block(*, speed: float = 6.0, mu: float = 0.5, gap: float = 0.0, fall: float = 0.0) -> Scene:
    """A block of 1 kg that slides along x on the plane z = 0 at `speed` [m/s], `gap` [m] above it,
    falling at `fall` [m/s].

    It is a sphere whose inertia keeps it from turning: one contact point, in which no moment
    matters.
    """
    scene = Scene(gravity=(0.0, 0.0, -9.81), length_scale=1.0)
    plane = scene.add_fixed(name="plane", shape=shapes.HalfSpace(normal=(0.0, 0.0, 1.0)))
    sliding = scene.add_body(
        name="block",
        shape=shapes.Sphere(0.5),
        mass=1.0,
        inertia=(1e12, 1e12, 1e12),
        position=(0.0, 0.0, 0.5 + gap),
        velocity=(speed, 0.0, -fall, 0.0, 0.0, 0.0),
    )
    scene.add_contact(plane, sliding, friction=mu)
    return scene


def wobbling_ellipsoid(*, mu: float = 1.0) -> Scene:
    """A tilted ellipsoid of 1 kg, semi-axes .5, .4 and .3 m, that rolls on the plane z = 0 and
    wobbles.

    It needs mu above .29 to roll. With mu = 0 it starts at no speed along the plane instead.
    """
    axes, exponent = (0.5, 0.4, 0.3), 2.0
    return _rolling(shapes.Ellipsoid(axes), axes, exponent, (0.9, 0.3, 0.2, 0.1), (1.0, 2.0, 3.0), mu)


def tumbling_superquadric() -> Scene:
    """A superquadric of exponent 4 and 1 kg, semi-axes .4, .35 and .3 m, that rolls with mu = 1 on
    a rounded corner.

    From 1.55 s on it would come near a direction in which it is flat.
    """
    axes, exponent = (0.4, 0.35, 0.3), 4.0
    shape = shapes.Superquadric(axes, epsilon=(2.0 / exponent, 2.0 / exponent))
    return _rolling(shape, axes, exponent, (0.22, -0.5, 0.37, 0.0), (1.95, 1.8, 4.45), 1.0)


def landing_ball() -> Scene:
    """A solid ball of 1 kg and .25 m, thrown with spin from .5 m above the plane z = 0: it lands,
    slides, and rolls."""
    scene = Scene(gravity=(0.0, 0.0, -9.81))
    plane = scene.add_fixed(name="plane", shape=shapes.HalfSpace(normal=(0.0, 0.0, 1.0)))
    ball = scene.add_body(
        name="ball",
        shape=shapes.Sphere(0.25),
        mass=1.0,
        inertia=(0.025, 0.025, 0.025),
        position=(0.0, 0.0, 0.75),
        velocity=(3.0, 1.0, 0.0, 2.0, -4.0, 5.0),
    )
    scene.add_contact(plane, ball, friction=0.2)
    return scene


def pile(side: int, layers: int, *, mu: float = 0.3, tilt: float = 0.0) -> Scene:
    """`layers` of side x side unit spheres of 1 kg in a cubic lattice at rest on the plane z = 0,
    neighbours in contact.

    Each column carries itself: between neighbours of a layer impulses are zero. With a `tilt` [rad]
    of gravity towards x the lattice slides and shears.
    """
    scene = Scene(gravity=9.81 * np.array([np.sin(tilt), 0.0, -np.cos(tilt)]))
    plane = scene.add_fixed(name="plane", shape=shapes.HalfSpace(normal=(0.0, 0.0, 1.0)))
    places = list(itertools.product(range(side), range(side), range(layers)))
    balls = {
        place: scene.add_body(
            name="ball {} {} {}".format(*place),
            shape=shapes.Sphere(1.0),
            mass=1.0,
            position=2.0 * np.array(place) + (0.0, 0.0, 1.0),
        )
        for place in places
    }
    for place in places:
        if place[2] == 0:
            scene.add_contact(plane, balls[place], friction=mu)
        for step in np.eye(3, dtype=int):
            neighbour = tuple((np.array(place) + step).tolist())
            if neighbour in balls:
                scene.add_contact(balls[place], balls[neighbour], friction=mu)
    return scene


def _rolling(
    shape: shapes.Shape,
    axes: Sequence[float],
    exponent: float,
    quaternion: Sequence[float],
    spin: Sequence[float],
    mu: float,
) -> Scene:
    """A homogeneous superquadric of 1 kg on the plane z = 0 that starts to roll; with mu = 0, only
    to turn."""
    scene = Scene(gravity=(0.0, 0.0, -9.81))
    plane = scene.add_fixed(name="plane", shape=shapes.HalfSpace(normal=(0.0, 0.0, 1.0)))
    quaternion = np.array(quaternion) / np.linalg.norm(quaternion)
    arm = _lowest_point(axes, exponent, np.asarray(rotation.matrix(quaternion)))
    linear = np.cross(arm, spin)  # the contact point is at rest
    body = scene.add_body(
        name="body",
        shape=shape,
        mass=1.0,
        position=(0.0, 0.0, -arm[2]),
        quaternion=quaternion,
        velocity=(*(linear if mu > 0 else linear * (0.0, 0.0, 1.0)), *spin),
    )
    scene.add_contact(plane, body, friction=mu)
    return scene


def _lowest_point(axes: Sequence[float], exponent: float, turned: np.ndarray) -> np.ndarray:
    """The point (3,) of |x/a|^p + |y/b|^p + |z/c|^p <= 1, turned by the matrix `turned` (3, 3),
    that is lowest."""
    down = -turned[2] * axes  # in units of the semi-axes
    dual = exponent / (exponent - 1.0)
    size = np.sum(np.abs(down) ** dual) ** (1.0 / dual)
    return turned @ (np.sign(down) * (np.abs(down) / size) ** (dual - 1.0) * axes)


def _resting_place(apart: float, reach_1: float, reach_2: float) -> np.ndarray:
    """The point (3,) above the y axis at `reach_1` [m] from the origin and `reach_2` [m] from (0,
    apart, 0)."""
    y = (reach_1**2 - reach_2**2 + apart**2) / (2.0 * apart)
    return np.array([0.0, y, np.sqrt(reach_1**2 - y**2)])

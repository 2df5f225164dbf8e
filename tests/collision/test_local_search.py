"""Closest points near a start that is far off."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.collision.local_search import closest_points_along_faces, closest_points_near
from implicit_stepper.constraints import detection, kinematics
from implicit_stepper.constraints.kinematics import Motion

UPRIGHT = jnp.array([1.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("fall", [0.004, 0.03])
def test_a_ball_that_fell_far_is_found_from_where_it_was(fall):
    """Its gap is less by `fall` [m]: not because another root was found, but because the start is
    off the ball by as much."""
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    ball = scene.add_body(name="ball", shape=shapes.Sphere(0.1), mass=1.0, position=(0.01, -0.02, 0.3))
    scene.add_contact(floor, ball)
    system, state = scene.build()
    (group,), (points,) = system.groups, detection.closest_points(system, state)
    pair, member, d = group.pair.general, jax.tree.map(lambda a: a[0], group), 3
    places = {"ball": state.position[0] - jnp.array([0, 0, fall]), "floor": jnp.zeros(3)}
    motions = [Motion(places[name], UPRIGHT, jnp.zeros(6)) for name in system.contact_names[0]]
    placed = kinematics.placed(member, *motions)
    start = pair.start(points[0, :d], points[0, d : 2 * d], *placed)
    z, found = closest_points_near(pair, start, *placed, system.length, 1e-12)
    assert found
    assert z[3 * d] == pytest.approx(0.2 - fall, abs=1e-12)


@pytest.mark.parametrize("tilt", [1e-5, 1e-6, 1e-7, 1e-9])
def test_points_follow_a_face_that_turned_through_being_parallel(tilt):
    """The closest point was the corner at one end of an edge, that at the other end is closer by
    the `tilt` [rad] times the edge."""
    scene, half = ist.Scene(), np.array([0.1, 0.08, 0.05])
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    box = scene.add_body(
        name="box", shape=shapes.Box(tuple(half)), mass=1.0, position=(0, 0, 0.3), quaternion=_turned(0.3, -tilt)
    )
    scene.add_contact(floor, box)
    system, state = scene.build()
    (group,), (points,) = system.groups, detection.closest_points(system, state)
    pair, member, d = group.pair.general, jax.tree.map(lambda a: a[0], group), 3
    motions = {"box": Motion(state.position[0], jnp.array(_turned(0.3, tilt)), jnp.zeros(6))}
    motions["floor"] = Motion(jnp.zeros(3), UPRIGHT, jnp.zeros(6))
    placed = kinematics.placed(member, *(motions[name] for name in system.contact_names[0]))
    start = pair.start(points[0, :d], points[0, d : 2 * d], *placed)
    z, found = closest_points_along_faces(pair, start, *placed, system.length, 1e-11)
    corners = half * np.array(list(itertools.product((-1, 1), repeat=3)))
    lowest = np.min((corners @ np.array(placed[1].rotation).T)[:, 2])
    assert found
    assert z[3 * d] == pytest.approx(0.3 + lowest, abs=1e-13)


def _turned(about_y: float, about_x: float) -> tuple[float, ...]:
    """A rotation about the y axis, and then one about the world's x axis [rad], as a quaternion."""
    c, s, a, b = np.cos(about_y / 2), np.sin(about_y / 2), np.cos(about_x / 2), np.sin(about_x / 2)
    return (a * c, b * c, a * s, b * s)

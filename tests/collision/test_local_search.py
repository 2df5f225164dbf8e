"""Closest points near a start that is far off."""

import jax
import jax.numpy as jnp
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.collision.local_search import closest_points_near
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

"""Bodies that touch in edges and faces meet at other points of these than the closest ones, or do
not."""

import jax
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.constraints.detection import closest_points
from implicit_stepper.model.bodies import State
from implicit_stepper.radau import elsewhere


def test_a_body_that_turns_into_the_ground_at_another_point_of_its_edge_meets_it():
    """An edge that is parallel to the ground touches at any of its points. Turned about one that is
    not its end, the other side goes down; about its lower end, rolled about the edge, or spun on
    it, nothing does."""
    half = np.array([0.12, 0.06, 0.035])
    slope = 0.4
    turn = (np.cos(slope / 2), 0.0, np.sin(slope / 2), 0.0)
    # from the centre to the lower edge, across y
    down = half[0] * np.sin(slope) + half[2] * np.cos(slope)
    ahead = half[0] * np.cos(slope) - half[2] * np.sin(slope)
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    box = scene.add_body(name="box", shape=shapes.Box(half), density=1e3, position=(0, 0, down), quaternion=turn)
    scene.add_contact(floor, box, friction=0.3)
    system, state = scene.build()
    edge = np.array([ahead, 0.0, -down])
    closest = closest_points(system, state)
    for spin, along, meets in (
        ((0.2, 0, 0), 0.0, True),
        ((0.2, 0, 0), 0.06, True),
        ((0.2, 0, 0), -0.06, False),
        ((0, 3, 0), 0, False),
        ((0, 0, 3), 0, False),
    ):
        held = edge + [0.0, along, 0.0]  # where the body does not move
        velocity = np.concatenate([-np.cross(spin, held), spin])[None]
        moving = State(state.time, state.position, state.orientation, jax.numpy.asarray(velocity))
        assert elsewhere.meets_elsewhere(system, moving, closest) == meets


@pytest.mark.parametrize("compliance", [None, ist.Compliance(1e4)])
def test_slight_approaches_and_compliant_bodies_do_not_meet_elsewhere(compliance):
    """A plate that touches the ground moves on into it: a compliant one may, and so slowly any, by
    rounded gaps."""
    scene = ist.Scene(dimension=2)
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    square = shapes.Polygon([(-0.1, -0.1), (0.1, -0.1), (0.1, 0.1), (-0.1, 0.1)])
    scene.add_contact(floor, scene.add_body(name="plate", shape=square, mass=1.0, position=(0, 0.1)), compliance=compliance)
    system, state = scene.build()
    closest, unit = closest_points(system, state), np.sqrt(system.acceleration * system.length)
    for speed, meets in ((1e-6, False), (1e-4, True)):
        moving = State(state.time, state.position, state.orientation, jax.numpy.array([[0.0, -speed * unit, 0.0]]))
        assert elsewhere.meets_elsewhere(system, moving, closest) == (meets and compliance is None)

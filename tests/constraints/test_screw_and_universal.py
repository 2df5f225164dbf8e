"""Screws, which turn as they move on, and the two angles of universal joints."""

import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.constraints import joint_violations, turn_violations
from implicit_stepper.constraints.joints import Place
from implicit_stepper.model import rotation

G, MASS, INERTIA, LEAD = 9.81, 2.0, 0.01, 0.05


@pytest.mark.parametrize("hand", [1, -1])
def test_a_nut_falls_down_a_screw_as_one_mass(hand):
    """(m + I (2 pi / lead)^2) x'' = -m g, of which implicit Euler has the sum of its steps; through
    whole turns."""
    scene = ist.Scene()
    rod = scene.add_fixed(name="rod", shape=shapes.Sphere(0.01))
    nut = scene.add_body(name="nut", shape=shapes.Sphere(0.1), mass=MASS, inertia=(INERTIA,) * 3, position=(0, 0, 1))
    up = (0, 0, 1)
    scene.add_joint(rod, nut, ist.Screw((0, 0, 1), up, (0, 0, 0), up, lead=hand * LEAD), name="screw")
    h, n = 0.02, np.arange(51)
    run = ist.simulate(scene, ist.GeometricallyImplicit(), h=h, duration=1.0)
    fall = -G / (1 + INERTIA / MASS * (2 * np.pi / LEAD) ** 2) * h**2 * n * (n + 1) / 2
    np.testing.assert_allclose(run.position[:, 0, 2], 1 + fall, rtol=0, atol=1e-11)
    turned = 2 * np.pi * fall / (hand * LEAD)
    assert abs(turned[-1]) > 2 * np.pi  # more than one turn
    np.testing.assert_allclose(run.joint("screw").coordinate[:, 0], turned[1:], rtol=0, atol=1e-9)
    np.testing.assert_allclose(run.joint("screw").rate[:, 0], np.diff(turned) / h, rtol=0, atol=1e-8)
    # what turns the nut is the moment of the thread, and the force is what is left of its weight
    gained = np.diff(run.joint("screw").rate[:, 0], prepend=0) / h
    np.testing.assert_allclose(run.joint("screw").moment[:, 2], INERTIA * gained, rtol=0, atol=1e-8)


def test_a_screw_without_a_lead_is_none():
    scene = ist.Scene()
    rod = scene.add_fixed(name="rod", shape=shapes.Sphere(0.01))
    nut = scene.add_body(name="nut", shape=shapes.Sphere(0.1), mass=1.0, position=(0, 0, 0))
    with pytest.raises(ValueError, match="`lead` = 0 turns without moving on"):
        scene.add_joint(rod, nut, ist.Screw((0, 0, 0), (0, 0, 1), (0, 0, 0), (0, 0, 1), lead=0.0))


def test_a_turn_of_the_thread_that_is_skipped_is_noticed():
    """The last row of its closure, which is told within a turn, moves by no more than a quarter."""
    scene = ist.Scene()
    rod = scene.add_fixed(name="rod", shape=shapes.Sphere(0.01))
    nut = scene.add_body(name="nut", shape=shapes.Sphere(0.1), mass=1.0, position=(0, 0, 0))
    scene.add_joint(rod, nut, ist.Screw((0, 0, 0), (0, 0, 1), (0, 0, 0), (0, 0, 1), lead=LEAD))
    (member,) = scene.build()[0].joints
    h, shares = 0.01, (0.24, -0.26, 1.0)
    found = [
        float(turn_violations.skips(member, np.array([9.0, 9, 9, 9, 2 * np.pi * share]), 0.0, h, h)) for share in shares
    ]
    assert found == [0, 1, 1]


def test_angles_of_hinges_and_screws_have_springs_beside_each_other():
    """Both are told by one function, of which the screw's has one number more."""
    scene, x, origin = ist.Scene(), (1, 0, 0), (0, 0, 0)
    wall = scene.add_fixed(name="wall", shape=shapes.Sphere(0.01))
    for place, joint in (
        ((0, 1, 0), ist.Hinge((0, 1, 0), x, origin, x)),
        ((0, -1, 0), ist.Screw((0, -1, 0), x, origin, x, 0.1)),
    ):
        name = type(joint).__name__
        body = scene.add_body(name=f"on {name}", shape=shapes.Sphere(0.1), mass=1.0, position=place)
        scene.add_joint(wall, body, joint, name=name)
        scene.add_spring(name, stiffness=1.0)
    assert [len(group.numbers) for group in scene.build()[0].joints] == [1] * 4


@pytest.mark.parametrize("kind", [ist.Hinge, ist.Slider, ist.Cylindrical, ist.Planar])
def test_axes_that_point_opposite_ways_are_refused(kind):
    scene, origin = ist.Scene(), (0, 0, 0)
    wall = scene.add_fixed(name="wall", shape=shapes.Sphere(0.01))
    body = scene.add_body(name="body", shape=shapes.Sphere(0.1), mass=1.0, position=origin)
    with pytest.raises(ValueError, match="point opposite ways as these are placed"):
        scene.add_joint(wall, body, kind(origin, (1, 0, 0), origin, (-1, 0, 0)))


def test_half_a_turn_is_no_turn_for_no_certificate():
    """A sine is 0 there too."""
    half = np.diag([1.0, -1.0, -1.0])
    for turned, held in (
        (np.eye(3), True),
        (half, False),
        (half @ np.asarray(rotation.matrix(about([0, 0, 1], 0.3))), False),
    ):
        assert (np.max(np.abs(joint_violations._turn(np.eye(3), turned.T))) <= 1e-15) == held
    assert np.min(np.abs(joint_violations._tilt(np.eye(3), -np.eye(3)))) >= 1


def about(axis, angle):
    return np.concatenate([[np.cos(angle / 2)], np.sin(angle / 2) * np.asarray(axis)])


def test_the_angles_of_a_universal_joint_are_those_of_its_two_axes():
    axis_1, axis_2 = np.array([0.0, 0.6, 0.8]), np.array([1.0, 0.0, 0.0])
    first = about([0, 0, 1], 0.0)
    places = [Place(np.zeros(3), np.eye(3))] * 2
    form = ist.Universal((0, 0, 0), axis_1, (0, 0, 0), axis_2).form(*places)
    for alpha, beta in np.random.default_rng(2).uniform(-1.5, 1.5, size=(20, 2)):
        turned = rotation.multiply(about(axis_1, alpha), about(axis_2, beta))
        poses = (np.zeros(3), first), (np.zeros(3), np.asarray(turned))
        np.testing.assert_allclose(form.closure(form.parameters, *poses, 0.0), 0, atol=1e-15)
        np.testing.assert_allclose(form.coordinates(form.parameters, *poses), [alpha, beta], atol=1e-14)

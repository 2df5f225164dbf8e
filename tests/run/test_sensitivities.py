"""Derivatives along finished runs against closed forms, and what names parameters may have."""

import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.model.bodies import State
from implicit_stepper.paper import scenes
from implicit_stepper.run import parameters
from implicit_stepper.run.sensitivities import _agree

STEPPER = ist.GeometricallyImplicit()
G = 9.81


def test_sensitivities_of_a_spinning_sphere_are_those_of_the_closed_form():
    """Its spin falls by mu m g e_r h / I a step, until it is zero: after eight steps of ten."""
    scene, h, steps = scenes.spin(), 0.14, 10
    run = ist.simulate(scene, STEPPER, h=h, duration=steps * h)
    system, _ = scene.build()
    found = ist.sensitivities(scene, STEPPER, run, ["mu", "e_r", "h", "velocity", "shape of sphere"])
    loss = 0.2 * G * 0.4 / 0.4
    number = np.arange(steps + 1.0)
    spins = number * loss * h < 1.962
    for name, by in (("mu", loss / 0.2), ("e_r", loss / 0.4), ("h", loss / h)):
        spin = np.asarray(found[name].velocity[:, 0, 5]).reshape(steps + 1)
        assert np.abs(spin - np.where(spins, -by * h * number, 0)).max() <= 1e-9
    assert found["velocity"].velocity.shape == (steps + 1, 1, 6, 1, 6)
    assert np.abs(found["velocity"].velocity[:, 0, 5, 0, 5] - spins).max() <= 1e-9
    assert np.abs(found["h"].time - number).max() <= 1e-12
    # a larger vertical semi-axis lifts the sphere within the first step
    assert found["shape of sphere"].position[1:, 0, 2, 2] == pytest.approx(1.0, abs=1e-8)
    states = State(run.time, run.position + 1.0 * (number > 0)[:, None, None], run.orientation, run.velocity)
    with pytest.raises(ist.StepError, match="off the trajectory"):
        _agree(system, states, np.zeros(steps, int), run, states)
    with pytest.raises(ist.StepError, match="step 0 needs starts"):
        _agree(system, states, np.ones(steps, int), run, states)
    with pytest.raises(ValueError, match="has no derivatives"):
        ist.sensitivities(scene, ist.Convex(), run, ["mu"])
    with pytest.raises(ValueError, match="is not that of the `trajectory`"):
        ist.sensitivities(scene, ist.RadauContact(), run, ["mu"])
    with pytest.raises(ValueError, match="`trajectory` is one of sphere, the scene has small sphere: give"):
        ist.sensitivities(scenes.two_spheres(), STEPPER, run, ["mu"])


def test_parameters_are_read_and_changed_by_name():
    system, start = scenes.two_spheres().build()
    for name in parameters.names(system):
        now = parameters.read(system, start, name)
        own, begun = parameters.changed(system, start, {name: now + 0.5})
        assert np.array_equal(parameters.read(own, begun, name), now + 0.5)
        others = [other for other in parameters.names(system) if other != name]
        for other in others:
            assert np.array_equal(parameters.read(own, begun, other), parameters.read(system, start, other))
    own, _ = parameters.changed(system, start, {"shape of small sphere": [1.0, 2.0, 3.0]})
    assert np.array_equal(own.groups[0].theta_2, 2 * [[1.0, 2.0, 3.0]])


def test_numbers_of_joints_are_read_and_changed_by_name():
    scene = ist.Scene()
    wall = scene.add_fixed(name="wall", shape=shapes.HalfSpace(normal=(0.0, 0.0, 1.0), offset=-9.0))
    bars = [scene.add_body(name=f"bar {i}", shape=shapes.Sphere(0.1), mass=1.0, position=(i, 0, 0)) for i in range(3)]
    for i, mu in ((0, 0.1), (1, 0.2)):
        turns = (float(i), 0, 0), (0, 1, 0), (0, 0, 0), (0, 1, 0)
        scene.add_joint(wall, bars[i], ist.Hinge(*turns, friction=ist.JointFriction(mu, radius=0.1)), name=f"pin {i}")
    scene.add_joint(wall, bars[2], ist.Spring((2, 0, 1), (0, 0, 0), stiffness=30.0, damping=2.0, length=1.0), name="spring")
    system, start = scene.build()
    named = {"mu of pin 0": 0.1, "mu of pin 1": 0.2, "stiffness of spring": 30.0, "damping of spring": 2.0}
    known = parameters.names(system)
    assert set(named) <= set(known)
    assert all(np.size(parameters.read(system, start, name)) for name in known if "fixed" not in name)
    for name, value in named.items():
        assert np.all(np.asarray(parameters.read(system, start, name)) == value)
        own, _ = parameters.changed(system, start, {name: value + 1})
        for other, unchanged in named.items():
            assert np.all(np.asarray(parameters.read(own, start, other)) == unchanged + (other == name))


@pytest.mark.parametrize("names", [[], "mu"])
def test_what_lists_no_parameters_is_refused(names):
    with pytest.raises(ValueError, match="`parameters` = .* lists no names"):
        ist.sensitivities(scenes.two_spheres(), STEPPER, None, names)


def test_parameters_that_are_none_are_refused():
    system, start = scenes.two_spheres().build()
    with pytest.raises(ValueError, match="'colour': of this scene there are mass, .*, shape of small sphere"):
        parameters.read(system, start, "colour")
    with pytest.raises(ValueError, match="'length', which is a unit"):
        parameters.changed(system, start, {"length": 1.0})

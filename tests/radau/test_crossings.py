"""Smooth steps again after steps of first order."""

import numpy as np
import pytest

import implicit_stepper as ist
import shapes

HALF = (0.05, 0.05, 0.3)


@pytest.fixture(scope="module")
def falls():
    """A column that is dropped on a corner, rocks from edge to edge and falls over, by two
    tolerances; it spins on its edges, whose friction acts at one point."""
    scene, axis = ist.Scene(), np.array([1.0, 0.3, 0.0]) / np.hypot(1.0, 0.3)
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    lean = (np.cos(0.1), *(np.sin(0.1) * axis))
    column = scene.add_body(name="column", shape=shapes.Box(HALF), mass=1.0, position=(0, 0, 0.35), quaternion=lean)
    scene.add_contact(floor, column, friction=0.4)
    return [ist.simulate(scene, ist.RadauContact(), tol=tol, duration=1.5, progress=False) for tol in (1e-6, 1e-7)]


def test_few_steps_are_of_first_order(falls):
    """Impacts on edges and faces are; with tol = 1e-7 there were hundreds, and 4114 with 1e-8, as
    no length of a step after one of them met its tolerance."""
    for run in falls:
        assert run.counts["one-stage steps"] <= 30
        assert len(run) < 300


def test_where_it_comes_to_lie_hardly_depends_on_the_tolerance(falls):
    """Steps of first order left 4e-5 m between these two."""
    one, other = falls
    np.testing.assert_allclose(other.position[-1], one.position[-1], rtol=0, atol=2e-6)
    assert one.position[-1, 0, 2] == pytest.approx(HALF[0], abs=1e-9)
    # nothing hinders its spin about the normal
    np.testing.assert_allclose(one.velocity[-1, 0, :5], 0.0, rtol=0, atol=1e-9)


def test_nothing_gives_it_energy(falls):
    for run, tol in zip(falls, (1e-6, 1e-7), strict=True):
        assert np.max(np.diff(run.energy().total)) <= 10 * tol * run.energy().total[0]

"""The start of a step: the continuation of the last roots."""

import itertools

import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.implicit_euler.initial_guess import ROOTS, extrapolated

NOISE = 1e-12
BACK = -np.arange(ROOTS)  # steps since the last root


def cubic(steps):
    """z (ROOTS,), or () at one time."""
    return 2.0 + 0.1 * steps + 0.01 * steps**2 - 0.001 * steps**3


def test_a_polynomial_goes_on_exactly():
    """A cubic's differences beyond the third are round-off, whatever its values."""
    history = np.stack([cubic(BACK), -3 * cubic(BACK), 1e3 * cubic(BACK)], axis=1)
    expected = cubic(1) * np.array([1, -3, 1e3])
    np.testing.assert_allclose(extrapolated(history, NOISE), expected, rtol=1e-13, atol=0)


def test_nothing_before_a_kink_counts():
    """Three roots after it give a parabola, two a line and one itself; unknowns that had none go on
    as before."""
    for after in (1, 2, 3):
        parts = (5.0, 5.0 + 0.1 * BACK, 5.0 + 0.1 * BACK + 0.01 * BACK**2)[after - 1]
        broken = np.where(np.arange(ROOTS) < after, parts, 0.1 * BACK)
        expected = (5.0, 5.1, 5.11)[after - 1]
        found = extrapolated(np.stack([broken, cubic(BACK)], axis=1), NOISE)
        np.testing.assert_allclose(found, [expected, cubic(1)], rtol=1e-13)


def test_noise_is_not_continued():
    """Differences of order k of noise are up to 2^k times as large: what rests stays where it
    was."""
    shaken = NOISE * np.random.default_rng(0).uniform(-0.4, 0.4, (ROOTS, 50))
    np.testing.assert_array_equal(extrapolated(shaken, NOISE), shaken[0])
    moved = np.abs(extrapolated(1.0 + shaken, NOISE) - 1.0)
    assert np.max(moved) <= 2 * NOISE


@pytest.mark.thorough
def test_shares_that_nothing_determines_do_not_wander():
    """Six boxes in a row, hinged, that slide and turn: before any of them sticks the motion is
    smooth, and steps after the first four take hardly a Jacobian; two of three did where reactions
    were continued, as centres of pressure came to the rims of faces."""
    scene, made = ist.Scene(), []
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    for i in range(6):
        x = 0.5 * i - 1.25
        start = {"position": (x, 0, 0.1), "velocity": (1, x, 0, 0, 0, 1)}
        made.append(scene.add_body(name=f"box {i}", shape=shapes.Box((0.2, 0.1, 0.1)), mass=1.0, **start))
        scene.add_contact(floor, made[-1], friction=0.3)
    for one, other in itertools.pairwise(made):
        scene.add_joint(one, other, ist.Hinge((0.25, 0, 0), (0, 0, 1), (-0.25, 0, 0), (0, 0, 1)))
    run = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.01, duration=0.4)
    assert np.all(run.contacts.sigma > 1e-3)
    assert np.count_nonzero(run.stats.iterations[4:]) <= 6

"""The start of a step: the continuation of the last roots."""

import itertools

import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.implicit_euler import ncp
from implicit_stepper.implicit_euler.initial_guess import ROOTS, determined, extrapolated
from implicit_stepper.solvers.newton import largest

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


def test_a_step_of_what_rests_begins_at_the_last_root():
    """Two boxes on each other, at rest: forces and points that the last step shared in another way
    are no motion to continue. Where velocities change, the continuation is taken."""
    scene = ist.Scene(dimension=2)
    below = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    square = shapes.Polygon([(-0.1, -0.1), (0.1, -0.1), (0.1, 0.1), (-0.1, 0.1)])
    for number in range(2):
        box = scene.add_body(name=f"box {number}", shape=square, mass=1.0, position=(0, 0.1 + 0.2 * number))
        scene.add_contact(below, box, friction=0.3)
        below = box
    stepper, h = ist.GeometricallyImplicit(), 0.01
    system, state = scene.build()
    first = stepper.step(system, state, stepper.init(system, state), h)
    problem = stepper.problem(system, first.state, first.memory, h)
    last = first.memory.history[0] / ncp.unknown_scale(problem)
    shaken = last.at[problem.system.body_count * 3 :].add(0.01)
    kept = ncp.nothing_kept(system, stepper.friction)
    start, F = determined(problem, shaken, last, kept, NOISE)
    np.testing.assert_array_equal(start, last)
    np.testing.assert_allclose(F, ncp.residual(problem, last), rtol=0, atol=1e-16)
    assert largest(ncp.residual(problem, shaken)) > 1e-3
    moving = shaken.at[0].add(1e-3)
    np.testing.assert_array_equal(determined(problem, moving, last, kept, NOISE)[0], moving)


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

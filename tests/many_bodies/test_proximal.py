"""Proximal points lead from far off to a root: against the closed forms of balls on a floor, and
bricks that stand."""

import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.many_bodies import advance
from implicit_stepper.many_bodies.host_newton import Found
from implicit_stepper.many_bodies.problem import rows
from implicit_stepper.many_bodies.proximal import proximal

MU, H, G, RADIUS = 0.4, 0.01, 9.81, 0.1
MASS = 500 * 4 / 3 * np.pi * RADIUS**3
SLOWED = MU * G * H
SLIPS = 1e-6  # [m/s]: a ball whose point of contact slips so much at the end, 7/2 of SLOWED less


@pytest.mark.parametrize(("speed", "slip"), [(0.0, 0.0), (3.5 * SLOWED + SLIPS, SLIPS), (1.0, 1.0 - 3.5 * SLOWED)])
def test_balls_stick_and_slip_as_coulomb_says_from_forces_that_are_wrong(balls_on_a_floor, with_impulses, speed, slip):
    """From half of what presses, and friction at an angle to the slip and far outside its cone."""
    problem, start = balls_on_a_floor(MU, H, [(speed, 0, 0, 0, 0, 0)])
    at, F = with_impulses(problem, start, (0.5, -0.4, 0.3))
    assert F.largest > 0.1
    end, after, taken = proximal(problem, at, F, None, 1e-12, 1.0, 200)
    assert after.largest <= 1e-12
    assert taken < 200
    impulses = (end.contacts[0] * problem.slots[0].unknowns[:1])[0, problem.slots[0].closest : -1]
    weight = MASS * G * H
    np.testing.assert_allclose(impulses[0], weight, rtol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(impulses[1:]), (slip > 0) * MU * weight, rtol=1e-9, atol=1e-12)
    x, _, _, _, spin, _ = (end.V * problem.velocity)[0]
    np.testing.assert_allclose(x - RADIUS * spin, slip, rtol=0, atol=1e-11)
    # no more Jacobians than are allowed, and the best point of those
    _, less, few = proximal(problem, at, F, None, 1e-12, 1.0, 1)
    assert few <= 10
    assert less.largest < F.largest


def test_a_step_whose_warm_start_is_lost_is_solved_by_proximal_points(monkeypatch):
    """Bricks in a bond, from no forces at all: they stand."""

    def lost(problem, start, *_, **__):
        return Found(start, rows(problem, start).largest, 0, False)

    monkeypatch.setattr(advance, "newton", lost)
    scene, brick, density = ist.Scene(), shapes.Box((0.0995, 0.05, 0.04)), 2000.0
    for number, place in enumerate(((0, 0, 0.04), (0.2, 0, 0.04), (0.1, 0, 0.12))):
        scene.add_body(name=f"brick {number}", shape=brick, density=density, position=place)
    scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    scene.add_contacts(friction=0.6)
    stepper = ist.GeometricallyImplicit(jacobian="sparse")
    run = ist.simulate(scene, stepper, h=H, duration=3 * H, progress=False)
    assert run.stats.rung[0] == advance.RUNGS.index("proximal points")
    # what falls for a step has a velocity of .1 m/s
    assert np.max(np.abs(run.velocity)) < 1e-11
    assert not np.any(run.velocity[-1])

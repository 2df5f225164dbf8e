"""Contacts that settle by their own law: against the closed forms of a ball that rests and one that
slides."""

import dataclasses

import numpy as np
import pytest

from implicit_stepper.many_bodies.equations import PUSHES
from implicit_stepper.many_bodies.few_contacts import settled
from implicit_stepper.many_bodies.host_newton import newton
from implicit_stepper.many_bodies.linearization import correction, linear
from implicit_stepper.many_bodies.problem import Point, Rows, moved, rows
from implicit_stepper.solvers import sparse

MU, H, G, RADIUS = 0.4, 0.01, 9.81, 0.1
MASS = 500 * 4 / 3 * np.pi * RADIUS**3
SPEED = 1.0


@pytest.mark.parametrize("speed", [0.0, SPEED])
def test_a_contact_far_off_obeys_coulomb_at_once(balls_on_a_floor, with_impulses, speed):
    problem, start = balls_on_a_floor(MU, H, [(speed, 0, 0, 0, 0, 0)])
    at, F = with_impulses(problem, start, (3.0, -2.0, 1.0))
    assert F.largest > 0.1
    thrown = Rows(F.bodies, (10 * F.contacts[0],))  # which says that the contact is to be looked at
    end, after = settled(problem, at, F, linear(problem, at, F, 1e-9), thrown)
    # the path of the contact's law ends at kappa = 1e-10, and slips beyond 1e-6 are told from none
    assert after.largest < 1e-8
    slides = speed > 0
    impulses = (end.contacts[0] * problem.slots[0].unknowns[:1])[0, problem.slots[0].closest : -1]
    expected = MASS * G * H, slides * MU * MASS * G * H
    np.testing.assert_allclose((impulses[0], np.linalg.norm(impulses[1:])), expected, rtol=1e-7, atol=1e-7)
    slowed = slides * MU * G * H
    velocity = (end.V * problem.velocity)[0]
    np.testing.assert_allclose(velocity[[0, 4]], (speed - slowed, 2.5 * slowed / RADIUS), rtol=1e-7, atol=1e-7)
    # a point that is a root to this accuracy is not left for worse
    again = settled(problem, end, after, linear(problem, end, after, 1e-9), after)[1]
    assert again.largest <= after.largest


def test_near_a_root_the_derivatives_of_the_largest_rows_are_renewed(balls_on_a_floor):
    """The contact of a ball that rises, whose points are off by 3e-12, and whose derivative was
    another one before: with that one kept, a correction takes a thirtieth of what is left off."""
    problem, start = balls_on_a_floor(MU, H, [(0, 0, 0, 0, 0, 0), (0, 0, 1, 0, 0, 0)])
    root = newton(problem, start, 1e-12, 40).point
    (z,), n = [np.array(z) for z in root.contacts], problem.slots[0].closest
    (rising,) = np.flatnonzero(z[:, n] < PUSHES)
    last = linear(problem, root, rows(problem, root), 1e-9)
    local = [dataclasses.replace(own, alone=0.03 * own.alone) for own in last.local]
    z[rising, 0] += 3e-12
    off = Point(root.V, (z,))
    F = rows(problem, off)
    assert 1e-12 < F.largest < 1e-10
    here = linear(problem, off, F, 1e-9, last._replace(local=tuple(local)))
    dz = correction(problem, here.local, sparse.factorised(here.nodes, here.links), F)
    assert moved(problem, off, dz)[1].largest < 0.1 * F.largest

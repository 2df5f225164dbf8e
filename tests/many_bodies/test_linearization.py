"""The derivative of a step of many bodies: against differences of F, and what is kept of it."""

import jax
import numpy as np
import pytest

from implicit_stepper.many_bodies import equations
from implicit_stepper.many_bodies.equations import PUSHES, cut
from implicit_stepper.many_bodies.host_newton import newton
from implicit_stepper.many_bodies.linearization import correction, linear
from implicit_stepper.many_bodies.problem import Point, moved, rows, slipping
from implicit_stepper.solvers import sparse

MU, H, GIVE = 0.4, 0.01, 2e-8
RESTS, SLIDES, RISES = (0, 0, 0, 0, 0, 0), (1.0, 0.3, 0, 0, 0, 0), (0, 0, 1, 0, 0, 0)


@pytest.fixture(scope="module")
def pressed(balls_on_a_floor, with_impulses):
    """Two balls that press, one sticking and one sliding, with other impulses than theirs."""
    problem, start = balls_on_a_floor(MU, H, [RESTS, SLIDES])
    return problem, *with_impulses(problem, start, (1.2, -0.1, 0.2))


def copied(tree):
    return jax.tree.map(np.array, tree)


def test_a_correction_is_that_of_differences(pressed):
    problem, at, F = pressed
    here = linear(problem, at, F, GIVE)
    assert np.all(here.links[0].acts())
    dz = correction(problem, here.local, sparse.factorised(here.nodes, here.links), F)
    step = 1e-6
    ahead, behind = (moved(problem, at, dz, share)[1] for share in (step, -step))
    for own, before, after in zip(
        (F.bodies, *F.contacts), (behind.bodies, *behind.contacts), (ahead.bodies, *ahead.contacts), strict=True
    ):
        np.testing.assert_allclose((after - before) / (2 * step), -own, rtol=0, atol=1e-6)


def test_contacts_that_a_whole_correction_foretold_keep_their_derivative(pressed):
    problem, at, F = pressed
    first = linear(problem, at, F, GIVE)
    before, missed = copied(first.local[0].alone), copied(F)
    missed.contacts[0][0], missed.contacts[0][1] = 1e-3 * F.largest, 0.1 * F.largest
    near = Point(at.V + 0.5, at.contacts)
    fresh = copied(linear(problem, near, F, GIVE).local[0].alone)
    assert not np.allclose(fresh[0], before[0], rtol=1e-6)
    kept = linear(problem, near, F, GIVE, first, missed).local[0].alone
    np.testing.assert_array_equal(kept[0], before[0])
    np.testing.assert_array_equal(kept[1], fresh[1])
    # what led here was no correction, and says nothing of the derivative
    np.testing.assert_array_equal(linear(problem, near, F, GIVE, first).local[0].alone, fresh)


def test_what_pressed_and_presses_no_more_has_no_part_in_the_system(balls_on_a_floor, with_impulses):
    problem, start = balls_on_a_floor(MU, H, [RESTS, RISES])
    at, F = with_impulses(problem, start, (3.0, -2.0, 1.0))
    last = linear(problem, at, F, GIVE)
    assert np.all(last.links[0].acts())
    root = newton(problem, start, 1e-12, 40).point
    assert np.count_nonzero(root.contacts[0][:, problem.slots[0].closest] > PUSHES) == 1
    at, F = slipping(problem, root, rows(problem, root))
    assert np.count_nonzero(linear(problem, at, F, GIVE, last).links[0].acts()) == 1


def test_contacts_are_cut_for_programs_of_few_numbers_of_rows():
    for count in (1, 200, 1536, 2927, 5000):
        starts, stops, rows = np.array(cut(count)).T
        np.testing.assert_array_equal(starts, [0, *stops[:-1]])
        assert stops[-1] == count
        assert np.all(stops - starts <= rows)
    assert [rows for *_, rows in cut(1536)] == [512] * 3
    assert [rows for *_, rows in cut(2927)] == [2048, 512, 512]
    assert [rows for *_, rows in cut(400, 128)] == [128] * 3 + [equations._FEW] * -(-16 // equations._FEW)

"""How far a correction leads: against the share at which a friction force leaves its disc."""

import numpy as np
import pytest

from implicit_stepper.many_bodies.host_newton import newton
from implicit_stepper.many_bodies.kinks import _share, to_kink
from implicit_stepper.many_bodies.problem import Point, moved, rows, slipping

MU, H = 0.4, 0.01


@pytest.fixture(scope="module")
def resting(balls_on_a_floor):
    """The problem of two balls at rest on a floor, and a point 1e-6 beside its root."""
    problem, start = balls_on_a_floor(MU, H, [(0,) * 6] * 2)
    found = newton(problem, start, 1e-12, 40)
    assert found.converged
    V = found.point.V.copy()
    V[0, 2] += 1e-6
    return problem, *slipping(problem, at := Point(V, found.point.contacts), rows(problem, at))


def pushed(problem, at, times):
    """A correction that adds to the friction of each ball so many times what holds at most."""
    pair = problem.slots[0].group.pair.unknowns
    by = np.zeros_like(at.contacts[0])
    by[:, pair + 1] = times * MU * at.contacts[0][:, pair]
    return Point(np.zeros_like(at.V), (by,))


def share_of_limit(problem, point):
    """|y| / (mu p_n) of each ball."""
    own, pair = point.contacts[0], problem.slots[0].group.pair.unknowns
    return np.linalg.norm(own[:, pair + 1 : -1], axis=1) / (MU * own[:, pair])


def test_a_correction_ends_just_past_the_first_contact_that_slips(resting):
    problem, at, F = resting
    by = pushed(problem, at, np.array([3.0, 2.0]))
    trial, there = moved(problem, at, by)
    np.testing.assert_allclose(share_of_limit(problem, trial), (3, 2), rtol=1e-6)
    found, after = to_kink(problem, at, by, F, there)
    first, second = share_of_limit(problem, found)
    # the first ball reaches its limit at a third of the way, where the second has two thirds of it
    assert 1 < first < 1 + 50 * F.largest
    assert second == pytest.approx(2 / 3, rel=1e-4)
    assert np.max(np.abs(after.contacts[0])) < 10 * F.largest


def test_a_correction_on_which_nothing_slips_is_whole(resting):
    problem, at, F = resting
    by = pushed(problem, at, np.array([0.5, 0.9]))
    trial, there = moved(problem, at, by)
    found, _ = to_kink(problem, at, by, F, there)
    np.testing.assert_array_equal(found.contacts[0], trial.contacts[0])


def test_where_a_correction_leaves_every_bound_its_share_is_found_by_halving():
    """False position has nothing to go by between zero and infinity."""
    found = _share(lambda share: np.inf if share > 0.3 else 0.0, 0.1, 0.2)
    assert found == pytest.approx(0.3, abs=0.01)

"""Starts from null vectors: how far the edges of friction cones are."""

import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.implicit_euler import indeterminate, ncp


@pytest.fixture(scope="module")
def ball():
    """A ball on a floor with mu = 2: the system, and the numbers of p_n and y_t among its
    unknowns."""
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    ball = scene.add_body(name="ball", shape=shapes.Sphere(0.5), mass=1.0, position=(0, 0, 0.5))
    scene.add_contact(floor, ball, friction=2.0)
    system, _ = scene.build()
    (index,), n = ncp.layout(system).unknowns, system.groups[0].pair.unknowns
    return system, *index[0, n : n + 2]


def test_edges_are_where_contacts_still_press(ball):
    """From p = 1 along dp = -1, dy = 1: |t| = mu (1 - t) at t = 2/3; the other root of the squares,
    t = 2, has p = -1, and the cone has no edge there."""
    system, p_n, y_t = ball
    z, direction = np.zeros((2, system.unknown_count))
    z[p_n], direction[p_n], direction[y_t] = 1.0, -1.0, 1.0
    assert indeterminate._lengths(system, z, direction) == [pytest.approx(2 / 3)]


def test_starts_are_just_beyond_the_edges_and_the_nearest_comes_first(ball):
    """Along y from .5, where p = 1: to 2 and to -2. Far from a root a null vector says nothing."""
    system, p_n, y_t = ball
    z, null = np.zeros((2, system.unknown_count))
    z[p_n], z[y_t], null[y_t] = 1.0, 0.5, 1.0
    jacobian = np.eye(z.size) - np.outer(null, null)
    found = indeterminate.to_the_edges(system, z, 1e-6 * null, jacobian)
    np.testing.assert_allclose([start[y_t] for start in found], [2.0, -2.0], rtol=2e-6)
    assert all(abs(start[y_t]) > 2.0 for start in found)
    assert indeterminate.to_the_edges(system, z, 1e-4 * null, jacobian) == []


@pytest.mark.parametrize(("p", "slip", "lengths"), [(1.0, 0.0, [-4.0]), (1.0, 1.0, []), (0.0, 0.0, [])])
def test_what_slides_or_is_open_has_no_edge_to_reach(ball, p, slip, lengths):
    """At the edge y = mu p: what sticks may go to the other side; where it is, it is already."""
    system, p_n, y_t = ball
    z, direction = np.zeros((2, system.unknown_count))
    z[p_n], z[y_t], direction[y_t] = p, 2.0 * p, 1.0
    z[y_t + 3] = slip  # sigma, after y_t, y_o and y_r
    assert indeterminate._lengths(system, z, direction) == pytest.approx(lengths)

"""Starts from null vectors: how far the edges of friction cones are."""

import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.implicit_euler import indeterminate, ncp


def test_edges_are_where_contacts_still_press():
    """From p = 1 along dp = -1, dy = 1: |t| = mu (1 - t) at t = 2/3, with mu = 2; the other root of the squares, t = 2,
    has p = -1, and the cone has no edge there."""
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    ball = scene.add_body(name="ball", shape=shapes.Sphere(0.5), mass=1.0, position=(0, 0, 0.5))
    scene.add_contact(floor, ball, friction=2.0)
    system, _ = scene.build()
    (index,), n = ncp.layout(system).unknowns, system.groups[0].pair.unknowns
    z, direction = np.zeros((2, system.unknown_count))
    z[index[0, n]], direction[index[0, n]], direction[index[0, n + 1]] = 1.0, -1.0, 1.0
    assert indeterminate._lengths(system, z, direction) == [pytest.approx(2 / 3)]

"""Sweeps from contact to contact, and where Newton's method ends for want of nearer points."""

import jax
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.many_bodies.catalog import catalog
from implicit_stepper.many_bodies.host_newton import newton
from implicit_stepper.many_bodies.step import may_touch, no_memory, posed
from implicit_stepper.many_bodies.sweeps import begun, swept

H, G, MASS, RADIUS, HIGH = 0.01, 9.81, 0.5, 0.05, 40


@pytest.fixture(scope="module")
def column():
    """The first step of a column of balls that stand on each other, and where it begins: without
    any force."""
    scene = ist.Scene()
    for number in range(HIGH):
        place = (0, 0, (2 * number + 1) * RADIUS)
        scene.add_body(name=f"ball {number}", shape=shapes.Sphere(RADIUS), mass=MASS, position=place)
    scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    scene.add_contacts(friction=0.3)
    system, state = scene.build(contacts=False)
    state, known = jax.tree.map(np.asarray, state), catalog(system, scene.body_parts(), scene.body_pairs())
    return posed(known, system, state, no_memory(), H, may_touch(known, system, state, H), "projection")


def test_momentum_takes_a_weight_down_a_column_in_few_sweeps(column):
    """Each contact carries what is above it. Without momentum the lowest carries .47 of that after
    300 sweeps, and .994 after 3200."""
    _, search = swept(column.problem, column.start, begun(column.problem, column.start), 300)
    lower = np.concatenate([np.min(np.where(pairs < HIGH, pairs, -1), axis=1) for pairs in column.pairs])
    touches = np.concatenate([known.gaps for known in column.known]) < 1e-9
    p_n = search.planes.impulse[touches, 0]
    weights = MASS * G * H * (HIGH - 1 - lower[touches])
    assert len(p_n) == HIGH
    np.testing.assert_allclose(p_n, weights, rtol=1e-4)


def test_a_root_to_which_no_correction_comes_nearer_is_enough_where_that_is_asked_for(column):
    """Rounding lets no residual fall to 1e-30."""
    none, some = (newton(column.problem, column.start, 1e-30, 40, enough=enough) for enough in (0.0, 1e-10))
    assert some.converged
    assert 0 < some.residual <= 1e-10
    assert not none.converged
    assert some.iterations < none.iterations

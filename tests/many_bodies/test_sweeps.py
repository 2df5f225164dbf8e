"""Sweeps from contact to contact, and where Newton's method ends for want of nearer points."""

import jax
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.implicit_euler import energy
from implicit_stepper.many_bodies import host_newton, sweeps
from implicit_stepper.many_bodies.catalog import catalog
from implicit_stepper.many_bodies.host_newton import newton
from implicit_stepper.many_bodies.step import may_touch, no_memory, posed
from implicit_stepper.many_bodies.sweeps import begun, swept
from implicit_stepper.model import bodies

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


@pytest.mark.parametrize(("e_t", "e_r"), [(1.0, 0.0), (1.0, 0.02), (0.0, 0.0)])
def test_velocities_are_what_impulses_make_of_them(e_t, e_r):
    """M nu = M nu_free + W^T p, of bodies whose inertia differs by direction; impulses along axes
    that have friction."""
    scene, turned = ist.Scene(), (0.8, 0.36, 0.48, 0.0)
    for number in range(3):
        place, velocity = (0.01 * number, 0, 0.11 + 0.2 * number), (1, 0, -5 - 5 * number, 2, 3, 4)
        egg = {"shape": shapes.Ellipsoid((0.05, 0.08, 0.12)), "mass": MASS, "position": place, "quaternion": turned}
        scene.add_body(name=f"egg {number}", velocity=velocity, **egg)
    scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    scene.add_contacts(friction=ist.FrictionEllipsoid(0.3, e_t=e_t, e_o=e_t, e_r=e_r))
    system, state = scene.build(contacts=False)
    state, known = jax.tree.map(np.asarray, state), catalog(system, scene.body_parts(), scene.body_pairs())
    step = posed(known, system, state, no_memory(), H, may_touch(known, system, state, H), "projection")
    _, search = swept(step.problem, step.start, begun(step.problem, step.start), 20)
    contacts = zip(step.problem.slots, step.problem.counts, strict=True)
    sides = np.concatenate([slots.sides[:count] for slots, count in contacts])
    pushes = np.zeros_like(search.velocity)
    np.add.at(pushes, sides[search.planes.contact], np.einsum("rsij,ri->rsj", search.planes.on, search.planes.impulse))
    free = np.asarray(energy.free_velocity(system, state, step.problem.bare.momentum, H))
    changes = np.einsum("nij,nj->ni", np.asarray(bodies.mass_matrices(system, state)), search.velocity[:3] - free)
    assert np.max(np.abs(changes)) > 0.1
    np.testing.assert_allclose(changes, pushes[:3], rtol=0, atol=1e-13)
    assert not np.any(search.velocity[3])
    np.testing.assert_array_equal(np.any(search.planes.impulse, axis=0), [True, e_t > 0, e_t > 0, e_r > 0])


def test_planes_of_many_are_those_of_one_after_another(column, monkeypatch):
    """Closest points of many contacts are found side by side."""
    starts = []
    for many in (10**6, 1):
        monkeypatch.setattr(sweeps, "MANY", many)
        starts.append(swept(column.problem, column.start, begun(column.problem, column.start), 3)[1])
    one, many = starts
    assert np.any(one.planes.impulse)
    np.testing.assert_allclose(many.velocity, one.velocity, rtol=0, atol=1e-13)
    np.testing.assert_allclose(many.planes.points, one.planes.points, rtol=0, atol=1e-13)


def test_a_root_to_which_no_correction_comes_nearer_is_enough_where_that_is_asked_for(column):
    """Rounding lets no residual fall to 1e-30."""
    none, some = (newton(column.problem, column.start, 1e-30, 40, mends=False, enough=enough) for enough in (0.0, 1e-10))
    assert some.converged
    assert 0 < some.residual <= 1e-10
    assert not none.converged
    assert some.iterations < none.iterations


def test_sweeps_are_given_up_where_the_last_of_them_mend_nothing():
    """Each with as many as there are at most, they would cost more than the rest of a step."""
    stalls = [9.0, 3.0, 0.1, 0.08, 0.06, 0.07, 0.09]
    assert host_newton._in_vain(stalls)
    assert not host_newton._in_vain(stalls[:-1])
    assert not host_newton._in_vain([*stalls[:-1], 0.04])

"""One implicit step, three sources of its gap: unknowns of the problem, a closest-point solver, and
formulas."""

import dataclasses

import jax
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.model.bodies import State
from implicit_stepper.paper import exact, scenes

IN_NCP, QUERY = ist.GeometricallyImplicit(), ist.GeometricallyImplicit(gap="query")


def run(scene, stepper, *, h, duration):
    return ist.simulate(scene, stepper, h=h, duration=duration)


@pytest.mark.parametrize("h", [0.1, 0.01])
def test_the_two_spheres_step_alike_whatever_gives_the_gap(h):
    inside = run(scenes.two_spheres(), IN_NCP, h=h, duration=2.0)
    for scene, stepper in (
        (scenes.two_spheres(), QUERY),
        (scenes.two_spheres(shapes.Sphere), ist.ClosedFormGap()),
    ):
        outside = run(scene, stepper, h=h, duration=2.0)
        np.testing.assert_allclose(outside.position, inside.position, rtol=0, atol=1e-10)
        np.testing.assert_allclose(outside.velocity, inside.velocity, rtol=0, atol=1e-10)
        np.testing.assert_allclose(outside.contacts.normal_impulse, inside.contacts.normal_impulse, rtol=0, atol=1e-10)


def test_an_ellipsoid_lands_alike_with_a_gap_by_query():
    """Curved and turned, with an impact."""
    runs = []
    for stepper in (IN_NCP, QUERY):
        scene = ist.Scene()
        turn = (0.9, 0.3, 0.2, np.sqrt(1 - 0.9**2 - 0.3**2 - 0.2**2))
        shape = shapes.Ellipsoid((0.3, 0.2, 0.1))
        egg = scene.add_body(name="egg", shape=shape, density=500.0, position=(0, 0, 0.45), quaternion=turn)
        scene.add_contact(egg, scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1))), friction=0.3)
        runs.append(run(scene, stepper, h=0.01, duration=0.5))
    assert np.any(runs[0].contacts.normal_impulse > 0)
    np.testing.assert_allclose(runs[1].velocity, runs[0].velocity, rtol=0, atol=1e-9)


def test_the_spinning_sphere_with_a_closed_form_gap():
    scene = ist.Scene()
    plane = scene.add_fixed(name="plane", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    friction = ist.FrictionEllipsoid(mu=0.2, e_r=0.4)
    spin = (0, 0, 0, 0, 0, 1.962)
    ball = scene.add_body(
        name="ball", shape=shapes.Sphere(1.0), mass=1.0, inertia=(0.4,) * 3, position=(0, 0, 1), velocity=spin
    )
    scene.add_contact(plane, ball, friction=friction)
    trajectory = run(scene, ist.ClosedFormGap(), h=0.07, duration=1.05)
    assert trajectory.velocity[14, 0, 5] == pytest.approx(0.03924, abs=1e-10)
    assert np.abs(trajectory.contacts.gap).max() <= 1e-12


def falling_scene():
    """Lands after sqrt(2 s/g) = 0.319 s."""
    scene = ist.Scene()
    ball = scene.add_body(name="ball", shape=shapes.Sphere(0.1), mass=1.0, position=(0, 0, 0.6), velocity=(1, 0, 0, 0, 0, 0))
    scene.add_contact(ball, scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1))), friction=0.3)
    return scene


def falling(land):
    return run(falling_scene(), ist.ClosedFormGap(land=land), h=0.01, duration=0.6)


def test_landing_on_a_collision_takes_one_more_step_and_touches():
    """Both parts of the cut step are implicit Euler steps: the fall to gap 0, by hand, then the
    impact."""
    landed, fixed = falling(True), falling(False)
    assert landed.stats.substeps.sum() == len(landed) + 1
    assert np.all(fixed.stats.substeps == 1)
    k = int(np.argmax(landed.stats.substeps == 2))
    v, z, h = landed.velocity[k, 0, 2], landed.contacts.gap_start[k, 0], 0.01
    # z + s (v - g s) = 0 is where an implicit step of s [s] without contact touches
    part = (v + np.sqrt(v**2 + 4 * 9.81 * z)) / (2 * 9.81)
    impact = -(v - 9.81 * part) + 9.81 * (h - part)
    assert 0 < part < h
    assert landed.contacts.normal_impulse[k, 0] == pytest.approx(impact, abs=1e-8)
    assert landed.contacts.gap.min() >= -1e-12
    # cut where the impulse passes 1e-6 m g s, which is 1e-6 g s^2/|v| later, of h
    assert landed.contacts.landing.part[k] == pytest.approx(part / h, abs=1e-8)
    assert np.all(np.delete(landed.contacts.landing.part, k) == 1)


def test_both_parts_of_a_cut_step_are_certified(tmp_path):
    """What was right stays certified; a record changed in one of its parts does not, also when it
    was saved and loaded."""
    landed = falling(True)
    k = int(np.argmax(landed.stats.substeps == 2))
    landed.save(tmp_path / "landed.npz")
    again = ist.load(tmp_path / "landed.npz")
    jax.tree.map(np.testing.assert_array_equal, again.contacts, landed.contacts)
    system, _ = falling_scene().build()
    names = ("time", "position", "orientation", "velocity")
    before, after = (State(*(getattr(landed, name)[i] for name in names)) for i in (k, k + 1))
    record = jax.tree.map(lambda a: a[k], again.contacts)

    violations = jax.jit(ist.ClosedFormGap(land=True).certificate)

    def worst(record):
        return max(np.max(v) for v in violations(system, before, after, record, landed.h).values())

    assert worst(record) <= 1e-10
    assert worst(dataclasses.replace(record, friction_impulse=record.friction_impulse * (1 + 1e-6))) > 1e-9
    landing = record.landing
    faster = dataclasses.replace(landing.state, velocity=landing.state.velocity * (1 + 1e-6))
    for changed in ({"part": landing.part * (1 + 1e-6)}, {"state": faster}):
        assert worst(dataclasses.replace(record, landing=dataclasses.replace(landing, **changed))) > 1e-9


def test_a_gap_of_the_users_own():
    """Ellipsoids with equal axes, given the formula of balls."""

    def as_balls(pair, unknowns, first, second, length):
        return CLOSED(pair, unknowns, first, second, length)

    from shapes.closest_points.closed_form import balls as CLOSED

    own = ist.ClosedFormGap(gaps=(("Ellipsoid", "Ellipsoid", as_balls),))
    ours = run(scenes.two_spheres(), own, h=0.05, duration=1.0)
    inside = run(scenes.two_spheres(), IN_NCP, h=0.05, duration=1.0)
    np.testing.assert_allclose(ours.position, inside.position, rtol=0, atol=1e-10)


def test_the_error_at_two_seconds_does_not_depend_on_the_source():
    times = np.array([2.0])
    answer = exact.two_spheres(4.0).at(times).position[0]
    errors = [
        np.abs(run(scenes.two_spheres(shapes.Sphere), stepper, h=0.01, duration=2.0).position[-1, 0] - answer).max()
        for stepper in (IN_NCP, ist.ClosedFormGap())
    ]
    assert errors[0] == pytest.approx(errors[1], rel=1e-7)


def test_bodies_with_faces_are_refused_by_the_query():
    scene = ist.Scene()
    box = scene.add_body(name="box", shape=shapes.Box((0.3, 0.2, 0.1)), density=500.0, position=(0, 0, 1))
    scene.add_contact(box, scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1))))
    with pytest.raises(ValueError, match='"query" cannot treat Box and HalfSpace.*in_ncp'):
        run(scene, QUERY, h=0.01, duration=0.1)


def test_a_pair_without_closed_form_is_refused_with_the_methods_that_need_none():
    with pytest.raises(ValueError, match="no closed form for the gap of Ellipsoid and Ellipsoid.*GeometricallyImplicit"):
        run(scenes.two_spheres(), ist.ClosedFormGap(), h=0.01, duration=0.1)
    with pytest.raises(ValueError, match="`land` = 3 must be one of True, False"):
        ist.ClosedFormGap(land=3)
    with pytest.raises(ValueError, match="`gap` = 'mesh' must be one of in_ncp, query"):
        dataclasses.replace(IN_NCP, gap="mesh")
    with pytest.raises(ValueError, match="`gaps` has the entry"):
        ist.ClosedFormGap(gaps=(("Sphere", "Sphere", 3),))

"""Montana's equations against moved bodies, and the explicit stepper against example 3."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.constraints import detection, kinematics
from implicit_stepper.constraints.detection import closest_points
from implicit_stepper.model import bodies
from implicit_stepper.paper import comparisons, scenes
from implicit_stepper.time_lagged.montana import geometry_rates


def two_eggs(gap):
    """Turned ellipsoids that move and spin, `gap` [m] apart along the normal."""
    first, second = shapes.Ellipsoid((0.5, 0.4, 0.3)), shapes.Ellipsoid((0.4, 0.6, 0.3))
    turns = [q / np.linalg.norm(q) for q in (np.array([1, 0.3, -0.2, 0.5]), np.array([1, -0.4, 0.1, 0.2]))]
    centre = np.array([1.0, 0.6, 0.3])
    apart = ist.closest_points(first, ((0, 0, 0), turns[0]), second, (centre, turns[1]))
    scene = ist.Scene(gravity=(0, 0, 0), acceleration_scale=9.81)
    one = scene.add_body(
        name="one", shape=first, density=1.0, position=(0, 0, 0), quaternion=turns[0], velocity=(1, 2, -1, 0.5, -2, 1)
    )
    two = scene.add_body(
        name="two",
        shape=second,
        density=1.0,
        position=centre + np.asarray(apart.normal) * (gap - float(apart.distance)),
        quaternion=turns[1],
        velocity=(-1, 0.5, 2, 1, 1, -3),
    )
    scene.add_contact(one, two, friction=0.2)
    return jax.tree.map(jnp.asarray, scene.build())


@pytest.mark.parametrize("gap", [0.0, 0.2])
def test_rates_of_points_and_normal_are_those_of_moved_bodies(gap):
    system, state = two_eggs(gap)
    here = detection.find(system, state, closest_points(system, state))
    group = jax.tree.map(lambda a: a[0], system.groups[0])
    motions = [jax.tree.map(lambda a: a[0], m) for m in kinematics.motions_of(system, state, system.groups[0])]
    rates = geometry_rates(group, jax.tree.map(lambda a: a[0], here.geometry), *motions)
    step = 1e-5

    @jax.jit
    def moved(time):
        found = detection.find(system, bodies.moved(state, state.velocity, time), here.closest).geometry
        return found.a1[0], found.a2[0], found.n[0]

    for rate, ahead, behind in zip(rates, moved(step), moved(-step), strict=True):
        np.testing.assert_allclose(rate, (ahead - behind) / (2 * step), atol=1e-7)


def run(stepper, h):
    return ist.simulate(scenes.two_spheres(), stepper, h=h, duration=4.0)


def test_example_3_to_first_order_with_a_drift_of_the_gap():
    errors, drifts = [], []
    for h in (0.02, 0.01, 0.005):
        trajectory = ist.simulate(scenes.two_spheres(), ist.Explicit(), h=h, duration=2.0)
        position, _ = comparisons.two_spheres(trajectory.time)
        errors.append(np.abs(trajectory.position - position).max())
        drifts.append(np.abs(trajectory.contacts.gap[-1]).max())
        assert max(np.max(v) for v in trajectory.certificate.values()) <= 1e-10
    assert np.log2(errors[1] / errors[2]) == pytest.approx(1, abs=0.15)
    assert np.log2(drifts[1] / drifts[2]) >= 0.75
    assert drifts[2] >= 1e-6  # what the implicit step does not have


def test_velocities_jump_more_at_separation_than_those_of_the_implicit_step():
    """The kink of the acceleration where contacts open, as the largest second difference of
    velocities after slip began."""
    h, jumps = 0.01, {}
    for name, stepper in (("explicit", ist.Explicit()), ("implicit", ist.GeometricallyImplicit())):
        velocity = run(stepper, h).velocity[:, 0]
        late = velocity[int(2.99 / h) :]  # the contacts open at 3.2132 and 3.7016 s
        jumps[name] = np.abs(np.diff(late, n=2, axis=0)).max() / h
    assert jumps["implicit"] < jumps["explicit"]


def test_a_ball_that_falls_is_stopped_and_rolls_on():
    """Sliding turns into rolling at 5/7 of the speed."""
    scene = ist.Scene()
    ball = scene.add_body(
        name="ball", shape=shapes.Sphere(0.1), density=1000.0, position=(0, 0, 0.15), velocity=(1, 0, 0, 0, 0, 0)
    )
    scene.add_contact(scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1))), ball, friction=0.3)
    trajectory = ist.simulate(scene, ist.Explicit(), h=0.001, duration=0.6)
    assert trajectory.velocity[-1, 0, 0] == pytest.approx(5 / 7, abs=1e-9)
    assert trajectory.velocity[-1, 0, 4] == pytest.approx(50 / 7, abs=1e-8)


@pytest.mark.thorough
def test_friction_along_a_direction_turns_with_the_first_body():
    """A ball that spins about the normal and slips: by a step of h, friction is that of the
    direction at its end, so that the speed lost is within order h of that by implicit steps."""
    scene, lost = ist.Scene(), {}
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    law = ist.FrictionEllipsoid(0.3, e_t=1.0, e_o=0.4, direction=(1, 0.5, 0))
    spun = {"position": (0, 0, 0.1), "velocity": (1, 0, 0, 0, 0, 3.0), "inertia": (1.0, 1.0, 1.0)}
    scene.add_contact(scene.add_body(name="ball", shape=shapes.Sphere(0.1), mass=1.0, **spun), floor, friction=law)
    for name, stepper in {"explicit": ist.Explicit(), "implicit": ist.GeometricallyImplicit()}.items():
        lost[name] = ist.simulate(scene, stepper, h=0.005, duration=0.1).velocity[-1, 0]
    assert np.max(np.abs(lost["explicit"] - lost["implicit"])) <= 3 * 0.005 * 0.3  # spin h, of mu g t


def test_bodies_with_edges_are_refused_with_the_methods_that_take_them():
    scene = ist.Scene()
    box = scene.add_body(name="box", shape=shapes.Box((0.3, 0.2, 0.1)), density=500.0, position=(0, 0, 1))
    scene.add_contact(box, scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1))))
    with pytest.raises(ValueError, match="not Box and HalfSpace: use GeometricallyImplicit"):
        ist.simulate(scene, ist.Explicit(), h=0.01, duration=0.1)

"""Steps that are hard for Newton, and states that are hard for the model: each is solved, or stops with an error."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.compilation import jit
from implicit_stepper.paper import scenes

STEPPER = ist.GeometricallyImplicit()


def on_floor(shape, *, friction=0.3, height, **body):
    scene = ist.Scene()
    ball = scene.add_body(name="body", shape=shape, position=(0, 0, height), **body)
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    scene.add_contact(ball, floor, friction=friction)
    return scene


def perturbed_two_spheres(count, seed):
    """Start positions around the axis of the two spheres, velocities to 2 m/s and rad/s, mu in [0, 1], e_r in [.01, 1]."""
    rng = np.random.default_rng(seed)
    system, state = jax.tree.map(jnp.asarray, scenes.two_spheres().build())
    _, y, radius = state.position[0]
    angle = rng.uniform(-0.6, 0.6, count)
    position = np.stack([radius * np.sin(angle), np.full(count, y), radius * np.cos(angle)], axis=1)
    mu = rng.uniform(0, 1, count)
    mu[::10] = 0.0
    return system, state, (position, rng.uniform(-2, 2, (count, 6)), mu, rng.uniform(0.01, 1, count))


def test_500_perturbations_of_example_3_lose_no_step():
    h, steps = 0.01, 400
    system, state, samples = perturbed_two_spheres(500, seed=0)

    def run(sample):
        position, velocity, mu, e_r = sample
        (group,) = system.groups
        e = jnp.broadcast_to(jnp.stack([jnp.ones(()), jnp.ones(()), e_r]), (2, 3))
        changed = dataclasses.replace(system, groups=(dataclasses.replace(group, mu=jnp.full(2, mu), e=e),))
        start = dataclasses.replace(state, position=position[None], velocity=velocity[None])

        def step(carry, _):
            result = STEPPER.step(changed, *carry, h)
            worst = ist.certificate(changed, carry[0], result.state, result.contacts, h)
            worst = jnp.max(jnp.stack([jnp.max(v) for v in worst.values()]))
            return (result.state, result.memory), (result.result, worst, result.stats)

        return jax.lax.scan(step, (start, STEPPER.init(changed, start)), None, length=steps)[1]

    results, worst, stats = jit(lambda samples: jax.lax.map(run, samples))(samples)
    assert results.shape == (500, steps)
    assert int(jnp.sum(results != ist.Result.SOLVED)) == 0
    assert float(jnp.max(worst)) <= 1e-10
    assert float(jnp.mean(stats.iterations)) <= 5
    assert int(jnp.sum(stats.rung > 0)) <= 20  # the cut start is for the rare step; 2 were measured


@pytest.mark.parametrize("friction", [0.0, 0.5, ist.FrictionEllipsoid(mu=0.5, e_r=0.1)])
def test_bodies_apart_fall_into_contact(friction):
    """Free fall at implicit Euler's heights until the floor, no penetration at any step, then rest or rolling."""
    h = 0.01
    scene = on_floor(shapes.Sphere(1.0), mass=1.0, height=1.5, velocity=(1, 0, 0, 0, 0, 2), friction=friction)
    trajectory = ist.simulate(scene, STEPPER, h=h, duration=1.0)
    n = np.arange(20)
    assert trajectory.position[:20, 0, 2] == pytest.approx(1.5 - 9.81 * h**2 * n * (n + 1) / 2, abs=1e-11)
    assert trajectory.contacts.gap.min() >= -1e-12
    assert np.abs(trajectory.velocity[-50:, 0, 2]).max() <= 1e-10
    assert np.all(np.diff(trajectory.kinetic_energy()[60:]) <= 1e-12)


def test_slight_penetration_is_pushed_out_within_one_step():
    """A start 1 mm deep ends its first step at gap 0, so it leaves at 1 mm / h: stated in docs/model.md."""
    h, depth = 0.01, 1e-3
    trajectory = ist.simulate(on_floor(shapes.Sphere(1.0), mass=1.0, height=1.0 - depth), STEPPER, h=h, duration=0.3)
    assert trajectory.velocity[1, 0, 2] == pytest.approx(depth / h, abs=1e-9)
    assert trajectory.contacts.gap.min() >= -1e-12
    assert trajectory.position[-1, 0, 2] == pytest.approx(1.0, abs=1e-12)


def test_without_friction_nothing_turns():
    scene = on_floor(shapes.Sphere(1.0), mass=1.0, height=1.0, velocity=(1, 0, 0, 3, 2, 1), friction=0.0)
    trajectory = ist.simulate(scene, STEPPER, h=0.01, duration=1.0)
    assert np.abs(trajectory.velocity[:, 0] - [1, 0, 0, 3, 2, 1]).max() <= 1e-11
    assert np.abs(trajectory.contacts.friction_impulse).max() <= 1e-15


def test_without_drilling_axis_spin_stays():
    """e_r = 0: a sphere on the spot keeps its spin about the normal, and there is no torsional impulse at all."""
    friction = ist.FrictionEllipsoid(mu=0.5, e_r=0.0)
    scene = on_floor(shapes.Sphere(1.0), mass=1.0, height=1.0, velocity=(0, 0, 0, 0, 0, 5), friction=friction)
    trajectory = ist.simulate(scene, STEPPER, h=0.01, duration=1.0)
    assert np.abs(trajectory.velocity[:, 0] - [0, 0, 0, 0, 0, 5]).max() <= 1e-11
    assert np.abs(trajectory.contacts.friction_impulse[..., 2]).max() <= 1e-15


def test_rest_stays_at_rest():
    trajectory = ist.simulate(on_floor(shapes.Sphere(1.0), mass=1.0, height=1.0), STEPPER, h=0.01, duration=10.0)
    assert np.abs(trajectory.velocity).max() <= 1e-12
    assert np.abs(trajectory.position - trajectory.position[0]).max() <= 1e-12


def test_both_friction_rows_step_alike():
    """Two residuals with the same roots: a tumbling ellipsoid lands, slides and rolls the same with both."""
    scene = on_floor(shapes.Ellipsoid((1.0, 0.5, 0.3)), mass=1.0, height=1.0, velocity=(1, 0, 0, 3, 2, 1), friction=0.4)
    projection = ist.simulate(scene, STEPPER, h=0.01, duration=1.0)
    cone = ist.simulate(scene, ist.GeometricallyImplicit(friction="fischer-burmeister"), h=0.01, duration=1.0)
    # 100 steps of 1e-12 h sqrt(g L) = 2e-14 m at most, which tumbling may enlarge a few times
    assert np.abs(projection.position - cone.position).max() <= 1e-11


def test_a_box_of_six_inequalities_finds_its_centre_of_pressure():
    """Pushed at height z with force F, the point of contact stands F z / (m g) ahead of the centre."""
    sides = [((1, 0, 0), 0.5), ((-1, 0, 0), 0.5), ((0, 1, 0), 0.3), ((0, -1, 0), 0.3), ((0, 0, 1), 0.2), ((0, 0, -1), 0.2)]
    box = shapes.Intersection([shapes.HalfSpace(normal=n, offset=o) for n, o in sides])
    force, height = 2.5, 0.2
    load = (force, 0, 0, 0, 0.5, 0)  # a moment about the centre: as if pushed .2 m above it
    scene = on_floor(box, mass=1.0, inertia=(0.04, 0.1, 0.11), height=height, friction=0.5, wrench=load)
    trajectory = ist.simulate(scene, STEPPER, h=0.01, duration=1.0)
    assert np.abs(trajectory.velocity).max() <= 1e-12
    assert trajectory.contacts.point_1[-1, 0, 0] == pytest.approx((force * height + 0.5) / 9.81, abs=1e-9)


def test_a_tumbling_box_lands_and_rests():
    sides = [((1, 0, 0), 0.5), ((-1, 0, 0), 0.5), ((0, 1, 0), 0.3), ((0, -1, 0), 0.3), ((0, 0, 1), 0.2), ((0, 0, -1), 0.2)]
    box = shapes.Intersection([shapes.HalfSpace(normal=n, offset=o) for n, o in sides])
    q = np.array([1, 0.2, 0.3, 0.1]) / np.linalg.norm([1, 0.2, 0.3, 0.1])
    friction = ist.FrictionEllipsoid(mu=0.5, e_r=0.1)
    start = {"quaternion": q, "velocity": (1, 0, 0, 3, 2, 1), "height": 1.0}
    scene = on_floor(box, mass=1.0, inertia=(0.0433, 0.0967, 0.1133), friction=friction, **start)
    trajectory = ist.simulate(scene, STEPPER, h=0.01, duration=3.0)
    assert np.abs(trajectory.velocity[-1]).max() <= 1e-9
    assert min(abs(trajectory.position[-1, 0, 2] - half) for half in (0.5, 0.3, 0.2)) <= 1e-10
    assert np.all(np.diff(trajectory.kinetic_energy()[80:]) <= 1e-9)


def test_a_lost_step_is_an_error_that_carries_everything_before_it():
    """One Jacobian a start cannot solve an impact; the step before it is free flight and is kept."""
    scene = on_floor(shapes.Sphere(1.0), mass=1.0, height=1.05, velocity=(1, 0, 0, 0, 0, 2))
    weak = ist.GeometricallyImplicit(max_iterations=1, rounds=1)
    with pytest.raises(ist.StepError) as caught:
        ist.simulate(scene, weak, h=0.01, duration=1.0)
    error = caught.value
    assert error.result == ist.Result.NOT_CONVERGED
    assert len(error.trajectory) > 0
    assert error.time == pytest.approx(error.trajectory.time[-1] + 0.01)
    assert np.all(np.isfinite(error.trajectory.position))
    assert "body and floor" in str(error)
    assert "smaller `h`" in str(error)
    kept = ist.simulate(scene, weak, h=0.01, duration=1.0, on_failure="return")
    assert np.array_equal(kept.position, error.trajectory.position)


def test_a_solved_but_uncertified_step_is_an_error_too():
    scene = on_floor(shapes.Sphere(1.0), mass=1.0, height=1.0, velocity=(1, 0, 0, 0, 0, 2))
    with pytest.raises(ist.StepError, match="violates the paper's equations") as caught:
        ist.simulate(scene, ist.GeometricallyImplicit(tolerance=1e-3), h=0.01, duration=1.0, certificate_tolerance=1e-15)
    assert caught.value.result == ist.Result.NOT_CERTIFIED
    assert caught.value.certificate

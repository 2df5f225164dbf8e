"""Steps that are hard for Newton, and states that are hard for the model: each is solved, or stops
with an error."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.constraints.violations import described
from implicit_stepper.paper import scenes
from implicit_stepper.run.jumps import without_value
from implicit_stepper.runtime.compilation import _options, jit
from implicit_stepper.stepping import fallback

STEPPER = ist.GeometricallyImplicit()


def on_floor(shape, *, friction=0.3, height, **body):
    scene = ist.Scene()
    ball = scene.add_body(name="body", shape=shape, position=(0, 0, height), **body)
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    scene.add_contact(ball, floor, friction=friction)
    return scene


def disc_on_line(radius, *, height, **body):
    """In the plane, where programs take half as long to compile."""
    scene = ist.Scene(dimension=2)
    disc = scene.add_body(name="body", shape=shapes.Disc(radius), mass=1.0, position=(0, height), **body)
    line = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    scene.add_contact(disc, line, friction=0.3)
    return scene


def perturbed_two_spheres(count, seed):
    """Start positions around the axis of the two spheres, velocities to 2 m/s and rad/s, mu in [0,
    1], e_r in [.01, 1]."""
    rng = np.random.default_rng(seed)
    system, state = jax.tree.map(jnp.asarray, scenes.two_spheres().build())
    _, y, radius = state.position[0]
    angle = rng.uniform(-0.6, 0.6, count)
    position = np.stack([radius * np.sin(angle), np.full(count, y), radius * np.cos(angle)], axis=1)
    mu = rng.uniform(0, 1, count)
    mu[::10] = 0.0
    return system, state, (position, rng.uniform(-2, 2, (count, 6)), mu, rng.uniform(0.01, 1, count))


def advance(system, state, memory, steps, h):
    """Steps until one is not solved: state and memory before it, how many, their worst certificate,
    and all iterations."""

    def proceed(carry):
        _, _, done, _, _, solved = carry
        return solved & (done < steps)

    def body(carry):
        state, memory, done, worst, iterations, _ = carry
        step = STEPPER.step(system, state, memory, h)
        violations = ist.certificate(system, state, step.state, step.contacts, h)
        largest = jnp.max(jnp.stack([jnp.max(v) for v in violations.values()]))
        solved = step.result == ist.Result.SOLVED
        after = (step.state, step.memory, done + 1, jnp.maximum(worst, largest))
        kept = jax.tree.map(lambda new, old: jnp.where(solved, new, old), after, (state, memory, done, worst))
        return *kept, iterations + step.stats.iterations, solved

    zero = jnp.zeros((), int)
    return jax.lax.while_loop(proceed, body, (state, memory, zero, jnp.zeros(()), zero, jnp.asarray(True)))[:5]


@pytest.mark.parametrize("scene_count", [100, pytest.param(500, marks=pytest.mark.thorough)])
def test_perturbations_of_example_3_lose_no_step(scene_count):
    h, steps = 0.01, 400
    system, state, samples = perturbed_two_spheres(scene_count, seed=0)

    def scene(sample):
        position, velocity, mu, e_r = sample
        (group,) = system.groups
        e = jnp.broadcast_to(jnp.stack([jnp.ones(()), jnp.ones(()), e_r]), (2, 3))
        changed = dataclasses.replace(system, groups=(dataclasses.replace(group, mu=jnp.full(2, mu), e=e),))
        return changed, dataclasses.replace(state, position=position[None], velocity=velocity[None])

    def run(sample):
        changed, start = scene(sample)
        return advance(changed, start, STEPPER.init(changed, start), steps, h)

    # 200 000 steps are worth optimising
    options = _options(False) | {"xla_backend_optimization_level": 3}
    batch = jax.jit(lambda samples: jax.lax.map(run, samples), compiler_options=options)
    *_, done, worst, iterations = ends = batch(samples)
    done, worst, total, climbed, go_on = np.array(done), float(jnp.max(worst)), int(jnp.sum(iterations)), 0, jit(advance)
    # what the warm start does not solve, the ladder must, outside the batch
    for i in np.flatnonzero(done < steps):
        changed, _ = scene(jax.tree.map(lambda a, i=i: jnp.asarray(a[i]), samples))
        state_i, memory_i = (jax.tree.map(lambda a, i=i: a[i], part) for part in ends[:2])
        while done[i] < steps:
            climb = fallback.climb(STEPPER, changed, state_i, memory_i, h, 1e-10)
            assert climb.solved, climb.attempts
            climbed += 1
            total += int(climb.record.stats.iterations)
            state_i, memory_i, more, largest, used = go_on(changed, climb.record.state, climb.memory, steps - done[i] - 1, h)
            done[i] += 1 + int(more)
            worst, total = max(worst, float(largest)), total + int(used)
    assert np.all(done == steps)
    assert worst <= 1e-10
    assert total / (scene_count * steps) <= 5
    assert climbed <= 20  # the ladder is for the rare step; 4 were measured


@pytest.mark.parametrize("friction", [0.0, 0.5, ist.FrictionEllipsoid(mu=0.5, e_r=0.1)])
def test_bodies_apart_fall_into_contact(friction):
    """Free fall at implicit Euler's heights until the floor, no penetration at any step, then rest
    or rolling."""
    h = 0.01
    scene = on_floor(shapes.Sphere(1.0), mass=1.0, height=1.5, velocity=(1, 0, 0, 0, 0, 2), friction=friction)
    trajectory = ist.simulate(scene, STEPPER, h=h, duration=1.0)
    n = np.arange(20)
    assert trajectory.position[:20, 0, 2] == pytest.approx(1.5 - 9.81 * h**2 * n * (n + 1) / 2, abs=1e-11)
    assert trajectory.contacts.gap.min() >= -1e-12
    assert np.abs(trajectory.velocity[-50:, 0, 2]).max() <= 1e-10
    assert np.all(np.diff(trajectory.kinetic_energy()[60:]) <= 1e-12)


def test_slight_penetration_is_pushed_out_within_one_step():
    """A start 1 mm deep ends its first step at gap 0, so it leaves at 1 mm / h: stated in
    docs/model.md."""
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
    """e_r = 0: a sphere on the spot keeps its spin about the normal, and there is no torsional
    impulse at all."""
    friction = ist.FrictionEllipsoid(mu=0.5, e_r=0.0)
    scene = on_floor(shapes.Sphere(1.0), mass=1.0, height=1.0, velocity=(0, 0, 0, 0, 0, 5), friction=friction)
    trajectory = ist.simulate(scene, STEPPER, h=0.01, duration=1.0)
    assert np.abs(trajectory.velocity[:, 0] - [0, 0, 0, 0, 0, 5]).max() <= 1e-11
    assert np.abs(trajectory.contacts.friction_impulse[..., 2]).max() <= 1e-15


@pytest.mark.parametrize(
    "stepper",
    [
        pytest.param(STEPPER, id="one stage"),
        pytest.param(ist.RadauContact(), id="three stages", marks=pytest.mark.thorough),
    ],
)
@pytest.mark.parametrize("mu", [20.0, 100.0, 1e4])
def test_contacts_that_never_slip_are_certified(stepper, mu):
    """No slip is written as a large mu: what rounding leaves of a slip must not count mu^2
    times."""
    rolling = {"mass": 1.0, "height": 0.3, "velocity": (0.9, 0, 0, 0, 3, 0)}
    scene = on_floor(shapes.Ellipsoid((1.0, 0.5, 0.3)), friction=mu, **rolling)
    run = ist.simulate(scene, stepper, h=0.01, duration=0.2)
    assert np.max(run.contacts.sigma) <= 1e-9
    assert max(np.max(violation) for violation in run.certificate.values()) <= 1e-11


def test_rest_stays_at_rest():
    trajectory = ist.simulate(on_floor(shapes.Sphere(1.0), mass=1.0, height=1.0), STEPPER, h=0.01, duration=10.0)
    assert np.abs(trajectory.velocity).max() <= 1e-12
    assert np.abs(trajectory.position - trajectory.position[0]).max() <= 1e-12


def test_both_friction_rows_step_alike():
    """Two residuals with the same roots: a tumbling ellipsoid lands, slides and rolls the same with
    both."""
    scene = on_floor(shapes.Ellipsoid((1.0, 0.5, 0.3)), mass=1.0, height=1.0, velocity=(1, 0, 0, 3, 2, 1), friction=0.4)
    projection = ist.simulate(scene, STEPPER, h=0.01, duration=1.0)
    cone = ist.simulate(scene, ist.GeometricallyImplicit(friction="fischer-burmeister"), h=0.01, duration=1.0)
    # 100 steps of 1e-12 h sqrt(g L) = 2e-14 m at most, which tumbling may enlarge a few times
    assert np.abs(projection.position - cone.position).max() <= 1e-11


class _LostLater(ist.GeometricallyImplicit):
    """No step that begins after .1 s converges, whatever its start and length."""

    def step(self, system, state, memory, h):
        step, late = super().step(system, state, memory, h), state.time > 0.1
        wrong = dataclasses.replace(step.state, velocity=step.state.velocity + late)
        return dataclasses.replace(step, state=wrong, result=jnp.where(late, int(ist.Result.NOT_CONVERGED), step.result))


@pytest.fixture(scope="module")
def lost():
    """A scene, and the error of a run that loses a step."""
    scene = disc_on_line(1.0, height=1.05, velocity=(1, 0, 2))
    with pytest.raises(ist.StepError) as caught:
        ist.simulate(scene, _LostLater(rounds=1), h=0.01, duration=1.0)
    return scene, caught.value


def test_a_lost_step_is_an_error_that_carries_everything_before_it(lost):
    scene, error = lost
    assert error.result == ist.Result.NOT_CONVERGED
    assert len(error.trajectory) == 11
    assert error.time == pytest.approx(error.trajectory.time[-1] + 0.01)
    assert np.all(np.isfinite(error.trajectory.position))
    for part in ("body and floor", "a smaller `h`", "cuts ", "free flight ", "tilted cuts ", "patient cuts ", "h/2 "):
        assert part in str(error)
    kept = ist.simulate(scene, _LostLater(rounds=1), h=0.01, duration=1.0, on_failure="return")
    assert np.array_equal(kept.position, error.trajectory.position)


def test_a_ball_carries_a_million_times_its_weight():
    """The first step finds both forces from none; the next ones begin with them."""
    scene, heavy, h = ist.Scene(), 1e6, 0.01
    low = scene.add_body(name="low", shape=shapes.Sphere(0.5), mass=1.0, position=(0, 0, 0.5))
    high = scene.add_body(name="high", shape=shapes.Sphere(0.5), mass=heavy, position=(0, 0, 1.5))
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    scene.add_contact(low, floor, friction=0.3)
    scene.add_contact(high, low, friction=0.3)
    run = ist.simulate(scene, STEPPER, h=h, duration=3 * h)
    weights = np.array([heavy + 1, heavy]) * 9.81 * h
    np.testing.assert_allclose(run.contacts.normal_impulse, np.broadcast_to(weights, (3, 2)), rtol=1e-10)
    assert STEPPER.rungs[run.stats.rung[0]] == "less damping"
    # one start, before dearer ones: all of them take 1700
    assert run.stats.iterations[0] <= 3 * STEPPER.max_iterations
    assert run.stats.iterations[1:].max() <= 15  # 0 to 6 with the last digits


def test_no_ladder_is_climbed_twice_from_the_same_memory():
    """A memory that is the start's own has no other without it; one of the last steps has."""
    system, state = jax.device_put(on_floor(shapes.Sphere(1.0), mass=1.0, height=1.0).build())
    memory = fallback.anew(STEPPER, system, state, None)
    assert next(fallback._without_memory(STEPPER, system, state, memory, 0.01), None) is None
    moved = dataclasses.replace(memory, history=memory.history + 0.1)
    assert next(fallback._without_memory(STEPPER, system, state, moved, 0.01))[0] == "cuts"


def test_a_solved_but_uncertified_step_is_an_error_too():
    scene = on_floor(shapes.Sphere(1.0), mass=1.0, height=1.0, velocity=(1, 0, 0, 0, 0, 2))
    with pytest.raises(ist.StepError, match="violates the paper's equations") as caught:
        ist.simulate(scene, ist.GeometricallyImplicit(tolerance=1e-3), h=0.01, duration=1.0, certificate_tolerance=1e-15)
    assert caught.value.result == ist.Result.NOT_CERTIFIED
    assert caught.value.certificate


class _DoubtsTheLastContact(ist.ConeComplementarity):
    """Certifies nothing, as the last contact's "cone" is said to be exceeded, and has nothing else
    to try."""

    @property
    def can(self):
        return dataclasses.replace(super().can, divisible=False)

    def certificate(self, system, before, after, contacts, h):
        found = super().certificate(system, before, after, contacts, h)
        return found | {"cone": found["cone"].at[-1].set(1.0)}


def test_an_error_names_contacts_where_there_are_more_of_them_than_bodies():
    scene = ist.Scene(dimension=2, gravity=(0, -9.81))
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    row = [(shapes.Disc(0.5), ((x, 0), 0.0)) for x in (-0.5, 0.0, 0.5)]
    scene.add_contact(floor, scene.add_body(name="row", shapes=row, mass=1.0, inertia=1.0, position=(0, 0.6)))
    with pytest.raises(ist.StepError, match=r"cone 1.00e\+00 at floor and row\[2\]\. The 0 steps"):
        ist.simulate(scene, _DoubtsTheLastContact(), h=0.01, duration=0.05)


@pytest.mark.parametrize(("name", "place"), [("momentum", "ball"), ("rates", "ball"), ("impact", "ball"), ("energy", "all")])
def test_violations_are_said_of_bodies_or_of_contacts(name, place):
    """Of stages, "rates" and "impact" are of bodies too, of which there may be no contact with the
    same number."""
    scene = ist.Scene()
    scene.add_body(name="ball", shape=shapes.Sphere(0.5), mass=1.0, position=(0, 0, 1))
    assert described(scene.build()[0], {name: np.array([np.nan])}).startswith(f"{name} nan at {place}")


def test_a_lost_step_can_be_taken_up_again_from_its_state(lost):
    scene, error = lost
    state = error.state
    rest = ist.simulate(scene, STEPPER, h=0.01, duration=1.0 - float(state.time), start=state)
    whole = ist.simulate(scene, STEPPER, h=0.01, duration=1.0)
    np.testing.assert_allclose(rest.position[-1], whole.position[-1], rtol=0, atol=1e-10)
    np.testing.assert_array_equal(rest.position[0], state.position)
    with pytest.raises(ValueError, match="`start` = 3 must be a State"):
        ist.simulate(scene, STEPPER, h=0.01, duration=1.0, start=3)
    with pytest.raises(ValueError, match=r"`start.velocity` has shape \(3,\)"):
        ist.simulate(scene, STEPPER, h=0.01, duration=1.0, start=dataclasses.replace(state, velocity=np.zeros(3)))


class _OnlyShortSteps(ist.GeometricallyImplicit):
    """Whenever h > 4 ms it says that it did not converge, and its state is wrong; it has no starts
    after those that cost more than shorter steps."""

    def restarts(self, system, state, memory, h):
        yield from itertools.takewhile(lambda at: at[0] != "tilted cuts", super().restarts(system, state, memory, h))
        raise AssertionError("shorter steps come before the last starts")

    def step(self, system, state, memory, h):
        step = super().step(system, state, memory, h)
        wrong = dataclasses.replace(step.state, velocity=step.state.velocity + jnp.where(h > 0.004, 1.0, 0.0))
        result = jnp.where(h > 0.004, int(ist.Result.NOT_CONVERGED), step.result)
        return dataclasses.replace(step, state=wrong, result=result)


def test_substeps_stand_for_a_step_and_are_counted():
    """The ladder halves steps of 10 ms twice, and the result is that of 2.5 ms."""
    scene = on_floor(shapes.Sphere(1.0), mass=1.0, height=1.0, velocity=(1, 0, 0, 0, 0, 2))
    halved = ist.simulate(scene, _OnlyShortSteps(rounds=1), h=0.01, duration=0.03)
    fine = ist.simulate(scene, STEPPER, h=0.0025, duration=0.03)
    assert halved.stats.substeps.tolist() == [4, 4, 4]
    assert halved.stats.rung.tolist() == [len(STEPPER.rungs)] * 3
    np.testing.assert_allclose(halved.time, [0, 0.01, 0.02, 0.03], rtol=1e-14)
    np.testing.assert_allclose(halved.velocity[1:], fine.velocity[4::4], rtol=0, atol=1e-12)
    impulses = fine.contacts.normal_impulse.reshape(3, 4).sum(axis=1)
    np.testing.assert_allclose(halved.contacts.normal_impulse[:, 0], impulses, rtol=1e-10)
    friction = fine.contacts.friction_impulse[:, 0].reshape(3, 4, 3).sum(axis=1)
    assert np.abs(friction[:, :2]).max() > 1e-3
    np.testing.assert_allclose(halved.contacts.friction_impulse[:, 0], friction, rtol=1e-10, atol=1e-14)
    falling = on_floor(shapes.Sphere(1.0), mass=1.0, height=1.05, velocity=(1, 0, 0, 0, 0, 2))
    gaps = ist.simulate(falling, _OnlyShortSteps(rounds=1), h=0.01, duration=0.03).contacts
    # of the whole step, not of its last part
    np.testing.assert_array_equal(gaps.gap_start[1:], gaps.gap[:-1])
    assert gaps.gap_start[0, 0] == pytest.approx(0.05, abs=1e-12)


class _AtOnceShortSteps(_OnlyShortSteps):
    """Without any other start."""

    def restarts(self, system, state, memory, h):
        yield from ()


def test_reactions_of_substeps_are_those_of_the_whole_step():
    scene = ist.Scene()
    wall = scene.add_fixed(name="wall", shape=shapes.Sphere(0.01))
    bob = scene.add_body(name="bob", shape=shapes.Sphere(0.1), mass=1.0, position=(0, 0, -1))
    scene.add_joint(wall, bob, ist.BallJoint((0, 0, 0), (0, 0, 1)), name="pin")
    run = ist.simulate(scene, _AtOnceShortSteps(rounds=1), h=0.01, duration=0.03)
    assert run.stats.substeps.tolist() == [4, 4, 4]
    np.testing.assert_allclose(run.joint("pin").force, np.full((3, 3), [0, 0, 9.81]), rtol=0, atol=1e-9)


def test_a_root_with_too_much_energy_is_not_certified():
    """A fabricated step that throws a resting ball up exceeds the bound; one out of the floor is
    allowed its work."""
    scene = on_floor(shapes.Sphere(1.0), mass=1.0, height=1.0)
    system, state = jax.tree.map(jnp.asarray, scene.build())
    step = jit(STEPPER.step)(system, state, jit(STEPPER.init)(system, state), 0.01)
    certificate = jit(ist.certificate)
    thrown = dataclasses.replace(step.state, velocity=step.state.velocity.at[0, 2].set(3.0))
    excess = certificate(system, state, thrown, step.contacts, 0.01)["energy"]
    free_fall = (0.01 * 9.81) ** 2 / 2
    unit = 9.81 * np.sqrt(3 * 0.4)  # m g L with the radius of gyration, of the trace of the inertia
    assert excess == pytest.approx((4.5 - 1.05 * free_fall) / unit - 1e-3, rel=1e-9)
    assert certificate(system, state, step.state, step.contacts, 0.01)["energy"] == 0.0
    deep = on_floor(shapes.Sphere(1.0), mass=1.0, height=0.9)
    ist.simulate(deep, STEPPER, h=0.01, duration=0.02)  # leaves at 10 m/s, certified


@pytest.mark.parametrize("jacobian", ["by size", "sparse"])
def test_far_from_the_origin_it_is_rounding_that_is_named(jacobian):
    """A coordinate of 1e9 m has digits to 1e-7 m: no step is short enough for 1e-10."""
    far = disc_on_line(0.2, height=1e9)
    with pytest.raises(ist.StepError, match="rounding alone leaves more than the tolerances") as caught:
        ist.simulate(far, ist.GeometricallyImplicit(jacobian=jacobian), h=0.01, duration=0.01)
    assert caught.value.result == ist.Result.ROUNDED
    assert "smaller `h`" not in str(caught.value)


@pytest.mark.parametrize(
    ("stepper", "asked"), [(STEPPER, {"h": 0.01}), (ist.RadauContact(), {"tol": 1e-6})], ids=["given steps", "chosen steps"]
)
def test_a_load_that_ends_within_a_run_is_named(stepper, asked):
    """And neither masses nor tolerances are told to be wrong."""
    scene = ist.Scene(dimension=2)
    scene.add_body(name="kite", shape=shapes.Disc(0.1), mass=1.0, position=(0, 1), wrench=ist.Wrench(["sqrt(0.055 - t)", 0]))
    with pytest.raises(ist.StepError, match=r"the wrench of 'kite' is \[nan, 0.0, 0.0\] at t = 0.0[56]") as caught:
        ist.simulate(scene, stepper, duration=0.2, progress=False, **asked)
    assert len(caught.value.trajectory) > 0
    assert "masses" not in str(caught.value)
    assert "another `tol`" not in str(caught.value)


def test_a_load_is_asked_with_arrays_of_jax_where_a_step_is_lost():
    """As steps ask it; one that raises there is told, and hides no `StepError`."""
    system, state = on_floor(shapes.Sphere(1.0), mass=1.0, height=1.0).build()
    fine, raises = (lambda t, x, q, v: (-v).at[3:].set(0.0)), (lambda t, x, q, v: v[9:].reshape(7))
    for function, told in ((fine, ""), (raises, "has no value at t = 0 s")):
        asked = dataclasses.replace(system, wrench_functions=(function,))
        assert told in without_value(asked, state, [0.1])
        assert bool(without_value(asked, state, [0.1])) == bool(told)

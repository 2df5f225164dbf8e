"""RadauContact on example 3 against its event-driven integration: orders, gaps, chosen steps,
events, what lies between steps."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import implicit_stepper as ist
import shapes
from implicit_stepper.paper import exact, scenes
from implicit_stepper.radau import (
    error_control,
    sparse_jacobian,
    stage_jacobian,
    stage_modes,
    stage_pieces,
    stage_step,
    stage_unknowns,
    stages,
)
from implicit_stepper.radau.memory import at_fractions
from implicit_stepper.runtime.compilation import jit
from implicit_stepper.stepping.stepper import begin


@pytest.fixture(scope="module")
def scene():
    return scenes.two_spheres(shapes.Sphere)


@functools.cache
def smooth_run(stages_, h):
    """[0, 2.9] s, on which no contact changes its mode, and the exact states at its nodes."""
    run = ist.simulate(scenes.two_spheres(shapes.Sphere), ist.RadauContact(stages=stages_), h=h, duration=2.9)
    return run, exact.two_spheres(4.0).at(run.time)


@functools.cache
def chosen(tol):
    return ist.simulate(scenes.two_spheres(shapes.Sphere), ist.RadauContact(), tol=tol, duration=4.0)


def errors(run, states):
    return {
        "position": np.max(np.linalg.norm(run.position[:, 0] - states.position, axis=1)),
        "velocity": np.max(np.linalg.norm(run.velocity[:, 0] - states.velocity, axis=1)),
        # forces of the last stages, at the ends of steps; those at the start belong to no step
        "force": np.max(
            np.abs(run.contacts.stages.contacts.normal_impulse[:, -1] / np.diff(run.time)[:, None] - states.normal_force[1:])
        ),
    }


# A number of the next order enters the slope between two step sizes in the ratio of the two:
# measured within .05.
@pytest.mark.parametrize(("count", "sizes", "orders"), [(3, (0.1, 0.05), (5, 5, 3)), (2, (0.05, 0.025), (3, 3, 2))])
def test_orders_on_the_smooth_part(count, sizes, orders):
    coarse, fine = (errors(*smooth_run(count, h)) for h in sizes)
    for name, order in zip(("position", "velocity", "force"), orders, strict=True):
        assert np.log2(coarse[name] / fine[name]) == pytest.approx(order, abs=0.2), name


def test_error_gap_and_certificate_at_a_tenth_of_a_second():
    run, states = smooth_run(3, 0.1)
    assert errors(run, states)["position"] <= 1e-8
    assert np.max(np.abs(run.contacts.gap)) <= 1e-13
    assert max(np.max(values) for values in run.certificate.values()) <= 1e-10


def test_one_stage_is_the_papers_scheme_to_the_last_bit(scene):
    one = ist.simulate(scene, ist.RadauContact(stages=1), h=0.02, duration=0.4)
    paper = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.02, duration=0.4)
    for name in ("position", "orientation", "velocity"):
        np.testing.assert_array_equal(getattr(one, name), getattr(paper, name))


def test_chosen_steps_reach_their_tolerance_and_find_the_events():
    run = chosen(1e-8)
    states = exact.two_spheres(4.0).at(run.time)
    error = np.linalg.norm(run.position[:, 0] - states.position, axis=1)
    assert np.max(error[run.time <= 3.0]) <= 1e-8
    assert error[-1] <= 1e-7
    assert [(event.contact, event.kind) for event in run.events] == [(1, "slips"), (0, "opens"), (1, "opens")]
    times = [event.time for event in run.events]
    for time, name, allowed in zip(times, exact.two_spheres(4.0).events, (1e-7, 1e-5, 1e-5), strict=True):
        assert time == pytest.approx(exact.two_spheres(4.0).events[name], abs=allowed), name
    stage = run.contacts.stages.contacts
    closed = stage.normal_impulse[:, -1] > 1e-12  # N s: more than rounding
    assert np.max(np.abs(run.contacts.gap[closed])) <= 1e-13
    assert run.counts["one-stage steps"] == 0
    assert run.time[-1] == pytest.approx(4.0, abs=1e-15)


@pytest.mark.parametrize("tol", [1e-4, 1e-6, 1e-8])
def test_tolerance_means_the_error(tol):
    """Relative to the scene's length and the way, also between the steps: measured, .15 to .2 of
    it."""
    time = np.linspace(0.0, 4.0, 401)
    positions = exact.two_spheres(4.0).at(time).position
    error = np.linalg.norm(chosen(tol).at(time).position[:, 0] - positions, axis=1)
    # radius of gyration [m], and the way
    scale = np.sqrt(0.4) + np.linalg.norm(positions - positions[0], axis=1)
    assert np.max(error / scale) <= tol


# As for the orders of steps; velocities between steps are those of the stages, of order s + 1.
@pytest.mark.parametrize(("count", "sizes", "orders"), [(3, (0.1, 0.05), (5, 4)), (2, (0.05, 0.025), (3, 3))])
def test_orders_between_steps(count, sizes, orders):
    time = np.linspace(0.0, 2.9, 777)
    exactly = exact.two_spheres(4.0).at(time)
    found = [smooth_run(count, h)[0].at(time) for h in sizes]
    for name, order in zip(("position", "velocity"), orders, strict=True):
        error = [np.max(np.abs(getattr(states, name)[:, 0] - getattr(exactly, name))) for states in found]
        assert np.log2(error[0] / error[1]) == pytest.approx(order, abs=0.2), name


def test_polynomials_pass_through_the_steps():
    run = smooth_run(3, 0.1)[0]
    at_nodes = run.at(run.time)
    np.testing.assert_allclose(at_nodes.position, run.position, atol=1e-14)
    np.testing.assert_allclose(at_nodes.velocity, run.velocity, atol=1e-13)
    np.testing.assert_allclose(np.abs(np.sum(at_nodes.orientation * run.orientation, axis=-1)), 1.0, atol=1e-14)


def test_saved_and_loaded(tmp_path):
    run = chosen(1e-6)
    run.save(tmp_path / "run.npz")
    again = ist.load(tmp_path / "run.npz")
    assert again.events == run.events
    assert again.counts == run.counts
    np.testing.assert_array_equal(again.h, run.h)
    np.testing.assert_array_equal(again.at([1.23]).position, run.at([1.23]).position)


@pytest.mark.parametrize("count", [pytest.param(2, marks=pytest.mark.thorough), 3])
def test_an_impact_within_a_step_is_refused(count):
    """A ball flies at a wall along which it falls. From any fraction of the way of a step there is
    a root: that of a ball that bounces, or stops only where it is to be at the end."""
    scene, h, v = ist.Scene(), 0.05, 1.0
    wall = scene.add_fixed(name="wall", shape=shapes.HalfSpace(normal=(1, 0, 0)))
    moving = {"position": (0.1 + 0.34 * v * h, 0, 0), "velocity": (-v, 0, 0, 0, 0, 0)}
    ball = scene.add_body(name="ball", shape=shapes.Sphere(0.1), mass=1.0, **moving)
    scene.add_contact(wall, ball, friction=0.3)
    stepper = ist.RadauContact(stages=count)
    system, first = jax.tree.map(jnp.asarray, scene.build())
    step, certificate = jit(stepper.step), jit(stepper.certificate)
    for fraction in (0.0, 1e-9, 0.03, 0.34, 0.66, 0.97, 2.0):
        there = first.position.at[0, 0].set(0.1 + fraction * v * h)
        state = dataclasses.replace(first, position=there)
        taken = step(system, state, begin(stepper, system, state), h)
        assert taken.result == ist.Result.SOLVED
        found = certificate(system, state, taken.state, taken.contacts, h)
        violated = {name for name, values in found.items() if np.max(values) > 1e-10}
        assert violated == ({"impact within the step"} if fraction < 1 else set()), fraction
    if count == 2:  # a run says so of a certificate, whatever the number of stages
        with pytest.raises(ist.StepError, match="impact within the step .* at wall and ball") as refused:
            ist.simulate(scene, stepper, h=h, duration=h)
        assert "give `tol`" in str(refused.value)


def pushed_pile():
    """Contacts of smooth bodies of which one moves, which is compliant, and both; one of a body
    with faces; a joint; a load that depends on all there is."""
    scene = ist.Scene(gravity=(0.0, 0.0, -9.81))

    def push(t, position, orientation, velocity):
        return jnp.concatenate([jnp.sin(t + position) - velocity[:3], orientation[1:] * velocity[3:] ** 2])

    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0.0, 0.0, 1.0)))
    below = scene.add_body(name="ball", shape=shapes.Sphere(0.3), mass=1.0, position=(0.0, 0.0, 0.3))
    egg = shapes.Ellipsoid((0.2, 0.3, 0.4))
    above = scene.add_body(name="egg", shape=egg, mass=2.0, position=(0.05, 0.1, 0.98), wrench=push)
    box = scene.add_body(name="box", shape=shapes.Box((0.4, 0.3, 0.2)), mass=0.5, position=(1.0, 0.0, 0.3))
    friction = ist.FrictionEllipsoid(mu=0.5, e_t=1.0, e_o=0.8, e_r=0.1, direction=(1.0, 0.0, 0.0))
    soft = ist.Compliance(300.0, 0.02)
    for first, second, compliance in ((floor, below, soft), (below, above, None), (floor, box, None)):
        scene.add_contact(first, second, friction=friction, compliance=compliance)
    scene.add_joint(above, box, ist.BallJoint(point_1=(0.45, -0.1, -0.38), point_2=(-0.5, 0.0, 0.3)))
    return scene


def test_blocks_are_the_derivative_of_the_residual(monkeypatch):
    """Put together and with closest points eliminated, as JAX's derivative of the whole residual
    is."""
    monkeypatch.setattr(stage_pieces, "_CURVATURE", 0.0)
    monkeypatch.setattr(stage_pieces, "_GIVE", 0.0)
    system, state = jax.tree.map(jnp.asarray, pushed_pile().build())
    stepper = ist.RadauContact()
    memory = begin(stepper, system, state)

    @jax.jit  # one program: operation by operation, each would be one
    def beside(system, state, memory, z):
        """The task and the problem of a step of .05 s, and unknowns `z` away from its start."""
        task = stage_step.free_task(stepper, system, state, memory, 0.05)
        problem = stages.stage_problem(system, state, 0.05, memory.references, 3, "projection")
        start = stage_unknowns.join(system, *at_fractions(problem, memory, jnp.eye(3), jnp.eye(3)))
        return task, problem, z + start / stages.unknown_scale(problem)

    drawn = np.random.default_rng(1).normal(size=3 * stage_unknowns.size(system)) * 0.01
    task, problem, z = beside(system, state, memory, drawn)

    def whole(z, h, held):
        cut = dataclasses.replace(problem, h=h)
        F, ats, _ = stages.residual(cut, z, task.modes, held)
        return F, stage_modes.margins(cut, ats, task.modes)[-1]

    derivative = jax.jit(jax.jacfwd(whole, (0, 1)))
    ours = jax.jit(lambda z, held: stage_jacobian.derivatives(problem, z, task.modes, held))
    known = jax.jit(lambda z, held: sparse_jacobian.known_at(problem, z, task.modes, held, 2 * problem.h))
    with_h = jax.jit(lambda found, event: stage_jacobian.with_h(found, 2 * problem.h, event))
    for held in (jnp.asarray(False), jnp.asarray(True)):
        (J, J_h), (M, M_h) = jax.tree.map(np.asarray, derivative(z, jnp.asarray(0.05), held))
        found = ours(z, held)
        pieces = jax.tree.map(np.asarray, known(z, held))
        for event in (-1, 0, 4, len(found.margins) - 1):
            dense, sparse = with_h(found, event), sparse_jacobian.with_h(pieces, system.constraints, event)
            for own, one in (
                (sparse.rest, dense.rest),
                (sparse.follow, dense.local.follow),
                (sparse.lead, dense.local.lead),
            ):
                np.testing.assert_allclose(own.matrix.toarray(), one, rtol=0, atol=1e-13 * np.max(np.abs(one), initial=1.0))
        n = len(found.follow_h)
        F = np.random.default_rng(2).normal(size=len(J))
        for step in (found.system.damped_step(F, 1e-20), -found.system.factorised().solve(F)):
            np.testing.assert_allclose(J @ step, -F, atol=1e-8)
        inverse = np.linalg.inv(J[:n, :n]) if n else np.zeros((0, 0))
        follow, follow_h = inverse @ J[:n, n:], inverse @ J_h[:n]
        blocks = [block for groups in zip(*found.system.local.inverses, strict=True) for group in groups for block in group]
        for own, expected in (
            (scipy.linalg.block_diag(*blocks), inverse),
            (found.system.rest, J[n:, n:] - J[n:, :n] @ follow),
            (found.system.local.lead, J[n:, :n]),
            (found.system.local.follow, follow),
            (found.by_h, J_h[n:] - J[n:, :n] @ follow_h),
            (found.follow_h, follow_h),
            (found.margins, M[:, n:] - M[:, :n] @ follow),
            (found.margins_local, M[:, :n]),
            (found.margins_by_h, M_h - M[:, :n] @ follow_h),
        ):
            np.testing.assert_allclose(own, expected, atol=1e-12 * np.max(np.abs(expected), initial=1.0))


def test_certificate_sees_what_is_disturbed(scene):
    """Every recorded quantity of a step that matters, changed by a little, is a violation by as
    much."""
    system, state = jax.tree.map(jnp.asarray, scene.build())
    stepper = ist.RadauContact()
    step = jax.jit(functools.partial(stepper.step, system))(state, begin(stepper, system, state), 0.05)
    certificate = jax.jit(functools.partial(stepper.certificate, system, state, h=0.05))

    def worst(contacts, after=step.state):
        return max(float(np.max(v)) for v in certificate(after, contacts).values())

    own = step.contacts.stages
    assert worst(step.contacts) <= 1e-10
    for name in ("rates", "velocity", "eta"):
        other = dataclasses.replace(own, **{name: getattr(own, name) + 1e-6})
        assert worst(dataclasses.replace(step.contacts, stages=other)) >= 1e-7, name
    for name in ("normal_impulse", "friction_impulse", "gap", "point_1", "normal"):
        contacts = dataclasses.replace(own.contacts, **{name: getattr(own.contacts, name) + 1e-6})
        assert worst(dataclasses.replace(step.contacts, stages=dataclasses.replace(own, contacts=contacts))) >= 1e-7, name
    assert worst(step.contacts, dataclasses.replace(step.state, velocity=step.state.velocity + 1e-6)) >= 1e-7


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"tol": 1e-8, "h": 0.01}, "one of them"),
        ({}, "one of them"),
        ({"tol": 1e-13}, "between 1e-12 and 0.1"),
        ({"tol": 0.2}, "between 1e-12 and 0.1"),
        ({"tol": float("nan")}, "tol"),
        ({"h": 0.01, "switches": [0.5]}, "chosen steps"),
        ({"tol": 1e-8, "switches": [float("inf")]}, "switches"),
    ],
)
def test_bad_input_is_refused_with_the_remedy(scene, keywords, message):
    with pytest.raises(ValueError, match=message):
        ist.simulate(scene, ist.RadauContact(), duration=1.0, **keywords)


@pytest.mark.parametrize("stepper", [ist.GeometricallyImplicit(), ist.RadauContact(stages=1)])
def test_steppers_without_an_estimate_cannot_choose(scene, stepper):
    with pytest.raises(ValueError, match="no error estimate"):
        ist.simulate(scene, stepper, tol=1e-6, duration=1.0)


@pytest.mark.parametrize(("name", "value"), [("stages", 4), ("stages", 0), ("tolerance", -1.0), ("friction", "dry")])
def test_bad_settings_are_refused_by_name(name, value):
    with pytest.raises(ValueError, match=name):
        ist.RadauContact(**{name: value})


@pytest.mark.parametrize("part", ["relative", "position", "angle"])
def test_tolerances_out_of_range_are_refused_by_name(part):
    with pytest.raises(ValueError, match=part):
        error_control.Tolerance(**{"relative": 1e-6, part: 1.0})

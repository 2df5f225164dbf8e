"""The cone complementarity stepper against its closed forms, a conic solver, and the problem that
it relaxes."""

import dataclasses

import clarabel
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import implicit_stepper as ist
import shapes
from implicit_stepper.constraints import detection, linear_rows
from implicit_stepper.constraints.detection import closest_points
from implicit_stepper.model import bodies, loads
from implicit_stepper.paper import scenes
from implicit_stepper.runtime.compilation import jit
from implicit_stepper.solvers.cones import GRADIENT_METHODS, project
from implicit_stepper.stepping.stepper import begin

G = 9.81
SOLVERS = ("apgd", "barzilai-borwein", "gauss-seidel")
UNRELAXED = ist.ConeComplementarity(relaxed=False)


def run(scene, stepper=None, *, h, duration=None, **keywords):
    stepper = ist.ConeComplementarity() if stepper is None else stepper
    return ist.simulate(scene, stepper, h=h, duration=h if duration is None else duration, **keywords)


# --- the relaxation
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_block_that_slides_at_gap_zero_is_launched(solver):
    """Row by row of Negrut (5) and (7): v_n = mu (v - mu g h)/(1 + mu^2), whatever the step; then
    it flies."""
    v, mu = 6.0, 0.5
    for h in (0.005, 0.0005):
        trajectory = run(scenes.block(speed=v, mu=mu), ist.ConeComplementarity(solver=solver), h=h)
        assert trajectory.velocity[1, 0, 2] == pytest.approx(mu * (v - mu * G * h) / (1 + mu**2), abs=1e-10)
    h = 0.005
    launch = mu * (v - mu * G * h) / (1 + mu**2)
    assert launch == pytest.approx(2.3902, abs=1e-4)
    flight = run(scenes.block(speed=v, mu=mu), ist.ConeComplementarity(solver=solver), h=h, duration=0.5)
    steps = np.floor(launch / (G * h))  # symplectic Euler rises as long as its velocity is positive
    apex = h * (launch * (1 + steps) - G * h * steps * (steps + 1) / 2)
    assert flight.position[:, 0, 2].max() - 0.5 == pytest.approx(apex, abs=1e-10)
    assert apex == pytest.approx(0.297, abs=1e-3)


def floating(h, v=6.0, mu=0.5):
    """At the fixed point of the relaxation: mu h v above the plane, and coming down as fast as that
    shrinks."""
    return scenes.block(speed=v, mu=mu, gap=mu * h * v, fall=mu**2 * G * h)


def test_a_sliding_block_floats_at_mu_h_v():
    h, mu = 0.005, 0.5
    trajectory = run(floating(h), h=h, duration=1.0)
    np.testing.assert_allclose(trajectory.contacts.gap[:, 0], mu * h * trajectory.velocity[1:, 0, 0], rtol=0, atol=1e-12)
    # and carries its weight
    np.testing.assert_allclose(trajectory.contacts.normal_impulse[:, 0], G * h, rtol=1e-8)


@pytest.mark.parametrize("stepper", [UNRELAXED, ist.GeometricallyImplicit()], ids=["unrelaxed", "implicit"])
def test_without_relaxation_the_block_stays_on_the_plane(stepper):
    trajectory = run(scenes.block(), stepper, h=0.005, duration=1.0)
    assert np.abs(trajectory.contacts.gap).max() <= 1e-12
    assert np.abs(trajectory.velocity[:, 0, 2]).max() <= 1e-10
    assert np.all(np.diff(trajectory.velocity[:, 0, 0]) == pytest.approx(-0.5 * G * 0.005, abs=1e-10))


@pytest.mark.parametrize("scene", [scenes.disc, lambda: scenes.block(mu=0.0)], ids=["rolling", "frictionless"])
def test_the_artifact_vanishes_without_slip_or_friction(scene):
    trajectory = run(scene(), h=0.005, duration=0.5)
    assert np.abs(trajectory.contacts.gap).max() <= 1e-12


def test_nothing_pulls_without_friction():
    """A cone without friction is a ray, of which a pull along it is no part: a ball that falls a
    little above the floor is free, and needs no iteration."""
    assert np.array_equal(project(jnp.array([-1.0, 0, 0, 0]), 0.0), [0, 0, 0, 0])
    assert np.array_equal(project(jnp.array([2.0, 1, 0, 0]), 0.0), [2, 0, 0, 0])
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1), offset=0.0))
    ball = scene.add_body(name="ball", shape=shapes.Sphere(0.1), mass=1.0, position=(0, 0, 0.12))
    scene.add_contact(floor, ball, friction=0.0)
    result = run(scene, h=0.01, duration=0.03)
    assert result.velocity[:, 0, 2] == pytest.approx(-9.81 * result.time, abs=1e-12)
    assert not np.any(result.stats.iterations)
    assert not np.any(result.stats.rung)


def stopping(h):
    trajectory = run(floating(h), h=h, duration=1.4)
    moving = np.flatnonzero(trajectory.velocity[:, 0, 0] > 1e-9)
    return trajectory.time[moving[-1] + 1], trajectory.position[-1, 0, 0]


def test_the_stop_of_a_floating_block_is_biased_to_first_order():
    """Exactly v/(mu g) = 1.22324 s and v^2/(2 mu g) = 3.66972 m; at the fixed point a step takes mu
    g h off the speed."""
    time, distance = stopping(0.01)
    speeds = 6.0 - 0.5 * G * 0.01 * np.arange(1, 200)
    assert time == pytest.approx(0.01 * (np.sum(speeds > 0) + 1), abs=1e-9)
    assert distance == pytest.approx(0.01 * np.sum(speeds[speeds > 0]), abs=1e-8)
    assert (time, distance) == (pytest.approx(1.23, abs=1e-9), pytest.approx(3.6397, abs=1e-4))
    # that is implicit Euler's lag, not the relaxation's: a block at gap 0 stops there too
    implicit = ist.simulate(scenes.block(), ist.GeometricallyImplicit(), h=0.01, duration=1.4)
    assert implicit.position[-1, 0, 0] - implicit.position[0, 0, 0] == pytest.approx(distance, abs=1e-8)
    exact = 36 / (2 * 0.5 * G)
    errors = [exact - stopping(h)[1] for h in (0.01, 0.005, 0.0025)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(1, abs=0.05)
    assert np.log2(errors[1] / errors[2]) == pytest.approx(1, abs=0.05)


# --- the cone complementarity problem
# --------------------------------------------------------------------


FEET = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]], float)


def table(friction, **body):
    """A round table on four balls; its top stays .01 m above the plane."""
    parts = [(shapes.Sphere(0.1), ((*foot, 0.0), (1.0, 0.0, 0.0, 0.0))) for foot in FEET]
    top = (shapes.Ellipsoid((1.05, 1.05, 0.09)), ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0)))
    scene = ist.Scene()
    given = {"mass": 2.0, "inertia": (0.5, 0.5, 0.9), "position": (0, 0, 0.1)}
    moving = scene.add_body(name="table", shapes=[*parts, top], **{**given, **body})
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    scene.add_contact(moving, floor, friction=friction)
    return scene


def conic_velocity(scene, h):
    """The velocity after one step by clarabel, from the dual of Negrut (11)-(12), strictly convex
    in the velocity:

    min (v - v_free).M (v - v_free) / 2 with (psi/h + v_n, w) in the dual cone mu |w| <= psi/h + v_n
    of every contact.
    """
    system, state = scene.build()

    @jax.jit
    def parts(system, state, closest):
        here = detection.find(system, state, closest)
        rows = linear_rows.linear_rows(system, state, here.geometry)
        mass = bodies.mass_matrices(system, state)
        free = loads.free_velocity(system, state, mass, h)
        units = jnp.eye(free.size).reshape(-1, *free.shape)
        mu = linear_rows.of_contacts(system, "mu")
        return mass, free, here.geometry.psi, mu, jax.vmap(rows.scaled, out_axes=-1)(units)

    mass, free, psi, mu, D = map(np.array, parts(system, state, closest_points(system, state)))
    D[:, 1:] *= mu[:, None, None]
    count, size = D.shape[:2]
    M = scipy.sparse.block_diag(list(mass), format="csc")
    A = scipy.sparse.csc_matrix(-D.reshape(count * size, -1))
    cones = [clarabel.SecondOrderConeT(size)] * count
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12

    def solve(speed):
        """Its relative duality gap, and the velocity, which is measured in `speed` [m/s]."""
        bound = np.zeros((count, size))
        bound[:, 0] = psi / h / speed
        answer = clarabel.DefaultSolver(M, -M @ free.ravel() / speed, A, bound.ravel(), cones, settings).solve()
        return abs(answer.obj_val - answer.obj_val_dual) / abs(answer.obj_val), speed * np.array(answer.x)

    # clarabel's last digits depend on the unit and on the processor: of several units, the one with
    # the least gap
    return min((solve(h * k) for k in (0.1, 0.3, 1.0, 3.0, 10.0)), key=lambda found: found[0])[1].reshape(free.shape)


CONIC = {
    "table": lambda: table(ist.FrictionEllipsoid(mu=0.6, e_r=0.1), velocity=(0.5, 0.1, -2.0, 1.0, 0.4, 3.0)),
    "pile": lambda: scenes.pile(2, 2),
}


@pytest.mark.parametrize("name", ["table", pytest.param("pile", marks=pytest.mark.thorough)])
def test_all_solvers_find_what_a_conic_solver_finds(name):
    h = 0.01
    expected = conic_velocity(CONIC[name](), h)
    for solver in SOLVERS:
        trajectory = run(CONIC[name](), ist.ConeComplementarity(solver=solver), h=h)
        np.testing.assert_allclose(trajectory.velocity[1], expected, rtol=0, atol=1e-8)
        assert max(np.max(v) for v in trajectory.certificate.values()) <= 1e-10


def test_accelerated_descent_solves_a_thousand_contacts():
    """A pile of 392 balls, 1064 contacts, at rest: each column carries itself."""
    side, layers, h = 7, 8, 0.005
    stepper = ist.ConeComplementarity(tolerance=1e-9)
    system, state = jax.tree.map(jnp.asarray, scenes.pile(side, layers).build())
    # a run certifies 128 steps at once
    step = jit(stepper.step)(system, state, begin(stepper, system, state), h)
    certificate = jit(stepper.certificate)(system, state, step.state, step.contacts, h)
    assert max(float(jnp.max(violation)) for violation in certificate.values()) <= 1e-6
    assert step.result == ist.Result.SOLVED
    assert len(system.contact_names) == 1064
    assert step.stats.residual <= 1e-9
    assert np.abs(step.state.velocity).max() <= 1e-8
    below = {pair[1]: p for pair, p in zip(system.contact_names, step.contacts.normal_impulse, strict=True)
             if pair[0] == "plane"}  # fmt: skip
    np.testing.assert_allclose(list(below.values()), layers * G * h, rtol=1e-6)


# --- what the method does with overlap, speed and redundancy
# ---------------------------------------------


def test_overlap_is_undone_in_one_step_or_at_the_speed_allowed():
    scene = scenes.block(speed=0.0, gap=-1e-3)
    free = run(scene, h=1e-3)
    assert free.velocity[1, 0, 2] == pytest.approx(1.0, abs=1e-10)
    assert free.kinetic_energy()[1] == pytest.approx(0.5, abs=1e-9)  # out of nothing
    capped = run(scene, ist.ConeComplementarity(recovery_speed=0.2), h=1e-3, duration=0.01)
    assert capped.velocity[1, 0, 2] == pytest.approx(0.2, abs=1e-10)
    np.testing.assert_allclose(capped.contacts.gap[:5, 0], -1e-3 + 2e-4 * np.arange(1, 6), atol=1e-12)


def test_a_fast_sphere_is_caught_when_delta_spans_its_step():
    v, h = 50.0, 0.01
    scene = ist.Scene(gravity=(0, 0, 0), length_scale=1.0, acceleration_scale=G)
    falls = (0, 0, -v, 0, 0, 0)
    ball = scene.add_body(name="ball", shape=shapes.Sphere(0.1), mass=1.0, position=(0, 0, 0.4), velocity=falls)
    scene.add_contact(ball, scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1))))
    caught = run(scene, ist.ConeComplementarity(delta=v * h), h=h, duration=0.05)
    assert caught.contacts.gap.min() >= -1e-12
    missed = run(scene, ist.ConeComplementarity(delta=0.25), h=h)
    assert missed.contacts.gap[0, 0] == pytest.approx(0.3 - v * h, abs=1e-12)


def test_redundant_feet_share_an_eccentric_load_with_minimum_norm():
    """Frictionless, on four feet: the velocity is unique, impulses are those of least norm, from
    the pseudo-inverse."""
    h = 0.01
    trajectory = run(table(0.0, wrench=(0, 0, 0, 2.0, 3.0, 0)), h=h, duration=0.1)
    feet = trajectory.contacts.normal_impulse[:, :4]
    balance = np.stack([np.ones(4), FEET[:, 1], -FEET[:, 0]])  # force, and moments about x and y
    expected = np.linalg.pinv(balance) @ np.array([2 * G * h, -2.0 * h, -3.0 * h])
    np.testing.assert_allclose(feet, np.broadcast_to(expected, feet.shape), atol=1e-10)
    assert np.abs(trajectory.velocity).max() <= 1e-10


def test_the_scheme_is_of_first_order():
    errors = []
    # example 3 after 1 s, by an event-driven integration
    reference = np.array([0.536290658, 0.0, -0.015357387])
    for h in (0.02, 0.01, 0.005):
        errors.append(np.abs(run(scenes.two_spheres(), h=h, duration=1.0).velocity[-1, 0, :3] - reference).max())
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    np.testing.assert_allclose(orders, 1.0, atol=0.15)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"solver": "simplex"}, "`solver` = 'simplex' must be one of apgd"),
        ({"relaxed": "no"}, "`relaxed` = 'no' must be one of True, False"),
        ({"tolerance": 0.0}, "`tolerance` = 0.0"),
        ({"recovery_speed": -1.0}, "`recovery_speed` = -1.0"),
        ({"max_iterations": 0}, "`max_iterations` = 0 must be a positive integer"),
    ],
)
def test_bad_settings_are_refused(keywords, message):
    with pytest.raises(ValueError, match=message):
        ist.ConeComplementarity(**keywords)


@pytest.mark.parametrize("method", list(GRADIENT_METHODS.values()), ids=list(GRADIENT_METHODS))
def test_contacts_whose_unit_impulses_cancel_are_solved(method):
    """A particle between two lines, pressed against the first by a speed of 1: N 1 = 0, which says
    nothing of the eigenvalues of N."""
    across = jnp.array([[1.0, 0.0], [-1.0, 0.0]])

    def product(gamma):
        return across * jnp.sum(across * gamma)

    found = jax.jit(lambda: method(product, -across, jnp.full(2, 0.3), jnp.zeros((2, 2)), 1e-12, 1000))()
    assert found.converged
    assert float(found.gamma[0, 0] - found.gamma[1, 0]) == pytest.approx(1, abs=1e-11)
    assert float(jnp.min(found.gamma[:, 0])) >= 0


def test_a_heavy_body_that_its_contact_carries_from_afar_is_noticed_beside_a_light_one():
    """10^6 kg hover 1 mm above the floor, by their weight's impulse; beside them falls 1 mg."""
    scene, h, stepper = ist.Scene(), 0.01, ist.ConeComplementarity()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    heavy = scene.add_body(name="heavy", shape=shapes.Sphere(0.5), mass=1e6, position=(0, 0, 0.501))
    scene.add_body(name="light", shape=shapes.Sphere(0.5), mass=1e-6, position=(3, 0, 2))
    scene.add_contact(floor, heavy, friction=0.3)
    system, before = jax.tree.map(jnp.asarray, scene.build())
    run = ist.simulate(scene, stepper, h=h, duration=h)  # neither arrives
    after = bodies.State(*(jnp.asarray(getattr(run, name)[1]) for name in ("time", "position", "orientation", "velocity")))
    contacts = jax.tree.map(lambda a: jnp.asarray(a[0]), run.contacts)
    assert contacts.normal_impulse[0] == 0
    hovers = dataclasses.replace(
        after, position=after.position.at[0].set(before.position[0]), velocity=after.velocity.at[0].set(0.0)
    )
    carried = dataclasses.replace(contacts, normal_impulse=jnp.array([1e6 * G * h]), gap=contacts.gap_start)
    found = jit(stepper.certificate)(system, before, hovers, carried, h)
    assert {name for name, violation in found.items() if float(jnp.max(violation)) > 1e-10} == {"complementarity"}

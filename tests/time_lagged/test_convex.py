"""The theta method and its two stages, convex contact and the NCP that it approximates, against
formulas of Castro et al."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.runtime.compilation import jit
from implicit_stepper.stepping.stepper import Stepper
from implicit_stepper.time_lagged import convex_certificate, theta_method
from implicit_stepper.time_lagged.convex_problem import Law
from implicit_stepper.time_lagged.theta_method import SCHEMES

G = 9.81


START = jit(ist.Convex().init)  # the same whatever the settings


@functools.cache
def compiled(stepper):
    return jit(stepper.step)


def run(stepper, scene, h, count):
    """Results of `count` steps, all solved, and the state before the first."""
    system, state = jax.tree.map(jnp.asarray, scene.build())
    step, memory, results, before = compiled(stepper), START(system, state), [], state
    for _ in range(count):
        results.append(step(system, before, memory, h))
        assert results[-1].result == ist.Result.SOLVED
        before, memory = results[-1].state, results[-1].memory
    return state, results


def stacked(results, name):
    return np.stack([np.asarray(getattr(r.contacts, name)[0]) for r in results])


# ---- smooth motion: rows S (6), (8)-(13) ----

W = 3.0  # [rad/s] of the oscillator


def springs(time, position, orientation, velocity):
    """Springs and dampers along the axes, none of these on x, and one that slows rotation."""
    force = -jnp.array([2 * W**2, 20.0, 80.0]) * position - jnp.array([0.0, 1.0, 2.0]) * velocity[:3]
    return jnp.concatenate([force, -0.5 * velocity[3:]])


def ball(*, gravity=(0.0, 0.0, 0.0), position=(1, 0, 0), velocity=(0,) * 6):
    scene = ist.Scene(gravity=gravity, length_scale=1.0, acceleration_scale=W**2)
    scene.add_body(
        name="ball", shape=shapes.Sphere(0.5), mass=2.0, inertia=(0.4,) * 3, position=position, velocity=velocity,
        wrench=springs,
    )  # fmt: skip
    return scene


def phase(results):
    """(x, v / W) (steps, 2)."""
    return np.array([(float(r.state.position[0, 0]), float(r.state.velocity[0, 0]) / W) for r in results])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_oscillator_has_the_amplification_and_order_of_its_scheme(scheme):
    """x'' = -W^2 x: per step |(x, v / W)| grows by sqrt(1 + W^2 h^2), stays bounded, shrinks by the
    inverse, or is kept."""
    stepper, h = ist.Convex(scheme=scheme), 0.02
    size = np.linalg.norm(phase(run(stepper, ball(), h, 400)[1]), axis=1)
    growth, steps = np.sqrt(1 + (W * h) ** 2), np.arange(1, 401)
    if scheme == "symplectic":  # x^2 + v^2 / W^2 - h x v is kept, hence the bound
        assert np.max(np.abs(size**2 - 1)) <= W * h / 2 * 1.05
    else:
        expected = {"explicit": growth**steps, "implicit": growth**-steps, "midpoint": np.ones(400)}[scheme]
        assert size / expected == pytest.approx(1, abs=1e-12)
    errors = []
    for count in (50, 100):  # to t = 1 s
        end = phase(run(stepper, ball(), 1 / count, count)[1])[-1]
        errors.append(np.linalg.norm(end - [np.cos(W), -np.sin(W)]))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2 if scheme == "midpoint" else 1, abs=0.15)


def damped(time, position, orientation, velocity):
    """A spring and a damper on position and rotation, neither of them symmetric, nor positive
    definite alone."""
    stiffness = 50.0 * jnp.array([[2.0, 0.3, 0.0], [0.1, 1.0, 0.0], [0.0, 0.0, -0.4]])
    return jnp.concatenate([-stiffness @ position - 3.0 * velocity[:3], -2.0 * orientation[1:] - 0.5 * velocity[3:]])


def spinning():
    scene = ist.Scene(length_scale=1.0)
    scene.add_body(
        name="top", shape=shapes.Sphere(0.5), mass=2.0, inertia=(0.3, 0.4, 0.5), position=(0.2, -0.1, 0.3),
        velocity=(1, -0.5, 0.3, 2, 3, 1), wrench=damped,
    )  # fmt: skip
    return scene


@pytest.mark.parametrize("scheme", SCHEMES)
def test_without_contact_the_velocity_is_that_of_the_free_motion(scheme):
    """v* of a linear spring and damper, solved by hand; the ball of equal moments has no gyroscopic
    moment."""
    h, theta, g = 0.05, SCHEMES[scheme], np.array([0, 0, -G])
    x0, v0, spin = np.array([0.2, -0.1, 0.3]), np.array([1, -0.5, 0.3]), np.array([2, 3, 1.0])
    scene = ball(gravity=g, position=x0, velocity=(*v0, *spin))
    _, (result,) = run(ist.Convex(scheme=scheme), scene, h, 1)
    k, d = np.array([2 * W**2, 20.0, 80.0]), np.array([0.0, 1.0, 2.0])
    # 2 (v - v0) = h (-k (x0 + theta_q h (theta_vq v + (1 - theta_vq) v0)) - d (theta_v v + (1 -
    # theta_v) v0) + 2 g)
    known = 2 * v0 + h * (-k * (x0 + theta.q * h * (1 - theta.vq) * v0) - d * (1 - theta.v) * v0 + 2 * np.array([0, 0, -G]))
    v = known / (2 + h**2 * theta.q * theta.vq * k + h * theta.v * d)
    turn = spin * (0.4 - h * 0.5 * (1 - theta.v)) / (0.4 + h * 0.5 * theta.v)
    assert result.state.velocity[0] == pytest.approx(np.concatenate([v, turn]), abs=1e-14)
    moved = x0 + h * (theta.vq * v + (1 - theta.vq) * v0)
    assert result.state.position[0] == pytest.approx(moved, abs=1e-14)


@pytest.mark.parametrize("scheme", ["implicit", "midpoint"])
def test_A_is_the_jacobian_up_to_first_order(scheme):
    """Proposition 1: dm/dv = A + O(h), also with gyroscopic moments and loads that are not positive
    definite."""
    system, state = jax.tree.map(jnp.asarray, spinning().build())
    theta = SCHEMES[scheme]

    @jit
    def defect(h):
        free = theta_method.free_motion(theta, system, state, h)
        J = jax.jacfwd(lambda v: theta_method.momentum_residual(theta, system, state, h, v))(free.velocity)[0, :, 0, :]
        return jnp.linalg.norm(J - free.A[0]), free.A[0], free.converged

    found = [defect(h) for h in (4e-3, 2e-3, 1e-3)]
    assert all(bool(converged) for *_, converged in found)
    sizes = np.array([float(size) for size, *_ in found])
    assert sizes[:-1] / sizes[1:] == pytest.approx(2, abs=0.1)
    for _, A, _ in found:
        assert np.array_equal(A, A.T) or np.max(np.abs(A - A.T)) <= 1e-15
        np.linalg.cholesky(np.asarray(A))


def test_A_of_a_spring_and_damper_is_written_down():
    """M + h^2 theta_q theta_vq K + h theta_v D with K = diag(2 W^2, 20, 80) and D = diag(0, 1, 2),
    .5 for the rotation."""
    h = 0.05
    system, state = jax.tree.map(jnp.asarray, ball().build())
    M = np.diag([2, 2, 2, 0.4, 0.4, 0.4])
    K, D = np.diag([2 * W**2, 20, 80, 0, 0, 0.0]), np.diag([0, 1, 2, 0.5, 0.5, 0.5])
    found = jit(lambda: [theta_method.response_matrix(t, system, state, h, state.velocity)[0] for t in SCHEMES.values()])()
    for theta, A in zip(SCHEMES.values(), found, strict=True):
        assert np.asarray(A) == pytest.approx(M + h**2 * theta.q * theta.vq * K + h * theta.v * D, abs=1e-14)


# ---- contact ----

CONVEX = ist.Convex(scheme="symplectic")


def block(*, velocity=(0.0, 0.0, 0.0), gap=0.0, mu=0.5):
    """A sphere too heavy to roll: a sliding block."""
    scene = ist.Scene(length_scale=1.0)
    body = scene.add_body(
        name="block", shape=shapes.Sphere(1.0), mass=1.0, inertia=(1e12,) * 3, position=(0, 0, 1 + gap),
        velocity=(*velocity, 0, 0, 0),
    )  # fmt: skip
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    scene.add_contact(floor, body, friction=mu)
    return scene


def test_an_open_contact_leaves_the_free_motion():
    assert isinstance(CONVEX, Stepper)
    _, (result,) = run(CONVEX, block(velocity=(1, 2, 0), gap=5.0), 0.01, 1)
    assert result.state.velocity[0] == pytest.approx([1, 2, -G * 0.01, 0, 0, 0], abs=1e-14)


def test_nothing_pulls_without_friction():
    """Friction of no axis leaves no slip to tell what sticks: a ball that flies up from the floor
    is free. The certificate sees a pull, which the cone of mu = 0 does not forbid by its sides."""
    scene = ist.Scene(dimension=2, gravity=(0, -G))
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    ball = scene.add_body(name="ball", shape=shapes.Disc(0.5), mass=1.0, position=(0, 0.5), velocity=(0, 2, 0))
    scene.add_contact(ball, floor, friction=ist.FrictionEllipsoid(mu=0.0, e_t=0.0, e_o=0.0))
    up = ist.simulate(scene, CONVEX, h=0.01, duration=0.03)
    np.testing.assert_allclose(up.velocity[:, 0, 1], 2 - G * up.time, rtol=0, atol=1e-13)
    pull, speeds, one = jnp.array([[-2.0, 0]]), jnp.array([[0.3, 0]]), jnp.ones(1)
    law = CONVEX.law(one, -0.003 * one, 0 * one, 0 * one, 0 * one, 0.01, regularised=False)
    assert convex_certificate.law_violations(speeds, pull, law, (1.0, 1.0), relaxed=True)["cone"][0] > 0.5
    cones = ist.ConeComplementarity()
    assert cones.law_violations(speeds, pull, -0.003 * one, 0 * one, (1.0, 1.0), 0.01)["cone"][0] > 0.5


def regions(u, vhat, R_n, R_t, mu):
    """The projection by brute force: the cone's point closest to R^-1 (vhat - u) in the metric
    R."""
    target = np.array([(vhat - u[0]) / R_n, *(-u[1:] / R_t)])
    size = np.linalg.norm(target[1:])
    p = np.linspace(0, 2 * np.abs(target).max() * (1 + mu), 20_001)
    y = np.minimum(size, mu * p)  # of a given p_n the closest y
    best = np.argmin(R_n * (p - target[0]) ** 2 + R_t * (y - size) ** 2)
    return np.array([p[best], *(y[best] * target[1:] / size)]), p[1]


@jit
def impulse_and_gradient(u):
    law = Law(*(jnp.array([x]) for x in (0.05, 0.3, 0.02, 0.4)))
    return law.impulses(u)[0], jax.grad(lambda u: jnp.sum(law.metric(4) * law.impulses(u) ** 2) / 2)(u)[0]


@pytest.mark.parametrize("u", [(-1.0, 1e-3, 0, 0), (-0.2, 0.5, 0.2, 0), (0.1, 0.5, 0.3, 0.1), (0.5, 0.1, 0, 0)])
def test_impulses_are_the_projection_in_the_metric_R(u):
    """Sticking, sliding, sliding while the gap opens, and open; and they are minus the gradient of
    gamma.R gamma / 2."""
    gamma, gradient = map(np.asarray, impulse_and_gradient(jnp.array([u])))
    expected, width = regions(np.array(u), 0.05, 0.3, 0.02, 0.4)
    assert gamma == pytest.approx(expected, abs=2 * width)
    assert gamma == pytest.approx(-gradient, abs=1e-12)


def test_a_sliding_block_glides():
    """The law of a sliding contact is p_n (R_n + mu^2 R_t) = -psi/h - v_n + mu |v_t|, in each step
    exactly: it glides at the gap h mu |v_t|, up to v_n = -mu^2 g h by which that falls, and m g h
    (R_n + mu^2 R_t). Rigid, R_n = (beta / 2 pi)^2 w."""
    mu = 0.5
    # J A^-1 J^T is the identity of the unit mass (the spin does not answer), divided by its 3 axes
    w = np.sqrt(3) / 3
    for h in (0.01, 0.005):
        state, results = run(CONVEX, block(velocity=(6, 0, 0), gap=h * mu * 6.0, mu=mu), h, 40)
        gap, slip, p_n = stacked(results, "gap_start"), stacked(results, "slip")[:, 0], stacked(results, "normal_impulse")
        v_n = np.array([r.state.velocity[0, 2] for r in results])
        assert gap == pytest.approx(h * (mu * slip - v_n - p_n * (w / (2 * np.pi) ** 2 + mu**2 * 1e-3 * w)), abs=1e-12)
        assert abs(gap[-1] / (h * mu * slip[-1]) - 1) <= mu * G * h / slip[-1]
        assert CONVEX.predicted_gap(results[-1].contacts, mu, h)[0] == pytest.approx(h * mu * slip[-1], rel=1e-12)
        assert stacked(results, "friction_impulse")[:, 0] == pytest.approx(-mu * p_n, rel=1e-12)


# ---- a wheel on a spring ----

STIFFNESS, LENGTH, ANCHOR = 40.0, 1.0, np.array([0.0, 0.0, 3.0])


def tether(time, position, orientation, velocity):
    """A spring of rest length 1 m from the anchor to the centre: its pull is not linear in the
    position."""
    arm = position - ANCHOR
    size = jnp.linalg.norm(arm)
    return jnp.concatenate([-STIFFNESS * (size - LENGTH) / size * arm, jnp.zeros(3)])


def wheel(*, velocity=(0.0, 0.0, 0.0), mu=1.0):
    scene = ist.Scene(gravity=(0, 0, -60.0), length_scale=1.0)
    ball = scene.add_body(
        name="wheel", shape=shapes.Sphere(1.0), mass=1.0, inertia=(0.5,) * 3, position=(1.5, 0, 1),
        velocity=(*velocity, 0, 0, 0), wrench=tether,
    )  # fmt: skip
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    scene.add_contact(floor, ball, friction=mu)
    return scene


WHEELS = {scheme: ist.Convex(scheme=scheme, approximation="ncp") for scheme in ("implicit", "midpoint")}


def energy(state):
    v, x = np.asarray(state.velocity[0]), np.asarray(state.position[0])
    stretch = np.linalg.norm(x - ANCHOR) - LENGTH
    return (v[:3] @ v[:3] + 0.5 * v[3:] @ v[3:] + STIFFNESS * stretch**2) / 2 + 60.0 * x[2]


def test_rolling_on_a_spring_midpoint_dissipates_an_order_less():
    """The spring-cylinder, rolled to and fro without slip: implicit Euler loses energy in
    proportion to h, the midpoint rule changes it by h^2 at most."""
    orders, changes = {}, {}
    for scheme, stepper in WHEELS.items():
        errors = []
        for count in (50, 100):  # to t = 1 s
            state, results = run(stepper, wheel(), 1.0 / count, count)
            assert np.max(stacked(results, "sigma")) <= 1e-10
            assert np.min(stacked(results, "normal_impulse")) > 0
            errors.append(energy(results[-1].state) - energy(state))
        orders[scheme], changes[scheme] = np.log2(errors[0] / errors[1]), errors[-1]
    assert orders["implicit"] == pytest.approx(1, abs=0.15)
    assert orders["midpoint"] == pytest.approx(2, abs=0.1)
    assert changes["implicit"] < 0
    assert abs(changes["midpoint"]) <= abs(changes["implicit"]) / 1000


def test_the_ncp_has_no_glide_and_the_multiplier_is_the_slip_speed():
    """S (5) on a wheel thrown sideways: mu p_n v_t + lambda p_t = 0 and 0 <= lambda _|_ mu p_n -
    |p_t| >= 0, lambda being |v_t| while it slides and zero once it rolls. The convex contact would
    glide at h mu |v_t| = 4 cm, the NCP's gap is 0."""
    mu, h = 2.0, 0.005
    _, results = run(WHEELS["implicit"], wheel(velocity=(2, 4, 0), mu=mu), h, 40)
    p_n, p_t, v_t = (stacked(results, name) for name in ("normal_impulse", "friction_impulse", "slip"))
    p_t, v_t, speed = p_t[:, :2], v_t[:, :2], np.linalg.norm(v_t[:, :2], axis=1)
    assert np.max(np.abs(stacked(results, "gap"))) <= 1e-12
    assert speed[0] > 3
    assert speed[-1] <= 1e-10
    multiplier = -mu * p_n * np.sum(v_t * p_t, axis=1) / np.sum(p_t**2, axis=1)
    assert multiplier == pytest.approx(speed, abs=1e-10)
    assert stacked(results, "sigma") == pytest.approx(speed, abs=1e-10)
    room = mu * p_n - np.linalg.norm(p_t, axis=1)
    assert np.min(room) >= -1e-11
    assert np.max(np.abs(multiplier * room)) <= 1e-11
    assert np.max(np.abs(mu * p_n * v_t.T + multiplier * p_t.T)) <= 1e-11


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("scheme", "leapfrog"),
        ("approximation", "lcp"),
        ("sigma_s", 0.0),
        ("beta", -1.0),
        ("tolerance", 0),
        ("max_iterations", 0),
    ],
)
def test_bad_settings_are_refused(name, value):
    with pytest.raises(ValueError, match=f"`{name}`"):
        ist.Convex(**{name: value})


def test_fast_bodies_fly_in_short_steps_for_all_that_rounding_leaves_of_their_momenta():
    """At 600 m/s velocities are known to 1e-13 m/s, a billionth of what weight adds in 10 us."""
    scene, h = ist.Scene(), 1e-5
    scene.add_body(name="ball", shape=shapes.Sphere(0.1), mass=1.0, position=(0, 0, 1), velocity=(500, 0, 600, 0, 0, 0))
    trajectory = ist.simulate(scene, ist.Convex(), h=h, duration=5 * h)
    t = trajectory.time[-1]
    expected = (500 * t, 0, 1 + 600 * t - 9.81 * t**2 / 2)
    np.testing.assert_allclose(trajectory.position[-1, 0], expected, rtol=0, atol=1e-14)

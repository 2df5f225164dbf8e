"""Rotations against scipy's, momentum against numpy, and a free body whose angular momentum is
conserved exactly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import shapes
from implicit_stepper import GeometricallyImplicit, Scene, simulate
from implicit_stepper.constraints import certificate_mechanics
from implicit_stepper.model import bodies, rotation

EPS = np.finfo(float).eps
QUATERNION = np.array([0.5, -0.1, 0.7, 0.2]) / np.linalg.norm([0.5, -0.1, 0.7, 0.2])
AXIS = np.array([2.0, -1.0, 0.5]) / np.linalg.norm([2.0, -1.0, 0.5])
# half the angle at which `advance` goes over from a series to sin and cos is sqrt(1e-5)
ANGLES = [0.0, 1e-300, 1e-160, 1e-12, 1e-6, 1e-3, 6.3e-3, 6.33e-3, 0.1, 1.0, np.pi, 3.5, 2 * np.pi, 10.0, 1000.0]


def scipy_rotation(quaternion):
    """scipy has w last."""
    return Rotation.from_quat(np.roll(quaternion, -1))


def test_matrix_matches_scipy():
    expected = scipy_rotation(QUATERNION).as_matrix()
    np.testing.assert_allclose(rotation.matrix(jnp.asarray(QUATERNION)), expected, rtol=0, atol=4 * EPS)


@pytest.mark.parametrize("angle", ANGLES)
def test_advance_is_the_exponential_map_applied_in_the_inertial_frame(angle):
    turned = np.asarray(rotation.advance(jnp.asarray(QUATERNION), jnp.asarray(angle * AXIS)))
    np.testing.assert_allclose(np.linalg.norm(turned), 1.0, rtol=0, atol=4 * EPS)
    expected = Rotation.from_rotvec(angle * AXIS) * scipy_rotation(QUATERNION)
    # rounding of the angle itself turns by eps * angle
    np.testing.assert_allclose(rotation.matrix(turned), expected.as_matrix(), rtol=0, atol=EPS * (8 + angle))


@pytest.mark.parametrize("angle", ANGLES)
def test_angular_velocity_is_that_of_the_second_writing(angle):
    """The series and the closed form agree with Rodrigues' parts along the axis and across it, to
    rounding of the angle, and of (1 - cos(angle)) / angle beyond the series, from 3.2e-3 on."""
    turn, rate = jnp.asarray(angle * AXIS), jnp.array([0.3, 0.7, -0.4])
    expected = certificate_mechanics.spin(turn, rate)
    atol = EPS * (8 + angle + 1 / max(angle, 3.2e-3))
    np.testing.assert_allclose(rotation.angular_velocity(turn, rate), expected, rtol=0, atol=atol)


@pytest.mark.parametrize("angle", [1e-3, 6.3e-3, 6.33e-3, 0.1, 0.19, 1.0, 3.5])
def test_derivatives_of_advance_are_those_of_sine_and_cosine(angle):
    """Along the axis, where the half angle is all that changes: to round-off on both sides of the
    series' end."""
    identity = jnp.array([1.0, 0.0, 0.0, 0.0])
    _, slope = jax.jvp(lambda turn: rotation.advance(identity, turn), (jnp.asarray(angle * AXIS),), (jnp.asarray(AXIS),))
    expected = np.append(-np.sin(angle / 2) / 2, np.cos(angle / 2) / 2 * AXIS)
    np.testing.assert_allclose(slope, expected, rtol=0, atol=4 * EPS)


def test_unit_takes_back_what_rounding_adds():
    np.testing.assert_allclose(rotation.unit(jnp.asarray((1 + 1e-12) * QUATERNION)), QUATERNION, rtol=0, atol=EPS)
    np.testing.assert_array_equal(rotation.unit(jnp.array([7.3])), [7.3])


def test_planar_advance_adds_angles():
    np.testing.assert_array_equal(rotation.advance(jnp.array([0.3]), jnp.array([7.0])), [7.3])
    c, s = np.cos(0.3), np.sin(0.3)
    np.testing.assert_allclose(rotation.matrix(jnp.array([0.3])), [[c, -s], [s, c]], rtol=EPS)


@pytest.mark.parametrize("angle", ANGLES[:-3])
def test_derivative_of_advance_matches_finite_differences(angle):
    """Fourth-order differences of width 1e-3 of scipy's map: 1e-12 / 30 times fifth derivatives
    below 1, and eps / 1e-3."""
    width, found = 1e-3, np.asarray(jax.jacfwd(rotation.advance, 1)(jnp.asarray(QUATERNION), jnp.asarray(angle * AXIS)))

    def turned(i, t):
        product = Rotation.from_rotvec(angle * AXIS + t * np.eye(3)[i]) * scipy_rotation(QUATERNION)
        quaternion = np.roll(product.as_quat(), 1)
        reference = np.roll((Rotation.from_rotvec(angle * AXIS) * scipy_rotation(QUATERNION)).as_quat(), 1)
        return quaternion * np.sign(quaternion @ reference)

    sign = np.sign(turned(0, 0.0) @ np.asarray(rotation.advance(jnp.asarray(QUATERNION), jnp.asarray(angle * AXIS))))
    for i in range(3):
        slope = 8 * (turned(i, width) - turned(i, -width)) - (turned(i, 2 * width) - turned(i, -2 * width))
        np.testing.assert_allclose(found[:, i], sign * slope / (12 * width), rtol=0, atol=1e-12)


def test_derivatives_of_advance_through_zero_are_exact():
    """d/dturn of exp(turn) q at 0 is the product of half the unit vectors with q; the second is
    -|turn|^2 / 8 q."""
    first = jax.jacfwd(rotation.advance, 1)(jnp.asarray(QUATERNION), jnp.zeros(3))
    for i, e in enumerate(np.eye(3)):
        half = jnp.concatenate([jnp.zeros(1), e / 2])
        np.testing.assert_array_equal(first[:, i], rotation.multiply(half, jnp.asarray(QUATERNION)))
    second = jax.jacfwd(jax.jacfwd(rotation.advance, 1), 1)(jnp.asarray(QUATERNION), jnp.zeros(3))
    np.testing.assert_allclose(second, -QUATERNION[:, None, None] * np.eye(3) / 4, rtol=0, atol=EPS)


def test_product_matches_scipy():
    p = np.array([0.1, 0.2, -0.3, 0.9]) / np.linalg.norm([0.1, 0.2, -0.3, 0.9])
    expected = np.roll((scipy_rotation(p) * scipy_rotation(QUATERNION)).as_quat(), 1)
    found = np.asarray(rotation.multiply(jnp.asarray(p), jnp.asarray(QUATERNION)))
    np.testing.assert_allclose(found, expected * np.sign(expected @ found), rtol=0, atol=4 * EPS)


def test_moment_and_point_velocity_are_transposes():
    """force . (omega x r) = omega . (r x force), in space and in the plane."""
    rng = np.random.default_rng(0)
    for d, spins in ((3, 3), (2, 1)):
        r, force, velocity = rng.normal(size=d), rng.normal(size=d), rng.normal(size=d + spins)
        power = force @ np.asarray(rotation.point_velocity(jnp.asarray(velocity), jnp.asarray(r)))
        torque = np.asarray(rotation.moment(jnp.asarray(r), jnp.asarray(force)))
        np.testing.assert_allclose(power, velocity[:d] @ force + velocity[d:] @ torque, rtol=1e-14)
        assert torque.shape == (spins,)
    np.testing.assert_array_equal(rotation.moment(jnp.array([1.0, 0.0]), jnp.array([0.0, 2.0])), [2.0])


def test_momentum_is_that_of_newton_and_euler():
    inertia, velocity = np.diag([1.0, 2.0, 2.5]) + 0.1, np.array([1.0, -2.0, 0.5, 0.3, 4.0, -1.0])
    R = scipy_rotation(QUATERNION).as_matrix()
    found = bodies.momentum(3.0, jnp.asarray(inertia), jnp.asarray(QUATERNION), jnp.asarray(velocity))
    np.testing.assert_allclose(found[:3], 3.0 * velocity[:3], rtol=EPS)
    np.testing.assert_allclose(found[3:], R @ inertia @ R.T @ velocity[3:], rtol=0, atol=40 * EPS)


def test_planar_momentum():
    found = bodies.momentum(3.0, jnp.array([[0.5]]), jnp.array([0.7]), jnp.array([1.0, -2.0, 4.0]))
    np.testing.assert_array_equal(found, [3.0, -6.0, 2.0])


# --- a free body ---------------------------------------------------------------------------------

PRINCIPAL = np.array([1.0, 2.0, 2.6])


def spinning(inertia, spin, *, gravity=(0.0, 0.0, 0.0), steps=300):
    """A body without contacts, thrown with a spin [rad/s], after steps of 0.01 s."""
    scene = Scene(gravity=gravity)
    scene.add_body(
        name="stone",
        shape=shapes.Ellipsoid((0.5, 0.4, 0.3)),
        position=[0.0, 0.0, 0.0],
        quaternion=QUATERNION,
        mass=2.0,
        inertia=inertia,
        velocity=[3.0, 0.0, 4.0, *spin],
    )
    return simulate(scene, GeometricallyImplicit(), h=0.01, duration=0.01 * steps)


def angular_momentum(trajectory):
    """World frame (n + 1, 3), by scipy."""
    out = []
    for quaternion, velocity in zip(trajectory.quaternion[:, 0], trajectory.velocity[:, 0], strict=True):
        R = scipy_rotation(quaternion).as_matrix()
        out.append(R @ trajectory.inertia[0] @ R.T @ velocity[3:])
    return np.array(out)


@pytest.fixture(scope="module")
def tumbling():
    """60 rad/s about no principal axis, 0.6 rad a step."""
    return spinning(PRINCIPAL, 60 * AXIS)


def test_free_body_conserves_angular_momentum(tumbling):
    L = angular_momentum(tumbling)
    # the solver's 1e-12 of m a h r, where a scene without loads has a = omega^2 r and r is the
    # radius of gyration
    r, spin = np.sqrt(np.trace(tumbling.inertia[0]) / tumbling.mass[0]), np.linalg.norm(tumbling.velocity[0, 0, 3:])
    allowed = 1e-12 * tumbling.mass[0] * (spin**2 * r) * tumbling.h * r
    assert np.max(np.abs(np.diff(L, axis=0))) <= allowed
    assert np.max(np.abs(L - L[0])) <= allowed * len(tumbling)


def test_free_body_keeps_its_energy_within_what_its_momentum_allows(tumbling):
    """L.I^-1 L / 2 lies between |L|^2 / (2 I_max) and |L|^2 / (2 I_min) in any orientation: nothing
    blows up."""
    squared = np.sum(angular_momentum(tumbling)[0] ** 2)
    spin_energy = tumbling.kinetic_energy() - 2.0 * 5.0**2 / 2
    assert np.all(spin_energy >= squared / (2 * PRINCIPAL[2]) * (1 - 1e-9))
    assert np.all(spin_energy <= squared / (2 * PRINCIPAL[0]) * (1 + 1e-9))
    np.testing.assert_allclose(np.linalg.norm(tumbling.quaternion, axis=-1), 1.0, rtol=0, atol=4 * EPS)


def test_spin_about_a_principal_axis_is_steady():
    R = scipy_rotation(QUATERNION).as_matrix()
    trajectory = spinning(PRINCIPAL, 60 * R[:, 2], steps=50)
    # the axis of most inertia: what rounding adds cannot grow, and each of 50 steps may add the
    # solver's tolerance
    np.testing.assert_allclose(trajectory.velocity[:, 0, 3:], np.tile(60 * R[:, 2], (51, 1)), rtol=0, atol=60 * 50 * 1e-12)
    turned = scipy_rotation(trajectory.quaternion[-1, 0]) * scipy_rotation(QUATERNION).inv()
    expected = Rotation.from_rotvec(60 * R[:, 2] * 0.5)
    assert (turned * expected.inv()).magnitude() <= 1e-9


def test_free_fall_is_implicit_euler():
    """v_n = v_0 + n h g and x_n = x_0 + n h v_0 + n (n + 1) / 2 h^2 g."""
    gravity, n = np.array([0.3, 0.0, -9.81]), np.arange(101)[:, None]
    trajectory = spinning(PRINCIPAL, np.zeros(3), gravity=gravity, steps=100)
    start = np.array([3.0, 0.0, 4.0])
    np.testing.assert_allclose(trajectory.velocity[:, 0, :3], start + n * 0.01 * gravity, rtol=0, atol=1e-12)
    expected = n * 0.01 * start + n * (n + 1) / 2 * 1e-4 * gravity
    np.testing.assert_allclose(trajectory.position[:, 0], expected, rtol=0, atol=1e-12)

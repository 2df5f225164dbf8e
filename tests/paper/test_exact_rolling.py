"""The exact motions on a plane against Newton's and Euler's laws, the geometry of their bodies, and
closed forms.

The laws are checked on positions, quaternions, velocities and forces alone, by differences in time;
the bodies by their inequalities, of which the module under test knows nothing.
"""

import dataclasses

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.spatial.transform import Rotation

import implicit_stepper as ist
from implicit_stepper.paper import comparisons, exact_rolling

G = 9.81
MOTIONS = {
    "ellipsoid": exact_rolling.wobbling_ellipsoid,
    "ellipsoid on ice": lambda: exact_rolling.wobbling_ellipsoid(rolls=False),
    "superquadric": exact_rolling.tumbling_superquadric,
}
# semi-axes [m], exponent
BODIES = {"ellipsoid": ((0.5, 0.4, 0.3), 2.0), "superquadric": ((0.4, 0.35, 0.3), 4.0)}
BALL = exact_rolling.Ball(radius=0.5, mu=0.3, position=(0.0, 0.0, 0.5), velocity=(0.0,) * 6)


@pytest.fixture(params=MOTIONS)
def motion(request):
    """A body's name, and its motion."""
    return request.param.split()[0], MOTIONS[request.param]()


def close(actual, expected, atol):
    """Equal to an absolute tolerance alone."""
    np.testing.assert_allclose(actual, expected, rtol=0.0, atol=atol)


def derivative(function, time, width=2e-3):
    """Of a vector function of time (n,), by seven points: error O(width^6)."""
    near, middle, far = (function(time + k * width) - function(time - k * width) for k in (1, 2, 3))
    return (45.0 * near - 9.0 * middle + far) / (60.0 * width)


def matrices(states):
    """Rotations (n, 3, 3) from body to inertial axes."""
    return Rotation.from_quat(states.quaternion[:, [1, 2, 3, 0]]).as_matrix()


def times(motion):
    return np.linspace(0.01, motion.duration - 0.01, 60)


def in_body(states, vectors):
    return np.einsum("tji,tj->ti", matrices(states), vectors)


def test_energy_is_constant(motion):
    states = motion[1].at(np.linspace(0.0, motion[1].duration, 500))
    assert np.ptp(states.energy) <= 2e-12  # [J], of 4 to 6
    close(np.linalg.norm(states.quaternion, axis=1), 1.0, 1e-13)


def test_another_integrator_and_another_tolerance_agree(motion):
    solution, time = motion[1], np.linspace(0.0, motion[1].duration, 50)
    states = solution.at(time)
    start = states.quaternion[0], states.velocity[0, 3:], solution.duration
    for settings in (dict(method="RK45"), dict(relative=1e-13, absolute=1e-13)):
        other = exact_rolling.move(solution.solid, *start, rolls=solution.rolls, **settings).at(time)
        close(other.position, states.position, 1e-12)
        close(other.velocity, states.velocity, 1e-11)
        close(other.force, states.force, 1e-11)


def test_newton_and_euler_hold(motion):
    """Differences of the positions and momenta; the mean of (x/a)^2 in a body is found by
    quadrature."""
    name, solution = motion
    axes, p = BODIES[name]
    slices = lambda x, power: x**power * (1.0 - x**p) ** (2.0 / p)  # noqa: E731  (areas across x, up to a factor)
    square = np.array(axes) ** 2 * quad(slices, 0.0, 1.0, args=(2,))[0] / quad(slices, 0.0, 1.0, args=(0,))[0]
    inertia = np.sum(square) - square
    time = times(solution)
    states = solution.at(time)
    close(derivative(lambda t: solution.at(t).position, time), states.velocity[:, :3], 1e-9)
    close(derivative(lambda t: solution.at(t).velocity[:, :3], time), states.force - [0.0, 0.0, G], 3e-8)

    def momentum(t):
        s = solution.at(t)
        return np.einsum("tij,j,tj->ti", matrices(s), inertia, in_body(s, s.velocity[:, 3:]))

    close(derivative(momentum, time), np.cross(states.arm, states.force), 3e-8)
    turned = derivative(lambda t: matrices(solution.at(t)), time) @ np.swapaxes(matrices(states), 1, 2)
    close(turned[:, [2, 0, 1], [1, 2, 0]], states.velocity[:, 3:], 1e-8)  # R' R^T is omega x


def test_the_contact_point_is_the_lowest_of_the_body(motion):
    """It is on the surface, where the gradient of the body's inequality points down."""
    name, solution = motion
    axes, p = BODIES[name]
    states = solution.at(times(solution))
    scaled = in_body(states, states.arm) / axes
    close(np.sum(np.abs(scaled) ** p, axis=1), 1.0, 1e-14)
    gradient = np.sign(scaled) * np.abs(scaled) ** (p - 1.0) / axes
    gradient /= np.linalg.norm(gradient, axis=1, keepdims=True)
    close(np.einsum("tij,tj->ti", matrices(states), gradient), np.tile([0.0, 0.0, -1.0], (60, 1)), 1e-14)
    close(states.position[:, 2] + states.arm[:, 2], 0.0, 1e-15)


def test_bodies_roll_within_their_friction_or_feel_none(motion):
    solution = motion[1]
    states = solution.at(np.linspace(0.0, solution.duration, 500))
    slip = states.velocity[:, :3] + np.cross(states.velocity[:, 3:], states.arm)
    assert np.min(states.force[:, 2]) > 6.9
    close(slip[:, 2], 0.0, 1e-14)
    if solution.rolls:
        close(slip, 0.0, 1e-14)
        assert np.max(np.linalg.norm(states.force[:, :2], axis=1) / states.force[:, 2]) < 0.3  # mu that it takes
    else:
        assert not np.any(states.force[:, :2])


def test_a_sphere_rolls_on_at_its_speed():
    for solid in (exact_rolling.ellipsoid((0.3,) * 3, 2.0), exact_rolling.superquadric((0.3,) * 3, 2.0, 2.0)):
        close(solid.inertia, 0.4 * 2.0 * 0.3**2, 1e-15)
        states = exact_rolling.move(solid, (1.0, 2.0, 3.0, 4.0), (1.0, 2.0, 3.0), 1.0).at(time := np.linspace(0.0, 1.0, 9))
        close(states.velocity, np.tile([0.6, -0.3, 0.0, 1.0, 2.0, 3.0], (9, 1)), 1e-13)
        close(states.position, np.column_stack([0.6 * time, -0.3 * time, np.full(9, 0.3)]), 1e-13)
        close(states.force, np.tile([0.0, 0.0, 2.0 * G], (9, 1)), 1e-12)


def test_a_body_that_would_lift_off_and_a_time_beyond_the_end_are_refused():
    solid = exact_rolling.ellipsoid((0.5, 0.4, 0.3), 1.0)
    with pytest.raises(RuntimeError, match="lifts off"):
        exact_rolling.move(solid, (0.9, 0.3, 0.2, 0.1), (8.0, 9.0, 3.0), 1.0)
    with pytest.raises(ValueError, match=r"0 to 2\.0 s"):
        exact_rolling.wobbling_ellipsoid().at([2.1])


def test_a_ball_that_slides_at_first_rolls_at_five_sevenths():
    motion = exact_rolling.land(dataclasses.replace(BALL, velocity=(3.0, 4.0, 0.0, 0.0, 0.0, 2.0)))
    assert (motion.lands, motion.kick) == (0.0, 0.0)
    assert motion.rolls == pytest.approx(2.0 * 5.0 / (7.0 * 0.3 * G), rel=1e-15)
    _, velocity = motion.at([motion.rolls, 5.0])
    close(velocity, np.tile([15 / 7, 20 / 7, 0.0, -40 / 7, 30 / 7, 2.0], (2, 1)), 1e-14)


@pytest.mark.parametrize(("mu", "rolls_at_once"), [(0.3, False), (0.8, True), (0.0, False)])
def test_a_ball_lands_without_a_bounce(mu, rolls_at_once):
    """Its angular momentum about points of the plane stays, as does its spin about the normal;
    friction keeps its law."""
    thrown = dataclasses.replace(BALL, mu=mu, position=(0.0, 0.0, 1.0), velocity=(4.0, -2.0, 1.5, 2.0, -3.0, 5.0))
    motion = exact_rolling.land(thrown)
    before, after = motion.at([motion.lands - 1e-9])[1][0], motion.at([motion.lands])[1][0]
    close(motion.at([motion.lands])[0][0, 2], 0.5, 1e-15)
    assert after[2] == 0.0
    for velocity in (after, motion.at([3.0])[1][0]):
        about = lambda v: 0.5 * np.array([-v[1], v[0]]) + 0.4 * 0.5**2 * v[3:5]  # noqa: E731
        close(about(velocity), about(before), 1e-14)
        assert velocity[5] == 5.0
    slip = lambda v: v[:2] + 0.5 * np.array([-v[4], v[3]])  # noqa: E731
    friction = np.linalg.norm(after[:2] - before[:2])
    assert friction <= -mu * before[2] + 1e-8
    assert rolls_at_once == (motion.rolls == motion.lands) == bool(np.allclose(slip(after), 0.0, rtol=0.0, atol=1e-14))
    assert rolls_at_once or friction == pytest.approx(-mu * before[2], abs=1e-8)
    close(slip(after)[0] * slip(before)[1], slip(after)[1] * slip(before)[0], 1e-13)
    if mu > 0.0:
        close(slip(motion.at([3.0])[1][0]), 0.0, 1e-14)


def test_the_balls_positions_are_integrals_of_its_velocities():
    motion = exact_rolling.landing_ball()
    assert 0.31 < motion.lands < 0.32 < 0.62 < motion.rolls < 0.63
    time = np.array([0.1, 0.25, 0.35, 0.5, 0.6, 0.7, 1.1])
    close(derivative(lambda t: motion.at(t)[0], time), motion.at(time)[1][:, :3], 1e-12)
    sliding = derivative(lambda t: motion.at(t)[1], np.array([0.5]))[0]
    assert np.linalg.norm(sliding[:2]) == pytest.approx(0.2 * G, rel=1e-11)
    for event in (motion.lands, motion.rolls):
        close(motion.at([event - 1e-12])[0], motion.at([event])[0], 1e-11)


def test_a_time_stepper_converges_to_the_rolling_ellipsoid_at_first_order():
    case = comparisons.CASES["ellipsoid"]
    steppers = {"implicit": comparisons.METHODS["implicit"]}
    found = ist.compare(case.scene(), steppers, (0.01, 0.005, 0.0025), case.reference, duration=0.5, progress=False)
    assert found.entries[-1].order == pytest.approx(1.0, abs=0.05)
    assert found.entries[-1].error < 5e-3

"""The exact solutions against numbers derived separately, Newton's law and the friction law.

Everything about example 3 is checked from its public positions, velocities and forces alone; the
equations below are written without the contact frames and maps of the module. Source: the paper,
section V.
"""

import itertools

import numpy as np
import pytest

from implicit_stepper.paper import exact

CENTRES, REACHES = np.array([[0.0, 0.0, 0.0], [0.0, 11.4, 0.0]]), np.array([11.0, 10.0])
FORCE, INERTIA, MU, E_R = np.array([1.0, 2.6, -9.81]), 0.4, 0.2, 0.3


@pytest.fixture(scope="module")
def solution():
    return exact.two_spheres(4.0)


def normals(states):
    """Unit vectors (n, 2, 3) from the fixed spheres to the small one."""
    arms = states.position[:, None, :] - CENTRES
    return arms / np.linalg.norm(arms, axis=2, keepdims=True)


def slips(states):
    """Slip velocity (n, 2, 3) [m/s] of the sphere's points at -n, and spin (n, 2) [rad/s] about
    n."""
    n, v, omega = normals(states), states.velocity[:, None, :3], states.velocity[:, None, 3:]
    return v + np.cross(omega, -n), np.sum(omega * n, axis=2)


def weighted_slips(states):
    """Lengths (n, 2) [m/s] of slips with their axes, of which friction is the dual."""
    u, spin = slips(states)
    return np.hypot(np.linalg.norm(u, axis=2), E_R * spin)


def derivative(function, time, width):
    """Five-point derivative of a vector function of time (n,): error O(width^4)."""
    near, far = (function(time + k * width) - function(time - k * width) for k in (1, 2))
    return (8.0 * near - far) / (12.0 * width)


def close(actual, expected, atol):
    """Equal to an absolute tolerance alone."""
    np.testing.assert_allclose(actual, expected, rtol=0.0, atol=atol)


def dot(a, b):
    return np.sum(a * b, axis=-1)


def test_rolling_disc_rolls_for_ever():
    time = np.linspace(0.5, 100.0, 50)
    disc = exact.rolling_disc(time)
    assert disc.position.shape == (50, 2)
    assert disc.velocity.shape == (50, 3)
    assert np.all(disc.kinetic_energy == 6.75)
    # impulse of a step of 0.01 s
    np.testing.assert_allclose(disc.normal_force * 0.01, 0.0981, rtol=1e-15)
    # no slip
    np.testing.assert_array_equal(disc.velocity[:, 0] + disc.velocity[:, 2] * disc.position[:, 1], 0.0)
    pose = lambda t: np.column_stack([exact.rolling_disc(t).position, exact.rolling_disc(t).angle])  # noqa: E731
    rate = derivative(pose, time, 0.1)
    close(rate, disc.velocity, 1e-11)
    start = exact.rolling_disc([0.0])
    np.testing.assert_array_equal(np.hstack([start.position[0], start.angle]), [0.0, 1.0, 0.0])


def test_spinning_sphere_stops_at_one_second():
    time = np.array([0.1, 0.5, 0.9, 1.1, 2.0])
    sphere = exact.spinning_sphere(time)
    np.testing.assert_allclose(sphere.torque, [0.7848, 0.7848, 0.7848, 0.0, 0.0], rtol=1e-15)
    slope = derivative(lambda t: exact.spinning_sphere(t).spin, time, 0.01)
    close(INERTIA * slope, -sphere.torque, 1e-13)
    np.testing.assert_array_equal(exact.spinning_sphere([0.0, 1.0]).spin, [1.962, 0.0])
    # after 14 steps of 0.07 s
    np.testing.assert_allclose(exact.spinning_sphere([0.98]).spin, 0.03924, rtol=1e-13)


def test_start_touches_both_spheres(solution):
    close(solution.at([0.0]).position[0], [0.0, 6.62105263157895, 8.78417110772903], 5e-15)
    assert not np.any(solution.at([0.0]).velocity)


def test_forces_at_the_start_by_hand(solution):
    """At rest the push along x can move the sphere along x only, rolling on sphere 2 with omega =
    n_2 x v.

    With g the angle between the normals, the slip at contact 1 per unit of v is (1 - cos g, sin g)
    (along x, spin). No friction lies in the plane of the normals, so the normal forces balance the
    rest of the applied force there; and the power of the motion is (m + I) a = 1 - mu N_1 |(1 - cos
    g, e_r sin g)|.
    """
    start = solution.at([0.0])
    n = normals(start)[0]
    normal_force = np.linalg.solve(n[:, 1:].T, -FORCE[1:])
    np.testing.assert_allclose(start.normal_force[0], normal_force, rtol=1e-14)
    close(normal_force, [2.6410036, 8.7669029], 5e-8)
    gap_angle = np.arccos(n[0] @ n[1])
    slip = np.array([1.0 - np.cos(gap_angle), E_R * np.sin(gap_angle)])
    acceleration = (1.0 - MU * normal_force[0] * np.linalg.norm(slip)) / (1.0 + INERTIA)
    early = 1e-5
    close(solution.at([early]).velocity[0, :3] / early, [acceleration, 0.0, 0.0], 1e-4)


def test_printed_numbers(solution):
    """Each to half a unit of its last printed digit."""
    events = solution.events
    assert list(events) == ["contact 2 slips", "contact 1 opens", "contact 2 opens"]
    close(list(events.values()), [2.9448068, 3.2132058, 3.7016004], 5e-8)
    velocity = solution.at([1.0]).velocity[0]
    close(velocity[:3], [0.536290658, 0.0, -0.015357387], 5e-10)
    close(velocity[3:], [0.007339, 0.471280, 0.256290], 5e-7)
    at_slip = solution.at([events["contact 2 slips"]])
    close(at_slip.velocity[0, :3], [3.38953384, 0.0, -1.45240112], 5e-9)
    close(at_slip.normal_force[0], [0.880272, 7.093178], 5e-7)


def test_constraints_hold(solution):
    slip, open_1, open_2 = solution.events.values()
    time = np.linspace(0.0, 4.0, 1001)
    states = solution.at(time)
    gap = np.linalg.norm(states.position[:, None, :] - CENTRES, axis=2) - REACHES
    gap_rate = dot(states.velocity[:, None, :3], normals(states))
    touching = time[:, None] < [open_1, open_2]
    assert np.max(np.abs(gap[touching])) < 1e-11  # the module's own bound
    assert np.max(np.abs(gap_rate[touching])) < 1e-11
    assert np.all(gap[~touching] > 0.0)
    assert np.max(weighted_slips(states)[time < slip, 1]) < 1e-11
    for field in ("normal_force", "friction_norm", "slip_speed"):
        assert not np.any(getattr(states, field)[~touching]), field
    assert np.all(states.normal_force[touching] > 0.0)


def test_flight_never_returns(solution):
    """Both |x - c|^2 grow at the last opening, and so do their rates, for ever: v . a > 0 and only
    rises."""
    last = solution.at([solution.events["contact 2 opens"]])
    arms, v = last.position[0] - CENTRES, last.velocity[0, :3]
    assert v @ FORCE > 0.0
    assert np.all(arms @ v > -1e-10)  # contact 2: exactly 0
    assert np.all(v @ v + arms @ FORCE > -1e-10)  # contact 2: exactly 0, its normal force being 0
    later = last.position[0] + 0.2 * v + 0.5 * FORCE * 0.2**2
    flown = exact.two_spheres(9.0).at([solution.events["contact 2 opens"] + 0.2])
    close(flown.position[0], later, 1e-14)
    close(flown.velocity[0], last.velocity[0] + np.append(FORCE * 0.2, np.zeros(3)), 1e-14)


def test_sliding_friction_is_on_the_ellipsoid_and_sticking_inside(solution):
    slip, open_1, open_2 = solution.events.values()
    time = np.linspace(0.0, open_2, 1001)[:-1]
    states = solution.at(time)
    sliding = np.column_stack([time < open_1, time > slip])
    limit = MU * states.normal_force
    np.testing.assert_allclose(states.friction_norm[sliding], limit[sliding], rtol=1e-13)
    sticking = time < slip
    assert np.all(states.friction_norm[sticking, 1] < limit[sticking, 1])
    close(states.slip_speed[sliding], np.linalg.norm(slips(states)[0], axis=2)[sliding], 1e-11)


def test_newton_and_maximum_dissipation(solution):
    """The rate of the velocity, less the applied force and the sliding contact 1, must be the
    wrench of contact 2."""
    slip, open_1, open_2 = solution.events.values()
    ends = [0.0, slip, open_1, open_2]
    time = np.concatenate([np.linspace(a + 0.03, b - 0.03, 30) for a, b in itertools.pairwise(ends)])
    states = solution.at(time)
    n1, n2 = normals(states)[:, 0], normals(states)[:, 1]
    rate = derivative(lambda t: solution.at(t).velocity, time, 2e-3)
    force, torque = rate[:, :3] - FORCE, INERTIA * rate[:, 3:]

    u, spin = slips(states)
    # dissipation's maximum
    per_slip = -MU * states.normal_force / weighted_slips(states)
    friction, drill = per_slip[:, :, None] * u, per_slip * E_R**2 * spin
    force_2 = force - states.normal_force[:, :1] * n1 - friction[:, 0]
    torque_2 = torque - np.cross(-n1, friction[:, 0]) - drill[:, :1] * n1

    accuracy = 2e-8  # of the five-point derivative, worst 0.03 s after the slip starts [N], [N m]
    close(dot(force_2, n2), states.normal_force[:, 1], accuracy)
    tangential, drill_2 = force_2 - dot(force_2, n2)[:, None] * n2, dot(torque_2, n2)
    close(torque_2, np.cross(-n2, tangential) + drill_2[:, None] * n2, accuracy)
    close(np.hypot(np.linalg.norm(tangential, axis=1), drill_2 / E_R), states.friction_norm[:, 1], accuracy)
    sliding = time > slip
    close(tangential[sliding], friction[sliding, 1], accuracy)
    close(drill_2[sliding], drill[sliding, 1], accuracy)


def test_energy_balance(solution):
    """Kinetic energy = work of the applied force - integral of mu N |weighted slip|, by Gauss's
    rule in each phase."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    ends = [0.0, *solution.events.values(), 4.0]
    dissipated = 0.0
    for a, b in itertools.pairwise(ends):
        states = solution.at(0.5 * (a + b) + 0.5 * (b - a) * nodes)
        dissipated += 0.5 * (b - a) * weights @ np.sum(states.friction_norm * weighted_slips(states), axis=1)
        end = solution.at([b])
        kinetic = 0.5 * end.velocity[0] ** 2 @ np.repeat([1.0, INERTIA], 3)
        work = FORCE @ (end.position[0] - exact.start_position())
        assert abs(kinetic - work + dissipated) < 1e-9, b
    assert dissipated > 0.1


def test_slip_starts_with_the_square_of_time(solution):
    """Friction and normal forces pass each event without a jump; so the slip of contact 2 starts as
    t^2, not t."""
    for time in solution.events.values():
        before, after = solution.at([time - 1e-8]), solution.at([time + 1e-8])
        for field in ("normal_force", "friction_norm"):
            close(getattr(before, field), getattr(after, field), 2e-6)
    slip = weighted_slips(solution.at(solution.events["contact 2 slips"] + 1e-3 * np.array([1.0, 2.0, 4.0])))[:, 1]
    order, coarser = np.log2(slip[1:] / slip[:-1])  # 2 + O(t): the next term of the slip is t^3
    # and of its extrapolation, of the order t^2
    close(2.0 * order - coarser, 2.0, 3.0 * (coarser - order) ** 2)


def test_first_moments_of_slip_are_resolved(solution, monkeypatch):
    """The direction of the first slip is approximated for ONSET seconds, with an error of order
    ONSET^3: double it.

    Forces are known less well there: a slip of 0.75 t^2 m/s is kept to 1e-13 m/s.
    """
    elapsed = np.logspace(-6.0, -1.0, 41)
    monkeypatch.setattr(exact, "ONSET", 2.0 * exact.ONSET)
    doubled = exact.TwoSpheres(4.0, *exact.solve_two_spheres.__wrapped__())
    states, others = (s.at(solution.events["contact 2 slips"] + elapsed) for s in (solution, doubled))
    close(states.velocity, others.velocity, 2e-11)
    close(states.normal_force, others.normal_force, 1e-4)
    settled = elapsed > 1e-3
    close(states.velocity[settled], others.velocity[settled], 1e-12)
    close(states.normal_force[settled], others.normal_force[settled], 1e-7)


def test_wrong_input_is_refused(solution):
    with pytest.raises(ValueError, match="`time`"):
        exact.rolling_disc([-1.0])
    with pytest.raises(ValueError, match="`time`"):
        solution.at([4.1])
    with pytest.raises(ValueError, match="`duration`"):
        exact.two_spheres(0.0)

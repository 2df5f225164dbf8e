"""First steps of bodies that spin and slide on a face, and of one that jams: contacts that stick
where they press."""

import itertools
import types

import jax
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.implicit_euler import ladder, ncp, sticking
from implicit_stepper.stepping.stepper import begin

G, HEIGHT = 9.81, 0.2
STEPPER = ist.GeometricallyImplicit()
BODIES = {
    "superquadric 8": (shapes.Superquadric((0.3, 0.3, HEIGHT), epsilon=(0.25, 0.25)), 2e-3),
    "rounded cylinder": (shapes.Rounded(shapes.Cylinder(0.299, HEIGHT - 0.001), 0.001), 1e-9),
    "box": (shapes.Box((0.3, 0.3, HEIGHT)), 1e-9),
}
NAMES = pytest.mark.parametrize(
    "name", ["superquadric 8", *(pytest.param(n, marks=pytest.mark.thorough) for n in ("box", "rounded cylinder"))]
)


def on_the_floor(shape, velocity, e_r, e_o):
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    body = scene.add_body(name="body", shape=shape, density=1000.0, position=(0, 0, HEIGHT), velocity=velocity)
    scene.add_contact(floor, body, friction=ist.FrictionEllipsoid(mu=0.9, e_o=e_o, e_r=e_r, direction=(1, 0, 0)))
    return scene


@pytest.mark.parametrize("h", [0.01, 0.001])
@NAMES
def test_a_spinning_body_pivots_where_it_does_not_slip(name, h):
    """The body stays upright, so that friction f = -N p / c balances the moment of the pressure N
    at p, c below its centre. With f it moves at v' = v + h f / m, and with that the point p has no
    slip, v' + w z x p = 0. In complex numbers for the horizontal plane: p = v / (h g / c - i w)."""
    (shape, allowed), (v, w) = BODIES[name], ((0.6, 0.3), 10.0)
    run = ist.simulate(on_the_floor(shape, (*v, 0, 0, 0, w), 0.0, 0.7), STEPPER, h=h, duration=h)
    pivot = complex(*v) / (h * G / HEIGHT - 1j * w)
    assert abs(pivot) / HEIGHT < 0.9 * 0.7  # f is within the cone
    np.testing.assert_allclose(
        run.contacts.point_2[0, 0, :2] - run.position[1, 0, :2], [pivot.real, pivot.imag], rtol=0, atol=allowed
    )
    np.testing.assert_allclose(run.contacts.slip[0, 0, :2], 0.0, atol=1e-9)


@pytest.mark.parametrize("e_r", [1e-4, 1e-3])
@NAMES
def test_with_slight_friction_against_drilling_it_pivots_nearly_there(name, e_r):
    """The slip is along the friction that the moments ask for, and of the size e_r w."""
    (shape, _), (v, w), h = BODIES[name], ((0.6, 0.3), 10.0), 0.001
    run = ist.simulate(on_the_floor(shape, (*v, 0, 0, 0, w), e_r, 0.7), STEPPER, h=h, duration=h)
    p_n, rubbed = run.contacts.normal_impulse[0, 0], run.contacts.friction_impulse[0, 0]
    e = np.array([1.0, 0.7, e_r])
    share = rubbed[2] / (e_r * 0.9 * p_n)
    assert np.linalg.norm(rubbed / e) == pytest.approx(0.9 * p_n, rel=1e-9)  # it slips
    np.testing.assert_allclose(run.contacts.sigma[0, 0], e_r * w / abs(share), rtol=1e-3)
    slip = -rubbed[:2] / e[:2] ** 2 * run.contacts.sigma[0, 0] / (0.9 * p_n)
    np.testing.assert_allclose(run.contacts.slip[0, 0, :2], slip, rtol=0, atol=1e-9)


@pytest.mark.parametrize("spin", [3.0, -3.0])
def test_friction_against_drilling_brakes_the_spin_with_what_the_cone_leaves(spin):
    """y is on the cone, and sigma y_r = -e_r spin; without drilling there is neither."""
    member = types.SimpleNamespace(mu=0.5, e=jax.numpy.array([1.0, 1.0, 0.1]))
    y, sigma = sticking._at_pivot(member, 2.0, jax.numpy.array([0.3, 0.4]), spin)
    np.testing.assert_allclose(np.linalg.norm(y), 1.0, rtol=1e-15)
    np.testing.assert_allclose(sigma * y[2], -0.1 * spin, rtol=1e-14)
    member.e = jax.numpy.array([1.0, 1.0, 0.0])
    y, sigma = sticking._at_pivot(member, 2.0, jax.numpy.array([0.3, 0.4]), spin)
    np.testing.assert_array_equal([*y, sigma], [0.3, 0.4, 0.0, 0.0])


@pytest.mark.parametrize("share", [1 - 1e-5, 1.0, 1 + 1e-5, 1 + 1e-3])
def test_a_rod_near_painleves_critical_friction_is_stopped_at_once(share):
    """Its impulse is that of a bilateral contact, 6000 times that of gravity in the step."""
    half, wide, angle = 0.5, 0.005, np.pi / 4
    corners = np.array([(-half, -wide), (half, -wide), (half, wide), (-half, wide)])
    turned = corners @ np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    low, inverse = turned[np.argmin(turned[:, 1])], np.diag([1, 1, 3 / half**2])
    rows = np.array([[0, 1, low[0]], [1, 0, -low[1]]])
    delassus = rows @ inverse @ rows.T
    # friction presses the end down as the force lifts it
    mu = -share * delassus[0, 0] / delassus[0, 1]
    scene = ist.Scene(dimension=2)
    ground = scene.add_fixed(name="ground", shape=shapes.HalfPlane(normal=(0, 1)))
    rod = scene.add_body(
        name="rod", shape=shapes.Polygon(corners), mass=1.0, inertia=half**2 / 3, position=(0, -low[1]), angle=angle,
        velocity=(-1, 0, 0),
    )  # fmt: skip
    scene.add_contact(ground, rod, friction=mu)
    run = ist.simulate(scene, STEPPER, h=1e-5, duration=2e-5)
    impulse = -np.linalg.solve(delassus, rows @ np.array([-1, 0, 0]))
    assert abs(impulse[1]) < 1.0001 * mu * impulse[0]  # at most at the edge of the cone
    np.testing.assert_allclose(run.velocity[1, 0], np.array([-1, 0, 0]) + inverse @ rows.T @ impulse, atol=1e-3)


def test_the_rung_is_tried_in_space_and_in_the_plane():
    """In space with the pivots, with and without drilling; in the plane, where nothing drills,
    without."""
    spatial = on_the_floor(BODIES["box"][0], (0.6, 0.3, 0, 0, 0, 10.0), 1e-3, 0.7)
    planar = ist.Scene(dimension=2)
    ground = planar.add_fixed(name="ground", shape=shapes.HalfPlane(normal=(0, 1)))
    planar.add_contact(ground, planar.add_body(name="disc", shape=shapes.Disc(0.1), density=1.0, position=(0, 0.1)))
    for scene, count in ((spatial, 3), (planar, 1)):
        system, state = jax.device_put(scene.build())
        starts = STEPPER.restarts(system, state, begin(STEPPER, system, state), 0.001)
        names = list(itertools.takewhile(lambda name: name != "tilted cuts", (name for name, _ in starts)))
        assert names.count("sticking") == count


def test_starts_that_stick_keep_spins_and_leave_what_does_not_press_and_pivots_are_near():
    """A ball slides and spins on the floor, another falls far above it. Friction through its centre
    does not turn the first about the vertical, and leaves 5/7 of its speed; the second flies as if
    alone. A slow spin has its pivot 600 m away."""
    radius, mass, fast, slow, h = 0.1, 1.0, 10.0, 1e-3, 0.001
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    ball = {"shape": shapes.Sphere(radius), "mass": mass}
    for name, height, velocity in (("low", radius, (0.6, 0, 0, 0, 0, fast)), ("high", 1.0, (0, 0, -0.5, 0, 0, 0))):
        body = scene.add_body(name=name, position=(0, 0, height), velocity=velocity, **ball)
        scene.add_contact(floor, body, friction=ist.FrictionEllipsoid(mu=0.9, e_r=0.1))
    system, state = jax.device_put(scene.build())
    memory = begin(STEPPER, system, state)
    start, cuts = ladder._cut(STEPPER, system, state, memory, h, ladder.without_cuts(STEPPER, system, state, memory, h))
    z, where = ladder._stopped(STEPPER, system, state, memory, h, cuts).history[0], ncp.layout(system)
    low, high = z[where.velocity]
    np.testing.assert_allclose(low[jax.numpy.array([0, 2, 5])], [0.6 * 5 / 7, 0, fast], rtol=0, atol=1e-9)
    np.testing.assert_allclose(high, [0, 0, -0.5 - G * h, 0, 0, 0], rtol=0, atol=1e-12)
    p_n = z[where.unknowns[0][:, system.groups[0].pair.unknowns]]
    np.testing.assert_allclose(p_n, [mass * G * h, 0], rtol=0, atol=1e-9)
    for spin, near in ((fast, True), (slow, False)):
        turning = start.history[0].at[where.velocity[0, 5]].set(spin)
        assert ladder._pivoted(STEPPER, system, state, memory, turning, 0.0, h)[1] == near

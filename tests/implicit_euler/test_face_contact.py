"""Vertex, edge, line and face contact with one point per pair: the moment balance makes it the
centre of pressure.

Oracles are statics, rigid-body dynamics in closed form, and an independent integration of reduced
equations of motion.
"""

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize

import implicit_stepper as ist
import shapes

G = 9.81
A, B, C = 0.5, 0.3, 0.2  # half-sizes [m]
MASS = 1.0
INERTIA = MASS / 3 * np.array([B**2 + C**2, A**2 + C**2, A**2 + B**2])
FLOOR = shapes.HalfSpace(normal=(0, 0, 1))


def box_on_floor(*, friction=0.5, wrench=None, **body):
    scene = ist.Scene()
    given = {"position": (0, 0, C), "mass": MASS, "inertia": INERTIA, "wrench": wrench}
    box = scene.add_body(name="box", shape=shapes.Box((A, B, C)), **{**given, **body})
    scene.add_contact(box, scene.add_fixed(name="floor", shape=FLOOR), friction=friction)
    return scene


def run(scene, *, h=0.01, duration=1.0):
    return ist.simulate(scene, ist.GeometricallyImplicit(), h=h, duration=duration)


def push(force, height):
    """Wrench about the centre of mass of a horizontal force [N] along x, `height` [m] above the
    floor."""
    return (force, 0, 0, 0, force * (height - C), 0)


def about(axis, angle):
    return np.concatenate([[np.cos(angle / 2)], np.sin(angle / 2) * np.asarray(axis, float)])


# --- statics
# -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("force", "height"), [(1.0, 0.1), (2.5, 0.4), (2.5, 0.3), (-3.0, 0.35), (4.9, 0.0)])
def test_the_contact_point_is_the_centre_of_pressure(force, height):
    trajectory = run(box_on_floor(friction=0.6, wrench=push(force, height)), duration=0.3)
    np.testing.assert_allclose(trajectory.contacts.point_1[:, 0, 0], force * height / (MASS * G), rtol=0, atol=1e-9)
    np.testing.assert_allclose(trajectory.contacts.point_1[:, 0, 1], 0.0, rtol=0, atol=1e-9)
    # The first step's residual of 1e-12 may leave 1e-10 m in the pressure's place, whose moment
    # turns the box.
    assert np.abs(trajectory.velocity).max() <= 1e-10
    assert np.abs(trajectory.velocity[4:]).max() <= 1e-12


@pytest.mark.parametrize("height", [0.4, 1.5])
def test_the_box_tips_exactly_when_the_centre_of_pressure_leaves_the_face(height):
    """About its edge it starts with (F z - m g a)/(I + m (a^2 + c^2)); below the limit it stays at
    rest."""
    limit = MASS * G * A / height
    still = run(box_on_floor(friction=4.0, wrench=push(limit * (1 - 1e-6), height)), duration=0.2)
    # 1e-12 of the solver, and 1e-6 between the pressure and the edge
    assert np.abs(still.velocity).max() <= 1e-9
    assert still.contacts.point_1[-1, 0, 0] == pytest.approx(A * (1 - 1e-6), abs=1e-9)
    excess, h = 1e-3, 1e-3
    tipping = run(box_on_floor(friction=4.0, wrench=push(limit * (1 + excess), height)), h=h, duration=h)
    acceleration = excess * MASS * G * A / (INERTIA[1] + MASS * (A**2 + C**2))
    # h later the arms have turned by 1e-6
    assert tipping.velocity[1, 0, 4] == pytest.approx(acceleration * h, rel=1e-3)


def test_rest_below_the_friction_limit_is_rest_for_ever():
    trajectory = run(box_on_floor(friction=0.5, wrench=push(4.9, 0.3)), duration=100.0)
    assert len(trajectory) == 10_000
    assert np.abs(trajectory.velocity).max() <= 1e-12
    forces = np.concatenate([trajectory.contacts.normal_impulse, trajectory.contacts.friction_impulse[:, 0]], axis=1) / 0.01
    assert np.ptp(forces, axis=0).max() <= 1e-9


def test_a_stack_carries_what_is_above():
    scene = ist.Scene()
    below, names = scene.add_fixed(name="floor", shape=FLOOR), ("low", "middle", "top")
    for i, name in enumerate(names):
        size = np.array([A, B, C]) * (1 - 0.2 * i)
        body = scene.add_body(
            name=name, shape=shapes.Box(size), density=10.0, position=(0.02 * i, 0, C + [0, 0.36, 0.64][i])
        )
        scene.add_contact(body, below, friction=0.5)
        below = body
    trajectory = run(scene, duration=0.5)
    above = np.cumsum(trajectory.mass[::-1])[::-1] * G * 0.01
    np.testing.assert_allclose(trajectory.contacts.normal_impulse, np.broadcast_to(above, (50, 3)), rtol=1e-9)
    assert np.abs(trajectory.velocity).max() <= 1e-12
    # the pressure under a part is below the common centre of mass of what it carries
    x = np.cumsum((trajectory.mass * trajectory.position[-1, :, 0])[::-1])[::-1] / np.cumsum(trajectory.mass[::-1])[::-1]
    np.testing.assert_allclose(trajectory.contacts.point_1[-1, :, 0], x, rtol=0, atol=1e-9)


def four_legged_table(**body):
    leg, top, upright = shapes.Box((0.03, 0.03, 0.2)), shapes.Box((0.3, 0.2, 0.02)), (1, 0, 0, 0)
    corners = [(x, y) for x in (-0.25, 0.25) for y in (-0.15, 0.15)]
    parts = [(leg, ((x, y, 0.2), upright)) for x, y in corners] + [(top, ((0, 0, 0.42), upright))]
    scene = ist.Scene()
    table = scene.add_body(name="table", shapes=parts, density=500.0, position=(0, 0, 0), **body)
    numbers = scene.add_contact(table, scene.add_fixed(name="floor", shape=FLOOR), friction=0.4)
    assert numbers == (0, 1, 2, 3, 4)
    return scene


def test_the_legs_of_a_table_share_its_weight_alike_and_always_the_same_way():
    trajectory, again = (run(four_legged_table(), duration=0.3) for _ in range(2))
    share = trajectory.mass[0] * G * 0.01 / 4
    np.testing.assert_allclose(trajectory.contacts.normal_impulse[:, :4], share, rtol=1e-9)
    # the top touches nothing
    assert np.abs(trajectory.contacts.normal_impulse[:, 4]).max() <= 1e-12 * share
    assert np.array_equal(trajectory.contacts.normal_impulse, again.contacts.normal_impulse)
    assert trajectory.contact_names[0] == ("table[0]", "floor")


# --- sliding and spinning
# --------------------------------------------------------------------------------


def test_a_sliding_box_stops_where_it_should_to_first_order():
    mu, v = 0.3, 2.0
    errors = []
    for h in (0.02, 0.01, 0.005):
        trajectory = run(box_on_floor(friction=mu, velocity=(v, 0, 0, 0, 0, 0)), h=h, duration=0.8)
        assert np.abs(trajectory.velocity[-1]).max() <= 1e-12
        assert np.abs(trajectory.velocity[:, 0, 1:]).max() <= 1e-9  # it neither lifts nor turns
        errors.append(abs(trajectory.position[-1, 0, 0] - v**2 / (2 * mu * G)))
    assert errors[0] <= v * 0.02  # one step's way
    assert 1.5 <= errors[0] / errors[1] <= 2.5
    assert 1.5 <= errors[1] / errors[2] <= 2.5


def test_the_patch_resists_spinning_by_its_drilling_radius():
    mu, e_r, h, spin = 0.3, 0.12, 0.01, 3.0
    friction = ist.FrictionEllipsoid(mu=mu, e_r=e_r)
    trajectory = run(box_on_floor(friction=friction, velocity=(0, 0, 0, 0, 0, spin)), h=h, duration=1.5)
    loss = mu * MASS * G * e_r * h / INERTIA[2]
    expected = np.maximum(spin - loss * np.arange(len(trajectory) + 1), 0.0)
    np.testing.assert_allclose(trajectory.velocity[:, 0, 5], expected, rtol=0, atol=1e-10)


# --- tipping, rocking, toppling
# --------------------------------------------------------------------------


def tilted_on_edge(angle):
    """A box on its edge x = a, z = -c, which lies at the origin, turned about y by `angle` from
    lying flat."""
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    x, z = -turn @ np.array([A, -C])
    return {"quaternion": about((0, 1, 0), angle), "position": (x, 0, z)}


def test_a_box_falls_over_its_edge_like_a_pendulum():
    """phi'' = -m g d(height)/d(phi) / I_edge, integrated to 1e-12; the implicit Euler scheme is
    first order."""
    angle, duration = 1.0, 0.5
    edge = INERTIA[1] + MASS * (A**2 + C**2)

    def slope(phi):
        return MASS * G * (A * np.cos(phi) - C * np.sin(phi))  # of m g (a sin phi + c cos phi)

    exact = scipy.integrate.solve_ivp(
        lambda t, s: [s[1], -slope(s[0]) / edge], (0, duration), [angle, 0.0], rtol=1e-12, atol=1e-12
    ).y[1, -1]
    errors, creep = [], []
    for h in (0.01, 0.005, 0.0025):
        trajectory = run(box_on_floor(friction=2.0, **tilted_on_edge(angle)), h=h, duration=duration)
        errors.append(abs(trajectory.velocity[-1, 0, 4] - exact))
        creep.append(np.abs(trajectory.contacts.point_1[:, 0, 0]).max())
        assert np.abs(trajectory.contacts.slip[:, 0]).max() <= 1e-9  # the edge sticks
        # its middle, by symmetry
        np.testing.assert_allclose(trajectory.contacts.point_1[:, 0, 1], 0.0, rtol=0, atol=1e-9)
    # a point at rest at the end of a step has moved by h^2 omega^2 r/2 in it: first order over all
    # steps
    for values, largest in ((errors, 0.1), (creep, 1e-3)):
        assert values[0] <= largest
        assert 1.6 <= values[0] / values[1] <= 2.4
        assert 1.6 <= values[1] / values[2] <= 2.4


def test_a_rocking_box_loses_energy_at_every_landing_and_comes_to_rest_flat():
    trajectory = run(box_on_floor(friction=1.0, **tilted_on_edge(0.15)), h=0.005, duration=3.0)
    energy = trajectory.kinetic_energy() + MASS * G * trajectory.position[:, 0, 2]
    assert np.diff(energy).max() <= 1e-12
    assert trajectory.position[-1, 0, 2] == pytest.approx(C, abs=1e-12)
    assert np.abs(trajectory.velocity[-1]).max() <= 1e-12


# --- cylinders
# ---------------------------------------------------------------------------------------------


def cylinder_on_floor(radius, half_height, *, friction=0.5, **body):
    scene = ist.Scene()
    cylinder = scene.add_body(name="cylinder", shape=shapes.Cylinder(radius, half_height), mass=MASS, **body)
    scene.add_contact(cylinder, scene.add_fixed(name="floor", shape=FLOOR), friction=friction)
    return scene


def test_a_cylinder_rolls_on_its_side_without_loss():
    r, v = 0.3, 1.2
    side = {"quaternion": about((1, 0, 0), np.pi / 2), "position": (0, 0, r), "velocity": (v, 0, 0, 0, v / r, 0)}
    trajectory = run(cylinder_on_floor(r, 0.5, **side), duration=5.0)
    np.testing.assert_allclose(
        trajectory.velocity, np.broadcast_to(trajectory.velocity[0], trajectory.velocity.shape), atol=1e-10
    )
    np.testing.assert_allclose(trajectory.contacts.normal_impulse, MASS * G * 0.01, rtol=1e-9)
    # middle of the line
    np.testing.assert_allclose(trajectory.contacts.point_1[:, 0, 1], 0.0, rtol=0, atol=1e-9)


def test_a_thin_cylinder_rolls_on_its_rim_in_a_circle():
    """Steady rolling of a disc of radius r and half height w: its axis e3 leans by theta,
    precession W about the vertical, spin s about e3. The rim's lowest point is at rest, and Euler's
    equations fix s for given W and theta."""
    r, w, theta, precession = 0.4, 0.02, 1.1, 1.5
    light, axial = MASS * r**2 / 4, MASS * r**2 / 2
    to_contact = np.array([0.0, -r, -w])  # in e1 (horizontal), e2 (up the slope), e3

    def motion(spin):
        up = np.array([0.0, np.sin(theta), np.cos(theta)])
        frame = precession * up
        omega = frame + np.array([0.0, 0.0, spin])
        return up, frame, omega, -np.cross(omega, to_contact)

    def unbalanced(spin):
        """Torque of the contact's force, weight and centripetal, less the change of the angular
        momentum, along e1."""
        up, frame, omega, velocity = motion(spin)
        force = MASS * np.cross(frame, velocity) + MASS * G * up
        return (np.cross(frame, np.array([light, light, axial]) * omega) - np.cross(to_contact, force))[0]

    spin = scipy.optimize.brentq(unbalanced, -60, 60)
    *_, omega, velocity = motion(spin)
    turn = np.array([[1, 0, 0], [0, np.cos(theta), -np.sin(theta)], [0, np.sin(theta), np.cos(theta)]])
    body = {
        "quaternion": about((1, 0, 0), theta),
        "position": -turn @ to_contact,
        "velocity": np.concatenate([turn @ velocity, turn @ omega]),
        "inertia": (light, light, axial),
    }
    tilts = []
    for h in (0.004, 0.002, 0.001):
        trajectory = run(cylinder_on_floor(r, w, friction=1.0, **body), h=h, duration=0.4)
        axis = np.array([rotation_matrix(q)[:, 2] for q in trajectory.quaternion[:, 0]])
        tilts.append(np.abs(np.arccos(axis[:, 2]) - theta).max())
        assert np.abs(trajectory.contacts.slip[:, 0, :2]).max() <= 1e-9
        assert np.abs(trajectory.contacts.gap[:, 0]).max() <= 1e-12
    assert tilts[0] <= 0.05
    assert 1.6 <= tilts[0] / tilts[1] <= 2.4
    assert 1.6 <= tilts[1] / tilts[2] <= 2.4


def rotation_matrix(q):
    w, v = q[0], q[1:]
    cross = np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])
    return np.eye(3) + 2 * w * cross + 2 * cross @ cross


# --- points and edges
# ----------------------------------------------------------------------------------


def test_edge_on_edge_has_the_normal_across_both():
    """A box balanced with its edge along x across the upward edge along y of a fixed one:
    symmetric, so it stays."""
    size = shapes.Box((0.3, 0.3, 0.3))
    top = 0.3 * np.sqrt(2)
    scene = ist.Scene()
    below = scene.add_fixed(name="ridge", shape=size, position=(0, 0, -top), quaternion=about((0, 1, 0), np.pi / 4))
    body = scene.add_body(name="box", shape=size, mass=1.0, position=(0, 0, top), quaternion=about((1, 0, 0), np.pi / 4))
    scene.add_contact(below, body, friction=0.5)
    trajectory = run(scene, h=0.001, duration=0.02)
    np.testing.assert_allclose(trajectory.contacts.normal[:, 0], np.broadcast_to([0, 0, 1], (20, 3)), rtol=0, atol=1e-9)
    np.testing.assert_allclose(trajectory.contacts.point_2[:, 0], 0.0, rtol=0, atol=1e-9)
    np.testing.assert_allclose(trajectory.contacts.normal_impulse, G * 0.001, rtol=1e-9)
    # both faces of the edge carry
    assert np.all(np.sum(trajectory.contacts.multipliers_2[:, 0] > 1e-6, axis=1) == 2)


def test_vertex_on_face():
    """A cube on its corner: three faces carry, the normal is the floor's, the point is the
    corner."""
    diagonal = np.array([1.0, 1.0, 1.0]) / np.sqrt(3)
    axis = np.cross(diagonal, [0, 0, 1])
    turn = about(axis / np.linalg.norm(axis), np.arccos(diagonal[2]))
    scene = ist.Scene()
    height = 0.2 * np.sqrt(3)
    body = scene.add_body(name="cube", shape=shapes.Box((0.2,) * 3), mass=1.0, position=(0, 0, height), quaternion=turn)
    scene.add_contact(body, scene.add_fixed(name="floor", shape=FLOOR), friction=0.5)
    trajectory = run(scene, h=0.001, duration=0.02)
    np.testing.assert_allclose(trajectory.contacts.point_1[:, 0], 0.0, rtol=0, atol=1e-9)
    np.testing.assert_allclose(trajectory.contacts.normal[:, 0], np.broadcast_to([0, 0, -1], (20, 3)), rtol=0, atol=1e-9)
    assert np.all(np.sum(trajectory.contacts.multipliers_1[:, 0] > 1e-6, axis=1) == 3)


# --- the order of bodies and of parts does not matter
# ------------------------------------------------------


def test_a_body_of_parts_moves_like_the_same_body_in_one():
    """Two half boxes beside each other are one box: same mass, inertia and motion, as long as the
    motion is determined."""
    half, upright = shapes.Box((A / 2, B, C)), (1, 0, 0, 0)
    start = {"position": (0, 0, 0.6), "quaternion": about((0.6, 0.8, 0), 0.7), "velocity": (0.5, 0, -1, 1, 2, 0)}
    whole = ist.Scene()
    parted = ist.Scene()
    for scene, given in (
        (whole, {"shape": shapes.Box((A, B, C))}),
        (parted, {"shapes": [(half, ((-A / 2, 0, 0), upright)), (half, ((A / 2, 0, 0), upright))]}),
    ):
        body = scene.add_body(name="box", density=10.0, **given, **start)
        scene.add_contact(body, scene.add_fixed(name="floor", shape=FLOOR), friction=0.3)
    one, two = run(whole, duration=0.3), run(parted, duration=0.3)
    np.testing.assert_allclose(two.mass, one.mass, rtol=1e-12)
    np.testing.assert_allclose(two.inertia, one.inertia, rtol=1e-12, atol=1e-12)
    # the first corner to land, and a little more
    before = np.argmax(one.contacts.normal_impulse[:, 0] > 0) + 3
    np.testing.assert_allclose(two.position[:before], one.position[:before], rtol=0, atol=1e-9)
    np.testing.assert_allclose(two.velocity[:before], one.velocity[:before], rtol=0, atol=1e-8)


def test_shapes_off_the_centre_of_mass_are_placed_by_their_own_coordinates():
    """A wedge's coordinates are its user's; the state is that of the centre of mass, and it lies
    still on its base."""
    wedge = shapes.Wedge(0.6, 0.4, 0.3)
    moments = wedge.moments()
    scene = ist.Scene()
    bottom = -float(np.min(wedge.mesh().vertices[:, 2]))
    body = scene.add_body(name="wedge", shape=wedge, density=100.0, position=(1.0, 2.0, bottom))
    scene.add_contact(body, scene.add_fixed(name="floor", shape=FLOOR), friction=0.5)
    trajectory = run(scene, duration=0.1)
    np.testing.assert_allclose(trajectory.position[0, 0], np.array([1.0, 2.0, bottom]) + moments.centre, rtol=0, atol=1e-12)
    np.testing.assert_allclose(trajectory.contacts.point_1[:, 0, :2], trajectory.position[1:, 0, :2], rtol=0, atol=1e-9)
    assert np.abs(trajectory.velocity).max() <= 1e-12

"""Joints: against elliptic functions, quadrature and each other; what they refuse; what their
certificate sees."""

import dataclasses
import math

import jax
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ellipj, ellipk

import implicit_stepper as ist
import shapes
from implicit_stepper.constraints import joint_rows
from implicit_stepper.model import bodies, poses
from implicit_stepper.stepping.loop import certificates

G, LENGTH, MASS, INERTIA = 9.81, 1.0, 2.0, 0.3


def pendulum(joint=None, centre=None):
    """A body released level, with its centre 1 m from a fixed pivot at (0, 0, 0.3)."""
    scene = ist.Scene()
    wall = scene.add_fixed(name="wall", shape=shapes.Ellipsoid((0.1, 0.1, 0.1)), position=(0, 0, 0.3))
    bob = scene.add_body(
        name="bob",
        shape=shapes.Ellipsoid((0.1, 0.2, 0.3)),
        mass=MASS,
        inertia=(0.2, INERTIA, 0.1),
        position=(LENGTH, 0, 0.3),
        quaternion=(1, 0, 0, 0),
    )
    if joint is None:
        joint = ist.BallJoint(point_1=(0, 0, 0), point_2=(-LENGTH, 0, 0))
    scene.add_joint(wall, bob, joint, name="pivot")
    return scene


def exact_position(time):
    """Of the centre: sin(phi / 2) = k sn(K - w t), with phi from the lowest point, k = sin(45
    degrees)."""
    w = np.sqrt(MASS * G * LENGTH / (INERTIA + MASS * LENGTH**2))
    k = np.sin(np.pi / 4)
    sn, _, _, _ = ellipj(ellipk(k**2) - w * np.asarray(time), k**2)
    phi = 2 * np.arcsin(k * sn)
    return np.stack([LENGTH * np.sin(phi), 0 * phi, 0.3 - LENGTH * np.cos(phi)], axis=-1)


def error(stepper, h):
    run = ist.simulate(pendulum(), stepper, h=h, duration=1.6)
    assert np.max(np.abs(run.joints.closure)) <= 1e-12
    return np.max(np.linalg.norm(run.position[:, 0] - exact_position(run.time), axis=1))


@pytest.mark.parametrize(("stepper", "h", "order"), [(ist.GeometricallyImplicit(), 0.01, 1), (ist.RadauContact(), 0.1, 5)])
def test_a_pendulum_converges_at_the_order_of_the_scheme(stepper, h, order):
    assert np.log2(error(stepper, h) / error(stepper, h / 2)) == pytest.approx(order, abs=0.2)


def test_a_pendulum_with_chosen_steps_has_the_error_asked_for():
    run = ist.simulate(pendulum(), ist.RadauContact(), tol=1e-9, duration=1.6)
    assert np.max(np.linalg.norm(run.position[:, 0] - exact_position(run.time), axis=1)) <= 2e-9
    # at the lowest point a joint carries weight and centripetal force; mean forces of steps are not
    # those at their ends
    assert np.max(np.abs(run.joints.closure)) <= 1e-12


def test_a_constraint_of_ones_own_that_says_the_same_gives_the_same():
    def g(pose_1, pose_2, time):
        (x_1, _), (x_2, (w, x, y, z)) = pose_1, pose_2
        axis = [1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)]
        return jax.numpy.stack([x_2[i] - LENGTH * axis[i] - x_1[i] for i in range(3)])

    own = pendulum(ist.UserConstraint(g, rows=3))
    for stepper, how in ((ist.GeometricallyImplicit(), {"h": 0.02}), (ist.RadauContact(), {"h": 0.1})):
        ours, theirs = (ist.simulate(scene, stepper, duration=1.0, **how) for scene in (pendulum(), own))
        np.testing.assert_allclose(theirs.position, ours.position, rtol=0, atol=1e-12)
        np.testing.assert_allclose(theirs.joint("pivot").force, ours.joint("pivot").force, rtol=0, atol=1e-10)


def test_a_run_of_first_order_goes_on_from_its_end():
    """Where positions hold at the ends of steps, velocities do to O(h) alone, and are no reason to
    refuse it."""
    stepper, h = ist.GeometricallyImplicit(), 0.02
    whole, half = (ist.simulate(pendulum(), stepper, h=h, duration=duration) for duration in (1.0, 0.5))
    rest = ist.simulate(pendulum(), stepper, h=h, duration=0.5, start=half)
    np.testing.assert_allclose(rest.position[-1], whole.position[-1], rtol=0, atol=1e-11)


def test_a_constraint_of_the_clock_moves_bodies():
    """The pivot's end goes along x as .1 sin t: the body that it carries goes with it, and the run
    is certified."""

    def g(pose_1, pose_2, time):
        return pose_2[0] - pose_1[0] - jax.numpy.stack([1.0 + 0.1 * time**2, 0.0, 0.0])

    run = ist.simulate(pendulum(ist.UserConstraint(g, rows=3)), ist.RadauContact(), h=0.1, duration=1.0)
    np.testing.assert_allclose(run.position[:, 0, 0], 1 + 0.1 * run.time**2, rtol=0, atol=1e-12)
    # it carries the weight and pulls by m x'' = 2 kg 0.2 m/s^2
    np.testing.assert_allclose(run.joint("pivot").force, np.tile([0.4, 0, MASS * G], (10, 1)), rtol=0, atol=1e-9)
    np.testing.assert_array_equal(run.to_xarray().joint_force.sel(joint="pivot"), run.joint("pivot").force)


AXES = (0.25, 0.2, 0.1)  # [m], semi-axes of the block
REACH, HEIGHT = 0.6, 0.5  # [m]: of its centre from the hinge, and of the hinge from the floor


def block_on_a_hinge():
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1), offset=0.0))
    shape = shapes.Ellipsoid(AXES)
    block = scene.add_body(name="block", shape=shape, mass=1.0, position=(REACH, 0, HEIGHT), quaternion=(1, 0, 0, 0))
    hinge = ist.Hinge(point_1=(0, 0, HEIGHT), axis_1=(0, 2, 0), point_2=(-REACH, 0, 0), axis_2=(0, 1, 0))
    scene.add_joint(floor, block, hinge, name="pivot")
    scene.add_contact(floor, block, friction=0.3)
    return scene


def landing():
    """The angle of the hinge at which the block lands, and when, by quadrature of the conservation
    of energy."""

    def height(angle):
        return HEIGHT - REACH * np.sin(angle) - np.hypot(AXES[0] * np.sin(angle), AXES[2] * np.cos(angle))

    low, high = 0.0, 1.2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if height(middle) > 0 else (low, middle)
    inertia = (AXES[0] ** 2 + AXES[2] ** 2) / 5 + REACH**2
    # the substitution angle = s^2 takes the root out of the speed sqrt(2 g r sin(angle) / inertia)
    # at the start
    time, _ = quad(lambda s: 2 * s / np.sqrt(2 * G * REACH * np.sin(s * s) / inertia) if s else 0, 1e-300, np.sqrt(low))
    return low, time


def test_a_block_on_a_hinge_lands():
    run = ist.simulate(block_on_a_hinge(), ist.RadauContact(), tol=1e-9, duration=0.4)
    angle, time = landing()
    (event,) = run.events
    assert (event.kind, event.time) == ("closes", pytest.approx(time, abs=1e-8))
    assert np.max(np.abs(run.joints.closure)) <= 1e-12
    hit = int(np.argmax(run.contacts.normal_impulse[:, 0] > 0))
    assert run.time[hit + 1] == event.time
    at = run.contacts
    force = at.normal_impulse[hit] * at.normal[hit, 0] + at.friction_impulse[hit, 0, 0] * at.tangent[hit, 0]
    force = force + at.friction_impulse[hit, 0, 1] * np.cross(at.normal[hit, 0], at.tangent[hit, 0])
    moment = np.cross(at.point_2[hit, 0] - [0, 0, HEIGHT], force)[1]
    inertia = (AXES[0] ** 2 + AXES[2] ** 2) / 5 + REACH**2
    before = at.stages.velocity[hit, -1, 0, 4]
    assert before == pytest.approx(np.sqrt(2 * G * REACH * np.sin(angle) / inertia), abs=1e-8)
    assert inertia * (run.velocity[hit + 1, 0, 4] - before) == pytest.approx(moment, abs=1e-12)
    assert abs(run.velocity[-1]).max() <= 1e-9


def test_joints_of_the_library_hold_what_they_say():
    """One body for each joint, thrown: the bodies stay in their joints, which leave as many rates
    free as they should."""
    axes = {"axis_1": (0, 0.6, 0.8), "axis_2": (0, 0.6, 0.8)}
    points = {"point_1": (0.1, 0, 0.2), "point_2": (-0.4, 0, 0.2)}
    kinds = {
        "ball": (ist.BallJoint(**points), 3),
        "hinge": (ist.Hinge(**points, **axes), 1),
        "slider": (ist.Slider(**points, **axes), 1),
        "cylindrical": (ist.Cylindrical(**points, **axes), 2),
        "planar": (ist.Planar(**points, **axes), 3),
        "universal": (ist.Universal(**points, axis_1=(0, 1, 0), axis_2=(1, 0, 0)), 2),
        "fixed": (ist.Fixed(**points), 0),
        "distance": (ist.Distance(point_1=(0, 0, 0), point_2=(0, 0, 0), length=0.5), 5),
    }
    scene, free = ist.Scene(), []
    for i, (name, (joint, freedom)) in enumerate(kinds.items()):
        both = [
            scene.add_body(
                name=f"{name} {side}",
                shape=shapes.Ellipsoid((0.2, 0.3, 0.1)),
                mass=1.0 + side,
                position=(0.5 * side, 3.0 * i, 0),
                velocity=(1, 2, 3, 1, -2, 0.5) if side == 0 and name == "nothing" else None,
                wrench=(0.3, 0.2, 9.81 * (1 + side), 0.1, 0.2 - side, 0.3),
            )
            for side in (0, 1)
        ]
        scene.add_joint(*both, joint, name=name)
        free.append(freedom)
    system, state = scene.build()
    run = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.02, duration=0.6)
    assert np.max(np.abs(run.joints.closure)) <= 1e-13
    turned = poses.matrices(run.orientation[-1])
    relative = np.einsum("jai,jbi->jab", turned[::2], turned[1::2])
    moved = np.abs(relative - np.eye(3)).max(axis=(1, 2))
    assert np.all((moved > 1e-3) == [True, True, False, True, True, True, False, True])
    rows = jax.jit(lambda system, at: joint_rows.joint_rows(system, at, bodies.mass_matrices(system, at)))(system, state)
    assert np.linalg.matrix_rank(rows.matrix) == sum(6 - freedom for freedom in free) == rows.matrix.shape[0]
    # nothing but the bodies' own loads acts on each pair: reactions are opposite forces
    np.testing.assert_allclose(run.joints.impulse_1[:, :, :3], -run.joints.impulse_2[:, :, :3], rtol=0, atol=1e-14)


@pytest.mark.thorough
def test_bodies_in_the_plane_have_joints_too():
    scene = ist.Scene(dimension=2)
    wall = scene.add_fixed(name="wall", shape=shapes.Disc(0.1))
    body = {"shape": shapes.Disc(0.1), "mass": 1.0, "inertia": INERTIA / MASS}
    pin = scene.add_body(name="pin", position=(1, 0), **body)
    scene.add_joint(wall, pin, ist.BallJoint(point_1=(0, 0), point_2=(-1, 0)))
    slide = scene.add_body(name="slide", position=(3, 0), velocity=(0, 0, 0), **body)
    scene.add_joint(wall, slide, ist.Slider(point_1=(3, 0), axis_1=(3, 4), point_2=(0, 0), axis_2=(3, 4)))
    weld = scene.add_body(name="weld", position=(5, 0), **body)
    scene.add_joint(wall, weld, ist.Fixed(point_1=(5, 0), point_2=(0, 0)))
    rod = scene.add_body(name="rod", position=(1, 7), **body)
    scene.add_joint(wall, rod, ist.Distance(point_1=(0, 7), point_2=(0, 0), length=1.0))
    run = ist.simulate(scene, ist.RadauContact(), h=0.05, duration=0.8)
    np.testing.assert_allclose(run.position[:, 0], exact_position(run.time)[:, ::2] - [0, 0.3], rtol=0, atol=1e-5)
    along = -G * 0.8 * run.time**2 / 2  # down a slope of 3:4
    np.testing.assert_allclose(run.position[:, 1], [3, 0] + along[:, None] * [0.6, 0.8], rtol=0, atol=1e-12)
    np.testing.assert_allclose(run.position[:, 2], np.tile([5.0, 0.0], (17, 1)), rtol=0, atol=1e-13)
    np.testing.assert_allclose(np.hypot(run.position[:, 3, 0], run.position[:, 3, 1] - 7), 1, rtol=0, atol=1e-13)


def test_redundant_joints_do_no_harm():
    """A parallelogram of spatial hinges: five equations say what others say, the motion is that of
    the pendulum."""
    scene = ist.Scene()
    wall = scene.add_fixed(name="wall", shape=shapes.Ellipsoid((0.1, 0.1, 0.1)))
    light = {"shape": shapes.Ellipsoid((0.1, 0.1, 0.1)), "mass": 1e-3, "inertia": (1e-6, 1e-6, 1e-6)}
    cranks = [scene.add_body(name=f"crank {i}", position=(0.5, 0.0, i), **light) for i in (0, 1)]
    rod = scene.add_body(name="rod", shape=shapes.Ellipsoid((0.1, 0.1, 0.5)), mass=1.0, position=(1, 0, 0.5))
    along = {"axis_1": (0, 1, 0), "axis_2": (0, 1, 0)}
    for i, crank in enumerate(cranks):
        scene.add_joint(wall, crank, ist.Hinge(point_1=(0, 0, i), point_2=(-0.5, 0, 0), **along))
        scene.add_joint(crank, rod, ist.Hinge(point_1=(0.5, 0, 0), point_2=(0, 0, i - 0.5), **along))
    for stepper, h in ((ist.GeometricallyImplicit(), 0.02), (ist.RadauContact(), 0.04)):
        run = ist.simulate(scene, stepper, h=h, duration=0.4)
        assert np.max(np.abs(run.joints.closure)) <= 1e-12
        np.testing.assert_allclose(run.orientation[:, 2], np.tile([1.0, 0, 0, 0], (len(run) + 1, 1)), rtol=0, atol=1e-12)
    # cranks of no weight: the rod falls as a point on a rod of 1 m
    fall = quad(lambda s: 2 * s / np.sqrt(2 * G * np.sin(s * s)), 1e-300, np.sqrt(np.arcsin(-run.position[-1, 2, 2] + 0.5)))
    assert fall[0] == pytest.approx(0.4, abs=2e-3)


def four_hinges():
    """Three bars on hinges in space, a parallelogram with three equations too many."""
    scene, axis = ist.Scene(), (0, 1, 0)
    frame = scene.add_fixed(name="frame", shape=shapes.Sphere(0.01))
    bar, upright = {"shape": shapes.Ellipsoid((0.5, 0.05, 0.05)), "mass": 1.0}, (np.sqrt(0.5), 0, np.sqrt(0.5), 0)
    places = {"left": (0, 0, -0.5), "low": (0.5, 0, -1.0), "right": (1, 0, -0.5)}
    left, low, right = (
        scene.add_body(
            name=name,
            position=at,
            quaternion=(1, 0, 0, 0) if name == "low" else upright,
            velocity=(2 * at[2], 0, 0, 0, 0 if name == "low" else 2.0, 0),
            **bar,
        )
        for name, at in places.items()
    )
    ends = ((frame, left, (0, 0, 0), -0.5), (left, low, (0.5, 0, 0), -0.5), (low, right, (0.5, 0, 0), 0.5))
    for first, second, point, other in (*ends, (frame, right, (1, 0, 0), -0.5)):
        scene.add_joint(first, second, ist.Hinge(point, axis, (other, 0, 0), axis))
    return scene


def test_a_cart_keeps_what_its_wheels_carry():
    """Four wheels on hinges: the floor's forces are not unique, and stay where the first step finds
    them, a quarter of the weight each."""
    scene, radius, speed = ist.Scene(), 0.1, 1.0
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    rolls = {"velocity": (speed, 0, 0, 0, speed / radius, 0), "mass": 0.5, "shape": shapes.Sphere(radius)}
    cart = {"position": (0, 0, radius), "velocity": (speed, 0, 0, 0, 0, 0), "mass": 5.0}
    cart = scene.add_body(name="cart", shape=shapes.Sphere(0.05), inertia=(0.1, 0.3, 0.3), **cart)
    for i, (x, y) in enumerate(((0.3, 0.25), (0.3, -0.25), (-0.3, 0.25), (-0.3, -0.25))):
        wheel = scene.add_body(name=f"wheel {i}", position=(x, y, radius), **rolls)
        scene.add_joint(cart, wheel, ist.Hinge((x, y, 0), (0, 1, 0), (0, 0, 0), (0, 1, 0)))
        scene.add_contact(wheel, floor, friction=0.5)
    run = ist.simulate(scene, ist.RadauContact(), h=0.05, duration=2.0)
    np.testing.assert_allclose(run.contacts.normal_impulse / 0.05, 7 * G / 4, rtol=1e-6)


def test_what_joints_give_to_nobody_is_left_out():
    """Impulses of redundant joints without their part in the null space of G^T give bodies the
    same, and that part nothing; those of joints that are not redundant stay."""
    system, state = four_hinges().build()
    rows = joint_rows.joint_rows(system, state, bodies.mass_matrices(system, state))
    G, drawn = np.asarray(rows.matrix), np.random.default_rng(0).normal(size=(2, len(rows.lengths)))
    found = np.asarray(joint_rows.felt(system, state, drawn))
    np.testing.assert_allclose(found / rows.lengths @ G, drawn / rows.lengths @ G, rtol=0, atol=1e-6)
    *_, V = np.linalg.svd(G.T)
    null = V[np.linalg.matrix_rank(G) :] * np.asarray(rows.lengths)
    assert len(null) == 3
    np.testing.assert_allclose(joint_rows.felt(system, state, null), 0.0, rtol=0, atol=1e-6)
    system, state = block_on_a_hinge().build()
    drawn = np.random.default_rng(1).normal(size=5)
    # but for 1e-8 over the least response
    np.testing.assert_allclose(joint_rows.felt(system, state, drawn), drawn, rtol=1e-5)


def test_what_redundant_joints_carry_stays_of_the_size_of_the_loads():
    """In chosen steps: bodies of 3 kg move by up to 2 m/s on circles of 1 m, so that no hinge need
    carry more than 3 (g + 4) N. What nothing determines once grew to 1e5 N within 2 s."""
    run = ist.simulate(four_hinges(), ist.RadauContact(), tol=1e-3, duration=4.0)
    forces = np.linalg.norm(run.joints.impulse_2[..., :3], axis=-1) / run.h[:, None]
    assert np.max(forces) <= 3 * (G + 4)
    energy = run.energy()  # of which 10 tol may appear or vanish in a run, of that and sum m g L
    assert np.max(np.abs(energy.total - energy.total[0])) <= 1e-2 * (np.max(energy.kinetic) + 3 * G)


@pytest.mark.parametrize("h", [0.01, 0.4, 3.0])
def test_a_mass_on_a_spring_loses_what_the_theta_of_its_stepper_says(h):
    """Of x'' = -w^2 x with the force theta f(end) + (1 - theta) f(start) and positions moved by the
    velocity at the end, areas of the phase plane shrink by 1 + theta (w h)^2 a step. With theta = 1
    so does the energy; with theta = 0 the energy of symplectic Euler stays, v^2 + w^2 x^2 - h w^2 x
    v."""
    w = 2.0
    scene = ist.Scene(gravity=(0, 0, 0), length_scale=0.5, acceleration_scale=1.0)
    wall = scene.add_fixed(name="wall", shape=shapes.Sphere(0.1))
    bob = scene.add_body(name="bob", shape=shapes.Sphere(0.1), mass=2.0, position=(0.5, 0, 0), velocity=(0.3, 0, 0, 0, 0, 0))
    scene.add_joint(wall, bob, ist.Spring((0, 0, 0), (0, 0, 0), stiffness=2.0 * w**2))
    explicit = ((ist.Linearized(), 0.0),) if w * h < 2 else ()  # beyond which it grows without bound
    for stepper, theta in ((ist.GeometricallyImplicit(), 1.0), *explicit):
        run = ist.simulate(scene, stepper, h=h, duration=5 * h)
        x, v = run.position[:, 0, 0], run.velocity[:, 0, 0]
        area = x[:-2] * v[1:-1] - x[1:-1] * v[:-2], x[1:-1] * v[2:] - x[2:] * v[1:-1]
        np.testing.assert_allclose(area[1] * (1 + theta * (w * h) ** 2), area[0], rtol=1e-10)
        kept = v**2 + w**2 * x**2 - (1 - theta) * h * w**2 * x * v
        np.testing.assert_allclose(kept[1:] * (1 + theta * (w * h) ** 2), kept[:-1], rtol=1e-10)


def test_springs_motions_and_coordinates():
    """A mass on a spring, a door with a spring and a damper in its hinge, and a wheel that is
    turned many times."""
    scene = ist.Scene(gravity=(0, 0, 0))
    wall = scene.add_fixed(name="wall", shape=shapes.Sphere(0.1))
    ball, mass = shapes.Sphere(0.3), 2.0
    inertia = 0.4 * mass * 0.3**2
    bob = scene.add_body(name="bob", shape=ball, mass=mass, position=(0.5, 0, 0))
    scene.add_joint(wall, bob, ist.Spring((0, 0, 0), (0, 0, 0), stiffness=8.0, length=0.4))
    for x, name in ((5.0, "wheel"), (8.0, "door")):
        body = scene.add_body(name=name, shape=ball, mass=mass, position=(x, 0, 0))
        scene.add_joint(wall, body, ist.Hinge((x, 0, 0), (0, 0, 1), (0, 0, 0), (0, 0, 1)), name=name)
    scene.add_motion("wheel", lambda t: 7 * t**2)
    scene.add_spring("door", stiffness=0.5, rest=1.0, damping=0.01)
    run = ist.simulate(scene, ist.RadauContact(), h=0.1, duration=2.0)
    np.testing.assert_allclose(run.position[:, 0, 0], 0.4 + 0.1 * np.cos(2 * run.time), rtol=0, atol=1e-7)
    time = run.time[1:]
    np.testing.assert_allclose(run.joint("wheel").coordinate[:, 0], 7 * time**2, rtol=0, atol=1e-12)
    np.testing.assert_allclose(run.joint("wheel").rate[:, 0], 14 * time, rtol=0, atol=1e-9)
    np.testing.assert_allclose(run.joint("motion of wheel").moment[:, 2], 14 * inertia, rtol=0, atol=1e-9)
    decay = np.roots([inertia, 0.01, 0.5])[0]
    swing = 1 - np.exp(decay.real * time) * (np.cos(decay.imag * time) - decay.real / decay.imag * np.sin(decay.imag * time))
    np.testing.assert_allclose(run.joint("door").coordinate[:, 0], swing, rtol=0, atol=1e-6)


@pytest.fixture(scope="module")
def steps():
    """A run of each stepper, with what its certificate is computed from."""
    found = {}
    hinge = ist.Hinge((0, 0, 0), (0, 1, 0), (-LENGTH, 0, 0), (0, 1, 0))
    for name, stepper in (("one stage", ist.GeometricallyImplicit()), ("several", ist.RadauContact())):
        scene = pendulum(hinge)
        found[name] = stepper, scene.build()[0], ist.simulate(scene, stepper, h=0.05, duration=0.3)
    return found


def violations(stepper, system, run, contacts):
    states = bodies.State(run.time, run.position, run.orientation, run.velocity)
    first, ends = (jax.tree.map(lambda a, at=at: a[at], states) for at in (0, slice(1, None)))
    found = certificates(stepper, system, first, ends, contacts, np.full(len(run), run.h))
    return {name: np.max(values, initial=0.0) for name, values in found.items()}


@pytest.mark.parametrize("where", ["one stage", "several"])
@pytest.mark.parametrize("field", ["impulse_1", "impulse_2", "multipliers", "closure", "coordinate", "rate", "eta"])
def test_every_number_of_a_joint_is_bound(steps, where, field):
    stepper, system, run = steps[where]
    if (where, field) == ("one stage", "eta"):
        pytest.skip("one stage has no eta")
    assert max(violations(stepper, system, run, run.contacts).values()) <= 1e-10
    joints = run.joints if where == "one stage" else run.contacts.stages.contacts.joints
    other = dataclasses.replace(joints, **{field: getattr(joints, field) + 1e-8})
    if where == "one stage":
        changed = dataclasses.replace(run.contacts, joints=other)
    else:
        inside = dataclasses.replace(run.contacts.stages.contacts, joints=other)
        changed = dataclasses.replace(run.contacts, stages=dataclasses.replace(run.contacts.stages, contacts=inside))
    assert max(violations(stepper, system, run, changed).values()) > 1e-10


@pytest.mark.parametrize("field", ["coordinate", "rate"])
def test_the_last_digit_of_an_angle_opens_no_joint_of_small_bodies(field):
    """A pendulum of 1 mm which spins by 300 rad/s, in steps of 10 microseconds: a digit of the
    angle, or of its rate, counts as little as it turns a body of that size."""
    size, spin = 1e-3, 300.0
    scene = ist.Scene(dimension=2)
    frame = scene.add_fixed(name="frame", shape=shapes.Disc(size / 10))
    turns = {"position": (size, 0), "velocity": (0, size * spin, spin)}
    bob = scene.add_body(name="bob", shape=shapes.Disc(size / 10), mass=1e-6, inertia=1e-13, **turns)
    scene.add_joint(frame, bob, ist.BallJoint((0, 0), (-size, 0)))
    stepper = ist.GeometricallyImplicit()
    run = ist.simulate(scene, stepper, h=1e-5, duration=0.01)
    told = getattr(run.joints, field)
    for change, beyond in ((np.spacing(told), False), (1e-6 * told, True)):
        other = dataclasses.replace(run.contacts, joints=dataclasses.replace(run.joints, **{field: told + change}))
        assert (violations(stepper, scene.build()[0], run, other)["closure"] > 1e-10) == beyond


def test_a_trajectory_tells_of_its_joints(tmp_path, steps):
    _, _, run = steps["several"]
    assert "1 joint" in repr(run)
    assert run.joint("pivot").force.shape == (6, 3)
    assert run.joint(0).moment.shape == (6, 3)
    with pytest.raises(KeyError, match="no joint is named 'hip': there are 'pivot'"):
        run.joint("hip")
    run.save(tmp_path / "run.npz")
    again = ist.load(tmp_path / "run.npz")
    assert again.joint_names == ("pivot",)
    jax.tree.map(np.testing.assert_array_equal, again.contacts, run.contacts)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"joint": ist.BallJoint(point_1=(0, 0, 0), point_2=(-0.9, 0, 0))}, "joint 'pivot' is open by 0.1 m as it is added"),
        ({"joint": ist.UserConstraint(lambda a, b, t: b[0][:2], rows=3)}, r"has shape \(2,\) .* it needs 3 numbers"),
        ({"joint": ist.UserConstraint(lambda a, b, t: b[0][:1] / 0, rows=1)}, "must be finite"),
        ({"joint": ist.UserConstraint(lambda a, b, t: np.sin(b[0][:1]), rows=1)}, "cannot be traced by JAX"),
        ({"joint": ist.UserConstraint(lambda a, b: b[0][:1], rows=1)}, "cannot be traced by JAX"),
        ({"joint": ist.UserConstraint(lambda a, b, t: None, rows=1)}, "cannot be traced by JAX .*, that returns an array"),
        ({"joint": ist.UserConstraint(lambda a, b, t: [[1.0], [2.0, 3.0]], rows=1)}, "cannot be traced by JAX"),
        ({"project": None}, "`project` = None must be True or False"),
        ({"project": "yes"}, "`project` = 'yes' must be True or False"),
        ({"joint": ist.UserConstraint(3, rows=1)}, "`g` = 3 must be a function"),
        ({"joint": "hinge"}, "`joint` = 'hinge' must be one of BallJoint"),
        (
            {"joint": ist.Hinge(point_1=(0, 0, 0), axis_1=(0, 0, 0), point_2=(-1, 0, 0), axis_2=(0, 1, 0))},
            "`axis_1` = .* points nowhere",
        ),
        ({"second": "wall"}, "a joint is between two bodies"),
        ({"second": "ceiling"}, "both fixed"),
        ({"name": "taken"}, "`name` = 'taken' is taken"),
    ],
)
def test_what_cannot_be_joined_is_refused(change, message):
    scene = ist.Scene()
    wall = scene.add_fixed(name="wall", shape=shapes.Ellipsoid((0.1, 0.1, 0.1)))
    ceiling = scene.add_fixed(name="ceiling", shape=shapes.Ellipsoid((0.1, 0.1, 0.1)))
    bob = scene.add_body(name="bob", shape=shapes.Ellipsoid((0.1, 0.1, 0.1)), mass=1.0, position=(1, 0, 0))
    fits = ist.BallJoint(point_1=(0, 0, 0), point_2=(-1, 0, 0))
    scene.add_joint(wall, bob, fits, name="taken")
    bodies_of = {"wall": wall, "ceiling": ceiling, "bob": bob}
    asked = {"second": "bob", "joint": fits, "name": "pivot"} | change
    others = {key: asked[key] for key in ("name", "project") if key in asked}
    with pytest.raises(ValueError, match=message):
        scene.add_joint(wall, bodies_of[asked["second"]], asked["joint"], **others)
    assert scene.build()[0].joint_names == ("taken",)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda scene: scene.add_spring("knee", stiffness=1.0), "`joint` = 'knee' is no joint's name: there are pivot"),
        (
            lambda scene: scene.add_limit(ist.Hinge([0, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 1]), low=0.0),
            r"`joint` = Hinge\(.* is no joint's name",
        ),
        (lambda scene: scene.add_gear(["hinge"], "pivot", ratio=2.0), r"`joint` = \['hinge'\] is no joint's name"),
        (lambda scene: scene.add_spring("pivot", stiffness=1.0), "joint 'pivot' has 0 coordinates"),
        (lambda scene: scene.add_motion("hinge", 3.0), "`motion` = 3.0 must be a function"),
        (lambda scene: scene.add_motion("hinge", math.sin), "cannot be traced by JAX .* a motion as one of the time alone"),
        (lambda scene: scene.add_motion("hinge", lambda t: t + 1.0), "joint 'motion of hinge' is open by 1 rad"),
        (lambda scene: scene.add_spring("hinge", stiffness=-1.0), "`stiffness` = -1.0 is negative"),
    ],
)
def test_what_cannot_be_driven_is_refused(ask, message):
    scene = pendulum()
    floor = scene.add_fixed(name="floor", shape=shapes.Sphere(0.1), position=(3, 0, 0))
    door = scene.add_body(name="door", shape=shapes.Sphere(0.1), mass=1.0, position=(3, 0, 0))
    scene.add_joint(floor, door, ist.Hinge((0, 0, 0), (0, 0, 1), (0, 0, 0), (0, 0, 1)), name="hinge")
    with pytest.raises(ValueError, match=message):
        ask(scene)


def test_a_stepper_without_joints_and_velocities_that_tear_are_refused():
    with pytest.raises(
        ValueError, match="knows no joints, and the scene has 'pivot': take GeometricallyImplicit, RadauContact, Cone"
    ):
        ist.simulate(pendulum(), ist.ClosedFormGap(), h=0.01, duration=0.1)
    scene = pendulum()
    system, state = scene.build()
    with pytest.raises(ValueError, match="knows no joints"):  # by hand too
        ist.ClosedFormGap().step(system, state, None, 0.01)
    start = dataclasses.replace(state, velocity=np.array([[0.5, 0, 0, 0, 0, 0.0]]))
    with pytest.raises(ValueError, match="joint 'pivot' would be torn at 0.5 m/s"):
        ist.simulate(scene, ist.GeometricallyImplicit(), h=0.01, duration=0.1, start=start)


def test_a_chain_of_many_joints_stays_closed():
    """Beyond 150 unknowns the Jacobian is kept in blocks, and beyond that a chain is long."""
    scene, last = ist.Scene(), None
    wall = scene.add_fixed(name="wall", shape=shapes.Ellipsoid((0.1, 0.1, 0.1)))
    for i in range(24):
        link = scene.add_body(name=f"link {i}", shape=shapes.Ellipsoid((0.5, 0.1, 0.1)), mass=1.0, position=(i + 0.5, 0, 0))
        end = (0, 0, 0) if last is None else (0.5, 0, 0)
        scene.add_joint(last or wall, link, ist.BallJoint(point_1=end, point_2=(-0.5, 0, 0)))
        last = link
    run = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.01, duration=0.2)
    assert scene.build()[0].unknown_count == 24 * 9
    assert np.max(np.abs(run.joints.closure)) <= 1e-12
    assert set(run.stats.rung) == {0}

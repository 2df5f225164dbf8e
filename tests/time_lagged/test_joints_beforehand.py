"""Joints in the steppers that ask beforehand: their own stabilisation, with contacts, under
`compare`; what they refuse."""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ellipj, ellipk

import implicit_stepper as ist
import shapes
from implicit_stepper.constraints.joint_rows import rows_and_rank
from implicit_stepper.model import bodies
from implicit_stepper.stepping.loop import certificates

G, LENGTH, MASS, INERTIA = 9.81, 1.0, 2.0, 0.3
W = np.sqrt(MASS * G * LENGTH / (INERTIA + MASS * LENGTH**2))  # [rad/s], of small swings
STEPPERS = {
    "ccp": ist.ConeComplementarity(),
    "lcp": ist.Linearized(),
    "convex": ist.Convex(scheme="symplectic"),
    "explicit": ist.Explicit(),
}


def pendulum():
    """A body released level, with its centre 1 m from a fixed pivot."""
    scene = ist.Scene()
    wall = scene.add_fixed(name="wall", shape=shapes.Sphere(0.1))
    bob = scene.add_body(
        name="bob", shape=shapes.Sphere(0.1), mass=MASS, inertia=(0.2, INERTIA, 0.1), position=(LENGTH, 0, 0)
    )
    scene.add_joint(wall, bob, ist.BallJoint(point_1=(0, 0, 0), point_2=(-LENGTH, 0, 0)), name="pivot")
    return scene


def exact(time):
    """Positions and velocities of the bob, while it falls and rises for the first time: sin(phi /
    2) = k sn(K - w t), with phi from the lowest point, k = sin(45 degrees), and phi' = -w sqrt(2
    cos phi)."""
    k = np.sin(np.pi / 4)
    sn, _, _, _ = ellipj(ellipk(k**2) - W * np.asarray(time), k**2)
    phi, none = 2 * np.arcsin(k * sn), 0 * sn
    rate = -W * np.sqrt(2 * np.maximum(np.cos(phi), 0.0))
    position = np.stack([LENGTH * np.sin(phi), none, -LENGTH * np.cos(phi)], axis=-1)
    velocity = [LENGTH * rate * np.cos(phi), none, LENGTH * rate * np.sin(phi), none, -rate, none]
    return position[:, None], np.stack(velocity, axis=-1)[:, None]


@pytest.fixture(scope="module")
def compared():
    return ist.compare(pendulum(), STEPPERS, [0.01, 0.005], exact, duration=1.0)


@pytest.mark.parametrize("name", STEPPERS)
def test_compare_takes_a_mechanism_and_finds_order_one(compared, name):
    first, second = (entry for entry in compared.entries if entry.method == name)
    assert first.failure == second.failure == ""
    assert second.order == pytest.approx(1, abs=0.15)
    apart = [np.max(np.abs(compared.trajectories[name, h].joints.closure)) for h in (0.01, 0.005)]
    # what is stabilised is of second order in h; without it, every step leaves as much, and the sum
    # is of first
    assert np.log2(apart[0] / apart[1]) == pytest.approx(1 if name == "explicit" else 2, abs=0.1)


def test_three_methods_are_one_where_nothing_touches(compared):
    """Half-implicit symplectic Euler with G V = -g/h: eliminated from three problems of contact,
    and the same motion."""
    own = compared.trajectories["ccp", 0.01]
    for name in ("lcp", "convex"):
        other = compared.trajectories[name, 0.01]
        np.testing.assert_allclose(other.position, own.position, rtol=0, atol=1e-11)
        np.testing.assert_allclose(other.joints.multipliers, own.joints.multipliers, rtol=0, atol=1e-11)


def test_schemes_that_joints_bring_energy_to_are_told():
    """A body turns freely about a pin at 10 rad/s, so that nothing does work: with midpoint it
    gains as exp(h w^2 t) for as long as w stays what it is, 10 % of it within 8 ms."""
    scene = ist.Scene(dimension=2, gravity=(0, 0))
    wall = scene.add_fixed(name="wall", shape=shapes.Disc(0.01))
    turns = {"position": (0.5, 0), "velocity": (0, 5.0, 10.0)}
    bob = scene.add_body(name="bob", shape=shapes.Disc(0.1), mass=1.0, inertia=0.02, **turns)
    scene.add_joint(wall, bob, ist.BallJoint((0, 0), (-0.5, 0)), name="pin")
    with pytest.warns(ist.errors.AccuracyWarning, match="gains energy"):
        run = ist.simulate(scene, ist.Convex(), h=1e-4, duration=8e-3)
    assert np.log(run.kinetic_energy()[-1] / run.kinetic_energy()[0]) == pytest.approx(1e-4 * 10**2 * 8e-3, rel=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = ist.simulate(scene, ist.Convex(scheme="symplectic"), h=1e-4, duration=8e-3)
    assert run.kinetic_energy()[-1] <= run.kinetic_energy()[0]


def test_what_is_apart_at_the_start_is_closed_in_one_step():
    """Negrut (5c), (8). A gap of 1 mm is gone, and what is left is of second order: of an arm r
    turned by h omega, in closed form, r (1 - cos) along it and r (h omega - sin) across."""
    _, state = pendulum().build()
    state = dataclasses.replace(
        state,
        position=state.position + np.array([1e-3, 0, 0]),
        velocity=np.array([[0, 0, -LENGTH, 0, 1.0, 0]]),
    )
    for name in ("ccp", "lcp", "convex"):
        run = ist.simulate(pendulum(), STEPPERS[name], h=0.01, duration=0.01, start=state)
        angle = 0.01 * run.velocity[-1, 0, 4]
        left = np.linalg.norm(run.joints.closure[-1, 0])
        assert left == pytest.approx(LENGTH * np.hypot(1 - np.cos(angle), angle - np.sin(angle)), abs=1e-14)
        assert left <= 0.51 * angle**2 <= 1e-4


@pytest.mark.parametrize("name", ["ccp", "explicit"])
@pytest.mark.parametrize("field", ["impulse_1", "impulse_2", "multipliers", "closure"])
def test_every_number_of_a_joint_is_bound(compared, name, field):
    stepper, run = STEPPERS[name], compared.trajectories[name, 0.01]
    states = bodies.State(run.time, run.position, run.orientation, run.velocity)
    first, ends = (jax.tree.map(lambda a, at=at: a[at], states) for at in (0, slice(1, None)))
    system, sizes = pendulum().build()[0], np.full(len(run), run.h)

    def worst(contacts):
        return max(np.max(v, initial=0.0) for v in certificates(stepper, system, first, ends, contacts, sizes).values())

    assert worst(run.contacts) <= 1e-10
    other = dataclasses.replace(run.joints, **{field: getattr(run.joints, field) + 1e-8})
    assert worst(dataclasses.replace(run.contacts, joints=other)) > 1e-10


def test_a_light_pendulum_hides_no_heavy_one_beside_it():
    """Of 10^6 kg and of a milligram: two hinges are ten equations, and a pendulum moves as it does
    whatever its mass."""
    runs = []
    for mass in (1.0, 1e6):
        scene = ist.Scene()
        wall = scene.add_fixed(name="wall", shape=shapes.Sphere(0.1))
        for name, at, own in (("heavy", 0.0, mass), ("light", 3.0, 1 / mass)):
            shape = shapes.Sphere(0.5 if name == "heavy" else 0.005)
            body = scene.add_body(name=name, shape=shape, mass=own, position=(1, at, 0))
            hinge = ist.Hinge(point_1=(0, at, 0), axis_1=(0, 1, 0), point_2=(-1, 0, 0), axis_2=(0, 1, 0))
            scene.add_joint(wall, body, hinge, name=name)
        assert rows_and_rank(*scene.build()) == (10, 10)
        runs.append(ist.simulate(scene, ist.ConeComplementarity(), h=0.01, duration=0.05))
    np.testing.assert_allclose(runs[1].position, runs[0].position, rtol=0, atol=1e-12)


# [m]: of a ball's centre from its hinge, of the hinge from the floor, of the ball
REACH, HEIGHT, RADIUS = 0.6, 0.3, 0.1


def ball_on_a_hinge(double=False):
    """A ball on an arm, let go level; `double`: on two hinges on one axis."""
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    ball = scene.add_body(name="ball", shape=shapes.Sphere(RADIUS), mass=1.0, position=(REACH, 0, HEIGHT))
    for i in range(1 + double):
        hinge = ist.Hinge(point_1=(0, i, HEIGHT), axis_1=(0, 1, 0), point_2=(-REACH, i, 0), axis_2=(0, 1, 0))
        scene.add_joint(floor, ball, hinge, name=f"hinge {i}")
    scene.add_contact(floor, ball, friction=0.3)
    return scene


@pytest.mark.parametrize(("name", "twice"), [pytest.param("ccp", True, marks=pytest.mark.thorough), ("lcp", False)])
def test_a_ball_on_a_hinge_lands_and_redundant_hinges_change_nothing(name, twice):
    """It comes to rest with its lowest point on the floor; hinge and floor share its weight."""
    single = ist.simulate(ball_on_a_hinge(), STEPPERS[name], h=0.01, duration=0.5)
    angle = np.arcsin((HEIGHT - RADIUS) / REACH)
    assert single.joint("hinge 0").coordinate[-1, 0] == pytest.approx(angle, abs=1e-6)
    assert abs(single.contacts.gap[-1, 0]) <= 1e-9
    force = single.joint("hinge 0").force[-1]
    assert force[2] + single.contacts.normal_impulse[-1, 0] / 0.01 == pytest.approx(G, abs=1e-6)
    if not twice:
        return
    double = ist.simulate(ball_on_a_hinge(True), STEPPERS[name], h=0.01, duration=0.5)
    np.testing.assert_allclose(double.position, single.position, rtol=0, atol=1e-9)
    both = sum(double.joint(f"hinge {i}").force for i in (0, 1))
    np.testing.assert_allclose(both[-1], force, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.thorough] if name != "lcp" else []) for name in STEPPERS]
)
def test_there_may_be_more_contacts_than_joints(name):
    """One of four discs hangs on a pin, the others fall freely above a floor."""
    scene = ist.Scene(dimension=2)
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1), offset=-5.0))
    discs = [scene.add_body(name=f"{i}", shape=shapes.Disc(0.1), mass=1.0, position=(i, 0)) for i in range(4)]
    scene.add_joint(floor, discs[0], ist.BallJoint((0, 0), (0, 0)), name="pin")
    for disc in discs:
        scene.add_contact(floor, disc, friction=0.4)
    run = ist.simulate(scene, STEPPERS[name], h=0.01, duration=0.02)
    np.testing.assert_allclose(run.velocity[-1, :, 1], [0, *[-0.02 * G] * 3], rtol=0, atol=1e-12)
    np.testing.assert_allclose(run.joint("pin").force[-1], [0, G], rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["ccp", "explicit"])
def test_a_spring_pulls_by_what_it_has_before_the_step(name):
    """A mass on a spring: x'' = -W^2 x by symplectic Euler, and by explicit Euler, as two numbers a
    step."""
    scene = ist.Scene(gravity=(0, 0, 0))
    wall = scene.add_fixed(name="wall", shape=shapes.Sphere(0.1))
    bob = scene.add_body(name="bob", shape=shapes.Sphere(0.1), mass=2.0, position=(0.5, 0, 0))
    scene.add_joint(wall, bob, ist.Spring((0, 0, 0), (0, 0, 0), stiffness=8.0, length=0.4, damping=0.5))
    run, h = ist.simulate(scene, STEPPERS[name], h=0.01, duration=0.5), 0.01
    x, v, places = 0.5, 0.0, [0.5]
    for _ in range(50):
        new = v - h * (8.0 * (x - 0.4) + 0.5 * v) / 2.0
        x, v = x + h * (v if name == "explicit" else new), new
        places.append(x)
    np.testing.assert_allclose(run.position[:, 0, 0], places, rtol=0, atol=1e-13)


def test_what_they_do_not_know_of_joints_is_refused_by_name():
    def hinged(friction=None, more=None):
        scene = ist.Scene()
        wall = scene.add_fixed(name="wall", shape=shapes.Sphere(0.1))
        bob = scene.add_body(name="bob", shape=shapes.Sphere(0.1), mass=MASS, position=(1, 0, 0))
        hinge = ist.Hinge((0, 0, 0), (0, 1, 0), (-1, 0, 0), (0, 1, 0), friction=friction)
        scene.add_joint(wall, bob, hinge, name="hinge")
        if more is not None:
            scene.add_joint(wall, bob, more, name="more than a hinge")
        return scene

    blade = ist.VelocityConstraint(lambda one, other, time: other[2][1:2], rows=1)
    pull = ist.PairLoad(lambda one, other, time: jnp.append(one[0] - other[0], jnp.zeros(3)))
    rubbing, limited, driven = hinged(ist.JointFriction(0.3, radius=0.1)), hinged(), hinged()
    limited.add_limit("hinge", low=-0.1)
    driven.add_motor("hinge", speed=1.0, most=2.0)
    cases = (
        (rubbing, "friction"), (limited, "limits"), (driven, "motors"),
        (hinged(more=blade), "constraints on velocities"), (hinged(more=pull), "loads of a user's own"),
    )  # fmt: skip
    for scene, law in cases:
        for stepper in STEPPERS.values():
            with pytest.raises(ValueError, match=f"no {law}, which .*hinge.* has: take GeometricallyImplicit or Radau"):
                ist.simulate(scene, stepper, h=0.01, duration=0.1)
    with pytest.raises(ValueError, match="'gauss-seidel' goes from contact to contact .* 'apgd' or 'barzilai-borwein'"):
        ist.simulate(hinged(), ist.ConeComplementarity(solver="gauss-seidel"), h=0.01, duration=0.1)

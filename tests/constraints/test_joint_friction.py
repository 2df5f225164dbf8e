"""Friction in joints: against closed forms and an integrator of its own, at rest under load, and
what it refuses."""

import dataclasses

import jax
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import implicit_stepper as ist
import shapes
from implicit_stepper.model import bodies
from implicit_stepper.stepping.loop import certificates

G, MASS, LENGTH, INERTIA = 9.81, 2.0, 1.0, 0.3
ARM, ARM_INERTIA, ARM_SPIN = 0.3, 0.5, 1.0  # [m], [kg m^2] about its pin, [rad/s]
MU, RADIUS = 0.3, 0.1
WHEEL, SPIN = 0.09, 20.0  # [kg m^2], [rad/s]
# [s]: the axle carries the weight, whose friction has the moment mu r m g
STOP = WHEEL * SPIN / (MU * RADIUS * MASS * G)


def scene(arm=False):
    """A pendulum that is released level, and a wheel that spins on its axle; both pins rub. The pin
    of an `arm` carries no weight."""
    made = ist.Scene(dimension=2)
    wall = made.add_fixed(name="wall", shape=shapes.HalfPlane(normal=(0, 1), offset=-9))
    rubs = ist.JointFriction(MU, radius=RADIUS)
    bob = made.add_body(name="bob", shape=shapes.Disc(0.1), mass=MASS, inertia=INERTIA, position=(LENGTH, 0))
    made.add_joint(wall, bob, ist.BallJoint((0, 0), (-LENGTH, 0), friction=rubs), name="pin")
    spin = {"position": (5, 0), "velocity": (0, 0, SPIN)}
    wheel = made.add_body(name="wheel", shape=shapes.Disc(0.3), mass=MASS, inertia=WHEEL, **spin)
    made.add_joint(wall, wheel, ist.BallJoint((5, 0), (0, 0), friction=rubs), name="axle")
    if arm:
        turns = {"position": (9 + ARM, 0), "velocity": (0, ARM * ARM_SPIN, ARM_SPIN), "wrench": (0, MASS * G, 0)}
        inertia = ARM_INERTIA - MASS * ARM**2
        body = made.add_body(name="arm", shape=shapes.Disc(0.1), mass=MASS, inertia=inertia, **turns)
        joint = ist.BallJoint((9, 0), (-ARM, 0), friction=ist.JointFriction(0.4, radius=0.05))
        made.add_joint(wall, body, joint, name="pin of the arm")
    return made


def acceleration(angle, rate):
    """Of the pendulum: its pin's force, which bounds the friction, depends on the acceleration that
    friction changes."""
    about_pin, found = INERTIA + MASS * LENGTH**2, 0.0
    for _ in range(60):
        along = -LENGTH * rate**2 + G * np.sin(angle)
        across = LENGTH * found + G * np.cos(angle)
        force = MASS * np.hypot(along, across)
        found = (-MASS * G * LENGTH * np.cos(angle) - MU * RADIUS * force * np.sign(rate)) / about_pin
    return found


def swing(time):
    """Angle of the pendulum on its first way down, from level."""
    start = 1e-9  # it begins to fall, so that the sign of its rate is known
    state = [acceleration(0.0, -1e-9) * start**2 / 2, acceleration(0.0, -1e-9) * start]
    solved = solve_ivp(lambda t, y: [y[1], acceleration(*y)], (start, time), state, rtol=1e-12, atol=1e-13)
    return solved.y[0, -1]


@pytest.fixture(scope="module")
def chosen():
    return ist.simulate(scene(arm=True), ist.RadauContact(), tol=1e-8, duration=4.0)


def test_a_wheel_stops_when_its_axle_says(chosen):
    (stop,) = [event for event in chosen.events if event.contact == "axle"]
    assert (stop.kind, stop.time) == ("sticks", pytest.approx(STOP, abs=1e-9))
    spins = chosen.time <= STOP
    np.testing.assert_allclose(chosen.velocity[spins, 1, 2], SPIN * (1 - chosen.time[spins] / STOP), rtol=0, atol=1e-9)
    assert np.all(chosen.velocity[~spins, 1] == pytest.approx(0, abs=1e-12))


def test_a_pendulum_rubs_by_what_its_pin_carries(chosen):
    turned = chosen.at(1.0).orientation[0, 0]
    assert turned == pytest.approx(swing(1.0), abs=2e-8)
    turns = [event for event in chosen.events if event.contact == "pin"]
    assert turns[0].kind == "sticks"  # at the first point of return


def test_an_arm_slips_on_while_a_pendulum_turns_back(chosen):
    """Where no smooth step crosses that, one of first order does, and smooth ones go on from it. A
    step of first order leaves velocities that an impulse of the joints sets right, of which their
    friction has no part: some 1e-7 rad/s of the arm's speed."""
    k = 0.4 * 0.05 * MASS * ARM / ARM_INERTIA
    kappa = k / np.sqrt(1 - k**2)
    assert chosen.counts["one-stage steps"] <= 10
    np.testing.assert_allclose(chosen.velocity[:, 2, 2], ARM_SPIN / (1 + kappa * ARM_SPIN * chosen.time), rtol=0, atol=2e-6)


def test_first_order_steps_converge_to_it():
    """The arm turns at w = w_0 / (1 + kappa w_0 t), as its pin carries m l sqrt(w^4 + (w')^2); from
    10 rad/s that is 6.75612543 after 2 s."""
    k = 0.4 * 0.05 * MASS * ARM / ARM_INERTIA
    kappa, errors = k / np.sqrt(1 - k**2), []
    assert 10 / (1 + kappa * 10 * 2) == pytest.approx(6.75612543, abs=5e-9)
    exact = [swing(0.8), ARM_SPIN / (1 + kappa * ARM_SPIN * 0.8)]
    for h in (0.02, 0.01):
        run = ist.simulate(scene(arm=True), ist.GeometricallyImplicit(), h=h, duration=0.8)
        errors.append(np.abs(np.subtract([run.orientation[-1, 0, 0], run.velocity[-1, 2, 2]], exact)))
        # the wheel's momentum is exact whatever the step
        assert run.velocity[-1, 1, 2] == pytest.approx(SPIN * (1 - 0.8 / STOP), abs=1e-10)
    assert np.log2(errors[0] / errors[1]) == pytest.approx([1, 1], abs=0.15)


def sledge(slope, mu, aside=0.0):
    """A sledge on a guide that falls at an angle `slope` [rad], and that a force `aside` [N]
    presses against its side."""
    made = ist.Scene()
    wall = made.add_fixed(name="wall", shape=shapes.HalfSpace(normal=(0, 0, 1), offset=-9))
    presses = {"position": (0, 0, 0), "wrench": (0, aside, 0, 0, 0, 0)}
    body = made.add_body(name="sledge", shape=shapes.Sphere(0.1), mass=1.0, **presses)
    along = (np.cos(slope), 0, -np.sin(slope))
    guide = ist.Slider((0, 0, 0), along, (0, 0, 0), along, friction=ist.JointFriction(mu))
    made.add_joint(wall, body, guide, name="guide")
    return made


@pytest.mark.parametrize(
    ("stepper", "ahead"),
    [(ist.GeometricallyImplicit(), 0.01), pytest.param(ist.RadauContact(), 0.0, marks=pytest.mark.thorough)],
)
def test_a_sledge_moves_if_and_only_if_the_slope_is_steeper_than_friction(stepper, ahead):
    """Implicit Euler is a hundredth of the way `ahead` after a hundred steps."""
    slope = 0.4
    for share in (1 - 1e-9, 1 + 1e-9):
        run = ist.simulate(sledge(slope, share * np.tan(slope)), stepper, h=0.1, duration=10.0)
        moved = run.joint("guide").coordinate[-1, 0]
        falls = (1 + ahead) * (1 - share) * G * np.sin(slope) * 10.0**2 / 2  # 2e-7 m, or none
        assert moved == pytest.approx(max(falls, 0.0), abs=1e-11 if share < 1 else 1e-12)


def test_a_bead_on_a_wire_rubs_by_both_reactions():
    """It falls with g sin(slope) - mu N / m, N of length sqrt((m g cos(slope))^2 + aside^2)."""
    slope, mu, aside = 0.4, 0.2, 6.0
    run = ist.simulate(sledge(slope, mu, aside), ist.GeometricallyImplicit(), h=0.1, duration=1.0)
    falls = G * np.sin(slope) - mu * np.hypot(G * np.cos(slope), aside)
    np.testing.assert_allclose(run.joint("guide").rate[:, 0], falls * run.time[1:], rtol=0, atol=1e-12)


def test_what_friction_gives_is_certified():
    made, stepper = scene(), ist.GeometricallyImplicit()
    run = ist.simulate(made, stepper, h=0.05, duration=0.2)
    system, _ = made.build()
    states = bodies.State(run.time, run.position, run.orientation, run.velocity)
    first, ends = (jax.tree.map(lambda a, at=at: a[at], states) for at in (0, slice(1, None)))
    for change, violated in ((0.0, False), (1e-6, True), (-1e-6, True)):
        multipliers = np.array(run.joints.multipliers)
        multipliers[:, 1, 2] += change  # the moment of the axle
        joints = dataclasses.replace(run.joints, multipliers=multipliers)
        found = certificates(
            stepper, system, first, ends, dataclasses.replace(run.contacts, joints=joints), np.full(len(run), run.h)
        )
        assert (max(np.max(values, initial=0.0) for values in found.values()) <= 1e-10) != violated
        assert (np.max(found["joint friction"]) <= 1e-10) != violated


@pytest.mark.thorough
def test_runs_have_derivatives_by_friction_and_by_joints():
    """Of the wheel's spin by mu in closed form; of the pendulum's angle by the place of its pin in
    differences."""
    system, start = scene().build()
    (group,) = system.joints

    @jax.jit
    def end(mu, point):
        place = group.joint.parameters | {"point_2": point}
        other = dataclasses.replace(group, mu=mu, joint=dataclasses.replace(group.joint, parameters=place))
        run = ist.rollout(dataclasses.replace(system, joints=(other,)), ist.GeometricallyImplicit(), 0.02, 10, start=start)
        return run.states.velocity[-1, 1, 2], run.states.orientation[-1, 0, 0]

    at = jax.numpy.asarray(group.mu), jax.numpy.asarray(group.joint.parameters["point_2"])
    by_mu, by_point = jax.grad(lambda *of: end(*of)[0] + end(*of)[1], (0, 1))(*at)
    # the pendulum's angle has a part in by_mu[0]
    np.testing.assert_allclose(by_mu[1], -RADIUS * MASS * G * 0.2 / WHEEL, rtol=0, atol=1e-9)
    step = np.zeros((2, 2))
    step[0] = 1e-6, 2e-6
    differs = (end(at[0], at[1] + step)[1] - end(at[0], at[1] - step)[1]) / 2
    assert np.sum(by_point * step) == pytest.approx(float(differs), rel=1e-6)


def test_a_motor_drives_with_what_it_has(tmp_path):
    """A pendulum without weight reaches 3 rad/s after 1.5 s of 4.6 N m; then the motor has nothing
    to do."""
    made = ist.Scene(dimension=2, gravity=(0, 0))
    wall = made.add_fixed(name="wall", shape=shapes.HalfPlane(normal=(0, 1), offset=-9))
    bob = made.add_body(name="bob", shape=shapes.Disc(0.1), mass=MASS, inertia=INERTIA, position=(LENGTH, 0))
    made.add_joint(wall, bob, ist.BallJoint((0, 0), (-LENGTH, 0)), name="pin")
    motor = made.add_motor("pin", speed=3.0, most=4.6)
    made.save(tmp_path / "scene.toml")
    run = ist.simulate(ist.load_scene(tmp_path / "scene.toml"), ist.GeometricallyImplicit(), h=0.01, duration=2.0)
    about_pin = INERTIA + MASS * LENGTH**2
    time = run.time[1:]  # steps of first order lag behind a circle: 3 rad/s are reached 2 % late
    np.testing.assert_allclose(run.joint(motor).moment[time < 1.4, 0], 4.6, rtol=0, atol=1e-10)
    np.testing.assert_allclose(run.joint("pin").rate[time > 1.6, 0], 3.0, rtol=0, atol=1e-12)
    run = ist.simulate(made, ist.RadauContact(), tol=1e-8, duration=2.0)
    (reached,) = run.events
    assert reached == (pytest.approx(3.0 * about_pin / 4.6, abs=1e-8), motor, "sticks")


@pytest.mark.thorough
def test_a_step_begins_from_any_state_of_a_run_without_its_forces():
    """Of a motor on a pin that rubs: whether it sticks depends on the reaction, which is not known
    there, and Newton's method went to and fro between both. The same steps, whatever they begin
    from."""
    made = ist.Scene(dimension=2)
    wall = made.add_fixed(name="wall", shape=shapes.Disc(0.01))
    bob = made.add_body(name="bob", shape=shapes.Disc(0.05), mass=1.0, inertia=0.02, position=(3, 1.7))
    made.add_joint(wall, bob, ist.BallJoint((3, 2), (0, 0.3), friction=ist.JointFriction(0.3, radius=0.04)), name="pin")
    made.add_motor("pin", speed=2.0, most=0.5)
    run, (system, _) = ist.simulate(made, ist.GeometricallyImplicit(), h=0.005, duration=0.2), made.build()
    states = ist.State(run.time[:-1], run.position[:-1], run.orientation[:-1], run.velocity[:-1])
    one = jax.jit(jax.vmap(lambda state: ist.rollout(system, ist.GeometricallyImplicit(), 0.005, 1, start=state)))
    found = one(states)
    assert np.all(np.asarray(found.result) == ist.Result.SOLVED)
    np.testing.assert_allclose(found.states.velocity[:, 1], run.velocity[1:], rtol=0, atol=1e-10)


@pytest.mark.thorough
def test_a_slider_crank_that_rubs_everywhere_turns_from_its_dead_centre():
    """There its forces are not unique, and a start in which joints stick contradicts those that are
    moved. The motion is that of geometry; what friction takes is in `examples/slider_crank.py`."""
    crank, rod, rubs = 0.3, 1.0, ist.JointFriction(0.2, radius=0.03)
    made = ist.Scene(dimension=2)
    frame = made.add_fixed(name="frame", shape=shapes.HalfPlane(normal=(0, 1), offset=-9))
    inner = made.add_body(name="crank", shape=shapes.Disc(0.1), mass=0.5, inertia=0.01, position=(crank / 2, 0))
    outer = made.add_body(name="rod", shape=shapes.Disc(0.1), mass=1.0, inertia=0.1, position=(crank + rod / 2, 0))
    block = made.add_body(name="block", shape=shapes.Disc(0.1), mass=2.0, inertia=0.1, position=(crank + rod, 0))
    made.add_joint(frame, inner, ist.BallJoint((0, 0), (-crank / 2, 0), friction=rubs), name="axle")
    made.add_joint(inner, outer, ist.BallJoint((crank / 2, 0), (-rod / 2, 0), friction=rubs), name="pin")
    made.add_joint(outer, block, ist.BallJoint((rod / 2, 0), (0, 0), friction=rubs), name="gudgeon")
    guide = ist.Slider((0, 0), (1, 0), (0, 0), (1, 0), friction=ist.JointFriction(0.1))
    made.add_joint(frame, block, guide, name="guide")
    made.add_motion("axle", ist.Motion("2*t**2"))
    for stepper, h in ((ist.GeometricallyImplicit(), 0.005), (ist.RadauContact(stages=2), 0.02)):
        run = ist.simulate(made, stepper, h=h, duration=1.5)
        angle = 2 * run.time**2
        exact = crank * np.cos(angle) + np.sqrt(rod**2 - (crank * np.sin(angle)) ** 2)
        np.testing.assert_allclose(run.body("block").position[:, 0], exact, rtol=0, atol=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("h", [0.004, 0.002, 0.0005])
def test_four_bars_that_rub_turn_back_within_steps_of_several_stages(h):
    """They fall from rest and swing back: a pin turns around within a step, whose stages are on both
    sides of that. Energy is lost alone, by what chosen steps say."""
    bars, ground, start = np.array([0.1, 0.3, 0.25]), 0.32, 2.0
    masses = np.array([0.5, 1.0, 0.8])
    knee = bars[0] * np.array([np.cos(start), np.sin(start)])
    apart = np.array([ground, 0]) - knee
    way = np.linalg.norm(apart)
    opens = np.arccos((bars[1] ** 2 + way**2 - bars[2] ** 2) / (2 * bars[1] * way))
    turned = np.arctan2(apart[1], apart[0]) + opens
    top = knee + bars[1] * np.array([np.cos(turned), np.sin(turned)])
    ends = np.array([[0, 0], knee, top]), np.array([knee, top, [ground, 0]])
    made, rubs = ist.Scene(dimension=2), ist.JointFriction(0.3, radius=0.01)
    last, place = made.add_fixed(name="frame", shape=shapes.Disc(0.01)), (0, 0)
    frame = last
    for i, (begins, stops) in enumerate(zip(*ends, strict=True)):
        lies = {"position": (begins + stops) / 2, "angle": np.arctan2(*(stops - begins)[::-1])}
        inertia = masses[i] * bars[i] ** 2 / 12
        bar = made.add_body(name=f"bar {i}", shape=shapes.Disc(0.01), mass=masses[i], inertia=inertia, **lies)
        made.add_joint(last, bar, ist.BallJoint(place, (-bars[i] / 2, 0), friction=rubs), name=f"pin {i}")
        last, place = bar, (bars[i] / 2, 0)
    made.add_joint(frame, last, ist.BallJoint((ground, 0), place, friction=rubs), name="pin 3")
    run = ist.simulate(made, ist.RadauContact(), h=h, duration=1.0)
    reference = ist.simulate(made, ist.RadauContact(), tol=1e-8, duration=1.0)
    assert np.all(np.diff(run.energy().total) <= 1e-9)
    # of first order where a pin turns: accelerations jump there, by some m/s^2 or rad/s^2
    np.testing.assert_allclose(run.velocity[-1, 0], reference.velocity[-1, 0], rtol=0, atol=2 * h)


def test_a_scene_file_has_it(tmp_path):
    scene().save(tmp_path / "scene.toml")
    system, _ = ist.load_scene(tmp_path / "scene.toml").build()
    (group,) = system.joints
    np.testing.assert_array_equal((group.mu, group.lever), [[MU, MU], [RADIUS, RADIUS]])


@pytest.mark.parametrize(
    ("joint", "message"),
    [
        (lambda: ist.JointFriction(-0.1), "`mu` = -0.1 is negative"),
        (lambda: ist.JointFriction(0.1, radius=0.0), "`radius`"),
        (lambda: ist.BallJoint((0, 0, 0), (-1, 0, 0), friction=ist.JointFriction(0.1)), "give a `radius` for what turns"),
        (lambda: ist.BallJoint((0, 0, 0), (-1, 0, 0), friction=ist.JointFriction(0.1, 0.1, mu_s=0.2)), "take a Hinge"),
        (
            lambda: ist.Hinge((0, 0, 0), (0, 1, 0), (-1, 0, 0), (0, 1, 0), friction=ist.JointFriction(0.1)),
            "give a `radius` for what turns",
        ),
        (lambda: ist.Hinge((0, 0, 0), (0, 1, 0), (-1, 0, 0), (0, 1, 0), friction=0.1), "must be a JointFriction"),
    ],
)
def test_friction_that_makes_no_sense_is_refused(joint, message):
    made = ist.Scene()
    wall = made.add_fixed(name="wall", shape=shapes.Sphere(0.1))
    bob = made.add_body(name="bob", shape=shapes.Sphere(0.1), mass=1.0, position=(1, 0, 0))
    with pytest.raises(ValueError, match=message):
        made.add_joint(wall, bob, joint())


WHIRL = 20.0 * np.array([2.0, -1.0, 2.0]) / 3  # [rad/s], of a length 20
BODY = {"position": (5, 0, 0), "shape": shapes.Sphere(0.3), "mass": MASS, "inertia": (WHEEL,) * 3}
RUBBING = ist.JointFriction(MU, radius=RADIUS)


def in_space():
    """A ball that spins about its centre, which a ball joint carries; and a pendulum that is
    released level and swings in a plane aslant."""
    made = ist.Scene()
    wall = made.add_fixed(name="wall", shape=shapes.HalfSpace(normal=(0, 0, 1), offset=-9))
    ball = made.add_body(name="ball", velocity=(0, 0, 0, *WHIRL), **BODY)
    made.add_joint(wall, ball, ist.BallJoint((5, 0, 0), (0, 0, 0), friction=RUBBING), name="socket")
    hangs = {"mass": MASS, "inertia": (INERTIA,) * 3, "position": (0.6 * LENGTH, 0.8 * LENGTH, 0)}
    bob = made.add_body(name="bob", shape=shapes.Sphere(0.1), **hangs)
    made.add_joint(wall, bob, ist.BallJoint((0, 0, 0), (-0.6 * LENGTH, -0.8 * LENGTH, 0), friction=RUBBING), name="pin")
    return made


@pytest.fixture(scope="module")
def whirling():
    return ist.simulate(in_space(), ist.RadauContact(), tol=1e-8, duration=4.0)


def test_a_spin_about_any_axis_dies_when_the_closed_form_says(whirling):
    """The joint carries the weight: the moment mu r m g is against the spin, whose direction it
    keeps."""
    (stop,) = [event for event in whirling.events if event.contact == "socket"]
    assert (stop.kind, stop.time) == ("sticks", pytest.approx(STOP, abs=1e-9))
    left = np.maximum(1 - whirling.time / STOP, 0)
    np.testing.assert_allclose(whirling.velocity[:, 0, 3:], left[:, None] * WHIRL, rtol=0, atol=1e-9)


def test_a_pendulum_in_a_plane_aslant_rubs_as_one_with_a_pin(whirling):
    angle = swing(1.0)
    place = LENGTH * np.array([0.6 * np.cos(angle), 0.8 * np.cos(angle), np.sin(angle)])
    np.testing.assert_allclose(whirling.at(1.0).position[1], place, rtol=0, atol=3e-8)


def test_steps_of_first_order_take_the_same_moment_and_are_certified():
    made, stepper, h = in_space(), ist.GeometricallyImplicit(), 0.05
    run = ist.simulate(made, stepper, h=h, duration=0.2)
    np.testing.assert_allclose(run.body("ball").velocity[-1, 3:], (1 - 0.2 / STOP) * WHIRL, rtol=0, atol=1e-10)
    moments = run.joint("socket").moment
    np.testing.assert_allclose(moments, np.tile(-MU * RADIUS * MASS * G * WHIRL / 20, (len(moments), 1)), rtol=0, atol=1e-9)
    system, _ = made.build()
    states = bodies.State(run.time, run.position, run.orientation, run.velocity)
    first, ends = (jax.tree.map(lambda a, at=at: a[at], states) for at in (0, slice(1, None)))
    for change, violated in ((np.zeros(3), False), (1e-6 * WHIRL, True), (1e-6 * np.array([1.0, 2.0, 0.0]), True)):
        multipliers = np.array(run.joints.multipliers)
        multipliers[:, 0, 3:6] += change  # more of it, and aside of the spin
        joints = dataclasses.replace(run.joints, multipliers=multipliers)
        lies = dataclasses.replace(run.contacts, joints=joints)
        found = certificates(stepper, system, first, ends, lies, np.full(len(run), h))
        assert (np.max(found["joint friction"][:, 0]) <= 1e-10) != violated


def test_a_file_keeps_it(tmp_path):
    made = in_space()
    made.save(tmp_path / "scene.toml")
    assert ist.load_scene(tmp_path / "scene.toml").description().joints == made.description().joints

"""Bodies that move as they are told: a conveyor that takes a disc along, a plate that throws a
ball, and what is refused."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.constraints import impact_violations, joint_violations, prescribed, turn_violations
from implicit_stepper.model.records import Joints
from implicit_stepper.run.jumps import refuse_jumps
from implicit_stepper.runtime.errors import NameTakenError

G, MU, SPEED, R, M = 9.81, 0.3, 1.0, 0.1, 2.0
A, W = 0.06, np.sqrt(1.5 * 9.81 / 0.06)  # at most 1.5 g downwards
BELT_MASS = 5.0
ROLLS = SPEED / (3 * MU * G)  # the disc's speed and that of its rim grow as mu g t and 2 mu g t
THROWS = np.arcsin(1 / 1.5) / W  # the plate falls faster than the ball

# infinite ground of the one reaches below the other
pytestmark = pytest.mark.filterwarnings("ignore::implicit_stepper.OverlapWarning")


def belt(time):
    return jnp.stack([SPEED * time, 0 * time]), 0.0


def plate(time):
    return jnp.stack([0 * time + 3, A * jnp.sin(W * time)]), 0.0


def made():
    scene = ist.Scene(dimension=2)
    ground = {"shape": shapes.HalfPlane(normal=(0, 1)), "inertia": 1.0}
    disc = {"shape": shapes.Disc(R), "mass": M, "inertia": M * R**2 / 2}
    belts = scene.add_moving(name="belt", pose=belt, mass=BELT_MASS, **ground)
    puck = scene.add_body(name="puck", position=(0, R), **disc)
    scene.add_contact(belts, puck, friction=MU)
    plates = scene.add_moving(name="plate", pose=plate, mass=1.0, **ground)
    ball = scene.add_body(name="ball", position=(3, R), velocity=(0, A * W, 0), **disc)
    scene.add_contact(plates, ball)
    return scene


@pytest.mark.thorough
def test_a_table_that_turns_half_way_round_within_a_step_does():
    """Half a turn in 6 ms of a step of 10 ms: what is turned by none has the same sine."""

    def turning(time):
        share = jnp.clip((time - 0.032) / 0.006, 0.0, 1.0)
        return jnp.zeros(2), jnp.pi * share**2 * (3 - 2 * share)

    scene = ist.Scene(dimension=2)
    scene.add_moving(name="table", pose=turning, shape=shapes.Disc(0.1), mass=1.0)
    run = ist.simulate(scene, ist.GeometricallyImplicit(), h=0.01, duration=0.06)
    np.testing.assert_allclose(np.cos(run.orientation[[3, 4, -1], 0, 0]), [1, -1, -1], rtol=0, atol=1e-9)


def test_frames_half_a_turn_apart_are_not_parallel():
    for d in (2, 3):
        half = np.diag([-1.0, -1.0, 1.0][:d])
        assert np.min(np.abs(joint_violations._turn(np.eye(d), half))) == 2
        assert np.max(np.abs(joint_violations._turn(np.eye(d), np.eye(d)))) == 0


AMPLITUDE, RATE, STEP = 2.0, 150.0, 0.01


def swung(time):
    return AMPLITUDE * jnp.sin(RATE * time)


def swings(dimension: int) -> ist.Scene:
    """A body whose angle is `swung`: in the plane on a pin that has a motion told within a turn, in
    space by its pose."""
    made = ist.Scene(dimension=dimension)
    if dimension == 2:
        wall = made.add_fixed(name="wall", shape=shapes.Disc(R))
        spins = {"position": (0, 0), "velocity": (0, 0, AMPLITUDE * RATE)}
        wheel = made.add_body(name="wheel", shape=shapes.Disc(R), mass=1.0, **spins)
        made.add_joint(wall, wheel, ist.BallJoint((0, 0), (0, 0)), name="pin")
        made.add_motion("pin", lambda time: jnp.mod(swung(time), 2 * jnp.pi))
        return made

    def pose(time):
        half = swung(time) / 2
        return jnp.zeros(3), jnp.stack([jnp.cos(half), 0.6 * jnp.sin(half), 0.0, 0.8 * jnp.sin(half)])

    made.add_moving(name="wheel", pose=pose, shape=shapes.Sphere(R), mass=1.0)
    return made


@pytest.mark.parametrize("dimension", [2, 3])
def test_a_prescribed_turn_that_is_missed_is_noticed(dimension):
    """By a whole turn, after which the pose is the same: of velocities and of stages. What is
    within half a turn is another root's."""
    system, start = swings(dimension).build()
    (group,) = [own for own in system.joints if isinstance(own.closure, turn_violations._OF_BODIES) and own.bilateral]
    begun, axis = 0.02, np.array([1.0] if dimension == 2 else [0.6, 0.0, 0.8])
    turned = float(swung(begun + STEP) - swung(begun))

    def state(time):
        angle = float(swung(time))
        turn = [angle] if dimension == 2 else np.append(np.cos(angle / 2), np.sin(angle / 2) * axis)
        return dataclasses.replace(start, time=time, orientation=np.array([turn]))

    before, at, still = state(begun), state(begun + STEP), np.zeros(start.velocity.shape)
    for more, told in ((0.0, 0.0), (2 * np.pi, 1.0), (-2 * np.pi, 1.0)):
        moved = np.append(np.zeros(dimension), (turned + more) * axis)
        records = turn_violations.of_stage(system, before, STEP, at, still, moved[None])
        assert float(records[group.numbers[0]]) == told
        member = jax.tree.map(lambda a: a[0], group)
        along = moved[dimension:] if dimension == 2 else moved  # of a pose, in its own frame, as on an axis that stays
        assert float(turn_violations.skips(member, along, begun, STEP, begun + STEP)) == told


@pytest.fixture(scope="module")
def exact_run():
    return ist.simulate(made(), ist.RadauContact(), tol=1e-9, duration=0.2)


def test_a_conveyor_takes_a_disc_along(exact_run):
    (rolls,) = [event for event in exact_run.events if event.contact == 0]
    assert (rolls.kind, rolls.time) == ("sticks", pytest.approx(ROLLS, abs=1e-9))
    puck = exact_run.body("puck")
    assert puck.velocity[-1, 0] == pytest.approx(SPEED / 3, abs=1e-10)
    assert puck.velocity[-1, 2] == pytest.approx(2 * SPEED / 3 / R, abs=1e-9)
    drive = exact_run.joint("drive of belt")
    np.testing.assert_allclose(drive.force[0], [MU * M * G, (BELT_MASS + M) * G], rtol=1e-9)
    np.testing.assert_allclose(drive.force[-1], [0, (BELT_MASS + M) * G], rtol=0, atol=1e-8)


def test_friction_changes_only_the_force_of_the_drive(exact_run):
    """Row 45: the motion is the one prescribed, whatever acts on the body."""
    time = exact_run.time
    np.testing.assert_allclose(exact_run.body("belt").position[:, 0], SPEED * time, rtol=0, atol=1e-14)
    np.testing.assert_allclose(exact_run.body("plate").position[:, 1], A * np.sin(W * time), rtol=0, atol=1e-14)
    np.testing.assert_allclose(exact_run.body("plate").velocity[:, 1], A * W * np.cos(W * time), rtol=0, atol=1e-12)


def test_a_shaken_plate_throws_a_ball_when_it_falls_faster_than_the_ball(exact_run):
    (throws,) = [event for event in exact_run.events if event.contact == 1 and event.kind == "opens"]
    assert throws.time == pytest.approx(THROWS, abs=1e-7)
    up, since = A * W * np.cos(W * THROWS), 0.06 - THROWS
    height = R + A * np.sin(W * THROWS) + up * since - G * since**2 / 2
    assert exact_run.at([0.06]).position[0, -1, 1] == pytest.approx(height, abs=1e-8)
    carried = exact_run.time[1:] < THROWS - 1e-6
    gained = np.diff(A * W * np.cos(W * exact_run.time)) / np.diff(exact_run.time)
    force = exact_run.contact("plate", "ball").force[:, 1]  # means of steps
    np.testing.assert_allclose(force[carried], M * (G + gained)[carried], rtol=0, atol=1e-8)


def test_steps_of_first_order_feel_the_mean_velocity():
    h = 0.01
    run = ist.simulate(made(), ist.GeometricallyImplicit(), h=h, duration=0.2)
    np.testing.assert_allclose(run.body("belt").position[:, 0], SPEED * run.time, rtol=0, atol=1e-11)
    puck = run.body("puck").velocity
    np.testing.assert_allclose(puck[1:11, 0], MU * G * run.time[1:11], rtol=1e-8)
    assert puck[-1, 0] == pytest.approx(SPEED / 3, abs=1e-8)
    np.testing.assert_allclose(run.joint("drive of belt").force[0], [MU * M * G, (BELT_MASS + M) * G], rtol=1e-7)


RISES, SHARE = 0.7, 0.5


def met(law, rises=RISES) -> ist.Scene:
    """A plate that rises at so many m/s, and a ball that falls on it at 1 m/s, without weight."""
    scene = ist.Scene(dimension=2, gravity=(0, 0))
    ground = {"shape": shapes.HalfPlane(normal=(0, 1)), "mass": 1.0, "inertia": 1.0}
    plate = scene.add_moving(name="plate", pose=lambda time: (jnp.stack([0 * time, rises * time]), 0.0), **ground)
    ball = scene.add_body(name="ball", shape=shapes.Disc(R), mass=M, position=(0, R + 0.02), velocity=(0, -1.0, 0))
    scene.add_contact(plate, ball, restitution=law)
    return scene


@pytest.mark.parametrize(
    ("stepper", "law", "how"),
    [
        (ist.GeometricallyImplicit(), ist.Newton(SHARE), {"h": 0.01}),
        pytest.param(ist.RadauContact(), ist.Poisson(SHARE), {"tol": 1e-8}, marks=pytest.mark.thorough),
    ],
)
def test_what_moves_as_it_is_told_gives_energy_in_an_impact(stepper, law, how):
    run = ist.simulate(met(law), stepper, duration=0.04, **how)
    parts = RISES + SHARE * (1 + RISES)
    np.testing.assert_allclose(run.body("ball").velocity[-1], [0, parts, 0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("rises", [RISES, 0.0])
def test_only_what_moves_by_itself_does_work_in_an_impact(rises):
    """p_n v, of a plate at v = 0 none whatever its record says, as where its joint is torn; by either
    law, as the plate has the velocity that it is told before the impact too."""
    system, start = met(None, rises).build()
    p_n = M * (1 + RISES)
    before = dataclasses.replace(start, time=0.01, velocity=np.array([[0, RISES, 0], [0, -1.0, 0]]))
    after = dataclasses.replace(before, velocity=np.array([[0, RISES, 0], [0, RISES, 0]]))
    none, pushed = np.zeros((1, 3)), np.array([[0, p_n, 0]])
    record = Joints(none, pushed, pushed, none, np.zeros((1, 0)), np.zeros((1, 0)))
    jump = np.array([[0, 0, 0], [0, p_n, 0]])
    for late in (False, True):
        work = impact_violations.driving_work(system, before, after, record, jump, late)
        assert float(work) == pytest.approx(p_n * rises, rel=1e-14)


def test_a_pose_in_space_and_its_velocity():
    turn, centre = np.array([0.0, 0.0, 3.0]), np.array([0.2, -0.1, 0.3])

    def pose(time):
        return jnp.stack([jnp.sin(time), time, 0 * time + 1]), jnp.stack(
            [2 * jnp.cos(1.5 * time), 0, 0, 2 * jnp.sin(1.5 * time)]
        )

    position, quaternion = prescribed.first_pose(pose, 3)
    np.testing.assert_allclose([*position, *quaternion], [0, 0, 1, 1, 0, 0, 0], atol=1e-15)
    velocity = prescribed.first_velocity(pose, centre)
    np.testing.assert_allclose(velocity, [*(np.array([1, 1, 0]) + np.cross(turn, centre)), *turn], atol=1e-14)
    form, time = prescribed.following(pose, centre), 0.7
    half = 1.5 * time
    c, s = np.cos(3 * time), np.sin(3 * time)
    place = np.array([np.sin(time), time, 1]) + np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ centre
    there = place, np.array([np.cos(half), 0, 0, np.sin(half)])
    np.testing.assert_allclose(form.closure(form.parameters, None, there, time), 0, atol=1e-15)
    off = form.closure(form.parameters, None, (place, np.array([np.cos(half + 0.005), 0, 0, np.sin(half + 0.005)])), time)
    np.testing.assert_allclose(off, [0, 0, 0, 0, 0, np.sin(0.01)], atol=1e-15)


@pytest.mark.parametrize(
    "stepper",
    [
        ist.Linearized(),
        pytest.param(ist.ConeComplementarity(), marks=pytest.mark.thorough),
        pytest.param(ist.Convex(scheme="symplectic"), marks=pytest.mark.thorough),
    ],
)
def test_methods_with_contacts_beforehand_feel_an_axis_that_turns(stepper):
    """A globe that spins with A about z and tumbles with B about an axis that the spin carries
    along, w = (B cos A t, B sin A t, A), under a ball that rests on it: slips are those of w x r in
    the middle of each step but the first, which has w of its start; a step later they are off by
    A B h."""
    spin, tumble, h = 3.0, 2.0, 0.01

    def pose(time):
        a, b = spin * time / 2, tumble * time / 2
        along, across = jnp.cos(b), jnp.sin(b)
        return jnp.zeros(3), jnp.stack([jnp.cos(a) * along, jnp.cos(a) * across, jnp.sin(a) * across, jnp.sin(a) * along])

    scene = ist.Scene()
    globe = scene.add_moving(name="globe", pose=pose, shape=shapes.Sphere(1.0), mass=1.0)
    ball = scene.add_body(name="ball", shape=shapes.Sphere(R), mass=M, position=(0, 0, 1 + R))
    scene.add_contact(globe, ball, friction=0.0)
    run = ist.simulate(scene, stepper, h=h, duration=6 * h)
    normal, tangent = run.contacts.normal[:, 0], run.contacts.tangent[:, 0]
    slip = run.contacts.slip[:, 0, :1] * tangent + run.contacts.slip[:, 0, 1:2] * np.cross(normal, tangent)
    felt = np.append(0.0, run.time[1:-1] + h / 2)
    turns = np.stack([tumble * np.cos(spin * felt), tumble * np.sin(spin * felt), spin + 0 * felt], axis=1)
    np.testing.assert_allclose(slip, -np.cross(turns, [0, 0, 1.0]), rtol=0, atol=1e-3)


def test_what_is_no_motion_is_refused(tmp_path):
    scene = ist.Scene(dimension=2)
    disc = {"shape": shapes.Disc(R), "mass": 1.0}
    with pytest.raises(ValueError, match="`pose` = 3 must be a function of the time"):
        scene.add_moving(name="a", pose=3, **disc)
    with pytest.raises(ValueError, match=r"that returns a position \(2,\) and a number, the angle"):
        scene.add_moving(name="a", pose=lambda time: (jnp.zeros(3), 0.0), **disc)
    with pytest.raises(ValueError, match="`mass` is missing"):
        scene.add_moving(name="a", pose=belt, shape=shapes.Disc(R))
    scene.add_moving(name="a", pose=lambda time: (jnp.stack([jnp.where(time < 0.125, 0.0, 1.0), 0.0]), 0.0), **disc)
    for how in ({"h": 0.01}, {"tol": 1e-6}):
        with pytest.raises(ValueError, match="motion of joint 'drive of a' jumps at t = 0.125 s"):
            ist.simulate(scene, ist.RadauContact(), duration=0.2, **how)
    with pytest.raises(ValueError, match="the pose of 'a' is a function, which no file can hold"):
        scene.save(tmp_path / "scene.toml")
    with pytest.raises(ValueError, match="knows no joints, and the scene has 'drive of a'"):
        ist.simulate(scene, ist.ClosedFormGap(), h=0.01, duration=0.2)


def test_rates_of_motions_at_switches_are_those_after_them():
    """A plate that starts at .125 s: of `jnp.maximum` JAX takes half of the speed there."""

    def run(along):
        scene = ist.Scene(dimension=2)
        pose = lambda time: (jnp.stack([along(time - 0.125), jnp.cos(time)]), 0.0)  # noqa: E731
        scene.add_moving(name="a", shape=shapes.Disc(R), mass=1.0, pose=pose)
        system, state = scene.build()
        refuse_jumps(system, state, 0.2, [0.1, 0.125])

    with pytest.raises(ValueError, match="drive of a' has another rate at its switch t = 0.125 s than right after it"):
        run(lambda late: jnp.maximum(late, 0.0))
    run(lambda late: jnp.where(late < 0, 0.0, late))
    run(lambda late: late**2)


def test_a_refused_body_that_moves_leaves_nothing_behind():
    """Neither its own parts nor the ground on which it would move, whose name is taken."""
    scene, disc = ist.Scene(dimension=2), {"shape": shapes.Disc(R), "mass": 1.0}
    wall = scene.add_fixed(name="wall", shape=shapes.HalfPlane(normal=(0, 1), offset=-9))
    ball = scene.add_body(name="ball", position=(0, 1), **disc)
    scene.add_joint(wall, ball, ist.BallJoint((0, 1), (0, 0)), name="drive of a")
    before = scene.description(), scene.build()[0].names, list(scene.joint_specs())
    for name, given, message in (
        ("a", disc, "'drive of a' is taken"),
        ("ball", disc, "'ball' is taken"),
        ("b", {"shape": shapes.Disc(R)}, "`mass` is missing"),
        ("inertial frame", disc, "is that of the ground"),
    ):
        with pytest.raises(ValueError, match=message):
            scene.add_moving(name=name, pose=belt, **given)
        assert (scene.description(), scene.build()[0].names, list(scene.joint_specs())) == before
    for add in (scene.add_fixed, scene.add_body):
        with pytest.raises(NameTakenError, match="'inertial frame' is that of the ground of `add_moving`"):
            add(name="inertial frame", shape=shapes.Disc(R), position=(5, 5))
    scene.add_moving(name="b", pose=belt, **disc)
    assert scene.build()[0].names == ("ball", "b", "wall", "inertial frame")
    assert scene.build()[0].joint_names == ("drive of b", "drive of a")


def told():
    """A table that is shaken and turned, and a disc on it; a plate in space."""
    scene = ist.Scene(dimension=2)
    shaken = ist.MovingPose(("3 + a*sin(rate*t)", 0.25), angle="0.1*t", parameters={"a": A, "rate": float(W)})
    table = scene.add_moving(name="table", pose=shaken, shape=shapes.HalfPlane(normal=(0, 1)), mass=1.0, inertia=1.0)
    disc = scene.add_body(name="disc", shape=shapes.Disc(R), mass=M, inertia=0.1, position=(3, 0.25 + R))
    scene.add_contact(table, disc, friction=MU)
    return scene


def test_formulas_of_a_pose_are_in_files_to_the_bit(tmp_path):
    path = tmp_path / "scene.toml"
    told().save(path)
    read = ist.load_scene(path)
    assert [body.pose for body in read.description().bodies] == [body.pose for body in told().description().bodies]
    runs = [ist.simulate(scene, ist.GeometricallyImplicit(), h=0.01, duration=0.1) for scene in (told(), read)]
    np.testing.assert_array_equal(runs[0].velocity, runs[1].velocity)
    time = runs[0].time
    np.testing.assert_allclose(runs[1].body("table").position[:, 0], 3 + A * np.sin(W * time), rtol=0, atol=1e-12)
    np.testing.assert_allclose(runs[1].orientation[:, 0, 0], 0.1 * time, rtol=0, atol=1e-12)


def test_a_file_may_use_its_parameters_and_is_refused_where_it_is_wrong(tmp_path):
    path = tmp_path / "scene.toml"
    text = """format = 1
[parameters]
rate = 2
[[body]]
name = "plate"
shape = { kind = "Sphere", radius = 0.1 }
mass = 1
inertia = [1, 1, 1]
pose = { position = ["rate*t", 0, "t^2"], quaternion = ["cos(t)", 0, 0, "sin(t)"] }
"""
    path.write_text(text.replace("^", "**"))
    system, state = ist.load_scene(path).build()
    np.testing.assert_allclose(state.velocity[0], [2, 0, 0, 0, 0, 2], rtol=0, atol=1e-12)
    wrong = [
        ('"t^2"', '"unknown*t"', r"`position`\[2\]"),
        ('"rate*t", 0, "t^2"', '"t"', "needs 2 parts in the plane, 3 in space"),
        ('"rate*t"', "true", "needs numbers or formulas"),
        ("mass = 1", "velocity = [0, 0, 0]", "velocity"),
    ]
    for part, other, message in wrong:
        path.write_text(text.replace(part, other).replace("^", "**"))
        with pytest.raises(ist.SceneFileError, match=message):
            ist.load_scene(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"position": ("import os", 0, 0)}, "`position`.0."),
        ({"position": ("v*t", 0, 0)}, "`position`.0."),
        ({"position": (0,)}, "needs 2 parts in the plane, 3 in space"),
        ({"position": (0, 0), "quaternion": (1, 0, 0, 0)}, "give `angle`"),
        ({"position": (0, 0, 0), "angle": 1.0}, "give `quaternion`"),
        ({"position": (0, 0, 0), "quaternion": (1, 0, 0)}, "needs 4 parts"),
        ({"position": (0, 0), "angle": "sin(", "parameters": {"a": 1}}, "`angle`"),
        ({"position": (0, 0), "parameters": {"t": 1}}, "'t' cannot be a parameter"),
    ],
)
def test_what_is_no_formula_of_a_pose_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ist.MovingPose(**arguments)

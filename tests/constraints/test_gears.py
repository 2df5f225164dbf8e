"""Gears: two wheels, and a rack with its pinion, against closed forms over many turns; and what
there cannot be."""

import jax
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.constraints import turn_violations
from implicit_stepper.model.bodies import State
from implicit_stepper.run.joint_start import check_joints
from implicit_stepper.run.parameters import changed
from implicit_stepper.stepping.loop import CHUNK, certificates

TORQUE, FORCE, MASS, RADIUS = 3.0, 2.0, 1.5, 0.2
INERTIA = 0.4, 0.1
TEETH = -2 / 3
BELT = np.sqrt(2)
AXIS = (0.0, 0.6, 0.8)


def in_space():
    """Two wheels on slanted axles, of which the first has a torque; a rack on a slope of its own,
    and its pinion."""
    made = ist.Scene(gravity=(0, 0, 0))
    frame = made.add_fixed(name="frame", shape=shapes.Sphere(0.01))
    ball = shapes.Sphere(0.1)
    pull = np.append(np.zeros(3), TORQUE * np.array(AXIS))
    for i, (inertia, wrench) in enumerate(zip(INERTIA, (pull, None), strict=True)):
        at = (i, 0, 0)
        wheel = made.add_body(name=f"wheel {i}", shape=ball, mass=1, inertia=(inertia,) * 3, position=at, wrench=wrench)
        made.add_joint(frame, wheel, ist.Hinge(at, AXIS, (0, 0, 0), AXIS), name=f"axle {i}")
    made.add_gear("axle 0", "axle 1", ratio=TEETH, name="teeth")
    at, along, turns = (5, 0, 0), (0.8, 0, 0.6), (0, 1, 0)
    pull = np.append(FORCE * np.array(along), np.zeros(3))
    rack = made.add_body(name="rack", shape=ball, mass=MASS, position=at, wrench=pull)
    made.add_joint(frame, rack, ist.Slider(at, along, (0, 0, 0), along), name="guide")
    pinion = made.add_body(name="pinion", shape=ball, mass=1, inertia=(INERTIA[1],) * 3, position=(5, 0, 1))
    made.add_joint(frame, pinion, ist.Hinge((5, 0, 1), turns, (0, 0, 0), turns), name="pinion's axle")
    made.add_gear("pinion's axle", "guide", ratio=RADIUS, name="rack")
    return made


def in_the_plane():
    made = ist.Scene(dimension=2, gravity=(0, 0))
    frame = made.add_fixed(name="frame", shape=shapes.HalfPlane(normal=(0, 1), offset=-9))
    for i, inertia in enumerate(INERTIA):
        wheel = {"shape": shapes.Disc(0.1), "mass": 1.0, "inertia": inertia, "position": (i, 0), "angle": 2.0 * i}
        wrench = ist.Wrench(force=(0, 0), moment=(TORQUE,)) if i == 0 else None
        body = made.add_body(name=f"wheel {i}", wrench=wrench, **wheel)
        made.add_joint(frame, body, ist.BallJoint((i, 0), (0, 0)), name=f"axle {i}")
    made.add_gear("axle 0", "axle 1", ratio=BELT, name="belt")
    return made


@pytest.fixture(scope="module")
def run():
    return ist.simulate(in_space(), ist.GeometricallyImplicit(), h=0.005, duration=5.0)


def steps(acceleration, run):
    """Implicit Euler's sum of steps from rest."""
    n = np.arange(1, len(run) + 1)
    return acceleration * run.h**2 * n * (n + 1) / 2


def test_wheels_turn_as_one_over_many_turns(run):
    """(I_1 + ratio^2 I_2) q_1'' = torque."""
    first, second = (run.joint(f"axle {i}").coordinate[:, 0] for i in (0, 1))
    exact = steps(TORQUE / (INERTIA[0] + TEETH**2 * INERTIA[1]), run)
    assert exact[-1] > 10 * 2 * np.pi
    np.testing.assert_allclose(first, exact, rtol=0, atol=1e-9)
    np.testing.assert_allclose(second, TEETH * first, rtol=0, atol=1e-12 * 100)
    assert np.max(abs(run.joint("teeth").closure)) <= 1e-12


def test_a_rack_turns_its_pinion(run):
    """(m + I / r^2) x'' = force, and the teeth carry what turns the pinion."""
    moved = run.joint("guide").coordinate[:, 0]
    acceleration = FORCE / (MASS + INERTIA[1] / RADIUS**2)
    np.testing.assert_allclose(moved, steps(acceleration, run), rtol=0, atol=1e-10)
    np.testing.assert_allclose(run.joint("pinion's axle").coordinate[:, 0], moved / RADIUS, rtol=0, atol=1e-10)
    assert moved[-1] / RADIUS > 2 * np.pi
    teeth = np.linalg.norm(run.joint("rack").force, axis=1)
    np.testing.assert_allclose(teeth, INERTIA[1] * acceleration / RADIUS**2, rtol=0, atol=1e-8)


@pytest.mark.thorough
def test_a_belt_has_any_ratio_and_is_in_files(tmp_path):
    """In the plane; of a file, with steps of order five, which are exact here."""
    in_the_plane().save(tmp_path / "scene.toml")
    scene = ist.load_scene(tmp_path / "scene.toml")
    assert scene.description().joints == in_the_plane().description().joints
    run = ist.simulate(scene, ist.RadauContact(), h=0.05, duration=5.0)
    turned = TORQUE / (INERTIA[0] + BELT**2 * INERTIA[1]) * run.time**2 / 2
    assert turned[-1] > 8 * 2 * np.pi
    np.testing.assert_allclose(run.orientation[:, 0, 0], turned, rtol=0, atol=1e-10)
    np.testing.assert_allclose(run.orientation[:, 1, 0] - 2, BELT * turned, rtol=0, atol=1e-10)


def test_a_tooth_that_is_skipped_is_noticed(run):
    """The second wheel as it would be a tooth further, at the end of the first step: no closure
    tells."""
    system, _ = in_space().build()
    states = State(run.time, run.position, run.orientation.copy(), run.velocity.copy())
    states.velocity[1, 1, 3:] += 2 * np.pi / 3 / run.h * np.array(AXIS)
    first, ends = (jax.tree.map(lambda a, at=at: a[at], states) for at in (0, slice(1, CHUNK + 1)))
    contacts = jax.tree.map(lambda a: a[:CHUNK], run.contacts)
    found = certificates(ist.GeometricallyImplicit(), system, first, ends, contacts, np.full(CHUNK, run.h))
    number = run.joint_names.index("teeth")
    assert found["closure"][0, number] >= 1
    assert np.max(found["closure"][1:, number]) <= 1e-10


def test_a_tooth_that_is_skipped_between_stages_is_noticed():
    """Bodies that stand still, moved by the rates of a stage: velocities, of which closures are
    asked, say nothing of it."""
    system, state = in_space().build()
    for share, told in ((0.2, 0.0), (0.3, 1.0)):  # of the pitch of the second wheel, a third of a turn
        rates = np.zeros(state.velocity.shape)
        rates[1, 3:] = share * 2 * np.pi / 3 / 0.01 * np.array(AXIS)
        found = turn_violations.of_stage(system, state, 0.01, state, rates, np.zeros(rates.shape))
        assert found[system.joint_names.index("teeth")] == told


@pytest.mark.parametrize(("name", "pitch"), [("teeth", 2 * np.pi / 3), ("rack", 2 * np.pi * RADIUS)])
def test_a_quarter_of_a_pitch_in_a_step_is_too_much(name, pitch):
    """Of the second coordinate, after which the closure is the same again: a third of a turn, of
    ratio -2 / 3."""
    system, _ = in_space().build()
    number = system.joint_names.index(name)
    (group,) = [of for of in system.joints if number in of.numbers]
    member = jax.tree.map(lambda a: a[group.numbers.index(number)], group)
    h, shares = 0.01, (0.24, -0.24, 0.26, -0.26)
    assert [float(turn_violations.skips(member, np.array([share * pitch]), 0.0, h, h)) for share in shares] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"joint_2": "axle 7"}, "`joint` = 'axle 7' is no joint's name"),
        ({"coordinates": (0, 1)}, "`coordinate` = 1: joint 'axle 1' has 1 coordinates"),
        ({"coordinates": (0,)}, "give a number for each of the two joints"),
        ({"coordinates": 0}, r"`coordinates` = 0: give a number for each of the two joints, \(0, 0\)"),
        ({"joint_2": "axle 0"}, "geared to itself"),
        ({"ratio": 0.0}, "`ratio` = 0"),
        ({"ratio": np.sqrt(2)}, "whole numbers up to 200"),
        ({"ratio": float("nan")}, "`ratio`"),
        ({"joint_1": "elbow"}, "'arm 0', 'arm 1', 'wheel 1' move, and a gear is between two moving bodies"),
    ],
)
def test_gears_that_cannot_be_are_refused(arguments, message):
    made = in_space()
    arms = [made.add_body(name=f"arm {i}", shape=shapes.Sphere(0.1), mass=1, position=(0, 0, 3 + i)) for i in (0, 1)]
    made.add_joint(*arms, ist.Hinge((0, 0, 1), AXIS, (0, 0, 0), AXIS), name="elbow")
    with pytest.raises(ValueError, match=message):
        made.add_gear(**({"joint_1": "axle 0", "joint_2": "axle 1", "ratio": -0.5, "name": "other"} | arguments))


def test_gears_stand_where_batches_and_derivatives_have_their_frame():
    """A mirrored pair of sliders on a frame that is turned by a right angle and moved, with all
    that stands on it: their displacements stay 0, and go on along the frame's own axis."""
    made = ist.Scene(dimension=2, gravity=(0, 0))
    frame = made.add_fixed(name="frame", shape=shapes.Disc(0.1))
    for name, y in (("low", -1.0), ("high", 1.0)):
        body = made.add_body(name=name, shape=shapes.Disc(0.1), mass=1.0, position=(0.2, y))
        made.add_joint(frame, body, ist.Slider((0, y), (1, 0), (0, 0), (1, 0)), name=f"rail of {name}")
    made.add_gear("rail of low", "rail of high", ratio=1.0)
    system, start = made.build()
    turn = np.pi / 2
    poses = {"fixed_position": [[3.0, 4.0]], "fixed_orientation": [[turn]]}
    poses |= {"position": [[4.0, 4.2], [2.0, 4.2]], "orientation": [[turn], [turn]]}
    check_joints(ist.GeometricallyImplicit(), *changed(system, start, poses), fixed=True)
    apart = poses | {"position": [[4.0, 4.2], [2.0, 4.3]]}
    with pytest.raises(ValueError, match="joint 'gear of rail of low and rail of high' is open by 0.1 m"):
        check_joints(ist.GeometricallyImplicit(), *changed(system, start, apart), fixed=True)

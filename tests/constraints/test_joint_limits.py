"""Limits of joints: met when quadrature says, at rest on them and off again, certified, and what is
refused."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

import implicit_stepper as ist
import shapes
from implicit_stepper.commands import run as command
from implicit_stepper.constraints import turn_violations
from implicit_stepper.model import bodies
from implicit_stepper.radau.events import Event
from implicit_stepper.stepping.loop import certificates

# a pendulum of 1 m, released level, and the angle [rad] of its limit
G, MASS, INERTIA, LOW = 9.81, 2.0, 0.3, -1.0


def lifted(time, *_):
    """A lift that grows: it takes the pendulum off its limit where it is as large as the weight."""
    return jnp.stack([0.0 * time, 20.0 * jnp.maximum(time - 1.0, 0.0) ** 2, 0.0 * time])


def scene():
    made = ist.Scene(dimension=2)
    wall = made.add_fixed(name="wall", shape=shapes.HalfPlane(normal=(0, 1), offset=-9))
    bob = made.add_body(name="bob", shape=shapes.Disc(0.1), mass=MASS, inertia=INERTIA, position=(1, 0), wrench=lifted)
    made.add_joint(wall, bob, ist.BallJoint((0, 0), (-1, 0)), name="pin")
    made.add_limit("pin", low=LOW, high=0.5)
    return made


@pytest.fixture(scope="module")
def chosen():
    return ist.simulate(scene(), ist.RadauContact(), tol=1e-8, duration=2.2)


def test_a_limit_is_met_and_left_when_it_should(chosen):
    meets, leaves = chosen.events[:2]
    # the substitution angle = s^2 takes the root out of the speed at the start
    inertia = INERTIA + MASS
    fall, _ = quad(lambda s: 2 * s / np.sqrt(2 * MASS * G * np.sin(s * s) / inertia), 1e-300, np.sqrt(-LOW))
    assert meets == (pytest.approx(fall, abs=1e-8), "low limit of pin", "closes")
    assert leaves == (pytest.approx(1 + np.sqrt(MASS * G / 20), abs=1e-6), "low limit of pin", "opens")
    rests = (chosen.time > fall + 1e-6) & (chosen.time <= leaves.time)
    assert np.count_nonzero(rests) > 2
    np.testing.assert_allclose(chosen.orientation[rests, 0, 0], LOW, rtol=0, atol=1e-12)
    before = np.flatnonzero(rests & (chosen.time < 1.0))
    moments = chosen.joint("low limit of pin").moment[before[1:] - 1, 0]
    np.testing.assert_allclose(moments, MASS * G * np.cos(LOW), rtol=0, atol=1e-7)


def test_its_events_are_told_and_drawn_by_its_name(chosen):
    lines = command._summary(scene(), ist.RunSettings(tol=1e-8, duration=2.2), chosen, 1.0)
    assert any(line.startswith("event") and line.endswith("s: low limit of pin closes") for line in lines)
    axes = chosen.plot.events().axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["low limit of pin"]
    (closes,) = [line for line in axes.lines if line.get_label() == "closes"]
    assert set(closes.get_ydata()) == {0}
    two = dataclasses.replace(chosen, contact_names=(("a", "b"),), events=(Event(0.1, 0, "opens"), *chosen.events))
    assert [two.named(event) for event in two.events[:2]] == ["a and b", "low limit of pin"]


def test_first_order_steps_hold_it_too():
    run = ist.simulate(scene(), ist.GeometricallyImplicit(), h=0.01, duration=0.9)
    angle = run.joint("pin").coordinate[:, 0]
    assert angle.min() >= LOW - 1e-13
    assert np.all(angle[-30:] == pytest.approx(LOW, abs=1e-13))
    assert run.joint("low limit of pin").moment[-1, 0] == pytest.approx(MASS * G * np.cos(LOW), abs=1e-9)


def test_what_a_limit_gives_is_certified():
    made, stepper = scene(), ist.GeometricallyImplicit()
    run = ist.simulate(made, stepper, h=0.05, duration=0.9)
    system, _ = made.build()
    states = bodies.State(run.time, run.position, run.orientation, run.velocity)
    first, ends = (jax.tree.map(lambda a, at=at: a[at], states) for at in (0, slice(1, None)))
    for change, violated in ((0.0, False), (1e-6, True), (-1e-6, True)):
        multipliers = np.array(run.joints.multipliers)
        multipliers[2, 1, 0] += change  # of the low limit, before it is met
        joints = dataclasses.replace(run.joints, multipliers=multipliers)
        found = certificates(
            stepper, system, first, ends, dataclasses.replace(run.contacts, joints=joints), np.full(len(run), run.h)
        )
        assert (np.max(found["closure"]) <= 1e-10) != violated


def test_a_scene_file_has_limits(tmp_path):
    made = scene()
    plain = ist.Scene(dimension=2)
    wall = plain.add_fixed(name="wall", shape=shapes.HalfPlane(normal=(0, 1), offset=-9))
    bob = plain.add_body(name="bob", shape=shapes.Disc(0.1), mass=MASS, inertia=INERTIA, position=(1, 0))
    plain.add_joint(wall, bob, ist.BallJoint((0, 0), (-1, 0)), name="pin")
    plain.add_limit("pin", low=LOW, high=0.5)
    plain.save(tmp_path / "scene.toml")
    system, _ = ist.load_scene(tmp_path / "scene.toml").build()
    assert system.joint_names == made.build()[0].joint_names
    assert [float(group.parameters["bound"][0]) for group in system.joints[1:]] == [LOW, 0.5]


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({}, "a limit without a bound is none"),
        ({"low": 0.5, "high": 0.1}, "`low` = 0.5 is not below `high` = 0.1"),
        ({"low": 0.1}, "joint 'low limit of pin' is open by 0.1 rad"),
        ({"low": float("nan")}, "`low` = nan is not finite"),
    ],
)
def test_limits_that_make_no_sense_are_refused(bounds, message):
    made = ist.Scene(dimension=2)
    wall = made.add_fixed(name="wall", shape=shapes.HalfPlane(normal=(0, 1), offset=-9))
    bob = made.add_body(name="bob", shape=shapes.Disc(0.1), mass=MASS, position=(1, 0))
    made.add_joint(wall, bob, ist.BallJoint((0, 0), (-1, 0)), name="pin")
    with pytest.raises(ValueError, match=message):
        made.add_limit("pin", **bounds)


def test_of_two_limits_of_which_one_is_refused_neither_is_added():
    """The bob begins beyond `high`; `low` alone would hold."""
    made = ist.Scene(dimension=2)
    wall = made.add_fixed(name="wall", shape=shapes.HalfPlane(normal=(0, 1), offset=-9))
    bob = made.add_body(name="bob", shape=shapes.Disc(0.1), mass=MASS, inertia=INERTIA, position=(1, 0))
    made.add_joint(wall, bob, ist.BallJoint((0, 0), (-1, 0)), name="pin")
    before = made.description()
    with pytest.raises(ValueError, match="'high limit of pin' is open by 0.2 rad"):
        made.add_limit("pin", low=-1.0, high=-0.2)
    assert made.description() == before
    assert made.add_limit("pin", low=-1.0, high=0.2) == ("low limit of pin", "high limit of pin")
    assert made.build()[0].joint_names == ("pin", "low limit of pin", "high limit of pin")


def turning(dimension: int, pins: dict, **bounds) -> ist.Scene:
    """Wheels of moment of inertia 1 on pins, without weight, each at a speed [rad/s], of which the
    one on "spring" winds a spring of 1 N m/rad and the others meet limits."""
    made, plane = ist.Scene(dimension=dimension, gravity=(0,) * dimension), dimension == 2
    origin, axis = (0,) * dimension, () if plane else ((0, 0, 1),)
    wall = made.add_fixed(name="wall", shape=shapes.Disc(0.01) if plane else shapes.Sphere(0.01), position=origin)
    for i, (name, speed) in enumerate(pins.items()):
        there = (0, i + 1, 0)[:dimension]
        spin = {"velocity": (0, 0, speed) if plane else (0, 0, 0, 0, 0, speed)}
        shape, inertia = (shapes.Disc(0.1), 1.0) if plane else (shapes.Sphere(0.1), (1.0, 1.0, 1.0))
        wheel = made.add_body(name=f"wheel {name}", shape=shape, mass=2.0, inertia=inertia, position=there, **spin)
        joint = ist.BallJoint(there, origin) if plane else ist.Hinge(there, *axis, origin, *axis)
        made.add_joint(wall, wheel, joint, name=name)
        if name == "spring":
            made.add_spring(name, stiffness=1.0)
        else:
            made.add_limit(name, **bounds[name])
    return made


def test_angles_in_the_plane_wind_springs_and_meet_limits_over_many_turns():
    """A spring goes to 5 rad and back, q = 5 sin t; what turns away from its only limit turns on,
    and one beyond half a turn is met there."""
    made = turning(2, {"spring": 5.0, "on": 5.0, "far": 5.0}, on={"low": -0.5}, far={"high": 4.0})
    run = ist.simulate(made, ist.RadauContact(), tol=1e-8, duration=2.0)
    angle = {name: run.joint(name).coordinate[-1, 0] for name in ("spring", "on", "far")}
    assert angle["spring"] == pytest.approx(5 * np.sin(2.0), abs=1e-6)
    assert angle["on"] == pytest.approx(10.0, abs=1e-9)
    assert angle["far"] == pytest.approx(4.0, abs=1e-12)
    (met,) = run.events
    assert met == (pytest.approx(0.8, abs=1e-10), "high limit of far", "closes")


@pytest.mark.thorough
@pytest.mark.parametrize(("speeds", "told"), [((4.0, 0.0), "spring of spring"), ((0.0, 4.0), "low limit of on")])
def test_angles_in_space_end_a_run_where_they_pass_half_a_turn(speeds, told):
    made = turning(3, dict(zip(("spring", "on"), speeds, strict=True)), on={"low": -0.5})
    says = "No shorter step helps where one passes that: use a scene in the plane"
    with pytest.raises(ist.StepError, match=f"(?s){says}.*angle within half a turn 1.00e[+]00 at joint {told}") as stopped:
        ist.simulate(made, ist.GeometricallyImplicit(), h=0.01, duration=1.5)
    angle = stopped.value.trajectory.joint(told.split(" of ")[1]).coordinate[-1, 0]
    assert np.pi - 0.05 <= angle <= np.pi


def test_angles_in_space_that_begin_anew_are_told():
    """Of springs and limits, between two states on both sides of half a turn, and how to do better."""
    system, start = turning(3, {"spring": 0.0, "on": 0.0}, on={"low": -0.5}).build()

    def at(angle):
        turned = np.tile([np.cos(angle / 2), 0, 0, np.sin(angle / 2)], (2, 1))
        return dataclasses.replace(start, orientation=turned)

    for last, told in ((3.1, set()), (3.2, {"spring of spring", "low limit of on"})):
        found = turn_violations.wound(system, at(3.0), at(last))
        assert {system.joint_names[number] for number in np.flatnonzero(found)} == told
    assert "use a scene in the plane" in turn_violations.remedy([turn_violations.WITHIN])
    assert turn_violations.remedy(["normal"]) == ""


def test_dampers_and_motions_turn_on():
    """A damper knows rates alone, in space too: w falls by 1 + h c / I a step, to more than half a
    turn. A motion in the plane may be told within a turn."""
    made, h = ist.Scene(gravity=(0, 0, 0)), 0.01
    wall = made.add_fixed(name="wall", shape=shapes.Sphere(0.01))
    wheel = {"shape": shapes.Sphere(0.1), "mass": 2.0, "inertia": (1.0, 1.0, 1.0), "velocity": (0, 0, 0, 0, 0, 5.0)}
    body = made.add_body(name="wheel", position=(0, 1, 0), **wheel)
    made.add_joint(wall, body, ist.Hinge((0, 1, 0), (0, 0, 1), (0, 0, 0), (0, 0, 1)), name="pin")
    made.add_spring("pin", stiffness=0.0, damping=0.1)
    run = ist.simulate(made, ist.GeometricallyImplicit(), h=h, duration=1.0)
    np.testing.assert_allclose(run.velocity[:, 0, 5], 5 / (1 + 0.1 * h) ** np.arange(101), rtol=1e-10)
    assert run.joint("pin").coordinate[-1, 0] > np.pi
    told = ist.Scene(dimension=2)
    wall = told.add_fixed(name="wall", shape=shapes.Disc(0.01))
    body = told.add_body(name="wheel", shape=shapes.Disc(0.1), mass=1.0, position=(0, 0), velocity=(0, 0, 5.0))
    told.add_joint(wall, body, ist.BallJoint((0, 0), (0, 0)), name="pin")
    told.add_motion("pin", lambda time: jnp.mod(5 * time, 2 * jnp.pi))
    run = ist.simulate(told, ist.GeometricallyImplicit(), h=h, duration=1.5)
    np.testing.assert_allclose(run.angle[:, 0], 5 * run.time, rtol=0, atol=1e-9)


@pytest.mark.thorough
def test_limits_in_space_may_be_a_turn_apart_and_are_met(tmp_path):
    """-.1 to 3.8 rad, as a robot's elbow has them; through a file. At 5 rad/s that is .76 s."""
    turning(3, {"on": 5.0}, on={"low": -0.1, "high": 3.8}).save(tmp_path / "scene.toml")
    made = ist.load_scene(tmp_path / "scene.toml")
    run = ist.simulate(made, ist.RadauContact(), tol=1e-8, duration=1.0)
    assert run.events == ((pytest.approx(0.76, abs=1e-10), "high limit of on", "closes"),)
    assert run.joint("on").coordinate[-1, 0] == pytest.approx(3.8, abs=1e-12)
    assert np.max([np.max(v) for v in run.certificate.values()]) <= 1e-10


def test_limits_of_two_calls_are_those_of_one():
    made = [turning(3, {"on": 0.0}, on={"low": -0.1}) for _ in range(2)]
    made[0].add_limit("on", high=3.8)
    with pytest.raises(ValueError, match="`low` = 0.2 is not below `high` = 0.2"):
        turning(3, {"on": 0.0}, on={"high": 0.2}).add_limit("on", low=0.2)
    one = turning(3, {"on": 0.0}, on={"low": -0.1, "high": 3.8})
    middles = [[float(group.parameters["middle"][0]) for group in scene.build()[0].joints[1:]] for scene in (made[0], one)]
    np.testing.assert_allclose(middles, 1.85, rtol=1e-15)


def test_bounds_and_rests_of_angles_in_space_are_told_within_half_a_turn():
    made, rest = turning(3, {"spring": 0.0}), {"rest": -4.0, "stiffness": 1.0, "name": "b"}
    for add, given in (
        (made.add_limit, {"high": 4.0}),
        (made.add_limit, {"low": -np.pi, "high": np.pi}),
        (made.add_spring, rest),
    ):
        with pytest.raises(ValueError, match="angles in space are told within half a turn"):
            add("spring", **given)


def test_steps_of_one_length_and_several_stages_refuse_limits():
    with pytest.raises(ValueError, match="'low limit of pin' may be met in one: give `tol`"):
        ist.simulate(scene(), ist.RadauContact(), h=0.01, duration=0.1)

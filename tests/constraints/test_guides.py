"""Sliders whose guide has a length: its two ends bear the moment across it, and rub by that,
against closed forms; a drawer that is pulled at its side jams."""

import dataclasses

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import implicit_stepper as ist
import shapes
from implicit_stepper.model import bodies
from implicit_stepper.stepping.loop import certificates

MU, LENGTH, MASS, PULL = 0.25, 0.4, 2.0, 10.0
JAMS = LENGTH / (2 * MU)  # [m] beside the guide: what a pull there presses takes all of it


def drawer(aside, speed=0.0, gravity=(0.0, 0.0)):
    """In the plane, pulled along its guide at a distance `aside` [m] from it."""
    made = ist.Scene(dimension=2, gravity=gravity)
    desk = made.add_fixed(name="desk", shape=shapes.HalfPlane(normal=(0, 1), offset=-9))
    pulled = {"position": (0, 0), "velocity": (speed, 0, 0), "wrench": (PULL, 0, -PULL * aside)}
    body = made.add_body(name="drawer", shape=shapes.Disc(0.1), mass=MASS, **pulled)
    guide = ist.Slider((0, 0), (1, 0), (0, 0), (1, 0), friction=ist.JointFriction(MU, length=LENGTH))
    made.add_joint(desk, body, guide, name="guide")
    return made


def test_a_drawer_jams_if_it_is_pulled_far_enough_aside():
    """Each end of the guide is pressed by P d / L, so that a = P / m (1 - 2 mu d / L), and none
    from d = L / (2 mu) on."""
    for aside in (0.0, 0.5 * JAMS, (1 - 1e-6) * JAMS, (1 + 1e-6) * JAMS, 3 * JAMS):
        run = ist.simulate(drawer(aside), ist.GeometricallyImplicit(), h=0.1, duration=1.0)
        expected = PULL / MASS * max(1 - aside / JAMS, 0.0)
        assert run.velocity[-1, 0, 0] == pytest.approx(expected, abs=1e-11)


def test_a_drawer_that_slides_stops_when_it_jams():
    """With chosen steps: a = P / m (1 - d / d_jams) < 0 from the speed v until v / -a."""
    run = ist.simulate(drawer(1.5 * JAMS, speed=1.0), ist.RadauContact(), tol=1e-8, duration=1.0)
    stop = 1.0 / (0.5 * PULL / MASS)
    ((kind, time),) = [(event.kind, event.time) for event in run.events if event.contact == "guide"]
    assert (kind, time) == ("sticks", pytest.approx(stop, abs=1e-9))
    np.testing.assert_allclose(run.position[run.time > stop, 0, 0], stop / 2, rtol=0, atol=1e-9)


def test_ends_are_pressed_apart_where_the_force_is_less_than_the_moment():
    """Of a force F across the guide and a moment M both ends bear F / 2 +- M / L: of the same sign
    as long as M < F L / 2, so that the moment adds nothing."""
    for aside, pressed in ((0.1, 30.0), (0.9, 2 * PULL * 0.9 / LENGTH)):
        run = ist.simulate(drawer(aside, 1.0, (0.0, -30.0 / MASS)), ist.GeometricallyImplicit(), h=0.1, duration=0.1)
        assert run.velocity[-1, 0, 0] == pytest.approx(1.0 + 0.1 * (PULL - MU * pressed) / MASS, abs=1e-11)


def slanted():
    """In space, with the guide and the body turned anyhow, a force and a moment along no axis of
    anything, and points of the joint away from the centres; and what slows it, in closed form."""
    turn, own = Rotation.from_rotvec([0.3, -0.7, 0.4]), Rotation.from_rotvec([-1.1, 0.2, 0.5])
    axis, point = turn.apply([1.0, 0.0, 0.0]), np.array([0.2, -0.1, 0.3])
    force, moment = np.array([3.0, -5.0, 2.0]), np.array([0.4, 0.9, -0.7])
    made = ist.Scene(gravity=(0, 0, 0))
    wall = made.add_fixed(name="wall", shape=shapes.HalfSpace(normal=(0, 0, 1), offset=-9))
    body = made.add_body(
        name="sledge", shape=shapes.Sphere(0.1), mass=MASS, position=-own.apply(point), quaternion=np.roll(own.as_quat(), 1),
        velocity=(*(2.0 * axis), 0, 0, 0), wrench=(*force, *moment),
    )  # fmt: skip
    rubs = ist.JointFriction(MU, length=LENGTH)
    made.add_joint(wall, body, ist.Slider((0, 0, 0), axis, point, own.inv().apply(axis), friction=rubs), name="guide")
    # about the point of the joint, where nothing but the guide holds; the body does not accelerate
    # across the axis, but along it, and its centre beside it resists that
    arm = -own.apply(point)

    def slows(along):
        """Of an acceleration `along` the axis: what friction must be, and what it is."""
        press = -(force - axis * (axis @ force))
        about = -(moment + np.cross(arm, force - MASS * along * axis))
        bent = np.cross(about, axis)
        ends = [np.linalg.norm(press / 2 + side * bent / LENGTH) for side in (1, -1)]
        return (axis @ force - MU * sum(ends)) / MASS

    found = 0.0
    for _ in range(200):
        found = slows(found)
    return made, axis, found


@pytest.mark.thorough
def test_a_guide_in_space_rubs_by_the_couple_across_it():
    made, axis, expected = slanted()
    for stepper in (ist.GeometricallyImplicit(), ist.RadauContact()):
        run = ist.simulate(made, stepper, h=0.05, duration=0.1)
        assert run.velocity[-1, 0, :3] @ axis == pytest.approx(2.0 + 0.1 * expected, abs=1e-11)


def test_the_certificate_knows_the_guide():
    """A run's forces violate the law of a longer guide, and no other equation."""
    made, stepper = drawer(0.5 * JAMS), ist.GeometricallyImplicit()
    run = ist.simulate(made, stepper, h=0.1, duration=1.0)
    (system, first), (group,) = made.build(), made.build()[0].joints
    steps = bodies.State(*(getattr(run, name)[1:] for name in ("time", "position", "orientation", "velocity")))
    for factor, violated in ((1.0, False), (1.001, True)):
        guide = group.joint.parameters | {"guide": factor * group.joint.parameters["guide"]}
        other = dataclasses.replace(group, joint=dataclasses.replace(group.joint, parameters=guide))
        of = dataclasses.replace(system, joints=(other,))
        found = certificates(stepper, of, first, steps, run.contacts, np.full(len(run), run.h))
        worst = {name: np.max(values, initial=0.0) for name, values in found.items()}
        assert (worst.pop("joint friction") > 1e-6) == violated
        assert max(worst.values()) <= 1e-10


@pytest.mark.thorough
def test_an_impact_presses_both_ends():
    """A ball falls on a disc whose guide has its middle `aside` [m] from the centre, as both move
    on: the impulse P presses the ends by 2 P aside / L together, and friction takes mu of that."""
    aside, speed, lands, lump = 0.5, 3.0, 2.0, 1.0
    made = ist.Scene(dimension=2, gravity=(0, 0))
    desk = made.add_fixed(name="desk", shape=shapes.HalfPlane(normal=(0, 1), offset=-9))
    disc = made.add_body(name="disc", shape=shapes.Disc(0.1), mass=MASS, position=(0, 0), velocity=(speed, 0, 0))
    rubs = ist.JointFriction(MU, length=LENGTH)
    made.add_joint(desk, disc, ist.Slider((-aside, 0), (1, 0), (-aside, 0), (1, 0), friction=rubs), name="guide")
    above = {"position": (0, 0.25), "velocity": (speed, -lands, 0)}
    made.add_contact(disc, made.add_body(name="ball", shape=shapes.Disc(0.1), mass=lump, **above))
    run = ist.simulate(made, ist.RadauContact(), tol=1e-8, duration=0.05)
    slowed = MU * 2 * lump * lands * aside / LENGTH / MASS
    assert run.velocity[-1, 1, 1] == pytest.approx(0.0, abs=1e-9)
    assert run.velocity[-1, 0, 0] == pytest.approx(speed - slowed, abs=1e-9)


def test_a_scene_file_keeps_it(tmp_path):
    drawer(0.3).save(tmp_path / "drawer.toml")
    assert "length = 0.4" in (tmp_path / "drawer.toml").read_text()
    (joint,) = ist.load_scene(tmp_path / "drawer.toml").description().joints
    assert joint.joint.friction == ist.JointFriction(MU, length=LENGTH)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: ist.JointFriction(0.3, length=0.0), "`length` = 0"),
        (lambda: ist.JointFriction(0.3, length=float("nan")), "`length`"),
    ],
)
def test_lengths_that_make_no_sense_are_refused(made, message):
    with pytest.raises(ValueError, match=message):
        made()


def test_a_pin_has_no_guide():
    made = ist.Scene(dimension=2)
    wall = made.add_fixed(name="wall", shape=shapes.HalfPlane(normal=(0, 1), offset=-9))
    body = made.add_body(name="bob", shape=shapes.Disc(0.1), mass=1.0, position=(1, 0))
    with pytest.raises(ValueError, match="a `length` is that of a Slider's guide"):
        made.add_joint(wall, body, ist.BallJoint((0, 0), (-1, 0), friction=ist.JointFriction(0.1, radius=0.1, length=1.0)))

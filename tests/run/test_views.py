"""Bodies, contacts, slices and energies of a run, against its arrays; runs that go on from a
trajectory."""

import dataclasses
import subprocess
import sys

import jax
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.run import views
from implicit_stepper.run.views import number_of_contact, owners_of

G = 9.81


def sliding(wrench=None, compliance=None):
    """A ball that slides, a frame of two feet that rests on the same floor, and a ball that falls
    without contact."""
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    ball = scene.add_body(
        name="ball", shape=shapes.Sphere(0.5), position=(0, 0, 0.5), mass=2.0, velocity=(3, 0, 0, 0, 0, 0), wrench=wrench
    )
    foot = shapes.Sphere(0.1)
    frame = scene.add_body(
        name="frame",
        shapes=[(foot, ((0.1, 0, 0), (1, 0, 0, 0))), (foot, ((-0.1, 0, 0), (1, 0, 0, 0)))],
        position=(5, 0, 0.1),
        mass=1.0,
    )
    scene.add_body(name="stone", shape=foot, position=(9, 0, 9), mass=3.0)
    scene.add_contact(floor, ball, friction=0.3, compliance=compliance)
    scene.add_contact(floor, frame)
    return scene


@pytest.fixture(scope="module")
def run():
    return ist.simulate(sliding(), ist.GeometricallyImplicit(), h=0.01, duration=0.2)


def test_a_body_by_name_or_number(run):
    ball = run.body("ball")
    assert (ball.name, ball.mass) == ("ball", 2.0)
    np.testing.assert_array_equal(ball.position, run.position[:, 0])
    np.testing.assert_array_equal(run.body(-1).orientation, run.orientation[:, 2])
    # it slides all the time
    np.testing.assert_allclose(ball.speed, 3 - 0.3 * G * run.time, rtol=1e-9)
    np.testing.assert_array_equal(ball.angular_velocity, run.velocity[:, 0, 3:])
    assert repr(ball) == "<body 'ball', 2 kg, at 21 times to t = 0.2 s>"
    with pytest.raises(KeyError, match="no moving body is named 'floor': there are 'ball', 'frame', 'stone'"):
        run.body("floor")
    with pytest.raises(IndexError, match="body 3: the run has 3 moving bodies"):
        run.body(3)


def test_a_contact_between_two_names_and_its_forces(run):
    contact = run.contact("ball", "floor")
    assert contact.names == ("floor", "ball")
    assert contact.number == 0
    np.testing.assert_allclose(contact.normal_force, 2 * G, rtol=1e-9)
    np.testing.assert_allclose(contact.force, np.tile([-0.3 * 2 * G, 0, 2 * G], (20, 1)), rtol=0, atol=1e-8)
    np.testing.assert_allclose(contact.friction_force, contact.force - [0, 0, 2 * G], rtol=0, atol=1e-8)
    np.testing.assert_array_equal(contact.drilling_torque, 0)
    np.testing.assert_array_equal(contact.gap, run.contacts.gap[:, 0])
    np.testing.assert_allclose(contact.point[:, 2], 0, atol=1e-12)
    feet = [run.contact("floor", f"frame[{i}]").normal_force for i in (0, 1)]
    np.testing.assert_allclose(feet[0] + feet[1], G, rtol=1e-9)
    assert run.contact(2).names == ("floor", "frame[1]")


def test_contacts_that_are_not_one_are_refused(run):
    with pytest.raises(KeyError, match=r"2 contacts are between 'floor' and 'frame': name one of .*frame\[1\]"):
        run.contact("floor", "frame")
    with pytest.raises(KeyError, match="no contact is between 'ball' and 'stone'"):
        run.contact("ball", "stone")
    with pytest.raises(KeyError, match="give two bodies by name, or a contact by number"):
        run.contact("ball")
    with pytest.raises(IndexError, match="contact 3: the run has 3 contacts"):
        run.contact(3)


def test_a_body_whose_name_has_a_bracket_is_no_part_of_another():
    """A part has its number behind the name of its body, and so may other bodies."""
    moving = ("wheel", "wheel[2]", "box[3]")
    pairs = [("floor", "wheel[2]"), ("floor", "box[3][0]"), ("wall", "wheel"), ("wall", "wheel[2]"), ("box[4]", "box[3][1]")]
    owners = owners_of(pairs, moving)
    assert {part: body for part, body in owners.items() if body in moving} == {
        "wheel": "wheel", "wheel[2]": "wheel[2]", "box[3][0]": "box[3]", "box[3][1]": "box[3]",
    }  # fmt: skip
    assert number_of_contact(pairs, ("wheel", "wall"), moving) == 2
    assert number_of_contact(pairs, ("floor", "box[3]"), moving) == 1
    assert number_of_contact(pairs, ("box[4]", "box[3]"), moving) == 4
    for bodies in (("floor", "wheel"), ("floor", "box")):
        with pytest.raises(KeyError, match="no contact is between 'floor'"):
            number_of_contact(pairs, bodies, moving)
    assert owners_of([("wheel[2]", "ball"), ("wheel", "ball")], ("wheel", "ball"))["wheel[2]"] == "wheel[2]"  # fixed


def test_an_impact_without_time_has_no_force():
    scene = ist.Scene(gravity=(0, 0, -G))
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    ball = scene.add_body(
        name="ball", shape=shapes.Sphere(0.5), position=(0, 0, 0.5), mass=2.0, velocity=(0, 0, -1, 0, 0, 0)
    )
    scene.add_contact(floor, ball)
    run = ist.simulate(scene, ist.RadauContact(), tol=1e-6, duration=0.1)
    force = run.contact("floor", "ball").normal_force
    assert np.isnan(force[0])
    np.testing.assert_allclose(force[1:], 2 * G, rtol=1e-6)
    one, several = run.at(0.05), run.at([0.05, 0.07])
    assert one.position.shape == (1, 3)
    assert one.time.shape == ()
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b[0]), one, several)
    tail = run[1:]
    assert len(tail) == len(run) - 1
    assert tail.time[0] == 0.0
    np.testing.assert_array_equal(tail.at([0.05]).position[0], one.position)


def test_a_slice_is_a_trajectory(run, tmp_path):
    middle = run[5:-3]
    assert len(middle) == 12
    np.testing.assert_array_equal(middle.time, run.time[5:18])
    np.testing.assert_array_equal(middle.contacts.normal_impulse, run.contacts.normal_impulse[5:17])
    np.testing.assert_array_equal(middle.certificate["momentum"], run.certificate["momentum"][5:17])
    middle.save(tmp_path / "middle.npz")
    again = ist.load(tmp_path / "middle.npz")
    np.testing.assert_array_equal(again.position, middle.position)
    np.testing.assert_array_equal(again.energy().total, middle.energy().total)
    assert len(run[7:2]) == 0
    with pytest.raises(TypeError, match="give a range of steps"):
        run[::2]
    with pytest.raises(TypeError, match="give a range of steps"):
        run[0.5:]
    with pytest.raises(TypeError, match="give a range of steps"):
        run[3]


def test_energy_is_kinetic_and_of_weight_and_says_what_it_leaves_out(run):
    energy = run.energy()
    assert energy.left_out == ()
    np.testing.assert_allclose(energy.gravity, G * run.position[:, :, 2] @ run.mass, rtol=1e-13)
    np.testing.assert_array_equal(energy.kinetic, run.kinetic_energy())
    # implicit Euler takes m (g h)^2 / 2 a step from the stone; the ball slides with friction mu m g
    # at radius r = .5
    step, slower, faster = np.arange(21), 0.3 * G * 0.01, 0.3 * G * 0.01 * 2.5 / 0.5
    stone = -step * 3 * (G * 0.01) ** 2 / 2
    ball = 2 / 2 * ((3 - step * slower) ** 2 - 9) + (0.4 * 2 * 0.25) / 2 * (step * faster) ** 2
    np.testing.assert_allclose(energy.total - energy.total[0], stone + ball, rtol=0, atol=1e-8)
    soft = sliding(wrench=(1, 0, 0, 0, 0, 0), compliance=ist.Compliance(1e5))
    made = ist.simulate(soft, ist.GeometricallyImplicit(), h=0.01, duration=0.01)
    assert made.energy().left_out == ("the wrench on 'ball'", "the spring between 'floor' and 'ball'")


def test_a_run_goes_on_from_a_trajectory(run):
    first = ist.simulate(sliding(), ist.GeometricallyImplicit(), h=0.01, duration=0.1)
    second = ist.simulate(sliding(), ist.GeometricallyImplicit(), h=0.01, duration=0.1, start=first)
    by_state = ist.simulate(sliding(), ist.GeometricallyImplicit(), h=0.01, duration=0.1, start=first.end)
    np.testing.assert_array_equal(second.position, by_state.position)
    np.testing.assert_allclose(second.position[-1], run.position[-1], rtol=0, atol=1e-9)
    assert isinstance(first.end, ist.State)
    other = ist.Scene()
    other.add_body(name="ball", shape=shapes.Sphere(0.5), position=(0, 0, 0.5), mass=2.0)
    with pytest.raises(ValueError, match="`start` is a trajectory of ball, frame, stone, the scene has ball"):
        ist.simulate(other, ist.GeometricallyImplicit(), h=0.01, duration=0.1, start=first)


def test_a_trajectory_prints_as_one_line(run):
    assert repr(run) == "<Trajectory: 20 steps of 0.01 s, t = 0 to 0.2 s, 3 bodies, 3 contacts>"
    assert "Trajectory: 0 steps" in repr(run[3:3])


def test_what_has_no_steps_is_printed_too(run):
    assert repr(run[0:0].contact(0)) == "<contact 0: floor and ball, no steps>"
    assert repr(run[20:20].body("ball")).endswith("at 1 times to t = 0.2 s>")


def test_what_is_no_time_is_refused():
    for wrong in ("a", [[1], [2, 3]], 1j):
        with pytest.raises(ValueError, match="`time` = .* must be a time or a row of times"):
            views.times_told(wrong)


def test_the_public_names_are_listed():
    assert {"Scene", "State", "simulate", "plots", "__version__"} <= set(dir(ist))
    assert not {"run", "find_spec", "jax"} & set(dir(ist))
    command = [sys.executable, "-m", "implicit_stepper", "--version"]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert told.stdout == f"implicit-stepper {ist.__version__}\n"


@pytest.mark.thorough
def test_coordinates_of_long_steps_are_those_of_the_motion(tmp_path):
    """Chosen steps of seconds: 44 m of free fall, and seven turns by a constant moment."""
    scene = ist.Scene()
    wall = scene.add_fixed(name="wall", shape=shapes.Sphere(0.1))
    ball = {"shape": shapes.Sphere(0.1), "mass": 1.0, "inertia": (0.01, 0.01, 0.01)}
    bead = scene.add_body(name="bead", position=(1, 0, 0), **ball)
    wheel = scene.add_body(name="wheel", position=(0, 1, 0), wrench=(0, 0, 0, 0, 0, 0.1), **ball)
    up, origin = (0, 0, 1), (0, 0, 0)
    scene.add_joint(wall, bead, ist.Slider((1, 0, 0), up, origin, up), name="rail")
    scene.add_joint(wall, wheel, ist.Hinge((0, 1, 0), up, origin, up), name="axle")
    run = ist.simulate(scene, ist.RadauContact(), tol=1e-8, duration=3.0)
    assert np.max(np.diff(run.time)) > 1.0
    run.save(tmp_path / "run.npz")
    for of in (run, ist.load(tmp_path / "run.npz")):
        time = of.time[1:]
        np.testing.assert_allclose(of.joint("rail").coordinate[:, 0], -9.81 * time**2 / 2, rtol=0, atol=1e-10)
        np.testing.assert_allclose(of.joint("axle").coordinate[:, 0], 5 * time**2, rtol=0, atol=1e-10)
    tail = run[-3:][1:]  # the last turns
    assert tail.turned[list(run.joint_names).index("axle"), 0] >= 1
    tail.save(tmp_path / "tail.npz")
    for of in (tail, ist.load(tmp_path / "tail.npz")):
        for name in run.joint_names:
            np.testing.assert_array_equal(of.joint(name).coordinate, run.joint(name).coordinate[-2:])
    dataclasses.replace(tail, turned=tail.turned[:1]).save(tmp_path / "tail.npz")
    with pytest.raises(ValueError, match="`turned` has shape"):
        ist.load(tmp_path / "tail.npz")
    assert len(run[len(run) :].joint("axle").coordinate) == 0
    on = ist.simulate(scene, ist.RadauContact(), tol=1e-8, duration=0.1, start=run)
    seen, goes_on = on.joint("axle").coordinate[0, 0], 5 * on.time[1] ** 2
    assert abs(seen) <= np.pi
    np.testing.assert_allclose(np.rint((goes_on - seen) / (2 * np.pi)) * 2 * np.pi, goes_on - seen, rtol=0, atol=1e-8)


def test_the_first_step_counts_turns_as_all_others_do():
    """4 rad a step from 0, or from 3 on, of which what is recorded is within half a turn of 0; of a
    displacement all is."""
    h, wound = np.full(3, 0.2), np.array([[True, False]])
    rate = np.full((3, 1, 2), 20.0)
    for start in (0.0, 3.0):
        way = start + 4.0 * np.arange(1, 4)
        recorded = np.stack([np.arctan2(np.sin(way), np.cos(way)), way], axis=-1)[:, None]
        found = recorded + 2 * np.pi * views.turns(recorded, h, rate, wound, True)
        np.testing.assert_allclose(found, np.stack([way, way], axis=-1)[:, None], rtol=0, atol=1e-12)
    assert np.all(views.turns(recorded, h, rate, wound, False)[0] == 0)


def test_forces_of_several_stages_are_what_momenta_change_by():
    """Of a disc that rolls off another, whose normal turns within a step: the mean of a step is that
    of its stages, each along its own normal."""
    scene = ist.Scene(dimension=2, gravity=(0, -9.81))
    hill = scene.add_fixed(name="hill", shape=shapes.Disc(1.0))
    at = {"position": (1.2 * np.sin(0.3), 1.2 * np.cos(0.3)), "velocity": (0.5 * np.cos(0.3), -0.5 * np.sin(0.3), -2.5)}
    disc = scene.add_body(name="disc", shape=shapes.Disc(0.2), mass=2.0, inertia=0.04, **at)
    scene.add_contact(hill, disc, friction=0.6)
    run = ist.simulate(scene, ist.RadauContact(), tol=1e-5, duration=0.3)
    carried = run.contact("hill", "disc")
    needed = 2.0 * (np.diff(run.velocity[:, 0, :2], axis=0) / run.h[:, None] + [0, 9.81])
    assert np.max(np.abs(np.diff(carried.normal, axis=0))) > 1e-2
    np.testing.assert_allclose(carried.force, needed, rtol=0, atol=1e-10)
    tangential = carried.force - carried.friction_force
    assert np.max(np.abs(tangential)) > 1.0


def test_what_was_apart_in_a_run_that_finds_its_pairs_has_no_force():
    scene = ist.Scene(dimension=2, gravity=(0, -9.81))
    scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    scene.add_body(name="disc", shape=shapes.Disc(0.1), mass=1.0, position=(0, 0.11))
    scene.add_contacts(friction=0.3, restitution=ist.Newton(0.9))
    run = ist.simulate(scene, ist.GeometricallyImplicit(jacobian="sparse"), h=0.01, duration=0.12)
    apart = np.isnan(run.contact(0).gap)
    assert np.any(apart)
    assert not np.any(run.contact(0).force[apart])
    assert not np.any(run.contact(0).friction_force[apart])

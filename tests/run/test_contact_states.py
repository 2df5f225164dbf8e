"""What contacts do in a run of first order, against the exact times of example 3 and the law of
friction."""

import dataclasses

import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.paper import scenes
from implicit_stepper.run.contact_states import changes_of

H, STEPPER = 0.01, ist.GeometricallyImplicit()


def test_example_3_slips_and_opens_when_it_should():
    """Row 49: the same events, within a step."""
    scene = scenes.two_spheres()
    run = ist.simulate(scene, ist.GeometricallyImplicit(), h=H, duration=3.8)
    states, changes = ist.contact_states(scene, run)
    assert states[0].tolist() == ["slip", "stick"]  # the first slides from the start
    exact = [(1, "slips", 2.9448068), (0, "opens", 3.2132058), (1, "opens", 3.7016004)]
    assert [event[1:] for event in changes] == [event[:2] for event in exact]
    assert [event.time for event in changes] == pytest.approx([event[2] for event in exact], abs=H)


def test_a_block_at_the_limit_is_about_to_slip():
    """Pushed by a little less than, by, and by more than mu m g; one without friction slides, one
    in the air is open."""
    scene = ist.Scene(dimension=2, gravity=(0, -10), length_scale=0.1)
    floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
    for i, (push, mu, height) in enumerate([(5 - 1e-6, 0.5, 0), (5.0, 0.5, 0), (5.5, 0.5, 0), (0.0, 0.0, 0), (0.0, 0.5, 1)]):
        wheel = {"shape": shapes.Disc(0.1), "mass": 1.0, "inertia": 1e12}
        body = scene.add_body(name=f"block {i}", position=(i, 0.1 + height), wrench=(push, 0, 0), **wheel)
        scene.add_contact(floor, body, friction=mu)
    run = ist.simulate(scene, ist.GeometricallyImplicit(), h=H, duration=3 * H)
    states, changes = ist.contact_states(scene, run)
    np.testing.assert_array_equal(states, np.tile(["stick", "impending", "slip", "slip", "open"], (3, 1)))
    assert changes == ()
    # with static friction recorded that could hold more
    contacts = dataclasses.replace(run.contacts, mu=np.tile([0.5, 0.8, 0.5, 0.0, 0.5], (3, 1)))
    held, _ = ist.contact_states(scene, dataclasses.replace(run, contacts=contacts))
    np.testing.assert_array_equal(held, np.tile(["stick", "stick", "slip", "slip", "open"], (3, 1)))
    with pytest.raises(ValueError, match="`trajectory` has 5 moving bodies, and `scene` 1, in 3 dimensions"):
        ist.contact_states(scenes.two_spheres(), run)


def test_joints_at_their_bound_are_about_to_slip_and_a_wheel_stops():
    """Sliders that carry m g and are pushed by a little less than, by, and by more than mu m g; a
    wheel whose axle stops it when the closed form says, to within a step."""
    scene = ist.Scene(dimension=2, gravity=(0, -10))
    wall = scene.add_fixed(name="wall", shape=shapes.HalfPlane(normal=(0, 1), offset=-9))
    for i, push in enumerate([5 - 1e-6, 5.0, 5.5]):
        body = scene.add_body(name=f"block {i}", shape=shapes.Disc(0.1), mass=1.0, position=(i, 0), wrench=(push, 0, 0))
        guide = ist.Slider((i, 0), (1, 0), (0, 0), (1, 0), friction=ist.JointFriction(0.5))
        scene.add_joint(wall, body, guide, name=f"guide {i}")
    bob = scene.add_body(name="bob", shape=shapes.Disc(0.1), mass=1.0, position=(5, -1))
    scene.add_joint(wall, bob, ist.BallJoint((5, 0), (0, 1)), name="hook")
    borne = scene.add_body(name="borne", shape=shapes.Disc(0.1), mass=1.0, position=(9, 0), wrench=(0, 10, 0))
    hub = ist.BallJoint((9, 0), (0, 0), friction=ist.JointFriction(0.5, radius=0.1))
    scene.add_joint(wall, borne, hub, name="hub")
    inertia, spin, mu, radius = 0.2, 3.05, 0.4, 0.5
    spins = {"position": (7, 0), "velocity": (0, 0, spin)}
    wheel = scene.add_body(name="wheel", shape=shapes.Disc(0.1), mass=1.0, inertia=inertia, **spins)
    axle = ist.BallJoint((7, 0), (0, 0), friction=ist.JointFriction(mu, radius=radius))
    scene.add_joint(wall, wheel, axle, name="axle")
    stop = inertia * spin / (mu * radius * 10)
    run = ist.simulate(scene, ist.GeometricallyImplicit(), h=H, duration=2 * stop)
    names, states, changes = ist.joint_states(scene, run)
    assert names == ("guide 0", "guide 1", "guide 2", "hub", "axle")
    # nothing presses the hub
    np.testing.assert_array_equal(states[:, :4], np.tile(["stick", "impending", "slip", "slip"], (len(run), 1)))
    ((when, which, kind),) = changes
    assert (when, which, kind) == (pytest.approx(stop, abs=H), "axle", "sticks")
    with pytest.raises(ValueError, match="`trajectory` has the joints .*, and `scene`"):
        ist.joint_states(scenes.two_spheres(), run)
    assert ist.joint_states(scenes.two_spheres(), ist.simulate(scenes.two_spheres(), STEPPER, h=H, duration=H)).names == ()


def test_contacts_of_found_pairs_have_the_states_of_declared_ones():
    """Balls that slide on a floor, of which one meets another."""
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    balls = []
    for i, speed in enumerate([2.0, 0.0, 0.1]):
        rolls = {"position": (0.3 * i, 0, 0.1), "velocity": (speed, 0, 0, 0, 0, 0)}
        balls.append(scene.add_body(name=f"ball {i}", shape=shapes.Sphere(0.1), mass=1.0, **rolls))
    scene.add_contacts(friction=0.2, between=([floor], balls))
    scene.add_contacts(friction=0.4, among=balls)
    found, declared = (
        ist.simulate(scene, ist.GeometricallyImplicit(jacobian=jacobian), h=H, duration=0.3)
        for jacobian in ("sparse", "dense")
    )
    of_found, of_declared = (ist.contact_states(scene, run).states for run in (found, declared))
    assert {"open", "stick", "slip"} <= set(of_found.ravel())
    others = set(range(len(declared.contact_names)))
    for number, name in enumerate(found.contact_names):
        at = declared.contact_names.index(name if name in declared.contact_names else name[::-1])
        np.testing.assert_array_equal(of_found[:, number], of_declared[:, at])
        others.remove(at)
    assert np.all(of_declared[:, list(others)] == "open")
    other = ist.Scene()
    for name in ("ball 0", "ball 1", "ball 3"):
        other.add_body(name=name, shape=shapes.Sphere(0.1), mass=1.0, position=(0, 0, 0))
    with pytest.raises(ValueError, match="contacts, and `scene` 0, of which some are others"):
        ist.contact_states(other, found)


def test_what_stops_slipping_at_the_bound_of_friction_sticks():
    """And what is about to slip and then is not, has changed nothing."""
    states = np.array([["slip"], ["impending"], ["stick"], ["impending"], ["slip"], ["open"], ["impending"]])
    changes = changes_of(states, np.arange(8.0), ["pad"])
    assert [(event.time, event.kind) for event in changes] == [(2, "sticks"), (5, "slips"), (6, "opens"), (7, "closes")]

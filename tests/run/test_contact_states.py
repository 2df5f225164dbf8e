"""What contacts do in a run of first order, against the exact times of example 3 and the law of
friction."""

import dataclasses

import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.paper import scenes

H = 0.01


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
    with pytest.raises(ValueError, match="`trajectory` has 5 contacts, and `scene` 2"):
        ist.contact_states(scenes.two_spheres(), run)

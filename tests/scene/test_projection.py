"""Starts that joints do not hold in, and the nearest ones in which they do."""

import numpy as np
import pytest

import implicit_stepper as ist
import shapes


def four_bar(project=True):
    """Three bars that nearly close between two points of a frame; their ends are where `ends` has
    them."""
    scene = ist.Scene(dimension=2)
    frame = scene.add_fixed(name="frame", shape=shapes.HalfPlane(normal=(0, 1), offset=-5.0))
    bar = {"shape": shapes.Ellipse((0.5, 0.05)), "mass": 1.0}
    left = scene.add_body(name="left", position=(0.02, 0.5), angle=np.pi / 2 - 0.05, **bar)
    top = scene.add_body(name="top", position=(0.5, 1.03), angle=0.1, velocity=(0.4, 0, 0), **bar)
    right = scene.add_body(name="right", position=(1.0, 0.45), angle=-np.pi / 2, **bar)
    for first, second, points in (
        (frame, left, ((0, 0), (-0.5, 0))),
        (left, top, ((0.5, 0), (-0.5, 0))),
        (top, right, ((0.5, 0), (-0.5, 0))),
        (right, frame, ((0.5, 0), (1, 0))),
    ):
        scene.add_joint(first, second, ist.BallJoint(*points), project=project)
    return scene


def ends(state):
    """Both ends (3, 2, 2) of the bars and their velocities."""
    along = np.stack([np.cos(state.orientation[:, 0]), np.sin(state.orientation[:, 0])], axis=1)
    side, at = np.stack([-along[:, 1], along[:, 0]], axis=1), np.array([-0.5, 0.5])[:, None]
    where = state.position[:, None] + at * along[:, None]
    return where, state.velocity[:, None, :2] + at * (state.velocity[:, 2:] * side)[:, None]


def test_a_loop_closes_and_its_velocities_fit():
    _, state = four_bar().build()
    for found, held in zip(ends(state), (np.array([[0, 0], [1, 0]]), np.zeros((2, 2))), strict=True):
        gaps = [found[0, 0] - held[0], found[0, 1] - found[1, 0], found[1, 1] - found[2, 0], found[2, 1] - held[1]]
        np.testing.assert_allclose(gaps, np.zeros((4, 2)), atol=2e-14)
    assert np.max(np.abs(state.position - [[0.02, 0.5], [0.5, 1.03], [1.0, 0.45]])) < 0.1
    assert abs(state.velocity[1, 0]) > 0.1  # what can move on does


def test_of_a_pendulum_the_nearest_place_on_the_circle():
    """A point mass on a rod without mass goes straight to the circle."""
    scene = ist.Scene(dimension=2)
    hook = scene.add_fixed(name="hook", shape=shapes.Disc(0.1))
    bob = scene.add_body(name="bob", shape=shapes.Disc(0.1), mass=1.0, position=(0.9, -1.2), velocity=(1, 0, 0))
    scene.add_joint(hook, bob, ist.Distance((0, 0), (0, 0), length=1.0), project=True)
    _, state = scene.build()
    np.testing.assert_allclose(state.position[0], [0.6, -0.8], atol=1e-14)
    np.testing.assert_allclose(state.velocity[0], [0.64, 0.48, 0], atol=1e-14)


def test_a_file_has_it_and_without_it_nothing_moves(tmp_path):
    four_bar().save(tmp_path / "loop.toml")
    first, second = (scene.build()[1] for scene in (four_bar(), ist.load_scene(tmp_path / "loop.toml")))
    np.testing.assert_array_equal(first.position, second.position)
    with pytest.raises(ValueError, match="is open by .* as it is added"):
        four_bar(project=False)


def test_joints_that_contradict_each_other_are_named():
    scene = ist.Scene(dimension=2)
    hook = scene.add_fixed(name="hook", shape=shapes.Disc(0.1))
    bob = scene.add_body(name="bob", shape=shapes.Disc(0.1), mass=1.0, position=(0, -1))
    for name, length in (("short", 1.0), ("long", 1.1)):
        scene.add_joint(hook, bob, ist.Distance((0, 0), (0, 0), length=length), name=name, project=True)
    with pytest.raises(ValueError, match="do not hold together near the poses given: ") as caught:
        scene.build()
    for name in ("short", "long"):  # half of what they differ by
        assert f"'{name}' is open by 0.05" in str(caught.value)


@pytest.mark.parametrize("friction", [None, ist.JointFriction(0.2, radius=0.01)])
def test_a_joint_that_rubs_is_projected_as_one_that_does_not(friction):
    scene = ist.Scene()
    wall = scene.add_fixed(name="wall", shape=shapes.Sphere(0.1))
    body = scene.add_body(name="body", shape=shapes.Sphere(0.1), mass=2.0, position=(0.6, 0, 0.55))
    hinge = ist.Hinge((0, 0, 0.5), (0, 1, 0), (-0.6, 0, 0), (0, 1, 0), friction=friction)
    scene.add_joint(wall, body, hinge, name="hinge", project=True)
    _, state = scene.build()
    assert np.linalg.norm(state.position[0] - [0, 0, 0.5]) == pytest.approx(0.6, abs=1e-12)
    assert 0.5 < state.position[0, 2] < 0.55


def guided(project=True, **limit):
    """A body on a slider that nearly holds, and how far it is along that."""
    scene = ist.Scene(dimension=2)
    wall = scene.add_fixed(name="wall", shape=shapes.Disc(0.1))
    body = scene.add_body(name="body", shape=shapes.Disc(0.1), mass=1.0, position=(0.011, 0.02 * project))
    scene.add_joint(wall, body, ist.Slider((0, 0), (1, 0), (0, 0), (1, 0)), name="guide", project=project)
    if limit:
        scene.add_limit("guide", **limit)
    return scene


def test_motions_along_a_projected_joint_are_projected_to_and_limits_asked_for_there():
    scene = guided()
    scene.add_motion("guide", ist.Motion("0.1*sin(t)"))
    _, state = scene.build()
    np.testing.assert_allclose(state.position[0], 0, atol=1e-14)
    np.testing.assert_allclose(state.velocity[0], [0.1, 0, 0], atol=1e-14)
    scene.add_limit("guide", high=0.005)  # 6 mm beyond which the body was placed
    np.testing.assert_array_equal(scene.build()[1].position, state.position)
    _, state = guided(low=0.011).build()
    np.testing.assert_allclose(state.position[0], [0.011, 0], atol=1e-14)
    with pytest.raises(ist.errors.OpenJointError, match="low.* is open by 0.001 m where all joints hold"):
        guided(low=0.012).build()
    with pytest.raises(ist.errors.OpenJointError, match="motion of guide' is open by 0.011 m as it is added"):
        guided(project=False).add_motion("guide", ist.Motion("0.1*sin(t)"))

"""Batches against single runs and closed forms; that no scene depends on another; what is flagged
and refused."""

import dataclasses
import errno
import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy

import implicit_stepper as ist
import shapes
from implicit_stepper.implicit_euler import side_by_side
from implicit_stepper.model.bodies import State
from implicit_stepper.paper import scenes
from implicit_stepper.run import batch, batch_files
from implicit_stepper.run.batch_values import values_of
from implicit_stepper.run.fixed_run import checked

STEPPER, H, STEPS, G = ist.GeometricallyImplicit(), 0.07, 10, 9.81
MU = np.linspace(0.05, 0.35, 37)
SKEW = 0.1 * np.eye(3, k=1)
in_several_blocks = pytest.mark.skipif(
    jax.local_devices()[0].platform != "cpu", reason="these scenes are one block of an accelerator"
)


def run(**changes):
    return ist.simulate_batch(scenes.spin(), STEPPER, h=H, duration=STEPS * H, **changes)


@pytest.fixture(scope="module")
def many():
    return run(parameters={"mu": MU})


@pytest.fixture
def gathered(monkeypatch):
    """Runs with the pass of accelerators, small: what chord iterations leave, as they do all scenes
    in the first step, is gathered three at a time."""
    monkeypatch.setattr(side_by_side, "CPU", side_by_side.Pass(width=16, lanes=3))
    velocity = np.asarray(scenes.spin().build()[1].velocity)
    return lambda mu, speeds=1.0: run(
        parameters={"mu": mu, "velocity": np.multiply.outer(speeds * np.ones(len(mu)), velocity)}
    )


def test_scenes_of_a_batch_are_single_runs(many):
    """A sphere's spin falls by mu g e_r m h / I a step, until it is zero."""
    assert np.all(many.result == ist.Result.SOLVED)
    assert np.all(many.steps == STEPS)
    assert not np.any(many.helped)
    assert np.max(many.violation) <= 1e-10
    spin = np.maximum(1.962 - MU * G * H * STEPS, 0.0)
    assert np.abs(many.end.velocity[:, 0, 5] - spin).max() <= 1e-10
    single = ist.simulate(scenes.spin(), STEPPER, h=H, duration=STEPS * H)
    same = run(parameters={"mu": [0.2]})
    assert np.abs(same.end.velocity[0] - single.velocity[-1]).max() <= 1e-11
    assert "37 of 37 scenes solved; 370 certified steps" in str(many)


def test_results_depend_neither_on_the_order_nor_on_the_size_of_a_batch(many):
    order = np.random.default_rng(0).permutation(len(MU))
    mixed, few = run(parameters={"mu": MU[order]}), run(parameters={"mu": MU[3:5]})
    for name in ("position", "orientation", "velocity"):
        whole = getattr(many.end, name)
        assert getattr(mixed.end, name).tobytes() == whole[order].tobytes()
        assert getattr(few.end, name).tobytes() == whole[3:5].tobytes()


@pytest.mark.thorough
def test_the_pass_of_accelerators_gives_the_same_roots_in_any_order_and_batch(many, gathered):
    order = np.random.default_rng(0).permutation(len(MU))
    found, mixed, few = gathered(MU), gathered(MU[order]), gathered(MU[3:5])
    assert np.all(found.result == ist.Result.SOLVED)
    assert np.all(found.steps == STEPS)
    assert not np.any(found.helped)
    assert np.max(found.violation) <= 1e-10
    for name in ("position", "orientation", "velocity"):
        whole = getattr(found.end, name)
        assert np.abs(whole - getattr(many.end, name)).max() <= 1e-9
        assert getattr(mixed.end, name).tobytes() == whole[order].tobytes()
        assert getattr(few.end, name).tobytes() == whole[3:5].tobytes()


def test_a_scene_that_fails_in_the_pass_of_accelerators_leaves_the_others_alone(gathered, monkeypatch):
    """Of a spin of 1e200 rad/s, as in the test below."""
    monkeypatch.setattr(batch, "pieces", lambda *_: iter(()))
    lost = np.arange(len(MU)) == 7
    whole, found = gathered(MU), gathered(MU, np.where(lost, 1e200, 1.0))
    assert np.array_equal(found.result != ist.Result.SOLVED, lost)
    assert np.array_equal(found.helped, lost)
    assert np.array_equal(found.steps, np.where(lost, 0, STEPS))
    assert found.end.velocity[~lost].tobytes() == whole.end.velocity[~lost].tobytes()


def test_a_scene_that_fails_is_flagged_and_the_rest_is_kept(many, monkeypatch):
    """Nothing solves a spin of 1e200 rad/s; the fallback sequence, which would take its time to say
    so, is left out."""
    monkeypatch.setattr(batch, "pieces", lambda *_: iter(()))
    _, start = scenes.spin().build()
    velocity = np.tile(start.velocity, (len(MU), 1, 1))
    velocity[7, 0, 5] = 1e200
    tile = [np.tile(getattr(start, name), (len(MU), 1, 1)) for name in ("position", "orientation")]
    found = run(parameters={"mu": MU}, states=State(np.zeros(len(MU)), *tile, velocity))
    lost = np.arange(len(MU)) == 7
    assert np.array_equal(found.result != ist.Result.SOLVED, lost)
    assert np.array_equal(found.helped, lost)
    assert np.array_equal(found.steps, np.where(lost, 0, STEPS))
    assert np.array_equal(found.end.velocity[~lost], many.end.velocity[~lost])
    assert found.end.velocity[7, 0, 5] == 1e200


def test_what_begins_with_bodies_in_each_other_is_flagged_and_the_rest_is_kept(many):
    """The sphere of scene 7 is sunk by six tenths of its radius, that of scene 2 by a thousandth,
    out of which the first step lifts it."""
    _, start = scenes.spin().build()
    position = np.tile(start.position, (len(MU), 1, 1))
    depth, radius = np.zeros(len(MU)), start.position[0, 2]
    depth[[2, 7]] = 1e-3 * radius, 0.6 * radius
    position[:, 0, 2] -= depth
    with pytest.warns(ist.OverlapWarning, match=f"in 2 of 37 scenes .* by {depth[7]:.3g} m in scene 7"):
        found = run(parameters={"mu": MU, "position": position})
    sunk = np.arange(len(MU)) == 7
    assert np.array_equal(found.result == ist.Result.OVERLAPS, sunk)
    assert np.array_equal(found.result == ist.Result.SOLVED, ~sunk)
    assert np.array_equal(found.steps, np.where(sunk, 0, STEPS))
    assert not np.any(found.helped)
    np.testing.assert_allclose(found.overlap, depth, rtol=0, atol=1e-12)
    assert found.end.position[7].tobytes() == position[7].tobytes()
    same = depth == 0
    assert found.end.velocity[same].tobytes() == many.end.velocity[same].tobytes()


@pytest.mark.parametrize("how", [{"h": 0.01}, pytest.param({"tol": 1e-6}, marks=pytest.mark.thorough)])
def test_scenes_that_are_run_one_by_one_are_flagged_too(how):
    """A disc that bounces; in scene 1 it is sunk by six tenths of its radius."""
    scene = ist.Scene(dimension=2, gravity=(0, -G))
    ground = scene.add_fixed(name="ground", shape=shapes.HalfPlane(normal=(0, 1)))
    disc = scene.add_body(name="disc", shape=shapes.Disc(0.1), mass=1.0, position=(0, 0.15))
    scene.add_contact(disc, ground, restitution=ist.Newton(0.5))
    stepper = STEPPER if "h" in how else ist.RadauContact()
    with pytest.warns(ist.OverlapWarning, match="in 1 of 3 scenes .* by 0.06 m in scene 1"):
        found = ist.simulate_batch(
            scene, stepper, **how, duration=0.05, parameters={"position": [[[0, 0.15]], [[0, 0.04]], [[0, 0.3]]]}
        )
    assert found.result.tolist() == [ist.Result.SOLVED, ist.Result.OVERLAPS, ist.Result.SOLVED]
    assert found.steps[1] == 0
    np.testing.assert_allclose(found.overlap, [0, 0.06, 0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.end.position[1], [[0, 0.04]], rtol=0)
    np.testing.assert_allclose(found.end.velocity[[0, 2], 0, 1], -G * 0.05, rtol=0, atol=1e-9)


def test_what_fails_in_the_program_is_run_by_the_fallback_sequence(many):
    """Forced to fail at once, all scenes come out the same from the host."""
    none = many.result[:3] * 0 + int(ist.Result.NOT_CONVERGED)
    system, start = scenes.spin().build()
    ends = State(*(np.zeros_like(getattr(many.end, name)[:3]) for name in ("time", "position", "orientation", "velocity")))
    found = (ends, none, np.zeros(3, int), np.zeros(3), np.zeros(3))
    end, result, steps, _, helped, _ = batch._helped(STEPPER, system, start, {"mu": MU}, found, H, STEPS)
    assert np.all(result == ist.Result.SOLVED)
    assert np.all(helped)
    assert np.all(steps == STEPS)
    assert np.abs(end.velocity - many.end.velocity[:3]).max() <= 1e-11


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "are both empty"),
        ({"parameters": {"colour": [1.0]}}, "'colour': of this scene there are mass"),
        ({"parameters": {"mu": [0.1, 0.2], "mass": [1.0]}}, "first axes .* all must be the number of scenes"),
        ({"parameters": {"mu": 0.1}}, "first axes"),
        ({"parameters": {"mu": np.ones((2, 3))}}, r"'mu' of shape \(3,\) a scene: it must be \(\) or \(1,\)"),
        ({"parameters": {"mu": [0.1, np.nan]}}, "'mu' = nan in scene 1: it must be finite"),
        ({"parameters": {"mu": [0.1, -0.1]}}, "'mu' = -0.1 in scene 1: it must be 0 or more"),
        ({"parameters": {"mu": [0.1, 1e7]}}, "'mu' = 1e[+]07 in scene 1: it must be no more than 1e[+]06"),
        ({"states": {"velocity": [1.0]}}, "`states` is a dict: give a State .* as the `end` of a Batch"),
        ({"parameters": {"mass": [1.0, 0.0]}}, "'mass' = 0 in scene 1: it must be above 0"),
        ({"parameters": {"mu": np.zeros((0, 1))}}, "first axes"),
        ({"parameters": {"mu": "much"}}, "'mu' = 'much': give numbers"),
        ({"parameters": {"mu": [True, False]}}, r"'mu' = \[True, False\]: give numbers"),
        ({"parameters": {"mu": ["0.1", "0.2"]}}, "'mu' = .*: give numbers"),
        ({"parameters": {"e_t": [1.0, 0.5]}}, "'e_t' = 0.5 in scene 1, which differs from 'e_o' = 1: give .* `direction`"),
        (
            {"parameters": {"e_t": [[1.0], [0.5]], "e_o": [1.0, 0.6]}},
            "'e_t' = 0.5 in scene 1, which differs from 'e_o' = 0.6",
        ),
        (
            {"parameters": {"inertia": [[np.eye(3)], [np.eye(3) + SKEW]]}},
            "'inertia' = 0.1 in scene 1: .* a symmetric matrix",
        ),
        ({"parameters": [0.1, 0.2]}, "must be a dictionary"),
    ],
)
def test_bad_batches_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        run(**changes)


def test_semi_axes_that_differ_need_a_direction_in_space_alone():
    """As those of a single scene, which may have two along a direction."""
    scene = scenes.spin()
    law = ist.FrictionEllipsoid(0.2, direction=(1, 0, 0))
    two = ist.Scene()
    two.add_contact(
        two.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1))),
        two.add_body(name="ball", shape=shapes.Sphere(0.5), mass=1.0, position=(0, 0, 0.5)),
        friction=law,
    )
    values_of(*scene.build(), {"e_t": [0.5, 0.6], "e_o": [0.5, 0.6]}, None)
    values_of(*two.build(), {"e_t": [0.5, 0.6]}, None)
    plane = ist.Scene(dimension=2)
    line = plane.add_fixed(name="line", shape=shapes.HalfPlane(normal=(0, 1)))
    plane.add_contact(line, plane.add_body(name="disc", shape=shapes.Disc(0.1), mass=1.0, position=(0, 0.1)))
    assert list(values_of(*plane.build(), {"e_t": [0.5, 0.6]}, None)) == ["e_t"]


def test_steps_that_do_not_fill_the_time_are_refused():
    with pytest.raises(ValueError, match="no multiple of `h`"):
        ist.simulate_batch(scenes.spin(), STEPPER, h=0.07, duration=0.1, parameters={"mu": MU})
    with pytest.raises(ValueError, match="has no batches of steps of one `h`"):
        ist.simulate_batch(scenes.spin(), ist.RadauContact(), h=0.1, duration=0.1, parameters={"mu": MU})
    with pytest.raises(ValueError, match="chooses no steps"):
        ist.simulate_batch(scenes.spin(), STEPPER, tol=1e-6, duration=0.1, parameters={"mu": MU})
    for both in ({}, {"h": 0.07, "tol": 1e-6}):
        with pytest.raises(ValueError, match="give one of them"):
            ist.simulate_batch(scenes.spin(), STEPPER, duration=0.1, parameters={"mu": MU}, **both)


@in_several_blocks
def test_a_batch_goes_on_from_the_parts_in_its_folder_to_the_same_bits(many, tmp_path, monkeypatch):
    """A full disk leaves the parts before it; what is there is not computed again."""
    folder, write, run_block = tmp_path / "batch", batch_files.np.savez, batch.fixed_batch.run
    monkeypatch.setattr(
        batch_files.np, "savez", lambda path, **a: no_space() if "part-000001" in path.name else write(path, **a)
    )
    with pytest.raises(ist.CheckpointError, match="does not take part 1: .*No space left"):
        run(parameters={"mu": MU}, folder=folder)
    assert [path.name for path in sorted(folder.iterdir())] == ["batch.json", "part-000000.npz"]
    monkeypatch.setattr(batch_files.np, "savez", write)
    calls = []
    monkeypatch.setattr(batch.fixed_batch, "run", lambda *a: calls.append(1) or run_block(*a))
    found = run(parameters={"mu": MU}, folder=folder)
    assert len(calls) == 2  # one block, and one call of no steps that compiles
    for name in ("position", "orientation", "velocity"):
        assert getattr(found.end, name).tobytes() == getattr(many.end, name).tobytes()
    assert np.array_equal(found.steps, many.steps)
    again = run(parameters={"mu": MU}, folder=folder)
    assert len(calls) == 2
    assert again.end.velocity.tobytes() == many.end.velocity.tobytes()


def no_space():
    raise OSError(errno.ENOSPC, "No space left on device")


def test_folders_that_are_not_the_batch_s_own_stay_as_they_are(tmp_path):
    (tmp_path / "mine").write_text("x")
    with pytest.raises(ist.CheckpointError, match="holds other files"):
        run(parameters={"mu": MU[:1]}, folder=tmp_path)
    folder = tmp_path / "one"
    run(parameters={"mu": MU[:1]}, folder=folder)
    with pytest.raises(ist.CheckpointError, match="another batch, which differs in: values"):
        run(parameters={"mu": MU[1:2]}, folder=folder)
    (folder / "part-000000.npz").write_bytes(b"PK")
    with pytest.raises(ist.CheckpointError, match="is damaged"):
        run(parameters={"mu": MU[:1]}, folder=folder)
    (folder / "batch.json").write_text("[]")
    with pytest.raises(ist.CheckpointError, match="of no batch of this version"):
        run(parameters={"mu": MU[:1]}, folder=folder)


_HOST = """
import sys
import jax
jax.distributed.initialize(f"127.0.0.1:{sys.argv[1]}", num_processes=2, process_id=int(sys.argv[2]))
import numpy as np
import test_batch
np.save(sys.argv[3], test_batch.thrown(sys.argv[4]).end.velocity)
"""


def thrown(folder=None):
    """37 bodies that spin about no principal axis, and touch nothing."""
    scene = ist.Scene()
    scene.add_body(name="body", shape=shapes.Ellipsoid((0.1, 0.2, 0.3)), mass=1.0, position=(0, 0, 0))
    velocity = np.random.default_rng(0).normal(size=(37, 1, 6))
    settings = {"parameters": {"velocity": velocity}, "folder": folder, "progress": False}
    return ist.simulate_batch(scene, STEPPER, h=0.01, duration=0.1, **settings)


@in_several_blocks
def test_two_processes_share_a_batch_and_get_the_bits_of_one(tmp_path):
    """Each computes one of two blocks, and has both. This process, whose compiler's options they
    have, is alone."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    ends, parts = [tmp_path / f"{number}.npy" for number in range(2)], tmp_path / "parts"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    hosts = [
        subprocess.Popen([sys.executable, "-c", _HOST, port, str(n), str(end), str(parts)], env=environment)
        for n, end in enumerate(ends)
    ]
    alone = thrown().end.velocity.tobytes()
    assert [host.wait(timeout=600) for host in hosts] == [0, 0]
    found = [np.load(end).tobytes() for end in ends]
    assert found[0] == found[1] == alone
    assert thrown(parts).end.velocity.tobytes() == alone  # read, and not computed again
    assert {path.name for path in parts.iterdir()} == {"batch.json", "part-000000.npz", "part-000001.npz"}


def test_friction_above_that_of_what_sticks_and_found_pairs_are_refused():
    scene = ist.Scene(dimension=2)
    ground = scene.add_fixed(name="ground", shape=shapes.HalfPlane(normal=(0, 1)))
    disc = scene.add_body(name="disc", shape=shapes.Disc(0.1), mass=1.0, position=(0, 0.1))
    scene.add_contact(ground, disc, friction=ist.FrictionEllipsoid(0.3, mu_s=0.5))
    with pytest.raises(ValueError, match="'mu' = 0.6 in scene 1: it must be no more than the `mu_s`"):
        ist.simulate_batch(scene, STEPPER, h=0.01, duration=0.01, parameters={"mu": [0.5, 0.6]})
    sparse = ist.GeometricallyImplicit(jacobian="sparse")
    with pytest.raises(ValueError, match="batches declare all of them"):
        ist.simulate_batch(scene, sparse, h=0.01, duration=0.01, parameters={"mu": [0.5, 0.4]})


def pendulum() -> ist.Scene:
    """A disc on a rod of .5 m, with a pin that rubs, a spring and a motor."""
    scene = ist.Scene(dimension=2)
    wall = scene.add_fixed(name="wall", shape=shapes.Disc(0.01), position=(5, 5))
    bob = scene.add_body(name="bob", shape=shapes.Disc(0.1), mass=1.2, position=(5.5, 5))
    friction = ist.JointFriction(0.2, radius=0.05, mu_s=0.4)
    scene.add_joint(wall, bob, ist.BallJoint((0, 0), (-0.5, 0), friction=friction), name="pin")
    scene.add_motor("pin", speed=2.0, most=4.0)
    scene.add_spring("pin", stiffness=20.0, damping=0.3)
    return scene


def states(**second):
    """Two first states, of which the second is changed."""
    kept = {"time": 0.0, "position": [[5.5, 5.0]], "orientation": [[0.0]], "velocity": [[0.0, 0.0, 0.0]]}
    return State(*(np.array([value, second.get(name, value)]) for name, value in kept.items()))


@pytest.mark.parametrize("stepper", [STEPPER, ist.RadauContact()])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mu of pin": [0.1, -0.1]}, "`parameters` has 'mu of pin' = -0.1 in scene 1: it must be 0 or more"),
        ({"mu of pin": [0.1, 0.6]}, "'mu of pin' = 0.6 in scene 1: it must be no more than the `mu_s`"),
        ({"stiffness of spring of pin": [20.0, -1.0]}, "'stiffness of spring of pin' = -1 in scene 1"),
        ({"damping of spring of pin": [0.0, -1.0]}, "'damping of spring of pin' = -1 in scene 1"),
        ({"most of motor of pin": [4.0, 0.0]}, "'most of motor of pin' = 0 in scene 1: it must be above 0"),
        ({"inertia": [0.006, -0.3]}, "'inertia' = -0.3 in scene 1: it must be a matrix with principal moments"),
        (states(velocity=[[3.0, 0.0, 0.0]]), "scene 1: joint 'pin' would be torn at 3 m/s"),
        (states(position=[[5.7, 5.0]]), "scene 1: joint 'pin' is open by 0.2 m"),
        (states(position=[[np.nan, 5.0]]), "`states` has 'position' = nan in scene 1"),
    ],
)
def test_numbers_and_states_of_joints_are_those_that_a_scene_may_have(stepper, given, message):
    how = {"states": given} if isinstance(given, State) else {"parameters": given}
    size = {"h": 0.01} if stepper is STEPPER else {"tol": 1e-6}
    with pytest.raises(ValueError, match=message):
        ist.simulate_batch(pendulum(), stepper, duration=0.1, **how, **size)
    if isinstance(given, State) and "joint" in message:  # a run of one says the same
        start = jax.tree.map(lambda a: a[1], given)
        with pytest.raises(ValueError, match=message.removeprefix("scene 1: ")):
            ist.simulate(pendulum(), stepper, duration=0.1, start=start, **size)


def test_states_that_joints_allow_stand_in_for_one_that_they_do_not():
    """The scene's own first state, in which its pin is torn at 3 m/s, is not run."""
    system, start = pendulum().build()
    own = STEPPER, system, dataclasses.replace(start, velocity=np.array([[3.0, 0.0, 0.0]]))
    with pytest.raises(ValueError, match="^joint 'pin' would be torn at 3 m/s"):
        batch._refuse_starts(*own, {"mu of pin": np.array([0.1, 0.2])}, 0.01, 0.1)
    for values in (vars(states()), {"velocity": np.zeros((2, 1, 3))}):
        batch._refuse_starts(*own, values, 0.01, 0.1)


def test_sizes_of_shapes_are_above_zero():
    with pytest.raises(ValueError, match="'shape of sphere' = -0.5 in scene 1: it must be above 0"):
        run(parameters={"shape of sphere": [0.5, -0.5]})


def test_shapes_of_a_batch_are_shapes():
    """x^2 + y^2 + z^2 + p x^2 y^2 <= 1 is not convex for p = -5, no plane has the normal 0, and
    a lens is no thicker than the smaller of its two balls."""
    p = sympy.Symbol("p")
    scene = ist.Scene()
    floor = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    own = shapes.ImplicitShape(
        [shapes.x**2 + shapes.y**2 + shapes.z**2 + p * shapes.x**2 * shapes.y**2 - 1], parameters={p: 0}
    )
    body = {"shape": own, "mass": 1.0, "inertia": (0.1, 0.1, 0.1), "position": (0, 0, 1)}
    scene.add_contact(scene.add_body(name="body", **body), floor)
    scene.add_contact(scene.add_body(name="lens", shape=shapes.Lens(1.0, 2.0, 0.5), mass=1.0, position=(9, 0, 1)), floor)
    system, start = scene.build()
    values_of(system, start, {"shape of body": [0.0, 0.5, 0.1]}, None)
    with pytest.raises(ValueError, match=r"'shape of body' = \[-5.0\] in scene 1: ImplicitShape is not convex"):
        values_of(system, start, {"shape of body": [0.0, -5.0, 0.1]}, None)
    with pytest.raises(
        ValueError, match=r"'shape of lens' = .* in scene 1: 2\*radius_1 - thickness of Lens must be above 0"
    ):
        values_of(system, start, {"shape of lens": [[1.0, 2.0, 0.5], [1.0, 2.0, 2.5]]}, None)
    with pytest.raises(ValueError, match="'shape of floor' = .* in scene 1: HalfSpace is empty or flat"):
        values_of(system, start, {"shape of floor": [[0, 0, 1, 0], [0, 0, 0, 0]]}, None)


def two_balls(radius, apart, speed=0.0, restitution=None):
    """Two balls at rest or on their way to each other, with no length that depends on `radius`."""
    scene = ist.Scene(gravity=(0, 0, 0), length_scale=1.0, acceleration_scale=9.81)
    own = {"shape": shapes.Sphere(radius), "mass": 1.0, "inertia": (1.0, 1.0, 1.0)}
    balls = [
        scene.add_body(name=name, position=(x * apart / 2, 0, 0), velocity=(-x * speed, 0, 0, 0, 0, 0), **own)
        for name, x in (("left", -1), ("right", 1))
    ]
    scene.add_contact(*balls, friction=0.0, restitution=restitution)
    return scene


@pytest.mark.thorough
@pytest.mark.parametrize(("stepper", "size"), [(STEPPER, {"h": 0.05}), (ist.RadauContact(), {"tol": 1e-6})])
def test_small_balls_do_not_fly_through_each_other_in_a_batch_of_large_ones(stepper, size):
    """Half a metre a step, 1 cm of radius: what passes through what depends on a scene's own
    shapes."""
    how, radius = {"duration": 0.3, **size}, {f"shape of {name}": [1.0, 0.01] for name in ("left", "right")}
    found = ist.simulate_batch(two_balls(1.0, 4.5, 10.0, ist.Newton(0.5)), stepper, parameters=radius, **how)
    assert found.result.tolist() == [ist.Result.SOLVED] * 2
    for i, own in enumerate((1.0, 0.01)):
        met = (4.5 - 2 * own) / 20.0
        np.testing.assert_allclose(found.end.velocity[i, :, 0], [-5, 5], rtol=1e-9)
        np.testing.assert_allclose(found.end.position[i, 1, 0], own + 5 * (0.3 - met), rtol=1e-9)
    single = ist.simulate(two_balls(0.01, 4.5, 10.0, ist.Newton(0.5)), stepper, **how)
    np.testing.assert_allclose(found.end.position[1], single.position[-1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("restitution", [None, pytest.param(ist.Newton(0.5), marks=pytest.mark.thorough)])
def test_how_deep_balls_may_be_is_a_matter_of_a_scene_s_own_shapes(restitution):
    """By 12 mm, more than half of 1 cm, and less of 1 m."""
    radius = {f"shape of {name}": [0.01, 1.0] for name in ("left", "right")}
    place = {"position": np.array([[[-0.004, 0, 0], [0.004, 0, 0]], [[-0.994, 0, 0], [0.994, 0, 0]]])}
    base = two_balls(1.0, 4.0, restitution=restitution)
    with pytest.warns(ist.OverlapWarning, match="in 2 of 2 scenes"):
        found = ist.simulate_batch(base, STEPPER, h=0.01, duration=0.01, parameters=radius | place)
    assert found.result.tolist() == [ist.Result.OVERLAPS, ist.Result.SOLVED]
    np.testing.assert_allclose(found.overlap, 0.012, rtol=1e-9)
    with pytest.raises(ValueError, match="of the largest ball in the smaller one: .* of 0.01 m"):
        ist.simulate(two_balls(0.01, 0.008, restitution=restitution), STEPPER, h=0.01, duration=0.01)


def test_quaternions_of_states_are_unit_ones():
    system, start = scenes.spin().build()
    twice = dataclasses.replace(start, orientation=2 * np.asarray(start.orientation))
    with pytest.raises(ValueError, match=r"quaternions of length \[2.0\]"):
        ist.simulate(scenes.spin(), STEPPER, h=H, duration=H, start=twice)
    with pytest.raises(ValueError, match="'orientation' = 2 in scene 0: it must be the length of a unit quaternion"):
        run(states=jax.tree.map(lambda a: np.asarray(a)[None], twice))
    # those of single precision are normalised, as `add_body` does
    single = dataclasses.replace(start, orientation=(1 + 5e-7) * np.asarray(start.orientation))
    np.testing.assert_array_equal(checked(single, system, start).orientation, start.orientation)
    values = values_of(system, start, {}, jax.tree.map(lambda a: np.asarray(a)[None], single))
    np.testing.assert_array_equal(values["orientation"][0], start.orientation)


def test_chosen_steps_of_a_batch_are_refused_where_a_single_run_is():
    """A push that begins at t = .3 s, for bodies on the right, and a time that one step fills."""
    scene, chosen = ist.Scene(dimension=2, gravity=(0, 0), length_scale=1.0, acceleration_scale=1.0), {"tol": 1e-6}

    def push(time, position, *_):
        return jnp.where((time > 0.3) & (position[0] > 0), 1.0, 0.0) * jnp.array([0.0, 1.0, 0.0])

    scene.add_body(name="disc", shape=shapes.Disc(0.1), mass=1.0, position=(0, 0), wrench=push)
    start = scene.build()[1]
    x = np.array([[[-1.0, 0.0]], [[1.0, 0.0]]])
    begun = [dataclasses.replace(start, position=place) for place in x]
    # on the left nothing pushes
    ist.simulate(scene, ist.RadauContact(), duration=1.0, start=begun[0], **chosen)
    for run in (
        lambda: ist.simulate(scene, ist.RadauContact(), duration=1.0, start=begun[1], **chosen),
        lambda: ist.simulate_batch(scene, ist.RadauContact(), duration=1.0, parameters={"position": x}, **chosen),
    ):
        with pytest.raises(ValueError, match="the wrench of 'disc' jumps at t = 0.3 s"):
            run()
    found = ist.simulate_batch(scene, ist.RadauContact(), duration=0.2, parameters={"position": x}, **chosen)
    assert found.result.tolist() == [ist.Result.SOLVED] * 2
    late = State(np.array([0.0, 0.2]), np.stack([x[0], x[1]]), np.zeros((2, 1, 1)), np.zeros((2, 1, 3)))
    with pytest.raises(ValueError, match="jumps at t = 0.3 s, where chosen steps of a batch do not end"):
        ist.simulate_batch(scene, ist.RadauContact(), duration=0.2, states=late, **chosen)
    with pytest.raises(ValueError, match="`duration` = 1e-08 s: chosen steps of this scene are 1.0e-07 s or longer"):
        ist.simulate_batch(scene, ist.RadauContact(), duration=1e-8, parameters={"position": x}, **chosen)


@pytest.mark.parametrize(("stepper", "size"), [(STEPPER, {"h": 0.01}), (ist.RadauContact(), {"tol": 1e-8})])
def test_a_batch_goes_on_from_the_times_of_its_states(stepper, size):
    """A body that is pushed by F = m t has t^2 / 2; steps see loads as they begin, h / 2 early."""
    scene = ist.Scene(dimension=2, gravity=(0, 0))
    load = {"wrench": lambda time, *_: jnp.stack([0 * time, time, 0 * time])}
    scene.add_body(name="disc", shape=shapes.Disc(0.1), mass=1.0, position=(0, 0), **load)
    begun = State(np.array([0.0, 0.4]), np.zeros((2, 1, 2)), np.zeros((2, 1, 1)), np.zeros((2, 1, 3)))
    found = ist.simulate_batch(scene, stepper, duration=0.2, states=begun, **size)
    early = size.get("h", 0.0) * 0.2 / 2
    np.testing.assert_allclose(found.end.velocity[:, 0, 1], [0.02 - early, 0.1 - early], rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.end.time, [0.2, 0.6], rtol=0, atol=1e-12)


def test_motions_may_jump_where_no_scene_of_a_batch_is():
    """A slide that is moved by 1 m at 3 s, in scenes from 0 and from 5 s on, and from 2.9 s on."""
    scene = ist.Scene(dimension=2, gravity=(0, 0))
    wall = scene.add_fixed(name="wall", shape=shapes.Disc(0.1))
    body = scene.add_body(name="body", shape=shapes.Disc(0.1), mass=1.0, position=(0, 0))
    scene.add_motion(
        scene.add_joint(wall, body, ist.Slider((0, 0), (1, 0), (0, 0), (1, 0))), lambda t: jnp.where(t > 3, 1.0, 0)
    )
    system, start = scene.build()

    def begun(second, x):
        position = np.array([[[0.0, 0.0]], [[x, 0.0]]])
        return values_of(
            system, start, {}, State(np.array([0.0, second]), position, np.zeros((2, 1, 1)), np.zeros((2, 1, 3)))
        )

    batch._refuse_starts(STEPPER, system, start, begun(5.0, 1.0), 0.01, 1.0)
    with pytest.raises(ValueError, match="jumps at t = 3 s"):
        batch._refuse_starts(STEPPER, system, start, begun(2.9, 0.0), 0.01, 1.0)

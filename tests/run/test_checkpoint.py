"""Runs that were killed go on to the bits of a run that was not; what is no checkpoint of the run
is refused."""

import dataclasses
import errno
import functools
import os
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.many_bodies.catalog import catalog
from implicit_stepper.paper import scenes
from implicit_stepper.radau import driver
from implicit_stepper.run import checkpoint
from implicit_stepper.stepping import fallback
from shapes import x, y, z

FIXED = {"scene": scenes.landing_ball(), "stepper": ist.GeometricallyImplicit(), "h": 0.004, "duration": 1.2}
CHOSEN = {"scene": scenes.landing_ball(), "stepper": ist.RadauContact(), "tol": 1e-9, "duration": 1.2}


class Killed(BaseException):
    """Ends a run as abruptly as an exception can."""


def bits(trajectory) -> list[bytes]:
    arrays = (trajectory.time, trajectory.position, trajectory.velocity, trajectory.orientation, trajectory.certificate)
    leaves = jax.tree.leaves((arrays, trajectory.contacts, trajectory.stats, trajectory.h))
    return [np.asarray(leaf).tobytes() for leaf in leaves]


@pytest.mark.parametrize(("run", "often"), [(FIXED, 80), (CHOSEN, 2)], ids=["fixed steps", "chosen steps"])
def test_a_run_goes_on_to_the_bits_of_one_that_was_not_killed(run, often, tmp_path, monkeypatch):
    """It is killed whenever it has written some files, in calls as short as can be, until it is
    through."""
    whole = ist.simulate(**run)
    for module in (fallback, driver):
        monkeypatch.setattr(module, "next_call", lambda *_: 1)
    path, resume, kills = tmp_path / "run.checkpoint", None, 0
    written = checkpoint.write
    while True:
        count = iter(range(1, 1000))

        def write(*arguments, count=count):
            written(*arguments)
            if next(count) == often:
                raise Killed

        monkeypatch.setattr(checkpoint, "write", write)
        try:
            found = ist.simulate(**run, checkpoint=path, every=0.0, resume=resume)
            break
        except Killed:
            resume, kills = path, kills + 1
    assert kills >= 2
    assert bits(found) == bits(whole)
    assert found.events == whole.events


def test_a_run_whose_events_follow_each_other_leaves_files(tmp_path, monkeypatch):
    """After each of them, between two ways of smooth steps."""
    written, between = checkpoint.write, []

    def write(path, asked, kept):
        between.append(kept["way"] is None)
        written(path, asked, kept)

    monkeypatch.setattr(checkpoint, "write", write)
    found = ist.simulate(**CHOSEN, checkpoint=tmp_path / "run.checkpoint", every=0.0)
    assert sum(between) >= len(found.events) == 2


def test_a_killed_process_leaves_what_another_goes_on_from(tmp_path):
    path = tmp_path / "run.checkpoint"
    script = (
        "import implicit_stepper as ist\nfrom implicit_stepper.paper import scenes\n"
        "ist.simulate(scenes.landing_ball(), ist.GeometricallyImplicit(), h=0.004, duration=1.2, "
        f"checkpoint={str(path)!r}, every=0.0)\nimport time\ntime.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", script], env=os.environ)
    try:
        begun = time.monotonic()
        while not path.exists() and time.monotonic() - begun < 120:
            time.sleep(0.001)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    found = ist.simulate(**FIXED, resume=path)
    assert bits(found) == bits(ist.simulate(**FIXED))


def test_what_is_no_checkpoint_of_the_run_is_refused_and_kept(tmp_path):
    path = tmp_path / "run.checkpoint"
    short = {**FIXED, "duration": 0.02}
    ist.simulate(**short, checkpoint=path, every=0.0)
    before = path.read_bytes()
    for other, what in (({"h": 0.002}, "h"), ({"scene": scenes.block()}, "scene, start"), ({"duration": 0.03}, "duration")):
        for role in ("checkpoint", "resume"):
            with pytest.raises(ist.CheckpointError, match=f"`{role}` = .* belongs to another run.* in: {what}"):
                ist.simulate(**{**short, **other}, **{role: path})
    assert path.read_bytes() == before
    path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    with pytest.raises(ist.CheckpointError, match="is damaged"):
        ist.simulate(**short, resume=path)
    path.write_text("a letter")
    with pytest.raises(ist.CheckpointError, match="is no checkpoint .* left as it is"):
        ist.simulate(**short, checkpoint=path)
    assert path.read_text() == "a letter"
    with pytest.raises(ist.CheckpointError, match="cannot be read.*begins without `resume`"):
        ist.simulate(**short, resume=tmp_path / "none")
    with pytest.raises(ValueError, match="`every` = -1"):
        ist.simulate(**short, checkpoint=path, every=-1)


def test_runs_under_other_loads_are_other_runs():
    """Of bodies that are equal in all numbers: without a load, with two formulas, and with two
    functions."""
    found = set()
    for load in (None, ist.Wrench(("t", 0, 0)), ist.Wrench(("2*t", 0, 0)), scenes.block, scenes.landing_ball):
        scene = ist.Scene()
        scene.add_body(name="ball", shape=shapes.Sphere(0.1), mass=1.0, position=(0, 0, 1))
        system, state = scene.build()
        system = dataclasses.replace(system, wrench_functions=(load,))
        found.add(checkpoint.asked_of(system, state, ist.GeometricallyImplicit(), {})["scene"])
    assert len(found) == 5


def test_a_file_that_cannot_be_written_ends_the_run_with_its_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "write", full)
    with pytest.raises(ist.CheckpointError, match="cannot be written: .*No space left") as error:
        ist.simulate(**{**FIXED, "duration": 0.02}, checkpoint=tmp_path / "run.checkpoint", every=0.0)
    assert len(error.value.trajectory) >= 1
    assert error.value.state.time == error.value.trajectory.time[-1]


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_folder_that_is_not_there_is_refused_before_the_first_step(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "write", full)
    with pytest.raises(ist.CheckpointError, match="a folder that is not there: make it") as error:
        ist.simulate(**FIXED, checkpoint=tmp_path / "no" / "such" / "file")
    assert error.value.trajectory is None


def test_reading_makes_nothing_but_arrays_and_records(tmp_path):
    path = tmp_path / "run.checkpoint"

    class Harm:
        def __reduce__(self):
            return os.system, ("true",)

    checkpoint.write(path, {}, {"record": 1.0})
    assert checkpoint.read(path, {}) == {"record": 1.0}
    own = "implicit_stepper.run.checkpoint.write"
    for name, content in (("posix.system", Harm()), (own, checkpoint.write), ("numpy.load", np.load)):
        checkpoint.write(path, {}, {"record": content})
        with pytest.raises(ist.CheckpointError, match=f"asks for {name}"):
            checkpoint.read(path, {})


def test_arrays_of_a_device_are_written_whatever_holds_them(tmp_path):
    """Records that are no trees for JAX among them."""
    path = tmp_path / "run.checkpoint"
    checkpoint.write(path, {}, {"starts": [fallback.Attempt("warm start", jnp.arange(3.0), 1)]})
    (start,) = checkpoint.read(path, {})["starts"]
    assert isinstance(start.residual, np.ndarray)
    np.testing.assert_array_equal(start.residual, [0, 1, 2])


def test_laws_of_impact_are_told_apart():
    asked = []
    for law in (ist.Newton(0.5), ist.Poisson(0.5), ist.Newton(0.6)):
        scene = ist.Scene(dimension=2)
        floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
        disc = scene.add_body(name="disc", shape=shapes.Disc(0.1), mass=1.0, position=(0, 1))
        scene.add_contact(floor, disc, restitution=law)
        asked.append(checkpoint.asked_of(*scene.build(), ist.GeometricallyImplicit(), {})["scene"])
    assert len(set(asked)) == 3


def on_a_table(reach: int, found: bool):
    """A ball above a table whose formulas hold all its numbers; pairs are declared or found."""
    scene, sides = ist.Scene(), [sign * of - reach for of in (x, y) for sign in (1, -1)]
    table = scene.add_fixed(name="table", shape=shapes.ImplicitShape([*sides, z, -z - 1]))
    ball = scene.add_body(name="ball", shape=shapes.Sphere(0.1), mass=1.0, position=(0, 0, 1))
    if found:
        scene.add_contacts(friction=0.3)
    else:
        scene.add_contact(table, ball, friction=0.3)
    return scene


def test_shapes_that_differ_in_formulas_alone_are_told_apart():
    declared = [
        checkpoint.asked_of(*on_a_table(reach, False).build(), ist.GeometricallyImplicit(), {})["scene"]
        for reach in (1, 2, 1)
    ]
    assert declared[0] == declared[2] != declared[1]
    piles = [on_a_table(reach, True) for reach in (1, 2, 1)]
    marks = [catalog(pile.build()[0], pile.body_parts(), pile.body_pairs()).marks() for pile in piles]
    marks = [checkpoint.digest(*own) for own in marks]
    assert marks[0] == marks[2] != marks[1]


def test_settings_that_are_functions_are_told_apart():
    steppers = [ist.ClosedFormGap(gaps=(("Sphere", "Sphere", of),)) for of in (full, pushed, full)]
    asked = [checkpoint.asked_of(*on_a_pin().build(), stepper, {})["stepper"] for stepper in steppers]
    assert asked[0] == asked[2] != asked[1]
    assert " at 0x" not in asked[0]


def pushed(strength: float):
    return ist.PairLoad(lambda one, other, time: jnp.array([strength, 0.0, 0.0]))


def on_a_pin(*, motion=None, high=None, joint=None):
    """A disc with a pin and what moves or bounds it, or with another joint."""
    scene = ist.Scene(dimension=2)
    wall = scene.add_fixed(name="wall", shape=shapes.Disc(0.1), position=(0, -1))
    disc = scene.add_body(name="disc", shape=shapes.Disc(0.1), mass=1.0, position=(0, 0))
    scene.add_joint(wall, disc, ist.BallJoint((0, 1), (0, 0)) if joint is None else joint, name="pin")
    if motion is not None:
        scene.add_motion("pin", motion)
    if high is not None:
        scene.add_limit("pin", **{"high" if high else "low": 0.0})
    return scene


def test_joints_that_differ_in_no_number_are_told_apart():
    scenes_ = [
        *(on_a_pin(motion=ist.Motion(f"{rate}*t**2")) for rate in (0.2, 0.9)),
        *(on_a_pin(motion=lambda time, rate=rate: rate * time**2) for rate in (0.2, 0.9)),
        *(on_a_pin(high=high) for high in (True, False)),
        on_a_pin(joint=ist.UserConstraint(lambda one, other, time: other[0][:1], rows=1)),
        on_a_pin(joint=ist.UserConstraint(lambda one, other, time: other[0][1:], rows=1)),
        *(on_a_pin(joint=pushed(strength)) for strength in (9.0, -9.0, 9.0)),
    ]
    asked = [checkpoint.asked_of(*scene.build(), ist.GeometricallyImplicit(), {})["scene"] for scene in scenes_]
    assert len(set(asked[:-1])) == len(asked) - 1
    assert asked[-1] == asked[-3]


class Drive:
    """What a user's load may be a method of."""

    def __init__(self, strength):
        self.strength = strength

    def force(self, *_):
        return jnp.array([self.strength, 0.0, 0.0])


def test_loads_are_told_apart_by_what_their_objects_hold():
    found, drives = [], [Drive(1.0), Drive(9.0)]
    loads = [drive.force for drive in drives] + [lambda *_, of=drive: of.force() for drive in drives]
    loads += [functools.partial(drive.force, 0) for drive in drives] + [functools.partial(pushed, s) for s in (1.0, 9.0)]
    for load in loads:
        scene = ist.Scene(dimension=2)
        scene.add_body(name="disc", shape=shapes.Disc(0.1), mass=1.0, position=(0, 0))
        system, state = scene.build()
        system = dataclasses.replace(system, wrench_functions=(load,))
        found.append(checkpoint.asked_of(system, state, ist.GeometricallyImplicit(), {})["scene"])
    assert len(set(found)) == len(loads)


def test_another_process_tells_the_same_of_functions():
    """Of code, of what it closes over, and of the order in which a set is walked through."""
    script = """
import implicit_stepper as ist, shapes, jax.numpy as jnp
from implicit_stepper.run import checkpoint
scene, where = ist.Scene(dimension=2), {"strength": jnp.ones(3)}
scene.add_body(name="disc", shape=shapes.Disc(0.1), mass=1.0, position=(0, 0),
               wrench=lambda t, *_: where["strength"] * (t if "a" in {"a", "b", "c"} else 0))
print(checkpoint.asked_of(*scene.build(), ist.GeometricallyImplicit(), {})["scene"])
"""
    seeds = [{**os.environ, "PYTHONHASHSEED": seed} for seed in ("1", "2")]
    told = [subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, check=True).stdout for env in seeds]
    assert told[0] == told[1] != b""

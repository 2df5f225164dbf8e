"""`implicit-stepper run`, `check`, `info` and `warm`: what they print and write, and how they
end."""

import csv
import errno
import os
import re
import types
from pathlib import Path

import jax
import numpy as np
import pytest

import implicit_stepper as ist
import shapes
from implicit_stepper.commands import machine, main, run
from implicit_stepper.paper.comparisons import CASES
from implicit_stepper.run import checkpoint, fixed_run
from implicit_stepper.scene.description import RunSettings
from implicit_stepper.stepping import fallback

SCENES = Path(__file__).parents[2] / "examples" / "scenes"
SPIN = str(SCENES / "spinning_sphere.toml")


@pytest.fixture(autouse=True)
def _settings_left_alone(monkeypatch):
    """`main` sets JAX's device, cache and flags for its process."""
    monkeypatch.setenv("XLA_FLAGS", os.environ["XLA_FLAGS"])
    names = ("jax_default_device", "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs",
             "jax_persistent_cache_min_entry_size_bytes")  # fmt: skip
    before = {name: getattr(jax.config, name) for name in names}
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def test_a_scene_file_is_run_and_gone_on_with(tmp_path, capsys):
    out, table = tmp_path / "new" / "run.npz", tmp_path / "run.csv"
    assert main.main(["run", SPIN, "--out", str(out), "--csv", str(table)]) == 0
    said = capsys.readouterr().out
    assert "18 steps of 0.07 s, t = 0 to 1.26 s, 1 body, 1 contact" in said
    assert "error        unknown: that steps are solved does not say" in said
    assert "energy       10.5799 J to 9.81 J" in said  # .4 1.962^2 / 2 + m g r; at rest
    stored = ist.load(out)
    assert stored.velocity[14, 0, 5] == pytest.approx(0.03924, abs=1e-10)
    chosen = RunSettings(duration=1.26, tol=ist.Tolerance(relative=1e-6))  # as a scene in Python may have them
    said = "\n".join(run._summary(ist.load_scene(SPIN), chosen, stored, 1.0))
    assert "RadauContact, tol = Tolerance(relative=1e-06" in said
    assert "kept near 1e-06 of each body's way" in said
    with table.open(newline="") as file:
        assert len(list(csv.reader(file))) == 20
    assert (
        main.main(["run", SPIN, "--out", str(tmp_path / "b.npz"), "--resume", str(out), "--h", ".1", "--duration", ".3"])
        == 0
    )
    again = ist.load(tmp_path / "b.npz")
    assert again.time[0] == stored.time[-1]
    np.testing.assert_allclose(np.diff(again.time), 0.1)


def test_the_error_of_a_run_is_estimated_unless_bodies_rebound():
    settings, made = RunSettings(duration=1.0, h=0.01), types.SimpleNamespace(error=None)
    for law, says in ((None, "--estimate-error does"), (ist.Newton(0.5), "a run with half of it may tell")):
        scene = ist.Scene(dimension=2)
        floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
        disc = scene.add_body(name="disc", shape=shapes.Disc(0.1), mass=1.0, position=(0, 1))
        scene.add_contact(floor, disc, restitution=law)
        assert run._error(scene, settings, made).endswith(says)


def test_a_python_file_and_a_named_scene_are_scenes_too(tmp_path, capsys):
    path = tmp_path / "own.py"
    path.write_text(f"import implicit_stepper as ist\nscene = ist.load_scene({SPIN!r})\n")
    assert main.main(["check", str(path)]) == 0
    first = capsys.readouterr().out
    assert main.main(["check", SPIN]) == 0
    assert capsys.readouterr().out == first
    assert main.main(["check", "block"]) == 0
    assert "principal inertias 1e+12, 1e+12, 1e+12 kg m^2" in capsys.readouterr().out


def test_check_says_what_was_understood(tmp_path, capsys):
    assert main.main(["check", SPIN]) == 0
    said = capsys.readouterr().out
    assert "body 'ball': Ellipsoid(a=1, b=1, c=1), 1 kg, principal inertias 0.4, 0.4, 0.4 kg m^2" in said
    assert "contact 0: 'ball' and 'floor', gap" in said
    assert "mu = 0.2, e_r = 0.4 m" in said
    assert "degrees of freedom: 6; contacts: 1, of 1 kind to compile; unknowns a step: 17" in said
    assert "run: GeometricallyImplicit(" in said
    assert "warning" not in said
    deep = tmp_path / "deep.toml"
    deep.write_text(Path(SPIN).read_text().replace("[0.0, 0.0, 1.0]\nvelocity", "[0.0, 0.0, 0.9]\nvelocity"))
    assert main.main(["check", str(deep)]) == 0
    assert "gap -0.1 m" in (said := capsys.readouterr().out)
    assert "warning: " in said


DOOR = """format = 1
[[body]]
name = "frame"
fixed = true
shape = { kind = "Sphere", radius = 0.01 }
[[body]]
name = "door"
shape = { kind = "Box", half_sizes = [0.4, 0.02, 1.0] }
mass = 20.0
position = [0.4, 0, 1.0]
"""
HINGE = """[[joint]]
kind = "Hinge"
name = "at HEIGHT"
bodies = ["frame", "door"]
point_1 = [0, 0, HEIGHT]
point_2 = [-0.4, 0, BELOW]
axis_1 = [0, 0, 1]
axis_2 = [0, 0, 1]
"""


def test_check_counts_equations_of_joints_that_others_imply(tmp_path, capsys):
    """A door on two hinges has one degree of freedom."""
    hinges = (HINGE.replace("HEIGHT", str(z)).replace("BELOW", str(z - 1)) for z in (0.25, 1.75))
    path = tmp_path / "door.toml"
    path.write_text(DOOR + "".join(hinges))
    assert main.main(["check", str(path)]) == 0
    said = capsys.readouterr().out
    assert "of freedom: 6, of which joints take 5, by 10 equations, of which 5 are redundant where the bodies are" in said


@pytest.mark.parametrize("command", ["run", "check"])
@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("format = 1\nx = 3\n", "wrong.toml': the file has the key 'x'"),
        ("format = 1\n", "the scene has no moving body"),
        (None, "is neither a file nor one of two-spheres"),
    ],
)
def test_what_is_no_scene_exits_with_2(command, content, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path("wrong.toml").write_text(content)
    assert main.main([command, "wrong.toml"]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert "Traceback" not in said
    assert not Path("run.npz").exists()


@pytest.mark.parametrize("command", ["run", "check"])
@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("", "give one of them"),
        ("h = 0.01\ntol = 1e-6", "give one of them"),
        ('tol = 1e-6\nstepper = "GeometricallyImplicit"', "no error estimate"),
        ("h = 0.01\nswitches = [0.5]", "are for chosen steps"),
        ("tol = 0.5", "must be between"),
        ("tol = 1e-6\nswitches = [0.5, 5.0]", "`switches` has 5 s, and the run lasts from 0 to 1 s"),
    ],
)
def test_settings_with_which_a_scene_cannot_be_run_exit_with_2(command, settings, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("wrong.toml").write_text(f"{DOOR}[run]\nduration = 1.0\n{settings}\n")
    assert main.main([command, "wrong.toml"]) == 2
    assert says in capsys.readouterr().err
    assert not Path("run.npz").exists()


def test_a_step_that_fails_exits_with_1_and_leaves_the_steps_before_it(tmp_path, monkeypatch, capsys):
    part = ist.run_scene(ist.load_scene(SPIN))[:5]

    def fail(*_, **__):
        how = {"result": ist.Result.NOT_CONVERGED, "time": 0.35, "state": None, "certificate": {}}
        raise ist.StepError("it failed, and why", trajectory=part, **how)

    monkeypatch.setattr(run, "run_scene", fail)
    assert main.main(["run", SPIN, "--out", str(tmp_path / "a.npz")]) == 1
    said = capsys.readouterr().err
    assert "it failed, and why" in said
    assert "[StepError, caused by NOT_CONVERGED] docs/errors.md#not_converged" in said
    assert len(ist.load(tmp_path / "a.npz")) == 5

    def stop(*_, **__):
        raise ist.Interrupted(trajectory=part, state=part.end, end=1.26)

    monkeypatch.setattr(run, "run_scene", stop)
    assert main.main(["run", SPIN, "--out", str(tmp_path / "b.npz")]) == 130
    assert "interrupted at t = 0.35 s" in capsys.readouterr().err
    np.testing.assert_array_equal(ist.load(tmp_path / "b.npz").position, part.position)


def test_a_run_that_fails_before_its_first_step_exits_with_1_and_writes_nothing(tmp_path, monkeypatch, capsys):
    def fail(*_, **__):
        how = {"result": ist.Result.NOT_CONVERGED, "time": 0.0, "state": None, "certificate": {}}
        raise ist.StepError("it failed, and why", trajectory=None, **how)

    monkeypatch.setattr(run, "run_scene", fail)
    assert main.main(["run", SPIN, "--out", str(tmp_path / "a.npz")]) == 1
    assert "it failed, and why" in capsys.readouterr().err
    assert not (tmp_path / "a.npz").exists()


def test_an_estimate_that_fails_exits_with_1_and_leaves_the_whole_run(tmp_path, monkeypatch, capsys):
    taken, whole = [], fixed_run.run

    def fail_at_half(scene, stepper, h, *more):
        taken.append(h)
        if len(taken) == 1:
            return whole(scene, stepper, h, *more)
        how = {"result": ist.Result.NOT_CONVERGED, "time": 0.105, "state": None, "certificate": {}}
        raise ist.StepError("it failed", trajectory=None, **how)

    monkeypatch.setattr(fixed_run, "run", fail_at_half)
    assert main.main(["run", SPIN, "--out", str(tmp_path / "a.npz"), "--estimate-error"]) == 1
    assert "with half the step, for `estimate_error`, the step to t = 0.105 s failed" in capsys.readouterr().err
    found = ist.load(tmp_path / "a.npz")
    assert (len(found), found.error) == (18, None)
    assert found.origin.settings["h"] == 0.07


def test_ctrl_c_while_programs_are_compiled_exits_with_130(monkeypatch, capsys):
    part = ist.run_scene(ist.load_scene(SPIN), duration=0.14)

    def stop(*_, **__):
        raise ist.Interrupted(trajectory=part, state=part.end, end=1.26)

    monkeypatch.setattr(machine, "run_scene", stop)
    assert main.main(["warm", SPIN]) == 130
    assert capsys.readouterr().err.endswith("implicit-stepper: interrupted\n")


class Killed(BaseException):
    """Ends a command as abruptly as an exception can."""


def test_a_run_that_was_cut_goes_on_from_its_checkpoint_to_the_same_bits(tmp_path, monkeypatch, capsys):
    """By the same command; the checkpoint of another scene, and a damaged one, are refused."""
    out, path = tmp_path / "run.npz", tmp_path / "run.checkpoint"
    written, command = checkpoint.write, ["--out", str(out), "--checkpoint", str(path), "--every", "0"]
    whole, count = ist.run_scene(ist.load_scene(SPIN)), iter(range(1, 100))

    def write(*arguments):
        written(*arguments)
        if next(count) == 5:
            raise Killed

    for name in ("first_call", "next_call"):
        monkeypatch.setattr(fallback, name, lambda *_: 1)
    monkeypatch.setattr(checkpoint, "write", write)
    with pytest.raises(Killed):
        main.main(["run", SPIN, *command])
    assert not out.exists()
    before = path.read_bytes()
    for scene, said in (("block", "belongs to another run, which differs in: .*scene"), (SPIN, "is damaged")):
        assert main.main(["run", scene, *command]) == 2
        assert re.search(f"`checkpoint` = '{re.escape(str(path))}' {said}", capsys.readouterr().err)
        path.write_bytes(before[:-1])
    assert path.read_bytes() == before[:-1]
    path.write_bytes(before)
    assert main.main(["run", SPIN, *command]) == 0
    assert next(count) == 19  # 18 steps in all, each of which left a file, 5 of them before
    kept = [
        (run.time, run.position, run.velocity, run.orientation, run.contacts, run.stats) for run in (whole, ist.load(out))
    ]
    assert [a.tobytes() for a in jax.tree.leaves(kept[0])] == [a.tobytes() for a in jax.tree.leaves(kept[1])]


def test_a_checkpoint_that_cannot_be_written_leaves_the_steps_before_it(tmp_path, capsys, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "write", full)
    out = tmp_path / "run.npz"
    assert main.main(["run", SPIN, "--out", str(out), "--checkpoint", str(tmp_path / "file"), "--every", "0"]) == 2
    assert "cannot be written" in capsys.readouterr().err
    found = ist.load(out)
    assert len(found) >= 1
    assert found.origin is not None


def test_info_and_warm(tmp_path, capsys):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    jax.clear_caches()
    assert main.main(["warm", SPIN]) == 0
    assert int(capsys.readouterr().out.split()[0]) > 0
    assert main.main(["warm", SPIN]) == 0
    assert capsys.readouterr().out.startswith("0 programs were added")
    assert main.main(["info"]) == 0
    said = capsys.readouterr().out
    assert f"implicit-stepper {ist.__version__}" in said
    assert "precision: float64" in said
    assert str(tmp_path) in said


def test_scenes_that_have_names_are_listed_with_what_they_show(capsys):
    assert main.main(["scenes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(CASES)
    assert "block         a block slides on a plane until friction stops it (1.5 s)" in lines


def test_help_tells_the_exit_codes(capsys):
    with pytest.raises(SystemExit) as end:
        main.main(["--help"])
    assert end.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "130 after Ctrl-C" in said
    assert all(f" {name} " in said for name in ("reproduce", "compare", "run", "check", "view", "info", "warm"))


def test_a_run_that_is_not_there_is_told_how_it_is_made(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main.main(["view", "run.npz"]) == 2
    assert "there is no file 'run.npz': `implicit-stepper run SCENE --out run.npz` writes one." in capsys.readouterr().err


def test_an_error_without_a_code_is_not_said_to_have_one(tmp_path, capsys):
    assert main.main(["view", str(tmp_path)]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert "Is a directory" in said[0]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--out", "scene.toml"], "--out 'scene.toml' would be written over SCENE, the same file"),
        (["--out", "run.csv"], "--out 'run.csv' is written as .npz: name a file that ends in it, and a table by --csv"),
        (["--csv", "./scene.toml"], "--csv './scene.toml' would be written over SCENE, the same file"),
        (["--resume", "run.npz"], "--out 'run.npz' would be written over that of --resume, the same file"),
        (["--out", "a.npz", "--csv", "a.npz"], "--csv 'a.npz' would be written over that of --out, the same file"),
        (["--checkpoint", "run.npz"], "--checkpoint 'run.npz' would be written over that of --out"),
        (["--out", "."], "--out '.' is a folder: name a file in it"),
        (["--csv", "."], "--csv '.' is a folder: name a file in it"),
    ],
)
def test_a_run_does_not_write_over_what_it_reads_or_has_written(options, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "run_scene", lambda *_, **__: pytest.fail("the run has begun"))
    text, before = Path(SPIN).read_bytes(), b"what an earlier run left"
    Path("scene.toml").write_bytes(text)
    Path("run.npz").write_bytes(before)
    assert main.main(["run", "scene.toml", *options]) == 2
    assert re.search(says, capsys.readouterr().err)
    assert Path("scene.toml").read_bytes() == text
    assert Path("run.npz").read_bytes() == before


def test_a_table_that_cannot_be_written_is_refused_before_the_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "run_scene", lambda *_, **__: pytest.fail("the run has begun"))
    Path("taken").write_bytes(b"no folder")
    assert main.main(["run", SPIN, "--csv", "taken/run.csv"]) == 2
    assert "give another one with --csv" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--html", "--film"])
def test_a_view_is_not_written_over_its_run(option, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("run.npz").write_bytes(b"a run")
    assert main.main(["view", "run.npz", option, "run.npz"]) == 2
    assert f"{option} 'run.npz' would be written over RUN, the same file" in capsys.readouterr().err


def test_check_refuses_what_the_scene_s_own_run_would(capsys, tmp_path):
    """A method that does not know what contacts have, and chosen steps from a start in which bodies
    overlap."""
    for height, friction, settings, told in (
        (0.1, ist.FrictionEllipsoid(0.3, mu_s=0.4), {"h": 0.01, "stepper": "ConeComplementarity"}, "a `mu_s` of its own"),
        (0.099, 0.3, {"tol": 1e-6, "stepper": "RadauContact"}, "overlap"),
    ):
        scene = ist.Scene(dimension=2)
        floor = scene.add_fixed(name="floor", shape=shapes.HalfPlane(normal=(0, 1)))
        disc = scene.add_body(name="disc", shape=shapes.Disc(0.1), mass=1.0, position=(0, height))
        scene.add_contact(floor, disc, friction=friction)
        scene.run = RunSettings(duration=0.02, **settings)
        scene.save(tmp_path / "scene.toml")
        assert main.main(["check", str(tmp_path / "scene.toml")]) == 2
        assert told in capsys.readouterr().err

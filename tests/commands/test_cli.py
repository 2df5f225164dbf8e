"""`implicit-stepper reproduce`: exit codes, messages, and the tables and trajectories that it
leaves."""

import csv
import dataclasses
import io
import os
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import jax
import numpy as np
import pytest

import implicit_stepper as ist
from implicit_stepper.commands import main
from implicit_stepper.paper import exact, reproduce, table


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


@pytest.fixture(scope="module")
def spin(tmp_path_factory):
    """Exit code, output and folder of the shortest case."""
    folder, output = tmp_path_factory.mktemp("spin") / "new" / "folder", io.StringIO()
    with redirect_stdout(output):
        code = main.main(["reproduce", "--case", "spin", "--quick", "--out", str(folder)])
    return code, output.getvalue(), folder


def rows_of(folder):
    with (folder / "table.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_spin_is_reproduced(spin):
    code, output, folder = spin
    assert code == 0
    rows = rows_of(folder)
    assert len(rows) == 10
    assert {row["ok"] for row in rows} == {"True"}
    assert {row["case"] for row in rows} == {"spin"}
    ours = {row["quantity"]: float(row["ours"]) for row in rows}
    # derived by hand
    assert ours["w_z falls each step by"] == pytest.approx(0.13734, abs=1e-10)
    assert ours["w_z after 14 steps"] == pytest.approx(0.03924, abs=1e-10)
    assert ours["friction torque in the last moving step"] == pytest.approx(0.4 * 0.03924 / 0.07, abs=1e-10)
    assert "8 of 8 numbers are within tolerance" in output
    assert output.index("w_z after 14 steps") < output.index("figures:")
    markdown = (folder / "table.md").read_text(encoding="utf-8").splitlines()
    assert len(markdown) == 2 + len(rows)
    assert {line.count("|") - line.count("\\|") for line in markdown} == {11}


def test_trajectory_loads_back(spin):
    stored = ist.load(spin[2] / "spin.npz")
    again, _ = reproduce.spin(True)
    for name in ("time", "position", "orientation", "velocity"):
        np.testing.assert_array_equal(getattr(stored, name), getattr(again, name))
    for field in dataclasses.fields(stored.contacts):
        np.testing.assert_array_equal(getattr(stored.contacts, field.name), getattr(again.contacts, field.name))
    assert stored.h == 0.07

    with (spin[2] / "spin.csv").open(newline="", encoding="utf-8") as file:
        header, start, *lines = csv.reader(file)
    assert all("[" in name or ": q" in name for name in header)  # units; quaternions have none
    assert len(lines) == len(stored)
    values = dict(zip(header, np.array(lines, dtype=float).T, strict=True))
    np.testing.assert_array_equal(values["sphere: omega_z [rad/s]"], stored.velocity[1:, 0, 5])
    contact = "contact 0 (plane, sphere): "
    np.testing.assert_array_equal(values[contact + "normal force [N]"], stored.contacts.normal_impulse[:, 0] / 0.07)
    torque = values[contact + "friction torque F_r [N m]"]
    np.testing.assert_array_equal(torque, stored.contacts.friction_impulse[:, 0, 2] / 0.07)
    assert start[header.index(contact + "gap [m]")] == ""
    assert float(start[0]) == 0.0


def test_figures_are_drawn_and_animations_left_out(spin):
    pictures = {path.name for path in spin[2].iterdir() if path.suffix in (".png", ".gif")}
    assert pictures == {"spin-scene.png", "figure-3-spin-velocities.png", "figure-4-spin-forces.png"}


@pytest.mark.parametrize(
    ("case", "end", "steps"), [("disc", 10.0, 1000), ("two-spheres", 4.0, 400), ("order-five", 4.0, None)]
)
def test_other_cases_are_reproduced(case, end, steps, tmp_path, monkeypatch):
    monkeypatch.setattr(reproduce, "_draw", lambda *_, **__: None)
    assert main.main(["reproduce", "--case", case, "--quick", "--out", str(tmp_path)]) == 0
    assert all(row["ok"] == "True" for row in rows_of(tmp_path))
    run = ist.load(tmp_path / f"{case}.npz")
    assert run.time[-1] == pytest.approx(end, rel=1e-12)
    assert len(run) == steps or steps is None  # none: as many as the tolerance asks for


def test_convergence_rows_see_the_order():
    """On results with known errors 0.3 h + 7 h^2, and on results that do not converge."""
    steps = np.array(reproduce.STUDY)
    rows = reproduce._convergence("x", "m", np.zeros(1), {h: np.array([0.3 * h + 7.0 * h**2]) for h in steps})
    first = np.polyfit(np.log(steps), np.log(0.3 * steps + 7.0 * steps**2), 1)[0]
    assert rows[0].ours == pytest.approx(first, rel=1e-12)
    assert rows[1].ours == pytest.approx(2.0, abs=1e-9)  # 2 r(h/2) - r(h) = -3.5 h^2
    assert rows[2].ours == pytest.approx(3.5 * 0.005**2, rel=1e-9)
    assert all(row.ok for row in rows)
    stuck = reproduce._convergence("x", "m", np.zeros(1), {h: np.array([0.1 + h]) for h in steps})
    assert not any(row.ok for row in stuck)


def test_row_out_of_tolerance_exits_with_1(tmp_path, monkeypatch, capsys):
    right = exact.spinning_sphere

    def wrong(time):
        return dataclasses.replace(right(time), spin=right(time).spin * (1.0 + 1e-6))

    monkeypatch.setattr(exact, "spinning_sphere", wrong)
    monkeypatch.setattr(reproduce, "_draw", lambda *_, **__: None)
    assert main.main(["reproduce", "--case", "spin", "--out", str(tmp_path)]) == 1
    assert "OUT OF TOLERANCE" in capsys.readouterr().out
    missed = {row["quantity"] for row in rows_of(tmp_path) if row["ok"] == "False"}
    assert "w_z after 14 steps" in missed
    assert "steps solved" not in missed


def test_failed_step_exits_with_1_and_leaves_what_was_computed(spin, tmp_path, monkeypatch, capsys):
    before = ist.load(spin[2] / "spin.npz")

    def fail(*_, **__):
        how = {"result": ist.Result.NOT_CONVERGED, "time": 1.47, "trajectory": before, "state": None, "certificate": {}}
        raise ist.StepError("it failed | why", **how)

    monkeypatch.setattr(reproduce, "simulate", fail)
    assert main.main(["reproduce", "--case", "spin", "--out", str(tmp_path)]) == 1
    assert "it failed" in capsys.readouterr().out
    (row,) = rows_of(tmp_path)
    assert row["quantity"] == "steps lost"
    np.testing.assert_array_equal(ist.load(tmp_path / "spin.npz").velocity, before.velocity)


def test_without_matplotlib_there_is_a_table_and_a_hint(tmp_path, monkeypatch, capsys):
    ours = (".plots", ".figures", ".pictures")
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib" or name.endswith(ours)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delattr("implicit_stepper.paper.figures", raising=False)
    monkeypatch.delattr("implicit_stepper.output.plots", raising=False)
    assert main.main(["reproduce", "--case", "spin", "--out", str(tmp_path)]) == 0
    assert "pip install matplotlib pillow" in capsys.readouterr().out
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv", ".md", ".npz"}


def test_an_interrupted_reproduction_leaves_what_there_is(tmp_path, monkeypatch, capsys):
    """What was written before stays, the run that was not over is saved, and the exit code is the
    one of shells."""
    run, _ = reproduce.spin(True)

    def interrupted(*_, **__):
        raise ist.Interrupted(trajectory=run, state=run.end, end=10.0)

    monkeypatch.setattr(main, "reproduce", interrupted)
    assert main.main(["reproduce", "--out", str(tmp_path)]) == 130
    assert f"interrupted; what was done until then is in {tmp_path}" in capsys.readouterr().err
    np.testing.assert_array_equal(ist.load(tmp_path / "interrupted.npz").time, run.time)


def test_unwritable_folder_is_found_before_any_work(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(main, "reproduce", lambda *_, **__: pytest.fail("work was done"))
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        assert main.main(["reproduce", "--out", str(folder)]) == 2
        assert f"cannot write to the folder {str(folder)!r}" in capsys.readouterr().err


def test_unknown_case_lists_the_known_ones(capsys):
    with pytest.raises(SystemExit) as stop:
        main.main(["reproduce", "--case", "three-spheres"])
    assert stop.value.code == 2
    message = capsys.readouterr().err
    assert all(case in message for case in (*reproduce.CASES, "all"))


def test_missing_gpu_is_said(tmp_path, monkeypatch, capsys):
    def none(kind):
        raise RuntimeError(f"Unknown backend {kind}")

    monkeypatch.setattr(jax, "devices", none)
    assert main.main(["reproduce", "--device", "gpu", "--out", str(tmp_path)]) == 2
    assert "no gpu here" in capsys.readouterr().err


def test_command_starts_without_matplotlib():
    """Its import takes a second, and waits until there is something to draw."""
    check = "import sys, implicit_stepper.commands.main; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], cwd=Path(__file__).parents[2]).returncode == 0


def test_nan_is_out_of_tolerance():
    words = {"source": "", "basis": ""}
    assert not table.near("case", "x", "m", 1.0, np.nan, 1.0, **words).ok
    assert not table.at_least("case", "x", "m", 1.0, np.nan, 1.0, **words).ok
    assert table.near("case", "x", "m", 1.0, 1.5, 0.5, **words).ok
    assert not table.near("case", "x", "m", 1.0, 1.6, 0.5, **words).ok
    assert table.at_least("case", "x", "m", 1.0, 7.0, 0.0, **words).ok
    assert not table.at_least("case", "x", "m", 1.0, 0.9, 0.05, **words).ok


@pytest.mark.parametrize(
    ("kind", "remedy"), [("cpu", "set JAX_PLATFORMS, which is 'cuda', to include cpu"), ("gpu", "run without")]
)
def test_a_missing_device_is_named_with_what_helps(kind, remedy, tmp_path, monkeypatch, capsys):
    def none(kind):
        raise RuntimeError("Unknown backend")

    monkeypatch.setattr(jax, "devices", none)
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    assert main.main(["reproduce", "--case", "spin", "--out", str(tmp_path), "--device", kind]) == main.MISUSED
    assert remedy in capsys.readouterr().err

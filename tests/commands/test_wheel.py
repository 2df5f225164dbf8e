"""The wheel holds all that the commands need: it is built, unpacked on its own and run away from
the repository."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_a_wheel_runs_scene_files_away_from_the_repository(tmp_path):
    pytest.importorskip("setuptools", minversion="77")  # builds wheels without help
    source, site, work = tmp_path / "source", tmp_path / "site", tmp_path / "work"
    for name in ("shapes", "implicit_stepper"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    work.mkdir()
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(tmp_path),
        str(source),
    ]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        packed.extractall(site)
    assert not [name for name in names if name.startswith(("tests", "examples", "benchmarks"))]
    modules = {str(p.relative_to(ROOT)) for room in ("shapes", "implicit_stepper") for p in (ROOT / room).rglob("*.py")}
    assert modules <= set(names)
    shutil.copy(ROOT / "examples" / "scenes" / "spinning_sphere.toml", work)
    own = {**os.environ, "PYTHONPATH": str(site)}
    where = "import implicit_stepper, shapes; print(implicit_stepper.__file__, shapes.__file__)"
    found = subprocess.run([sys.executable, "-c", where], cwd=work, env=own, capture_output=True, text=True, check=True)
    assert found.stdout.count(str(site)) == 2
    command = [sys.executable, "-m", "implicit_stepper", "run", "spinning_sphere.toml", "--out", "a.npz", "--csv", "a.csv"]
    told = subprocess.run(command, cwd=work, env=own, capture_output=True, text=True, check=True)
    assert "18 steps of 0.07 s" in told.stdout
    assert {path.name for path in work.iterdir()} == {"spinning_sphere.toml", "a.npz", "a.csv"}

"""Every example runs as it stands, and every Python block of the README and the docs does."""

import runpy
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def python_blocks(page):
    parts = page.read_text().split("```python\n")[1:]
    return [part.split("```")[0] for part in parts]


def run(name):
    return runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")


def test_spinning_sphere():
    trajectory = run("spinning_sphere")["trajectory"]
    assert trajectory.velocity[14, 0, 5] == pytest.approx(0.03924, abs=1e-10)


def test_own_shape():
    trajectory = run("own_shape")["trajectory"]
    assert trajectory.contacts.gap.min() >= -1e-12
    energy = trajectory.kinetic_energy() + 9.81 * trajectory.position[:, 0, 2]  # 1 kg
    assert np.diff(energy).max() <= 1e-9  # inelastic impacts, friction and implicit Euler only lose energy
    assert trajectory.position[-1, 0, 2] == pytest.approx(0.25, abs=1e-9)  # it lies flat on its z axis, a/2
    assert np.abs(trajectory.velocity[-1]).max() <= 1e-9


def test_by_hand():
    result = run("by_hand")
    assert np.all(result["solved"])
    assert result["velocities"][:, 5] == pytest.approx(np.maximum(result["spins"] - 1.962 * 0.7, 0), abs=1e-10)


def test_complementarity_problem():
    solution = run("complementarity_problem")["solution"]
    assert solution.z == pytest.approx([4.0, 0.0], abs=1e-10)


def test_every_example_is_tested():
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} <= tested


@pytest.mark.parametrize("page", [p for p in PAGES if python_blocks(p)], ids=lambda p: p.name)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": page.stem}
    for block in python_blocks(page):
        exec(compile(block, str(page), "exec"), names)  # the blocks of a page share their names, as a reader expects
    assert len(names) > 2

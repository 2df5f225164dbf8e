"""Canaries: a compiler that miscomputes, a layer that imports upward, a precision that is not
double."""

import ast
import os
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import implicit_stepper

ROOT = Path(implicit_stepper.__file__).parents[1]


def test_the_compiler_multiplies_small_matrices_right():
    rng = np.random.default_rng(0)
    matrix, vector = rng.normal(size=(16385, 3, 3)), rng.normal(size=(16385, 3))
    ours = jax.jit(jax.vmap(lambda a, v: jnp.sum(a @ v)))(matrix, vector)
    truth = np.einsum("nij,nj->n", matrix, vector)
    wrong = int(np.sum(np.abs(np.asarray(ours) - truth) > 1e-12))
    assert wrong == 0, (
        f"jax {jax.__version__} silently miscomputes a vmapped 3x3 matrix-vector product followed by a sum on this device "
        f"({wrong} of 16385 entries; jax issue 39103, seen in 0.10.2): install another version, see pyproject.toml"
    )


def test_a_loop_that_fills_an_array_takes_as_long_for_every_entry():
    def per_entry(count):
        fill = jax.jit(lambda start: jax.lax.scan(lambda x, _: (x + 1.0, x), start, None, length=count)[1])
        fill(0.0).block_until_ready()
        times = []
        for _ in range(5):
            began = time.process_time()
            fill(0.0).block_until_ready()
            times.append(time.process_time() - began)
        return min(times) / count

    ratio = per_entry(100_000) / per_entry(10_000)
    assert ratio < 4, (  # 10 where each entry costs a copy of the array
        f"jax {jax.__version__}: an entry that a loop writes takes {ratio:.1f} times as long in an array ten times as long "
        "(jax issue 40101, seen in 0.11.1): install another version, see pyproject.toml"
    )


def test_double_precision_is_on():
    assert jnp.zeros(1).dtype == jnp.float64


def test_shapes_knows_nothing_of_the_stepper():
    for path in (ROOT / "shapes").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and node.level == 0 else []
            assert not any(name.startswith("implicit_stepper") for name in names), path


def test_importing_the_library_loads_what_everything_needs_and_nothing_else():
    """Neither pictures nor parts of SciPy nor rooms; all public names are found when asked for.
    `shapes` alone computes in double precision already."""
    code = (
        "import jax, shapes; print(jax.config.jax_enable_x64, shapes.Box((0.1, 0.2, 0.3)).moments().second.dtype)\n"
        "import sys, implicit_stepper as ist; ours = 'implicit_stepper.'\n"
        "print(*(name for name in sys.modules if name.startswith(('matplotlib', 'scipy.linalg', 'scipy.optimize', ours))))\n"
        "print(len([getattr(ist, name) for name in dir(ist)]), ist.errors.__name__, ist.simulate.__module__)"
    )
    lines = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split("\n")
    assert lines[:2] == ["True float64", ""]
    assert lines[2].split() == [
        str(len(dir(implicit_stepper))),
        "implicit_stepper.runtime.errors",
        "implicit_stepper.run.simulate",
    ]
    assert {"Scene", "simulate", "shapes", "plots", "__version__"} < set(dir(implicit_stepper))


@pytest.mark.parametrize("name", ["shapes.py", "shapes/__init__.py"])
def test_a_file_that_hides_the_shapes_is_named(tmp_path, name):
    """A file or folder of that name beside a script comes first on Python's path."""
    hides = tmp_path / name
    hides.parent.mkdir(exist_ok=True)
    hides.touch()
    (tmp_path / "script.py").write_text("import implicit_stepper\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    script = [sys.executable, str(tmp_path / "script.py")]
    run = subprocess.run(script, capture_output=True, text=True, env=environment)
    assert run.returncode == 1
    said = run.stderr.splitlines()[-2]  # the last line has the code
    assert str(tmp_path / name.split("/")[0]) in said
    assert "rename" in said

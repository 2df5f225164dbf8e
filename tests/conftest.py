"""Settings of every test: no window for pictures, the same random examples in every run, and one
compilation for programs that several tests share."""

import gc
import os
import platform
from pathlib import Path

# before NumPy is imported, for this process and those that tests start: see
# docs/decisions/0017-blas-threads.md
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# as the command line does, for programs that come back from a cache
if platform.machine() in ("x86_64", "AMD64"):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_max_isa=AVX2".strip()

import jax
import pytest
from hypothesis import settings

from implicit_stepper.many_bodies import equations
from implicit_stepper.runtime import (  # (switches JAX to float64, for tests of `shapes` alone too)
    compilation,
    compilation_cache,
)

os.environ.setdefault("MPLBACKEND", "Agg")
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None, max_examples=150)
settings.load_profile("repeatable")


# Most of the time of tests is XLA's, for programs that take a few steps each: without LLVM's
# optimisation it is half, and without XLA's own work on loops, and with one module of machine code
# in the place of 32, a third of the rest goes. What runs outside of the library's programs is
# compiled as these are (docs/decisions/0004-compiler-option.md).
LOOP_PASSES = (
    "while-loop-invariant-code-motion", "simplify-while-loops", "while-loop-constant-sinking", "tree-reduction-rewriter",
    "reshape-mover", "cpu-parallel-task-assigner",
)  # fmt: skip
# a flag that a compiler does not know ends the process
EMITTERS = "--xla_cpu_use_fusion_emitters=false " if jax.__version_info__ < (0, 11) else ""
UNOPTIMISED = (
    f"{EMITTERS}--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1 "
    f"--xla_disable_hlo_passes={','.join(LOOP_PASSES)}"
)
# Modules that take longest: begun first, so that the processes, which share out whole modules, end
# together.
LONGEST = (
    "test_examples", "test_joints", "test_batch", "test_distance", "test_piles", "test_joint_limits", "test_sweep",
    "test_rollout", "test_least_forces", "test_landings", "test_cone_complementarity", "test_robustness",
    "test_joint_friction", "test_radau", "test_hard_events", "test_adaptive", "test_static_friction", "test_moving",
    "test_closest_points", "test_progress", "test_convex", "test_impact_friction", "test_moments", "test_mesh",
)  # fmt: skip


def pytest_addoption(parser):
    parser.addoption(
        "--optimised", action="store_true", help="compile programs as users do: slower by half, and rounded differently"
    )


def pytest_configure(config):
    """Scenes that differ in numbers or names only compile to the same program: keep programs beside
    pytest's own cache."""
    # tracing makes many objects that live; to look through them all took a tenth
    gc.set_threshold(50_000, 20, 100)
    flags = os.environ.get("XLA_FLAGS", "")
    if not config.getoption("optimised") and UNOPTIMISED not in flags:
        # XLA reads its flags with the first compilation
        os.environ["XLA_FLAGS"] = f"{flags} {UNOPTIMISED}".strip()
    if not config.pluginmanager.hasplugin("cacheprovider"):
        return
    settings = {
        "jax_compilation_cache_dir": str(config.cache.mkdir("jax")),
        "jax_persistent_cache_min_compile_time_secs": 0,  # small ones too, of which there are thousands
        "jax_persistent_cache_min_entry_size_bytes": -1,
        # where in Python an operation stands: a tenth of what tracing takes
        "jax_traceback_in_locations_limit": 0,
    }
    for name, value in settings.items():
        jax.config.update(name, value)
        os.environ[name.upper()] = str(value)  # for the processes that tests start


def pytest_collection_modifyitems(items):
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(LONGEST)))


@pytest.fixture
def optimised(monkeypatch):
    """What the library compiles first in a test is optimised a little: for those in which it runs
    longer than it compiles."""
    options = compilation._options
    monkeypatch.setattr(compilation, "_options", lambda once: options(once) | {"xla_backend_optimization_level": 1})


@pytest.fixture(autouse=True)
def _few_contacts_at_once(request, monkeypatch):
    """Without optimisation a contact takes ten times as long, also one that only fills up a program
    for several."""
    if not request.config.getoption("optimised"):
        monkeypatch.setattr(equations, "_FEW", 8)


@pytest.fixture(autouse=True)
def _no_loaded_programs():
    """What a command keeps and loads in a test is no business of the next."""
    yield
    compilation_cache.forget_programs()


@pytest.fixture(autouse=True, scope="module")
def _programs_of_this_module():
    """Programs stay mapped for as long as they are cached, and a process may map some 65 000 pieces
    of memory: with those of all tests, newer versions of JAX ran into that. As long as there are
    few, the next module need not trace again what it shares with this one; what is dropped comes
    back from the disk. To unmap them takes the longer the more there are: 18 s for 30 000, 4 s for
    15 000, .8 s for 5000."""
    yield
    maps = Path("/proc/self/maps")
    if not maps.exists() or maps.read_bytes().count(b"\n") > 5_000:
        jax.clear_caches()

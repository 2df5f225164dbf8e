"""Settings of every test: no window for pictures, the same random examples in every run, and one compilation for programs
that several tests share."""

import os
import platform

# before NumPy is imported, for this process and those that tests start: see docs/decisions/0017-blas-threads.md
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
if platform.machine() in ("x86_64", "AMD64"):  # as the command line does, for programs that come back from a cache
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_max_isa=AVX2".strip()

import jax
import pytest
from hypothesis import settings

import implicit_stepper  # noqa: F401  (switches JAX to float64, for tests of `shapes` alone too)

os.environ.setdefault("MPLBACKEND", "Agg")
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None, max_examples=150)
settings.load_profile("repeatable")


def pytest_configure(config):
    """Scenes that differ in numbers or names only compile to the same program: keep programs beside pytest's own cache."""
    if not config.pluginmanager.hasplugin("cacheprovider"):
        return
    jax.config.update("jax_compilation_cache_dir", str(config.cache.mkdir("jax")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


@pytest.fixture(autouse=True, scope="module")
def _programs_of_this_module():
    """Programs stay mapped for as long as they are cached, and a process may map some 65 000 pieces of memory: with those of
    all tests, newer versions of JAX ran into that. What other modules use too comes back from the disk."""
    yield
    jax.clear_caches()

"""Settings of every test: no window for pictures, and one compilation for programs that several tests share."""

import os

os.environ.setdefault("MPLBACKEND", "Agg")


def pytest_configure(config):
    """Scenes that differ in numbers or names only compile to the same program; keep programs beside pytest's own cache."""
    import jax

    if config.cache is not None:
        jax.config.update("jax_compilation_cache_dir", str(config.cache.mkdir("jax")))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

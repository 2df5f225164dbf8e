"""Compiled programs, kept on disk from one process to the next."""

from __future__ import annotations

import os
import platform
import tempfile
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache

from .errors import CannotWriteError
from .files import path_of
from .saved_programs import ENDINGS

_FOLDERS: list[Path] = []  # the one that this process uses, as JAX has its own
_ROOM = 2**30  # [bytes] of programs; that of a scene takes some 0.5 MB


def use_compilation_cache(path: str | os.PathLike | None = None) -> Path | None:
    """From now on every program that JAX compiles, however quickly, is kept in the folder `path`,
    and one that is there already is loaded: the first call of a new process compiles none then. On
    one CPU device, runs do not even trace programs that can be described without that, which those
    with functions of yours cannot (`program_keys`).

    By default that is the folder that JAX was told (`JAX_COMPILATION_CACHE_DIR`), else one among
    the user's caches. Returns the folder, or None where the latter cannot be written. Programs
    beyond 1 GiB are removed at this call, the oldest first (unless JAX was told the folder:
    `jax_compilation_cache_max_size` is for that). Call it before anything is compiled: only then,
    on x86, programs do without AVX-512, with which JAX prints a page of warnings for each that it
    loads. Raises `OSError` for a `path` that cannot be written, and `ValueError` for
    what is no path.
    """
    chosen = None if path is None else path_of("path", path)
    # jax issue 38445: XLA takes preferences for instructions. XLA reads its flags with the first
    # compilation of a process.
    flags = os.environ.get("XLA_FLAGS", "")
    if platform.machine() in ("x86_64", "AMD64") and "xla_cpu_max_isa" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_max_isa=AVX2".strip()
    told = jax.config.jax_compilation_cache_dir
    try:
        folder = Path(told) if chosen is None and told is not None else _writable(_users() if chosen is None else chosen)
    except (OSError, RuntimeError):  # RuntimeError: the user has no home
        if chosen is None:
            return None
        raise
    if chosen is not None or told is None:
        _remove_oldest(folder)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    compilation_cache.reset_cache()  # JAX looks for a folder once, with the first program
    _FOLDERS[:] = [folder]
    return folder


def programs_folder() -> Path | None:
    """Where programs are kept that need not be traced; None without `use_compilation_cache`, or on
    other devices."""
    devices = jax.devices() if _FOLDERS else []
    return _FOLDERS[0] if len(devices) == 1 and devices[0].platform == "cpu" else None


def forget_programs() -> None:
    """From now on every program is traced."""
    _FOLDERS.clear()


def _users() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "implicit-stepper"


def _writable(folder: Path) -> Path:
    """`folder`, made if need be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise CannotWriteError(
            f"`path` = {str(folder)!r} cannot be written ({error.strerror}): give another folder."
        ) from error
    return folder


def _remove_oldest(folder: Path) -> None:
    """Leaves at most `_ROOM` of programs, those read or written last. Other processes may do the
    same meanwhile."""
    found = []
    for program in (one for ending in ("-cache", *ENDINGS) for one in folder.glob(f"*{ending}")):
        try:
            found.append((program.stat(), program))
        except OSError:
            continue
    left = 0
    for about, program in sorted(found, key=lambda one: -max(one[0].st_atime, one[0].st_mtime)):
        left += about.st_size
        if left > _ROOM:
            program.unlink(missing_ok=True)

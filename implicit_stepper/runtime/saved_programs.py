"""Compiled programs that a later process loads without tracing them
(docs/decisions/0029-loaded-programs.md)."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import pickle
import threading
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import serialize_executable
from jax.experimental.compilation_cache import compilation_cache

from .files import replaced

ENDINGS = _PROGRAM, _SEEN = "-program", "-seen"  # of files' names, after the key of a program
_DIGEST = 32  # [bytes] at the start of a file, of all that follows
_COMPILED = threading.local()  # how many programs JAX compiled in this thread, as it says itself
_ANEW = threading.Lock()


def _note(event: str, **_) -> None:
    if event == "/jax/compilation_cache/cache_misses":
        _COMPILED.count = _compilations() + 1


def _compilations() -> int:
    return getattr(_COMPILED, "count", 0)


jax.monitoring.register_event_listener(_note)


def compile_and_keep(lowered: jax.stages.Lowered, folder: Path, key: str) -> jax.stages.Compiled:
    """Compiles a program and keeps it under its key.

    XLA loses functions of a program that JAX has loaded from its own folder, when that is written
    again. Such a one, which another version of the sources left there, is used as it is, and
    compiled anew when it is met under this key again: whoever changes the sources all the time does
    not wait for that.
    """
    before, seen = _compilations(), folder / (key + _SEEN)
    program = lowered.compile()
    if _compilations() > before:
        write(folder, key, program, lowered.out_info)
    elif seen.exists():
        write(folder, key, _anew(lowered), lowered.out_info)
        remove(seen)
    else:
        with contextlib.suppress(OSError):
            seen.touch()
    return program


def _anew(lowered: jax.stages.Lowered) -> jax.stages.Compiled:
    """Without JAX's folder, which it looks for again after `reset_cache`."""
    with _ANEW:
        jax.config.update("jax_enable_compilation_cache", False)
        compilation_cache.reset_cache()
        try:
            return lowered.compile(compiler_options={"xla_cpu_parallel_codegen_split_count": 32})
        finally:
            jax.config.update("jax_enable_compilation_cache", True)
            compilation_cache.reset_cache()


def write(folder: Path, key: str, program: jax.stages.Compiled, results: Any) -> None:
    """Keeps a program with the shapes of its `results`, if both can be written: a folder that is
    full or gone, or a program that holds constants of its own, is no reason to stop a run."""
    try:
        held = pickle.dumps((serialize_executable.serialize(program)[0], results))
        with replaced(folder / (key + _PROGRAM)) as path:
            path.write_bytes(hashlib.sha256(held).digest() + held)
    except (OSError, NotImplementedError, ValueError, pickle.PicklingError, AttributeError, TypeError):
        return


def read(folder: Path, key: str) -> tuple[bytes, Any] | None:
    """A program as it was written, and the shapes of its results; None where there is none, or not
    a whole one."""
    path = folder / (key + _PROGRAM)
    try:
        held = path.read_bytes()
    except OSError:
        return None
    if hashlib.sha256(held[_DIGEST:]).digest() != held[:_DIGEST]:
        remove(path)
        return None
    with contextlib.suppress(OSError):  # a folder may be there to read alone
        path.touch()  # what is used stays longest
    return pickle.loads(held[_DIGEST:])


def forget(folder: Path, key: str) -> None:
    """Of a program that cannot be loaded."""
    remove(folder / (key + _PROGRAM))


def remove(path: Path) -> None:
    """A file, if that is allowed."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def load(written: bytes, dynamic: tuple, results: Any) -> jax.stages.Compiled:
    """The program of the `dynamic` arguments."""
    _begin_lapack()
    structure = jax.tree.structure((dynamic, {}))
    return serialize_executable.deserialize_and_load(written, structure, jax.tree.structure(results))


@functools.cache
def _begin_lapack() -> None:
    """JAX looks for LAPACK as it lowers the first program that calls it: without one its calls lead
    nowhere."""
    jax.jit(jnp.linalg.qr).lower(jax.ShapeDtypeStruct((1, 1), float))

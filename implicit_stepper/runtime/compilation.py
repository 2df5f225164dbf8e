"""Compile time is part of the user's wait: `jit` with options that suit many small kernels, and
`prepare`, which compiles the programs of a run while it traces the next ones."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.xla_metadata import set_xla_metadata

from . import saved_programs
from .compilation_cache import programs_folder
from .errors import RunError
from .memory import fitting
from .program_keys import leaf_type, program_key
from .progress import compiling

_KEPT = 256  # structures whose programs are kept


class _Latest(dict):
    """The last `_KEPT` entries."""

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        if len(self) > _KEPT:
            del self[next(iter(self))]


@functools.lru_cache(maxsize=2)
def _options(once: bool) -> dict:
    """XLA's newer CPU fusion emitters take twice the compile time for the same speed here
    (docs/benchmarks.md). Loops that XLA shares out over the cores are small here: their threads
    wait for each other, and sums depend on the number of cores. Options that this compiler does not
    know are left out."""
    left_out = re.findall(r"--xla_disable_hlo_passes=(\S+)", os.environ.get("XLA_FLAGS", ""))
    options = {
        "xla_cpu_use_fusion_emitters": False,
        "xla_disable_hlo_passes": ",".join([*left_out, "cpu-parallel-task-assigner"]),
    }
    options |= {"xla_backend_optimization_level": 0} if once else {}
    return {name: value for name, value in options.items() if _known(name, value)}


@functools.lru_cache(maxsize=64)
def _known(name: str, value) -> bool:
    try:
        jax.jit(lambda x: x + 1, compiler_options={name: value}).lower(0.0).compile()
    except Exception:  # the error type for an unknown option differs between jaxlib versions
        return False
    return True


def jit(function, *, once: bool = False, apart: bool = False, static_argnums=(), **keywords):
    """`jax.jit` with `_options`, which are asked for at the first call: importing the package
    starts no device. What runs `once`, before a loop of steps, is not worth the time to optimise
    it. What is called in the middle of a run is compiled `apart`, by another thread, as Ctrl-C is
    answered while this one waits.

    Called within another transformation it is plain `jax.jit`: only the outermost program can have
    options.
    """
    static_argnums = (static_argnums,) if isinstance(static_argnums, int) else static_argnums
    prepared = _Latest()  # by what it is called with: what another process compiled, or None

    @functools.lru_cache(maxsize=2)
    def jitted(outermost: bool):
        options = _options(once) if outermost else None
        return jax.jit(function, compiler_options=options, static_argnums=static_argnums, **keywords)

    @functools.wraps(function)
    def call(*arguments):
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(arguments)):
            return jitted(False)(*arguments)
        if apart or programs_folder() is not None:
            static, dynamic = divided(arguments)
            called = _called(static, dynamic)
            if called not in prepared:
                _prepare(alone, *called)
            compiled = prepared.get(called)
            if compiled is not None:
                return compiled(*dynamic)
        return jitted(True)(*arguments)

    def divided(arguments):
        """Static arguments, as far as they are not left to defaults, and dynamic ones."""
        static = {number: one for number, one in enumerate(arguments) if number in static_argnums}
        return tuple(static.items()), tuple(one for number, one in enumerate(arguments) if number not in static)

    def alone(ahead, static, *dynamic):
        arguments = list(dynamic)
        for number, one in static:
            arguments.insert(number, one)
        ahead(call, *arguments)

    call.lower = lambda *arguments: jitted(True).lower(*arguments)
    call.divided, call.prepared = divided, prepared
    return call


def in_one_piece(function, arguments):
    """`function(arguments)`, within a program of `jit`, as one function of machine code. A loop
    over large arrays else runs operation by operation, which takes as long again as a round of
    few arithmetic. Without calls of other libraries, as those for factors."""
    if jax.default_backend() != "cpu":
        return function(arguments)
    arguments = jax.tree.map(jnp.asarray, arguments)
    # what is traced within has the attributes too, and would be in as many pieces
    traced, known = jax.closure_convert(function, arguments)
    with set_xla_metadata(xla_cpu_small_call="true", inlineable="false"):
        return jax.jit(lambda own, known: traced(own, *known))(arguments, known)


def filled_up(count: int, least: int, growth: int) -> int:
    """The size, `least` times a power of `growth`, of the program that serves `count` rows: there
    are few of them, so that another number of rows is seldom another program."""
    size = least
    while size < count:
        size *= growth
    return size


def rows_filled_up(count: int, least: int, growth: int) -> np.ndarray:
    """The numbers of `count` > 0 rows, and the last one again up to the size of `filled_up`."""
    return np.minimum(np.arange(filled_up(count, least, growth)), count - 1)


def prepare(programs: Callable, stepper, *arguments) -> None:
    """Compiles what a run calls: `programs(ahead, stepper, *arguments)` names the programs of
    `jit`, once for all arguments of the same shapes, which it gets in their place.

    `ahead(program, *arguments)` traces one here, compiles it beside what follows, and returns the
    shapes of its results, which can be arguments of the next. What is on disk is loaded, and not
    traced (`use_compilation_cache`).
    """
    _prepare(programs, *_called(stepper, arguments))


def _called(static, dynamic: tuple):
    """What tells calls apart that need programs of their own: `static`, and structure and types of
    the rest."""
    leaves, structure = jax.tree.flatten(dynamic)
    kinds = map(leaf_type, leaves)
    shapes = tuple(jax.ShapeDtypeStruct(shape, dtype, weak_type=weak) for shape, dtype, weak in kinds)
    return static, structure, shapes


@functools.lru_cache(maxsize=_KEPT)
def _prepare(programs: Callable, stepper, structure, shapes) -> None:
    threads, begun = ThreadPoolExecutor(), []

    def ahead(program, *arguments):
        results, finish = _begun(threads, program, arguments)
        begun.append(finish)
        return results

    try:
        with compiling():
            programs(ahead, stepper, *jax.tree.unflatten(structure, shapes))
            for finish in begun:
                finish()
    finally:  # Ctrl-C waits for no compiler
        threads.shutdown(wait=False, cancel_futures=True)


def _begun(threads: ThreadPoolExecutor, program, arguments) -> tuple[Any, Callable[[], None]]:
    """The shapes of a program's results, and a function that waits for it: one that is on disk is
    loaded, any other traced here, and compiled beside what follows."""
    static, dynamic = program.divided(arguments)
    called, folder = _called(static, dynamic), programs_folder()
    program.prepared[called] = None
    key = None if folder is None else program_key(program, static, dynamic)
    found = None if key is None else saved_programs.read(folder, key)
    if found is None:
        lowered = program.lower(*arguments)
        keep = functools.partial(saved_programs.compile_and_keep, lowered, folder, key)
        making = threads.submit(lowered.compile if key is None else keep)
        return lowered.out_info, lambda: fitting(making.result())
    written, results = found
    loading = threads.submit(saved_programs.load, written, dynamic, results)

    def finish():
        try:
            program.prepared[called] = fitting(loading.result())
        except RunError:
            raise
        except Exception:
            # of XLA, with no type of its own: the program is traced where it is called
            saved_programs.forget(folder, key)

    return results, finish

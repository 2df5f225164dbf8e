"""Compile time is part of the user's wait: `jit` with options that suit many small kernels, and `prepare`, which compiles
the programs of a run while it traces the next ones."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import jax

from .progress import compiling

_ROOM = 2**16  # words that one frame asks for: with what is left of its chunk, deep tracing gets by (see `_traced`)


@functools.cache
def _options(once: bool) -> dict:
    """XLA's newer CPU fusion emitters take twice the compile time for the same speed here (docs/benchmarks.md). Options that
    this compiler does not know are left out."""
    options = {"xla_cpu_use_fusion_emitters": False} | ({"xla_backend_optimization_level": 0} if once else {})
    return {name: value for name, value in options.items() if _known(name, value)}


@functools.cache
def _known(name: str, value) -> bool:
    try:
        jax.jit(lambda x: x + 1, compiler_options={name: value}).lower(0.0).compile()
    except Exception:  # the error type for an unknown option differs between jaxlib versions
        return False
    return True


def jit(function, *, once: bool = False, apart: bool = False, **keywords):
    """`jax.jit` with `_options`, which are asked for at the first call: importing the package starts no device. What runs
    `once`, before a loop of steps, is not worth the time to optimise it. What is called in the middle of a run is compiled
    `apart`, by another thread, as Ctrl-C is answered while this one waits; its first argument is a stepper.

    Called within another transformation it is plain `jax.jit`: only the outermost program can have options.
    """

    @functools.cache
    def jitted(outermost: bool):
        return jax.jit(function, compiler_options=_options(once) if outermost else None, **keywords)

    @functools.wraps(function)
    def call(*arguments):
        outermost = not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(arguments))
        if apart and outermost:
            prepare(alone, *arguments)
        return jitted(outermost)(*arguments)

    def alone(ahead, *arguments):
        ahead(call, *arguments)

    call.lower = lambda *arguments: jitted(True).lower(*arguments)
    return call


def prepare(programs: Callable, stepper, *arguments) -> None:
    """Compiles what a run calls: `programs(ahead, stepper, *arguments)` names the programs of `jit`, once for all arguments
    of the same shapes, which it gets in their place.

    `ahead(program, *arguments)` traces one here, compiles it beside what follows, and returns the shapes of its results,
    which can be arguments of the next.
    """
    leaves, structure = jax.tree.flatten(arguments)
    types = [jax.typeof(leaf) for leaf in leaves]
    shapes = tuple(jax.ShapeDtypeStruct(t.shape, t.dtype, weak_type=t.weak_type) for t in types)
    _prepare(programs, stepper, structure, shapes)


@functools.cache
def _prepare(programs: Callable, stepper, structure, shapes) -> None:
    threads, begun = ThreadPoolExecutor(), []

    def ahead(program, *arguments):
        lowered = _traced(program, arguments)
        begun.append(threads.submit(lowered.compile))
        return lowered.out_info

    try:
        with compiling():
            programs(ahead, stepper, *jax.tree.unflatten(structure, shapes))
            for program in begun:
                program.result()
    finally:  # Ctrl-C waits for no compiler
        threads.shutdown(wait=False, cancel_futures=True)


def _traced(program, arguments):
    """`program.lower(*arguments)`, without two costs of Python: the collector, which would walk the many objects that
    tracing leaves again and again; and the frames. CPython keeps these in chunks of 16 KB, and maps and unmaps a chunk each
    time that calls cross its end, every time at the cost of an interrupt to the threads that compile. A frame that asks for
    much itself comes in a chunk with room for those of all that it calls."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return program.lower(*arguments)
    finally:
        if collects:
            gc.enable()


_traced.__code__ = _traced.__code__.replace(co_stacksize=_ROOM)

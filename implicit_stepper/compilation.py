"""`jit` with the compiler options that suit this code: many small kernels, where compile time is part of the user's wait."""

from __future__ import annotations

import functools

import jax


@functools.cache
def _options(once: bool) -> dict | None:
    """XLA's newer CPU fusion emitters take twice the compile time for the same speed here (docs/benchmarks.md); a
    compiler that no longer knows the options is used as it is."""
    options = {"xla_cpu_use_fusion_emitters": False} | ({"xla_backend_optimization_level": 0} if once else {})
    try:
        jax.jit(lambda x: x + 1, compiler_options=options).lower(0.0).compile()
    except Exception:  # the error type for an unknown option differs between jaxlib versions
        return None
    return options


def jit(function, *, once: bool = False, **keywords):
    """`jax.jit` with `_options`, which are asked for at the first call: importing the package starts no device. What runs
    `once`, before a loop of steps, is not worth the time to optimise it.

    Called within another transformation it is plain `jax.jit`: only the outermost program can have options.
    """

    @functools.cache
    def jitted(outermost: bool):
        return jax.jit(function, compiler_options=_options(once) if outermost else None, **keywords)

    @functools.wraps(function)
    def call(*arguments):
        return jitted(not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(arguments)))(*arguments)

    return call

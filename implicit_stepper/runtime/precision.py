"""Double precision, without which contact has no digits."""

from __future__ import annotations

import jax

from .errors import PrecisionError


def double_precision() -> None:
    """Raises `PrecisionError` where JAX computes in single precision."""
    if not jax.config.jax_enable_x64:
        raise PrecisionError(
            "JAX's `jax_enable_x64` was switched off after implicit_stepper was imported, which had switched it on: single "
            'precision cannot resolve contact. Set it again: jax.config.update("jax_enable_x64", True).'
        )

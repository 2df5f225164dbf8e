"""Sympy inequalities compiled, once per expression, to functions for f, its gradient and its Hessian."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import sympy

from .symbols import COORDINATES

# |u|^p with p < 0 appears in derivatives of powers below 2 and is infinite at u = 0, always beside a factor that
# vanishes there. A floor keeps the product 0 * finite instead of 0 * inf.
_SMALLEST_BASE = 1e-30


@dataclasses.dataclass(frozen=True)
class Jet:
    """Values f (..., m), gradients (..., m, d) and Hessians (..., m, d, d) of m inequalities, as functions of points
    x (..., d) [m] in body coordinates and parameters theta (k,). f has the unit of its expression.
    """

    value: Callable
    gradient: Callable
    hessian: Callable


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _abs_power(u, p):
    base = jnp.abs(u)
    return (jnp.maximum(base, _SMALLEST_BASE) if p < 0 else base) ** p


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _signed_power(u, q):
    return jnp.sign(u) * _abs_power(u, q)


# The chain rule |u|^(p-1) sign(u) at u = 0 is a product 0 * sign(0); the rules below give the limit instead.
@_abs_power.defjvp
def _abs_power_jvp(p, primals, tangents):
    (u,), (du,) = primals, tangents
    return _abs_power(u, p), p * _signed_power(u, p - 1) * du


@_signed_power.defjvp
def _signed_power_jvp(q, primals, tangents):
    (u,), (du,) = primals, tangents
    return _signed_power(u, q), q * _abs_power(u, q - 1) * du


def _abs_power_numpy(u, p):
    base = np.abs(u)
    return (np.maximum(base, _SMALLEST_BASE) if p < 0 else base) ** p


_BACKENDS = {
    "jax": ([{"AbsPower": _abs_power, "SignedPower": _signed_power}, "jax"], jnp),
    "numpy": (
        [{"AbsPower": _abs_power_numpy, "SignedPower": lambda u, q: np.sign(u) * _abs_power_numpy(u, q)}, "numpy"],
        np,
    ),
}


@functools.cache
def compile_jet(
    expressions: tuple[sympy.Expr, ...], dimension: int, parameters: tuple[sympy.Symbol, ...], backend: str = "jax"
) -> Jet:
    """Compile f_1..f_m in `dimension` coordinates; `backend` "numpy" serves checks that are not worth a JAX compilation."""
    modules, xp = _BACKENDS[backend]
    coordinates = COORDINATES[dimension]
    m, d = len(expressions), dimension
    f = list(expressions)
    gradient = [sympy.diff(e, c) for e in f for c in coordinates]
    hessian = [sympy.diff(e, c) for e in gradient for c in coordinates]

    def compiled(entries, shape):
        function = sympy.lambdify([*coordinates, *parameters], entries, modules=modules, cse=True)

        def evaluate(x, theta):
            batch = x.shape[:-1]
            entries = function(*(x[..., i] for i in range(d)), *(theta[i] for i in range(len(parameters))))
            stacked = xp.stack([xp.broadcast_to(xp.asarray(e, dtype=float), batch) for e in entries], axis=-1)
            return stacked.reshape(batch + shape)

        return evaluate

    return Jet(compiled(f, (m,)), compiled(gradient, (m, d)), compiled(hessian, (m, d, d)))

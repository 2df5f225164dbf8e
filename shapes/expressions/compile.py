"""Sympy inequalities compiled, once per expression, to functions for f, its gradient and its
Hessian."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import sympy

from .symbols import COORDINATES

# |u|^p with p < 0 appears in derivatives of powers below 2 and is infinite at u = 0, always beside
# a factor that vanishes there. A floor keeps the product 0 * finite instead of 0 * inf.
_SMALLEST_BASE = 1e-30
# A norm is never below this, so that its derivatives exist. Its powers above the first, which are
# slopes that vanish with it, then do vanish to round-off, and its square is still a normal number.
_SMALLEST_NORM = 1e-120


@dataclasses.dataclass(frozen=True)
class Jet:
    """Values f (..., m), gradients (..., m, d) and Hessians (..., m, d, d) of m inequalities, as
    functions of points x (..., d) [m] in body coordinates and parameters theta (k,). f has the unit
    of its expression.
    """

    value: Callable
    gradient: Callable
    hessian: Callable


def _functions(xp) -> dict[str, Callable]:
    """What the functions of `symbols` are, by name, in `xp` (numpy or jax.numpy)."""

    def abs_power(u, p):
        base = xp.abs(u)
        return (xp.maximum(base, _SMALLEST_BASE) if p < 0 else base) ** p

    def signed_power(u, q):
        return xp.sign(u) * abs_power(u, q)

    def positive_power(u, p):
        if p > 0:
            return xp.maximum(u, 0.0) ** p
        return xp.where(u > 0, xp.maximum(u, _SMALLEST_BASE) ** p, 0.0)

    def off_zero(u, v):
        """|u| and |v|, or a point beside u = v = 0, on the line u = v."""
        u, v = xp.abs(u), xp.abs(v)
        at_zero = xp.maximum(u, v) < _SMALLEST_NORM
        return xp.where(at_zero, _SMALLEST_NORM, u), xp.where(at_zero, _SMALLEST_NORM, v)

    def norm(u, v, p):
        u, v = off_zero(u, v)
        largest = xp.maximum(u, v)
        return largest * ((u / largest) ** p + (v / largest) ** p) ** (1 / p)

    def share(u, v, p):
        return xp.where(u < 0, -1.0, 1.0) * off_zero(u, v)[0] / norm(u, v, p)

    return {
        "AbsPower": abs_power,
        "SignedPower": signed_power,
        "PositivePower": positive_power,
        "Norm": norm,
        "Share": share,
    }


def _differentiable() -> dict[str, Callable]:
    """The same for JAX, with the derivatives that `symbols` gives them.

    By the chain rule the slope of |u|^p at u = 0 is a product 0 * sign(0), and of a norm 0 / 0: the
    rules give the limit.
    """
    plain = _functions(jnp)
    power = functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
    pair = functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
    abs_power, signed_power, positive_power = (power(plain[n]) for n in ("AbsPower", "SignedPower", "PositivePower"))
    norm, share = (pair(plain[n]) for n in ("Norm", "Share"))

    @abs_power.defjvp
    def _(p, primals, tangents):
        return abs_power(*primals, p), p * signed_power(*primals, p - 1) * tangents[0]

    @signed_power.defjvp
    def _(q, primals, tangents):
        return signed_power(*primals, q), q * abs_power(*primals, q - 1) * tangents[0]

    @positive_power.defjvp
    def _(p, primals, tangents):
        # a step has slope 0 on both sides
        slope = p * positive_power(*primals, p - 1) if p != 0 else 0.0
        return positive_power(*primals, p), slope * tangents[0]

    @norm.defjvp
    def _(p, primals, tangents):
        u, v = primals
        du, dv = tangents
        return norm(u, v, p), signed_power(share(u, v, p), p - 1) * du + signed_power(share(v, u, p), p - 1) * dv

    @share.defjvp
    def _(p, primals, tangents):
        u, v = primals
        du, dv = tangents
        first, second = share(u, v, p), share(v, u, p)
        change = abs_power(second, p) * du - first * signed_power(second, p - 1) * dv
        return first, change / norm(u, v, p)

    return {
        "AbsPower": abs_power,
        "SignedPower": signed_power,
        "PositivePower": positive_power,
        "Norm": norm,
        "Share": share,
    }


def _components(x) -> list:
    """Of x (..., k) each of its k components (...)."""
    return list(np.moveaxis(x, -1, 0)) if isinstance(x, np.ndarray) else list(jnp.unstack(x, axis=-1))


_BACKENDS = {"jax": ([_differentiable(), "jax"], jnp), "numpy": ([_functions(np), "numpy"], np)}


@functools.lru_cache(maxsize=1024)
def compile_jet(
    expressions: tuple[sympy.Expr, ...], dimension: int, parameters: tuple[sympy.Symbol, ...], backend: str = "jax"
) -> Jet:
    """Compile f_1..f_m in `dimension` coordinates; `backend` "numpy" serves checks that are not
    worth a JAX compilation."""
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
            entries = function(*_components(x), *_components(theta))
            stacked = xp.stack([xp.broadcast_to(xp.asarray(e, dtype=float), batch) for e in entries], axis=-1)
            return stacked.reshape(batch + shape)

        return evaluate

    return Jet(compiled(f, (m,)), compiled(gradient, (m, d)), compiled(hessian, (m, d, d)))

"""What a legal shape expression is: coordinates, parameters, and powers of absolute values that stay differentiable."""

from __future__ import annotations

import sympy

x, y, z = sympy.symbols("x y z", real=True)

COORDINATES = {2: (x, y), 3: (x, y, z)}


class ShapeError(ValueError):
    """A shape that cannot be used for contact; the message names the offending point or value and the remedy."""


class AbsPower(sympy.Function):
    """|u|^p with derivative p sign(u) |u|^(p-1), which sympy writes with a Dirac delta for `Abs(u)**p`."""

    nargs = 2

    @classmethod
    def eval(cls, u, p):
        """Even powers need no absolute value."""
        if p.is_zero:
            return sympy.Integer(1)
        if p.is_Integer and p.is_positive and p % 2 == 0:
            return u**p
        return None  # stays an AbsPower

    def fdiff(self, argindex=1):
        """Derivative with respect to u."""
        u, p = _base_and_exponent(self, argindex)
        return p * SignedPower(u, p - 1)


class SignedPower(sympy.Function):
    """sign(u) |u|^q with derivative q |u|^(q-1)."""

    nargs = 2

    @classmethod
    def eval(cls, u, q):
        """Odd powers need no sign."""
        if q.is_Integer and q.is_positive and q % 2 == 1:
            return u**q
        return None  # stays a SignedPower

    def fdiff(self, argindex=1):
        """Derivative with respect to u."""
        u, q = _base_and_exponent(self, argindex)
        return q * AbsPower(u, q - 1)


def _base_and_exponent(power: sympy.Function, argindex: int):
    if argindex != 1:
        raise ShapeError(f"`{power}` has a variable exponent: parameters and coordinates may not appear in exponents.")
    return power.args


def canonical(expression: object, dimension: int, parameters: tuple[sympy.Symbol, ...]) -> sympy.Expr:
    """Check one inequality f(x) <= 0 and rewrite |u|^p into `AbsPower`.

    `dimension` is 2 or 3; `parameters` are the symbols that carry values. Raises `ShapeError` for anything that is
    not a real sympy expression in `shapes.x, shapes.y, shapes.z` and the named parameters.
    """
    if isinstance(expression, str):
        raise ShapeError(f"shape expression {expression!r} is text: build it from shapes.x, shapes.y, shapes.z.")
    if isinstance(expression, sympy.core.relational.Relational):
        raise ShapeError(f"shape expression `{expression}` is a relation: give f alone, the set is f(x) <= 0.")
    if not isinstance(expression, sympy.Expr):
        raise ShapeError(f"shape expression {expression!r} must be a sympy expression, not {type(expression).__name__}.")
    coordinates = COORDINATES[dimension]
    unknown = expression.free_symbols - set(coordinates) - set(parameters)
    if unknown:
        names = ", ".join(sorted(map(str, unknown)))
        raise ShapeError(
            f"shape expression `{expression}` uses {names}: use the symbols {', '.join(map(str, coordinates))} "
            "imported from `shapes` and list every other symbol in `parameters`."
        )
    if not expression.free_symbols & set(coordinates):
        raise ShapeError(f"shape expression `{expression}` does not depend on a coordinate: it bounds nothing.")
    if expression.has(sympy.I) or expression.is_real is False:
        raise ShapeError(f"shape expression `{expression}` is not real.")
    kinks = expression.atoms(sympy.Max, sympy.Min, sympy.sign, sympy.Heaviside, sympy.Piecewise)
    if kinks:
        raise ShapeError(
            f"shape expression `{expression}` has {', '.join(sorted(map(str, kinks)))}, which has no gradient everywhere: "
            "max(f, g) <= 0 is the list [f, g]."
        )
    for power in expression.atoms(sympy.Pow, AbsPower, SignedPower):
        if power.args[1].free_symbols:
            _base_and_exponent(power, argindex=2)
    return expression.replace(
        lambda e: e.is_Pow and isinstance(e.base, sympy.Abs), lambda e: AbsPower(e.base.args[0], e.exp)
    ).replace(lambda e: isinstance(e, sympy.Abs), lambda e: AbsPower(e.args[0], sympy.Integer(1)))

"""What a legal shape expression is: coordinates, parameters, and powers and norms that stay
differentiable."""

from __future__ import annotations

import sympy

from ..errors import FormulaError, NoNormalError

x, y, z = sympy.symbols("x y z", real=True)

COORDINATES = {2: (x, y), 3: (x, y, z)}


class AbsPower(sympy.Function):
    """|u|^p with derivative p sign(u) |u|^(p-1), which sympy writes with a Dirac delta for
    `Abs(u)**p`."""

    nargs = 2

    @classmethod
    def eval(cls, u, p):
        """Even powers need no absolute value; of decimal numbers it is one."""
        if p.is_zero:
            return sympy.Integer(1)
        if p.is_Integer and p.is_positive and p % 2 == 0:
            return u**p
        return abs(u) ** p if u.is_Float and p.is_Float else None  # stays an AbsPower

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


class PositivePower(sympy.Function):
    """max(u, 0)^p with derivative p max(u, 0)^(p-1): once differentiable for p > 1, which is what
    an inequality may use.

    Derivatives reach max(u, 0) at p = 1 and the step, 0 at u = 0, at p = 0.
    """

    nargs = 2

    @classmethod
    def eval(cls, u, p):
        """Of decimal numbers it is one."""
        if u.is_Float and p.is_Float:
            return u**p if u > 0 else sympy.Float(0)
        return None  # stays a PositivePower

    def fdiff(self, argindex=1):
        """Derivative with respect to u."""
        u, p = _base_and_exponent(self, argindex)
        return p * PositivePower(u, p - 1)


class Norm(sympy.Function):
    """(|u|^p + |v|^p)^(1/p), p >= 1, whose derivatives neither underflow nor overflow near u = v =
    0.

    There, where it has none, they are those of the limit along u = v. As a power of a sum of powers
    instead, a norm with p = 20 would lose its slope where u and v are below 0.03.
    """

    nargs = 3

    @classmethod
    def eval(cls, u, v, p):
        """Of decimal numbers it is one."""
        if u.is_Float and v.is_Float and p.is_Float:
            return (abs(u) ** p + abs(v) ** p) ** (1 / p)
        return None  # stays a Norm

    def fdiff(self, argindex=1):
        """Derivative with respect to u or v."""
        u, v, p = _operands_and_exponent(self, argindex)
        return SignedPower(Share(u, v, p) if argindex == 1 else Share(v, u, p), p - 1)


class Share(sympy.Function):
    """u / Norm(u, v, p), between -1 and 1."""

    nargs = 3

    def fdiff(self, argindex=1):
        """Derivative with respect to u or v."""
        u, v, p = _operands_and_exponent(self, argindex)
        other = Share(v, u, p)
        slope = AbsPower(other, p) if argindex == 1 else -Share(u, v, p) * SignedPower(other, p - 1)
        return slope / Norm(u, v, p)


def _base_and_exponent(power: sympy.Function, argindex: int):
    if argindex != 1:
        raise FormulaError(f"`{power}` has a variable exponent: parameters and coordinates may not appear in exponents.")
    return power.args


def _operands_and_exponent(norm: sympy.Function, argindex: int):
    if argindex == 3:
        raise FormulaError(f"`{norm}` has a variable exponent: parameters and coordinates may not appear in exponents.")
    return norm.args


def canonical(expression: object, dimension: int, parameters: tuple[sympy.Symbol, ...]) -> sympy.Expr:
    """Check one inequality f(x) <= 0 and rewrite |u|^p into `AbsPower`.

    `dimension` is 2 or 3; `parameters` are the symbols that carry values. Raises `ShapeError` for
    anything that is not a real sympy expression in `shapes.x, shapes.y, shapes.z` and the named
    parameters.
    """
    if isinstance(expression, str):
        raise FormulaError(f"shape expression {expression!r} is text: build it from shapes.x, shapes.y, shapes.z.")
    if isinstance(expression, sympy.core.relational.Relational):
        raise FormulaError(f"shape expression `{expression}` is a relation: give f alone, the set is f(x) <= 0.")
    if not isinstance(expression, sympy.Expr):
        raise FormulaError(f"shape expression {expression!r} must be a sympy expression, not {type(expression).__name__}.")
    coordinates = COORDINATES[dimension]
    unknown = expression.free_symbols - set(coordinates) - set(parameters)
    if unknown:
        names = ", ".join(sorted(map(str, unknown)))
        raise FormulaError(
            f"shape expression `{expression}` uses {names}: use the symbols {', '.join(map(str, coordinates))} "
            "imported from `shapes` and list every other symbol in `parameters`."
        )
    if not expression.free_symbols & set(coordinates):
        raise FormulaError(f"shape expression `{expression}` does not depend on a coordinate: it bounds nothing.")
    if expression.has(sympy.I) or expression.is_real is False:
        raise FormulaError(f"shape expression `{expression}` is not real.")
    kinks = expression.atoms(sympy.Max, sympy.Min, sympy.sign, sympy.Heaviside, sympy.Piecewise)
    if kinks:
        raise NoNormalError(
            f"shape expression `{expression}` has {', '.join(sorted(map(str, kinks)))}, which has no gradient everywhere: "
            "max(f, g) <= 0 is the list [f, g]."
        )
    for power in expression.atoms(sympy.Pow, AbsPower, SignedPower, PositivePower):
        if power.args[1].free_symbols:
            _base_and_exponent(power, argindex=2)
    for power in expression.atoms(PositivePower):
        if not power.args[1] > 1:
            raise NoNormalError(
                f"`{power}` has exponent {power.args[1]} and no gradient at zero: use an exponent above 1, or, for "
                "max(f, g) <= 0, the list [f, g]."
            )
    return expression.replace(
        lambda e: e.is_Pow and isinstance(e.base, sympy.Abs), lambda e: AbsPower(e.base.args[0], e.exp)
    ).replace(lambda e: isinstance(e, sympy.Abs), lambda e: AbsPower(e.args[0], sympy.Integer(1)))


def without_kinks(expression: sympy.Expr, values: dict[sympy.Symbol, float]) -> list[sympy.Expr]:
    """The inequalities whose largest is `expression`, a canonical one, where it adds multiples c
    |u| with c > 0 at the parameters' `values`: each has an edge at u = 0, where g + c |u| <= 0 is g
    + c u <= 0 and g - c u <= 0. Others stay one.
    """
    found = [expression]
    for kink in sorted(expression.atoms(AbsPower), key=str):
        u, p = kink.args
        size = sympy.Dummy(positive=True)
        factor = sympy.expand(expression.xreplace({kink: size})).diff(size)
        if p == 1 and not factor.free_symbols - set(values) and factor.subs(values) > 0:
            found = [e.xreplace({kink: sign * u}) for e in found for sign in (1, -1)]
    return found


def is_flat(expression: sympy.Expr, dimension: int) -> bool:
    """Whether an inequality is linear in the coordinates."""
    coordinates = COORDINATES[dimension]
    return all(not expression.diff(c).free_symbols & set(coordinates) for c in coordinates)

"""Text of a formula to sympy, by a list of what is allowed: nothing in a file that somebody sent is
ever run.

Python's own parser makes the tree, `ast.parse`, which runs nothing; the tree is walked here, and
every node that is not a number, a known name, + - * / ** or the call of a known function is
refused. Length, nodes, depth and the size of constants are bounded, so that a formula is refused,
or read, within milliseconds.
"""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Callable, Mapping

import sympy

from ..errors import FormulaError, ShapeError
from .symbols import AbsPower, Norm, PositivePower

LONGEST, MOST_NODES, DEEPEST = 2000, 200, 40  # characters; parts of a formula; nested parts
_LARGEST_EXPONENT = 200  # of a superquadric's edges
_MOST_BITS = 1000  # of constants: what double precision can hold

FUNCTIONS: dict[str, tuple[int, Callable]] = {
    "abs": (1, sympy.Abs),
    "sqrt": (1, sympy.sqrt),
    "exp": (1, sympy.exp),
    "log": (1, sympy.log),
    "sin": (1, sympy.sin),
    "cos": (1, sympy.cos),
    "tan": (1, sympy.tan),
    "atan": (1, sympy.atan),
    "sinh": (1, sympy.sinh),
    "cosh": (1, sympy.cosh),
    "tanh": (1, sympy.tanh),
    "AbsPower": (2, AbsPower),
    "PositivePower": (2, PositivePower),
    "Norm": (3, Norm),
}
_EXACT = ("abs", "sqrt")  # of numbers they stay exact; other functions of numbers become numbers


def parse(text: object, names: Mapping[str, sympy.Expr], functions: Mapping[str, tuple[int, Callable]] = FUNCTIONS):
    """The sympy expression that `text` is, of the symbols in `names` (and pi) and of `functions`,
    each with its number of arguments. Raises `ShapeError` that says which part is not allowed, and
    what is."""
    if not isinstance(text, str):
        raise FormulaError(f'a formula must be text, for instance "x**2 + y**2 - 1", not {text!r:.60}.')
    if len(text) > LONGEST:
        raise FormulaError(f"the formula {text[:40]!r}... has {len(text)} characters: at most {LONGEST} are read.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python, about what is refused below
            tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        what = getattr(error, "msg", None) or str(error) or "it is nested too deeply"
        raise FormulaError(f"the formula {_short(text)} cannot be read: {what}.") from None
    try:
        count = sum(1 for _ in ast.walk(tree))
        if count > MOST_NODES:
            raise FormulaError(f"the formula {_short(text)} has {count} parts: at most {MOST_NODES} are read.")
        return _Reader(text, names, functions).read(tree, 0)
    except ShapeError:
        raise
    except (ArithmeticError, RecursionError, TypeError, AttributeError, ValueError) as error:
        # of SymPy
        raise FormulaError(f"the formula {_short(text)} has no value that could be used: {error}.") from error


class _Reader:
    """Walks the tree of one formula."""

    def __init__(self, text: str, names: Mapping[str, sympy.Expr], functions: Mapping[str, tuple[int, Callable]]):
        self.text, self.names, self.functions = text, names, functions

    def read(self, node: ast.expr, depth: int) -> sympy.Expr:
        """The expression of a node, checked."""
        if depth > DEEPEST:
            self.refuse(f"is nested deeper than {DEEPEST} parts", "write it in fewer brackets")
        found = self._expression(node, depth + 1)
        if found.has(sympy.zoo, sympy.oo, -sympy.oo, sympy.nan, sympy.I):
            self.refuse(f"has a part that is {found}", "a formula has real and finite numbers only")
        if found.is_Rational and max(abs(found.p).bit_length(), found.q.bit_length()) > _MOST_BITS:
            self.refuse("has a constant with too many digits", "write it as a decimal number")
        return found

    def _expression(self, node: ast.expr, depth: int) -> sympy.Expr:
        if isinstance(node, ast.Constant):
            return self._number(node.value)
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
            value = self.read(node.operand, depth)
            return -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            return sympy.Add(*self._terms(node, depth))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
            return sympy.Mul(*self._factors(node, depth))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            return self._power(self.read(node.left, depth), self.read(node.right, depth))
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        return self._refuse_node(node)

    def _terms(self, node: ast.expr, depth: int) -> list[sympy.Expr]:
        """All terms of a sum at once, in their order."""
        found = []
        while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            right = self.read(node.right, depth)
            found.append(-right if isinstance(node.op, ast.Sub) else right)
            node = node.left
        return [self.read(node, depth), *reversed(found)]

    def _factors(self, node: ast.expr, depth: int) -> list[sympy.Expr]:
        """All factors of a product at once: 2 * (x + y) alone would be multiplied out, 2 * (x + y)
        * z not."""
        found = []
        while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
            right = self.read(node.right, depth)
            if isinstance(node.op, ast.Div):
                if right.is_zero:
                    self.refuse("divides by zero", "check its constants")
                right = sympy.Pow(right, -1)
            found.append(right)
            node = node.left
        return [self.read(node, depth), *reversed(found)]

    def _power(self, base: sympy.Expr, exponent: sympy.Expr) -> sympy.Expr:
        if not exponent.is_number:
            self.refuse("has a variable exponent", "parameters and coordinates may not appear in exponents")
        size = abs(float(exponent))
        if size > _LARGEST_EXPONENT:
            self.refuse(f"has the exponent {exponent}", f"exponents are at most {_LARGEST_EXPONENT}")
        if base.is_number:
            value = float(base)  # complex numbers have been refused
            if value == 0 and exponent.is_negative:
                self.refuse("divides by zero", "check its constants")
            if value < 0 and not exponent.is_integer:
                self.refuse(f"has a root of the negative number {base}", "use abs(...) where that is meant")
            if value and size * max(abs(math.log2(abs(value))), _bits(base)) > _MOST_BITS:
                self.refuse(f"has the constant power {base}**{exponent}", "its value is out of range")
        return sympy.Pow(base, exponent)

    def _call(self, node: ast.Call, depth: int) -> sympy.Expr:
        name = node.func.id if isinstance(node.func, ast.Name) else None
        if name not in self.functions or node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            told = f"calls {name!r}" if name else "calls something that is no function's name"
            self.refuse(told, f"the functions are {', '.join(self.functions)}")
        count, function = self.functions[name]
        if len(node.args) != count:
            self.refuse(f"gives {name} {len(node.args)} arguments", f"it takes {count}")
        arguments = [self.read(argument, depth) for argument in node.args]
        if name in ("AbsPower", "PositivePower", "Norm") and not (
            arguments[-1].is_number and abs(float(arguments[-1])) <= _LARGEST_EXPONENT
        ):
            self.refuse(f"gives {name} the exponent {arguments[-1]}", f"exponents are numbers up to {_LARGEST_EXPONENT}")
        value = function(*arguments)
        if name in _EXACT or not all(argument.is_number for argument in arguments):
            return value
        return self._number(float(function(*(sympy.Float(float(a)) for a in arguments))))

    def _number(self, value) -> sympy.Expr:
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(f"has {value!r:.40}", "numbers are real, like 2, .5 and 1e-3")
        if isinstance(value, int):
            return sympy.Integer(value)
        if not math.isfinite(value):
            self.refuse(f"has the number {value}", "numbers must be finite")
        return sympy.Float(value)

    def _name(self, name: str) -> sympy.Expr:
        if name in self.names:
            return self.names[name]
        if name == "pi":
            return sympy.pi
        known = ", ".join(self.names) or "no names"
        return self.refuse(f"has the name {name!r}", f"known here are {known} and pi")

    def _refuse_node(self, node: ast.expr):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitXor):
            self.refuse("has ^", "a power is **")
        if isinstance(node, ast.Compare):
            self.refuse("is a relation", "give f alone: the set is f <= 0")
        self.refuse(f"has {type(node).__name__}", "it may have numbers, names, + - * / **, brackets and known functions")

    def refuse(self, what: str, remedy: str):
        """Raises `ShapeError`."""
        raise FormulaError(f"the formula {_short(self.text)} {what}: {remedy}.")


def _bits(base: sympy.Expr) -> int:
    """Of the larger part of a rational number, which a power has that many times."""
    return max(abs(base.p).bit_length(), base.q.bit_length()) if base.is_Rational else 0


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")


def written(expression: sympy.Expr) -> str:
    """The text that `parse` reads as `expression`, all digits of numbers included. Raises
    `ShapeError` for what a formula cannot hold."""
    if expression.is_Symbol:
        return expression.name
    if expression is sympy.pi:
        return "pi"
    if expression.is_Integer:
        return str(expression) if expression >= 0 else f"({expression})"
    if expression.is_Rational:
        return f"({expression.p}/{expression.q})"
    if expression.is_Float:
        return repr(float(expression)) if expression >= 0 else f"({float(expression)!r})"
    if expression.is_Add:
        return " + ".join(map(written, expression.args))
    if expression.is_Mul:
        return "*".join(_bracketed(part, sympy.Add) for part in expression.args)
    if expression.is_Pow:
        base, exponent = expression.args
        return f"{_bracketed(base, (sympy.Add, sympy.Mul, sympy.Pow))}**{_bracketed(exponent, sympy.Expr)}"
    for name, (count, function) in FUNCTIONS.items():
        if isinstance(function, type) and isinstance(expression, function) and len(expression.args) == count:
            return f"{name}({', '.join(map(written, expression.args))})"
    raise FormulaError(
        f"`{expression}` cannot be written as a formula: {type(expression).__name__} is none of its functions."
    )


def _bracketed(part: sympy.Expr, kinds) -> str:
    """In brackets, where it is of these kinds and no word or bracket already."""
    text = written(part)
    plain = part.is_Symbol or (part.is_Integer and part >= 0) or (part.is_Rational and text.startswith("("))
    return f"({text})" if isinstance(part, kinds) and not plain else text

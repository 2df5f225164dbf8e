"""Shapes as tables of a file: those of the library by their arguments, others by their inequalities
as text."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import sympy

import shapes
from shapes import Shape, ShapeError
from shapes.errors import FormulaError
from shapes.expressions.parse import LONGEST, parse, written
from shapes.expressions.symbols import COORDINATES

from ..runtime.errors import NotInAFileError, SceneBuildError, SceneFileError, SceneLimitError, SceneValueError
from .formula import parameter_name
from .tables import Table
from .units import Units

_ASSUMPTIONS = {"positive": {"positive": True}, "real": {"real": True}, "nothing": {}}
_MOST_VERTICES = 100  # a second to build: up to twice as many faces, each an inequality
# of an intersection, and inequalities of a shape: each is compared with all others
_MOST_PARTS = 10
_DEEPEST = 8  # shapes within shapes
# By class: the arguments that are lengths, or lists of them. Their order is that of the parameters.
_LENGTHS = {
    "Sphere": ("radius",),
    "Ellipsoid": ("semi_axes",),
    "Disc": ("radius",),
    "Ellipse": ("semi_axes",),
    "Box": ("half_sizes",),
    "Wedge": ("length", "width", "height"),
    "Cylinder": ("radius", "half_height"),
    "Capsule": ("radius", "half_length"),
    "Frustum": ("radius_bottom", "radius_top", "height"),
    "Lens": ("radius_1", "radius_2", "thickness"),
}


def shape_of(table: Table, dimension: int, units: Units, depth: int = 0) -> Callable[[], Shape]:
    """What builds the shape of a table, whose keys are checked here already. Raises
    `SceneFileError`."""
    if depth > _DEEPEST:
        raise SceneLimitError(f"{table.where} is nested too deeply: at most {_DEEPEST} shapes stand within each other.")
    kind = table.text("kind")
    if kind in _LENGTHS:
        table.expect(_LENGTHS[kind])
        found = {name: table.numbers(name, unit=units.length) for name in _LENGTHS[kind]}
        make = getattr(shapes, kind)
    elif kind in _READERS:
        make, found = _READERS[kind](table, dimension, units, depth)
    else:
        raise SceneValueError(f"{table.where}.kind = {kind!r:.60}: the kinds are {', '.join([*_LENGTHS, *_READERS])}.")
    table.end()

    def build() -> Shape:
        arguments = {name: value() if callable(value) else value for name, value in found.items() if value is not None}
        if "parts" in arguments:
            arguments["parts"] = [part() for part in arguments["parts"]]
        try:
            return make(**arguments)
        except (ValueError, ArithmeticError, TypeError, np.linalg.LinAlgError) as error:
            raise SceneBuildError(f"{table.where}: {error}") from error

    return build


def _superquadric(table, dimension, units, depth):
    return shapes.Superquadric, {
        "semi_axes": table.numbers("semi_axes", unit=units.length),
        "epsilon": table.numbers("epsilon"),
    }


def _cone(table, dimension, units, depth):
    lengths = {name: table.number(name, unit=units.length) for name in ("radius", "height")}
    return shapes.Cone, lengths | {"tip": table.number("tip", None)}


def _half(make):
    def read(table, dimension, units, depth):
        return make, {"normal": table.numbers("normal"), "offset": table.number("offset", 0.0, units.length)}

    return read


def _from_faces(make):
    def read(table, dimension, units, depth):
        lengths = {name: table.numbers(name, None, units.length) for name in ("vertices", "offsets")}
        if isinstance(lengths["vertices"], tuple) and len(lengths["vertices"]) > _MOST_VERTICES:
            raise SceneLimitError(f"{table.where}.vertices: a file has polytopes of at most {_MOST_VERTICES} of them.")
        return make, lengths | {"normals": table.numbers("normals", None)}

    return read


def _point(table, dimension, units, depth):
    return shapes.Point, {"length": table.number("length", units.length(1.0), units.length), "dimension": dimension}


def _rounded(table, dimension, units, depth):
    inner = shape_of(table.table("shape"), dimension, units, depth + 1)
    return shapes.Rounded, {"shape": inner, "radius": table.number("radius", unit=units.length)}


def _cut(table, dimension, units, depth):
    inner = shape_of(table.table("shape"), dimension, units, depth + 1)
    plane = {"normal": table.numbers("normal"), "offset": table.number("offset", 0.0, units.length)}
    return shapes.cut, {"shape": inner, **plane}


def _intersection(table, dimension, units, depth):
    parts = table.tables("parts")
    if len(parts) > _MOST_PARTS:
        raise SceneLimitError(f"{table.where}.parts: a file has intersections of at most {_MOST_PARTS} shapes.")
    return shapes.Intersection, {"parts": [shape_of(part, dimension, units, depth + 1) for part in parts]}


def _inequalities(table, dimension, units, depth):
    """A shape of the user's: inequalities f <= 0 as text, in coordinates and the parameters of the
    shape and the file."""
    inner = table.table("parameters", None)
    own = {} if inner is None else inner.left
    values, names = {}, {}
    for name, entry in (dict(table.parameters) | own).items():
        values[name], names[name] = _parameter(table, name, entry)
    scale = units.coordinate  # the text sees coordinates in the file's units
    coordinates = {c.name: c for c in COORDINATES[dimension]}
    expressions, texts = [], table.entries("inequalities")
    if len(texts) > _MOST_PARTS or sum(len(text) for text in texts if isinstance(text, str)) > LONGEST:
        raise SceneLimitError(
            f"{table.where}.inequalities: a file has shapes of at most {_MOST_PARTS}, of {LONGEST} characters together."
        )
    for i, text in enumerate(texts):
        try:
            found = parse(text, coordinates | names)
        except ShapeError as error:
            raise SceneBuildError(f"{table.where}.inequalities[{i}]: {error}") from error
        expressions.append(found if scale == 1 else found.xreplace({c: scale * c for c in coordinates.values()}))
    used = set().union(*(e.free_symbols for e in expressions)) if expressions else set()
    parameters = {names[name]: value for name, value in values.items() if name in own or names[name] in used}
    return shapes.ImplicitShape, {
        "expressions": expressions,
        "parameters": parameters,
        "dimension": dimension,
        "name": table.text("name", "ImplicitShape"),
    }


def _parameter(table: Table, name: str, entry) -> tuple[float, sympy.Symbol]:
    """Value and symbol of name = 0.5, or of name = { value = 0.5, assume = "real" }."""
    where = f"{table.where}.parameters.{name:.60}"
    assume = None
    if isinstance(entry, dict):
        inner = Table(entry, where, table.parameters)
        entry, assume = inner.take("value"), inner.text("assume")
        inner.end()
        if assume not in _ASSUMPTIONS:
            raise SceneValueError(f"{where}.assume = {assume!r:.60} must be one of {', '.join(_ASSUMPTIONS)}.")
    value = table.value(entry, where)
    try:
        parameter_name(name)
    except ValueError as error:
        raise SceneBuildError(f"{where}: {error}") from error
    if assume == "positive" and value <= 0:
        raise SceneValueError(f"{where} = {value} is assumed positive, and is not.")
    return value, sympy.Symbol(name, **_ASSUMPTIONS[assume or _usual(value)])


def _usual(value: float) -> str:
    return "positive" if value > 0 else "real"


_READERS = {
    "Superquadric": _superquadric,
    "Cone": _cone,
    "HalfSpace": _half(shapes.HalfSpace),
    "HalfPlane": _half(shapes.HalfPlane),
    "Polytope": _from_faces(shapes.Polytope),
    "Polygon": _from_faces(shapes.Polygon),
    "Point": _point,
    "Rounded": _rounded,
    "cut": _cut,
    "Intersection": _intersection,
    "ImplicitShape": _inequalities,
}


def table_of(shape: Shape) -> dict[str, Any]:
    """The table from which `shape_of` builds the same shape, to the bit. Raises `ValueError` where
    there is none."""
    for table in _candidates(shape):
        try:
            again = shape_of(Table(table, "shape", {}), shape.dimension, Units())()
        except SceneFileError:
            continue
        if again.shape_class == shape.shape_class and np.array_equal(again.theta, shape.theta):
            return table
    raise NotInAFileError(
        f"the shape {shape.shape_class.name} cannot be written to a scene file so that it reads back the same. Build it "
        "from the library, or by ImplicitShape from formulas in x, y, z and parameters, without a closed form of its own."
    )


def _candidates(shape: Shape) -> Iterator[dict[str, Any]]:
    """Tables that may be those of the shape: by the library's arguments, and by inequalities."""
    of, theta = shape.shape_class, np.asarray(shape.theta, dtype=float)
    if of.point:
        yield {"kind": "Point", "length": float(theta[0])}
        return
    if of.rounded:
        name = of.name.removeprefix("Rounded(").removesuffix(")")
        core = Shape(dataclasses.replace(of, name=name, rounded=False, parameters=of.parameters[:-1]), theta[:-1])
        for inner in _candidates(core):
            yield {"kind": "Rounded", "shape": inner, "radius": float(theta[-1])}
        return
    for write in (_library_table, _inequality_table):
        with contextlib.suppress(ShapeError, KeyError, AttributeError):
            yield write(shape)


def _library_table(shape: Shape) -> dict[str, Any]:
    """By the arguments of the library, of which the parameters are copies. Raises `KeyError` for
    other classes and `AttributeError` where a class of that name is not the library's."""
    kind, theta = shape.shape_class.name, np.asarray(shape.theta, dtype=float).tolist()
    if kind in ("HalfSpace", "HalfPlane"):
        return {"kind": kind, "normal": theta[:-1], "offset": theta[-1]}
    if kind in ("Polytope", "Polygon"):
        faces = np.reshape(theta, (-1, shape.dimension + 1))
        return {"kind": kind, "normals": faces[:, :-1].tolist(), "offsets": faces[:, -1].tolist()}
    if kind == "Superquadric":
        moments = shape.shape_class.closed_form
        return {"kind": kind, "semi_axes": theta, "epsilon": [_epsilon(moments.p1), _epsilon(moments.p2)]}
    names = _LENGTHS[kind]
    if len(names) == 1:
        return {"kind": kind, names[0]: theta[0] if names[0] == "radius" else theta}
    return {"kind": kind} | dict(zip(names, theta, strict=False))


def _epsilon(power: float) -> float:
    """The exponent e for which 2 / e is that power, which rounding may have put beside 2 /
    power."""
    near = 2 / power
    return next((e for e in (near, math.nextafter(near, 0), math.nextafter(near, 3)) if 2 / e == power), near)


def _inequality_table(shape: Shape) -> dict[str, Any]:
    """By inequalities as text."""
    of, parameters = shape.shape_class, {}
    for symbol, value in zip(of.parameters, np.asarray(shape.theta, dtype=float).tolist(), strict=True):
        found = [name for name, given in _ASSUMPTIONS.items() if sympy.Symbol(symbol.name, **given) == symbol]
        if not found:
            raise FormulaError(f"the symbol {symbol} has assumptions other than positive or real.")
        usual = found[0] == _usual(value)
        parameters[symbol.name] = value if usual else {"value": value, "assume": found[0]}
    return {
        "kind": "ImplicitShape",
        "name": of.name,
        "inequalities": [written(e) for e in of.expressions],
        "parameters": parameters,
    }

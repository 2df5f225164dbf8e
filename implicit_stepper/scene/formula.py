"""Loads that are formulas of time and of the body's own motion, as text that runs nothing."""

from __future__ import annotations

import dataclasses
import functools
import keyword
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import jax.numpy as jnp
import sympy

from shapes import ShapeError
from shapes.arguments import number
from shapes.expressions import parse

from ..runtime.errors import FunctionError, NameTakenError


class Larger(sympy.Function):
    """max(u, v), of which SymPy knows its value for decimal numbers alone, and so tries nothing."""

    nargs = 2

    @classmethod
    def eval(cls, u, v):
        """Of decimal numbers."""
        return max(u, v) if u.is_Float and v.is_Float else None


class Smaller(sympy.Function):
    """min(u, v), as `Larger`."""

    nargs = 2

    @classmethod
    def eval(cls, u, v):
        """Of decimal numbers."""
        return min(u, v) if u.is_Float and v.is_Float else None


class Step(sympy.Function):
    """1 from u = 0 on and 0 before, as `Larger`."""

    nargs = 1

    @classmethod
    def eval(cls, u):
        """Of a decimal number."""
        return sympy.Float(1 if u >= 0 else 0) if u.is_Float else None


_ONLY_SHAPES = ("AbsPower", "PositivePower", "Norm")
FUNCTIONS = {name: value for name, value in parse.FUNCTIONS.items() if name not in _ONLY_SHAPES} | {
    "max": (2, Larger),
    "min": (2, Smaller),
    "step": (1, Step),
}
_MODULES = [
    {"Larger": jnp.maximum, "Smaller": jnp.minimum, "Step": lambda u: jnp.where(jnp.asarray(u) >= 0, 1.0, 0.0)},
    "jax",
]
VARIABLES = {
    2: ("t", "x", "y", "angle", "vx", "vy", "w"),
    3: ("t", "x", "y", "z", "vx", "vy", "vz", "wx", "wy", "wz"),
}
# what compiled formulas, their derivatives and SymPy's constants are called in programs; common
# parts are x0, x1, ...
_TAKEN = {"e", "pi", "nan", "inf", "j", "sign", "select", "where", "maximum", "minimum", "amax", "amin", "arctan",
          "heaviside", "real", "imag", "conjugate", "power", "numpy", "jax", "math", "SignedPower", "Share", "Larger",
          "Smaller", "Step"}  # fmt: skip
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")


@dataclasses.dataclass(frozen=True)
class Wrench:
    """A load on a body, for `add_body(wrench=...)`: `force` [N] and `moment` [N m] about the centre
    of mass, inertial frame, each a number or a formula as text, of time t [s], the centre of mass
    x, y, z [m], its velocity vx, vy, vz [m/s] and the angular velocity wx, wy, wz [rad/s]; in the
    plane of t, x, y, angle, vx, vy and w, with one moment.

    Formulas have + - * / **, pi, sqrt, exp, sin, ... (`shapes.expressions.parse.FUNCTIONS`), min,
    max, and step(u), 1 from u = 0 on and 0 before. `parameters`: further names with their values.
    Unlike a function, a `Wrench` can be saved with its scene. Raises `ValueError` that names the
    part and says what is allowed.
    """

    force: Sequence[str | float]
    moment: Sequence[str | float] = ()
    parameters: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        force, moment = _parts("force", self.force), _parts("moment", self.moment)
        if len(force) not in (2, 3):
            raise FunctionError(f"`force` = {force!r} needs 2 parts in the plane, 3 in space: formulas or numbers.")
        turns = 1 if len(force) == 2 else 3
        moment = moment or (0.0,) * turns
        if len(moment) != turns:
            raise FunctionError(f"`moment` = {moment!r} needs {turns} parts beside a force of {len(force)}.")
        values = {parameter_name(name): number(name, value) for name, value in dict(self.parameters).items()}
        for name, parts in (("force", force), ("moment", moment)):
            object.__setattr__(self, name, parts)
        object.__setattr__(self, "parameters", tuple(sorted(values.items())))
        self._compiled()

    def __call__(self, time, position, orientation, velocity):
        """(6,) or (3,): force and moment."""
        turn = orientation if len(self.force) == 2 else ()
        parts = self._compiled()(time, *position, *turn, *velocity)
        return jnp.stack([jnp.asarray(part, dtype=float) for part in parts])

    def _compiled(self) -> Callable:
        return _compiled(self.force, self.moment, self.parameters)


@dataclasses.dataclass(frozen=True)
class Motion:
    """A motion for `Scene.add_motion`: a formula of time t [s] as text, with the functions of
    `Wrench`; [m] or [rad].

    Unlike a function it can be saved with its scene. Raises `ValueError` that says what is
    allowed."""

    formula: str
    parameters: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        values = {parameter_name(name): number(name, value) for name, value in dict(self.parameters).items()}
        object.__setattr__(self, "parameters", tuple(sorted(values.items())))
        object.__setattr__(self, "formula", *_parts("formula", [self.formula]))
        _compiled_motion(self.formula, self.parameters)

    def __call__(self, time):
        """() [m] or [rad]."""
        return jnp.asarray(_compiled_motion(self.formula, self.parameters)(time), dtype=float)


@dataclasses.dataclass(frozen=True)
class MovingPose:
    """A pose for `Scene.add_moving`: `position` (3,) [m] and `quaternion` (4,), w first, of any
    length but 0, each part a number or a formula of time t [s] as text, with the functions of
    `Wrench`; in the plane position (2,) and `angle` [rad].

    Unlike a function it can be saved with its scene. Raises `ValueError` that names the part and
    says what is allowed."""

    position: Sequence[str | float]
    quaternion: Sequence[str | float] | None = None
    angle: str | float | None = None
    parameters: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        position = _parts("position", self.position)
        if len(position) not in (2, 3):
            raise FunctionError(f"`position` = {position!r} needs 2 parts in the plane, 3 in space: formulas or numbers.")
        other, own = ("quaternion", "angle") if len(position) == 2 else ("angle", "quaternion")
        if getattr(self, other) is not None:
            raise FunctionError(f"`{other}` stands beside a position of {len(position)} parts: give `{own}`.")
        turn = {"quaternion": None, "angle": None}
        if own == "angle":
            (turn["angle"],) = _parts("angle", [0.0 if self.angle is None else self.angle])
        else:
            turn["quaternion"] = _parts("quaternion", (1.0, 0.0, 0.0, 0.0) if self.quaternion is None else self.quaternion)
            if len(turn["quaternion"]) != 4:
                raise FunctionError(f"`quaternion` = {turn['quaternion']!r} needs 4 parts, w first: formulas or numbers.")
        values = {parameter_name(name): number(name, value) for name, value in dict(self.parameters).items()}
        for name, value in (("position", position), ("parameters", tuple(sorted(values.items()))), *turn.items()):
            object.__setattr__(self, name, value)
        self._compiled()

    def __call__(self, time):
        """Position (d,) [m] and quaternion (4,), or angle () [rad]."""
        parts = [jnp.asarray(part, dtype=float) for part in self._compiled()(time)]
        d = len(self.position)
        return jnp.stack(parts[:d]), parts[d] if d == 2 else jnp.stack(parts[d:])

    def _compiled(self) -> Callable:
        turn = (("angle", (self.angle,)),) if len(self.position) == 2 else (("quaternion", self.quaternion),)
        return _compiled_pose((("position", self.position), *turn), self.parameters)


def _parts(name: str, given) -> tuple:
    """Formulas as they are, numbers as floats. Raises `ValueError` for what is no list of such."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise FunctionError(f"`{name}` = {given!r:.60} must be a list of formulas or numbers.")
    return tuple(part if isinstance(part, str) else number(name, part) for part in given)


@functools.lru_cache(maxsize=256)
def _compiled_motion(formula: str, parameters: tuple) -> Callable:
    """A function of time."""
    time, (expression,) = _of_time((("formula", (formula,)),), parameters)
    return sympy.lambdify([time], expression, modules=_MODULES)


@functools.lru_cache(maxsize=256)
def _compiled_pose(named: tuple, parameters: tuple) -> Callable:
    """A function of time that gives all parts, in order."""
    time, expressions = _of_time(named, parameters)
    return sympy.lambdify([time], expressions, modules=_MODULES, cse=True)


def _of_time(named: tuple, parameters: tuple) -> tuple[sympy.Symbol, list]:
    """The time, and what the formulas and numbers of (name, parts) say of it. Raises `ValueError`
    that names the part."""
    time = sympy.Symbol("t", real=True)
    names = {"t": time} | {name: sympy.Float(value) for name, value in parameters}
    return time, _expressions(named, names)


def _expressions(named: tuple, names: dict) -> list:
    found = []
    for what, parts in named:
        for i, part in enumerate(parts):
            try:
                found.append(parse.parse(part, names, FUNCTIONS) if isinstance(part, str) else sympy.Float(part))
            except ShapeError as error:
                where = f"`{what}`" if len(parts) == 1 else f"`{what}`[{i}]"
                raise FunctionError(f"{where}: {error}") from error
    return found


def parameter_name(name: object) -> str:
    """A name that a formula may give a number. Raises `ValueError` for what is no name, or means
    something already."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise NameTakenError(f"{name!r:.60} is no name for a parameter: letters, digits and _, beginning with a letter.")
    variables = {*VARIABLES[2], *VARIABLES[3]}
    if name in variables | _TAKEN | {*FUNCTIONS, *parse.FUNCTIONS} or re.fullmatch(r"x\d+", name):
        raise NameTakenError(f"{name!r} cannot be a parameter, as it has a meaning already: take another name.")
    return name


@functools.lru_cache(maxsize=256)
def _compiled(force: tuple, moment: tuple, parameters: tuple) -> Callable:
    """A function of the variables that gives all parts of a wrench, in order."""
    variables = [sympy.Symbol(name, real=True) for name in VARIABLES[len(force)]]
    names = {symbol.name: symbol for symbol in variables} | {name: sympy.Float(value) for name, value in parameters}
    return sympy.lambdify(variables, _expressions((("force", force), ("moment", moment)), names), modules=_MODULES, cse=True)

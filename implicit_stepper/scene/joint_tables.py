"""Joints as tables of a file: those of the library by their arguments, springs and motions along
what they leave free."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..constraints import joints
from ..constraints.friction import JointFriction
from ..runtime.errors import NotInAFileError, SceneBuildError, SceneValueError
from .description import AlongDescription, GearDescription, JointDescription, limit_name
from .formula import Motion
from .tables import Table
from .units import Units

_KINDS = {kind.__name__: kind for kind in joints.LIBRARY}
_LENGTHS = ("point_1", "point_2", "length", "lead")
_GEAR = "gear"
_ALONG = ("spring along", "motion along", "limit along", "motor along")


def joint_of(table: Table, units: Units) -> JointDescription | AlongDescription | GearDescription:
    """The joint of a table [[joint]]. Raises `SceneFileError`."""
    kind = table.text("kind")
    if kind in _ALONG:
        return _along(table, kind)
    if kind == _GEAR:
        return _gear(table)
    if kind not in _KINDS:
        raise SceneValueError(f"{table.where}.kind = {kind!r:.60}: the kinds are {', '.join([*_KINDS, *_ALONG, _GEAR])}.")
    bodies = table.take("bodies")
    if not isinstance(bodies, list) or len(bodies) != 2 or not all(isinstance(name, str) for name in bodies):
        raise SceneValueError(f"{table.where}.bodies = {bodies!r:.60} must be two names.")
    fields, given = dataclasses.fields(_KINDS[kind]), {}
    table.expect(field.name for field in fields)
    for field in fields:
        if field.name == "friction":
            given[field.name] = _friction(table.table("friction", None), units)
            continue
        usual = {} if field.default is dataclasses.MISSING else {"default": field.default}
        given[field.name] = table.numbers(field.name, unit=units.length if field.name in _LENGTHS else float, **usual)
    name, project = table.text("name", None), table.flag("project", False)
    table.end()
    return JointDescription("-".join(bodies) if name is None else name, *bodies, _KINDS[kind](**given), project)


def _friction(table: Table | None, units: Units) -> JointFriction | None:
    """The friction of a joint, mu, mu_s, what turns' radius and a guide's length."""
    if table is None:
        return None
    table.expect(("mu", "radius", "length", "mu_s"))
    mu = table.number("mu")
    radius, length = (table.number(name, default=None, unit=units.length) for name in ("radius", "length"))
    mu_s = table.number("mu_s", default=None)
    table.end()
    try:
        return JointFriction(mu, radius, mu_s, length)
    except ValueError as error:
        raise SceneBuildError(f"{table.where}: {error}") from error


def _gear(table: Table) -> GearDescription:
    """A gear of two joints, with SI units in every file."""
    joints, coordinates = table.take("joints"), table.take("coordinates", [0, 0])
    if not isinstance(joints, list) or len(joints) != 2 or not all(isinstance(name, str) for name in joints):
        raise SceneValueError(f"{table.where}.joints = {joints!r:.60} must be two names.")
    if not isinstance(coordinates, list) or len(coordinates) != 2 or not all(type(n) is int for n in coordinates):
        raise SceneValueError(f"{table.where}.coordinates = {coordinates!r:.60} must be two whole numbers.")
    name, ratio = table.text("name", f"gear of {joints[0]} and {joints[1]}"), table.number("ratio")
    table.end()
    return GearDescription(name, *joints, ratio, tuple(coordinates))


def _along(table: Table, kind: str) -> AlongDescription:
    """A spring, a motion or a limit along a coordinate of a joint, with SI units in every file."""
    joint, coordinate = table.text("joint"), table.take("coordinate", 0)
    name = table.text("name", None)
    if kind == "limit along":
        side = table.text("side")
        if side not in ("low", "high"):
            raise SceneValueError(f"{table.where}.side = {side!r:.60} must be low or high.")
    if isinstance(coordinate, bool) or not isinstance(coordinate, int):
        raise SceneValueError(f"{table.where}.coordinate = {coordinate!r:.60} must be a whole number.")
    if kind == "limit along":
        own = limit_name(side, joint, coordinate)
        if name not in (None, own):
            raise SceneValueError(f"{table.where}.name = {name!r:.60}: a limit is called {own!r}. Leave it out.")
        values: dict[str, Any] = {"side": side, "bound": table.number("bound")}
    elif kind == "motor along":
        values = {"speed": table.number("speed"), "most": table.number("most")}
    elif kind == "spring along":
        usual = {"stiffness": {}, "damping": {"default": 0.0}, "rest": {"default": 0.0}}
        values = {key: table.number(key, **default) for key, default in usual.items()}
    else:
        loads = table.table("parameters", None)
        own = dict(table.parameters) | ({} if loads is None else {key: loads.number(key) for key in list(loads.left)})
        formula = table.text("formula")
        try:
            values = {"motion": Motion(formula, {key: value for key, value in own.items() if key in formula})}
        except ValueError as error:
            raise SceneBuildError(f"{table.where}: {error}") from error
    table.end()
    usual = limit_name(side, joint, coordinate) if kind == "limit along" else f"{kind.split()[0]} of {joint}"
    return AlongDescription(usual if name is None else name, joint, coordinate, **values)


def table_of(of: JointDescription | AlongDescription | GearDescription) -> dict[str, Any]:
    """The table that `joint_of` reads as the same. Raises `ValueError` for motions and constraints
    that are functions."""
    if isinstance(of, JointDescription):
        kind = type(of.joint).__name__
        if kind not in _KINDS:
            raise NotInAFileError(f"the joint {of.name!r} is a {kind} of a function of yours, which no file can hold.")
        given = {key: vars(value) if key == "friction" and value else value for key, value in vars(of.joint).items()}
        return {"name": of.name, "kind": kind, "bodies": [of.first, of.second], "project": of.project or None} | given
    if isinstance(of, GearDescription):
        return {"name": of.name, "kind": _GEAR} | {
            "joints": [of.joint_1, of.joint_2],
            "coordinates": of.coordinates,
            "ratio": of.ratio,
        }
    where = {"name": of.name, "joint": of.joint, "coordinate": of.coordinate}
    if of.speed is not None:
        return {"kind": "motor along"} | where | {"speed": of.speed, "most": of.most}
    if of.side is not None:
        return {"kind": "limit along", "joint": of.joint, "coordinate": of.coordinate, "side": of.side, "bound": of.bound}
    if of.motion is None:
        return {"kind": "spring along"} | where | {key: getattr(of, key) for key in ("stiffness", "damping", "rest")}
    if not isinstance(of.motion, Motion):
        raise NotInAFileError(
            f"the motion {of.name!r} is a function, which no file can hold: write it as a formula, "
            'implicit_stepper.Motion("0.1*sin(2*t)").'
        )
    return (
        {"kind": "motion along"} | where | {"formula": of.motion.formula, "parameters": dict(of.motion.parameters) or None}
    )

"""Scene files: TOML to a `SceneDescription` and a `Scene`. docs/scene-files.md has every key.

A file may come from a stranger: nothing in it is run, what is not known is refused, and so is what
is too large. All keys and formulas are read before any shape is built.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections import Counter
from collections.abc import Callable
from typing import Any

from ..runtime.errors import SceneBuildError, SceneFileError, SceneKeyError, SceneLimitError, SceneTextError, SceneValueError
from ..runtime.files import path_of
from .building import scene_of
from .contact_tables import contacts_of
from .description import BodyDescription, RunSettings, SceneDescription
from .formula import MovingPose, Wrench, parameter_name
from .joint_tables import joint_of
from .scene import Scene
from .shape_tables import shape_of
from .tables import LONGEST, MOST_BODIES, MOST_PARTS, Table
from .units import LENGTHS, MASSES, Units

FORMAT = 1
# a key a.b.c...: tomllib takes a time that grows with the square of its parts. Bounded repeats:
# this is linear
_CHAINED = re.compile(r"(?:[^\s=\[\]{},#.]{1,60}+[ \t]{0,4}+\.[ \t]{0,4}+){20}")
# dots in which, as of formulas, chain nothing; to the end of a line, so that this is linear too
_QUOTED = re.compile(r""""(?:[^"\\\n]|\\.)*+"?|'[^'\n]*+'?""")


def load_scene(path: str | os.PathLike) -> Scene:
    """The scene of a file, with its run settings in `scene.run`. Raises `SceneFileError`, a
    `ValueError`, that says where in the file what is wrong, and `OSError` when it cannot be
    read."""
    at, name = path_of("path", path), os.fspath(path)
    if at.suffix in (".xml", ".urdf"):
        raise SceneTextError(f"{name!r} is a robot's file: read it with `implicit_stepper.load_mjcf`.")
    try:
        with at.open("rb") as file:
            content = file.read(LONGEST + 1)
        if len(content) > LONGEST:
            raise SceneLimitError(f"it has more than {LONGEST} bytes.")
        return scene_of(read(content.decode("utf-8-sig")))
    except UnicodeDecodeError as error:
        raise SceneTextError(f"{name!r} is no scene file: it is not text in UTF-8 ({error.reason}).") from error
    except SceneFileError as error:
        raise type(error)(f"{name!r}: {error}") from error


def read(text: str, bounded: bool = True) -> SceneDescription:
    """The description in the text of a scene file, which has any number of entries where it is not
    `bounded`, as our own is not. Raises `SceneFileError`."""
    if _CHAINED.search(_QUOTED.sub("''", text)):
        raise SceneLimitError("it has a key of more than 20 parts.")
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise SceneTextError(f"it is no TOML: {error}.") from error
    version = data.pop("format", None)
    if type(version) is not int or version != FORMAT:
        raise SceneTextError(f"`format` = {version!r:.60}, where this version reads format = {FORMAT}.")
    whole = Table(data, "", _parameters(data.pop("parameters", {})), bounded)
    units = _units(whole.take("units", "m"))
    scene = whole.table("scene", None) or Table({}, "scene", whole.parameters)
    dimension = scene.take("dimension", 3)
    if dimension not in (2, 3) or isinstance(dimension, bool | float):
        raise SceneValueError(f"scene.dimension = {dimension!r:.60} must be 2 or 3.")
    described = {
        "dimension": dimension,
        "gravity": scene.numbers("gravity", None, units.length),
        "length_scale": scene.number("length_scale", None, units.length),
        "acceleration_scale": scene.number("acceleration_scale", None, units.length),
    }
    scene.end()
    bodies = whole.tables("body")
    whole.refuse_more("body", bodies, MOST_BODIES)
    waiting = [_body(table, dimension, units) for table in bodies]
    twice = [name for name, count in Counter(name for name, *_ in waiting).items() if count > 1]
    if twice:
        raise SceneBuildError(f"body: the name {twice[0]!r:.60} is taken: every body needs its own.")
    contacts, rules = contacts_of(whole, [(name, fixed) for name, fixed, _ in waiting], units)
    joined = whole.tables("joint")
    whole.refuse_more("joint", joined, MOST_BODIES)
    joints = tuple(joint_of(table, units) for table in joined)
    run = _run(whole.table("run", None))
    whole.end()
    built = tuple(build() for *_, build in waiting)
    return SceneDescription(**described, bodies=built, contacts=contacts, rules=rules, joints=joints, run=run)


def _parameters(data: object) -> dict[str, float]:
    """The numbers [parameters] of the whole file; each may be a formula of those before it."""
    found: dict[str, float] = {}
    for name in Table(data, "parameters", {}).left:
        try:
            parameter_name(name)
        except ValueError as error:
            raise SceneBuildError(f"parameters: {error}") from error
        found[name] = Table({}, "", dict(found)).value(data[name], f"parameters.{name}")
    return found


def _units(found: object) -> Units:
    """units = "mm", or { length = "mm", mass = "g" }."""
    table = Table({"length": found} if isinstance(found, str) else found, "units", {})
    names = {"length": table.text("length", "m"), "mass": table.text("mass", "kg")}
    table.end()
    for what, known in (("length", LENGTHS), ("mass", MASSES)):
        if names[what] not in known:
            raise SceneValueError(f"units.{what} = {names[what]!r:.60}: known are {', '.join(known)}.")
    return Units(LENGTHS[names["length"]], MASSES[names["mass"]])


def _body(table: Table, dimension: int, units: Units) -> tuple[str, bool, Callable[[], BodyDescription]]:
    """Name and kind of a body, and what builds its description, of which all but the shapes is
    checked here."""
    name, fixed = table.text("name"), table.flag("fixed", False)
    table.where = f"{table.where} ({name!r:.40})"
    inner, parts = table.table("shape", None), table.tables("parts")
    table.refuse_more("parts", parts, MOST_PARTS)
    shape = None if inner is None else shape_of(inner, dimension, units)
    if (shape is None) == (not parts):
        raise SceneKeyError(f"{table.where} needs either `shape` or `parts`.")
    placed = [_part(part, dimension, units) for part in parts] or None
    orientation = "quaternion" if dimension == 3 else "angle"
    take = table.numbers if dimension == 3 else table.number
    pose = None if fixed else table.table("pose", None)
    if pose is not None:
        given: dict[str, Any] = {"pose": _pose(pose, orientation)} | _inertia(table, dimension, units)
    else:
        given = {orientation: take(orientation, None), "apart": table.flag("apart", False) or None}
        place = {"default": None} if fixed else {}  # a body that moves must be placed
        given["position"] = table.numbers("position", unit=units.length, **place)
        given |= {} if fixed else _motion(table, dimension, units)
    table.end()

    def build() -> BodyDescription:
        shapes = None if placed is None else tuple((make(), pose) for make, pose in placed)
        whole = None if shape is None else shape()
        return BodyDescription(name=name, fixed=fixed, shape=whole, shapes=shapes, **given)

    return name, fixed, build


def _motion(table: Table, dimension: int, units: Units) -> dict[str, Any]:
    """Of a moving body: velocities, mass and loads."""
    linear, angular = table.numbers("velocity", None, units.length), table.numbers("spin", None)
    if linear is not None or angular is not None:
        linear = (0.0,) * dimension if linear is None else linear
        angular = (0.0,) * (2 * dimension - 3) if angular is None else angular
        if not (isinstance(linear, tuple) and isinstance(angular, tuple) and len(linear) == dimension):
            raise SceneValueError(f"{table.where}: `velocity` needs {dimension} numbers, and `spin` {2 * dimension - 3}.")
    force, moment = table.entries("force", None), table.entries("moment", None)
    loads = table.table("load_parameters", None)
    own = dict(table.parameters) | ({} if loads is None else {name: loads.number(name) for name in list(loads.left)})
    return {
        "velocity": None if linear is None else linear + angular,
        "wrench": _wrench(table, force, moment, own, dimension),
    } | _inertia(table, dimension, units)


def _inertia(table: Table, dimension: int, units: Units) -> dict[str, Any]:
    """Of a moving body."""
    return {
        "mass": table.number("mass", None, units.mass),
        "inertia": table.numbers("inertia", None, units.inertia),
        "density": table.number("density", None, units.density(dimension)),
        "centre_of_mass": table.numbers("centre_of_mass", None, units.length),
    }


def _pose(table: Table, orientation: str) -> MovingPose:
    """Numbers and formulas of time, with SI units in every file."""
    given = {"position": table.entries("position")}
    turn = table.take(orientation, None) if orientation == "angle" else table.entries(orientation, None)
    given |= {} if turn is None else {orientation: turn}
    loads = table.table("parameters", None)
    own = dict(table.parameters) | ({} if loads is None else {name: loads.number(name) for name in list(loads.left)})
    parts = [*given["position"], *(given.get("quaternion") or [given.get("angle", 0.0)])]
    if not all(isinstance(part, str | int | float) and not isinstance(part, bool) for part in parts):
        raise SceneValueError(f"{table.where} needs numbers or formulas of t.")
    texts = " ".join(part for part in parts if isinstance(part, str))
    table.end()
    try:
        return MovingPose(**given, parameters={name: value for name, value in own.items() if name in texts})
    except ValueError as error:
        raise SceneBuildError(f"{table.where}: {error}") from error


def _wrench(table: Table, force: list | None, moment: list | None, parameters: dict, dimension: int):
    """A constant load, or one of formulas."""
    if force is None and moment is None:
        return None
    force = [0.0] * dimension if force is None else force
    moment = [0.0] * (2 * dimension - 3) if moment is None else moment
    for name, parts, count in (("force", force, dimension), ("moment", moment, 2 * dimension - 3)):
        if len(parts) != count or not all(isinstance(part, str | int | float) for part in parts):
            raise SceneValueError(f"{table.where}.{name} needs {count} numbers or formulas.")
    if not any(isinstance(part, str) for part in (*force, *moment)):
        return tuple(table.value(part, f"{table.where}.force and moment") for part in (*force, *moment))
    texts = " ".join(part for part in (*force, *moment) if isinstance(part, str))
    used = {name: value for name, value in parameters.items() if name in texts}
    try:
        return Wrench(force, moment, used)
    except ValueError as error:
        raise SceneBuildError(f"{table.where}: {error}") from error


def _part(table: Table, dimension: int, units: Units):
    """Of a body of several shapes: what builds the shape, and its pose (position, quaternion or
    angle)."""
    shape = shape_of(table.table("shape"), dimension, units)
    position = table.numbers("position", (0.0,) * dimension, units.length)
    turn = table.numbers("quaternion", (1.0, 0.0, 0.0, 0.0)) if dimension == 3 else table.number("angle", 0.0)
    table.end()
    return shape, (position, turn)


def _run(table: Table | None) -> RunSettings | None:
    if table is None:
        return None
    settings = table.table("settings", None)
    values = {} if settings is None else settings.left
    for name, value in values.items():
        if not isinstance(value, str | int | float | bool):
            raise SceneValueError(f"{settings.place(name)} = {value!r:.60} must be a number, text, true or false.")
    switches = table.numbers("switches", ())
    if not isinstance(switches, tuple) or not all(isinstance(time, float) for time in switches):
        raise SceneValueError("run.switches must be a list of times [s].")
    numbers = {"duration": table.number("duration")}
    numbers |= {name: table.number(name, None) for name in ("h", "tol", "certificate_tolerance")}
    stepper = table.text("stepper", None)
    table.end()
    for name, value in numbers.items():
        if value is not None and value <= 0:
            raise SceneValueError(f"run.{name} = {value:g} must be positive.")
    return RunSettings(stepper=stepper, settings=dict(values), switches=switches, **numbers)

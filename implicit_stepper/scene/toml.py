"""Scene files: TOML to a `SceneDescription` and a `Scene`. docs/scene-files.md has every key.

A file may come from a stranger: nothing in it is run, what is not known is refused, and so is what is too large. All keys
and formulas are read before any shape is built.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..constraints.compliance import Compliance
from ..constraints.friction import FrictionEllipsoid
from .description import BodyDescription, ContactDescription, RunSettings, SceneDescription
from .formula import Wrench, parameter_name
from .scene import Scene
from .shape_tables import shape_of
from .tables import SceneFileError, Table
from .units import LENGTHS, MASSES, Units

FORMAT = 1
LONGEST = 500_000  # bytes
_MOST_BODIES, _MOST_PARTS, _MOST_CONTACTS, _MOST_PAIRS = 1000, 50, 20_000, 500_000
# a key a.b.c...: tomllib takes a time that grows with the square of its parts. Bounded repeats: this is linear
_CHAINED = re.compile(r"(?:[^\s=\[\]{},#.]{1,60}+[ \t]{0,4}+\.[ \t]{0,4}+){20}")


def load_scene(path: str | os.PathLike) -> Scene:
    """The scene of a file, with its run settings in `scene.run`. Raises `SceneFileError`, a `ValueError`, that says where in
    the file what is wrong, and `OSError` when it cannot be read."""
    name = os.fspath(path)
    try:
        with Path(path).open("rb") as file:
            content = file.read(LONGEST + 1)
        if len(content) > LONGEST:
            raise SceneFileError(f"it has more than {LONGEST} bytes.")
        return scene_of(read(content.decode("utf-8")))
    except UnicodeDecodeError as error:
        raise SceneFileError(f"{name!r} is no scene file: it is not text in UTF-8 ({error.reason}).") from error
    except SceneFileError as error:
        raise SceneFileError(f"{name!r}: {error}") from error


def scene_of(description: SceneDescription) -> Scene:
    """The scene that has this description. Raises `SceneFileError` that names the body or contact that cannot be."""
    of = description
    try:
        scene = Scene(
            gravity=of.gravity,
            dimension=of.dimension,
            length_scale=of.length_scale,
            acceleration_scale=of.acceleration_scale,
        )
    except ValueError as error:
        raise SceneFileError(f"the scene: {error}") from error
    handles = {}
    for body in of.bodies:
        given = {name: value for name, value in vars(body).items() if name not in ("name", "fixed") and value is not None}
        try:
            handles[body.name] = (scene.add_fixed if body.fixed else scene.add_body)(name=body.name, **given)
        except (ValueError, ArithmeticError) as error:
            raise SceneFileError(f"the body {body.name!r:.60}: {error}") from error
    for contact in of.contacts:
        pair = contact.first, contact.second
        try:
            scene.add_contact(*map(handles.__getitem__, pair), friction=contact.friction, compliance=contact.compliance)
        except KeyError as error:
            raise SceneFileError(f"a contact names the body {error.args[0]!r:.60}, which there is not.") from error
        except ValueError as error:
            raise SceneFileError(f"the contact of {pair}: {error}") from error
    scene.run = of.run
    return scene


def read(text: str) -> SceneDescription:
    """The description in the text of a scene file. Raises `SceneFileError`."""
    if _CHAINED.search(text):
        raise SceneFileError("it has a key of more than 20 parts.")
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise SceneFileError(f"it is no TOML: {error}.") from error
    version = data.pop("format", None)
    if version is not FORMAT and version != FORMAT:
        raise SceneFileError(f"`format` = {version!r:.60}, where this version reads format = {FORMAT}.")
    whole = Table(data, "", _parameters(data.pop("parameters", {})))
    units = _units(whole.take("units", "m"))
    scene = whole.table("scene", None) or Table({}, "scene", whole.parameters)
    dimension = scene.take("dimension", 3)
    if dimension not in (2, 3) or isinstance(dimension, bool | float):
        raise SceneFileError(f"scene.dimension = {dimension!r:.60} must be 2 or 3.")
    described = {
        "dimension": dimension,
        "gravity": scene.numbers("gravity", None, units.length),
        "length_scale": scene.number("length_scale", None, units.length),
        "acceleration_scale": scene.number("acceleration_scale", None, units.length),
    }
    scene.end()
    bodies = whole.tables("body")
    _refuse_more("body", bodies, _MOST_BODIES)
    waiting = [_body(table, dimension, units) for table in bodies]
    names = [name for name, *_ in waiting]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise SceneFileError(f"body: the name {twice[0]!r:.60} is taken: every body needs its own.")
    contacts = _contacts(whole, [(name, fixed) for name, fixed, _ in waiting], units)
    run = _run(whole.table("run", None))
    whole.end()
    return SceneDescription(**described, bodies=tuple(build() for *_, build in waiting), contacts=contacts, run=run)


def _parameters(data: object) -> dict[str, float]:
    """The numbers [parameters] of the whole file; each may be a formula of those before it."""
    found: dict[str, float] = {}
    for name in Table(data, "parameters", {}).left:
        try:
            parameter_name(name)
        except ValueError as error:
            raise SceneFileError(f"parameters: {error}") from error
        found[name] = Table({}, "", dict(found)).value(data[name], f"parameters.{name}")
    return found


def _units(found: object) -> Units:
    """units = "mm", or { length = "mm", mass = "g" }."""
    table = Table({"length": found} if isinstance(found, str) else found, "units", {})
    names = {"length": table.text("length", "m"), "mass": table.text("mass", "kg")}
    table.end()
    for what, known in (("length", LENGTHS), ("mass", MASSES)):
        if names[what] not in known:
            raise SceneFileError(f"units.{what} = {names[what]!r:.60}: known are {', '.join(known)}.")
    return Units(LENGTHS[names["length"]], MASSES[names["mass"]])


def _body(table: Table, dimension: int, units: Units) -> tuple[str, bool, Callable[[], BodyDescription]]:
    """Name and kind of a body, and what builds its description, of which all but the shapes is checked here."""
    name, fixed = table.text("name"), table.flag("fixed", False)
    table.where = f"{table.where} ({name!r:.40})"
    inner, parts = table.table("shape", None), table.tables("parts")
    _refuse_more("parts", parts, _MOST_PARTS)
    shape = None if inner is None else shape_of(inner, dimension, units)
    if (shape is None) == (not parts):
        raise SceneFileError(f"{table.where} needs either `shape` or `parts`.")
    placed = [_part(part, dimension, units) for part in parts] or None
    orientation = "quaternion" if dimension == 3 else "angle"
    take = table.numbers if dimension == 3 else table.number
    given: dict[str, Any] = {orientation: take(orientation, None)}
    place = {"default": None} if fixed else {}  # a body that moves must be placed
    given["position"] = table.numbers("position", unit=units.length, **place)
    if not fixed:
        given |= _motion(table, dimension, units)
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
            raise SceneFileError(f"{table.where}: `velocity` needs {dimension} numbers, and `spin` {2 * dimension - 3}.")
    force, moment = table.entries("force", None), table.entries("moment", None)
    loads = table.table("load_parameters", None)
    own = dict(table.parameters) | ({} if loads is None else {name: loads.number(name) for name in list(loads.left)})
    return {
        "velocity": None if linear is None else linear + angular,
        "mass": table.number("mass", None, units.mass),
        "inertia": table.numbers("inertia", None, units.inertia),
        "density": table.number("density", None, units.density(dimension)),
        "centre_of_mass": table.numbers("centre_of_mass", None, units.length),
        "wrench": _wrench(table, force, moment, own, dimension),
    }


def _wrench(table: Table, force: list | None, moment: list | None, parameters: dict, dimension: int):
    """A constant load, or one of formulas."""
    if force is None and moment is None:
        return None
    force = [0.0] * dimension if force is None else force
    moment = [0.0] * (2 * dimension - 3) if moment is None else moment
    for name, parts, count in (("force", force, dimension), ("moment", moment, 2 * dimension - 3)):
        if len(parts) != count or not all(isinstance(part, str | int | float) for part in parts):
            raise SceneFileError(f"{table.where}.{name} needs {count} numbers or formulas.")
    if not any(isinstance(part, str) for part in (*force, *moment)):
        return tuple(table.value(part, f"{table.where}.force and moment") for part in (*force, *moment))
    texts = " ".join(part for part in (*force, *moment) if isinstance(part, str))
    used = {name: value for name, value in parameters.items() if name in texts}
    try:
        return Wrench(force, moment, used)
    except ValueError as error:
        raise SceneFileError(f"{table.where}: {error}") from error


def _part(table: Table, dimension: int, units: Units):
    """Of a body of several shapes: what builds the shape, and its pose (position, quaternion or angle)."""
    shape = shape_of(table.table("shape"), dimension, units)
    position = table.numbers("position", (0.0,) * dimension, units.length)
    turn = table.numbers("quaternion", (1.0, 0.0, 0.0, 0.0)) if dimension == 3 else table.number("angle", 0.0)
    table.end()
    return shape, (position, turn)


def _contacts(whole: Table, bodies: list[tuple[str, bool]], units: Units) -> tuple[ContactDescription, ...]:
    """Of pairs as they are listed; `bodies = "all"` stands for all pairs that are not, of which one body moves."""
    found, listed, rest = [], set(), []
    for table in whole.tables("contact"):
        pair = table.take("bodies")
        friction = table.take("friction", 0.0)
        law = _friction(table, friction, units)
        springs = table.table("compliance", None)
        compliance = None if springs is None else _compliance(springs)
        table.end()
        if pair == "all":
            rest.append((len(found), law, compliance))
            continue
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(name, str) for name in pair):
            raise SceneFileError(f'{table.where}.bodies = {pair!r:.60} must be two names, or "all".')
        listed.add(frozenset(pair))
        found.append(ContactDescription(*pair, law, compliance))
        _refuse_more("contact", found, _MOST_CONTACTS)
    if len(rest) > 1:
        raise SceneFileError('`bodies = "all"` stands in two contacts: one of them has the rest.')
    for place, law, compliance in rest:
        _refuse_more("contact", range(len(bodies) * (len(bodies) - 1) // 2), _MOST_PAIRS)
        pairs = [
            (a, b)
            for i, (a, a_fixed) in enumerate(bodies)
            for b, b_fixed in bodies[i + 1 :]
            if not (a_fixed and b_fixed) and frozenset((a, b)) not in listed
        ]
        _refuse_more("contact", pairs, _MOST_CONTACTS)
        found[place:place] = [ContactDescription(*pair, law, compliance) for pair in pairs]
    return tuple(found)


def _friction(table: Table, found, units: Units) -> FrictionEllipsoid:
    """friction = 0.2, or a table of the arguments of `FrictionEllipsoid`."""
    where = f"{table.where}.friction"
    try:
        if not isinstance(found, dict):
            return FrictionEllipsoid(mu=table.value(found, where))
        inner = Table(found, where, table.parameters)
        law = {"mu": inner.number("mu")}
        law |= {name: inner.number(name, 1.0) for name in ("e_t", "e_o")}
        law["e_r"] = inner.number("e_r", 0.0, units.length)
        law["direction"] = inner.numbers("direction", None)
        inner.end()
        return FrictionEllipsoid(**law)
    except SceneFileError:
        raise
    except ValueError as error:
        raise SceneFileError(f"{where}: {error}") from error


def _compliance(table: Table) -> Compliance:
    given = {"stiffness": table.number("stiffness"), "dissipation_time": table.number("dissipation_time", 0.0)}
    table.end()
    try:
        return Compliance(**given)
    except ValueError as error:
        raise SceneFileError(f"{table.where}: {error}") from error


def _run(table: Table | None) -> RunSettings | None:
    if table is None:
        return None
    settings = table.table("settings", None)
    values = {} if settings is None else settings.left
    for name, value in values.items():
        if not isinstance(value, str | int | float | bool):
            raise SceneFileError(f"{settings.place(name)} = {value!r:.60} must be a number, text, true or false.")
    switches = table.numbers("switches", ())
    if not isinstance(switches, tuple) or not all(isinstance(time, float) for time in switches):
        raise SceneFileError("run.switches must be a list of times [s].")
    found = RunSettings(
        duration=table.number("duration"),
        stepper=table.text("stepper", None),
        settings=dict(values),
        h=table.number("h", None),
        tol=table.number("tol", None),
        switches=switches,
        certificate_tolerance=table.number("certificate_tolerance", None),
    )
    table.end()
    return found


def _refuse_more(key: str, entries: Sequence, most: int) -> None:
    if len(entries) > most:
        raise SceneFileError(f"`{key}` has {len(entries)} entries: a file has at most {most}.")

"""The text of a scene file, of a `SceneDescription`: SI units, every number with all its digits."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from ..constraints.friction import FrictionEllipsoid
from ..constraints.restitution import Poisson
from ..runtime.errors import NotInAFileError, SceneLimitError
from .description import BodyDescription, ContactDescription, RuleDescription, RunSettings, SceneDescription, native
from .formula import MovingPose, Wrench
from .joint_tables import table_of as joint_table
from .shape_tables import table_of
from .tables import LONGEST, MOST_BODIES, MOST_CONTACTS, MOST_NUMBERS, MOST_PARTS

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def written(description: SceneDescription) -> str:
    """The text that `toml.read` reads as `description`. Raises `ValueError` for what no file can
    hold: a load that is a function, and shapes with a closed form or symbols of their own."""
    of = description
    scene = {"dimension": of.dimension, "gravity": of.gravity}
    scene |= {"length_scale": of.length_scale, "acceleration_scale": of.acceleration_scale}
    blocks = ["format = 1\n", _block("[scene]", scene)]
    blocks += [_block("[[body]]", _body(body)) for body in of.bodies]
    blocks += [_block("[[contact]]", _contact(contact)) for contact in of.contacts]
    blocks += [_block("[[contact]]", _rule(rule)) for rule in of.rules]
    blocks += [_block("[[joint]]", joint_table(joint)) for joint in of.joints]
    if of.run is not None:
        blocks.append(_block("[run]", _run(of.run)))
    return "\n".join(blocks)


def checked(description: SceneDescription) -> str:
    """The text for a file that `toml.load_scene` reads. Raises `ValueError` as `written` does, and
    for more than a file may have."""
    of, text = description, written(description)
    for count, what, most in (
        (len(of.bodies), "bodies", MOST_BODIES),
        (len(of.joints), "joints, springs and the like", MOST_BODIES),
        (max((len(body.shapes or ()) for body in of.bodies), default=0), "parts of one body", MOST_PARTS),
        (max(len(of.contacts), len(of.rules)), "contacts", MOST_CONTACTS),
        (0 if of.run is None else np.size(of.run.switches), "switches", MOST_NUMBERS),
        (len(text.encode()), "bytes as a file", LONGEST),
    ):
        if count > most:
            raise SceneLimitError(
                f"the scene has {count} {what}, and a file at most {most}: let groups touch by `add_contacts` where many "
                "contacts are listed, or keep the code that makes it. A saved run has its scene within, however large."
            )
    return text


def _body(of: BodyDescription) -> dict[str, Any]:
    turn = "quaternion" if of.angle is None else "angle"
    table: dict[str, Any] = {"name": of.name, "fixed": of.fixed or None}
    if of.shape is not None:
        table["shape"] = table_of(of.shape)
    else:
        turns = "quaternion" if of.shapes[0][0].dimension == 3 else "angle"
        table["parts"] = [{"shape": table_of(s), "position": pose[0], turns: pose[1]} for s, pose in of.shapes]
    table |= {"pose": _pose(of), "apart": of.apart, "position": of.position, turn: getattr(of, turn)}
    if of.velocity is not None:
        d = 3 if len(of.velocity) == 6 else 2
        table |= {"velocity": of.velocity[:d], "spin": of.velocity[d:]}
    table |= {name: getattr(of, name) for name in ("mass", "inertia", "density", "centre_of_mass")}
    return table | _load(of)


def _pose(of: BodyDescription) -> dict[str, Any] | None:
    if of.pose is None:
        return None
    if not isinstance(of.pose, MovingPose):
        raise NotInAFileError(
            f"the pose of {of.name!r} is a function, which no file can hold: write it as formulas, "
            'implicit_stepper.MovingPose(position=("0.1*sin(t)", 0, 0)).'
        )
    return vars(of.pose) | {"parameters": dict(of.pose.parameters) or None}


def _load(of: BodyDescription) -> dict[str, Any]:
    if of.wrench is None:
        return {}
    if isinstance(of.wrench, Wrench):
        parameters = dict(of.wrench.parameters)
        return {"force": of.wrench.force, "moment": of.wrench.moment, "load_parameters": parameters or None}
    if callable(of.wrench):
        raise NotInAFileError(
            f"the load on {of.name!r} is a function, which no file can hold: write it as formulas, "
            'implicit_stepper.Wrench(force=("10*sin(t)", 0, 0)).'
        )
    d = 3 if len(of.wrench) == 6 else 2
    return {"force": of.wrench[:d], "moment": of.wrench[d:]}


def _contact(of: ContactDescription) -> dict[str, Any]:
    return {"bodies": [of.first, of.second], "parts": of.parts} | _laws(of)


def _rule(of: RuleDescription) -> dict[str, Any]:
    if of.first == of.second:
        groups = {"among": "all" if of.first is None else of.first}
    else:
        groups = {"between": [of.first, of.second]}
    return groups | {"apart": of.apart or None} | _laws(of)


def _laws(of: ContactDescription | RuleDescription) -> dict[str, Any]:
    law = {name: getattr(of.friction, name) for name in ("mu", "e_t", "e_o", "e_r", "direction", "mu_s")}
    if of.friction == FrictionEllipsoid(mu=of.friction.mu):
        law = of.friction.mu
    e = None if of.restitution is None else of.restitution.e
    rebound = {"restitution": {"poisson": e} if isinstance(of.restitution, Poisson) else e}
    return {"friction": law, "compliance": of.compliance and vars(of.compliance)} | rebound


def _run(of: RunSettings) -> dict[str, Any]:
    for name, value in (of.settings or {}).items():
        if not isinstance(value, str | int | float):
            raise _in_no_file(f"settings.{name}", value, "a number, text, true or false")
    table = {name: getattr(of, name) for name in ("stepper", "h", "tol", "duration")}
    table |= {"switches": of.switches or None, "certificate_tolerance": of.certificate_tolerance}
    return table | {"settings": of.settings or None}


def _block(head: str, table: dict[str, Any]) -> str:
    lines = [f"{_key(name)} = {_value(name, value)}" for name, value in native(table).items() if value is not None]
    return "\n".join([head, *lines, ""])


def _value(name: str, value) -> str:
    """The text of a value, which has this name."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        parts = {key: part for key, part in value.items() if part is not None}
        inner = ", ".join(f"{_key(key)} = {_value(f'{name}.{key}', part)}" for key, part in parts.items())
        return f"{{ {inner} }}"
    if not isinstance(value, list | tuple):
        raise _in_no_file(name, value, "numbers, text, true or false, or lists of them")
    return f"[{', '.join(_value(name, part) for part in value)}]"


def _in_no_file(name: str, value, remedy: str) -> NotInAFileError:
    return NotInAFileError(f"`{name}` = {value!r:.60} is nothing that a file can hold: give {remedy}.")


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)

"""What of a compiled robot has no counterpart, and is not told of by what reads its bodies, joints
and contacts."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as tree
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .mjcf_model import Compiled, listed

_SOFT = {"solref": (0.02, 1.0), "solimp": (0.9, 0.95, 0.001, 0.5, 2.0)}
# by kind: MuJoCo's name of its arrays, and the values that mean nothing
_USUAL = {
    "geom": ("geom", _SOFT | {"margin": 0, "gap": 0, "adhesion": 0, "surfacevel": 0, "fluid": 0, "plugin": -1}),
    "pair": ("pair", _SOFT | {"margin": 0, "gap": 0, "adhesion": 0, "solreffriction": 0}),
    "joint": ("jnt", _SOFT | {"margin": 0, "stiffnesspoly": 0, "springyield": 0, "actgravcomp": False}),
    "dof": ("dof", _SOFT | {"armature": 0, "dampingpoly": 0}),
    "body": ("body", {"plugin": -1}),
    "equality": ("eq", _SOFT),
}
_WHY = {
    "solref": "contacts, limits and joints are rigid here",
    "solimp": "contacts, limits and joints are rigid here",
    "armature": "rotors have no inertia of their own here",
}
_COUNTED = {
    "nu": "actuators",
    "ntendon": "tendons",
    "nflex": "flexes",
    "nskin": "skins",
    "nmocap": "mocap bodies, which stand still here",
    "nplugin": "plugins",
}
_LOOKS = {
    "nsensor": "sensors", "nsite": "sites", "ncam": "cameras", "nlight": "lights", "nmat": "materials", "ntex": "textures",
    "ntext": "texts", "ntuple": "tuples", "nnumeric": "numerics",
}  # fmt: skip
_AIR = {"density": 0, "viscosity": 0, "wind": 0}
_SOLVER = {
    "integrator": 0, "cone": 0, "impratio": 1, "solver": 2, "iterations": 100, "tolerance": 1e-8, "ls_iterations": 50,
    "ls_tolerance": 0.01, "noslip_iterations": 0, "noslip_tolerance": 1e-6, "enableflags": 0,
}  # fmt: skip
_URDF = {
    "robot", "link", "joint", "inertial", "origin", "mass", "inertia", "collision", "geometry", "box", "cylinder", "capsule",
    "sphere", "mesh", "parent", "child", "axis", "limit", "dynamics", "mimic", "mujoco", "compiler",
}  # fmt: skip
_COMMENT, _ROBOT = re.compile(rb"<!--.*?-->", re.DOTALL), re.compile(rb"[^<]*(<[?!][^<]*)*<robot\b")


def left_out(of: Compiled, keyframe: str | None) -> Iterator[str]:
    """A line for each kind of thing: first what would change the motion, last what is seen only."""
    for kind, (prefix, usual) in _USUAL.items():
        for field, value in usual.items():
            names = _unusual(of, kind, f"{prefix}_{field}", value)
            if names:
                why = f" ({_WHY[field]})" if field in _WHY else ""
                yield f"{kind} {field}{why}: {listed(names)}"
    for count, what in _COUNTED.items():
        if number := getattr(of.model, count, 0):
            yield f"{number} {what}"
    air = [name for name, value in _AIR.items() if np.any(getattr(of.model.opt, name) != value)]
    if air:
        yield f"the air: option {', '.join(air)}"
    solver = [name for name, value in _SOLVER.items() if getattr(of.model.opt, name) != value]
    if solver:
        yield f"MuJoCo's own solver: option {', '.join(solver)}"
    if keyframe is None and of.model.nkey:
        keys = [of.model.key(number).name or str(number) for number in range(of.model.nkey)]
        yield f"keyframes, in which a scene begins when it is asked to: {listed(keys)}"
    looks = [f"{number} {what}" for name, what in _LOOKS.items() if (number := getattr(of.model, name, 0))]
    if looks:
        yield f"without a part in the motion: {', '.join(looks)}"


def _unusual(of: Compiled, kind: str, field: str, usual) -> list[str]:
    """The names of what has another value than the usual one."""
    found = getattr(of.model, field, None)
    if found is None or not len(found):
        return []
    other = np.reshape(found != np.asarray(usual), (len(found), -1)).any(axis=1)
    numbers = np.flatnonzero(other).tolist()
    if kind == "dof":
        return [of.name("joint", of.model.dof_jntid[number]) for number in numbers]
    if kind == "geom":
        numbers = [number for number in numbers if number in of.touching]
    return [of.name(kind, number) for number in numbers]


def urdf_left_out(path: str | os.PathLike) -> Iterator[str]:
    """Of a URDF file, what MuJoCo passes over without a word; nothing of an MJCF file."""
    content = Path(path).read_bytes()
    if not _ROBOT.match(_COMMENT.sub(b"", content)):
        return
    try:
        root = tree.fromstring(content)
    except (tree.ParseError, LookupError, ValueError) as error:
        # what MuJoCo reads may be no XML: "a & b", a comment with -- in it, an encoding
        yield f"what MuJoCo does not read of a URDF file, which could not be searched as it is no XML: {error}"
        return
    links = [link.get("name", "") for link in root.findall("link")]
    children = {child.get("link") for child in root.findall("joint/child")}
    for link in root.findall("link"):
        if link.get("name") not in children and link.find("inertial") is not None:
            yield f"the mass of the first link, {link.get('name')}: it stands still, as MuJoCo has it"
    speeds = [joint.get("name", "") for joint in root.findall("joint") if joint.find("limit[@velocity]") is not None]
    if speeds:
        yield f"limits of speed: {listed(speeds)}"
    efforts = [joint.get("name", "") for joint in root.findall("joint") if joint.find("limit[@effort]") is not None]
    if efforts:
        yield f"limits of effort, as there are no actuators: {listed(efforts)}"
    pictures = [name for name, link in zip(links, root.findall("link"), strict=True) if link.find("visual") is not None]
    if pictures:
        yield f"pictures of links: {listed(pictures)}"
    unknown = {node.tag for child in root for node in _outside(child)} - _URDF
    if unknown:
        yield f"what MuJoCo does not read of a URDF file: {listed(sorted(unknown))}"


def _outside(node: tree.Element) -> Iterator[tree.Element]:
    """A node and those in it, but of what is not known the first only, and nothing of pictures."""
    if node.tag in ("visual", "material"):
        return
    yield node
    if node.tag in _URDF:
        for child in node:
            yield from _outside(child)

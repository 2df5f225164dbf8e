"""MJCF and URDF: a `Scene` of what MuJoCo's own compiler makes of a file, and a list of what has no
counterpart here.

Sources: https://mujoco.readthedocs.io/en/stable/XMLreference.html and
https://wiki.ros.org/urdf/XML.
"""

from __future__ import annotations

import os

import shapes

from ..runtime.errors import RobotFileError, SceneFileError
from .building import scene_of
from .description import BodyDescription, JointDescription, RunSettings, SceneDescription
from .mjcf_bodies import bodies_of, gravity
from .mjcf_contacts import contacts_of
from .mjcf_joints import joints_of
from .mjcf_left_out import left_out, urdf_left_out
from .mjcf_model import STATIC, compiled
from .scene import Scene

SUFFIXES = (".xml", ".urdf")
_DURATION = 1.0  # [s], which such a file does not say
_SPECK = 1e-2  # of MuJoCo's extent of the model: the ball that stands for a world without shape


def load_mjcf(path: str | os.PathLike, *, keyframe: str | None = None) -> tuple[Scene, tuple[str, ...]]:
    """The scene of an MJCF or URDF file in SI units, and a line for each kind of thing that has no
    counterpart in it.

    Bodies without a joint between them are one body; static geoms are fixed bodies. The scene
    begins as the file has its bodies, or in a `keyframe`, with its velocities. `scene.run` has
    MuJoCo's timestep, for 1 s. Needs the extra `mjcf`. Raises `SceneFileError`, a `ValueError`, for
    what MuJoCo refuses and for joints of one body that no joint here leaves free together;
    `ImportError` without MuJoCo, `OSError`.
    """
    of = compiled(path, keyframe)
    name = os.fspath(path)
    try:
        bodies, geoms, bodies_left = bodies_of(of)
        joints, joints_left = joints_of(of)
        touching = {frozenset((joint.first, joint.second)) for joint in joints if isinstance(joint, JointDescription)}
        static = set(of.static_names.values())
        held = {frozenset((a, geom)) for pair in touching if of.names[STATIC] in pair for a in pair for geom in static}
        contacts, contacts_left = contacts_of(of, geoms, touching | held)
        if any(of.names[STATIC] in pair for pair in touching):
            speck = shapes.Sphere(_SPECK * float(of.model.stat.extent))
            bodies.append(BodyDescription(name=of.names[STATIC], fixed=True, shape=speck))
        described = SceneDescription(
            dimension=3,
            gravity=tuple(gravity(of).tolist()),
            bodies=tuple(bodies),
            contacts=tuple(contacts),
            joints=tuple(joints),
            run=_settings(float(of.model.opt.timestep)),
        )
        scene = scene_of(described)
    except SceneFileError as error:
        raise type(error)(f"{name!r}: {error}") from error
    if not of.members.keys() - {STATIC}:
        raise RobotFileError(f"{name!r} has no body that moves: give one of its bodies a joint.")
    found = *of.warnings, *urdf_left_out(path), *bodies_left, *joints_left, *contacts_left, *left_out(of, keyframe)
    return scene, found


def _settings(h: float) -> RunSettings:
    """Of a run in the file's own steps of h [s]."""
    if not h > 0:
        raise RobotFileError(f"`option` has `timestep` = {h:g} [s], which must be positive.")
    return RunSettings(h=h, duration=_DURATION)

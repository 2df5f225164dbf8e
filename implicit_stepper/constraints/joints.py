"""The library of joints: each is what may not move between two frames, one on each body.

In the plane a ball joint is the hinge.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from shapes.arguments import number, positive, vector

from ..runtime.errors import JointError
from . import joint_frames
from .friction import JointFriction, not_negative


class Place(NamedTuple):
    """Where a body is as its joint is made: the `centre` (d,) of mass in its coordinates, its
    `rotation` (d, d), and in the plane the `angle` [rad] of that, which counts turns."""

    centre: np.ndarray
    rotation: np.ndarray
    angle: float = 0.0


class Form(NamedTuple):
    """What `joint.JointGroup` needs of a joint: `closure`, `angles`, and its `parameters`; the
    `coordinates` that it leaves free, and which of them are `free_angles`; of an elastic one
    `stiffness` and `damping` (r,); its `friction`, and its `pads` as in `FrictionGroup`; whether
    its closure `bounds`, that is may be positive; of a `motor` speed, most force and radius;
    whether it holds `velocities` alone, or is a `load`."""

    closure: Callable
    angles: tuple[bool, ...]
    parameters: Any
    coordinates: Callable | None = None
    free_angles: tuple[bool, ...] = ()
    stiffness: np.ndarray | None = None
    damping: np.ndarray | None = None
    friction: JointFriction | None = None
    pads: np.ndarray | None = None
    bounds: bool = False
    motor: tuple[float, float, float] | None = None
    velocities: bool = False
    load: bool = False


@dataclasses.dataclass(frozen=True)
class _Joint:
    """A joint at a point of each body, `point_1` and `point_2` (d,) [m], in the coordinates of body
    1 and of body 2."""

    friction = None

    def form(self, place_1: Place, place_2: Place) -> Form:
        """For bodies at these places. Raises `ValueError` naming the argument."""
        d, kind = len(place_1.centre), type(self)
        closure, angles = _CLOSURES[kind][d - 2]
        if closure is None:
            raise JointError(f"a {kind.__name__} in the plane has another name: {_PLANAR[kind]}.")
        points = [
            vector(name, getattr(self, name), d) - place.centre
            for name, place in (("point_1", place_1), ("point_2", place_2))
        ]
        frames = self._frames(place_1, place_2)
        own = dict(zip(("point_1", "point_2", "frame_1", "frame_2"), (*points, *frames), strict=True))
        free = _COORDINATES.get(kind, (_NONE, _NONE))[d - 2]
        form = Form(closure, angles, own | self._more() | self._first(place_1, place_2, *frames), *free)
        return form if self.friction is None else self._rubbing(form, d)

    def _rubbing(self, form: Form, d: int) -> Form:
        """With friction, where the joint has a coordinate and a reaction across it."""
        friction = self.friction
        if not isinstance(friction, JointFriction):
            raise JointError(f"`friction` = {friction!r} must be a JointFriction(mu=..., radius=...), or None.")
        ball = not form.free_angles
        if (ball or form.free_angles[0]) != (friction.radius is not None):
            raise JointError(
                f"`friction` = {friction!r}: give a `radius` for what turns, a pin's or a ball's, and none for what slides."
            )
        if ball and friction.mu_s is not None:
            raise JointError(
                f"`friction` = {friction!r}: a BallJoint in space has one coefficient. Leave `mu_s` out, or take a Hinge."
            )
        if friction.length is not None and not isinstance(self, Slider):
            raise JointError(f"`friction` = {friction!r}: a `length` is that of a Slider's guide. Leave it out.")
        if friction.length is not None:
            form = form._replace(parameters=form.parameters | {"guide": np.asarray(friction.length)})
        return form._replace(friction=friction, pads=_pads(form, _ACROSS[type(self)][d - 2], friction.length))

    def _frames(self, place_1: Place, place_2: Place) -> tuple[np.ndarray, np.ndarray]:
        """Both frames (d, d), x, y and z as columns, in the coordinates of the bodies; here alike
        as the joint is made."""
        return np.eye(len(place_1.centre)), place_2.rotation.T @ place_1.rotation

    def _more(self) -> dict[str, Any]:
        """Further parameters."""
        return {}

    def _first(self, place_1: Place, place_2: Place, frame_1, frame_2) -> dict[str, Any]:
        """Parameters that say where the bodies are as the joint is made."""
        return {}


@dataclasses.dataclass(frozen=True)
class _Points(_Joint):
    """At two points alone."""

    point_1: Sequence[float]
    point_2: Sequence[float]


@dataclasses.dataclass(frozen=True)
class _Along(_Joint):
    """With an axis of each body, `axis_1` and `axis_2` (d,), in the coordinates of body 1 and of
    body 2, of any length."""

    point_1: Sequence[float]
    axis_1: Sequence[float]
    point_2: Sequence[float]
    axis_2: Sequence[float]

    def _frames(self, place_1: Place, place_2: Place) -> tuple[np.ndarray, np.ndarray]:
        d = len(place_1.centre)
        x_1, x_2 = (_unit(name, getattr(self, name), d) for name in ("axis_1", "axis_2"))
        if d == 3 and (place_1.rotation @ x_1) @ (place_2.rotation @ x_2) < 0:
            raise JointError(
                f"`axis_1` = {self.axis_1} and `axis_2` = {self.axis_2}, in the coordinates of their bodies, point opposite "
                "ways as these are placed: turn one of them round."
            )
        frame_1 = joint_frames.completed(x_1, np.eye(d)[np.argmin(np.abs(x_1))])
        # so that nothing is turned as the joint is made
        seen = place_2.rotation.T @ place_1.rotation @ frame_1
        return frame_1, joint_frames.completed(x_2, seen[:, 1])


@dataclasses.dataclass(frozen=True)
class BallJoint(_Points):
    """`point_1` and `point_2` coincide: three rotations are free, in the plane the one there is,
    but for `friction`."""

    friction: JointFriction | None = None

    def _first(self, place_1: Place, place_2: Place, frame_1, frame_2) -> dict[str, Any]:
        return {"zero": np.asarray(place_2.angle - place_1.angle)} if len(place_1.centre) == 2 else {}


@dataclasses.dataclass(frozen=True)
class Hinge(_Along):
    """`point_1` and `point_2` coincide, and the axes are parallel: rotation about them is free, but
    for `friction`."""

    friction: JointFriction | None = None


@dataclasses.dataclass(frozen=True)
class Slider(_Along):
    """`point_2` is on the line through `point_1` along the axes, which are parallel, and nothing
    turns. There may be `friction` along the line, of a guide with `point_2` in its middle."""

    friction: JointFriction | None = None


@dataclasses.dataclass(frozen=True)
class Cylindrical(_Along):
    """`point_2` is on the line through `point_1` along the axes, which are parallel: sliding and
    turning are free."""


@dataclasses.dataclass(frozen=True)
class Screw(_Along):
    """A `Cylindrical` joint that moves on by `lead` [m] per turn of body 2 against body 1 about the
    axes, by the right-hand rule; a negative one is that of a left-hand thread."""

    lead: float

    def _more(self) -> dict[str, Any]:
        lead = number("lead", self.lead)
        if lead == 0:
            raise JointError("`lead` = 0 turns without moving on: take a Hinge.")
        return {"lead": np.asarray(lead)}


@dataclasses.dataclass(frozen=True)
class Planar(_Along):
    """`point_2` is in the plane through `point_1` across the axes, which are parallel."""


@dataclasses.dataclass(frozen=True)
class Universal(_Along):
    """`point_1` and `point_2` coincide, and the axes, one of each body, stay at right angles."""

    def _frames(self, place_1: Place, place_2: Place) -> tuple[np.ndarray, np.ndarray]:
        d = len(place_1.centre)
        axes = [_unit(name, getattr(self, name), d) for name in ("axis_1", "axis_2")]
        return tuple(joint_frames.completed(x, np.eye(d)[np.argmin(np.abs(x))]) for x in axes)

    def _first(self, place_1: Place, place_2: Place, frame_1, frame_2) -> dict[str, Any]:
        turned = (place_1.rotation @ frame_1).T @ place_2.rotation @ frame_2
        return {"first": np.array([np.arctan2(turned[2, 0], turned[1, 0]), -np.arctan2(turned[0, 2], turned[0, 1])])}


@dataclasses.dataclass(frozen=True)
class Fixed(_Points):
    """The bodies move as one; `point_1` and `point_2` coincide."""


@dataclasses.dataclass(frozen=True)
class Distance(_Points):
    """`point_1` and `point_2` are `length` [m] > 0 apart, as the ends of a massless rod."""

    length: float

    def _more(self) -> dict[str, Any]:
        return {"length": np.asarray(positive("length", self.length))}


@dataclasses.dataclass(frozen=True)
class Spring(_Points):
    """A spring between two points, of `stiffness` [N/m] and natural `length` [m], with a damper of
    `damping` [N s/m] along it. Of length 0 it pulls by stiffness times the distance, in all
    directions."""

    stiffness: float
    length: float = 0.0
    damping: float = 0.0

    def form(self, place_1: Place, place_2: Place) -> Form:
        """As that of any joint."""
        stiffness, damping, length = (not_negative(n, getattr(self, n)) for n in ("stiffness", "damping", "length"))
        kind = Distance(self.point_1, self.point_2, length) if length else BallJoint(self.point_1, self.point_2)
        found = kind.form(place_1, place_2)
        r = len(found.angles)
        return found._replace(coordinates=None, free_angles=(), stiffness=np.full(r, stiffness), damping=np.full(r, damping))


def _pads(form: Form, across: tuple[int, ...], length: float | None) -> np.ndarray:
    """Where a joint rubs: (p, a, r), by which its multipliers make the forces there. One place,
    which has the force `across` the coordinate; or both ends of a slider's guide of that
    `length`."""
    force = np.eye(len(form.angles))[list(across)]
    if length is None:
        return force[None]
    # M x axis in the frame on body 1, whose first axis that is; moments are the last multipliers
    turns = np.eye(len(form.angles))[len(across) :]
    lever = turns if len(across) == 1 else np.stack([turns[2], -turns[1]])
    return np.stack([force / 2 + lever / length, force / 2 - lever / length])


def _unit(name: str, axis, d: int) -> np.ndarray:
    """An argument's direction."""
    axis = vector(name, axis, d)
    size = np.linalg.norm(axis)
    if size == 0:
        raise JointError(f"`{name}` = {axis.tolist()} points nowhere: give a direction in the coordinates of its body.")
    return axis / size


_LENGTH, _ANGLE = (False,), (True,)
_NONE = None, ()
# by class: closure and which of its components are angles, in the plane and in space
_CLOSURES = {
    BallJoint: ((joint_frames.ball_joint, 2 * _LENGTH), (joint_frames.ball_joint, 3 * _LENGTH)),
    Hinge: (_NONE, (joint_frames.hinge, 3 * _LENGTH + 2 * _ANGLE)),
    Slider: ((joint_frames.slider, _LENGTH + _ANGLE), (joint_frames.slider, 2 * _LENGTH + 3 * _ANGLE)),
    Cylindrical: (_NONE, (joint_frames.cylindrical, 2 * _LENGTH + 2 * _ANGLE)),
    Screw: (_NONE, (joint_frames.screw, 2 * _LENGTH + 3 * _ANGLE)),
    Planar: (_NONE, (joint_frames.planar, _LENGTH + 2 * _ANGLE)),
    Universal: (_NONE, (joint_frames.universal, 3 * _LENGTH + _ANGLE)),
    Fixed: ((joint_frames.fixed, 2 * _LENGTH + _ANGLE), (joint_frames.fixed, 3 * _LENGTH + 3 * _ANGLE)),
    Distance: ((joint_frames.distance, _LENGTH), (joint_frames.distance, _LENGTH)),
}
# by class: coordinates and which of them are angles, in the plane and in space
_COORDINATES = {
    BallJoint: ((joint_frames.turn, _ANGLE), (None, ())),
    Hinge: (_NONE, (joint_frames.turn, _ANGLE)),
    Slider: ((joint_frames.shift, _LENGTH), (joint_frames.shift, _LENGTH)),
    Cylindrical: (_NONE, (joint_frames.shift_and_turn, _LENGTH + _ANGLE)),
    Screw: (_NONE, (joint_frames.turn, _ANGLE)),
    Universal: (_NONE, (joint_frames.two_turns, 2 * _ANGLE)),
    Planar: (_NONE, (joint_frames.in_a_plane, 2 * _LENGTH + _ANGLE)),
}
# by class: which multipliers are the reaction across the coordinate that rubs, in the plane and in
# space
_ACROSS = {BallJoint: ((0, 1), (0, 1, 2)), Hinge: ((), (1, 2)), Slider: ((0,), (0, 1))}
_PLANAR = {
    Hinge: "BallJoint",
    Cylindrical: "Slider, or a UserConstraint that lets it turn",
    Screw: "Slider, as nothing turns about an axis in the plane",
    Planar: "none, as bodies are in the plane already",
    Universal: "BallJoint",
}
LIBRARY = (*_CLOSURES, Spring)

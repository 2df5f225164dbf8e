"""Joints of a compiled robot: what all joints of a body leave free together is one joint here."""

from __future__ import annotations

import dataclasses

import numpy as np

from ..constraints import joints
from ..runtime.errors import RobotFileError
from .description import AlongDescription, JointDescription, limit_name
from .mjcf_model import Compiled, listed

_ALIGNED = 1e-9  # of directions of length 1, and of points in the body's size
_HALF_TURN, _ROOM = np.pi, 2e-3


@dataclasses.dataclass(frozen=True)
class _Free:
    """One of MuJoCo's joints: its `number`, `kind` ("free", "ball", "hinge" or "slide"), and where
    it is in the world."""

    number: int
    kind: str
    point: np.ndarray
    axis: np.ndarray


def joints_of(of: Compiled) -> tuple[list[JointDescription | AlongDescription], list[str]]:
    """All joints, with springs, limits and brakes along them, and what was left out. Raises
    `SceneFileError` where no joint of ours leaves free what those of a body do."""
    found: list[JointDescription | AlongDescription] = []
    left_out: list[str] = []
    for root in of.members:
        own = _frees(of, root)
        if own:
            found += _joined(of, root, own, left_out)
    if of.enabled("EQUALITY", "CONSTRAINT"):
        found += _equalities(of, {joint.name for joint in found}, left_out)
    return found, left_out


def _frees(of: Compiled, root: int) -> list[_Free]:
    """The joints of a body in MuJoCo's order."""
    model, first = of.model, int(of.model.body_jntadr[root])
    return [
        _Free(
            number,
            of.mujoco.mjtJoint(model.jnt_type[number]).name.removeprefix("mjJNT_").lower(),
            of.data.xanchor[number].copy(),
            of.data.xaxis[number].copy(),
        )
        for number in range(first, first + int(model.body_jntnum[root]))
    ]


def _joined(of: Compiled, root: int, own: list[_Free], left_out: list[str]) -> list[JointDescription | AlongDescription]:
    """The joint of a body with its parent, and what acts along its coordinates."""
    parent = int(of.roots[of.model.body_parentid[root]])
    name = of.name("joint", own[0].number)
    kind, point, axes, coordinates = _kind(of, root, own)
    if kind is None:
        _along(of, name, own, {}, left_out)
        return []
    given = {"point_1": of.seen(parent, point), "point_2": of.seen(root, point)}
    if axes is not None:
        given |= {"axis_1": of.turned(parent, axes[0]), "axis_2": of.turned(root, axes[1])}
    joint = JointDescription(name, of.names[parent], of.names[root], kind(**given))
    return [joint, *_along(of, name, own, coordinates, left_out)]


def _kind(of: Compiled, root: int, own: list[_Free]):
    """The class of the joint that leaves free what all of `own` do, or None for a free body; its
    point, its two axes and which coordinate of it each joint of MuJoCo is. Raises `SceneFileError`
    where there is no such class."""
    slides, hinges = ([free for free in own if free.kind == kind] for kind in ("slide", "hinge"))
    kinds = sorted(free.kind for free in own)
    first = own[0]
    if kinds == ["free"] or (len(slides) == 3 and _independent(slides) and _turns_freely(own)):
        return None, None, None, {}
    if kinds == ["hinge"]:
        return joints.Hinge, first.point, (first.axis, first.axis), {first.number: 0}
    if kinds == ["slide"]:
        return joints.Slider, first.point, (first.axis, first.axis), {first.number: 0}
    if not slides and _turns_freely(own):
        return joints.BallJoint, first.point, None, {}
    if kinds == ["hinge", "hinge"] and _meet(own) and abs(first.axis @ own[1].axis) < _ALIGNED:
        return joints.Universal, first.point, (first.axis, own[1].axis), {free.number: i for i, free in enumerate(own)}
    if len(hinges) == 1 and slides:
        hinge, across = hinges[0], [abs(slide.axis @ hinges[0].axis) for slide in slides]
        if len(slides) == 1 and np.linalg.norm(np.cross(slides[0].axis, hinge.axis)) < _ALIGNED:
            sense = np.sign(slides[0].axis @ hinge.axis)
            along = {hinge.number: 1} | ({slides[0].number: 0} if sense > 0 else {})
            return joints.Cylindrical, hinge.point, (hinge.axis, hinge.axis), along
        if len(slides) == 2 and max(across) < _ALIGNED and abs(slides[0].axis @ slides[1].axis) < _ALIGNED:
            return joints.Planar, hinge.point, (hinge.axis, hinge.axis), {hinge.number: 2}
    told = ", ".join(f"{of.name('joint', free.number)} ({free.kind})" for free in own)
    raise RobotFileError(
        f"the body {of.names[root]!r} has the joints {told}: no joint here leaves free what they do together. "
        "Give each a body of its own, with a mass, between the two."
    )


def _meet(own: list[_Free]) -> bool:
    """Whether all are at one point."""
    return all(np.linalg.norm(free.point - own[0].point) < _ALIGNED for free in own)


def _independent(own: list[_Free]) -> bool:
    return abs(np.linalg.det([free.axis for free in own])) > _ALIGNED


def _turns_freely(own: list[_Free]) -> bool:
    """Whether the joints that turn leave every rotation about a point free."""
    hinges = [free for free in own if free.kind == "hinge"]
    balls = [free for free in own if free.kind == "ball"]
    return (len(balls) == 1 and not hinges) or (len(hinges) == 3 and not balls and _meet(hinges) and _independent(hinges))


def _along(of: Compiled, name: str, own: list[_Free], coordinates: dict, left_out: list[str]) -> list[AlongDescription]:
    """Springs, limits and brakes of MuJoCo's joints along the coordinates of the joint `name`."""
    found: list[AlongDescription] = []
    for free in own:
        n, label = free.number, of.name("joint", free.number)
        if n in coordinates:
            found += _acting(of, name, label, n, coordinates[n], left_out)
            continue
        model, dof = of.model, int(of.model.jnt_dofadr[n])
        lost = {
            "limit": model.jnt_limited[n],
            "stiffness": model.jnt_stiffness[n],
            "damping": model.dof_damping[dof],
            "frictionloss": model.dof_frictionloss[dof],
        }
        if any(lost.values()):
            what = ", ".join(key for key, value in lost.items() if value)
            left_out.append(f"joint {label}: {what}, as the {free.kind} has no coordinate of its own here")
    return found


def _acting(of: Compiled, name: str, label: str, n: int, coordinate: int, left_out: list[str]) -> list[AlongDescription]:
    """Along one coordinate, which is 0 where MuJoCo's joint has its first value."""
    model, found = of.model, []
    dof, start = int(model.jnt_dofadr[n]), int(model.jnt_qposadr[n])
    begin = float(of.data.qpos[start])
    stiffness = float(model.jnt_stiffness[n]) if of.enabled("SPRING") else 0.0
    damping = float(model.dof_damping[dof]) if of.enabled("DAMPER") else 0.0
    loss = float(model.dof_frictionloss[dof]) if of.enabled("FRICTIONLOSS", "CONSTRAINT") else 0.0
    rest = float(model.qpos_spring[start]) - begin if stiffness else 0.0
    turns = model.jnt_type[n] == of.mujoco.mjtJoint.mjJNT_HINGE
    if turns and abs(rest) > _HALF_TURN:
        left_out.append(f"joint {label}: its spring, at rest {rest:.4g} rad from the start, beyond half a turn")
        stiffness = rest = 0.0
    if stiffness or damping:
        values = {"stiffness": stiffness, "damping": damping, "rest": rest}
        found.append(AlongDescription(f"spring of {label}", name, coordinate, **values))
    if loss:
        found.append(AlongDescription(f"friction of {label}", name, coordinate, speed=0.0, most=loss))
    if model.jnt_limited[n] and of.enabled("LIMIT", "CONSTRAINT"):
        low, high = (model.jnt_range[n] - begin).tolist()
        if turns and high - low > 2 * (_HALF_TURN - _ROOM):
            left_out.append(f"joint {label}: its limits, {low:.4g} and {high:.4g} rad from the start, a turn apart")
            return found
        for side, bound in (("low", low), ("high", high)):
            found.append(AlongDescription(limit_name(side, name, coordinate), name, coordinate, side=side, bound=bound))
    return found


def _equalities(of: Compiled, taken: set[str], left_out: list[str]) -> list[JointDescription]:
    """Bodies that <equality> connects or welds, under names that are not `taken`: in MuJoCo a joint
    and an equality may have the same one."""
    found, other = [], []
    kinds, model = of.mujoco.mjtEq, of.model
    for number in range(model.neq):
        kind, label = kinds(model.eq_type[number]), of.name("equality", number)
        what = kind.name.removeprefix("mjEQ_").lower()
        bodies = int(model.eq_obj1id[number]), int(model.eq_obj2id[number])
        if not of.data.eq_active[number]:
            left_out.append(f"equality {label}: a {what} that is not active")
        elif kind not in (kinds.mjEQ_CONNECT, kinds.mjEQ_WELD) or model.eq_objtype[number] != of.mujoco.mjtObj.mjOBJ_BODY:
            other.append(f"{label} ({what})")
        elif kind == kinds.mjEQ_WELD and not _as_welded(of, number, *bodies):
            left_out.append(f"equality {label}: a weld of poses that the bodies do not have as they are placed")
        else:
            name = label if label not in taken else f"{label} (equality {number})"
            found += _equal(of, number, name, kind == kinds.mjEQ_WELD, *bodies)
    if other:
        left_out.append(f"equalities without a counterpart: {listed(other)}")
    return found


def _equal(of: Compiled, number: int, name: str, welds: bool, one: int, two: int) -> list[JointDescription]:
    """A ball joint of two bodies, or a weld, of that name."""
    data, (first, second) = of.model.eq_data[number], of.roots[[one, two]].tolist()
    if first == second:
        return []
    if welds:
        points = {"point_1": of.seen(first, of.data.xpos[two]), "point_2": of.seen(second, of.data.xpos[two])}
    else:
        anchors = [_world(of, body, anchor) for body, anchor in ((one, data[:3]), (two, data[3:6]))]
        points = {"point_1": of.seen(first, anchors[0]), "point_2": of.seen(second, anchors[1])}
    joint = (joints.Fixed if welds else joints.BallJoint)(**points)
    return [JointDescription(name, of.names[first], of.names[second], joint)]


def _world(of: Compiled, body: int, point: np.ndarray) -> np.ndarray:
    """A point of a body in the world."""
    return of.data.xpos[body] + of.data.xmat[body].reshape(3, 3) @ point


def _as_welded(of: Compiled, number: int, one: int, two: int) -> bool:
    """Whether two bodies have the poses that a weld asks for: MuJoCo's anchor (3,), position and
    quaternion."""
    anchor, position, quaternion = np.split(of.model.eq_data[number][:10], [3, 6])
    turn = np.zeros(9)
    of.mujoco.mju_quat2Mat(turn, quaternion)
    turned = of.data.xmat[one].reshape(3, 3) @ turn.reshape(3, 3) - of.data.xmat[two].reshape(3, 3)
    apart = _world(of, one, position) - _world(of, two, anchor)
    return bool(np.max(np.abs(turned)) < _ALIGNED and np.max(np.abs(apart)) < _ALIGNED)

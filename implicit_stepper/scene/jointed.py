"""The part of a scene that joins bodies: joints, and springs and motions along what these leave
free."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from shapes import Shape
from shapes.arguments import number, positive

from ..constraints.coordinates import bounded, driven, elastic, motorised
from ..constraints.friction import not_negative
from ..constraints.gears import Geared, geared
from ..constraints.joints import LIBRARY, Form, Place
from ..constraints.of_users import JOINTS
from ..constraints.prescribed import first_pose, first_velocity, following
from ..model import checks, rotation
from ..runtime.errors import FunctionError, JointError, NameTakenError
from .body import Body, BodySpec
from .description import (
    AlongDescription,
    BodyDescription,
    GearDescription,
    JointDescription,
    body_description,
    joint_description,
    limit_name,
)
from .joining import JointSpec, refuse_open

_ROOM = 1e-3  # [rad] beyond limits, in which a step that passes one of them is seen to do so
_GROUND, _WITHIN = "inertial frame", "angles in space are told within half a turn"


class Jointed:
    """What `scene.Scene` has of joints: `_joints`, their bodies and forms by name, and `_joined`,
    what was given; the names of bodies that are `_driven`, and whether the start is `_projected`.
    Joints need to hold as they are added where bodies are `_weighed`: how well is told by sizes."""

    _specs: dict[str, BodySpec]
    _joints: dict[str, tuple[Body, Body, Form]]
    _joined: list[JointDescription | AlongDescription | GearDescription]
    _bodies: list[BodyDescription]
    _driven: set[str]
    _projected: bool = False
    _weighed: bool = True

    def add_joint(self, first: Body, second: Body, joint, *, name: str | None = None, project: bool = False) -> str:
        """Joins two bodies by a `BallJoint`, `Hinge`, `Slider`, `Universal`, `Cylindrical`,
        `Screw`, `Planar`, `Fixed`, `Distance`, `Spring`, `UserConstraint`, `VelocityConstraint` or
        `PairLoad`; returns its `name`, by default the names of both bodies.

        Points and axes are in the coordinates of `first` (point_1, axis_1) and of `second`
        (point_2, axis_2), those in which `add_body` and `add_fixed` placed them. Bodies that a
        joint joins touch only if `add_contact` says so. Raises `ValueError` for a joint that does
        not hold as the bodies are placed, unless it is to `project`: then all joints hold in the
        state that `build` returns, with poses and velocities near those given.
        """
        self._pair(first, second, "joint")
        if not isinstance(project, bool | np.bool_):
            raise JointError(
                f"`project` = {project!r:.60} must be True or False: whether the start is moved to where joints hold."
            )
        name = f"{first.name}-{second.name}" if name is None else name
        if not isinstance(joint, JOINTS):
            raise JointError(
                f"`joint` = {joint!r} must be one of {', '.join(kind.__name__ for kind in JOINTS)}, for instance "
                "BallJoint(point_1=(0, 0, 1), point_2=(0, 0, 0))."
            )
        specs = [self._specs[body.name] for body in (first, second)]
        form = joint.form(
            *(Place(s.centre, np.asarray(rotation.matrix(s.orientation)), float(s.orientation[0])) for s in specs)
        )
        self._add(name, first, second, form, project)
        self._joined.append(joint_description(name, first.name, second.name, joint, bool(project)))
        return name

    def add_moving(
        self,
        *,
        name: str,
        pose: Callable,
        shape: Shape | None = None,
        shapes: Sequence | None = None,
        mass: float | None = None,
        inertia: float | Sequence | None = None,
        density: float | None = None,
        centre_of_mass: Sequence[float] | None = None,
    ) -> Body:
        """A body that moves as it is told, a conveyor or a shaken plate: `pose(time)` returns the
        position (d,) [m] of its coordinates and their quaternion (4,), w first (the angle [rad] in
        the plane), in JAX, smooth in time [s]; a `MovingPose` of formulas can be saved.

        Shape, mass and inertia are as in `add_body`; an unbounded shape needs both of the latter.
        They are what its drive has to move: `trajectory.joint("drive of <name>")` has the force and
        moment on it, with those of its weight, at its centre of mass. What touches it feels its
        velocity. Raises `ValueError` naming the argument."""
        position, turned = first_pose(pose, self.dimension)
        given = {"shape": shape, "mass": mass, "inertia": inertia, "density": density, "centre_of_mass": centre_of_mass}
        turn = {"quaternion": turned} if self.dimension == 3 else {"angle": float(turned[0])}
        with self._whole():
            ground = self._ground()
            handle = self.add_body(name=name, shapes=shapes, position=position, **turn, **given)
            spec = self._specs[name]
            self._specs[name] = dataclasses.replace(spec, velocity=first_velocity(pose, spec.centre))
            self._add(f"drive of {name}", ground, handle, following(pose, spec.centre))
            self._bodies[-1] = body_description(name, False, shapes, False, pose=pose, **given)
            self._driven.add(name)
        return handle

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        """What is added within is added whole: where a part of it is refused, nothing is."""
        before = {name: copy.copy(getattr(self, name)) for name in ("_specs", "_bodies", "_joints", "_joined", "_driven")}
        try:
            yield
        except BaseException:
            vars(self).update(before)
            raise

    def _refuse_name(self, name, shapes=None) -> None:
        """Raises `ValueError` for a name that no further body, of these `shapes`, can have."""
        if isinstance(name, str) and name == _GROUND:
            raise NameTakenError(f"`name` = {name!r} is that of the ground of `add_moving`: give the body another.")
        checks.new_name(name, self._specs, "body")
        count, whole = len(shapes) if isinstance(shapes, list | tuple) else 0, name.rsplit("[", 1)[0]
        others = len(self._specs[whole].parts) if whole in self._specs else 0
        taken = [part for part in _part_names(name, count) if part in self._specs]
        if name in _part_names(whole, others) or taken:
            part, whole = (taken[0], name) if taken else (name, whole)
            raise NameTakenError(f"`name` = {name!r}: {part!r} is what a part of {whole!r} is called: give it another.")

    def _ground(self) -> Body:
        """The inertial frame, a fixed body without a shape."""
        if _GROUND not in self._specs:
            d, number = self.dimension, sum(spec.handle.fixed for spec in self._specs.values())
            turn = np.eye(4)[0] if d == 3 else np.zeros(1)
            self._specs[_GROUND] = BodySpec(Body(_GROUND, number, True), (), np.zeros(d), turn, np.zeros(d))
        return self._specs[_GROUND].handle

    def add_spring(
        self, joint: str, *, stiffness: float, damping: float = 0.0, rest: float = 0.0, coordinate: int = 0, name=None
    ) -> str:
        """A spring and a damper along a coordinate of the joint of that name: the angle of a hinge
        (of a ball joint in the plane), the displacement of a slider, those of a cylindrical joint
        (displacement, angle), of a planar one (two, angle) and of a universal one (two angles),
        of which angles are 0 as the joint is added, and displacements those of its second point
        from its first. `stiffness` [N/m, N m/rad], `damping` [N s/m, N m s/rad], `rest` [m, rad].
        Returns the name under which a trajectory has its reactions."""
        first, second, form = self._coordinate(joint, coordinate)
        values = not_negative("stiffness", stiffness), not_negative("damping", damping), number("rest", rest)
        if form.free_angles[coordinate] and self.dimension == 3 and abs(values[2]) > np.pi:
            raise JointError(f"`rest` = {rest} of joint {joint!r}: {_WITHIN}, so is where its springs rest.")
        name = self._add(f"spring of {joint}" if name is None else name, first, second, elastic(form, coordinate, *values))
        self._joined.append(AlongDescription(name, joint, coordinate, *values))
        return name

    def add_motion(self, joint: str, motion: Callable, *, coordinate: int = 0, name: str | None = None) -> str:
        """Prescribes a coordinate of the joint of that name (see `add_spring`) as `motion(time)`
        [m, rad], a smooth JAX function; the reaction under the name returned is the force or moment
        that drives it."""
        first, second, form = self._coordinate(joint, coordinate)
        if not callable(motion):
            raise FunctionError(f"`motion` = {motion!r} must be a function of the time [s].")
        name = f"motion of {joint}" if name is None else name
        # a start that is projected is projected to where it holds too
        name = self._add(name, first, second, driven(form, coordinate, motion), self._projected)
        self._joined.append(AlongDescription(name, joint, coordinate, motion=motion))
        return name

    def add_motor(self, joint: str, *, speed: float, most: float, coordinate: int = 0, name: str | None = None) -> str:
        """A motor that drives a coordinate of the joint of that name (see `add_spring`) at a
        `speed` [m/s, rad/s], by no more than a force or moment `most` [N, N m]; of speed 0 it is a
        brake. Returns the name under which a trajectory has its reactions."""
        first, second, form = self._coordinate(joint, coordinate)
        values = number("speed", speed), positive("most", most)
        name = f"motor of {joint}" if name is None else name
        specs = [self._specs[body.name] for body in (first, second)]
        lever = min(float(np.sqrt(np.trace(s.inertia) / s.mass)) for s in specs if not s.handle.fixed)
        name = self._add(name, first, second, motorised(form, coordinate, *values, lever))
        self._joined.append(AlongDescription(name, joint, coordinate, speed=values[0], most=values[1]))
        return name

    def add_limit(
        self, joint: str, *, low: float | None = None, high: float | None = None, coordinate: int = 0
    ) -> tuple[str, ...]:
        """Bounds a coordinate of the joint of that name (see `add_spring`) from below, from above
        or both [m, rad]; a bound is met without rebound. Angles in space are told within half a
        turn, of 0 or of the middle between two bounds. Returns the names under which a trajectory
        has their reactions."""
        first, second, form = self._coordinate(joint, coordinate)
        bounds = {side: number(side, value) for side, value in (("low", low), ("high", high)) if value is not None}
        if not bounds:
            raise JointError(f"give `low` or `high` of joint {joint!r}, or both: a limit without a bound is none.")
        names = {side: limit_name(side, joint, coordinate) for side in ("low", "high")}
        there = {side: name for side, name in names.items() if name in self._joints and side not in bounds}
        both = bounds | {side: float(self._joints[name][2].parameters["bound"]) for side, name in there.items()}
        if len(both) == 2 and both["low"] >= both["high"]:
            raise JointError(f"`low` = {both['low']} is not below `high` = {both['high']}: exchange them.")
        middle = sum(both.values()) / 2 if len(both) == 2 else 0.0
        most = np.pi - _ROOM
        if form.free_angles[coordinate] and self.dimension == 3 and max(abs(b - middle) for b in both.values()) > most:
            raise JointError(
                f"{both} of joint {joint!r}: {_WITHIN}, so that a single limit lies within that, and two are less than a "
                "turn apart."
            )
        with self._whole():
            for side, bound in bounds.items():
                self._add(names[side], first, second, bounded(form, coordinate, side, bound, middle), self._projected)
                self._joined.append(AlongDescription(names[side], joint, coordinate, side=side, bound=bound))
        for name in there.values():
            *bodies, other = self._joints[name]
            self._joints[name] = (*bodies, other._replace(parameters=other.parameters | {"middle": np.asarray(middle)}))
        return tuple(names[side] for side in bounds)

    def add_gear(
        self, joint_1: str, joint_2: str, *, ratio: float, coordinates: tuple[int, int] = (0, 0), name: str | None = None
    ) -> str:
        """Makes a coordinate of `joint_2` `ratio` times a coordinate of `joint_1` (see
        `add_spring`; `coordinates` has both numbers): two wheels that mesh have -r_1 / r_2, those
        of a belt r_1 / r_2, a rack (a slider) has its pinion's radius [m/rad]. Angles in space are
        told within a turn: a ratio of two of them is one of whole numbers up to 200, as of teeth.
        The joints may have two moving bodies in all. Returns the name under which a trajectory has
        the reactions. Raises `ValueError` for joints and coordinates that there are not, or that
        are one."""
        told = tuple(coordinates) if isinstance(coordinates, Iterable) else (coordinates,)
        if len(told) != 2:
            raise JointError(f"`coordinates` = {coordinates!r}: give a number for each of the two joints, (0, 0).")
        joints = [self._coordinate(joint, which) for joint, which in zip((joint_1, joint_2), told, strict=True)]
        name = f"gear of {joint_1} and {joint_2}" if name is None else name
        if (joint_1, told[0]) == (joint_2, told[1]):
            raise JointError(f"coordinate {told[0]} of joint {joint_1!r} is geared to itself: name two.")
        bodies = list(dict.fromkeys(body for first, second, _ in joints for body in (first, second)))
        bodies.sort(key=lambda body: body.fixed)
        moving = [body.name for body in bodies if not body.fixed]
        if len(moving) > 2:
            raise JointError(
                f"{', '.join(map(repr, moving))} move, and a gear is between two moving bodies: joints {joint_1!r} and "
                f"{joint_2!r} must have one in common, or stand on fixed bodies."
            )
        still, poses = bodies[2:], [(s.position, s.orientation) for s in (self._specs[body.name] for body in bodies[2:])]
        geared_ = [Geared(f, n, (bodies.index(a), bodies.index(b))) for (a, b, f), n in zip(joints, told, strict=True)]
        form = geared(*geared_, ratio, [body.number for body in still], poses, self.dimension)
        name = self._add(name, *bodies[:2], form, self._projected)
        self._joined.append(GearDescription(name, joint_1, joint_2, float(ratio), told))
        return name

    def joint_points(self) -> dict[str, list[tuple[str, np.ndarray]]]:
        """For drawing: by the name of each joint that has points its two, as the body's name and
        (d,) [m] from its centre of mass in its axes; of fixed bodies in the inertial frame."""
        found = {}
        for made in self._joined:
            if isinstance(made, JointDescription) and isinstance(made.joint, LIBRARY):
                ends = (made.first, made.joint.point_1), (made.second, made.joint.point_2)
                found[made.name] = [(body, self._seen(self._specs[body], np.asarray(point))) for body, point in ends]
        return found

    def _seen(self, spec: BodySpec, point: np.ndarray) -> np.ndarray:
        """A point (d,) [m] of a body's coordinates as `joint_points` gives it."""
        point = point - spec.centre
        return spec.position + np.asarray(rotation.matrix(spec.orientation)) @ point if spec.handle.fixed else point

    def _coordinate(self, joint: str, coordinate: int) -> tuple[Body, Body, Form]:
        """Bodies and form of a joint that has such a coordinate."""
        if not isinstance(joint, str) or joint not in self._joints:
            raise JointError(f"`joint` = {joint!r:.60} is no joint's name: there are {', '.join(self._joints) or 'none'}.")
        first, second, form = self._joints[joint]
        count = len(form.free_angles)
        if not isinstance(coordinate, int) or not 0 <= coordinate < count:
            raise JointError(f"`coordinate` = {coordinate!r}: joint {joint!r} has {count} coordinates, counted from 0.")
        return first, second, form

    def _add(self, name, first: Body, second: Body, form: Form, project: bool = False) -> str:
        """Under a name of its own, if it holds as the bodies are placed, or is to be projected."""
        checks.new_name(name, self._joints, "joint")
        specs = [self._specs[body.name] for body in (first, second)]
        sizes = [np.sqrt(np.trace(s.inertia) / s.mass) for s in specs if not s.handle.fixed]
        length = max(min(sizes), np.linalg.norm(specs[1].position - specs[0].position))
        needed = float(length) if self._weighed and not project else np.inf
        refuse_open(name, form, [(s.position, s.orientation) for s in specs], needed)
        self._joints[name] = (first, second, form)
        self._projected |= project
        return name

    def joint_specs(self) -> list[JointSpec]:
        """The joints as they were added, after those that drive bodies: files have bodies first."""
        drives = {f"drive of {name}" for name in self._driven}
        return [
            JointSpec(name, self._numbers(first, second), (not first.fixed, not second.fixed), form)
            for name, (first, second, form) in sorted(self._joints.items(), key=lambda joint: joint[0] not in drives)
        ]


def _part_names(name: str, count: int) -> list[str]:
    """What the parts of a body are called, if it has several."""
    return [f"{name}[{i}]" for i in range(count)] if count > 1 else []

"""The part of a scene that joins bodies: joints, and springs and motions along what these leave free."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shapes.arguments import number, positive

from ..constraints.coordinates import bounded, driven, elastic, motorised
from ..constraints.joints import JOINTS, Form, Place, not_negative
from ..model import rotation
from .body import Body, BodySpec
from .description import AlongDescription, JointDescription, joint_description
from .joining import JointSpec, refuse_open


class Jointed:
    """What `scene.Scene` has of joints: `_joints`, their bodies and forms by name, and `_joined`, what was given."""

    _specs: dict[str, BodySpec]
    _joints: dict[str, tuple[Body, Body, Form]]
    _joined: list[JointDescription | AlongDescription]

    def add_joint(self, first: Body, second: Body, joint, *, name: str | None = None) -> str:
        """Joins two bodies by a `BallJoint`, `Hinge`, `Slider`, `Universal`, `Cylindrical`, `Planar`, `Fixed`, `Distance`,
        `Spring` or `UserConstraint`; returns its `name`, by default the names of both bodies.

        Points and axes are in the coordinates of `first` (point_1, axis_1) and of `second` (point_2, axis_2), those in which
        `add_body` and `add_fixed` placed them. Bodies that a joint joins touch only if `add_contact` says so. Raises
        `ValueError` for a joint that does not hold as the bodies are placed.
        """
        self._pair(first, second, "joint")
        name = f"{first.name}-{second.name}" if name is None else name
        if not isinstance(joint, JOINTS):
            raise ValueError(
                f"`joint` = {joint!r} must be one of {', '.join(kind.__name__ for kind in JOINTS)}, for instance "
                "BallJoint(point_1=(0, 0, 1), point_2=(0, 0, 0))."
            )
        specs = [self._specs[body.name] for body in (first, second)]
        form = joint.form(*(Place(s.centre, np.asarray(rotation.matrix(s.orientation))) for s in specs))
        self._add(name, first, second, form)
        self._joined.append(joint_description(name, first.name, second.name, joint))
        return name

    def add_spring(
        self, joint: str, *, stiffness: float, damping: float = 0.0, rest: float = 0.0, coordinate: int = 0, name=None
    ) -> str:
        """A spring and a damper along a coordinate of the joint of that name: the angle of a hinge (of a ball joint in the
        plane), the displacement of a slider, those of a cylindrical joint (displacement, angle) and of a planar one (two,
        angle), which are 0 as the joint is added. `stiffness` [N/m, N m/rad], `damping` [N s/m, N m s/rad], `rest` [m, rad].
        Returns the name under which a trajectory has its reactions."""
        first, second, form = self._coordinate(joint, coordinate)
        values = not_negative("stiffness", stiffness), not_negative("damping", damping), number("rest", rest)
        name = self._add(f"spring of {joint}" if name is None else name, first, second, elastic(form, coordinate, *values))
        self._joined.append(AlongDescription(name, joint, coordinate, *values))
        return name

    def add_motion(self, joint: str, motion: Callable, *, coordinate: int = 0, name: str | None = None) -> str:
        """Prescribes a coordinate of the joint of that name (see `add_spring`) as `motion(time)` [m, rad], a smooth JAX
        function; the reaction under the name returned is the force or moment that drives it."""
        first, second, form = self._coordinate(joint, coordinate)
        if not callable(motion):
            raise ValueError(f"`motion` = {motion!r} must be a function of the time [s].")
        name = self._add(f"motion of {joint}" if name is None else name, first, second, driven(form, coordinate, motion))
        self._joined.append(AlongDescription(name, joint, coordinate, motion=motion))
        return name

    def add_motor(self, joint: str, *, speed: float, most: float, coordinate: int = 0, name: str | None = None) -> str:
        """A motor that drives a coordinate of the joint of that name (see `add_spring`) at a `speed` [m/s, rad/s], by no
        more than a force or moment `most` [N, N m]; of speed 0 it is a brake. Returns the name under which a trajectory has
        its reactions."""
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
        """Bounds a coordinate of the joint of that name (see `add_spring`) from below, from above or both [m, rad]; a bound
        is met without rebound. Returns the names under which a trajectory has their reactions."""
        first, second, form = self._coordinate(joint, coordinate)
        bounds = {side: number(side, value) for side, value in (("low", low), ("high", high)) if value is not None}
        if not bounds:
            raise ValueError(f"give `low` or `high` of joint {joint!r}, or both: a limit without a bound is none.")
        if len(bounds) == 2 and bounds["low"] >= bounds["high"]:
            raise ValueError(f"`low` = {bounds['low']} is not below `high` = {bounds['high']}: exchange them.")
        if form.free_angles[coordinate] and max(map(abs, bounds.values())) > np.pi:
            raise ValueError(f"{bounds} of joint {joint!r}: angles are told within half a turn, so are their limits.")
        names = []
        for side, bound in bounds.items():
            names.append(self._add(f"{side} limit of {joint}", first, second, bounded(form, coordinate, side, bound)))
            self._joined.append(AlongDescription(names[-1], joint, coordinate, side=side, bound=bound))
        return tuple(names)

    def _coordinate(self, joint: str, coordinate: int) -> tuple[Body, Body, Form]:
        """Bodies and form of a joint that has such a coordinate."""
        if joint not in self._joints:
            raise ValueError(f"`joint` = {joint!r} is no joint's name: there are {', '.join(self._joints) or 'none'}.")
        first, second, form = self._joints[joint]
        count = len(form.free_angles)
        if not isinstance(coordinate, int) or not 0 <= coordinate < count:
            raise ValueError(f"`coordinate` = {coordinate!r}: joint {joint!r} has {count} coordinates, counted from 0.")
        return first, second, form

    def _add(self, name, first: Body, second: Body, form: Form) -> str:
        """Under a name of its own, if it holds as the bodies are placed."""
        if not isinstance(name, str) or not name:
            raise ValueError(f"`name` = {name!r} must be a non-empty string.")
        if name in self._joints:
            raise ValueError(f"`name` = {name!r} is taken: every joint needs its own.")
        specs = [self._specs[body.name] for body in (first, second)]
        sizes = [np.sqrt(np.trace(s.inertia) / s.mass) for s in specs if not s.handle.fixed]
        length = max(min(sizes), np.linalg.norm(specs[1].position - specs[0].position))
        refuse_open(name, form, [(s.position, s.orientation) for s in specs], float(length))
        self._joints[name] = (first, second, form)
        return name

    def joint_specs(self) -> list[JointSpec]:
        """The joints as they were added."""
        return [
            JointSpec(name, self._numbers(first, second), (not first.fixed, not second.fixed), form)
            for name, (first, second, form) in self._joints.items()
        ]

"""What a user fills: bodies, contacts and loads, every input checked, from which the immutable
`System` is built."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence

import numpy as np

from shapes import Shape, ShapeError
from shapes.arguments import positive, vector
from shapes.errors import ArgumentError
from shapes.volume.mesh import RESOLUTION, Mesh

from ..constraints.compliance import Compliance
from ..constraints.friction import FrictionEllipsoid
from ..constraints.restitution import Newton, Poisson
from ..model import checks, rotation
from ..model.bodies import State
from ..model.system import System
from ..runtime.errors import PairError, RunError
from ..runtime.files import replaced
from ..runtime.precision import double_precision
from . import toml_text
from .body import Body, BodySpec, largest_load
from .compound import Part, moments, paired
from .compound import parts as parts_of
from .description import BodyDescription, ContactDescription, SceneDescription, body_description
from .grouping import PartContact, grouped
from .joining import joined
from .jointed import Jointed
from .projection import projected
from .ruled import Ruled, checked_law
from .runnable import Runnable


class Scene(Jointed, Ruled, Runnable):
    """Bodies, contacts and loads, checked as they are added. `build()` gives what steppers work on.

    `gravity` (3,) or, with `dimension=2`, (2,) [m/s^2], by default 9.81 against the last axis.
    `length_scale` [m] and `acceleration_scale` [m/s^2] set what the solver's relative tolerance
    refers to; by default the largest radius of gyration and the largest load per mass, or, without
    gravity and forces, what turns the fastest body within that radius. Raises `ValueError` naming
    the argument, the value and the remedy.
    """

    def __init__(
        self,
        *,
        gravity: Sequence[float] | None = None,
        dimension: int = 3,
        length_scale: float | None = None,
        acceleration_scale: float | None = None,
    ):
        if not isinstance(dimension, int) or dimension not in (2, 3):
            raise ArgumentError(f"`dimension` = {dimension!r} must be 2 or 3.")
        self.dimension = dimension
        downward = np.eye(dimension)[-1] * -9.81
        self.gravity = downward if gravity is None else vector("gravity", gravity, dimension)
        self._gravity = None if gravity is None else tuple(self.gravity.tolist())
        self._length_scale = None if length_scale is None else positive("length_scale", length_scale)
        self._acceleration_scale = None if acceleration_scale is None else positive("acceleration_scale", acceleration_scale)
        self._specs: dict[str, BodySpec] = {}
        # bodies with the numbers of their parts, and the laws of their contact
        self._contacts: list[tuple[Body, int, Body, int, FrictionEllipsoid, Compliance | None, Newton | Poisson | None]] = []
        self._bodies: list[BodyDescription] = []
        self._pairs: list[ContactDescription] = []
        self._taken: dict[frozenset[str], set[tuple[int, int]]] = {}
        self._joints, self._joined, self._driven, self._rules = {}, [], set(), []

    def add_body(
        self,
        *,
        name: str,
        shape: Shape | None = None,
        shapes: Sequence | None = None,
        position: Sequence[float],
        mass: float | None = None,
        inertia: float | Sequence | None = None,
        density: float | None = None,
        centre_of_mass: Sequence[float] | None = None,
        quaternion: Sequence[float] | None = None,
        angle: float | None = None,
        velocity: Sequence[float] | None = None,
        wrench: Sequence[float] | Callable | None = None,
        apart: bool = False,
    ) -> Body:
        """A moving body of one convex `shape`, or several: `shapes` = [(shape, (position,
        quaternion)), ...], which touch unless parts that stand `apart` are meant.

        `position` [m] and `quaternion` (4,) w first (`angle` [rad] in the plane) place the body's
        coordinates, which are those of `shape`, and in which the parts of `shapes` have their
        poses. velocity (6,) or (3,): linear [m/s] of the centre of mass, and angular [rad/s],
        inertial frame. mass [kg]; inertia: principal moments (3,) or matrix (3, 3) [kg m^2] about
        the centre of mass in the body's axes, a number in the plane, with `centre_of_mass` [m] in
        the body's coordinates, by default their origin. What is left out comes from the shapes: all
        from `density` [kg/m^3, kg/m^2 in the plane], inertia and centre from `mass`. wrench:
        constant (6,) or (3,), force [N] and moment [N m] about the centre of mass in the inertial
        frame, or a JAX function `wrench(time, position, orientation, velocity)` of the centre of
        mass returning that, evaluated at the start of each step as p_app in Chakraborty (10), by
        `Convex` where its scheme does.
        """
        position_given, mass_given, inertia_given = position, mass, inertia
        handle, orientation = self._new(name, quaternion, angle, shapes, fixed=False)
        body = parts_of(shape, shapes, self.dimension, name, apart)
        mass, inertia, centre = checks.mass_properties(
            lambda: moments(body), mass, inertia, density, centre_of_mass, self.dimension
        )
        position = vector("position", position, self.dimension) + np.asarray(rotation.matrix(orientation)) @ centre
        width = 6 if self.dimension == 3 else 3
        spec = BodySpec(
            handle=handle,
            parts=tuple(part.moved(-centre) for part in body),
            position=position,
            orientation=orientation,
            centre=np.asarray(centre, dtype=float),
            velocity=checks.velocity(np.zeros(width) if velocity is None else velocity, inertia / mass, self.dimension),
            mass=mass,
            inertia=inertia,
            wrench=np.zeros(width) if wrench is None else wrench,
        )
        if callable(wrench):
            checks.load_function(wrench, spec.position, orientation, spec.velocity)
        else:
            spec = dataclasses.replace(spec, wrench=vector("wrench", spec.wrench, width))
        self._specs[name] = spec
        given = {"mass": mass_given, "inertia": inertia_given, "density": density, "centre_of_mass": centre_of_mass}
        given |= {"shape": shape, "position": position_given, "velocity": velocity, "wrench": wrench}
        self._bodies.append(body_description(name, False, shapes, apart, quaternion=quaternion, angle=angle, **given))
        return handle

    def add_fixed(
        self,
        *,
        name: str,
        shape: Shape | None = None,
        shapes: Sequence | None = None,
        position: Sequence[float] | None = None,
        quaternion: Sequence[float] | None = None,
        angle: float | None = None,
        apart: bool = False,
    ) -> Body:
        """A body that never moves, of one shape or several as in `add_body`: position [m] and
        `quaternion`, w first (`angle` [rad] in the plane)."""
        handle, orientation = self._new(name, quaternion, angle, shapes, fixed=True)
        origin = vector("position", np.zeros(self.dimension) if position is None else position, self.dimension)
        body = parts_of(shape, shapes, self.dimension, name, apart)
        self._specs[name] = BodySpec(
            handle=handle, parts=body, position=origin, orientation=orientation, centre=np.zeros(self.dimension)
        )
        given = {"shape": shape, "position": position, "quaternion": quaternion, "angle": angle}
        self._bodies.append(body_description(name, True, shapes, apart, **given))
        return handle

    def add_contact(
        self,
        first: Body,
        second: Body,
        *,
        friction: FrictionEllipsoid | float = 0.0,
        compliance: Compliance | None = None,
        restitution: Newton | Poisson | None = None,
        parts: Sequence[tuple[int, int]] | None = None,
    ) -> tuple[int, ...]:
        """Lets two bodies touch; returns the numbers of the contacts, one for each part of `first`
        with each of `second`, or for the pairs of `parts` alone, numbers (of `first`'s, of
        `second`'s) from 0; others may have another law.

        Normals point from `first` to `second`. `friction` is a `FrictionEllipsoid`, or a number mu
        for isotropic friction without drilling torque. With a `compliance` the bodies overlap under
        load; without, they are rigid. With a `restitution`, Newton(e) or Poisson(e), one law in a
        scene, they rebound.
        """
        self._pair(first, second, "contact")
        pairs = paired(parts, *(self._specs[body.name].parts for body in (first, second)))
        taken = self._taken.setdefault(frozenset((first.name, second.name)), set())
        named = {(i, j) if first.name < second.name else (j, i) for i, j in pairs}
        if taken & named:
            raise PairError(f"{first.name!r} and {second.name!r} are in contact already: one contact serves a pair.")
        law = checked_law(friction, compliance, restitution)
        self._refuse_mixed(restitution)
        count = len(self._contacts)
        self._contacts += [(first, i, second, j, *law) for i, j in pairs]
        self._pairs.append(ContactDescription(first.name, second.name, *law, None if parts is None else tuple(pairs)))
        taken |= named
        return tuple(range(count, len(self._contacts)))

    def description(self) -> SceneDescription:
        """What the scene was made of, as it was given; `run` holds settings for
        `implicit_stepper.run_scene`."""
        return SceneDescription(
            dimension=self.dimension,
            gravity=self._gravity,
            length_scale=self._length_scale,
            acceleration_scale=self._acceleration_scale,
            bodies=tuple(self._bodies),
            contacts=tuple(self._pairs),
            rules=tuple(self._rules),
            joints=tuple(self._joined),
            run=self.run,
        )

    def save(self, path: str | os.PathLike) -> None:
        """Writes a scene file, from which `implicit_stepper.load_scene` makes a scene whose runs
        are the same to the bit. Raises `ValueError` for loads that are functions (a `Wrench` of
        formulas is none), for shapes that no formula says and for what is too large; `OSError`."""
        text = toml_text.checked(self.description())
        with replaced(path) as new:
            new.write_text(text, encoding="utf-8")

    def meshes(self, resolution: int = RESOLUTION) -> dict[str, list[Mesh]]:
        """For drawing: per bounded body the meshes of its parts, [m] from its centre of mass in its
        axes; of fixed bodies in the inertial frame. A body with an unbounded part, as a half-space
        is, has none."""
        found = {}
        for name, spec in self._specs.items():
            try:
                own = [p.shape.mesh(resolution).moved(p.position, p.rotation) for p in spec.parts]
            except ShapeError:
                continue
            turned = np.asarray(rotation.matrix(spec.orientation))
            found[name] = [mesh.moved(spec.position, turned) for mesh in own] if spec.handle.fixed else own
        return found

    def build(self, *, contacts: bool = True) -> tuple[System, State]:
        """The immutable system and the initial state, on request without `contacts`. Raises
        `ValueError` when there is no moving body."""
        double_precision()
        moving = [s for s in self._specs.values() if not s.handle.fixed]
        fixed = [s for s in self._specs.values() if s.handle.fixed]
        if not moving:
            raise RunError("the scene has no moving body: use add_body.")
        d = self.dimension
        state = State(
            time=np.float64(0.0),
            position=np.stack([s.position for s in moving]),
            orientation=np.stack([s.orientation for s in moving]),
            velocity=np.stack([s.velocity for s in moving]),
        )
        mass, inertia = np.array([s.mass for s in moving]), np.stack([s.inertia for s in moving])
        touching, joints = self._touching() if contacts else [], self.joint_specs()
        free = np.array([s.handle.name not in self._driven for s in moving])
        sizes = np.sqrt(np.trace(inertia, axis1=1, axis2=2) / mass)
        length = self._length_scale or np.max(sizes, where=free | ~np.any(free), initial=0.0)
        system = System(
            dimension=d,
            names=tuple(s.handle.name for s in moving + fixed),
            contact_names=tuple((self._part_name(a, i), self._part_name(b, j)) for a, i, b, j, *_ in touching),
            joint_names=tuple(joint.name for joint in joints),
            wrench_functions=tuple(s.wrench if callable(s.wrench) else None for s in moving),
            gravity=self.gravity,
            mass=mass,
            inertia=inertia,
            wrench=np.stack([np.zeros_like(s.velocity) if callable(s.wrench) else s.wrench for s in moving]),
            fixed_position=np.stack([s.position for s in fixed]) if fixed else np.zeros((0, d)),
            fixed_orientation=np.stack([s.orientation for s in fixed]) if fixed else np.zeros((0, 4 if d == 3 else 1)),
            groups=grouped(self._with_parts(touching), d),
            joints=joined(joints),
            length=np.float64(length),
            acceleration=np.float64(self._acceleration_scale or largest_load(moving, self.gravity, length)),
        )
        return system, projected(system, state, joints) if self._projected else state

    def _pair(self, first, second, what: str) -> None:
        """Raises `ValueError` for two that no contact or joint can be between."""
        self._own("first", first)
        self._own("second", second)
        if first == second:
            raise PairError(f"`second` = {second.name!r} is the first body too: a {what} is between two bodies.")
        if first.fixed and second.fixed:
            raise PairError(f"{first.name!r} and {second.name!r} are both fixed: their {what} would change nothing.")

    def _own(self, argument: str, body) -> None:
        """Raises `ValueError` for what is not a body of this scene."""
        if not isinstance(body, Body):
            raise PairError(f"`{argument}` = {body!r} must be a handle returned by add_body or add_fixed.")
        if body.name not in self._specs or self._specs[body.name].handle is not body:
            raise PairError(f"`{argument}` = {body.name!r} belongs to another scene.")

    def _numbers(self, *bodies: Body) -> tuple[int, ...]:
        """In the order of moving bodies first, then fixed ones."""
        moving_count = sum(not spec.handle.fixed for spec in self._specs.values())
        return tuple(body.number + (moving_count if body.fixed else 0) for body in bodies)

    def _part_name(self, body: Body, number: int) -> str:
        """The body's name, with the part's number when there are several."""
        return body.name if len(self._specs[body.name].parts) == 1 else f"{body.name}[{number}]"

    def _new(self, name, quaternion, angle, shapes, *, fixed) -> tuple[Body, np.ndarray]:
        double_precision()
        self._refuse_name(name, shapes)
        number = sum(s.handle.fixed == fixed for s in self._specs.values())
        return Body(name, number, fixed), checks.orientation(quaternion, angle, self.dimension)

    def body_parts(self) -> list[tuple[Part, ...]]:
        """The parts of every body, moving ones first, from its centre of mass in its axes."""
        specs = sorted(self._specs.values(), key=lambda spec: spec.handle.fixed)
        return [spec.parts for spec in specs]

    def part_contacts(self) -> list[PartContact]:
        """The contacts as they were added, then those of rules, with the numbers of their
        bodies."""
        return self._with_parts(self._touching())

    def _with_parts(self, touching: list[tuple]) -> list[PartContact]:
        handles = [spec.handle for spec in self._specs.values()]
        numbers = dict(zip(handles, self._numbers(*handles), strict=True))
        return [
            PartContact(
                number,
                (numbers[first], numbers[second]),
                (not first.fixed, not second.fixed),
                (self._specs[first.name].parts[i], self._specs[second.name].parts[j]),
                *laws,
            )
            for number, (first, i, second, j, *laws) in enumerate(touching)
        ]

"""What a scene is made of, as it was given: plain data that `Scene`, scene files and other formats
share. SI units.

A field is None where the user left it out, so that a scene built again from its description is the
same to the bit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from shapes import Shape
from shapes.arguments import positive, vector

from ..constraints.compliance import Compliance
from ..constraints.friction import FrictionEllipsoid, JointFriction
from ..constraints.restitution import Newton, Poisson
from ..runtime.errors import RunError


@dataclasses.dataclass(frozen=True)
class BodyDescription:
    """The arguments of `Scene.add_body`, or of a `fixed` body those of `Scene.add_fixed`, or with a
    `pose` those of `Scene.add_moving`: numbers as tuples of floats."""

    name: str
    fixed: bool
    shape: Shape | None = None
    shapes: tuple[tuple[Shape, tuple], ...] | None = None
    position: Any = None
    quaternion: Any = None
    angle: Any = None
    velocity: Any = None
    mass: Any = None
    inertia: Any = None
    density: Any = None
    centre_of_mass: Any = None
    wrench: Any = None
    apart: bool | None = None
    pose: Callable | None = None


@dataclasses.dataclass(frozen=True)
class ContactDescription:
    """The arguments of `Scene.add_contact`, the bodies by name; `parts` as pairs of numbers."""

    first: str
    second: str
    friction: FrictionEllipsoid
    compliance: Compliance | None = None
    restitution: Newton | Poisson | None = None
    parts: tuple[tuple[int, int], ...] | None = None


@dataclasses.dataclass(frozen=True)
class RuleDescription:
    """The arguments of `Scene.add_contacts`, the bodies by name: those of `first` may touch those
    of `second`, None for all, but for pairs `apart`."""

    first: tuple[str, ...] | None
    second: tuple[str, ...] | None
    apart: tuple[tuple[str, str], ...]
    friction: FrictionEllipsoid
    compliance: Compliance | None = None
    restitution: Newton | Poisson | None = None


@dataclasses.dataclass(frozen=True)
class JointDescription:
    """The arguments of `Scene.add_joint`, the bodies by name."""

    name: str
    first: str
    second: str
    joint: Any
    project: bool = False


@dataclasses.dataclass(frozen=True)
class AlongDescription:
    """Along a coordinate of a joint: the arguments of `Scene.add_spring`, or with a `motion` those
    of `Scene.add_motion`, or with a `side`, "low" or "high", those of `Scene.add_limit`, or with a
    `speed` those of `Scene.add_motor`."""

    name: str
    joint: str
    coordinate: int
    stiffness: float = 0.0
    damping: float = 0.0
    rest: float = 0.0
    motion: Callable | None = None
    side: str | None = None
    bound: float = 0.0
    speed: float | None = None
    most: float = 0.0


def limit_name(side: str, joint: str, coordinate: int) -> str:
    """What the bound of a coordinate of a joint is called; of the first, without its number."""
    return f"{side} limit of {joint}" + (f", coordinate {coordinate}" if coordinate else "")


@dataclasses.dataclass(frozen=True)
class GearDescription:
    """The arguments of `Scene.add_gear`."""

    name: str
    joint_1: str
    joint_2: str
    ratio: float
    coordinates: tuple[int, int] = (0, 0)


_OF_STEPPERS = (
    ("stepper", str | None, "the name of a stepper as text, for instance 'RadauContact', or None"),
    ("settings", dict, "a dictionary of what the stepper is set to, by name"),
)


@dataclasses.dataclass(frozen=True)
class RunSettings:
    """How a scene is to be run: the arguments of `simulate`, with the `stepper` by name and its
    `settings`. Left out, the stepper is GeometricallyImplicit where `h` [s] is given, and
    RadauContact where `tol` is. Numbers of NumPy and JAX become those of Python, which a file can
    hold. Raises `ValueError` naming what is of another kind or range; whether the stepper can do it
    is asked when the scene is run."""

    duration: float
    stepper: str | None = None
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    h: float | None = None
    tol: float | None = None
    switches: tuple[float, ...] = ()
    certificate_tolerance: float | None = None

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = native(getattr(self, field.name))
            object.__setattr__(self, field.name, tuple(value) if isinstance(value, list) else value)
        for name, kind, need in _OF_STEPPERS:
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise RunError(f"`{name}` = {value!r:.60} must be {need}.")
        for name in ("duration", "h", "tol", "certificate_tolerance"):
            value, composed = getattr(self, name), name == "tol" and dataclasses.is_dataclass(self.tol)  # a `Tolerance`
            if not composed and (value is not None or name == "duration"):
                positive(name, value)
        times_of(self.switches)


def times_of(switches) -> np.ndarray:
    """The times [s] (n,) in a list of them. Raises `ValueError` for what is none."""
    try:
        count = len(switches)
    except TypeError as error:
        raise RunError(f"`switches` = {switches!r:.60} must be a list of times [s].") from error
    return vector("switches", switches, count) if count else np.zeros(0)


@dataclasses.dataclass(frozen=True)
class SceneDescription:
    """All of a scene; bodies, contacts, rules and joints in the order in which they were added."""

    dimension: int
    gravity: tuple[float, ...] | None = None
    length_scale: float | None = None
    acceleration_scale: float | None = None
    bodies: tuple[BodyDescription, ...] = ()
    contacts: tuple[ContactDescription, ...] = ()
    rules: tuple[RuleDescription, ...] = ()
    joints: tuple[JointDescription | AlongDescription | GearDescription, ...] = ()
    run: RunSettings | None = None


def body_description(name: str, fixed: bool, shapes, apart: bool, **given) -> BodyDescription:
    """Of what the user gave, with arrays as tuples of floats."""
    if shapes is not None:
        shapes = tuple((shape, tuple(_plain(part) for part in pose)) for shape, pose in shapes)
    plain = {key: value if isinstance(value, Shape | Callable) else _plain(value) for key, value in given.items()}
    return BodyDescription(name=name, fixed=fixed, shapes=shapes, apart=apart or None, **plain)


def joint_description(name: str, first: str, second: str, joint, project: bool) -> JointDescription:
    """Of what the user gave, with arrays as tuples of floats."""
    given = {field.name: getattr(joint, field.name) for field in dataclasses.fields(joint)}
    if not any(callable(value) for value in given.values()):
        joint = type(joint)(**{key: _plain(value) for key, value in given.items()})
    return JointDescription(name, first, second, joint, project)


def native(value):
    """Numbers and arrays of NumPy and JAX as those of Python and lists, within tables and lists
    too; all else as it is."""
    if isinstance(value, np.generic | np.ndarray | jax.Array):
        return value.tolist()
    if isinstance(value, dict):
        return {key: native(part) for key, part in value.items()}
    return type(value)(map(native, value)) if type(value) in (tuple, list) else value


def _plain(value):
    """Nested tuples of floats of an array, or a float."""

    def tuples(found):
        return tuple(map(tuples, found)) if isinstance(found, list) else float(found)

    return value if value is None or isinstance(value, JointFriction) else tuples(np.asarray(value).tolist())

"""The immutable pytree that steppers work on: bodies, loads, and constraints in groups that are
alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shapes.closest_points.conditions import PairClass


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Frame:
    """Where shapes sit on their bodies: position (..., d) [m] from the centre of mass, rotation
    (..., d, d) from shape coordinates to the body's."""

    position: jax.Array
    rotation: jax.Array


@dataclasses.dataclass(frozen=True)
class System:
    """Everything that does not change in time. Static: dimension d, names, wrench functions.
    Arrays, nb moving bodies:

    gravity (d,) [m/s^2]; mass (nb,) [kg]; inertia (nb, 3, 3) or (nb, 1, 1) [kg m^2] in the body
    frame; wrench (nb, 6) or (nb, 3), constant (force [N], moment [N m]) about the centre of mass in
    the inertial frame; poses of the nf fixed bodies; `length` [m] and `acceleration` [m/s^2], the
    scales in which residuals are measured. Constraints: the contacts, `groups` of
    `constraints.contact.ContactGroup`, and `joints`, of `constraints.joint.JointGroup`.

    What is compiled for one system serves others that differ in names alone, which no program asks
    for.
    """

    dimension: int
    names: tuple[str, ...]
    contact_names: tuple[tuple[str, str], ...]
    joint_names: tuple[str, ...]
    wrench_functions: tuple[Callable | None, ...]
    gravity: jax.Array
    mass: jax.Array
    inertia: jax.Array
    wrench: jax.Array
    fixed_position: jax.Array
    fixed_orientation: jax.Array
    groups: tuple[Any, ...]
    joints: tuple[Any, ...]
    length: jax.Array
    acceleration: jax.Array

    @property
    def body_count(self) -> int:
        """Number nb of moving bodies."""
        return len(self.wrench_functions)

    @property
    def contact_count(self) -> int:
        """Number of contacts over all groups."""
        return len(self.contact_names)

    @property
    def constraints(self) -> tuple[Any, ...]:
        """All groups, contacts first."""
        return (*self.groups, *self.joints)

    @property
    def sticks_more(self) -> bool:
        """Whether any contact or joint has a coefficient of friction of its own for what sticks."""
        return any(group.mu_s is not None for group in self.constraints)

    @property
    def tilts(self) -> bool:
        """Whether any contact may be one of lines or faces in space, with torques that keep rates
        of tilts at zero."""
        return any(group.tilts for group in self.groups)

    @property
    def unknown_count(self) -> int:
        """Number of unknowns of an implicit Euler step: the velocities of bodies, and those of
        constraints."""
        velocities = self.body_count * (6 if self.dimension == 3 else 3)
        return velocities + sum(len(group.bodies) * group.width for group in self.constraints)


@dataclasses.dataclass(frozen=True)
class _Names:
    """Names of bodies, contacts and joints, as part of a tree's structure: equal to others that are
    as many."""

    counts: tuple[int, ...]
    of: tuple[tuple, ...] = dataclasses.field(compare=False)


_NAMES, _STATIC = ("names", "contact_names", "joint_names"), ("dimension", "wrench_functions")
_ARRAYS = tuple(f.name for f in dataclasses.fields(System) if f.name not in _NAMES + _STATIC)


def _values(system: System, names: tuple[str, ...]) -> tuple:
    return tuple(getattr(system, name) for name in names)


def _structure(system: System) -> tuple:
    names = _values(system, _NAMES)
    return _Names(tuple(map(len, names)), names), _values(system, _STATIC)


def _assembled(structure: tuple, arrays) -> System:
    names, static = structure
    parts = (_NAMES, names.of), (_STATIC, static), (_ARRAYS, arrays)
    return System(**{key: value for keys, values in parts for key, value in zip(keys, values, strict=True)})


jax.tree_util.register_pytree_with_keys(
    System,
    lambda system: ([(jax.tree_util.GetAttrKey(name), getattr(system, name)) for name in _ARRAYS], _structure(system)),
    _assembled,
    lambda system: (_values(system, _ARRAYS), _structure(system)),
)


def body_numbers(group):
    """The two body numbers (n, 2) of each constraint of a `group`, fixed bodies after the moving
    ones: constants, unless its bodies are data."""
    return group.bodies if isinstance(group.bodies, jax.Array) else np.array(group.bodies)


def take(values, numbers):
    """values[numbers]: where constant `numbers` follow each other, or are all the same, without a
    gather, which other work cannot be joined to."""
    if isinstance(numbers, jax.Array):
        return values[numbers]
    numbers = np.asarray(numbers, dtype=int)
    flat = numbers.reshape(-1)
    if flat.size and np.array_equal(flat, flat[0] + np.arange(flat.size)):
        return values[flat[0] : flat[0] + flat.size].reshape(numbers.shape + values.shape[1:])
    if flat.size and np.all(flat == flat[0]):
        return jnp.broadcast_to(values[int(flat[0])], numbers.shape + values.shape[1:])
    return values[numbers]


def in_user_order(system: System, values):
    """`values` (nc, ...), group after group, in the order in which the contacts were added."""
    return _ordered(system.groups, values)


def in_joint_order(system: System, values):
    """`values` (nj, ...), group after group of joints, in the order in which the joints were
    added."""
    return _ordered(system.joints, values)


def _ordered(groups, values):
    return take(values, np.argsort([number for group in groups for number in group.numbers]))


def compliant(system: System) -> np.ndarray:
    """Which contacts (nc,) have a `Compliance`, in the order of `Scene.add_contact`."""
    found = np.zeros(system.contact_count, bool)
    for group in system.groups:
        found[list(group.numbers)] = group.compliance is not None
    return found


def contact_bodies(system: System) -> np.ndarray:
    """The two body numbers (nc, 2) of every contact, in the order of `Scene.add_contact`;
    `body_count` if fixed."""
    bodies = np.array([pair for group in system.groups for pair in group.bodies], dtype=int).reshape(-1, 2)
    return np.minimum(in_user_order(system, bodies), system.body_count)


def with_queries(system: System, query: Callable[[PairClass], Callable]) -> System:
    """The same with closest points by function call: `query` names the function for a pair, see
    `PairClass`."""
    groups = [dataclasses.replace(g, pair=dataclasses.replace(g.pair, query=query(g.pair))) for g in system.groups]
    return dataclasses.replace(system, groups=tuple(groups))

"""Numbers of a scene by name, to be set or differentiated by: of bodies, contacts, shapes, joints,
and the first state."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping

import jax.numpy as jnp
import numpy as np

from shapes import Shape
from shapes.closest_points.mixture import Mixture, own_parameters, unpacked
from shapes.shape_class import ShapeClass

from ..constraints.incidence import standing
from ..model.bodies import State
from ..model.system import System, in_user_order
from ..runtime.errors import BatchError

_SYSTEM = ("mass", "inertia", "gravity", "wrench", "fixed_position", "fixed_orientation")
_STATE = ("position", "orientation", "velocity")
_POSES = ("position", "orientation", "fixed_position", "fixed_orientation")
_AXES = ("e_t", "e_o", "e_r")
_OF_SOME = ("compliance", "dissipation_time", "restitution")
_CONTACTS = ("mu", *_AXES, *_OF_SOME)
SHAPE = "shape of "
_JOINTS = ("mu", "stiffness", "damping", "most", "speed")


def names(system: System) -> list[str]:
    """All that `read` and `changed` know of a system."""
    found = [*_SYSTEM, *_STATE]
    if system.groups:
        found += ["mu", *_AXES[: system.groups[0].e.shape[-1]]]
        found += [name for name in _OF_SOME if all(getattr(group, name) is not None for group in system.groups)]
    parts = {part: None for pair in system.contact_names for part in pair}
    return found + [SHAPE + part for part in parts] + list(_of_joints(system))


def numbers(name: str, value) -> np.ndarray:
    """The `value` of a parameter as an array. Raises `ValueError` for what is no numbers."""
    with contextlib.suppress(TypeError, ValueError):
        if np.asarray(value).dtype.kind in "fiuO":  # True and "1" are none, though they become floats
            return np.asarray(value, float)
    raise BatchError(f"`parameters` has {name!r} = {value!r}: give numbers, whose first axis is the scene's.")


def static_coefficients(system: System, name: str = "mu") -> np.ndarray:
    """mu_s of all contacts (nc,), or with "mu of NAME" of that joint (1,); infinite where what
    sticks has no coefficient of its own."""
    if name != "mu":
        number, place, _ = _of_joints(system)[name]
        own = system.joints[number].mu_s
        return np.array([np.inf if own is None else own[place]])
    found = np.full(system.contact_count, np.inf)
    for group in system.groups:
        if group.mu_s is not None:
            found[list(group.numbers)] = group.mu_s
    return found


def shape_class(system: System, name: str) -> ShapeClass:
    """The class of the shape whose parameters are called "shape of NAME"."""
    return _shape(system, name).shape_class


def moves_points(name: str) -> bool:
    """Whether closest points at the start depend on a parameter."""
    return name in _POSES or name.startswith(SHAPE)


def read(system: System, start: State, name: str):
    """The present value, of the shape that `changed` takes: as `System` and `State` have it; of
    contacts (nc,) in the order of `Scene.add_contact`; "shape of NAME" (k,), the parameters of a
    body's shape; of a joint "mu of NAME" () of its friction, "stiffness of NAME" and "damping of
    NAME" (r,) of an elastic one, "most of NAME" and "speed of NAME" () of a motor. Raises
    `ValueError`."""
    _known(system, name)
    if name in _SYSTEM:
        return jnp.asarray(getattr(system, name))
    if name in _STATE:
        return jnp.asarray(getattr(start, name))
    if name in _CONTACTS:
        return in_user_order(system, jnp.concatenate([_of_group(group, name) for group in system.groups]))
    if name in (of_joints := _of_joints(system)):
        group, place, field = of_joints[name]
        return jnp.asarray(getattr(system.joints[group], field))[place]
    return jnp.asarray(_shape(system, name).theta)


def changed(system: System, start: State, values: Mapping[str, object]) -> tuple[System, State]:
    """The same with other `values` by name, each of the shape that `read` gives or broadcast to it.
    Raises `ValueError`."""
    for name, value in values.items():
        value = jnp.asarray(value, float)
        if name.startswith(SHAPE):
            _known(system, name)
            system = _with_theta(system, name, value)
            continue
        value = jnp.broadcast_to(value, read(system, start, name).shape)
        if name in _SYSTEM:
            system = standing(dataclasses.replace(system, **{name: value}))
        elif name in _STATE:
            start = dataclasses.replace(start, **{name: value})
        elif name in _CONTACTS:
            system = _over_groups(system, lambda group, name=name, value=value: _with(group, name, value))
        else:
            number, place, field = _of_joints(system)[name]
            own = list(system.joints)
            values_now = jnp.asarray(getattr(own[number], field)).at[place].set(value)
            own[number] = dataclasses.replace(own[number], **{field: values_now})
            system = dataclasses.replace(system, joints=tuple(own))
    return system, start


def _with_theta(system: System, name: str, value) -> System:
    """The system with the parameters `value` (k,), or one number for all of them, of the shape that
    a `name` of the form "shape of NAME" is of."""
    groups, count = list(system.groups), None if value.size == 1 else value.size
    for number, side, place in _places(system, name):
        theta = jnp.asarray(_theta(groups[number], side))
        own = own_parameters(_kind(groups[number], side), count)
        groups[number] = dataclasses.replace(groups[number], **{f"theta_{side + 1}": theta.at[place, own].set(value)})
    return dataclasses.replace(system, groups=tuple(groups))


def _of_joints(system: System) -> dict[str, tuple[int, int, str]]:
    """Where the numbers of joints stand, by name: group, place in it, and field."""
    found = {}
    for number, group in enumerate(system.joints):
        for field in _JOINTS:
            unused = field == "mu" and group.drives
            if getattr(group, field, None) is not None and not unused:
                named = enumerate(system.joint_names[i] for i in group.numbers)
                found |= {f"{field} of {name}": (number, place, field) for place, name in named}
    return found


def _over_groups(system: System, function: Callable) -> System:
    return dataclasses.replace(system, groups=tuple(function(group) for group in system.groups))


def _of_group(group, name: str):
    return jnp.asarray(group.e)[:, _AXES.index(name)] if name in _AXES else jnp.asarray(getattr(group, name))


def _with(group, name: str, value):
    own = value[np.array(group.numbers)]
    if name in _AXES:
        return dataclasses.replace(group, e=jnp.asarray(group.e).at[:, _AXES.index(name)].set(own))
    return dataclasses.replace(group, **{name: own})


def _theta(group, side: int):
    return (group.theta_1, group.theta_2)[side]


def _kind(group, side: int) -> ShapeClass | Mixture:
    return (group.pair.first, group.pair.second)[side]


def _shape(system: System, name: str) -> Shape:
    """The shape that a `name` of the form "shape of NAME" is of."""
    number, side, place = _places(system, name)[0]
    return unpacked(_kind(system.groups[number], side), _theta(system.groups[number], side)[place])


def _places(system: System, name: str) -> list[tuple[int, int, int]]:
    """Where the parameters of a shape stand: numbers of group, side and contact."""
    part, found = name.removeprefix(SHAPE), []
    for number, group in enumerate(system.groups):
        for place, contact in enumerate(group.numbers):
            found += [(number, side, place) for side in (0, 1) if system.contact_names[contact][side] == part]
    return found


def _known(system: System, name: str) -> None:
    """Raises `ValueError` for other names, and for parameters that cannot be set."""
    if name in ("length", "acceleration", "h"):
        raise BatchError(f"`parameters` has {name!r}, which is a unit or an argument of its own: it is no parameter.")
    known = names(system)
    if name not in known:
        raise BatchError(f"`parameters` has {name!r}: of this scene there are {', '.join(known)}.")

"""What a batch is told of its scenes: numbers by name, and first states. All of it is checked
before anything is compiled, as what a scene is made of is."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import sympy

from shapes.checks import convexity
from shapes.errors import ShapeError
from shapes.shape_class import ShapeClass

from ..constraints.friction import LARGEST_MU
from ..model.bodies import State
from ..model.checks import UNIT, unit
from ..model.system import System
from ..runtime.errors import BatchError
from ..scene.reshaped import reshaped, resurfaced
from ..scene.scene import Scene
from .parameters import SHAPE, changed, numbers, read, shape_class, static_coefficients

_POSITIVE = ("mass", "most of ")  # names, or what they begin with
_NOT_NEGATIVE = (
    "mu", "e_t", "e_o", "e_r", "compliance", "dissipation_time", "restitution", "mu of ", "stiffness of ", "damping of ",
)  # fmt: skip
_ROUNDED, _SKEW = 1e-9, 1e-12  # of a principal moment; of the largest entry
_AXES = {"e_t", "e_o"}


def values_of(system: System, start: State, parameters: Mapping[str, Any], states: State | None) -> dict[str, np.ndarray]:
    """Arrays by name, all with the same first axis and, from the second on, what `scene_of` takes:
    those of `parameters.changed`, and with `states` "time". Raises `ValueError`."""
    if not isinstance(parameters, Mapping):
        raise BatchError(f"`parameters` = {parameters!r} must be a dictionary of arrays by name.")
    values = {name: numbers(name, value) for name, value in parameters.items()}
    now = {name: read(system, start, name) for name in values}
    if states is not None:
        if not isinstance(states, State):
            raise BatchError(
                f"`states` is a {type(states).__name__}: give a State of arrays with the scenes as first axis, as "
                "the `end` of a Batch."
            )
        of_states = {field.name: np.asarray(getattr(states, field.name), float) for field in dataclasses.fields(State)}
        if not of_states["time"].ndim:  # that of all
            of_states["time"] = np.broadcast_to(of_states["time"], np.shape(of_states["position"])[:1])
        both = set(of_states) & set(values)
        if both:
            raise BatchError(f"`parameters` and `states` both have {', '.join(sorted(both))}: give it once.")
        values |= of_states
        now |= {name: getattr(start, name) for name in of_states}
    if not values:
        raise BatchError("`parameters` and `states` are both empty: nothing says how many scenes there are.")
    sizes = {name: value.shape[:1] for name, value in values.items()}
    if len(set(sizes.values())) > 1 or not all(map(any, sizes.values())):
        raise BatchError(f"`parameters` and `states` have first axes {sizes}: all must be the number of scenes.")
    for name, value in values.items():
        _check(system, "parameters" if name in parameters else "states", name, value, np.shape(now[name]))
        if name.startswith(SHAPE):
            _refuse_shapes(shape_class(system, name), name, np.asarray(now[name]), value)
    if system.dimension == 3:
        values |= {name: unit(values[name]) for name in ("orientation", "fixed_orientation") if name in values}
    if system.dimension == 3 and not _AXES.isdisjoint(values):
        _refuse_undirected(
            system, *(values.get(name, np.asarray(read(system, start, name))[None]) for name in sorted(_AXES))
        )
    return values


def scene_of(system: System, start: State, values: Mapping[str, Any]) -> tuple[System, State]:
    """The scene with these `values` of `values_of`, without their first axis."""
    system, begun = changed(system, start, {name: value for name, value in values.items() if name != "time"})
    return system, dataclasses.replace(begun, time=values.get("time", begun.time))


def one_of(scene: Scene, built: tuple[System, State], values: Mapping[str, Any]) -> tuple[Scene, System, State]:
    """The scene with these `values` as a run of its own has it, and its system and state, of the
    `built` ones of `scene`; where shapes differ, with all that depends on them."""
    own, (system, begun) = shaped(scene, values), scene_of(*built, values)
    return own, system if own is scene else resurfaced(system, own), begun


def shaped(scene: Scene, values: Mapping[str, Any]) -> Scene:
    """The scene with the shapes that these `values` give it: how far bodies may overlap, and what
    passes through what, is theirs."""
    thetas = {name.removeprefix(SHAPE): value for name, value in values.items() if name.startswith(SHAPE)}
    return reshaped(scene, thetas) if thetas else scene


def filled(value: np.ndarray, count: int, shape: tuple[int, ...]) -> np.ndarray:
    """A `value` (B, ...) or (1, ...) of `count` scenes, of this `shape` in each: as it is, or one
    number in all places."""
    return np.broadcast_to(value.reshape(value.shape + (1,) * (len(shape) + 1 - value.ndim)), (count, *shape))


def _check(system: System, given: str, name: str, value: np.ndarray, shape: tuple[int, ...]) -> None:
    """Raises `ValueError` for a `value` (B, ...) of those `given` that no scene could have, where
    the one of a scene has this `shape`."""

    def refuse(bad, asked: str, of: np.ndarray = value) -> None:
        if np.any(bad):
            at = tuple(np.argwhere(bad)[0])
            raise BatchError(f"`{given}` has {name!r} = {of[at]:.6g} in scene {at[0]}: it must be {asked}.")

    refuse(~np.isfinite(value), "finite")
    if value.shape[1:] not in ((), shape):
        raise BatchError(f"`{given}` has {name!r} of shape {value.shape[1:]} a scene: it must be () or {shape}.")
    if _among(name, _POSITIVE):
        refuse(value <= 0, "above 0")
    if _among(name, _NOT_NEGATIVE):
        refuse(value < 0, "0 or more")
    if name == "restitution":
        refuse(value > 1, "in [0, 1]")
    if name == "mu":
        refuse(value > LARGEST_MU, f"no more than {LARGEST_MU:g}, beyond which friction has no digits left")
    if name == "mu" or name.startswith("mu of "):
        most = static_coefficients(system, name)
        each = np.broadcast_to(value.reshape(len(value), -1), (len(value), len(most)))
        refuse(each > most, "no more than the `mu_s` of its contact or joint", each)
    if name.startswith(SHAPE):
        above = [bool(symbol.is_positive) for symbol in shape_class(system, name).parameters]
        sizes = np.broadcast_to(value.reshape(len(value), -1), (len(value), len(above)))
        refuse((sizes <= 0) & above, "above 0", sizes)
    full = filled(value, len(value), shape)
    if name in ("orientation", "fixed_orientation") and system.dimension == 3:
        length = np.linalg.norm(full, axis=-1)
        refuse(abs(length - 1) > UNIT, "the length of a unit quaternion, w first", length)
    if name == "inertia":
        skew = abs(full - np.swapaxes(full, -1, -2))
        refuse(skew > _SKEW * np.max(abs(full), axis=(-1, -2), keepdims=True), "an entry of a symmetric matrix", full)
        moments = np.linalg.eigvalsh((full + np.swapaxes(full, -1, -2)) / 2)
        refuse(moments[..., 0] <= 0, "a matrix with principal moments above 0", moments[..., 0])
        if system.dimension == 3:
            beyond = moments[..., 2] > (moments[..., 0] + moments[..., 1]) * (1 + _ROUNDED)
            refuse(beyond, "a matrix of which no principal moment exceeds the sum of the others", moments[..., 2])


def _refuse_shapes(kind: ShapeClass, name: str, now: np.ndarray, value: np.ndarray) -> None:
    """Raises `ValueError` for parameters `value` (B, k) or (B,) of a shape with which it is none.
    Sampled, which takes its time, are the scenes alone that have the least or the largest of a
    number; and no shapes of which every size makes one, or that nobody sampled as they are `now`
    (k,)."""
    thetas = filled(value, len(value), now.shape)
    for bound in kind.above:
        left = sympy.lambdify(kind.parameters, bound)(*thetas.T)
        if np.any(left <= 0):
            scene = int(np.argmax(left <= 0))
            raise BatchError(
                f"`parameters` has {name!r} = {thetas[scene].tolist()} in scene {scene}: {bound} of {kind.name} must be "
                "above 0."
            )
    if kind.closed_form is not None and all(symbol.is_positive for symbol in kind.parameters):
        return
    try:
        convexity.check(kind, now)
    except ShapeError:
        return
    for scene in dict.fromkeys([*np.argmin(thetas, axis=0).tolist(), *np.argmax(thetas, axis=0).tolist()]):
        try:
            convexity.check(kind, thetas[scene])
        except ShapeError as error:
            raise BatchError(f"`parameters` has {name!r} = {thetas[scene].tolist()} in scene {scene}: {error}") from error


def _refuse_undirected(system: System, across: np.ndarray, along: np.ndarray) -> None:
    """Raises `ValueError` for semi-axes e_o `across` and e_t `along` (B, nc), or what is broadcast
    to it, that differ in a contact to which no direction is given."""
    undirected = np.zeros(system.contact_count, bool)
    for group in system.groups:
        undirected[list(group.numbers)] = ~np.any(group.direction, axis=1)
    e_o, e_t, undirected = np.broadcast_arrays(*(a.reshape(len(a), -1) for a in (across, along)), undirected)
    bad = np.argwhere((e_t != e_o) & undirected)
    if len(bad):
        scene, contact = bad[0]
        raise BatchError(
            f"`parameters` has 'e_t' = {e_t[scene, contact]:.6g} in scene {scene}, which differs from 'e_o' = "
            f"{e_o[scene, contact]:.6g}: give {' and '.join(system.contact_names[contact])} a FrictionEllipsoid with "
            "`direction`, the t axis in body 1's frame."
        )


def _among(name: str, names: tuple[str, ...]) -> bool:
    """Whether a name is one of these, or begins with one that ends with a blank."""
    return any(name == one or (one.endswith(" ") and name.startswith(one)) for one in names)

"""Where functions of time jump: loads that chosen steps must end at, and motions that nothing can
follow."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints import kinematics
from ..model.bodies import State
from ..model.system import System
from ..runtime.errors import JumpError

_SAMPLES, _SUSPECTS, _HALVINGS = 2048, 4, 40  # in time
_JUMP = 1e-6  # of a function's range, over a time of 2^-40 of a sample: no continuous one does
_SOON = 1e3  # of the spacing of times: after a switch, where no smooth motion has changed
_KINK, _SLOW = 1e-4, 1e-6  # of the fastest rate, and of what is one in the scene: rates that are one
_WITHIN = 32  # times between two switches at which rates are looked at


def refuse_jumps(system: System, state: State, end: float, switches: Sequence[float] = ()) -> None:
    """Raises `ValueError` for a joint whose motion jumps between the time of `state` and `end` [s],
    or goes on from one of the `switches` [s] at another rate than it has there."""
    state = jax.tree.map(np.asarray, state)
    for group in jax.tree.map(np.asarray, system.joints):  # of which parts are taken one by one
        motions = kinematics.motions_of(system, state, group)
        for i, number in enumerate(group.numbers):
            member, *own = jax.tree.map(lambda a, i=i: a[i], (group, *motions))
            here = member, [(motion.position, motion.orientation) for motion in own]
            leaves, structure = jax.tree.flatten(here)
            if not group.closures or not _depends(structure, tuple(map(jnp.shape, leaves))):
                break  # nor do those that are alike
            jump = jump_of(jax.jit(jax.vmap(functools.partial(_told, here))), float(state.time), end, np.zeros(0))
            least = _SLOW * float(np.sqrt(system.acceleration * system.length))
            kink = kink_of(functools.partial(_told, here), float(state.time), end, switches, least)
            if kink is not None:
                raise JumpError(
                    f"the motion of joint {system.joint_names[number]!r} has another rate at its switch t = {kink:.9g} s "
                    "than right after it, as where JAX takes the mean of both sides: write it as jnp.where(t < switch, "
                    "before, after)."
                )
            if jump is not None:
                raise JumpError(
                    f"the motion of joint {system.joint_names[number]!r} jumps at t = {jump:.9g} s, which no velocity "
                    "follows: make it continuous."
                )


def kink_of(function: Callable, start: float, end: float, switches: Sequence[float], least: float) -> float | None:
    """The first of the `switches` [s] between two times at which `function`, of a time, has another
    derivative than right after it, by `least` or more."""
    times = np.array([float(t) for t in switches if start < t < end])
    if not times.size:
        return None
    rates = jax.jit(jax.vmap(lambda time: jax.jvp(function, (time,), (jnp.ones(()),))[1]))
    after = times + _SOON * np.spacing(max(abs(start), abs(end)))
    edges = np.unique([start, *times, end])
    within = np.linspace(edges[:-1], edges[1:], _WITHIN + 2)[1:-1].reshape(-1)
    found = np.asarray(rates(jnp.asarray(np.concatenate([times, after, within]))))
    at, soon, _ = np.split(found, [len(times), 2 * len(times)])
    kinks = np.max(np.abs(soon - at), axis=1) > max(_KINK * np.max(np.abs(found)), least)
    return float(times[np.argmax(kinks)]) if np.any(kinks) else None


def without_value(system: System, state: State, spans) -> str:
    """What to say of the first wrench of a body that is not finite in `state`, or `spans` (k,) [s]
    after it; nothing where all are."""
    moving = [jnp.asarray(a) for a in (state.position, state.orientation, state.velocity)]
    for time in float(state.time) + np.asarray([0.0, *spans]):
        for name, function, *own in zip(system.names, system.wrench_functions, *moving, strict=False):
            load = np.zeros(1) if function is None else _load(function, jnp.asarray(time), *own)
            if load is None or not np.all(np.isfinite(load)):
                told = "has no value" if load is None else f"is {load.tolist()}"
                return f"the wrench of {name!r} {told} at t = {time:.9g} s: it must be finite there."
    return ""


def _load(function: Callable, *at) -> np.ndarray | None:
    """What a user's function gives, None where it raises."""
    try:
        return np.asarray(function(*at))
    except Exception:  # noqa: BLE001, of any type: an error of a step that is lost must be told all the same
        return None


def _told(here, time):
    """Of a joint and the poses of its bodies: its equations (2 r,) at a `time` [s], without the
    coordinate that friction acts along; angles are told up to whole turns."""
    member, poses = here
    found, angles = member.equations(*poses, time)[: member.closures], np.array(member.angles, bool)
    return jnp.concatenate([jnp.where(angles, jnp.cos(found), found), jnp.where(angles, jnp.sin(found), 0.0)])


@functools.lru_cache(maxsize=256)
def _depends(structure: Any, shapes: tuple[tuple[int, ...], ...]) -> bool:
    """Whether the equations of a joint, of this `structure` with leaves of these `shapes`, depend
    on time: a trace that takes as long as many steps, and says the same of every run."""
    leaves = [jax.ShapeDtypeStruct(shape, float) for shape in shapes]
    traced = jax.make_jaxpr(lambda leaves, time: _told(structure.unflatten(leaves), time))(leaves, 0.0).jaxpr
    return any(traced.invars[-1] is used for equation in traced.eqns for used in equation.invars)


def jump_of(function: Callable, start: float, end: float, known: np.ndarray) -> float | None:
    """A time [s] at which `function` jumps, of times (n,), other than those `known`."""
    # those before and after it are no edges: between far ones all changes are large
    edges = np.union1d(np.linspace(start, end, _SAMPLES), known[(start <= known) & (known <= end)])
    # a known jump is at the edge of an interval, on one of its two sides
    nudge = 1e-12 * max(abs(start), abs(end))
    left, right = edges[:-1] + nudge, edges[1:] - nudge
    values = np.asarray(function(jnp.asarray(np.concatenate([left, right]))))
    change = np.max(np.abs(values[len(left) :] - values[: len(left)]), axis=1)
    worst = np.argsort(change)[-_SUSPECTS:]
    left, right = left[worst], right[worst]
    for _ in range(_HALVINGS):
        middle = (left + right) / 2
        low, mid, high = (np.asarray(function(jnp.asarray(t))) for t in (left, middle, right))
        first = np.max(np.abs(mid - low), axis=1) > np.max(np.abs(high - mid), axis=1)
        left, right = np.where(first, left, middle), np.where(first, middle, right)
    last = np.max(np.abs(np.asarray(function(jnp.asarray(right))) - np.asarray(function(jnp.asarray(left)))), axis=1)
    found = int(np.argmax(last))
    return float(right[found]) if last[found] > _JUMP * np.ptp(values) > 0 else None

"""What joints and rebounds ask of a run before it begins: a stepper that knows them, and poses and
velocities that joints allow."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints import joint_rows
from ..model import bodies
from ..model.bodies import State
from ..model.system import System
from ..radau.refusals import refuse_limits
from ..runtime.compilation import jit
from ..runtime.errors import AccuracyWarning, OpenJointError, StepperError
from ..stepping.stepper import Stepper, refuse_joints, refuse_rebounds, refuse_static_friction
from .overlaps import users_line

_ROUNDED = 1e-6  # of the fastest speed: less is a matter of rounded input
_AT_ONCE = 256  # scenes


def check_joints(stepper: Stepper, system: System, state: State, fixed: bool, h: float = 0.0) -> None:
    """Raises `ValueError` for what `check_stepper` refuses, and for a `state` whose joints are
    open, or would be torn by its velocities; by more than steps of first order of `h` [s], at whose
    ends positions hold, leave, if it may be one that such a run left."""
    check_stepper(stepper, system, fixed)
    if system.joints:
        _refuse(stepper, system, jax.tree.map(lambda a: np.asarray(a)[None], _misfits(system, state)), h)


def check_stepper(stepper: Stepper, system: System, fixed: bool) -> None:
    """Raises `ValueError` for a stepper without joints or static friction that the scene has, and
    for limits in steps of one length that cannot meet them (`fixed`). Warns of a stepper to which
    joints bring energy."""
    if fixed or not stepper.can.adaptive:
        refuse_static_friction(stepper, system)
    _check_rebounds(stepper, system, fixed)
    if not system.joints:
        return
    refuse_joints(stepper, system)
    if stepper.can.gains_by_joints:
        warnings.warn(
            f"`stepper` = {stepper!r} moves bodies by other velocities than those that joints allow, and so gains energy as "
            'they turn, the more the longer its steps: take scheme="symplectic".',
            AccuracyWarning,
            stacklevel=users_line(),
        )
    if stepper.can.adaptive and fixed:
        refuse_limits(system)


def check_each(stepper: Stepper, system: System, of: Callable, values: Mapping[str, np.ndarray], h: float = 0.0) -> None:
    """Raises `ValueError` for the first of many scenes, `of`(values) each, whose joints its state
    does not fit, as `check_joints` does. `values` have their number as first axis."""
    if not system.joints:
        return
    each = jax.jit(jax.vmap(lambda own: _misfits(*of(own))))
    count = len(next(iter(values.values())))
    for first in range(0, count, _AT_ONCE):
        index = np.minimum(np.arange(first, first + _AT_ONCE), count - 1)
        found = each({name: value[index] for name, value in values.items()})
        _refuse(stepper, system, jax.tree.map(np.asarray, found), h, first)


def misfit(stepper: Stepper, system: System, state: State, h) -> jax.Array:
    """Whether () a run by steps of h [s] would be refused for the joints of its first `state`;
    anything may be traced."""
    found = _misfits(system, state)
    torn, ajar = _allowed(stepper, system, found, h)
    fits = (jnp.max(found.torn, initial=0.0) <= torn) & (jnp.max(found.open, initial=0.0) <= ajar)
    return ~fits


def _allowed(stepper: Stepper, system: System, found: _Misfits, h) -> tuple:
    """By how much joints may be torn [m/s] and open [m] where a run begins; of scenes with a first
    axis, for each."""
    fast = found.fastest + found.spin * system.length
    torn, ajar = _ROUNDED * (fast + (system.length * system.acceleration) ** 0.5), _ROUNDED * system.length + 0 * fast
    if not stepper.can.adaptive:  # what methods that open joints leave may go on by one that closes them
        grows = system.acceleration + fast * found.spin
        torn, ajar = torn + h * grows, ajar + h**2 * grows
    return torn, ajar


def _refuse(stepper: Stepper, system: System, found: _Misfits, h: float, first: int | None = None) -> None:
    """Raises `ValueError` for what is `found`, with a first axis, of scenes that are numbered from
    the `first` on, or of the one scene of a run."""
    allowed, ajar = _allowed(stepper, system, found, h)
    for i in np.flatnonzero(~(np.max(found.torn, axis=1, initial=0.0) <= allowed)):
        name, worst = _worst(system, found.torn[i])
        raise OpenJointError(
            f"{_scene(first, i)}joint {name!r} would be torn at {worst:.3g} m/s by the velocities at the start: give "
            "its bodies velocities with which its points and axes stay together."
        )
    if not stepper.can.closes_joints:
        return  # others leave what they close with the next step
    for i in np.flatnonzero(~(np.max(found.open, axis=1, initial=0.0) <= ajar)):
        name, worst = _worst(system, found.open[i])
        raise OpenJointError(
            f"{_scene(first, i)}joint {name!r} is open by {worst:.3g} m at the start: give its bodies a time and poses at "
            "which its points and axes are together."
        )


def _worst(system: System, sizes: np.ndarray) -> tuple[str, float]:
    """The name of the joint with the largest of the `sizes` (R,), or one that is not a number, and
    that."""
    worst = int(np.argmax(np.where(np.isnan(sizes), np.inf, sizes)))
    return _names(system)[worst], float(sizes[worst])


def _scene(first: int | None, i: int) -> str:
    return "" if first is None else f"scene {first + i}: "


def _check_rebounds(stepper: Stepper, system: System, fixed: bool) -> None:
    """Raises `ValueError` for rebounds that a run by the `stepper` does not know."""
    faces = any(not group.pair.smooth for group in system.groups)
    if stepper.can.sequential and not stepper.can.rebounds and (fixed or faces):
        raise StepperError(
            "`impacts` = 'sequential' needs impacts as events and bodies without faces: give `tol` in place of `h`, and "
            "bodies of one smooth inequality each, or leave it out."
        )
    if not fixed:
        return
    if not stepper.can.rebounds:
        refuse_rebounds(system)
    elif stepper.can.sequential and faces and any(group.restitution is not None for group in system.groups):
        raise StepperError("`impacts` = 'sequential' needs bodies of one smooth inequality each: leave it out.")


class _Misfits(NamedTuple):
    """By how much the joints of a state are `torn` (R,) [m/s], |G V + g_t|, and `open` (R,) [m],
    |g|, joint after joint of every group; the `fastest` () [m/s] and the `spin` () [rad/s] of its
    bodies."""

    torn: jax.Array
    open: jax.Array
    fastest: jax.Array
    spin: jax.Array


@functools.partial(jit, once=True)
def _misfits(system: System, state: State) -> _Misfits:
    rows = joint_rows.joint_rows(system, state, bodies.mass_matrices(system, state))
    rates = rows.matrix @ state.velocity.reshape(-1) + joint_rows.targets(system, state, rows, 0.0)
    linear, spins = jnp.split(abs(state.velocity), [system.dimension], axis=1)
    closures = joint_rows.closures(system, state, rows)
    return _Misfits(abs(rates), abs(closures), jnp.max(linear, initial=0.0), jnp.max(spins, initial=0.0))


def _names(system: System) -> list[str]:
    """Of every row of `_Misfits`."""
    numbers = [number for group in joint_rows.rigid(system) for number in group.numbers for _ in group.angles]
    return [system.joint_names[number] for number in numbers]

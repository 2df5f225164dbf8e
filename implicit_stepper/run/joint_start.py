"""What joints and rebounds ask of a run before it begins: a stepper that knows them, and velocities
that joints allow."""

from __future__ import annotations

import functools

import jax
import numpy as np

from ..constraints import joint_rows
from ..constraints.joint_limits import limit_names, limits
from ..implicit_euler.geometrically_implicit import GeometricallyImplicit
from ..model import bodies
from ..model.bodies import State
from ..model.system import System
from ..radau.radau_contact import RadauContact
from ..runtime.compilation import jit
from ..runtime.errors import OpenJointError, StepperError
from ..stepping.stepper import Stepper, refuse_joints, refuse_rebounds, refuse_static_friction

_ROUNDED = 1e-6  # of the fastest speed: less is a matter of rounded input


def check_joints(stepper: Stepper, system: System, state: State, fixed: bool, h: float = 0.0) -> None:
    """Raises `ValueError` for a stepper without joints or static friction that the scene has, for
    limits in steps of one length that cannot meet them (`fixed`), and for a `state` whose
    velocities would tear a joint; by more than steps of first order of `h` [s], at whose ends
    positions hold, leave, if it may be one that such a run left."""
    if fixed or not isinstance(stepper, RadauContact):
        refuse_static_friction(stepper, system)
    _check_rebounds(stepper, system, fixed)
    if not system.joints:
        return
    refuse_joints(stepper, system)
    if isinstance(stepper, RadauContact) and stepper.stages > 1 and fixed and limits(system):
        raise StepperError(
            f"a step of several stages holds no impact, and {limit_names(system)[0]!r} may be met in one: give `tol` in "
            "place of `h`, or take GeometricallyImplicit."
        )
    torn = np.asarray(_torn(system, state))
    fastest = np.max(np.abs(np.asarray(state.velocity)[:, : system.dimension]), initial=0.0)
    spin = np.max(np.abs(np.asarray(state.velocity)[:, system.dimension :]), initial=0.0)
    length = float(system.length)
    allowed = _ROUNDED * (fastest + spin * length + float(np.sqrt(length * system.acceleration)))
    if getattr(stepper, "stages", 1) == 1:
        allowed += h * (float(system.acceleration) + (fastest + spin * length) * spin)
    if not np.max(torn, initial=0.0) <= allowed:
        worst = int(np.argmax(np.where(np.isnan(torn), np.inf, torn)))
        raise OpenJointError(
            f"joint {_names(system)[worst]!r} would be torn at {torn[worst]:.3g} m/s by the velocities at the start: give "
            "its bodies velocities with which its points and axes stay together."
        )


def _check_rebounds(stepper: Stepper, system: System, fixed: bool) -> None:
    """Raises `ValueError` for rebounds that a run by the `stepper` does not know."""
    faces = any(not group.pair.smooth for group in system.groups)
    if isinstance(stepper, RadauContact) and stepper.impacts == "sequential" and (fixed or faces):
        raise StepperError(
            "`impacts` = 'sequential' needs impacts as events and bodies without faces: give `tol` in place of `h`, and "
            "bodies of one smooth inequality each, or leave it out."
        )
    if not fixed:
        return
    if not isinstance(stepper, GeometricallyImplicit):
        refuse_rebounds(system)
    elif stepper.impacts == "sequential" and faces and any(group.restitution is not None for group in system.groups):
        raise StepperError("`impacts` = 'sequential' needs bodies of one smooth inequality each: leave it out.")


@functools.partial(jit, once=True)
def _torn(system: System, state: State) -> jax.Array:
    """|G V + g_t| (R,) [m/s], joint after joint of every group."""
    rows = joint_rows.joint_rows(system, state, bodies.mass_matrices(system, state))
    return abs(rows.matrix @ state.velocity.reshape(-1) + joint_rows.targets(system, state, rows, 0.0))


def _names(system: System) -> list[str]:
    """Of every row of `_torn`."""
    numbers = [number for group in joint_rows.rigid(system) for number in group.numbers for _ in group.angles]
    return [system.joint_names[number] for number in numbers]

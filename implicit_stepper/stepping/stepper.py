"""The protocol of every time-stepper.

A stepper is a frozen dataclass of settings with `init(system, state) -> memory` (its private warm
start) and `step(system, state, memory, h) -> StepResult`. Both are pure JAX functions, so they can
be jitted, scanned, `vmap`ped and `shard_map`ped, and those of `GeometricallyImplicit`
differentiated (see `entry_point`); h is an argument, so a step can be repeated with a smaller one.
`certificate` tells from the result alone how far a step violates the stepper's own equations. A
step that is not solved says so in its `result`; `restarts` then offers other memories to start the
same step from. That runs on the host, outside the compiled loop (see `fallback`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Protocol, runtime_checkable

import jax

from shapes.shards import varying_like

from ..constraints.detection import closest_points
from ..model.bodies import State
from ..model.records import Contacts, StepResult
from ..model.system import System
from ..runtime.compilation import jit
from ..runtime.errors import NoDerivativeError, StepperError
from .capabilities import Capabilities

SHORTER = "shorter steps"  # in the place of a start, before those that cost more


@jax.custom_jvp
def _as_constants(arguments):
    return arguments


@_as_constants.defjvp
def _no_derivatives(*_):
    raise NoDerivativeError(
        "a step of this stepper has no derivatives yet: its solver's iterations have, but nothing holds these to the "
        "equations of the step, and they may be wrong. Take GeometricallyImplicit, whose steps have derivatives, or finite "
        "differences of `step`; where it is to count as a constant, give it jax.lax.stop_gradient of its arguments."
    )


def refuse_joints(stepper: Stepper, system: System) -> None:
    """Raises `ValueError` where a `system` has joints, or laws of joints, that the `stepper` does
    not know."""
    if system.joints and not stepper.can.joints:
        names = ", ".join(map(repr, system.joint_names))
        raise StepperError(
            f"`stepper` = {stepper!r} knows no joints, and the scene has {names}: take GeometricallyImplicit, RadauContact, "
            "ConeComplementarity, Linearized, Convex or Explicit."
        )
    if stepper.can.joint_laws:
        return
    for group in system.joints:
        law = _law_of(group)
        if law is not None:
            raise StepperError(
                f"`stepper` = {stepper!r} knows of joints what they hold, and no {law}, which "
                f"{system.joint_names[group.numbers[0]]!r} has: take GeometricallyImplicit or RadauContact."
            )


def _law_of(group) -> str | None:
    """What a group of joints has beside closures and springs, None of those that have nothing."""
    if group.unilateral:
        return "limits"
    if group.holds_velocities:
        return "constraints on velocities"
    if group.elastic and group.stiffness is None:
        return "loads of a user's own"
    if group.mu is not None:
        return "motors" if group.drives else "friction"
    return None


def refuse_rebounds(system: System) -> None:
    """Raises `ValueError` for contacts with a restitution."""
    rebounds = [group for group in system.groups if group.restitution is not None]
    if rebounds:
        pair = " and ".join(system.contact_names[rebounds[0].numbers[0]])
        raise StepperError(
            f"{pair} have a `restitution`, which only runs of `simulate` know, by GeometricallyImplicit() or by "
            "RadauContact() with `tol`, and `rollout` by the former: take one of these, or leave it out."
        )


def refuse_static_friction(stepper: Stepper, system: System) -> None:
    """Raises `ValueError` where a `system` has a `mu_s` that the `stepper` does not know."""
    if not system.sticks_more or stepper.can.static_friction:
        return
    with_it = [group.numbers[0] for group in system.groups if group.mu_s is not None]
    joints = [system.joint_names[group.numbers[0]] for group in system.joints if group.mu_s is not None]
    refuse_second_coefficient(stepper, " and ".join(system.contact_names[with_it[0]]) if with_it else f"joint {joints[0]!r}")


def refuse_second_coefficient(stepper: Stepper, where: str) -> None:
    """Raises `ValueError` for a `mu_s` of a pair or a joint, told by `where`, that the `stepper`
    does not know."""
    raise StepperError(
        f"`stepper` = {stepper!r} has one coefficient of friction in steps of given length, and {where} a `mu_s` of its own "
        "for what sticks: take GeometricallyImplicit, or RadauContact with `tol`, or leave `mu_s` out."
    )


def entry_point(method: Callable, *, differentiable: bool = False) -> Callable:
    """Decorator of a stepper's `init` and `step`, which users put into programs of their own:
    unless they are `differentiable`, derivatives raise `NotImplementedError`; joints and static
    friction that the stepper does not know, and rebounds, of which no step of given length knows,
    raise `ValueError`; under `shard_map`, arguments and results all vary between devices if one
    argument does, so that loops can carry them."""

    @functools.wraps(method)
    def call(self, *arguments, **named):
        system = arguments[0] if arguments else named["system"]
        refuse_joints(self, system)
        refuse_static_friction(self, system)
        refuse_rebounds(system)
        given = (arguments, named) if differentiable else _as_constants((arguments, named))
        arguments, named = varying_like(given, given)
        return varying_like(method(self, *arguments, **named), given)

    return call


@runtime_checkable
class Stepper(Protocol):
    """What `simulate` needs of a time-stepper. `rungs` names its starts, the warm one first."""

    rungs: ClassVar[tuple[str, ...]]

    @property
    def can(self) -> Capabilities:
        """What it knows; a constant of the class will do."""

    def init(self, system: System, state: State, closest: tuple | None = None) -> Any:
        """Memory before the first step. `closest`: what `closest_points` finds, or None to find it
        here."""

    def step(self, system: System, state: State, memory: Any, h) -> StepResult:
        """One step of h [s]."""

    def certificate(self, system: System, before: State, after: State, contacts: Contacts, h) -> dict[str, jax.Array]:
        """Violations by name, each an array over bodies or contacts, dimensionless, zero when its
        equation holds."""

    def predicted_gap(self, contacts: Contacts, mu, h) -> jax.Array:
        """The gap (..., nc) [m] at which the stepper's own equations hold contacts that carry, to
        first order in h: 0 where they are exact. `mu` (nc,)."""

    def restarts(self, system: System, state: State, memory: Any, h) -> Iterable[tuple[str, Any]]:
        """Names out of `rungs` and memories from which to try a step again that `step` did not
        solve, in that order; `SHORTER` and None where shorter steps are worth a try."""


def begin(stepper: Stepper, system: System, state: State) -> Any:
    """`stepper.init`, compiled, with closest points from programs that all steppers and scenes
    share: they take the longest."""
    return init(stepper, system, state, closest_points(system, state))


@functools.partial(jit, static_argnums=0, once=True)
def init(stepper: Stepper, system: System, state: State, closest) -> Any:
    """`stepper.init` as a program."""
    return stepper.init(system, state, closest)

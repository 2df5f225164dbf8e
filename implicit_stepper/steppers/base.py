"""The protocol of every time-stepper.

A stepper is a frozen dataclass of settings with `init(system, state) -> memory` (its private warm start) and
`step(system, state, memory, h) -> StepResult`. Both are pure JAX functions, so they can be jitted, scanned and `vmap`ped; h
is an argument, so a step can be repeated with a smaller one. `certificate` tells from the result alone how far a step
violates the stepper's own equations. A step that is not solved says so in its `result`; `restarts` then offers other
memories to start the same step from. That runs on the host, outside the compiled loop (see `ladder`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, ClassVar, Protocol, runtime_checkable

import jax

from ..bodies import State
from ..compilation import jit
from ..records import Contacts, StepResult
from ..starts import cold_closest
from ..system import System


@runtime_checkable
class Stepper(Protocol):
    """What `simulate` needs of a time-stepper. `rungs` names its starts, the warm one first."""

    rungs: ClassVar[tuple[str, ...]]

    def init(self, system: System, state: State, closest: tuple | None = None) -> Any:
        """Memory before the first step. `closest`: what `closest_points` finds, or None to find it here."""

    def step(self, system: System, state: State, memory: Any, h) -> StepResult:
        """One step of h [s]."""

    def certificate(self, system: System, before: State, after: State, contacts: Contacts, h) -> dict[str, jax.Array]:
        """Violations by name, each an array over bodies or contacts, dimensionless, zero when its equation holds."""

    def predicted_gap(self, contacts: Contacts, mu, h) -> jax.Array:
        """The gap (..., nc) [m] at which the stepper's own equations hold contacts that carry, to first order in h: 0 where
        they are exact. `mu` (nc,)."""

    def restarts(self, system: System, state: State, memory: Any, h) -> Iterable[tuple[str, Any]]:
        """Names out of `rungs` and memories from which to try a step again that `step` did not solve, in that order."""


def begin(stepper: Stepper, system: System, state: State) -> Any:
    """`stepper.init`, compiled, with closest points from a program that all steppers share: it takes the longest."""
    return init(stepper, system, state, closest_points(system, state))


@functools.partial(jit, static_argnums=0, once=True)
def init(stepper: Stepper, system: System, state: State, closest) -> Any:
    """`stepper.init` as a program."""
    return stepper.init(system, state, closest)


@functools.partial(jit, once=True)
def closest_points(system: System, state: State) -> tuple:
    """Per group, closest-point unknowns (nc, unknowns) in long form, found without a hint."""
    return tuple(cold_closest(system, state))

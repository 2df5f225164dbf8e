"""The protocol of every time-stepper, and what one step returns.

A stepper is a frozen dataclass of settings with `init(system, state) -> memory` (its private warm start) and
`step(system, state, memory, h) -> StepResult`. Both are pure JAX functions, so they can be jitted, scanned and `vmap`ped; h
is an argument, so a step can be repeated with a smaller one. A step that is not solved says so in its `result`; `restarts`
then offers other memories to start the same step from. That runs on the host, outside the compiled loop (see `ladder`).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any, ClassVar, Protocol, runtime_checkable

import jax

from ..bodies import State
from ..compilation import jit
from ..system import System


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Contacts:
    """All contacts at the end of a step, in the order of `Scene.add_contact`; d = 3 or 2, k = 3 or 1; inertial frame.

    normal_impulse (nc,) [N s]; friction_impulse (nc, k): p_t, p_o [N s] along `tangent` t and o = n x t, and p_r [N m s]
    about n; gap (nc,) [m] and gap_start (nc,), that at the start of the step; slip (nc, k): v_t, v_o [m/s], v_r [rad/s] of
    body 2 against body 1; sigma (nc,) [m/s], the norm of (e_t v_t, e_o v_o, e_r v_r); point_1, point_2, normal, tangent
    (nc, d); multipliers_1, multipliers_2 (nc, m): the weights l_j >= 0 with normal = sum l_j grad f_j(point_1) = - sum l_j
    grad g_j(point_2), Chakraborty (20)-(22), zero for inactive inequalities and beyond a shape's own number of them; of
    rounded bodies at their cores' points.
    """

    normal_impulse: jax.Array
    friction_impulse: jax.Array
    gap: jax.Array
    gap_start: jax.Array
    slip: jax.Array
    sigma: jax.Array
    point_1: jax.Array
    point_2: jax.Array
    normal: jax.Array
    tangent: jax.Array
    multipliers_1: jax.Array
    multipliers_2: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Stats:
    """Cost and quality of a step: iterations () (Jacobians, over all starts and rungs), residual () (largest |F_i|,
    dimensionless), rung () (which of `Stepper.rungs` solved it; their number where it took sub-steps), substeps () (1, or
    how many shorter steps were taken in its place)."""

    iterations: jax.Array
    residual: jax.Array
    rung: jax.Array
    substeps: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class StepResult:
    """What a step returns: the new state, the memory for the next step, contacts, stats and a `results.Result` number ()."""

    state: State
    memory: Any
    contacts: Contacts
    stats: Stats
    result: jax.Array


@runtime_checkable
class Stepper(Protocol):
    """What `simulate` needs of a time-stepper. `rungs` names its starts, the warm one first."""

    rungs: ClassVar[tuple[str, ...]]

    def init(self, system: System, state: State) -> Any:
        """Memory before the first step."""

    def step(self, system: System, state: State, memory: Any, h) -> StepResult:
        """One step of h [s]."""

    def restarts(self, system: System, state: State, memory: Any, h) -> Iterable[tuple[str, Any]]:
        """Names out of `rungs` and memories from which to try a step again that `step` did not solve, in that order."""


@functools.partial(jit, static_argnums=0)
def begin(stepper: Stepper, system: System, state: State) -> Any:
    """`stepper.init`, compiled."""
    return stepper.init(system, state)

"""Radau IIA with the whole contact NCP at every stage: order five with hard contact, and one stage
is the paper's scheme."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from shapes.arguments import positive

from ..constraints.detection import cold_closest
from ..constraints.friction import FRICTION_ROWS
from ..implicit_euler.geometrically_implicit import GeometricallyImplicit
from ..model import checks
from ..model.bodies import State
from ..model.records import Contacts, StepResult
from ..model.system import System
from ..runtime.compilation import jit
from ..stepping.capabilities import Capabilities
from ..stepping.stepper import entry_point, init
from . import euler_starts, impact, stage_records
from .memory import Memory, steady
from .refusals import refuse_limits
from .stage_certificate import stage_certificate
from .stage_step import attempt, free_task, no_factors


@dataclasses.dataclass(frozen=True, kw_only=True)
class RadauContact:
    """`stages` 3, 2 or 1: order 5, 3 or 1 in position and velocity as long as no contact changes
    its mode, see `stages`.

    With `simulate(..., h=h)` steps have one length; those that an impact falls into are refused,
    solved or not. With `simulate(..., tol=tol)` h is chosen and steps end on events: see
    `adaptive`. Compliant contacts have no impacts, and obey S (3) at every stage. `tolerance`
    bounds every residual (dimensionless; 1e-8 to 1e-12), on top of what round-off leaves;
    `max_iterations` the Jacobians of a start; `friction` as in `GeometricallyImplicit`, which is
    what `stages=1` is. With `tol`, what meets at one time meets at once, or with
    `impacts="sequential"` pair after pair, the fastest first. Raises `ValueError` naming the
    argument."""

    rungs: ClassVar[tuple[str, ...]] = (
        "warm start", "forces at the start", "implicit Euler from stage to stage", *GeometricallyImplicit.rungs[1:]
    )  # fmt: skip

    stages: int = 3
    tolerance: float = 1e-12
    max_iterations: int = 40
    friction: str = "projection"
    impacts: str = "simultaneous"

    def __post_init__(self):
        checks.one_of("stages", self.stages, (1, 2, 3))
        positive("tolerance", self.tolerance)
        checks.count("max_iterations", self.max_iterations)
        checks.one_of("friction", self.friction, FRICTION_ROWS)
        checks.one_of("impacts", self.impacts, ("simultaneous", "sequential"))

    @property
    def one_stage(self) -> GeometricallyImplicit:
        """The method of one stage with the same settings."""
        names = ("tolerance", "max_iterations", "friction", "impacts")
        return GeometricallyImplicit(**{name: getattr(self, name) for name in names})

    @property
    def can(self) -> Capabilities:
        """With several stages it chooses its steps, of which shorter ones stand for none: they
        would leave another polynomial inside the step."""
        several = self.stages > 1
        return Capabilities(
            joints=True,
            joint_laws=True,
            compliance=True,
            closes_joints=True,
            keeps_gaps=True,
            sequential=self.impacts == "sequential",
            adaptive=several,
            divisible=not several,
            differentiable=several,
        )

    @entry_point
    def init(self, system: System, state: State, closest: tuple | None = None) -> Any:
        """The forces that contacts need in `state`, and constant accelerations."""
        if self.stages == 1:
            return self.one_stage.init(system, state, closest)
        closest = tuple(cold_closest(system, state)) if closest is None else closest
        return steady(self.stages, state, impact.meet(system, state, closest)[1])

    @entry_point
    def step(self, system: System, state: State, memory: Any, h) -> StepResult:
        """One step of h [s] from the continuation of the last stages' polynomials; not solved, it
        says so in its `result`. Raises `ValueError` for limits of joints."""
        if self.stages == 1:
            return self.one_stage.step(system, state, memory, h)
        refuse_limits(system)
        task = free_task(self, system, state, memory, h)
        factors = jax.tree.map(jnp.zeros_like, no_factors(self, system))
        return attempt(self, system, state, memory, task, factors)[0].step

    def certificate(self, system: System, before: State, after: State, contacts: Contacts, h) -> dict[str, jax.Array]:
        """The paper's equations at every stage, and a bound on the energy."""
        if self.stages == 1:
            return self.one_stage.certificate(system, before, after, contacts, h)
        return stage_certificate(system, before, after, contacts, h)

    def predicted_gap(self, contacts: Contacts, mu, h):
        """0: the gap is closed at the end of the step."""
        return jnp.zeros_like(contacts.gap)

    def restarts(self, system: System, state: State, memory: Any, h) -> Iterator[tuple[str, Any]]:
        """Other starts of the same step."""
        if self.stages == 1:
            yield from self.one_stage.restarts(system, state, memory, h)
        else:
            yield self.rungs[1], init(self, system, state, _closest_of(system, state, memory))
            begun = euler_starts.from_stage_to_stage(self.one_stage, self.stages, system, state, memory, h)
            if begun is not None:
                yield self.rungs[2], begun


@functools.partial(jit, once=True, apart=True)
def _closest_of(system: System, state: State, memory: Memory) -> tuple:
    """The closest points in `memory`, in long form."""
    return tuple(stage_records.long_forms(system, state, memory.constraints))

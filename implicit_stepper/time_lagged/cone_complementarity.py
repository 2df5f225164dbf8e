"""The cone complementarity time-stepper of Negrut, Serban and Tasora (2017), and the problem that
it relaxes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

import jax
import jax.numpy as jnp

from shapes.arguments import positive

from ..constraints import linear_rows
from ..constraints.detection import Nearby
from ..constraints.held_rows import HeldRows
from ..constraints.linear_rows import Rows
from ..model.bodies import State
from ..model.checks import count, one_of
from ..model.records import Contacts, StepResult
from ..model.system import System, contact_bodies
from ..runtime.errors import StepperError
from ..solvers.cones import GRADIENT_METHODS, Impulses, coulomb, gauss_seidel
from ..stepping.capabilities import Capabilities, FindsPairs
from ..stepping.stepper import entry_point
from . import common, lagged_certificate
from .common import Memory

SOLVERS = (*GRADIENT_METHODS, "gauss-seidel")
_OPEN = 1e9  # times g h: the speed at which a contact beyond `delta` seems to part


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConeComplementarity:
    """Half-implicit symplectic Euler with contacts from the start of the step, Negrut (5)-(12).

    With `relaxed` the gap condition is psi/h + v_n - mu |w| >= 0, so that impulses solve a convex
    problem: a sliding contact drifts to the gap mu h |w|. Without, it is (5) as it stands, solved
    by Newton's method. Contacts with psi > `delta` [m] carry nothing. Overlap is undone at psi/h,
    at most at `recovery_speed` [m/s]. `solver` is "apgd", "barzilai-borwein" or "gauss-seidel";
    `tolerance` bounds the distance of an impulse from its projection, in m g h; `max_iterations`
    those of a step. Joints are G V = -g/h - g_t, (5c), (8). Raises `ValueError` naming the
    argument.
    """

    rungs: ClassVar[tuple[str, ...]] = common.RUNGS

    relaxed: bool = True
    solver: str = "apgd"
    delta: float = float("inf")
    recovery_speed: float = float("inf")
    tolerance: float = 1e-12
    max_iterations: int = 20_000

    @property
    def can(self) -> Capabilities:
        """Pairs are found for the relaxed problem alone."""
        found = FindsPairs.BY_SIZE if self.relaxed else FindsPairs.NEVER
        return Capabilities(joints=True, normals_at_start=True, finds_pairs=found)

    def __post_init__(self):
        one_of("solver", self.solver, SOLVERS)
        one_of("relaxed", self.relaxed, (True, False))
        for name in ("tolerance", *(n for n in ("delta", "recovery_speed") if getattr(self, n) != float("inf"))):
            positive(name, getattr(self, name))
        count("max_iterations", self.max_iterations)

    @entry_point
    def init(self, system: System, state: State, closest: tuple | None = None) -> Memory:
        """No impulses. Raises `ValueError` for compliant contacts, and for joints with `solver` =
        "gauss-seidel"."""
        common.refuse_compliance(system)
        if system.joints and self.solver == "gauss-seidel":
            raise StepperError(
                "`solver` = 'gauss-seidel' goes from contact to contact and knows no joints, and the scene has "
                f"{system.joint_names[0]!r}: take 'apgd' or 'barzilai-borwein'."
            )
        return common.begin(system, state, closest)

    @entry_point
    def step(self, system: System, state: State, memory: Memory, h) -> StepResult:
        """One step of h [s]."""

        def solve(held: HeldRows, free) -> Impulses:
            return self._solve(system, memory.nearby, held, free, memory.impulses, h)

        return common.half_implicit_step(system, state, memory, h, solve)

    def restarts(self, system: System, state: State, memory: Memory, h) -> Iterator[tuple[str, Memory]]:
        """`common.again`."""
        return common.again(self, system, state, memory, h)

    def certificate(self, system: System, before: State, after: State, contacts: Contacts, h) -> dict[str, jax.Array]:
        """Violations of Negrut (5a), of the motion, of the contacts' geometry at the start and of
        the cone complementarity, dimensionless, from the step's result alone: all but `gap`, which
        the next step begins with."""
        mu, units = linear_rows.of_contacts(system, "mu"), lagged_certificate.units(system, h)
        found, violations = lagged_certificate.half_implicit(system, before, after, contacts, h)
        return violations | self.law_violations(found.speeds, found.impulses, contacts.gap_start, mu, units, h)

    def law_violations(self, speeds, impulses, gap_start, mu, units, h) -> dict[str, jax.Array]:
        """Violations (nc,) of the cone complementarity, of contacts with (v_n, w) and (p_n, y) (nc,
        1 + k) at the end and the gaps `gap_start` (nc,) [m]; `units`: an impulse and a speed."""
        unit, speed = units
        d = speeds.at[:, 0].add(self._bias(gap_start, h)) / speed
        laws = lagged_certificate.cone_laws(d, impulses / unit, mu, relaxed=self.relaxed)
        return laws | {"dual cone": jnp.where(gap_start <= self.delta, laws["dual cone"], 0.0)}

    def predicted_gap(self, contacts: Contacts, mu, h):
        """mu h |w|: the relaxation asks psi/h + v_n = mu |w| of a contact that carries."""
        return mu * h * contacts.sigma if self.relaxed else jnp.zeros_like(contacts.gap)

    def _bias(self, psi, h):
        """What is added to v_n (nc,) [m/s]."""
        return jnp.maximum(psi / h, -self.recovery_speed)

    def _solve(self, system: System, here: Nearby, held: HeldRows, free, start, h) -> Impulses:
        """Impulses (nc, 1 + k) [N s] for bodies whose `free` velocity joints allow."""
        rows, (unit, speed) = held.rows, common.units(system, h)
        if not system.groups:
            return Impulses(start, jnp.zeros(()), jnp.zeros((), int), jnp.asarray(True))

        def product(impulses):
            return rows.scaled(held.joints.response(rows.momenta(impulses, system.body_count)))

        mu = linear_rows.of_contacts(system, "mu")
        sides = _sides(system, rows, held.joints.inverse, unit / speed) if self.solver == "gauss-seidel" else ()
        return self.impulses(rows.scaled(free), product, sides, here.geometry.psi, mu, start, (unit, speed), h)

    def impulses(self, free, product, sides, psi, mu, start, units, h) -> Impulses:
        """Impulses (nc, 1 + k) [N s] of contacts with the gaps psi (nc,) [m] that have the scaled
        velocities `free` (nc, 1 + k) without them, to which `product(impulses)` is added. `sides`:
        of the bodies, as `gauss_seidel` takes them, for that solver alone; `start`: a guess;
        `units`: an impulse and a speed."""
        unit, speed = units
        active = psi <= self.delta
        r = free.at[:, 0].add(self._bias(psi, h)) / speed

        def scaled(gamma):
            return product(jnp.where(active[:, None], gamma, 0.0) * unit) / speed

        r = r.at[:, 0].add(jnp.where(active, 0.0, _OPEN))
        arguments = (r, mu, start / unit, self.tolerance, self.max_iterations)
        if self.solver == "gauss-seidel":
            solution = gauss_seidel(*sides, *arguments)
        else:
            solution = GRADIENT_METHODS[self.solver](scaled, *arguments)
        if not self.relaxed:
            solution = coulomb(scaled, r, mu, solution, self.tolerance)
        return dataclasses.replace(solution, gamma=solution.gamma * unit)


def _sides(system: System, rows: Rows, inverse, scale):
    """The arguments of `gauss_seidel` that belong to bodies."""
    numbers = contact_bodies(system)
    on = jnp.stack([on for _, on in rows.sides()], axis=1)
    inverse = jnp.concatenate([inverse, jnp.zeros((1, *inverse.shape[1:]))]) * scale
    return on, jnp.einsum("cswv,csrv->cswr", inverse[numbers], on), numbers, system.body_count

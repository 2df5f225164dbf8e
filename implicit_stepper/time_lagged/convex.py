"""The two-stage theta method of Castro et al.: free motion first, then contact, convex as in SAP or
as an exact NCP."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

import jax
import jax.numpy as jnp

from shapes.arguments import positive

from ..constraints import detection, joint_rows, linear_rows
from ..constraints.detection import Nearby
from ..constraints.held_rows import HeldRows, held_rows
from ..model import bodies
from ..model.bodies import State
from ..model.checks import count, one_of
from ..model.records import Contacts, StepResult
from ..model.system import System
from ..model.units import scales
from ..solvers.cones import Impulses
from ..stepping.capabilities import Capabilities, FindsPairs
from ..stepping.stepper import entry_point
from . import common, convex_certificate, lagged_certificate
from .common import Memory
from .convex_problem import Law, delassus_estimates, minimise, unconvexified
from .joint_certificate import joints_of
from .theta_method import SCHEMES, FreeMotion, Theta, free_motion, mixed

APPROXIMATIONS = ("convex", "ncp")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Convex:
    """theta method with contacts from the start of the step, S (6)-(14): A (v - v*) = J^T gamma
    about the free motion v*.

    `scheme` is "explicit", "symplectic" or "implicit" Euler, or "midpoint". With the
    `approximation` "convex" contacts have the laws of `convex_problem`: a sliding one glides at a
    gap near (h + tau) mu |w|. Rigid ones, and those stiffer than that, get the compliance at which
    a contact on its own oscillates with the period `beta` h; sticking ones creep by `sigma_s` w_i
    y, w_i being the contact's response to impulses. With "ncp" they have S (7) with the gap psi + h
    v_n, exactly, by Newton's method. `tolerance` bounds what is left of the gradient or of the NCP,
    dimensionless (1e-12 to 1e-10); `max_iterations` its Jacobians.

    Contacts bound the velocity at the end of a step. It alone moves the bodies with the symplectic
    and the implicit scheme; midpoint overlaps by up to h |v_n| / 2 in an impact, explicit by h
    |v_n|. So do joints, which are rigid with either approximation, G V = -g/h - g_t. Raises
    `ValueError` naming the argument.
    """

    rungs: ClassVar[tuple[str, ...]] = common.RUNGS

    scheme: str = "midpoint"
    approximation: str = "convex"
    sigma_s: float = 1e-3
    beta: float = 1.0
    tolerance: float = 1e-11
    max_iterations: int = 100

    @property
    def can(self) -> Capabilities:
        """Pairs are found for the convex problem alone. Where other velocities move bodies than
        those that joints allow, joints bring energy."""
        return Capabilities(
            joints=True,
            compliance=True,
            gains_by_joints=self.scheme in ("explicit", "midpoint"),
            normals_at_start=True,
            finds_pairs=FindsPairs.BY_SIZE if self.approximation == "convex" else FindsPairs.NEVER,
        )

    def __post_init__(self):
        one_of("scheme", self.scheme, SCHEMES)
        one_of("approximation", self.approximation, APPROXIMATIONS)
        for name in ("sigma_s", "beta", "tolerance"):
            positive(name, getattr(self, name))
        count("max_iterations", self.max_iterations)

    @entry_point
    def init(self, system: System, state: State, closest: tuple | None = None) -> Memory:
        """No impulses."""
        return common.begin(system, state, closest)

    @entry_point
    def step(self, system: System, state: State, memory: Memory, h) -> StepResult:
        """One step of h [s]."""
        here = memory.nearby
        rows = linear_rows.linear_rows(system, state, here.geometry)
        free = free_motion(self.theta, system, state, h)
        held = held_rows(system, state, free.A, rows, h)
        forces, pull = joint_rows.elastic_forces(system, state)
        driven = free.velocity + h * held.joints.alone(pull)
        impulses = self._solve(system, state, here, held, free, driven, h)
        impulses = dataclasses.replace(impulses, converged=impulses.converged & free.converged)
        velocity, lambdas = held.driven(driven, free.A, impulses.gamma)
        after = bodies.moved(state, mixed(self.theta.vq, state, velocity), h)
        after = dataclasses.replace(after, velocity=velocity)
        joints = common.joint_record(system, state, state, after, lambdas, forces, h)
        return common.finish(system, memory, here, rows, impulses, after, joints)

    def restarts(self, system: System, state: State, memory: Memory, h) -> Iterator[tuple[str, Memory]]:
        """`common.again`."""
        return common.again(self, system, state, memory, h)

    def certificate(self, system: System, before: State, after: State, contacts: Contacts, h) -> dict[str, jax.Array]:
        """Violations of S (8) and (13) as "momentum", of the motion, of the contacts' geometry at
        the start, and of their laws as cone complementarity, dimensionless, from the step's result
        alone, but for `gap`, which the next step begins with, and the matrix A; impulses in max(m g
        h, p_n), velocities likewise."""
        rows = linear_rows.linear_rows(system, before, detection.geometry_of(contacts))
        free, found = (
            free_motion(self.theta, system, before, h),
            lagged_certificate.contacts_of(system, before, after.velocity, contacts, h),
        )
        joints = joints_of(system, before, after, contacts.joints, h)
        given, passing = found.given + joints.given, found.passing + joints.passing
        w = delassus_estimates(rows, free.A)
        regularised = self.approximation == "convex"
        law = self.law(w, contacts.gap_start, *_coefficients(system), h, regularised=regularised)
        moving = mixed(self.theta.vq, before, after.velocity)
        return {
            "momentum": convex_certificate.balance(self.theta, system, before, after, free, given, passing, h),
            "pose": lagged_certificate.pose(system, before, after, moving, h),
            **found.violations,
            **joints.violations,
            **convex_certificate.law_violations(
                found.speeds, found.impulses, law, lagged_certificate.units(system, h), relaxed=regularised
            ),
        }

    def predicted_gap(self, contacts: Contacts, mu, h):
        """mu h |w|, of rigid contacts: the dual cone asks psi/h + v_n = mu |w| of one that carries,
        up to R_n p_n."""
        return mu * h * contacts.sigma if self.approximation == "convex" else jnp.zeros_like(contacts.gap)

    @property
    def theta(self) -> Theta:
        """Where loads see positions and velocities, and which velocity moves the bodies."""
        return SCHEMES[self.scheme]

    def law(self, w, psi, mu, compliance, tau, h, *, regularised: bool) -> Law:
        """The laws of contacts with the responses w (nc,) [1/kg] to impulses, whose gaps were psi
        (nc,) at the start of the step; of coefficients (nc,)."""
        R_n, R_t = compliance / (h * (h + tau)), jnp.zeros_like(tau)
        if regularised:
            R_n, R_t = jnp.maximum(R_n, (self.beta / (2 * jnp.pi)) ** 2 * w), self.sigma_s * w
        return Law(-psi / (h + tau), R_n, R_t, mu)

    def _solve(self, system: System, state: State, here: Nearby, held: HeldRows, free: FreeMotion, driven, h) -> Impulses:
        """Impulses (nc, 1 + k) [N s]; `driven` (nb, 6 or 3): what springs of joints make of the
        free motion."""
        rows, start = held.rows, held.velocity(driven)[0]
        u_free, psi = rows.scaled(start), here.geometry.psi
        if not system.groups:
            return Impulses(u_free, jnp.zeros(()), jnp.zeros((), int), jnp.asarray(True))
        w, coefficients = delassus_estimates(rows, free.A), _coefficients(system)
        law = self.law(w, psi, *coefficients, h, regularised=True)
        limits = self.tolerance, self.max_iterations
        unit = scales(system, h).momentum
        solution = minimise(free.A, held, law, u_free, state.velocity - start, unit, *limits)
        if self.approximation == "convex":
            return solution
        law = self.law(w, psi, *coefficients, h, regularised=False)
        return unconvexified(free.A, held, law, u_free, solution, common.units(system, h), *limits)


def _coefficients(system: System) -> list:
    """mu, compliance [m/N] and dissipation time [s] (nc,) of all contacts."""
    return [linear_rows.of_contacts(system, name) for name in ("mu", "compliance", "dissipation_time")]

"""What methods that find contacts before they solve differ in, for many bodies: the free motion,
the impulses of contacts whose planes are known, and the laws that a certificate asks of them.

Impulses are found by products with A^-1 and the planes alone (cone complementarity), by Lemke's
method for those planes that bodies would pass through (linearised), and by Newton's method with a
sparse Hessian (convex).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints import certificate_mechanics as mechanics
from ..constraints import detection, linear_rows
from ..model import bodies, loads
from ..model.bodies import State
from ..model.records import Contacts
from ..model.system import System
from ..model.units import scales
from ..runtime.compilation import filled_up, jit
from ..runtime.errors import StepperError
from ..solvers.cones import Impulses
from ..time_lagged import common, convex_certificate, lagged_certificate
from ..time_lagged.cone_complementarity import ConeComplementarity
from ..time_lagged.convex import Convex
from ..time_lagged.convex_problem import root_mean_square
from ..time_lagged.joint_certificate import joints_of
from ..time_lagged.linearized import Linearized
from ..time_lagged.theta_method import FreeMotion, free_motion, mixed
from . import convex_newton
from .equations import Slots
from .planes import Planes

_LEAST_ROWS, _GROWTH = 128, 2  # contacts of the program that solves, of which there are few sizes
_MORE_ROWS = 16  # by Lemke's method, whose pivots cost the square of the rows


class Method(Protocol):
    """A stepper's part in a step of many bodies."""

    def size(self, count: int) -> int:
        """Rows of the program that serves `count` contacts."""

    def free(self, system: System, state: State, h) -> FreeMotion:
        """Velocities without contact, and A, which answers impulses."""

    def impulses(self, system: System, state: State, free: FreeMotion, planes: Planes, h) -> Impulses:
        """Of all planes, (c, 1 + k) [N s]."""

    def moving(self, state: State, velocity):
        """The velocity (nb, 6 or 3) that moves the bodies, of that at the end."""

    def balance(self, system: System, before: State, after: State, free: FreeMotion, given, passing, h):
        """Violations (nb,) of the balance of momenta, with what contacts have `given` (nb, 6 or 3),
        and the size of what passes."""

    def law_violations(self, system: System, h, slots: Slots, answers, records: Contacts, speeds, impulses) -> dict:
        """Violations (c,) by name, of contacts with the (v_n, w) and (p_n, y) (c, 1 + k) of their
        records, between bodies whose `answers` to impulses are (c, 2, w, w)."""


class _Sized:
    """Methods whose programs have few sizes."""

    def size(self, count: int) -> int:
        """128 rows, or twice, four times as many."""
        return filled_up(count, _LEAST_ROWS, _GROWTH)


class _HalfImplicit(_Sized):
    """Methods with the momenta of half-implicit symplectic Euler, Negrut (5a)."""

    def free(self, system: System, state: State, h) -> FreeMotion:
        """M^-1 of the loads and the gyroscopic moment in h [s], and M, at the start."""
        mass = bodies.mass_matrices(system, state)
        return FreeMotion(loads.free_velocity(system, state, mass, h), mass, jnp.asarray(True))

    def moving(self, state: State, velocity):
        """The `velocity` (nb, 6 or 3) at the end itself."""
        return velocity

    def balance(self, system: System, before: State, after: State, free: FreeMotion, given, passing, h):
        """Violations (nb,) of Negrut (5a), by `lagged_certificate`."""
        none, turns = jnp.zeros((0, 0)), mechanics.rotations(before.orientation)
        found = lagged_certificate.Lagged({}, none, none, given, passing, turns)
        joints = joints_of(system, before, after, None, h)
        return lagged_certificate.half_implicit_balance(system, before, after, found, joints, h)


@dataclasses.dataclass(frozen=True)
class Cones(_HalfImplicit):
    """Cone complementarity, relaxed."""

    stepper: ConeComplementarity

    def impulses(self, system: System, state: State, free: FreeMotion, planes: Planes, h) -> Impulses:
        """(c, 1 + k) [N s] by the stepper's first-order method."""
        return _by_products(self.stepper, system, free, planes, h)

    def law_violations(self, system: System, h, slots: Slots, answers, records: Contacts, speeds, impulses) -> dict:
        """Violations (c,) of the cone complementarity, Negrut (10)."""
        mu, units = jnp.asarray(slots.group.mu), _units(system, h, slots)
        return self.stepper.law_violations(speeds, impulses, records.gap_start, mu, units, h)


@dataclasses.dataclass(frozen=True)
class Pyramids(_HalfImplicit):
    """Linearised gaps and polyhedral friction."""

    stepper: Linearized

    def impulses(self, system: System, state: State, free: FreeMotion, planes: Planes, h) -> Impulses:
        """Of the planes that bodies would pass through, and of those that they then would, until
        there are no more."""
        due = (np.asarray(_gaps(free, planes, 0 * planes.start, h)) < 0) | (planes.start[:, 0] > 0)
        pivots = 0
        while True:
            numbers = np.flatnonzero(due)
            rows = -(-len(numbers) // _MORE_ROWS) * _MORE_ROWS
            own = Planes(*(a[numbers] for a in planes)).filled(rows, float(system.length))
            found = _by_pivots(self.stepper, system, free, own, h)
            gamma, pivots = np.zeros_like(planes.start), pivots + int(found.iterations)
            gamma[numbers] = np.asarray(found.gamma)[: len(numbers)]
            missed = ~due & (np.asarray(_gaps(free, planes, gamma, h)) < 0)
            if not np.any(missed) or not bool(found.converged):
                return dataclasses.replace(found, gamma=gamma, iterations=pivots)
            due = due | missed

    def law_violations(self, system: System, h, slots: Slots, answers, records: Contacts, speeds, impulses) -> dict:
        """Violations (c,) of the linear complementarity problem, Stewart and Trinkle (1996)."""
        mu, units = jnp.asarray(slots.group.mu), (*_units(system, h, slots), scales(system, h).gap)
        return self.stepper.law_violations(speeds, impulses, records.gap_start, mu, units, h)


@dataclasses.dataclass(frozen=True)
class ConvexLaws(_Sized):
    """The two-stage theta method with convex contact."""

    stepper: Convex

    def free(self, system: System, state: State, h) -> FreeMotion:
        """v* and A, Castro S (8), (10)."""
        return free_motion(self.stepper.theta, system, state, h)

    def moving(self, state: State, velocity):
        """Between both ends of the step, as the scheme has it (nb, 6 or 3)."""
        return mixed(self.stepper.theta.vq, state, velocity)

    def impulses(self, system: System, state: State, free: FreeMotion, planes: Planes, h) -> Impulses:
        """(c, 1 + k) [N s] of the minimum of the convex problem."""
        law, unit = _soft(self.stepper, system, free, planes, h)
        return convex_newton.minimised(
            free, planes, law, state.velocity, unit, self.stepper.tolerance, self.stepper.max_iterations
        )

    def balance(self, system: System, before: State, after: State, free: FreeMotion, given, passing, h):
        """Violations (nb,) of Castro S (8) and (13)."""
        return convex_certificate.balance(self.stepper.theta, system, before, after, free, given, passing, h)

    def law_violations(self, system: System, h, slots: Slots, answers, records: Contacts, speeds, impulses) -> dict:
        """Violations (c,) of the regularised laws, as cone complementarity."""
        group, width = slots.group, answers.shape[-1]
        on = jax.vmap(functools.partial(linear_rows.rows_of_contact, width))(
            detection.geometry_of(records), *(start.position for start in slots.starts)
        )
        weights = jnp.concatenate([jnp.ones_like(group.e[:, :1]), group.e], axis=1)
        w = _responses(jnp.stack(on, axis=1) * weights[:, None, :, None], answers, group.e)
        none = jnp.zeros(len(w))
        soft = [none if value is None else value for value in (group.compliance, group.dissipation_time)]
        law = self.stepper.law(w, records.gap_start, jnp.asarray(group.mu), *soft, h, regularised=True)
        return convex_certificate.law_violations(speeds, impulses, law, _units(system, h, slots), relaxed=True)


def _units(system: System, h, slots: Slots):
    """As `lagged_certificate.units`, of contacts (c,) of one form."""
    return jnp.asarray(slots.impulse)[:, None], scales(system, h).speed


@functools.singledispatch
def method_of(stepper) -> Method:
    """That of a stepper."""
    raise StepperError(f"`stepper` = {stepper!r} finds no pairs: take GeometricallyImplicit.")


method_of.register(ConeComplementarity, Cones)
method_of.register(Linearized, Pyramids)
method_of.register(Convex, ConvexLaws)


def _responses(on, inverse, e):
    """Responses (c,) [1/kg] of contacts with the maps `on` (c, 2, 1 + k, w), of bodies with A^-1
    `inverse` (c, 2, w, w), to their own impulses; 1 of contacts of nothing."""
    w = root_mean_square(jnp.einsum("csrv,csvw,csqw->crq", on, inverse, on), e)
    return jnp.where(w > 0, w, 1.0)


def _inverse(free: FreeMotion):
    """A^-1 (nb + 1, w, w), zero of what is fixed."""
    return jnp.concatenate([jnp.linalg.inv(free.A), jnp.zeros((1, *free.A.shape[1:]))])


@jit
def _gaps(free: FreeMotion, planes: Planes, impulses, h):
    """psi + h v_n (c,) [m] with the impulses (c, 1 + k) [N s]."""
    change = jnp.einsum("bij,bj->bi", _inverse(free)[:-1], planes.momenta(impulses, len(free.A)))
    return planes.psi + h * planes.scaled(free.velocity + change)[:, 0]


@functools.partial(jit, static_argnums=0)
def _soft(stepper: Convex, system: System, free: FreeMotion, planes: Planes, h):
    """The laws of all contacts, and the unit of momenta (nb, 6 or 3)."""
    w = _responses(planes.on, _inverse(free)[planes.sides], planes.e)
    coefficients = planes.mu, planes.compliance, planes.dissipation_time
    return stepper.law(w, planes.psi, *coefficients, h, regularised=True), scales(system, h).momentum


@functools.partial(jit, static_argnums=0)
def _by_products(stepper: ConeComplementarity, system: System, free: FreeMotion, planes: Planes, h) -> Impulses:
    units, count, inverse = common.units(system, h), len(free.A), _inverse(free)

    def product(impulses):
        return planes.scaled(jnp.einsum("bij,bj->bi", inverse[:-1], planes.momenta(impulses, count)))

    back = jnp.einsum("csrw,cswx->csxr", planes.on, inverse[planes.sides]) * (units[0] / units[1])
    blocks = planes.on, back, planes.sides, count
    return stepper.impulses(planes.scaled(free.velocity), product, blocks, planes.psi, planes.mu, planes.start, units, h)


@functools.partial(jit, static_argnums=0)
def _by_pivots(stepper: Linearized, system: System, free: FreeMotion, planes: Planes, h) -> Impulses:
    count, width, _ = free.A.shape
    each = jnp.arange(len(planes.psi))[:, None]
    rows = jnp.zeros((len(planes.psi), count + 1, planes.on.shape[2], width)).at[each, planes.sides].add(planes.on)
    rows, inverse = jnp.swapaxes(rows[:, :-1], 1, 2), _inverse(free)[:-1]

    def response(momenta):
        return jnp.einsum("bij,cfbj->cfbi", inverse, momenta)

    units = common.units(system, h)
    return stepper.impulses(planes.scaled(free.velocity), rows, response, planes.psi, planes.mu, units, h)

"""An explicit time-stepper with the kinematics of contact, after Liu and Wang (2005)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

import jax
import jax.numpy as jnp

from shapes.arguments import positive

from ..constraints import certificate_mechanics as mechanics
from ..constraints import joint_rows, kinematics, linear_rows
from ..constraints.detection import Nearby
from ..constraints.held_rows import HeldRows, held_rows
from ..model import bodies, loads
from ..model.bodies import State
from ..model.checks import count
from ..model.records import Contacts, StepResult
from ..model.system import System, in_user_order, take
from ..model.units import scales
from ..runtime.errors import StepperError
from ..solvers.cones import Impulses, apgd, coulomb
from ..stepping.capabilities import Capabilities
from ..stepping.stepper import entry_point
from . import common, lagged_certificate
from .common import Memory
from .joint_certificate import joints_of
from .montana import predicted, smooth

_OPEN = 1e9  # times g h: the speed at which a contact that is open seems to part


@dataclasses.dataclass(frozen=True, kw_only=True)
class Explicit:
    """Explicit Euler for poses and contact frames, q + h G(q) nu and Montana's equations; then
    impulses for which contacts that are closed, or close in the step, do not approach in the
    predicted frames, with exact Coulomb friction.

    Neither gaps nor joints are corrected: they drift with the error of the poses. Bodies need one
    smooth inequality each, without rounding. `tolerance` bounds the residual of the impulses in m g
    h; `max_iterations` the first-order iterations that start Newton's method. Raises `ValueError`
    naming the argument; `init` does for other bodies.
    """

    can: ClassVar[Capabilities] = Capabilities(joints=True)
    rungs: ClassVar[tuple[str, ...]] = common.RUNGS

    tolerance: float = 1e-12
    max_iterations: int = 50

    def __post_init__(self):
        positive("tolerance", self.tolerance)
        count("max_iterations", self.max_iterations)

    @entry_point
    def init(self, system: System, state: State, closest: tuple | None = None) -> Memory:
        """No impulses. Raises `ValueError` for bodies with edges, faces or infinite curvature, and
        compliant contacts."""
        common.refuse_compliance(system)
        for group in system.groups:
            sides = (group.pair.first, group.pair.second)
            if not smooth(sides):
                raise StepperError(
                    f"Montana's equations need bodies of one smooth inequality, not {sides[0].name} and {sides[1].name}: "
                    "use GeometricallyImplicit, ConeComplementarity, Linearized or Convex."
                )
        return common.begin(system, state, closest)

    @entry_point
    def step(self, system: System, state: State, memory: Memory, h) -> StepResult:
        """One step of h [s]."""
        here, (forces, pull) = memory.nearby, joint_rows.elastic_forces(system, state)
        momentum = loads.applied_momentum(system, state, h) + h * pull
        after = bodies.moved(state, state.velocity, h)
        ahead = dataclasses.replace(here, geometry=_ahead(system, state, here, h))
        rows, mass = linear_rows.linear_rows(system, after, ahead.geometry), bodies.mass_matrices(system, after)
        free = jnp.linalg.solve(mass, momentum[..., None])[..., 0]
        closed = jnp.minimum(here.geometry.psi, ahead.geometry.psi) <= self.tolerance * system.length
        held = held_rows(system, after, mass, rows, jnp.inf)
        impulses = self._solve(system, held, held.velocity(free)[0], closed, memory.impulses, h)
        velocity, lambdas = held.driven(free, mass, impulses.gamma)
        after = dataclasses.replace(after, velocity=velocity)
        joints = common.joint_record(system, state, after, after, lambdas, forces, h)
        return common.finish(system, memory, ahead, rows, impulses, after, joints)

    def restarts(self, system: System, state: State, memory: Memory, h) -> Iterator[tuple[str, Memory]]:
        """`common.again`."""
        return common.again(self, system, state, memory, h)

    def certificate(self, system: System, before: State, after: State, contacts: Contacts, h) -> dict[str, jax.Array]:
        """Violations of the balance of momentum, of the motion and of Coulomb's law at contacts
        that carry, in the predicted frames, dimensionless, from the step's result alone. What
        predicts the frames is at the start of the step: of it a record does not tell, nor of gaps,
        of multipliers and of where on their lines impulses act."""
        found = lagged_certificate.contacts_of(system, after, after.velocity, contacts, h, closest=False)
        gained = mechanics.momentum(system, found.rotation, after.velocity)
        known = mechanics.momentum(system, mechanics.rotations(before.orientation), before.velocity)
        known = known + h * mechanics.loads(system, before)
        joints = joints_of(system, before, after, contacts.joints, h, ahead=True)
        passing = jnp.abs(gained) + jnp.abs(known) + found.passing + joints.passing
        off = gained - known - found.given - joints.given
        balance = mechanics.imbalance(scales(system, h).momentum, off, passing)
        (unit, speed), mu = lagged_certificate.units(system, h), linear_rows.of_contacts(system, "mu")
        largest = jnp.maximum(1.0, found.impulses[:, :1] / unit)
        d, gamma = found.speeds / (speed * largest), found.impulses / (unit * largest)
        laws = lagged_certificate.cone_laws(d, gamma, mu, relaxed=False)
        del laws["dual cone"]  # which asks for the gaps of those that carry nothing
        return {
            "momentum": jnp.max(balance, axis=1),
            "pose": lagged_certificate.pose(system, before, after, before.velocity, h),
            **found.violations,
            **joints.violations,
            **laws,
        }

    def predicted_gap(self, contacts: Contacts, mu, h):
        """0: what the gap is besides is the drift of the scheme."""
        return jnp.zeros_like(contacts.gap)

    def _solve(self, system: System, held: HeldRows, free, closed, start, h) -> Impulses:
        """Impulses (nc, 1 + k) [N s] of contacts that are `closed` (nc,), of bodies whose `free`
        velocity joints allow."""
        if not system.groups:
            return Impulses(start, jnp.zeros(()), jnp.zeros((), int), jnp.asarray(True))
        (unit, speed), mu, rows = common.units(system, h), linear_rows.of_contacts(system, "mu"), held.rows
        r = (rows.scaled(free) / speed).at[:, 0].add(jnp.where(closed, 0.0, _OPEN))

        def product(gamma):
            given = rows.momenta(jnp.where(closed[:, None], gamma, 0.0) * unit, system.body_count)
            return rows.scaled(held.joints.response(given)) / speed

        near = apgd(product, r, mu, start / unit, self.tolerance, self.max_iterations)
        found = coulomb(product, r, mu, near, self.tolerance)
        return dataclasses.replace(found, gamma=found.gamma * unit)


def _ahead(system: System, state: State, here: Nearby, h):
    """Geometry of all contacts after the step, in the order of `Scene.add_contact`."""
    if not system.groups:
        return here.geometry
    parts = []
    for group in system.groups:
        own = jax.tree.map(lambda a, group=group: take(a, group.numbers), here.geometry)
        parts.append(jax.vmap(predicted, (0, 0, 0, 0, None))(group, own, *kinematics.motions_of(system, state, group), h))
    return jax.tree.map(lambda *of_groups: in_user_order(system, jnp.concatenate(of_groups)), *parts)

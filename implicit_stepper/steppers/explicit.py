"""An explicit time-stepper with the kinematics of contact, after Liu and Wang (2005)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from shapes.arguments import positive

from .. import ncp, nearby
from ..bodies import State
from ..checks import count
from ..compilation import jit
from ..complementarity import length_of
from ..cone_solvers import ConeSolution, apgd, coulomb
from ..contact_kinematics import predicted, smooth
from ..nearby import Nearby
from ..records import Contacts, Stats, StepResult
from ..results import Result
from ..scales import scales
from ..system import System, in_user_order

_OPEN = 1e9  # times g h: the speed at which a contact that is open seems to part


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Memory:
    """`nearby`: closest points in the present state; `guess`, per group, where the search for those at the end of the step
    begins; `impulses` (nc, 1 + k) of the last step."""

    nearby: Nearby
    guess: tuple[jax.Array, ...]
    impulses: jax.Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class Explicit:
    """Explicit Euler for poses and contact frames, q + h G(q) nu and Montana's equations; then impulses for which contacts
    that are closed, or close in the step, do not approach in the predicted frames, with exact Coulomb friction.

    Gaps are not corrected: they drift with the error of the poses. Bodies need one smooth inequality each, without
    rounding. `tolerance` bounds the residual of the impulses in m g h; `max_iterations` the first-order iterations that
    start Newton's method. Raises `ValueError` naming the argument; `init` does for other bodies.
    """

    rungs: ClassVar[tuple[str, ...]] = ("warm start", "closest points without a hint")

    tolerance: float = 1e-12
    max_iterations: int = 300

    def __post_init__(self):
        positive("tolerance", self.tolerance)
        count("max_iterations", self.max_iterations)

    def init(self, system: System, state: State) -> Memory:
        """Closest points found without a hint. Raises `ValueError` for bodies with edges, faces or infinite curvature."""
        for group in system.groups:
            sides = (group.pair.first, group.pair.second)
            if not smooth(sides):
                raise ValueError(
                    f"Montana's equations need bodies of one smooth inequality, not {sides[0].name} and {sides[1].name}: "
                    "use GeometricallyImplicit, ConeComplementarity, Linearized or Convex."
                )
        here = nearby.cold(system, state)
        return Memory(here, here.closest, jnp.zeros((system.contact_count, 4 if system.dimension == 3 else 2)))

    def step(self, system: System, state: State, memory: Memory, h) -> StepResult:
        """One step of h [s]."""
        here, momentum = memory.nearby, ncp.applied_momentum(system, state, h)
        after = nearby.moved(system, state, state.velocity, h)
        ahead = dataclasses.replace(here, geometry=_ahead(system, state, here, h))
        rows, mass = nearby.linear_rows(system, after, ahead.geometry), nearby.mass_matrices(system, after)
        free = jnp.linalg.solve(mass, momentum[..., None])[..., 0]
        closed = jnp.minimum(here.geometry.psi, ahead.geometry.psi) <= self.tolerance * system.length
        unit = jnp.min(system.mass) * system.acceleration * h
        solution = self._solve(system, rows, mass, free, closed, memory.impulses / unit, h)
        given = rows.momenta(solution.gamma * unit, system.body_count)
        velocity = free + jnp.linalg.solve(mass, given[..., None])[..., 0]
        after = dataclasses.replace(after, velocity=velocity)
        there = nearby.find(system, after, memory.guess, ahead.geometry.tangents[:, 0])
        contacts = nearby.record(ahead, rows, solution.gamma * unit, velocity, there.geometry.psi)
        return StepResult(
            state=after,
            memory=Memory(there, there.closest, solution.gamma * unit),
            contacts=dataclasses.replace(contacts, gap_start=here.geometry.psi),
            stats=Stats(solution.iterations, solution.residual, jnp.asarray(0), jnp.asarray(1)),
            result=jnp.where(solution.converged & there.converged, int(Result.SOLVED), int(Result.NOT_CONVERGED)),
        )

    def restarts(self, system: System, state: State, memory: Memory, h) -> Iterator[tuple[str, Memory]]:
        """Once more, with the closest points at the end of the step found without a hint."""
        yield self.rungs[1], _found_again(self, system, state, memory, h)

    def certificate(self, system: System, before: State, after: State, contacts: Contacts, h) -> dict[str, jax.Array]:
        """Violations of the balance of momentum and of Coulomb's law at contacts that carry, in the predicted frames,
        dimensionless, from the step's result alone."""
        rows, mass = nearby.linear_rows(system, after, nearby.geometry_of(contacts)), nearby.mass_matrices(system, after)
        gamma = nearby.impulses_of(contacts, rows)
        balance = jnp.einsum("bij,bj->bi", mass, after.velocity) - ncp.applied_momentum(system, before, h)
        balance = balance - rows.momenta(gamma, system.body_count)
        speed = system.acceleration * h
        unit, mu = jnp.min(system.mass) * speed, nearby.of_contacts(system, "mu")
        largest = jnp.maximum(1.0, gamma[:, :1] / unit)
        d, gamma = rows.scaled(after.velocity) / (speed * largest), gamma / (unit * largest)
        size = jax.vmap(length_of)
        dissipated = jnp.sum(gamma[:, 1:] * d[:, 1:], axis=1) + mu * gamma[:, 0] * size(d[:, 1:])
        return {
            "momentum": jnp.max(jnp.abs(balance / scales(system, h).momentum), axis=1),
            "cone": jnp.maximum(size(gamma[:, 1:]) - mu * gamma[:, 0], 0.0),
            "complementarity": jnp.abs(gamma[:, 0] * d[:, 0]),
            "dissipation": jnp.abs(dissipated),
        }

    def predicted_gap(self, contacts: Contacts, mu, h):
        """0: what the gap is besides is the drift of the scheme."""
        return jnp.zeros_like(contacts.gap)

    def _solve(self, system: System, rows: nearby.Rows, mass, free, closed, start, h) -> ConeSolution:
        """Impulses (nc, 1 + k), dimensionless."""
        if not system.groups:
            return ConeSolution(start, jnp.zeros(()), jnp.zeros((), int), jnp.asarray(True))
        speed = system.acceleration * h
        unit, mu = jnp.min(system.mass) * speed, nearby.of_contacts(system, "mu")
        r = (rows.scaled(free) / speed).at[:, 0].add(jnp.where(closed, 0.0, _OPEN))

        def product(gamma):
            given = rows.momenta(jnp.where(closed[:, None], gamma, 0.0) * unit, system.body_count)
            return rows.scaled(jnp.linalg.solve(mass, given[..., None])[..., 0]) / speed

        near = apgd(product, r, mu, start, self.tolerance, self.max_iterations)
        return coulomb(product, r, mu, near, self.tolerance)


def _ahead(system: System, state: State, here: Nearby, h):
    """Geometry of all contacts after the step, in the order of `Scene.add_contact`."""
    if not system.groups:
        return here.geometry
    parts = []
    for group in system.groups:
        own = jax.tree.map(lambda a, group=group: a[np.array(group.numbers)], here.geometry)
        parts.append(jax.vmap(predicted, (0, 0, 0, 0, None))(group, own, *ncp.contact_motions(system, state, group), h))
    return jax.tree.map(lambda *of_groups: in_user_order(system, jnp.concatenate(of_groups)), *parts)


@functools.partial(jit, static_argnums=0)
def _found_again(stepper: Explicit, system: System, state: State, memory: Memory, h) -> Memory:
    after = stepper.step(system, state, memory, h).state
    return dataclasses.replace(memory, guess=nearby.cold(system, after).closest)

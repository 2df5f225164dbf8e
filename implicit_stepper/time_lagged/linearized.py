"""The time-stepper of Stewart and Trinkle (1996): linearised gaps and polyhedral friction cones,
one LCP a step."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from shapes.arguments import positive
from shapes.errors import ArgumentError

from ..constraints import linear_rows
from ..constraints.held_rows import HeldRows
from ..model.bodies import State
from ..model.checks import count
from ..model.records import Contacts, StepResult
from ..model.system import System
from ..model.units import scales
from ..solvers.cones import Impulses
from ..solvers.lemke import lemke
from ..stepping.capabilities import Capabilities, FindsPairs
from ..stepping.stepper import entry_point
from . import common, lagged_certificate
from .common import Memory


@dataclasses.dataclass(frozen=True, kw_only=True)
class Linearized:
    """Half-implicit symplectic Euler with contacts from the start of the step, W the rows there,
    Stewart and Trinkle (1996):

        M (nu_next - nu) = h f + sum W_n p_n + W_f D beta
        0 <= p_n     _|_  psi/h + W_n^T nu_next >= 0     the gap at the end, as W_n has it
        0 <= beta    _|_  D^T w + lambda >= 0            w = (e_t v_t, e_o v_o, e_r v_r), at the end
        0 <= lambda  _|_  mu p_n - sum beta >= 0

    The columns of D are `facets` >= 3 unit vectors at equal angles in the tangent plane, from t on,
    and, for the torque about the normal, the two unit vectors +-r: the friction cone is a bipyramid
    within Chakraborty's ellipsoid, and sliding contacts brake with directions of D only. In the
    plane D is (1, -1), and the cone exact. Lemke's method solves the LCP in at most `max_pivots`
    pivots; `tolerance` bounds its violation, dimensionless. Joints, G V = -g/h - g_t, are
    eliminated. Raises `ValueError` naming the argument.
    """

    can: ClassVar[Capabilities] = Capabilities(joints=True, normals_at_start=True, finds_pairs=FindsPairs.BY_SIZE)
    rungs: ClassVar[tuple[str, ...]] = common.RUNGS

    facets: int = 8
    tolerance: float = 1e-10
    max_pivots: int = 10_000

    def __post_init__(self):
        if count("facets", self.facets) < 3:
            raise ArgumentError(f"`facets` = {self.facets} must be 3 or more: fewer do not enclose a direction.")
        positive("tolerance", self.tolerance)
        count("max_pivots", self.max_pivots)

    @entry_point
    def init(self, system: System, state: State, closest: tuple | None = None) -> Memory:
        """No impulses. Raises `ValueError` for compliant contacts."""
        common.refuse_compliance(system)
        return common.begin(system, state, closest)

    @entry_point
    def step(self, system: System, state: State, memory: Memory, h) -> StepResult:
        """One step of h [s]."""

        def solve(held: HeldRows, free) -> Impulses:
            return self.of_held(system, held, memory.nearby.geometry.psi, free, h)

        return common.half_implicit_step(system, state, memory, h, solve)

    def restarts(self, system: System, state: State, memory: Memory, h) -> Iterator[tuple[str, Memory]]:
        """`common.again`."""
        return common.again(self, system, state, memory, h)

    def certificate(self, system: System, before: State, after: State, contacts: Contacts, h) -> dict[str, jax.Array]:
        """Violations of the equations above, of the motion and of the contacts' geometry at the
        start, dimensionless, from the step's result alone: all but `gap`, which the next step
        begins with. "dissipation" is that of y.w = -mu p_n lambda, which beta and lambda that solve
        the last two rows make, and only they."""
        mu, units = linear_rows.of_contacts(system, "mu"), (*lagged_certificate.units(system, h), scales(system, h).gap)
        found, violations = lagged_certificate.half_implicit(system, before, after, contacts, h)
        return violations | self.law_violations(found.speeds, found.impulses, contacts.gap_start, mu, units, h)

    def law_violations(self, speeds, impulses, gap_start, mu, units, h) -> dict[str, jax.Array]:
        """Violations (nc,) of the contacts' laws, of contacts with (v_n, w) and (p_n, y) (nc, 1 +
        k) at the end and the gaps `gap_start` (nc,) [m]; `units`: an impulse, a speed and a gap."""
        unit, speed, length = units
        gap, w, gamma = (gap_start + h * speeds[:, 0]) / length, speeds[:, 1:] / speed, impulses / unit
        p_n, y = gamma[:, 0], gamma[:, 1:]
        largest = jnp.maximum(1.0, p_n)
        slowest = jnp.max(-w @ self._directions(w.shape[1]).T, axis=1, initial=0.0)  # lambda
        return {
            "pull": jnp.maximum(-p_n, 0.0) / largest,
            "linearised gap": jnp.maximum(-gap, 0.0),
            "complementarity": jnp.abs(p_n * gap) / largest**2,
            "cone": jnp.maximum(self._gauge(y) - mu * p_n, 0.0) / largest,
            "dissipation": jnp.abs(jnp.sum(y * w, axis=1) + mu * p_n * slowest) / largest**2,
        }

    def predicted_gap(self, contacts: Contacts, mu, h):
        """0: what the linearised gap leaves is of second order in h."""
        return jnp.zeros_like(contacts.gap)

    def of_held(self, system: System, held: HeldRows, psi, free, h) -> Impulses:
        """Impulses [N s] at contacts with gaps psi (nc,) [m] of bodies whose `free` velocity (nb, 6
        or 3) joints allow."""
        rows, mu = held.rows, linear_rows.of_contacts(system, "mu")
        every = jax.jacfwd(rows.scaled)(jnp.zeros_like(free))
        return self.impulses(rows.scaled(free), every, held.joints.response, psi, mu, common.units(system, h), h)

    def impulses(self, free, rows, response, psi, mu, units, h) -> Impulses:
        """Impulses [N s] at contacts with gaps psi (nc,) [m] that have the scaled velocities `free`
        (nc, 1 + k) without them: `rows` (nc, 1 + k, n, w) lead to these from the bodies', and
        `response` from momenta (nc, f, n, w) to velocities; `units`: an impulse and a speed."""
        nc, (unit, speed) = len(psi), units
        D = self._directions(free.shape[1] - 1)
        to_pyramid = jax.scipy.linalg.block_diag(jnp.ones((1, 1)), D)  # of (v_n, w)
        columns = jnp.einsum("fr,crbv->cfbv", to_pyramid, rows)
        answers = response(columns) * (unit / speed)
        size = 2 + len(D)
        M = jnp.zeros((nc, size, nc, size))
        M = M.at[:, :-1, :, :-1].set(jnp.einsum("cfbv,dgbv->cfdg", columns, answers))
        each = np.arange(nc)
        M = M.at[each, 1:-1, each, -1].set(1.0)
        M = M.at[each, -1, each, 0].set(mu)
        M = M.at[each, -1, each, 1:-1].set(-1.0)
        q = jnp.pad(free @ to_pyramid.T, ((0, 0), (0, 1))).at[:, 0].add(psi / h) / speed
        M, q = M.reshape(nc * size, nc * size), q.reshape(-1)
        solution = lemke(M, q, tolerance=self.tolerance, max_pivots=self.max_pivots)
        residual = jnp.max(jnp.abs(jnp.minimum(solution.z, M @ solution.z + q)), initial=0.0)
        gamma = solution.z.reshape(nc, size)[:, :-1] @ to_pyramid * unit
        return Impulses(gamma, residual, solution.pivots, solution.solved)

    def _directions(self, width: int):
        """Columns of D, as rows (m, k), of friction with k = `width` components."""
        if width == 1:
            return jnp.array([[1.0], [-1.0]])
        angle = 2 * np.pi * np.arange(self.facets) / self.facets
        around = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
        return jnp.asarray(np.concatenate([around, [[0, 0, 1.0], [0, 0, -1.0]]]))

    def _gauge(self, y):
        """Least sum of beta >= 0 with D beta = y (nc, k): friction is in the cone where it is at
        most mu p_n."""
        if y.shape[1] == 1:
            return jnp.abs(y[:, 0])
        # of the outward normals of the polygon's edges
        angle = np.pi * (2 * np.arange(self.facets) + 1) / self.facets
        normals = jnp.asarray(np.stack([np.cos(angle), np.sin(angle)]) / np.cos(np.pi / self.facets))
        return jnp.max(y[:, :2] @ normals, axis=1, initial=0.0) + jnp.abs(y[:, 2])

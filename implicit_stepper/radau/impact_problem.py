"""The complementarity problem of an impact at fixed poses: impulses of all that meets, and of
joints that rub.

    0 <= P_n _|_ v_n+ + e v_n- >= 0,   |P_f| <= mu P_n,   of joints that rub |Y| <= mu R(Lambda)

with friction against the slips after it, and velocities as momenta and joints have them: Negrut
(5), with the reaction of a joint in the place of P_n.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..constraints.chosen_contacts import rows_of
from ..constraints.impact_rows import Everything, Shares
from ..constraints.joint_rows import JointRows
from ..constraints.linear_rows import Rows
from ..model.system import System
from ..solvers.complementarity import length_of
from ..solvers.cones import Impulses, apgd, coulomb_rows
from ..solvers.implicit_function import root, without_noise
from ..solvers.newton import linearized, newton

_FORCE = 1e-10  # impulses in their unit that are none, beside the tolerance of solvers
_SLIPS, _SLIGHT = 1e-10, 1e-30  # of the unit of speeds, which is none; a coefficient of friction that changes no digit
_TOLERANCE, _ITERATIONS = 1e-12, 60  # of Newton's method, some thousand roundings of rows that are dimensionless
# of first-order steps, at most so many: Newton's method leaves a start that is within its
# tolerance, and repeated impacts divide its last digits by ever smaller speeds
_START_TOLERANCE, _START_ITERATIONS = 1e-15, 200


def impulses(
    system: System, every: Everything, joints: JointRows, velocity, springs, speed, acting, shares: Shares, reactions, rubs
) -> tuple[Impulses, jax.Array]:
    """The NCP of those that are `acting` (m,), in units of `speed` [m/s], from the `velocity`
    without contact, and gamma (m, 1 + k) [N s]. The normal impulses `springs` (m,) [N s] of
    compliant contacts are known; where bodies press by more than their shares of impulses, they
    part with their shares of speeds. `reactions` (R,) [N s] of joints are those without contact;
    joints rub in an impact alone, which `rubs` (). Not solved where more acts than there is `room`
    for."""
    rows, mu = every.rows, every.mu
    if not rows.bodies:
        nothing = jnp.zeros((0, 1 + rows.e.shape[1]))
        return Impulses(nothing, jnp.zeros(()), jnp.zeros((), int), jnp.asarray(True)), nothing
    unit = jnp.min(jnp.asarray(system.mass)) * speed
    acts, normal = (acting & (every.touching | (springs > 0)))[:, None], np.arange(rows.on_1.shape[1]) == 0
    acts = acts | (every.rubs[:, None] & rubs)
    given = normal & (every.soft | every.rubs)[:, None]
    # contacts that do not act take no part, however fast their points slide: alone, they separate;
    # and friction along a semi-axis of length 0 is 0, which its row must say to have a derivative
    asked = acts & ~given & (normal | (jnp.pad(rows.e, ((0, 0), (1, 0))) > 0))

    known = jnp.where(given & acts, springs[:, None], 0.0)
    press = _Press(jnp.asarray(every.rubs) & rubs, every.pads, reactions)
    problem = _Problem(rows, joints, asked, unit, speed, jnp.zeros_like(known), mu, shares.impulse / unit, press)
    moves = rows.scaled(velocity) / speed + problem.answer(known) - shares.speed[:, None] * normal / speed
    r = jnp.where(asked, moves, jnp.where(acts, -known / unit, 1.0 * normal))
    problem = problem._replace(r=r)
    if every.room >= len(mu):
        solution, gamma = _solved(problem)
        return solution, gamma * unit
    taking_part = jnp.any(acts, axis=1) | every.rubs
    numbers = jnp.sort(jnp.argsort(~taking_part, stable=True)[: every.room])
    solution, own = _solved(problem.of(numbers))
    fits = jnp.sum(taking_part) <= every.room
    return dataclasses.replace(solution, converged=solution.converged & fits), jnp.zeros_like(r).at[numbers].set(own * unit)


class _Press(NamedTuple):
    """Of joints that rub: which of all rows they are, if they do, `on` (m,); as in `Rubbing`,
    `pads`; and `reactions` (R,) [N s] without contact."""

    on: jax.Array
    pads: jax.Array
    reactions: jax.Array


class _Problem(NamedTuple):
    """What `cones.coulomb_rows` asks for: of those that are `asked` (m, 1 + k) about, with impulses
    in `unit` () [N s] and speeds in `speed` () [m/s]; `r` (m, 1 + k), `mu` (m,) and `least` (m,) as
    there; and how hard joints `press` that rub."""

    rows: Rows
    joints: JointRows
    asked: jax.Array
    unit: jax.Array
    speed: jax.Array
    r: jax.Array
    mu: jax.Array
    least: jax.Array
    press: _Press

    def of(self, numbers) -> _Problem:
        """The problem of some, `numbers` (k,), of which the last are all joints that rub."""
        own = {name: getattr(self, name)[numbers] for name in ("asked", "r", "mu", "least")}
        return self._replace(rows=rows_of(self.rows, numbers), press=self.press._replace(on=self.press.on[numbers]), **own)

    def answer(self, impulses):
        """What `impulses` (m, 1 + k) [N s] change velocities at contacts by."""
        momenta = self.rows.momenta(impulses, len(self.joints.inverse))
        return self.rows.scaled(self.joints.response(momenta)) / self.speed

    def product(self, gamma):
        """N gamma."""
        return jnp.where(self.asked, self.answer(jnp.where(self.asked, gamma, 0.0) * self.unit), gamma)

    def pressing(self, gamma):
        """R (m,), 0 of what is no joint that rubs."""
        momenta = self.rows.momenta(jnp.where(self.asked, gamma, 0.0) * self.unit, len(self.joints.inverse))
        _, more = self.joints.answer(self.joints.alone(momenta), 0.0)
        own = self.press.pads @ ((self.press.reactions + more) * self.joints.lengths)
        pressed = jnp.sum(jax.vmap(jax.vmap(length_of))(own), axis=1)
        return jnp.pad(pressed / self.unit, (len(gamma) - len(own), 0))


def _solved(problem: _Problem) -> tuple[Impulses, jax.Array]:
    """A solution, and its impulses gamma (m, 1 + k) with derivatives."""
    solution = _solution(lax.stop_gradient(problem))
    return solution, root(_residual, _linearize, problem, solution.gamma.reshape(-1)).reshape(problem.r.shape)


def _solution(problem: _Problem) -> Impulses:
    r, mu = problem.r, problem.mu
    start = apgd(problem.product, r, mu, jnp.zeros_like(r), _START_TOLERANCE, _START_ITERATIONS)
    rows = linearized(functools.partial(_rows, problem))
    end = newton(rows, start.gamma.reshape(-1), tolerance=_TOLERANCE, max_iterations=_ITERATIONS)
    return Impulses(end.z.reshape(r.shape), end.residual, start.iterations + end.iterations, end.converged)


def _rows(problem: _Problem, z):
    """`cones.coulomb_rows`, in which what presses where joints rub is their reaction."""
    rows = coulomb_rows(problem.product, problem.r, problem.mu, problem.least, z)
    if not len(problem.press.pads):
        return rows
    gamma, rows = z.reshape(problem.r.shape), rows.reshape(problem.r.shape)
    normal = jnp.where(problem.press.on, gamma[:, 0] - problem.pressing(gamma), rows[:, 0])
    return rows.at[:, 0].set(normal).reshape(-1)


def _residual(problem: _Problem, z):
    gamma = z.reshape(problem.r.shape)
    noise = jnp.broadcast_to(gamma[:, :1] <= _FORCE, gamma.shape)
    # a disc that is a point has no derivative by the friction that there would be
    slips = jnp.max(jnp.abs((problem.product(gamma) + problem.r)[:, 1:]), axis=1, initial=0.0) > _SLIPS
    mu = jnp.where((problem.mu == 0) & slips, problem.mu + _SLIGHT, problem.mu)
    return _rows(problem._replace(mu=mu), without_noise(z, noise.reshape(-1)))


def _linearize(problem: _Problem, z):
    return linearized(functools.partial(_residual, problem))(z)

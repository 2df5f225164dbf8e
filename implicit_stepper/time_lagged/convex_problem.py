"""The convex approximation of contact, Castro et al. (2022): compliant normals, regularised
friction, one strictly convex problem in the velocities.

    min over v of |v - v*|_A^2 / 2 + sum_i l(u_i),    u = (v_n, w),    gamma = -grad l,

where u are the scaled contact velocities and gamma is the projection onto the cone |y| <= mu p_n,
in the metric R, of R^-1 (vhat - u): the impulses for which u - vhat + R gamma is in the dual cone
and orthogonal to gamma. With R_n = c / (h (h + tau)) and vhat_n = -psi / (h + tau) a sticking
contact has S (3) with the gap psi + h v_n, up to the friction in the dual cone, by which sliding
contacts glide.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from shapes.shards import varying_like

from ..constraints.held_rows import HeldRows
from ..constraints.linear_rows import Rows
from ..solvers.complementarity import length_of
from ..solvers.cones import Impulses, coulomb

_EXACT = 1e-12  # of the slope that a line search leaves, relative to the first
_SEARCHES = 60  # iterations of a line search, more than bisection needs
_ROUNDINGS = 16  # errors of rounding in the velocity of a contact


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Law:
    """All contacts' laws, (nc,) each: vhat [m/s], the normal velocity without load; mu; R_n and R_t
    [1/kg], the regularisations of normal and friction impulse."""

    vhat: jax.Array
    R_n: jax.Array
    R_t: jax.Array
    mu: jax.Array

    def excess(self, u, gamma):
        """u - vhat + R gamma (nc, 1 + k) [m/s]: of a contact that carries, what its law leaves of
        its velocities."""
        return u + self.metric(gamma.shape[1]) * gamma - jnp.pad(self.vhat[:, None], ((0, 0), (0, gamma.shape[1] - 1)))

    def metric(self, width: int):
        """R (nc, 1 + k), the diagonals."""
        return jnp.concatenate([self.R_n[:, None], jnp.repeat(self.R_t[:, None], width - 1, axis=1)], axis=1)

    def impulses(self, u):
        """gamma (nc, 1 + k) = (p_n, y) [N s] of contacts whose velocities are u [m/s]."""
        return jax.vmap(_impulse)(u, self.vhat, self.R_n, self.R_t, self.mu)

    def slopes(self, u):
        """-d gamma/du (nc, 1 + k, 1 + k), symmetric and positive semidefinite."""
        return -jax.vmap(jax.jacfwd(_impulse))(u, self.vhat, self.R_n, self.R_t, self.mu)

    def cost(self, u):
        """The sum () [J] of all l(u)."""
        gamma = self.impulses(u)
        return jnp.sum(self.metric(gamma.shape[1]) * gamma**2) / 2


def _impulse(u, vhat, R_n, R_t, mu):
    """One contact's projection, in its three regions: sticking, sliding, open."""
    y_n, y_t = (vhat - u[0]) / R_n, -u[1:] / R_t
    size, lean = length_of(y_t), mu * R_t / R_n
    p_n = (y_n + lean * size) / (1 + mu * lean)
    sliding = jnp.concatenate([p_n[None], mu * p_n * y_t / jnp.where(size > 0, size, 1.0)])
    # where mu = 0 the cone is a ray, of which a pull along it is no part
    sticks, open_ = (size <= mu * y_n) & (y_n >= 0), y_n <= -lean * size
    return jnp.where(sticks, jnp.concatenate([y_n[None], y_t]), jnp.where(open_, 0.0, sliding))


def delassus_estimates(rows: Rows, A):
    """w (nc,) [1/kg]: the root mean square of each contact's own block of J A^-1 J^T, in scaled
    velocities."""
    inverse = jnp.concatenate([jnp.linalg.inv(A), jnp.zeros((1, *A.shape[1:]))])
    W = sum(jnp.einsum("crv,cvw,csw->crs", on, inverse[numbers], on) for numbers, on in rows.sides())
    return root_mean_square(W, rows.e)


def root_mean_square(W, e):
    """Of the contacts' own blocks W (nc, 1 + k, 1 + k) with semi-axes e (nc, k) of friction."""
    return jnp.linalg.norm(W, axis=(1, 2)) / (1 + jnp.sum(e > 0, axis=1))


def minimise(A, rows: HeldRows, law: Law, u_free, start, momentum_unit, tolerance, max_iterations) -> Impulses:
    """The minimum by Newton's method with an exact line search, from `start` (nb, 6 or 3), a guess
    of v - v*, or from zero if that has the lower objective; u_free (nc, 1 + k) are the scaled
    contact velocities of v*.

    Unknowns are v - v*, so that contacts of fast bodies keep their digits. `tolerance` bounds the
    gradient in `momentum_unit` (nb, 6 or 3), or in the largest contact momentum in these units
    where that exceeds 1.
    """

    def gradient(change):
        gamma = law.impulses(u_free + rows.scaled(change))
        given = rows.momenta(gamma, len(A))
        largest = jnp.maximum(1.0, jnp.max(jnp.abs(given / momentum_unit)))
        F = jnp.einsum("bij,bj->bi", A, change) - given
        return F, jnp.max(jnp.abs(F / momentum_unit)) / largest

    def proceed(carry):
        _, _, residual, iterations = carry
        return ((residual > tolerance) | (iterations == 0)) & (iterations < max_iterations)

    def advance(carry):
        change, F, _, iterations = carry
        H = _hessian(A, rows, law, u_free + rows.scaled(change))
        step = -jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(H), F.reshape(-1)).reshape(F.shape)
        length = line_search(
            jnp.vdot(step, jnp.einsum("bij,bj->bi", A, change)),
            jnp.vdot(step, jnp.einsum("bij,bj->bi", A, step)),
            u_free + rows.scaled(change),
            rows.scaled(step),
            law,
        )
        change = change + length * step
        return change, *gradient(change), iterations + 1

    start = jnp.where(_objective(A, rows, law, u_free, start) < _objective(A, rows, law, u_free, 0 * start), start, 0.0)
    begin = varying_like((start, *gradient(start), jnp.zeros((), int)), (start, rows, u_free))
    end, _, residual, iterations = lax.while_loop(proceed, advance, begin)
    return Impulses(law.impulses(u_free + rows.scaled(end)), residual, iterations, residual <= tolerance)


def unconvexified(A, rows: HeldRows, law: Law, u_free, start: Impulses, units, tolerance, max_iterations) -> Impulses:
    """Coulomb's law as it is, 0 <= p_n _|_ u_n - vhat + R_n p_n >= 0 with maximum dissipation, S
    (7), (13), from the convex answer; `units`: an impulse [N s] and a speed [m/s], in which
    `tolerance` bounds the residual."""
    (impulse, speed), inverse = units, jnp.linalg.inv(A)

    def product(gamma):
        given = gamma * impulse
        change = jnp.einsum("bij,bj->bi", inverse, rows.momenta(given, len(A)))
        return (rows.scaled(change) + law.metric(given.shape[1]) * given) / speed

    r = law.excess(u_free, jnp.zeros_like(u_free)) / speed
    allowed = tolerance + _ROUNDINGS * jnp.finfo(float).eps * jnp.max(jnp.abs(u_free)) / speed
    scaled = dataclasses.replace(start, gamma=start.gamma / impulse)
    found = coulomb(product, r, law.mu, scaled, allowed, max_iterations)
    return dataclasses.replace(found, gamma=found.gamma * impulse)


def _objective(A, rows: HeldRows, law: Law, u_free, change):
    return jnp.einsum("bi,bij,bj->", change, A, change) / 2 + law.cost(u_free + rows.scaled(change))


def _hessian(A, rows: HeldRows, law: Law, u):
    """A + J^T G J (nb w, nb w), with G = -d gamma/du."""
    count, width, _ = A.shape
    numbers = np.arange(count)
    own = jnp.zeros((count, width, count, width)).at[numbers, :, numbers, :].set(A)
    return own.reshape(count * width, count * width) + rows.gathered(law.slopes(u), count)


def line_search(slope, bend, u, du, law: Law):
    """The t > 0 () that minimises slope t + bend t^2 / 2 + sum_i l(u_i + t du_i): Newton's method
    from t = 1, within a bracket. l is convex, so that the zero of the derivative is at most -(slope
    at zero) / bend."""

    def derivative(t):
        return slope + t * bend - jnp.vdot(law.impulses(u + t * du), du)

    first = derivative(jnp.zeros(()))

    def proceed(carry):
        _, _, _, value, iterations = carry
        return (jnp.abs(value) > _EXACT * jnp.abs(first)) & (iterations < _SEARCHES)

    def advance(carry):
        t, low, high, value, iterations = carry
        low, high = jnp.where(value < 0, t, low), jnp.where(value < 0, high, t)
        curvature = jax.jvp(derivative, (t,), (jnp.ones_like(t),))[1]
        trial = t - value / curvature
        t = jnp.where((trial > low) & (trial < high), trial, (low + high) / 2)
        return t, low, high, derivative(t), iterations + 1

    one, zero = jnp.ones(()), jnp.zeros(())
    high = jnp.maximum(one, -first / bend)
    begin = one, zero, high, derivative(one), jnp.zeros((), int)
    t, *_ = lax.while_loop(proceed, advance, varying_like(begin, begin))
    return jnp.where(first < 0, t, 1.0)  # at the minimum rounding alone decides the sign

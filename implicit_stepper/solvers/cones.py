"""Cone complementarity, Negrut (10)-(12): impulses in friction cones, velocities in their duals, by
first-order methods.

    K = {(p_n, y): |y| <= mu p_n} contains gamma, its dual contains d = N gamma + r, and gamma.d =
    0:

the optimality conditions of min gamma.N gamma / 2 + r.gamma over K. All three methods need N only
as a product. Arguments are dimensionless; the residual of an answer is max |gamma - proj_K(gamma -
d)|.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from shapes.shards import varying_like

from .complementarity import fischer_burmeister, length_of, natural_disc
from .newton import linearized, newton

_RECENT = 10  # objective values of which Barzilai-Borwein steps stay below the largest
_SUFFICIENT = 1e-4  # of the first-order decrease
_GROWTH, _DECAY = 2.0, 0.9  # of the estimate of the largest eigenvalue


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Impulses:
    """What a contact solver leaves: gamma (nc, 1 + k) = (p_n, y) [N s, or dimensionless]; residual
    (), dimensionless; iterations (); converged ()."""

    gamma: jax.Array
    residual: jax.Array
    iterations: jax.Array
    converged: jax.Array


def project(gamma, mu):
    """The point of the cone |y| <= mu p_n closest to gamma (1 + k,) = (p_n, y)."""
    p_n, y = gamma[0], gamma[1:]
    size = length_of(y)
    # where mu = 0 the cone is a ray, of which a pull along it is no part
    inside, polar = (size <= mu * p_n) & (p_n >= 0), mu * size <= -p_n
    head = (p_n + mu * size) / (1 + mu**2)
    onto = jnp.concatenate([head[None], y * (mu * head / jnp.where(size > 0, size, 1.0))])
    return jnp.where(inside, gamma, jnp.where(polar, 0.0, onto))


def _measure(gamma, d, mu):
    return jnp.max(jnp.abs(gamma - jax.vmap(project)(gamma - d, mu)), initial=0.0)


def apgd(product: Callable, r, mu, start, tolerance, max_iterations) -> Impulses:
    """Accelerated projected gradient descent with adaptive restart, Mazhar et al. (2015);
    `product(gamma)` is N gamma."""
    cone = jax.vmap(project)

    def proceed(carry):
        return (carry["residual"] > tolerance) & (carry["iterations"] < max_iterations)

    def advance(carry):
        gamma, y, Ny = carry["gamma"], carry["y"], carry["Ny"]
        gradient = Ny + r

        def trial(L):
            new = cone(y - gradient / L, mu)
            return new, product(new)

        def too_long(attempt):
            L, new, N_new = attempt
            step = new - y
            return jnp.vdot(step, N_new - Ny) > L * jnp.vdot(step, step)

        def shorter(attempt):
            L = _GROWTH * attempt[0]
            return L, *trial(L)

        L, new, N_new = lax.while_loop(too_long, shorter, (carry["L"], *trial(carry["L"])))
        theta = carry["theta"]
        theta_new = (theta * jnp.sqrt(theta**2 + 4) - theta**2) / 2
        restart = jnp.vdot(gradient, new - gamma) > 0
        beta = jnp.where(restart, 0.0, theta * (1 - theta) / (theta**2 + theta_new))
        return {
            "gamma": new,
            "N": N_new,
            "y": new + beta * (new - gamma),
            "Ny": N_new + beta * (N_new - carry["N"]),
            "theta": jnp.where(restart, 1.0, theta_new),
            "L": _DECAY * L,
            "residual": _measure(new, N_new + r, mu),
            "iterations": carry["iterations"] + 1,
        }

    gamma, N = _best_start(product, r, mu, start)
    first = {
        "gamma": gamma,
        "N": N,
        "y": gamma,
        "Ny": N,
        "theta": jnp.ones(()),
        "L": _curvature(product, gamma),
        "residual": _measure(gamma, N + r, mu),
        "iterations": jnp.zeros((), int),
    }
    end = lax.while_loop(proceed, advance, varying_like(first, first))
    return Impulses(end["gamma"], end["residual"], end["iterations"], end["residual"] <= tolerance)


def barzilai_borwein(product: Callable, r, mu, start, tolerance, max_iterations) -> Impulses:
    """Spectral projected gradient with a non-monotone line search, Birgin, Martinez and Raydan
    (2000)."""
    cone = jax.vmap(project)

    def proceed(carry):
        return (carry["residual"] > tolerance) & (carry["iterations"] < max_iterations)

    def advance(carry):
        gamma, gradient = carry["gamma"], carry["N"] + r
        direction = cone(gamma - carry["length"] * gradient, mu) - gamma
        N_direction = product(direction)
        slope, bend = jnp.vdot(gradient, direction), jnp.vdot(direction, N_direction)

        def change(step):
            # of the objective: exact, without cancellation
            return step * slope + step**2 * bend / 2

        highest = jnp.max(carry["recent"])  # above the present value
        one = varying_like(jnp.ones(()), slope)
        step = lax.while_loop(lambda t: change(t) > highest + _SUFFICIENT * t * slope, lambda t: t / 2, one)
        new, N_new = gamma + step * direction, carry["N"] + step * N_direction
        squared = jnp.vdot(direction, direction)
        return {
            "gamma": new,
            "N": N_new,
            "length": jnp.where(bend > 0, squared / jnp.where(bend > 0, bend, 1.0), carry["length"]),
            "recent": (jnp.roll(carry["recent"], 1) - change(step)).at[0].set(0.0),
            "residual": _measure(new, N_new + r, mu),
            "iterations": carry["iterations"] + 1,
        }

    gamma, N = _best_start(product, r, mu, start)
    first = {
        "gamma": gamma,
        "N": N,
        "length": 1 / _curvature(product, gamma),
        "recent": jnp.zeros(_RECENT),
        "residual": _measure(gamma, N + r, mu),
        "iterations": jnp.zeros((), int),
    }
    end = lax.while_loop(proceed, advance, varying_like(first, first))
    return Impulses(end["gamma"], end["residual"], end["iterations"], end["residual"] <= tolerance)


def gauss_seidel(on, back, bodies, body_count: int, r, mu, start, tolerance, max_iterations) -> Impulses:
    """Projected block Gauss-Seidel, Tasora and Anitescu (2010): contact after contact, one
    projected gradient step in its own block of N.

    Per contact and side, `on` (nc, 2, 1 + k, w) takes the velocity change of a body to the contact
    and `back` (nc, 2, w, 1 + k) an impulse to a velocity change; `bodies` (nc, 2) are their
    numbers, `body_count` that of all fixed ones.
    """
    bodies = jnp.asarray(bodies)
    blocks = jnp.einsum("csrw,cswq->crq", on, back)
    # at most the inverse of the largest eigenvalue; contacts with rows of zeros stay as they are
    size = jnp.linalg.norm(blocks, axis=(1, 2))
    steps = jnp.where(size > 0, 1 / jnp.where(size > 0, size, 1.0), 0.0)

    def gradient(c, u):
        return jnp.einsum("srw,sw->r", on[c], u[bodies[c]]) + r[c]

    def relax(c, carry):
        gamma, u = carry
        new = project(gamma[c] - steps[c] * gradient(c, u), mu[c])
        change = jnp.einsum("swr,r->sw", back[c], new - gamma[c])
        return gamma.at[c].set(new), u.at[bodies[c]].add(change)

    def proceed(carry):
        return (carry[2] > tolerance) & (carry[3] < max_iterations)

    def sweep(carry):
        gamma, u, _, iterations = carry
        gamma, u = lax.fori_loop(0, len(bodies), relax, (gamma, u))
        d = jnp.einsum("csrw,csw->cr", on, u[bodies]) + r
        return gamma, u, _measure(gamma, d, mu), iterations + 1

    gamma = jax.vmap(project)(start, mu)
    u = jnp.zeros((body_count + 1, on.shape[-1])).at[bodies].add(jnp.einsum("cswr,cr->csw", back, gamma))
    begin = varying_like((gamma, u, jnp.asarray(jnp.inf), jnp.zeros((), int)), (on, back, r, mu, start))
    gamma, _, residual, iterations = lax.while_loop(proceed, sweep, begin)
    return Impulses(gamma, residual, iterations, residual <= tolerance)


def coulomb(product: Callable, r, mu, start: Impulses, tolerance, max_iterations: int = 60, least=0.0) -> Impulses:
    """The problem that the cone relaxes, by Newton's method from its answer: 0 <= p_n - `least`
    (nc,) _|_ d_n >= 0 with maximum dissipation, Negrut (5) without the term mu |v_T|. Iterations
    are added up."""
    shape, residual = start.gamma.shape, functools.partial(coulomb_rows, product, r, mu, least)
    end = newton(linearized(residual), start.gamma.reshape(-1), tolerance=tolerance, max_iterations=max_iterations)
    return Impulses(end.z.reshape(shape), end.residual, start.iterations + end.iterations, end.converged)


def coulomb_rows(product: Callable, r, mu, least, z):
    """Rows (nc (1 + k),), zero where z (nc (1 + k),) is what `coulomb` finds."""
    gamma = z.reshape(r.shape)
    d = product(gamma) + r
    normal = fischer_burmeister(gamma[:, 0] - least, d[:, 0])
    friction = jax.vmap(natural_disc)(gamma[:, 1:], d[:, 1:], jnp.maximum(mu * gamma[:, 0], 0.0))
    return jnp.concatenate([normal[:, None], friction], axis=1).reshape(-1)


def _best_start(product: Callable, r, mu, start):
    """`start` projected, or zero if that has the lower objective; and N times it."""
    gamma = jax.vmap(project)(start, mu)
    N = product(gamma)
    lower = jnp.vdot(gamma, N) / 2 + jnp.vdot(gamma, r) < 0
    return jnp.where(lower, gamma, 0.0), jnp.where(lower, N, 0.0)


def _curvature(product: Callable, gamma):
    """|N 1| / |1| (), a first estimate of an eigenvalue; 1 where that is none, as of a particle
    between two parallel lines, whose impulses of 1 cancel."""
    ones = jnp.ones_like(gamma)
    found = jnp.linalg.norm(product(ones)) / jnp.linalg.norm(ones)
    return jnp.where(found > 0, found, 1.0)


# What `ConeComplementarity(solver=...)` offers besides "gauss-seidel", which needs the contacts one
# by one.
GRADIENT_METHODS = {"apgd": apgd, "barzilai-borwein": barzilai_borwein}

"""The theta method of smooth motion: free velocities v*, and the matrix A that answers impulses,
Castro S (6), (8)-(13).

Loads of one body do not depend on others, so that the residual m(v) and its derivatives fall apart
into one block a body. Orientations are displaced by the exponential map, in the inertial frame.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from shapes.shards import varying_like

from ..model import bodies, loads
from ..model.bodies import State
from ..model.system import System
from ..model.units import scales

# Newton's error after a step this small, relative to the velocities, is its square: below
# round-off.
_LAST_STEP = 1e-9
_ITERATIONS = 30


@dataclasses.dataclass(frozen=True)
class Theta:
    """Where between the start (0) and the end (1) of a step loads see positions (q) and velocities
    (v), and which velocity moves the bodies (vq)."""

    q: float
    v: float
    vq: float


SCHEMES = {
    "explicit": Theta(0.0, 0.0, 0.0),
    "symplectic": Theta(0.0, 0.0, 1.0),
    "implicit": Theta(1.0, 1.0, 1.0),
    "midpoint": Theta(0.5, 0.5, 0.5),
}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FreeMotion:
    """v* (nb, 6 or 3); A (nb, 6, 6) or (nb, 3, 3), symmetric positive definite; converged ()."""

    velocity: jax.Array
    A: jax.Array
    converged: jax.Array


def free_motion(theta: Theta, system: System, state: State, h) -> FreeMotion:
    """m(v*) = 0 by Newton's method from the velocities in `state`, and A there, S (8), (10)."""

    def residual(v):
        return momentum_residual(theta, system, state, h, v)

    def proceed(carry):
        _, step, iterations = carry
        # also while NaN, so that it does not pass for a solution
        return ~(step <= _LAST_STEP) & (iterations < _ITERATIONS)

    def advance(carry):
        v, _, iterations = carry
        change = jnp.linalg.solve(blocks(residual, v), residual(v)[..., None])[..., 0]
        unit = scales(system, h).velocity + jnp.max(jnp.abs(v))
        return v - change, jnp.max(jnp.abs(change / unit)), iterations + 1

    start = (state.velocity, jnp.asarray(jnp.inf), jnp.zeros((), int))
    v, step, _ = lax.while_loop(proceed, advance, varying_like(start, (system, state, h)))
    return FreeMotion(v, response_matrix(theta, system, state, h, v), step <= _LAST_STEP)


def momentum_residual(theta: Theta, system: System, state: State, h, v):
    """m(v) (nb, 6 or 3) [N s, N m s] = M(q^theta_q) (v - v0) - h k(q^theta_q, v^theta_v), S (9)."""
    there = midway(theta, system, state, h, v)
    M = bodies.mass_matrices(system, there)
    k = loads.forces(system, there) - loads.gyroscopic(M, there.velocity)
    return jnp.einsum("bij,bj->bi", M, v - state.velocity) - h * k


def response_matrix(theta: Theta, system: System, state: State, h, v):
    """A = M + h^2 theta_q theta_vq K + h theta_v D (nb, 6, 6) or (nb, 3, 3), S (10)-(12), at the
    end velocities v.

    K and D are the positive semidefinite parts of what `jax` derives from the users' wrenches. What
    is left of them, and the gyroscopic moment, are the loads k2 of the splitting, which A leaves
    out.
    """
    there = midway(theta, system, state, h, v)
    A = bodies.mass_matrices(system, there)
    if not any(system.wrench_functions):
        return A
    K = -blocks(lambda displacement: displaced_wrenches(system, there, displacement), jnp.zeros_like(v))
    D = -blocks(lambda velocity: loads.wrenches(system, dataclasses.replace(there, velocity=velocity)), there.velocity)
    return A + h**2 * theta.q * theta.vq * semidefinite_part(K) + h * theta.v * semidefinite_part(D)


def midway(theta: Theta, system: System, state: State, h, v) -> State:
    """q^theta_q and v^theta_v, at the time t^theta_q, where v (nb, 6 or 3) are the velocities at
    the end."""
    there = bodies.moved(state, mixed(theta.vq, state, v), theta.q * h)
    return dataclasses.replace(there, velocity=mixed(theta.v, state, v))


def mixed(share: float, state: State, v):
    """share v + (1 - share) v0."""
    return share * v + (1 - share) * state.velocity


def displaced_wrenches(system: System, state: State, displacement):
    """Users' wrenches (nb, 6 or 3) on bodies displaced by (nb, 6 or 3): shifts [m] and rotation
    vectors [rad]."""
    position, orientation = jax.vmap(bodies.advance, (0, 0, 0, None))(state.position, state.orientation, displacement, 1.0)
    return loads.wrenches(system, dataclasses.replace(state, position=position, orientation=orientation))


def blocks(function: Callable, x):
    """Derivative (nb, w, w) of `function`, (nb, w) to (nb, w), whose row i depends on row i of x
    alone: w derivatives along one direction serve all bodies."""

    def along(axis):
        return jax.jvp(function, (x,), (jnp.broadcast_to(axis, x.shape),))[1]

    return jax.vmap(along, out_axes=-1)(varying_like(jnp.eye(x.shape[1]), x))


def semidefinite_part(matrices):
    """The positive semidefinite matrices (nb, w, w) closest to the symmetric parts of
    `matrices`."""
    values, vectors = jnp.linalg.eigh((matrices + jnp.swapaxes(matrices, 1, 2)) / 2)
    return jnp.einsum("bij,bj,bkj->bik", vectors, jnp.maximum(values, 0.0), vectors)

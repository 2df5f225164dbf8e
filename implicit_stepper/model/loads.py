"""What acts on bodies without contact: loads, weight and gyroscopic moments."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from . import bodies
from .bodies import State
from .system import System


def wrenches(system: System, state: State):
    """Users' wrenches (nb, 6 or 3) [N, N m], constants or functions of time and state."""
    if not any(system.wrench_functions):
        return jnp.asarray(system.wrench)
    moving = state.position, state.orientation, state.velocity
    return jnp.stack(
        [
            system.wrench[i] if function is None else function(state.time, *(a[i] for a in moving))
            for i, function in enumerate(system.wrench_functions)
        ]
    )


def forces(system: System, state: State):
    """Wrenches and weights m g (nb, 6 or 3) [N, N m]."""
    weights = jnp.pad(system.mass[:, None] * system.gravity, ((0, 0), (0, state.velocity.shape[1] - system.dimension)))
    return wrenches(system, state) + weights


def applied_momentum(system: System, state: State, h):
    """M(q) nu + p_app with p_app = h (m g + wrench), (nb, 6 or 3): the known terms of Chakraborty
    (10)."""
    before = jax.vmap(bodies.momentum)(system.mass, system.inertia, state.orientation, state.velocity)
    return before + h * forces(system, state)


def free_velocity(system: System, state: State, mass, h):
    """nu + h M^-1 (loads and gyroscopic moment) (nb, 6 or 3), all at the start of the step, Negrut
    (5a) without contact."""
    momentum = applied_momentum(system, state, h) - h * gyroscopic(mass, state.velocity)
    return jnp.linalg.solve(mass, momentum[..., None])[..., 0]


def gyroscopic(mass, velocity):
    """(0, omega x I omega) (nb, 6) [N, N m] in the inertial frame, of mass matrices; none (nb, 3)
    in the plane."""
    if velocity.shape[1] == 3:
        return jnp.zeros_like(velocity)
    spin = velocity[:, 3:]
    return jnp.pad(jnp.cross(spin, jnp.einsum("bij,bj->bi", mass[:, 3:, 3:], spin)), ((0, 0), (3, 0)))

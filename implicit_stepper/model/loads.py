"""What acts on bodies without contact: loads, weight and gyroscopic moments."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from . import bodies
from .bodies import State
from .system import System


def applied_momentum(system: System, state: State, h):
    """M(q) nu + p_app with p_app = h (m g + wrench), (nb, 6 or 3): the known terms of Chakraborty
    (10)."""
    moving = state.position, state.orientation, state.velocity
    before = jax.vmap(bodies.momentum)(system.mass, system.inertia, state.orientation, state.velocity)
    loads = jnp.asarray(system.wrench)
    if any(system.wrench_functions):
        loads = jnp.stack(
            [
                loads[i] if function is None else function(state.time, *(a[i] for a in moving))
                for i, function in enumerate(system.wrench_functions)
            ]
        )
    weight = jnp.pad(system.mass[:, None] * system.gravity, ((0, 0), (0, loads.shape[1] - system.dimension)))
    return before + h * (loads + weight)


def free_velocity(system: System, state: State, mass, h):
    """nu + h M^-1 (loads and gyroscopic moment) (nb, 6 or 3), all at the start of the step, Negrut
    (5a) without contact."""
    d = system.dimension
    momentum = applied_momentum(system, state, h)
    if d == 3:
        spin = state.velocity[:, d:]
        gyroscopic = jnp.cross(spin, jnp.einsum("bij,bj->bi", mass[:, d:, d:], spin))
        momentum = jnp.concatenate([momentum[:, :d], momentum[:, d:] - h * gyroscopic], axis=1)
    return jnp.linalg.solve(mass, momentum[..., None])[..., 0]

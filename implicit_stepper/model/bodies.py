"""Rigid bodies: their state, their world inertia, and the momentum that the step conserves."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from shapes.small_algebra import inner, product

from . import rotation
from .system import System


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """Moving bodies at one time, in the inertial frame.

    time () [s]; position (nb, d) [m] of the centres of mass; orientation (nb, 4) unit quaternions,
    w first, or (nb, 1) angles [rad] in the plane; velocity (nb, 6) or (nb, 3), (linear [m/s],
    angular [rad/s]).
    """

    time: jax.Array
    position: jax.Array
    orientation: jax.Array
    velocity: jax.Array


def momentum(mass, inertia, orientation, velocity):
    """M(q) nu (6,) or (3,) of one body: (linear [N s], angular [N m s]); `inertia` (3, 3) or (1, 1)
    in the body frame."""
    d = velocity.shape[0] - inertia.shape[0]
    return jnp.concatenate([mass * velocity[:d], inner(world_inertia(inertia, orientation), velocity[d:])])


def world_inertia(inertia, orientation):
    """R I R^T (3, 3) [kg m^2]; in the plane the scalar inertia (1, 1) as it is."""
    if inertia.shape == (1, 1):
        return inertia
    r = rotation.matrix(orientation)
    return product(product(r, inertia), r.T)


def advance(position, orientation, velocity, h):
    """Pose of one body after moving for h [s] with constant `velocity`: x + h v, and exp(h omega)
    applied to Q."""
    d = position.shape[0]
    return position + h * velocity[:d], rotation.advance(orientation, h * velocity[d:])


def moved(state: State, velocity, h) -> State:
    """Where `velocity` (nb, 6 or 3) leads in h [s]."""
    position, orientation = jax.vmap(advance, (0, 0, 0, None))(state.position, state.orientation, velocity, h)
    return State(state.time + h, position, orientation, velocity)


def mass_matrices(system: System, state: State):
    """(nb, 6, 6) or (nb, 3, 3) of the moving bodies in `state`."""
    d = system.dimension

    def one(mass, inertia, orientation):
        return jax.scipy.linalg.block_diag(mass * jnp.eye(d), world_inertia(inertia, orientation))

    return jax.vmap(one)(system.mass, system.inertia, state.orientation)

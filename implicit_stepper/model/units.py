"""The units in which the unknowns and rows of a step are measured, so that one tolerance serves all
of them.

From the scene's length L [m] and acceleration g [m/s^2] and the step h: velocities in g h, impulses
in m g h, moments in m g h times the radius of gyration, points in L, gaps in h sqrt(g L). Without
them p_n is 1e-2 where the gap is 1e-10.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from .system import System, body_numbers, take


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Scales:
    """length () [m]; speed () = g h [m/s]; gap () [m]; velocity (nb, 6 or 3); momentum (nb, 6 or
    3); impulse, per group of constraints (n,) [N s]; unknowns, per group (n, width)."""

    length: jax.Array
    speed: jax.Array
    gap: jax.Array
    velocity: jax.Array
    momentum: jax.Array
    impulse: tuple[jax.Array, ...]
    unknowns: tuple[jax.Array, ...]


def scales(system: System, h) -> Scales:
    """The units of a step of h [s]."""
    speed = system.acceleration * h
    radius = jnp.sqrt(jnp.trace(system.inertia, axis1=1, axis2=2) / system.mass)[:, None]
    linear, angular = jnp.ones((1, system.dimension)), jnp.ones((1, system.inertia.shape[-1]))
    impulse = tuple(_lighter_mass(system, group) * speed for group in system.constraints)
    return Scales(
        length=system.length,
        speed=speed,
        gap=h * jnp.sqrt(system.acceleration * system.length),
        velocity=speed * jnp.concatenate([linear + 0 * radius, angular / radius], axis=1),
        momentum=speed * system.mass[:, None] * jnp.concatenate([linear + 0 * radius, angular * radius], axis=1),
        impulse=impulse,
        unknowns=tuple(
            group.unknown_units(system.length, speed, own) for group, own in zip(system.constraints, impulse, strict=True)
        ),
    )


def _lighter_mass(system: System, group):
    fixed = jnp.full(system.fixed_position.shape[0], jnp.inf)
    masses = jnp.concatenate([jnp.asarray(system.mass), fixed])
    return jnp.minimum(*(take(masses, numbers) for numbers in body_numbers(group).T))

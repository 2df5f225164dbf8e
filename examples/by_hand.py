"""The stepper by hand, and under `vmap`: 16 spins of the sphere of example 2 in one compiled
batch."""

import dataclasses

import jax
import jax.numpy as jnp

import implicit_stepper as ist
from implicit_stepper.paper import scenes

stepper = ist.GeometricallyImplicit()
system, state = scenes.spin().build()
spins = jnp.linspace(0.0, 1.962, 16)


def final_velocity(spin, steps=10, h=0.07):
    """Velocity (6,) of the sphere after `steps` steps from a spin [rad/s], and whether every step
    was solved."""
    start = dataclasses.replace(state, velocity=jnp.asarray(state.velocity).at[0, 5].set(spin))

    def step(carry, _):
        result = stepper.step(system, *carry, h)
        return (result.state, result.memory), result.result == ist.Result.SOLVED

    (end, _), solved = jax.lax.scan(step, (start, stepper.init(system, start)), None, length=steps)
    return end.velocity[0], jnp.all(solved)


velocities, solved = jax.jit(jax.vmap(final_velocity))(spins)

if __name__ == "__main__":
    print("start [rad/s]   after 0.7 s [rad/s]   solved")
    for before, after, good in zip(spins, velocities[:, 5], solved, strict=True):
        print(f"{before:13.4f} {after:21.6f}   {bool(good)}")

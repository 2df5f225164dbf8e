"""What gradients and batches cost, and derivatives along chosen steps: `python
benchmarks/derivatives.py`. CPU seconds, the least of several runs."""

from __future__ import annotations

import time

import chosen_derivatives
import jax
import jax.numpy as jnp
import numpy as np

import implicit_stepper as ist
from implicit_stepper.paper import scenes
from implicit_stepper.run.parameters import changed
from implicit_stepper.stepping.stepper import closest_points

STEPPER = ist.GeometricallyImplicit()


def best(function, *arguments) -> float:
    """CPU seconds [s] of a compiled call."""
    jax.block_until_ready(function(*arguments))
    found = []
    for _ in range(7):
        begun = time.process_time()
        jax.block_until_ready(function(*arguments))
        found.append(time.process_time() - begun)
    return min(found)


def gradients() -> None:
    """Example 3 at h = 5 ms: the last position by the two mu."""
    system, start = jax.tree.map(jnp.asarray, scenes.two_spheres().build())
    memory = STEPPER.init(system, start, closest_points(system, start))
    print("| steps | forward [ms] | with gradient | with jacfwd | with economical gradient |\n|---|---|---|---|---|")
    for steps in (1, 500):

        def loss(mu, economical=False, steps=steps):
            own, begun = changed(system, start, {"mu": mu})
            run = ist.rollout(own, STEPPER, 0.005, steps, start=begun, memory=memory, economical=economical)
            return jnp.sum(run.states.position[-1])

        mu, one = jnp.full(2, 0.2), [loss, jax.value_and_grad(loss), lambda mu, f=loss: (f(mu), jax.jacfwd(f)(mu))]
        one.append(jax.value_and_grad(lambda mu, f=loss: f(mu, True)))
        forward, *others = (best(jax.jit(function), mu) for function in one)
        print(f"| {steps} | {1e3 * forward:.2f} | " + " | ".join(f"{other / forward:.2f}" for other in others) + " |")


def batches() -> None:
    """Examples 3 and 2 at h = 10 ms, mu spread from .15 to .3."""
    rng = np.random.default_rng(0)
    for number, scene, count, duration in ((3, scenes.two_spheres(), 1024, 4.0), (2, scenes.spin(), 4096, 1.0)):
        mu = rng.uniform(0.15, 0.3, count)
        found = ist.simulate_batch(scene, STEPPER, h=0.01, duration=duration, parameters={"mu": mu}, progress=False)
        print(f"example {number}, {count} scenes: {found}; certificates up to {found.violation.max():.0e}")


if __name__ == "__main__":
    gradients()
    batches()
    chosen_derivatives.main(())

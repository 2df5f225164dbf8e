"""Batches on an accelerator: `python benchmarks/gpu.py [cpu]`, with JAX's wheel for the device.

Prints a Markdown table: certified steps of examples 3 and 2 a second, by `simulate_batch`, whose
blocks go to the devices in turn, and by one rollout under `vmap`, with the scenes that it solved.
Ends with a message where JAX sees no accelerator, unless it is asked for the `cpu`."""

from __future__ import annotations

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import implicit_stepper as ist
from implicit_stepper.paper import scenes
from implicit_stepper.run.parameters import changed
from implicit_stepper.stepping.stepper import closest_points

STEPPER, H = ist.GeometricallyImplicit(), 0.01
# example, scene, scenes, duration [s]
CASES = ((3, scenes.two_spheres, 1024, 4.0), (2, scenes.spin, 4096, 1.0))


def rolled(scene, mu, steps: int) -> tuple[float, int]:
    """Seconds [s] of all scenes at once, compiled, and how many are solved."""
    system, start = jax.tree.map(jnp.asarray, scene.build())
    closest = closest_points(system, start)

    def run(mu):
        own, begun = changed(system, start, {"mu": mu})
        return ist.rollout(own, STEPPER, H, steps, start=begun, memory=STEPPER.init(own, begun, closest)).result

    together = jax.jit(jax.vmap(run))
    jax.block_until_ready(together(mu))
    begun = time.perf_counter()
    result = np.asarray(together(mu))
    return time.perf_counter() - begun, int(np.sum(np.all(result == ist.Result.SOLVED, axis=1)))


def main(arguments: list[str]) -> None:
    """Both tables' rows."""
    device = jax.devices()[0]
    if device.platform == "cpu" and arguments != ["cpu"]:
        sys.exit("JAX sees no accelerator here: install its wheel for one, or give `cpu`.")
    print(f"{device.platform}, {device.device_kind}, {len(jax.devices())} of it; jax {jax.__version__}\n")
    print("| scenes | simulate_batch, steps a second | solved | by vmap | solved |\n|---|---|---|---|---|")
    for number, build, count, duration in CASES:
        mu, steps = np.random.default_rng(0).uniform(0.15, 0.3, count), round(duration / H)
        found = ist.simulate_batch(build(), STEPPER, h=H, duration=duration, parameters={"mu": mu}, progress=False)
        seconds, solved = rolled(build(), jnp.asarray(mu), steps)
        print(
            f"| {count} of example {number}, {steps} steps | {np.sum(found.steps) / found.seconds:.3g} | "
            f"{np.sum(found.result == ist.Result.SOLVED)} | {count * steps / seconds:.3g} | {solved} |",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])

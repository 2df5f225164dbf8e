"""Batches on an accelerator: `python benchmarks/gpu.py [cpu]`, with JAX's wheel for the device.

Prints a Markdown table: certified steps of examples 3 and 2 a second, by `simulate_batch`, whose
blocks go to the devices in turn, with the pass of a CPU and that of an accelerator, and of 1024
scenes by one rollout under `vmap`, with the scenes that each solved. Ends with a message where JAX
sees no accelerator, unless it is asked for the `cpu`, on which 32 scenes go under `vmap`."""

from __future__ import annotations

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import implicit_stepper as ist
from implicit_stepper.implicit_euler import side_by_side
from implicit_stepper.paper import scenes
from implicit_stepper.run.parameters import changed
from implicit_stepper.stepping.stepper import closest_points

STEPPER, H = ist.GeometricallyImplicit(), 0.01
PASSES = side_by_side.CPU, side_by_side.ACCELERATOR
# example, scene, scenes, duration [s]
CASES = ((3, scenes.two_spheres, 8192, 4.0), (2, scenes.spin, 16384, 1.0))


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


def stepped(scene, mu, duration: float, how: side_by_side.Pass) -> ist.Batch:
    """The batch with a pass that is not asked for by the platform."""
    side_by_side.CPU = side_by_side.ACCELERATOR = how
    return ist.simulate_batch(scene, STEPPER, h=H, duration=duration, parameters={"mu": mu}, progress=False)


def main(arguments: list[str]) -> None:
    """Both tables' rows."""
    device = jax.devices()[0]
    if device.platform == "cpu" and arguments != ["cpu"]:
        sys.exit("JAX sees no accelerator here: install its wheel for one, or give `cpu`.")
    print(f"{device.platform}, {device.device_kind}, {len(jax.devices())} of it; jax {jax.__version__}\n")
    titles = "a CPU's pass, steps a second | solved | an accelerator's | solved | differ by | by vmap | solved"
    print(f"| scenes | {titles} |\n" + "|---" * 8 + "|")
    for number, build, count, duration in CASES:
        mu, steps = np.random.default_rng(0).uniform(0.15, 0.3, count), round(duration / H)
        found = [stepped(build(), mu, duration, how) for how in PASSES]
        rates = [f"{np.sum(own.steps) / own.seconds:.3g} | {np.sum(own.result == ist.Result.SOLVED)}" for own in found]
        apart = np.max(np.abs(found[0].end.velocity - found[1].end.velocity))
        some = jnp.asarray(mu[:32] if device.platform == "cpu" else mu[:1024])
        seconds, solved = rolled(build(), some, steps)
        print(
            f"| {count} of example {number}, {steps} steps | {' | '.join(rates)} | {apart:.0e} | "
            f"{len(some) * steps / seconds:.3g} | {solved} of {len(some)} |",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])

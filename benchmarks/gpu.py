"""Batches on an accelerator: `python benchmarks/gpu.py`, with JAX's wheel for the device.

Prints two Markdown tables: certified steps of examples 3 and 2 a second, by `simulate_batch`, here
and in a process of its own that sees the CPU alone, with the largest difference between their last
velocities; and steps of 1024 scenes (a number may be given) a second by one rollout under `vmap`,
without and with the gradient of their last states by each one's mu. Ends with a message where JAX
sees no accelerator; `python benchmarks/gpu.py vmap 32` makes the second table on any device."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import implicit_stepper as ist
from implicit_stepper.constraints.detection import closest_points
from implicit_stepper.paper import scenes
from implicit_stepper.run.parameters import changed

STEPPER, H = ist.GeometricallyImplicit(), 0.01
# example: scene, scenes, duration [s]
CASES = {3: (scenes.two_spheres, 8192, 4.0), 2: (scenes.spin, 16384, 1.0)}
UNDER_VMAP = 50  # steps


def friction(count: int) -> np.ndarray:
    """Coefficients of the scenes."""
    return np.random.default_rng(0).uniform(0.15, 0.3, count)


def batches(folder: Path) -> None:
    """All batches on this process's devices, each written to the `folder`."""
    for number, (build, count, duration) in CASES.items():
        made = ist.simulate_batch(
            build(), STEPPER, h=H, duration=duration, parameters={"mu": friction(count)}, progress=False
        )
        np.savez(
            folder / f"{number}.npz", steps=np.sum(made.steps), seconds=made.seconds, velocity=made.end.velocity,
            solved=np.sum(made.result == ist.Result.SOLVED), violation=np.max(made.violation),
        )  # fmt: skip


def table_of_batches(folder: Path) -> None:
    """The rows of both devices side by side, the CPU's by a process that sees no other device."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    print("| scenes | device | steps a second | solved | largest violation | velocities differ by |")
    print("|---" * 6 + "|")
    places = folder / "cpu", folder / "here"
    for place in places:
        place.mkdir()
    subprocess.run([sys.executable, __file__, "batches", str(places[0])], env=environment, check=True)
    batches(places[1])
    for number, (_, count, duration) in CASES.items():
        there, here = (np.load(place / f"{number}.npz") for place in places)
        apart = np.max(np.abs(there["velocity"] - here["velocity"]))
        for of, name in ((there, f"CPU, {os.cpu_count()} cores"), (here, jax.devices()[0].device_kind)):
            print(
                f"| {count} of example {number}, {round(duration / H)} steps | {name} | "
                f"{of['steps'] / of['seconds']:.3g} | {of['solved']} | {of['violation']:.0e} | {apart:.0e} |",
                flush=True,
            )


def timed(function, mu):
    """What the `function` of the coefficients returns, compiled, the seconds [s] that it takes and
    those of the first call."""
    begun = time.perf_counter()
    jax.block_until_ready(function(mu))
    first, begun = time.perf_counter() - begun, time.perf_counter()
    found = jax.block_until_ready(function(mu))
    return found, time.perf_counter() - begun, first


def table_under_vmap(count: int) -> None:
    """Rows without and with gradients."""
    print("\n| scenes | under vmap | steps a second | solved | first call |\n" + "|---" * 5 + "|")
    for number, (build, _, _) in CASES.items():
        system, start = jax.tree.map(jnp.asarray, build().build())
        closest = closest_points(system, start)

        def run(mu, system=system, start=start, closest=closest):
            own, begun = changed(system, start, {"mu": mu})
            made = ist.rollout(own, STEPPER, H, UNDER_VMAP, start=begun, memory=STEPPER.init(own, begun, closest))
            return jnp.sum(made.states.position[-1] ** 2), made.result

        for name, function in (("states", run), ("gradients too", jax.value_and_grad(run, has_aux=True))):
            found, seconds, first = timed(jax.jit(jax.vmap(function)), jnp.asarray(friction(count)))
            result = np.asarray(found[1] if name == "states" else found[0][1])
            print(
                f"| {count} of example {number}, {UNDER_VMAP} steps | {name} | {count * UNDER_VMAP / seconds:.3g} | "
                f"{np.sum(np.all(result == ist.Result.SOLVED, axis=1))} | {first:.3g} s |",
                flush=True,
            )


def main(arguments: list[str]) -> None:
    """Both tables, or one part."""
    if arguments[:1] == ["batches"]:
        batches(Path(arguments[1]))
        return
    count = int(arguments[1]) if len(arguments) > 1 else 1024
    device = jax.devices()[0]
    if arguments[:1] != ["vmap"]:
        if device.platform == "cpu":
            sys.exit("JAX sees no accelerator here: install its wheel for one, or give `vmap 32`.")
        print(f"{device.platform}, {device.device_kind}, {len(jax.devices())} of it; jax {jax.__version__}\n")
        with tempfile.TemporaryDirectory() as folder:
            table_of_batches(Path(folder))
    table_under_vmap(count)


if __name__ == "__main__":
    main(sys.argv[1:])

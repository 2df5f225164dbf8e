"""Derivatives of random steps, what gradients and batches cost, and derivatives of runs: `python
benchmarks/derivatives.py [random_steps | unasked | gradients | batches | runs]`. CPU seconds, the
least of several runs; of `unasked`, medians of runs in turn."""

from __future__ import annotations

import dataclasses
import sys
import time

import chosen_derivatives
import jax
import jax.numpy as jnp
import numpy as np

import implicit_stepper as ist
from implicit_stepper.constraints.detection import closest_points
from implicit_stepper.implicit_euler import initial_guess, step_root
from implicit_stepper.paper import scenes
from implicit_stepper.run.parameters import changed

STEPPER = ist.GeometricallyImplicit()
STATE = ("position", "orientation", "velocity")
RADIUS = 0.25  # of `scenes.landing_ball` [m]


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


def stepped(steps: int, differentiable: bool):
    """`steps` steps of example 3 as a compiled program, with and without the rule for derivatives
    of roots."""
    system, start = jax.tree.map(jnp.asarray, scenes.two_spheres().build())
    memory = STEPPER.init(system, start, closest_points(system, start))
    jax.clear_caches()  # what was traced with the rule, or without
    of = {module: module.root for module in (step_root, initial_guess)}
    for module in of:
        module.root = of[module] if differentiable else lambda residual, linearize, theta, found: found
    try:

        def end(start, memory):
            run = ist.rollout(system, STEPPER, 0.005, steps, start=start, memory=memory)
            return run.states.position[-1], run.result

        lowered = jax.jit(end).lower(start, memory)
    finally:
        for module, root in of.items():
            module.root = root
    return lowered, (start, memory)


def operations(text: str) -> int:
    """Of a program, compiled or not."""
    return sum(" = " in line for line in text.splitlines())


def unasked(repeats: int = 300) -> None:
    """What the rule for derivatives costs where none is asked for: programs with it, without it,
    and without it once more, to see what the same program takes in another place, run in turn."""
    print("| steps | same program | operations | with / without | without / again |\n" + "|---" * 5 + "|")
    for steps in (1, 500):
        made = [stepped(steps, differentiable) for differentiable in (True, False, False)]
        programs = [lowered.compile() for lowered, _ in made]
        texts = [program.as_text() for program in programs]
        calls, seconds, rng = max(1, 100 // steps), np.zeros((repeats, 3)), np.random.default_rng(0)
        for repeat in range(repeats):
            for which in rng.permutation(3):
                begun = time.process_time()
                for _ in range(calls):
                    jax.block_until_ready(programs[which](*made[which][1]))
                seconds[repeat, which] = time.process_time() - begun
        told = []
        for one, other in ((0, 1), (1, 2)):
            low, middle, high = np.quantile(seconds[:, one] / seconds[:, other], (0.25, 0.5, 0.75))
            told.append(f"{middle:.4f} ({low:.3f} to {high:.3f})")
        print(
            f"| {steps} | {texts[0] == texts[1]} | {operations(texts[0])} and {operations(texts[1])} | {' | '.join(told)} |",
            flush=True,
        )


def batches() -> None:
    """Examples 3 and 2 at h = 10 ms, mu spread from .15 to .3; and whether some of these scenes in
    another order, in a smaller batch, come out the same to the bit."""
    rng = np.random.default_rng(0)
    print("| scenes | solved | certificates up to | steps a CPU second | steps a second | same bits |\n" + "|---" * 6 + "|")
    for number, scene, count, duration in ((3, scenes.two_spheres(), 1024, 4.0), (2, scenes.spin(), 4096, 1.0)):
        mu = rng.uniform(0.15, 0.3, count)
        settings = {"h": 0.01, "duration": duration, "progress": False}
        found = ist.simulate_batch(scene, STEPPER, parameters={"mu": mu}, **settings)
        some = rng.permutation(count)[:100]
        again = ist.simulate_batch(scene, STEPPER, parameters={"mu": mu[some]}, **settings)
        same = all(getattr(found.end, name)[some].tobytes() == getattr(again.end, name).tobytes() for name in STATE)
        total = np.sum(found.steps)
        print(
            f"| {count} of example {number}, {total // count} steps | {np.sum(found.result == ist.Result.SOLVED)} | "
            f"{found.violation.max():.0e} | {total / found.cpu_seconds:.3g} | {total / found.seconds:.3g} | {same} |",
            flush=True,
        )


def random_steps(count: int = 10_000) -> None:
    """One step of a ball on or above a plane, from random states: its end by the velocity and mu,
    in both modes, and the second derivative."""
    system, begun = jax.tree.map(jnp.asarray, scenes.landing_ball().build())
    rng = np.random.default_rng(0)
    heights = RADIUS + np.maximum(rng.normal(scale=0.02, size=count), 0.0)
    inputs = np.concatenate([rng.uniform(0, 1, (count, 1)), rng.normal(size=(count, 6))], axis=1)

    def end(at, height):
        start = dataclasses.replace(begun, position=begun.position.at[0, 2].set(height))
        own, start = changed(system, start, {"mu": at[:1], "velocity": at[None, 1:]})
        run = ist.rollout(own, STEPPER, 0.01, 1, start=start)
        return jnp.concatenate([run.states.position[-1, 0], run.states.velocity[-1, 0]]), run.result[0]

    def every(of):
        at, height = of
        forward, result = jax.jacfwd(end, has_aux=True)(at, height)
        reverse, _ = jax.jacrev(end, has_aux=True)(at, height)
        second, _ = jax.jacfwd(jax.jacrev(end, has_aux=True), has_aux=True)(at, height)
        good = [jnp.all(jnp.isfinite(a)) for a in (forward, reverse, second)]
        return result, jnp.stack(good), jnp.max(jnp.abs(forward - reverse)) / jnp.max(jnp.abs(forward))

    result, good, off = map(np.asarray, jax.jit(lambda of: jax.lax.map(every, of))((inputs, heights)))
    finite = ", ".join(str(int(n)) for n in good.sum(axis=0))
    print(
        f"{count} random steps, {np.sum(result == ist.Result.SOLVED)} solved: jacfwd, jacrev and jacfwd(jacrev) finite in "
        f"{finite}; the first two differ by up to {np.max(off):.0e} of the largest entry"
    )


PARTS = {
    "random_steps": random_steps,
    "unasked": unasked,
    "gradients": gradients,
    "batches": batches,
    "runs": lambda: chosen_derivatives.main(()),
}


if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()

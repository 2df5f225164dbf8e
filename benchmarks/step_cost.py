"""What a step of the paper's example 3 costs, against one evaluation of its residual, measured side
by side on one core.

    python benchmarks/step_cost.py

Prints Markdown tables for docs/benchmarks.md: the cost of a step, of the two forms of the friction
rows, of compiling with and without the option of `compilation`, and of first calls of `simulate`.
Every figure is the median of the repeats with its range.
"""

import dataclasses
import functools
import itertools
import multiprocessing
import os
import platform
import statistics
import time

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import jax
import jax.numpy as jnp
import numpy as np

import implicit_stepper as ist
import shapes
from implicit_stepper.implicit_euler import ncp
from implicit_stepper.paper import scenes
from implicit_stepper.runtime.compilation import jit

REPEATS = 9
CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else {0}
EXAMPLE_3 = functools.partial(scenes.two_spheres, shapes.Sphere)


def on(cores):
    """Keeps this process to `cores`, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)


def seconds(function, *arguments):
    """Times of REPEATS runs after a first one that compiles."""
    jax.block_until_ready(function(*arguments))
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        times.append(time.perf_counter() - start)
    return times


def spread(values, form="{:.3g}"):
    """Median (least to largest)."""
    return f"{form.format(statistics.median(values))} ({form.format(min(values))} to {form.format(max(values))})"


def rollout(stepper, h, steps):
    """A jitted run of example 3 without certificates: the bare stepper."""

    def step(system, carry, _):
        result = stepper.step(system, *carry, h)
        return (result.state, result.memory), (result.stats, result.result)

    def run(system, state, memory):
        return jax.lax.scan(functools.partial(step, system), (state, memory), None, length=steps)[1]

    return jit(run)


def repeated_residual(count):
    """`count` residual evaluations that depend on each other, so that none can be dropped."""

    def run(problem, z):
        return jax.lax.fori_loop(0, count, lambda _, z: z + 1e-14 * ncp.residual(problem, z), z)

    return jit(run)


def example_3(*, friction, tolerance, h):
    """Times [s] of a step and of a residual, measured in turn, and the Jacobians of every step that
    is solved."""
    system, state = jax.tree.map(jnp.asarray, scenes.two_spheres().build())
    stepper, steps = ist.GeometricallyImplicit(friction=friction, tolerance=tolerance), round(4 / h)
    memory, run = jit(stepper.init)(system, state), rollout(stepper, h, steps)
    problem = ncp.step_problem(system, state, h, memory.references, friction)
    z = memory.history[0] / ncp.unknown_scale(problem)
    residual = [t / 20_000 for t in seconds(repeated_residual(20_000), problem, z)]
    cost = [t / steps for t in seconds(run, system, state, memory)]
    stats, result = run(system, state, memory)
    return cost, residual, np.asarray(stats.iterations)[np.asarray(result) == ist.Result.SOLVED]


def step_table():
    """Microseconds a step and residual evaluations a step, for both friction forms, two tolerances
    and three h."""
    print(
        "| friction rows | tolerance | h [s] | us a step | residual evaluations a step | Jacobians, mean / max | "
        "steps with any [%] | steps lost |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for friction, tolerance in itertools.product(("projection", "fischer-burmeister"), (1e-10, 1e-12)):
        for h in (0.1, 0.01, 0.001):
            cost, residual, iterations = example_3(friction=friction, tolerance=tolerance, h=h)
            ratios, steps = [c / r for c, r in zip(cost, residual, strict=True)], round(4 / h)
            print(
                f"| {friction} | {tolerance} | {h} | {spread([1e6 * c for c in cost])} | {spread(ratios)} | "
                f"{iterations.mean():.2f} / {iterations.max()} | {100 * np.mean(iterations > 0):.2g} | "
                f"{steps - len(iterations)} of {steps} |"
            )
        print(f"| {friction} | - | - | residual alone: {spread([1e6 * r for r in residual])} | 1 | - | - | - |")


def compile_table():
    """Seconds to trace and to compile one step of example 3, with and without the emitter
    option."""
    system, state = jax.tree.map(jnp.asarray, scenes.two_spheres().build())
    stepper = ist.GeometricallyImplicit()
    memory = jit(stepper.init)(system, state)
    print("| XLA option | trace and lower [s] | compile [s] |")
    print("|---|---|---|")
    for name, options in (("none", None), ("xla_cpu_use_fusion_emitters=False", {"xla_cpu_use_fusion_emitters": False})):
        traced, compiled = [], []
        for number in range(3):
            # another program each time, so nothing is cached
            fresh = dataclasses.replace(stepper, sweeps=60 + number)
            start = time.perf_counter()
            lowered = jax.jit(fresh.step, compiler_options=options).lower(system, state, memory, 0.01)
            middle = time.perf_counter()
            lowered.compile()
            traced.append(middle - start)
            compiled.append(time.perf_counter() - middle)
        print(f"| {name} | {spread(traced)} | {spread(compiled)} |")


def five_classes():
    """Five bodies of as many smooth classes, thrown on a floor."""
    made = ist.Scene()
    floor = made.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    own = shapes.ImplicitShape([shapes.x**2 + shapes.y**2 + shapes.z**2 + shapes.x * shapes.y / 4 - 1], name="own")
    bodies = {
        "ball": shapes.Sphere(0.5),
        "egg": shapes.Ellipsoid((0.5, 0.4, 0.35)),
        "cushion": shapes.Superquadric((0.4, 0.4, 0.4), epsilon=(0.8, 0.8)),
        "own": own,
        "rounded": shapes.Rounded(shapes.Ellipsoid((0.4, 0.3, 0.3)), 0.1),
    }
    for number, (name, shape) in enumerate(bodies.items()):
        body = made.add_body(
            name=name, shape=shape, position=(3.0 * number, 0, 1.2), mass=1.0, inertia=(0.1, 0.1, 0.1),
            velocity=(1, 0, 0, 0, 3, 1),
        )  # fmt: skip
        made.add_contact(floor, body, friction=0.3)
    return made


FIRST_CALLS = {
    "example 3, `GeometricallyImplicit()`, h = .01": (EXAMPLE_3, ist.GeometricallyImplicit(), {"h": 0.01}),
    "five smooth classes, the same": (five_classes, ist.GeometricallyImplicit(), {"h": 0.01}),
    "example 3, `RadauContact()`, tol = 1e-8": (EXAMPLE_3, ist.RadauContact(), {"tol": 1e-8}),
}


def first_calls():
    """Seconds of a first `simulate` of 1 s with nothing compiled, and of the second; each time in a
    process of its own, with one core and with all."""
    print(f"| first call of `simulate` | one core [s] | {len(CORES)} cores [s] | second call, one core [s] |")
    print("|---|---|---|---|")
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as fresh:
        for name in FIRST_CALLS:
            (one, second), (all_, _) = (
                zip(*(fresh.apply(timed_calls, (name, cores)) for _ in range(3)), strict=True)
                for cores in ({min(CORES)}, CORES)
            )
            print(f"| {name} | {spread(one)} | {spread(all_)} | {spread(second)} |", flush=True)


def timed_calls(name, cores):
    """Seconds of a first and a second call on `cores`, with the options of a user."""
    on(cores)
    os.environ["XLA_FLAGS"] = ""
    jax.config.update("jax_enable_compilation_cache", False)
    build, stepper, how = FIRST_CALLS[name]
    scene, seconds = build(), []
    for _ in range(2):
        start = time.perf_counter()
        ist.simulate(scene, stepper, duration=1.0, progress=False, **how)
        seconds.append(time.perf_counter() - start)
    return seconds


if __name__ == "__main__":
    on({min(CORES)})
    device = jax.devices()[0].platform
    print(f"{platform.machine()}, Python {platform.python_version()}, jax {jax.__version__}, {device}, one core\n")
    step_table()
    print()
    compile_table()
    print()
    first_calls()

"""What a step costs under every method: example 3, side by side; and how the cone solvers converge,
and on 1064 contacts.

    python benchmarks/comparators.py

Prints the Markdown tables of docs/benchmarks.md; times are of compiled steps, methods in turn.
"""

import os
import time

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import numpy as np

import implicit_stepper as ist
import shapes
from implicit_stepper.paper import scenes
from implicit_stepper.paper.comparisons import METHODS
from implicit_stepper.time_lagged.cone_complementarity import SOLVERS

H, DURATION, REPEATS = 0.01, 4.0, 9
PILE = (7, 8, 0.005, 20)  # side, layers, h [s], steps


def main():
    """All tables."""
    example_3()
    large_pile()
    convergence()


def example_3():
    """Every method on example 3, in turn."""
    scene = scenes.two_spheres(shapes.Sphere)
    seconds = {name: [] for name in METHODS}
    for repeat in range(REPEATS + 1):
        for name, stepper in METHODS.items():
            start = time.perf_counter()
            run = ist.simulate(scene, stepper, h=H, duration=DURATION, progress=False)
            if repeat:  # the first compiles
                seconds[name].append((time.perf_counter() - start) / len(run))
    print("| method, example 3 | us a step, median (range) | ratio to implicit, median of pairs |\n|---|---|---|")
    for name, values in seconds.items():
        us, ratio = 1e6 * np.array(values), np.median(np.array(values) / np.array(seconds["implicit"]))
        print(f"| {name} | {np.median(us):.0f} ({us.min():.0f} to {us.max():.0f}) | {ratio:.2f} |", flush=True)


def large_pile():
    """Accelerated descent on many contacts."""
    side, layers, h, steps = PILE
    print("\n| pile of 392 balls, 1064 contacts | s a step | iterations a step | residual |\n|---|---|---|---|")
    for tilt in (0.0, 0.6):
        stepper = ist.ConeComplementarity(tolerance=1e-8)
        pile = scenes.pile(side, layers, tilt=tilt)
        ist.simulate(pile, stepper, h=h, duration=h, progress=False, certificate_tolerance=1e-5)
        start = time.perf_counter()
        run = ist.simulate(pile, stepper, h=h, duration=steps * h, progress=False, certificate_tolerance=1e-5)
        cost = (time.perf_counter() - start) / steps
        how = "at rest" if tilt == 0 else "sheared"
        print(f"| {how} | {cost:.2f} | {run.stats.iterations.mean():.0f} | {run.stats.residual.max():.0e} |", flush=True)


def convergence():
    """Iterations of each solver, from no impulses, until the residual is below ever finer
    tolerances."""
    tolerances = (1e-2, 1e-4, 1e-6, 1e-8, 1e-10)
    print("\n| solver, iterations to a residual of | " + " | ".join(f"{t:.0e}" for t in tolerances) + " |\n|" + "---|" * 6)
    pile = scenes.pile(3, 3, tilt=0.6)
    for solver in SOLVERS:
        counts = []
        for tolerance in tolerances:
            stepper = ist.ConeComplementarity(solver=solver, tolerance=tolerance)
            step = ist.simulate(pile, stepper, h=0.005, duration=0.005, progress=False, certificate_tolerance=1e3)
            counts.append(str(step.stats.iterations[0]))
        print(f"| {solver} | " + " | ".join(counts) + " |", flush=True)


if __name__ == "__main__":
    main()

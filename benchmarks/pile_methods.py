"""What every method makes of the same pile: `python benchmarks/pile_methods.py [BODIES [STEPS]]`.

Balls fall into a bin of five planes and settle, as in `piles.py`; every method finds the pairs that
may touch step by step. Prints a Markdown table for docs/benchmarks.md: milliseconds of CPU a step
after the programs are compiled, iterations (of Lemke's method pivots), the least gap of all
contacts, which is overlap, and the largest of those that press, which is what the method's
relaxation or its compliance leaves between bodies."""

import os
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import piles

import implicit_stepper as ist

MU, ALLOWED = 0.3, 1e-7
PRESSES = 1e-9  # [N s]; a ball weighs .025 N s a step
METHODS = {
    "implicit": ist.GeometricallyImplicit(jacobian="sparse"),
    "convex, midpoint": ist.Convex(),
    "convex, symplectic": ist.Convex(scheme="symplectic"),
    "cone complementarity": ist.ConeComplementarity(tolerance=1e-8, max_iterations=100_000),
    "linearised": ist.Linearized(),
}


def row(name, stepper, count, steps):
    """A line of the table."""
    scene = piles.pile(count, "spheres", MU)
    ist.simulate(scene, stepper, h=piles.H, duration=8 * piles.H, certificate_tolerance=ALLOWED, progress=False)
    begun = time.process_time()
    run = ist.simulate(
        scene, stepper, h=piles.H, duration=steps * piles.H, certificate_tolerance=ALLOWED, on_failure="return"
    )
    spent = (time.process_time() - begun) / max(len(run), 1) * 1e3
    gap, presses = run.contacts.gap, run.contacts.normal_impulse > PRESSES
    worst = max(np.max(values) for values in run.certificate.values())
    its = run.stats.iterations
    return (
        f"| {name} | {len(run)} of {steps} | {np.sum(presses[-1])} | {spent:.1f} | {its.mean():.1f} ({its.max()}) | "
        f"{np.nanmin(gap, initial=0.0):.0e} | {np.max(gap[presses], initial=0.0):.0e} | {worst:.0e} |"
    )


def main(count, steps):
    """The table."""
    print(f"{count} balls, mu = {MU}, h = {piles.H} s\n")
    titles = "method | steps | contacts | ms a step | iterations (most) | least gap [m] | largest that presses [m]"
    print(f"| {titles} | violation |\n" + "|---" * 8 + "|")
    for name, stepper in METHODS.items():
        print(row(name, stepper, count, steps), flush=True)


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:3]]
    main(*given, *(30, 100)[len(given) :])

"""Balls that fall into a tight bin and come to rest, with rebounds and without, at the default
tolerances.

    python benchmarks/bins.py --balls 20 24 30 --restitution 0 .5 [--friction .3] [--seconds 1.5]

Prints a Markdown table for docs/benchmarks.md, a row for each run: how far it came, CPU seconds
with what was compiled, impacts, Jacobians a step and the most, the largest violation of a
certificate and the least gap.
"""

import argparse
import itertools
import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import implicit_stepper as ist
import shapes

H = 0.005
HEADER = "| balls | pairs | e | mu | reached [s] | CPU s | impacts | Jacobians a step (most) | violation | least gap [m] |"


def bin_of(count, e, mu, seed):
    """A scene of spheres of 5 cm in layers above the floor between four walls."""
    scene, rng, side = ist.Scene(), np.random.default_rng(seed), int(np.ceil((count / 2) ** (1 / 3)))
    cells = sorted(itertools.product(range(side), range(side), range(count)), key=lambda cell: cell[2])[:count]
    for number, cell in enumerate(cells):
        place = (np.array(cell) - [(side - 1) / 2, (side - 1) / 2, 0]) * 0.12 + [0, 0, 0.2] + rng.uniform(-0.008, 0.008, 3)
        scene.add_body(name=f"ball {number}", shape=shapes.Sphere(0.05), mass=0.5, position=place)
    reach = -(0.06 * side + 0.02)
    planes = ((0, 0, 1), 0.0), *(((x, y, 0), reach) for x, y in ((1, 0), (-1, 0), (0, 1), (0, -1)))
    for number, (normal, offset) in enumerate(planes):
        scene.add_fixed(name=f"plane {number}", shape=shapes.HalfSpace(normal=normal, offset=offset))
    scene.add_contacts(friction=mu, restitution=ist.Newton(e) if e else None)
    return scene


def row(count, e, mu, seed, seconds):
    """A row of the table."""
    scene, begun = bin_of(count, e, mu, seed), time.process_time()
    stepper = ist.GeometricallyImplicit(jacobian="sparse")
    run = ist.simulate(scene, stepper, h=H, duration=seconds, on_failure="return", progress=False)
    spent, jacobians = time.process_time() - begun, run.stats.iterations
    impacts = int(np.sum(np.broadcast_to(run.h, len(run)) == 0.0))
    worst = max(float(np.max(values)) for values in run.certificate.values())
    reached = f"{run.time[-1]:.3f}" + ("" if run.time[-1] > seconds - H / 2 else ", lost")
    return (
        f"| {count} | {scene.pair_count()} | {e} | {mu} | {reached} | {spent:.0f} | {impacts} | "
        f"{np.mean(jacobians):.1f} ({np.max(jacobians)}) | {worst:.0e} | {np.nanmin(run.contacts.gap):.0e} |"
    )


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--balls", type=int, nargs="+", default=[20, 30])
    parser.add_argument("--restitution", type=float, nargs="+", default=[0.0, 0.5])
    parser.add_argument("--friction", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1.5)
    given = parser.parse_args()
    print(HEADER)
    print("|" + "---|" * (HEADER.count("|") - 1))
    for count, e in itertools.product(given.balls, given.restitution):
        print(row(count, e, given.friction, given.seed, given.seconds), flush=True)


if __name__ == "__main__":
    main()

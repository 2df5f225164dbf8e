"""What a step costs with many contacts declared, with the Jacobian in blocks and as one dense matrix, side by side.

    python benchmarks/settling.py

Balls that fall into a bin of five planes, all pairs declared. Prints a Markdown table for docs/benchmarks.md: milliseconds
of CPU a step, after the programs are compiled; the least of the repeats, with the largest.
"""

import itertools
import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import implicit_stepper as ist
import shapes

REPEATS, H = 3, 0.005
RUNS = ((5, 2.0, ("by size", "dense")), (10, 1.0, ("by size",)), (14, 1.0, ("by size",)))


def balls_in_a_bin(count):
    """Spheres of 5 cm in layers above a floor between four walls."""
    scene, rng, side = ist.Scene(), np.random.default_rng(0), int(np.ceil(count ** (1 / 3)))
    cells = sorted(itertools.product(range(side), repeat=3), key=lambda cell: cell[2])[:count]
    balls = []
    for number, cell in enumerate(cells):
        place = (np.array(cell) - [(side - 1) / 2, (side - 1) / 2, 0]) * 0.12 + [0, 0, 0.06] + rng.uniform(-0.008, 0.008, 3)
        balls.append(scene.add_body(name=f"ball {number}", shape=shapes.Sphere(0.05), mass=0.5, position=place))
    reach = -(0.06 * side + 0.02)
    planes = ((0, 0, 1), 0.0), *(((x, y, 0), reach) for x, y in ((1, 0), (-1, 0), (0, 1), (0, -1)))
    walls = [scene.add_fixed(name=f"{n}", shape=shapes.HalfSpace(normal=n, offset=offset)) for n, offset in planes]
    for pair in (*itertools.combinations(balls, 2), *itertools.product(balls, walls)):
        scene.add_contact(*pair, friction=0.3)
    return scene


def cost(scene, stepper, duration):
    """Least and largest milliseconds of CPU a step, and the share of steps that took a Jacobian."""
    times = []
    for _ in range(REPEATS + 1):
        start = time.process_time()
        run = ist.simulate(scene, stepper, h=H, duration=duration)
        times.append((time.process_time() - start) / (len(run.time) - 1) * 1e3)
    return min(times[1:]), max(times[1:]), np.mean(run.stats.iterations > 0)


if __name__ == "__main__":
    print("| balls | pairs | unknowns | Jacobian | ms a step | steps with a new Jacobian |\n|---|---|---|---|---|---|")
    for count, duration, kinds in RUNS:
        scene = balls_in_a_bin(count)
        system, _ = scene.build()
        for kind in kinds:
            least, most, renewed = cost(scene, ist.GeometricallyImplicit(jacobian=kind), duration)
            row = f"| {count} | {system.contact_count} | {system.unknown_count} | {kind}"
            print(f"{row} | {least:.2f} to {most:.2f} | {renewed:.0%} |", flush=True)

"""What a step of a pile costs, and how many steps are lost, against the number of bodies.

    python benchmarks/piles.py [spheres|mixed] [bodies ...]

Bodies fall into a bin of five planes and settle; every two may touch, and pairs are found step by
step. Prints a Markdown table for docs/benchmarks.md: milliseconds of CPU a step, after the programs
are compiled.
"""

import itertools
import os
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import implicit_stepper as ist
import shapes

H = 0.005
KINDS = {
    "spheres": (0.11, [shapes.Sphere(0.05)]),
    "mixed": (
        0.13,
        [
            shapes.Sphere(0.05),
            shapes.Box((0.04, 0.03, 0.035)),
            shapes.Ellipsoid((0.05, 0.04, 0.045)),
            shapes.Cylinder(0.035, 0.03),
        ],
    ),
}


def pile(count, kind, mu):
    """A scene of `count` bodies in layers above the floor of a bin."""
    scene, rng, side = ist.Scene(), np.random.default_rng(0), max(1, int(np.ceil((count / 2) ** (1 / 3))))
    width, kinds = KINDS[kind]
    cells = sorted(itertools.product(range(side), range(side), range(count)), key=lambda cell: cell[2])[:count]
    for number, cell in enumerate(cells):
        place = (np.array(cell) - [(side - 1) / 2, (side - 1) / 2, 0]) * width + [0, 0, 0.07] + rng.uniform(-0.004, 0.004, 3)
        turn = rng.normal(size=4)
        shape = kinds[number % len(kinds)]
        scene.add_body(name=f"b{number}", shape=shape, mass=0.5, position=place, quaternion=turn / np.linalg.norm(turn))
    reach = -(width / 2 * side + 0.03)
    for normal, offset in (((0, 0, 1), 0.0), *(((x, y, 0), reach) for x, y in ((1, 0), (-1, 0), (0, 1), (0, -1)))):
        scene.add_fixed(name=f"plane {normal}", shape=shapes.HalfSpace(normal=normal, offset=offset))
    scene.add_contacts(friction=mu)
    return scene


def row(count, kind, mu, steps):
    """A line of the table."""
    scene, stepper = pile(count, kind, mu), ist.GeometricallyImplicit(jacobian="sparse", tolerance=1e-11)
    # compiles most of what the run calls
    ist.simulate(scene, stepper, h=H, duration=8 * H, progress=False)
    begun = time.process_time()
    run = ist.simulate(scene, stepper, h=H, duration=steps * H, on_failure="return")
    spent = (time.process_time() - begun) / max(len(run), 1) * 1e3
    its, worst = run.stats.iterations, max(np.max(v) for v in run.certificate.values())
    lost = "none" if len(run) == steps else f"at step {len(run) + 1}"
    touching = int(np.sum(run.contacts.normal_impulse[-1] > 0))
    its = f"{its.mean():.1f} ({np.percentile(its, 95):.0f}, {its.max()})"
    other = int(np.sum(run.stats.rung > 0))
    return f"| {count} {kind} | {mu} | {len(run)} | {touching} | {spent:.0f} | {its} | {other} | {lost} | {worst:.0e} |"


if __name__ == "__main__":
    kind = sys.argv[1] if len(sys.argv) > 1 else "spheres"
    counts = [int(word) for word in sys.argv[2:]] or [10, 30, 100, 300]
    print("| bodies | mu | steps | contacts | ms a step | iterations (95 %, most) | by other starts | lost | certificate |")
    print("|---|---|---|---|---|---|---|---|---|")
    for count, mu in itertools.product(counts, (0.3, 0.8)):
        print(row(count, kind, mu, 100), flush=True)

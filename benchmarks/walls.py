"""How far a wall of boxes drifts that nothing touches, and what its steps cost; and what those cost
of a wall that a ball hits.

    python benchmarks/walls.py [seconds]
    python benchmarks/walls.py hit [steps]

Prints a Markdown table for docs/benchmarks.md: courses of bricks in running bond, with joints of 1
mm, h = 10 ms; milliseconds of CPU a step after the first ten, in which programs are compiled. The
steps after them begin from the state alone, so that forces are found anew in the first. With
`hit`, walls of examples/wall.py, h = 5 ms, compiling included.
"""

import os
import pathlib
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import implicit_stepper as ist
import shapes

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "examples"))
import wall as example

LENGTH, DEPTH, HEIGHT, JOINT, H = 0.2, 0.1, 0.08, 0.001, 0.01
WALLS = ((2, 4), (3, 7), (4, 11))  # bricks across, courses
HIT = ((2, 4), (3, 6))


def wall(across, courses, friction=0.6):
    """A wall, every other course between two halves of bricks."""
    scene = ist.Scene()
    for course in range(courses):
        lengths = [LENGTH] * across if course % 2 else [LENGTH / 2, *[LENGTH] * (across - 1), LENGTH / 2]
        ends = np.cumsum([-across * LENGTH / 2, *lengths])
        for number, (x, length) in enumerate(zip(ends, lengths, strict=False)):
            half, place = ((length - JOINT) / 2, DEPTH / 2, HEIGHT / 2), (x + length / 2, 0, (course + 0.5) * HEIGHT)
            scene.add_body(name=f"brick {course}.{number}", shape=shapes.Box(half), density=2000.0, position=place)
    scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    scene.add_contacts(friction=friction)
    return scene


def row(across, courses, duration):
    """A line of the table."""
    scene, stepper = wall(across, courses), ist.GeometricallyImplicit(jacobian="sparse", tolerance=1e-11)
    begun = ist.simulate(scene, stepper, h=H, duration=10 * H)
    before = time.process_time()
    run = ist.simulate(scene, stepper, h=H, duration=duration - 10 * H, start=begun.end, on_failure="return")
    spent = (time.process_time() - before) / len(run) * 1e3
    drift = np.max(np.abs(run.position - begun.position[0]))
    first, its = begun.stats.iterations[0], run.stats.iterations
    other = int(np.sum(run.stats.rung > 0)) + int(np.sum(begun.stats.rung > 0))
    return (
        f"| {len(run.names)} | {run.time[-1]:.2f} | {first} | {its.mean():.1f} ({its.max()}) | {other} | {spent:.2g} | "
        f"{drift:.1e} | {np.nanmin(run.contacts.gap):.1e} |"
    )


def row_of_hit(across, courses, steps):
    """A line of the table of walls that are hit."""
    begun, stepper = time.process_time(), ist.GeometricallyImplicit(jacobian="sparse")
    run = ist.simulate(example.hit(across, courses), stepper, h=example.H, duration=steps * example.H, on_failure="return")
    stats, spent = run.stats, time.process_time() - begun
    others, halved = int(np.sum(stats.rung > 0)), int(np.sum(stats.substeps > 1))
    return (
        f"| {len(run.names) - 1} | {len(run)} of {steps} | {stats.iterations.mean():.0f} ({stats.iterations.max()}) | "
        f"{others} | {halved} | {spent:.2g} | {np.nanmin(run.contacts.gap):.1e} |"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["hit"]:
        asked = int(sys.argv[2]) if len(sys.argv) > 2 else 30
        print("| bricks | steps | Jacobians a step (most) | by other starts | halved | CPU s | least gap [m] |")
        print("|---|---|---|---|---|---|---|")
        for across, courses in HIT:
            print(row_of_hit(across, courses, asked), flush=True)
        sys.exit()
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    print(
        "| boxes | stands [s] | first Jacobians | of other steps (most) | other starts | ms a step | drift [m] | gap [m] |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for across, courses in WALLS:
        print(row(across, courses, seconds), flush=True)

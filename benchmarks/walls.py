"""How far a wall of boxes drifts that nothing touches, and what its steps cost; and what those cost
of a wall that a ball hits or rolls over, and of one whose courses fall on each other.

    python benchmarks/walls.py [seconds]
    python benchmarks/walls.py hit
    python benchmarks/walls.py rolls

Prints a Markdown table for docs/benchmarks.md: courses of bricks in running bond, with joints of 1
mm, h = 10 ms; milliseconds of CPU a step after the first ten, in which programs are compiled. The
steps after them begin from the state alone, so that forces are found anew in the first. With
`hit`, walls of examples/wall.py, h = 5 ms, compiling included; with `rolls` too.
"""

import functools
import itertools
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


def rolled_over():
    """A wall of 25 bricks over which a ball rolls."""
    scene = wall(3, 7)
    place, velocity = (0.03, 0.01, 7 * HEIGHT + 0.03), (0.1, 0, 0, 0, 0, 0)
    scene.add_body(name="ball", shape=shapes.Sphere(0.02), mass=0.2, position=place, velocity=velocity)
    return scene


def dropped():
    """Six courses of four bricks in running bond, without joints, each .6 mm above the last."""
    scene, half = ist.Scene(), ((LENGTH - JOINT) / 2, DEPTH / 2, HEIGHT / 2)
    for course, number in itertools.product(range(6), range(4)):
        place = (LENGTH * (number + course % 2 / 2), 0, HEIGHT / 2 + (HEIGHT + 0.0006) * course)
        scene.add_body(name=f"brick {course}.{number}", shape=shapes.Box(half), density=2000.0, position=place)
    scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    scene.add_contacts(friction=0.5)
    return scene


# scenes of each kind with what is told of them, h [s], steps and tolerance
DISTURBED = {
    "hit": [(f"{a} x {c}, hit", functools.partial(example.hit, a, c), example.H, 30, 1e-12) for a, c in HIT],
    "rolls": [("a ball rolls", rolled_over, H, 40, 1e-11), ("bricks fall", dropped, 0.005, 30, 1e-12)],
}


def row_of_disturbed(name, build, h, steps, tolerance):
    """A line of the table of walls that do not just stand."""
    begun, stepper = time.process_time(), ist.GeometricallyImplicit(jacobian="sparse", tolerance=tolerance)
    run = ist.simulate(build(), stepper, h=h, duration=steps * h, on_failure="return")
    stats, spent = run.stats, time.process_time() - begun
    others, halved = int(np.sum(stats.rung > 0)), int(np.sum(stats.substeps > 1))
    return (
        f"| {name} | {len(run)} of {steps} | {stats.iterations.mean():.0f} ({stats.iterations.max()}) | "
        f"{others} | {halved} | {spent:.3g} | {np.nanmin(run.contacts.gap):.1e} |"
    )


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in DISTURBED:
        print("| wall | steps | Jacobians a step (most) | by other starts | halved | CPU s | least gap [m] |")
        print("|---|---|---|---|---|---|---|")
        for case in DISTURBED[sys.argv[1]]:
            print(row_of_disturbed(*case), flush=True)
        sys.exit()
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    print(
        "| boxes | stands [s] | first Jacobians | of other steps (most) | other starts | ms a step | drift [m] | gap [m] |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for across, courses in WALLS:
        print(row(across, courses, seconds), flush=True)

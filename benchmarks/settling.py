"""What a step of first order costs with many contacts declared, warm, on one core.

    python benchmarks/settling.py
    python benchmarks/settling.py "10 balls" dominoes

Prints a Markdown table for docs/benchmarks.md: milliseconds of CPU a step after the programs are
compiled, in the cheapest and the dearest of the repeats; which part of the steps took a Jacobian,
how many Jacobians those took, and how many steps another start than the warm one.
"""

import dataclasses
import itertools
import os
import sys
import time
from collections.abc import Callable

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax
import numpy as np
from drop_battery import drop

import implicit_stepper as ist
import shapes

REPEATS, BUDGET = 3, 60.0  # repeats of a run, and CPU seconds after which no other is begun
ROW = (8, 16, 32, 64)  # boxes in rows
HEADER = "| scene | pairs | unknowns | h [s] | steps | ms a step | with Jacobians | Jacobians in those | other starts |"


def floor(scene):
    """A fixed half-space below z = 0."""
    return scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1), offset=0.0))


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


def balls_on_a_floor(count):
    """Spheres of 5 cm that roll on a floor and never meet, of which the scene says nothing but the
    floor."""
    scene, rng = ist.Scene(), np.random.default_rng(0)
    ground = floor(scene)
    for number in range(count):
        place, speed = (0.3 * (number % 8), 0.3 * (number // 8), 0.05), (*rng.uniform(-0.1, 0.1, 2), 0, 0, 0, 0)
        ball = scene.add_body(name=f"ball {number}", shape=shapes.Sphere(0.05), mass=0.5, position=place, velocity=speed)
        scene.add_contact(ball, ground, friction=0.3)
    return scene


def dominoes(count, spin=8.0):
    """Boxes of 2 x 6 x 12 cm in a row, 4 cm apart, of which the first tips at `spin` [rad/s] about
    its lower edge."""
    scene = ist.Scene()
    ground, half, last = floor(scene), (0.01, 0.03, 0.06), None
    for number in range(count):
        tips = (spin * half[2], 0, -spin * -half[0], 0, spin, 0) if number == 0 else (0,) * 6
        place = (0.06 * number, 0, half[2])
        own = scene.add_body(name=f"domino {number}", shape=shapes.Box(half), mass=0.1, position=place, velocity=tips)
        for other in (ground, last)[: 2 if number else 1]:
            scene.add_contact(own, other, friction=0.3)
        last = own
    return scene


def boxes_in_a_row(count):
    """Cubes of 10 cm that rest on a floor side by side, and are pushed along by the first."""
    scene = ist.Scene()
    ground, last = floor(scene), None
    for number in range(count):
        load = (1.0, 0, 0, 0, 0, 0) if number == 0 else (0,) * 6
        cube, place = shapes.Box((0.05,) * 3), (0.1 * number, 0, 0.05)
        own = scene.add_body(name=f"box {number}", shape=cube, mass=0.5, position=place, wrench=load)
        for other in (ground, last)[: 2 if number else 1]:
            scene.add_contact(own, other, friction=0.3)
        last = own
    return scene


@dataclasses.dataclass(frozen=True)
class Case:
    """A scene, stepped by h [s]; what is timed begins after `settled` steps and has `steps`."""

    scene: Callable
    h: float
    settled: int
    steps: int


CASES = {
    "5 balls in a bin, all": Case(lambda: balls_in_a_bin(5), 0.005, 0, 400),
    "5 balls in a bin, at rest": Case(lambda: balls_in_a_bin(5), 0.005, 300, 100),
    "10 balls in a bin, falling": Case(lambda: balls_in_a_bin(10), 0.005, 0, 120),
    "10 balls in a bin, later": Case(lambda: balls_in_a_bin(10), 0.005, 120, 200),
    "14 balls in a bin, falling": Case(lambda: balls_in_a_bin(14), 0.005, 0, 120),
    "14 balls in a bin, later": Case(lambda: balls_in_a_bin(14), 0.005, 120, 200),
    "2 tables on each other": Case(lambda: drop("table", "each other", 0), 0.002, 0, 300),
    "2 dumbbells": Case(lambda: drop("dumbbell", "each other", 0), 0.002, 0, 750),
    "40 balls on a floor": Case(lambda: balls_on_a_floor(40), 0.005, 0, 200),
    "8 dominoes": Case(lambda: dominoes(8), 0.002, 0, 300),
    **{f"{n} boxes in a row": Case(lambda n=n: boxes_in_a_row(n), 0.005, 0, 50) for n in ROW},
}


def cost(case):
    """A row of the table, but for the name."""
    scene, stepper, times, start = case.scene(), ist.GeometricallyImplicit(), [], None
    system, _ = scene.build()
    if case.settled:
        start = ist.simulate(scene, stepper, h=case.h, duration=case.settled * case.h, progress=False)
    while len(times) <= REPEATS and (len(times) < 2 or sum(times) < BUDGET):
        begun = time.process_time()
        run = ist.simulate(scene, stepper, h=case.h, duration=case.steps * case.h, start=start, progress=False)
        times.append(time.process_time() - begun)
    each = 1e3 * np.array(times[1:]) / len(run)
    renewed = run.stats.iterations > 0
    some = run.stats.iterations[renewed]
    return (
        f"{system.contact_count} | {system.unknown_count} | {case.h} | {len(run)} | {each.min():.2f} to {each.max():.2f} | "
        f"{np.mean(renewed):.0%} | {np.mean(some) if some.size else 0:.1f} | {np.sum(run.stats.rung > 0)} |"
    )


def set_up(bodies=1000, contacts=3000):
    """CPU seconds until a scene of many bodies is arrays."""
    begun = time.process_time()
    scene, side = ist.Scene(), 10
    ground = floor(scene)
    cells = list(itertools.product(range(side), repeat=3))[:bodies]
    balls = [
        scene.add_body(name=f"ball {n}", shape=shapes.Sphere(0.05), mass=0.5, position=0.1 * np.array(cell) + 0.05)
        for n, cell in enumerate(cells)
    ]
    pairs = [(a, b) for d in (1, side, side**2) for a, b in zip(balls, balls[d:], strict=False)]
    for pair in [*((ball, ground) for ball in balls), *pairs][:contacts]:
        scene.add_contact(*pair, friction=0.3)
    jax.block_until_ready(jax.device_put(scene.build()))
    return time.process_time() - begun


if __name__ == "__main__":
    print(HEADER + "\n|" + "---|" * 9)
    for name, case in CASES.items():
        if not sys.argv[1:] or any(part in name for part in sys.argv[1:]):
            print(f"| {name} | {cost(case)}", flush=True)
    if not sys.argv[1:]:
        print(f"\nSet-up of 1000 bodies with 3000 contacts: {set_up():.2f} s.")

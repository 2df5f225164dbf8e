"""Chosen steps of many bodies: balls that roll on a floor and against each other, all pairs
declared, with sparse Jacobians on the host and, up to twenty, with dense ones in a compiled loop:
`python benchmarks/chosen_many.py [balls] [seconds of motion]`. The second run of each is timed, as
its programs are compiled; from fifty on there is one, compiling included."""

from __future__ import annotations

import sys
import time
from unittest import mock

import numpy as np

import implicit_stepper as ist
import shapes
from implicit_stepper.radau import sparse_loop

TOLERANCE, RADIUS, APART = 1e-6, 0.05, 0.13


def rolling_balls(count: int) -> ist.Scene:
    """In rows, each rolling its own way at .3 m/s or so."""
    drawn, side = np.random.default_rng(0), int(np.ceil(count**0.5))
    scene = ist.Scene()
    floor, balls = scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1))), []
    for k in range(count):
        x, y = APART * np.array([k % side, k // side]) + drawn.uniform(-0.01, 0.01, 2)
        u, v = drawn.normal(0, 0.3, 2)
        balls.append(
            scene.add_body(
                name=f"ball {k}", shape=shapes.Sphere(RADIUS), mass=0.5, position=(x, y, RADIUS),
                velocity=(u, v, 0, -v / RADIUS, u / RADIUS, 0),
            )
        )  # fmt: skip
    for i, ball in enumerate(balls):
        scene.add_contact(ball, floor, friction=0.3)
        for other in balls[:i]:
            scene.add_contact(ball, other, friction=0.1)
    return scene


def run(scene: ist.Scene, duration: float, large: float, times: int):
    """The trajectory, CPU and wall seconds of the last of so many runs, where steps of `large`
    unknowns are solved on the host."""
    with mock.patch.object(sparse_loop, "_LARGE", large):
        for _ in range(times):
            cpu, wall = time.process_time(), time.perf_counter()
            found = ist.simulate(scene, ist.RadauContact(), tol=TOLERANCE, duration=duration, progress=False)
    return found, time.process_time() - cpu, time.perf_counter() - wall


def main(count=20, duration=0.15):
    scene = rolling_balls(count)
    print(f"{count} balls, {len(scene.build()[0].contact_names)} contacts, {duration} s, tol = {TOLERANCE}")
    print("| Jacobians | steps | first-order steps | problems | events | CPU s | wall s |\n|---|---|---|---|---|---|---|")
    for name, large in [("sparse", 0.0), *[("dense", np.inf)] * (count <= 20)]:
        found, cpu, wall = run(scene, duration, large, 2 if count < 50 else 1)
        counts = found.counts
        print(f"| {name} | {len(found.h)} | {counts['one-stage steps']} | {counts['solves']} | {len(found.events)} "
              f"| {cpu:.1f} | {wall:.1f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main(*[kind(a) for kind, a in zip((int, float), sys.argv[1:], strict=False)])

"""Chosen steps of balls that settle in a bin, all pairs declared, solved with all contacts and with
those in slots: `python benchmarks/chosen_slots.py [balls] [seconds of motion]`, in turn. What both
runs share, compiling apart, is the problem: the solutions must agree within the tolerance."""

from __future__ import annotations

import sys
import time
from unittest import mock

import numpy as np
from settling import balls_in_a_bin

import implicit_stepper as ist
from implicit_stepper.radau import slots

TOLERANCE = 1e-6


def run(count, duration, few):
    """The trajectory, CPU and wall seconds of a second run, whose programs are compiled, where
    scenes of `few` contacts are solved with all of them."""
    scene = balls_in_a_bin(count)
    with mock.patch.object(slots, "_FEW", few):
        for _ in range(2):
            cpu, wall = time.process_time(), time.perf_counter()
            found = ist.simulate(scene, ist.RadauContact(), tol=TOLERANCE, duration=duration, progress=False)
    return found, time.process_time() - cpu, time.perf_counter() - wall


def main(count=5, duration=0.5):
    print(f"{count} balls, {len(balls_in_a_bin(count).build()[0].contact_names)} contacts, {duration} s, tol = {TOLERANCE}")
    print("| solved with | steps | first-order steps | problems | events | CPU s | wall s |\n|---|---|---|---|---|---|---|")
    runs = []
    for name, few in (("all contacts", 10**6), ("those in slots", slots._FEW)):
        found, cpu, wall = run(count, duration, few)
        counts = found.counts
        print(f"| {name} | {len(found.h)} | {counts['one-stage steps']} | {counts['solves']} | {len(found.events)} "
              f"| {cpu:.1f} | {wall:.1f} |")  # fmt: skip
        runs.append(found)
    apart = np.max(np.abs(runs[0].position[-1] - runs[1].position[-1]))
    print(f"they end {apart:.1e} m from each other")


if __name__ == "__main__":
    main(*(kind(word) for kind, word in zip((int, float), sys.argv[1:], strict=False)))

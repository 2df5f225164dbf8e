"""Random drops of every kind of shape onto a plane, followed with chosen steps: does any run end
early, and at what cost?

    python benchmarks/chosen_drops.py --tol 1e-5 --drops 4

Prints a Markdown table for docs/benchmarks.md. The scenes are those of `drop_battery`, the first of
each family.
"""

import argparse
import time

import numpy as np
from drop_battery import FAMILIES, GRAVITY, drop
from tqdm import tqdm

import implicit_stepper as ist

DURATION = 1.5
HEADER = (
    "| body | drops | ended early | steps | of one stage | problems | worst penetration [m] | energy gained, relative | "
    "s a drop, median |\n|" + "---|" * 9
)


def follow(family, numbers, tol):
    """A Markdown table row of these drops of a family, and the messages of those that ended
    early."""
    counts, seconds, penetration, gain, messages = [], [], 0.0, 0.0, []
    for number in tqdm(numbers, desc=family, leave=False, disable=None):
        scene, start = drop(family, "plane", number), time.perf_counter()
        try:
            run = ist.simulate(scene, ist.RadauContact(), tol=tol, duration=DURATION, progress=False)
        except ist.StepError as error:
            run = error.trajectory
            messages.append(f"{family} {number}: {error}")
        seconds.append(time.perf_counter() - start)
        counts.append((len(run), run.counts["one-stage steps"], run.counts["solves"]))
        penetration = max(penetration, -np.min(run.contacts.gap, initial=0.0))
        energy = run.kinetic_energy() + GRAVITY * run.position[:, :, 2] @ run.mass
        gain = max(gain, np.max(np.diff(energy), initial=0.0) / energy[0])
    steps, one_stage, solves = np.sum(counts, axis=0)
    row = (
        f"| {family} | {len(numbers)} | {len(messages)} | {steps} | {one_stage} | {solves} | "
        # the first one compiled
        f"{penetration:.0e} | {gain:.0e} | {np.median(seconds[1:] or seconds):.2f} |"
    )
    return row, messages


def main():
    """All families."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tol", type=float, default=1e-5)
    parser.add_argument("--drops", type=int, default=4, help="of each family")
    parser.add_argument("--only", default="", help="families whose name begins with this")
    arguments = parser.parse_args()
    print(HEADER)
    for family in FAMILIES:
        if family.startswith(arguments.only):
            row, messages = follow(family, range(arguments.drops), arguments.tol)
            print(row, *(f"early: {message}" for message in messages), sep="\n", flush=True)


if __name__ == "__main__":
    main()

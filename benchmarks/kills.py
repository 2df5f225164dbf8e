"""Runs that are killed with SIGKILL at random moments and resumed: whether their files end with the
bits of a run that was not. `python benchmarks/kills.py fixed 100`, `chosen 100` or `pile 20`. Every
process is forked from one that has imported the package and done nothing else."""

from __future__ import annotations

import multiprocessing
import random
import sys
import tempfile
import time
from pathlib import Path

from piles import H, pile

import implicit_stepper as ist
from implicit_stepper.paper import scenes

FORKED = multiprocessing.get_context("fork")


def run(kind: str, checkpoint: Path, out: Path) -> None:
    """One process: from its checkpoint, if there is one, to the end."""
    ist.use_compilation_cache()
    resume = checkpoint if checkpoint.exists() else None
    files = {"checkpoint": checkpoint, "every": 0.0, "resume": resume, "progress": False}
    if kind == "fixed":
        found = ist.simulate(scenes.landing_ball(), ist.GeometricallyImplicit(), h=2e-4, duration=3.0, **files)
    elif kind == "pile":
        found = ist.simulate(pile(50, "spheres", 0.3), ist.GeometricallyImplicit(), h=H, duration=100 * H, **files)
    else:
        found = ist.simulate(scenes.two_spheres(), ist.RadauContact(), tol=1e-11, duration=4.0, **files)
    found.save(out)


def begun(kind: str, checkpoint: Path, out: Path) -> multiprocessing.Process:
    """That process."""
    process = FORKED.Process(target=run, args=(kind, checkpoint, out))
    process.start()
    return process


def main(kind: str, kills: int, seed: int = 1) -> None:
    """Prints how many of the runs, killed so many times in all, ended with the same bits, and how
    many kills found a checkpoint to go on from."""
    rng, folder = random.Random(seed), Path(tempfile.mkdtemp())
    whole, out = folder / "whole.npz", folder / "out.npz"
    begun(kind, folder / "first", whole).join()
    start = time.monotonic()
    begun(kind, folder / "second", folder / "again.npz").join()
    length, killed, within, runs, same = time.monotonic() - start, 0, 0, 0, 0
    while killed < kills:
        checkpoint = folder / f"run-{runs}"
        while True:
            process = begun(kind, checkpoint, out)
            process.join(rng.uniform(0.2, 0.8) * length)
            if process.exitcode is not None:
                break
            process.kill()
            process.join()
            killed, within = killed + 1, within + checkpoint.exists()
        runs, same = runs + 1, same + (process.exitcode == 0 and out.read_bytes() == whole.read_bytes())
        print(
            f"{killed} kills, {within} of them after a checkpoint: {same} of {runs} runs ended with the same bits",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

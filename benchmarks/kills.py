"""Runs that are killed with SIGKILL at random moments and resumed: whether their files end with the
bits of a run that was not. `python benchmarks/kills.py fixed 100` or `chosen 100`; a process takes
most of its time to start."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import implicit_stepper as ist
from implicit_stepper.paper import scenes


def run(kind: str, checkpoint: Path, out: Path) -> None:
    """One process: from its checkpoint, if there is one, to the end."""
    ist.use_compilation_cache()
    resume = checkpoint if checkpoint.exists() else None
    files = {"checkpoint": checkpoint, "every": 0.0, "resume": resume, "progress": False}
    if kind == "fixed":
        found = ist.simulate(scenes.landing_ball(), ist.GeometricallyImplicit(), h=2e-4, duration=3.0, **files)
    else:
        found = ist.simulate(scenes.two_spheres(), ist.RadauContact(), tol=1e-11, duration=4.0, **files)
    found.save(out)


def main(kind: str, kills: int, seed: int = 1) -> None:
    """Prints how many of the runs, killed so many times in all, ended with the same bits."""
    rng, folder = random.Random(seed), Path(tempfile.mkdtemp())
    whole, out = folder / "whole.npz", folder / "out.npz"

    def begun(checkpoint: Path, to: Path) -> subprocess.Popen:
        return subprocess.Popen([sys.executable, __file__, "run", kind, str(checkpoint), str(to)])

    start = time.monotonic()
    begun(folder / "first", whole).wait()
    start = time.monotonic()
    begun(folder / "second", folder / "again.npz").wait()
    length, killed, runs, same = time.monotonic() - start, 0, 0, 0
    while killed < kills:
        checkpoint = folder / f"run-{runs}"
        while True:
            process = begun(checkpoint, out)
            try:
                process.wait(rng.uniform(0.4, 1.1) * length)
                break
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                killed += 1
        runs, same = runs + 1, same + (out.read_bytes() == whole.read_bytes())
        print(f"{killed} kills: {same} of {runs} runs ended with the same bits", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
    else:
        main(sys.argv[1], int(sys.argv[2]))

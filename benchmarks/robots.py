"""Robots' files of whole collections: each is imported, with a list of what has no counterpart, or
refused with a reason; anything else stops the command.

    pip install --no-deps --target robots gymnasium dm_control && python benchmarks/robots.py robots
"""

from __future__ import annotations

import argparse
import collections
import time
from pathlib import Path

import implicit_stepper as ist


def main() -> None:
    """Prints a line for each file, what was left out of it, and the counts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", type=Path, nargs="+")
    counts, slowest = collections.Counter(), 0.0
    for path in sorted(path for folder in parser.parse_args().folders for path in folder.rglob("*")):
        if path.suffix not in (".xml", ".urdf"):
            continue
        begun = time.process_time()
        try:
            scene, left_out = ist.load_mjcf(path)
        except ist.SceneFileError as error:
            counts["refused"] += 1
            print(f"{path.name}: refused: {error}")
        else:
            counts["imported"] += 1
            of = scene.description()
            moving = sum(not body.fixed for body in of.bodies)
            about = f"{path.name}: {moving} bodies that move, {len(of.joints)} joints, limits and springs"
            print(about, *left_out, sep="\n    ")
        slowest = max(slowest, time.process_time() - begun)
    print(dict(counts), f"slowest {slowest:.2f} CPU s")


if __name__ == "__main__":
    main()

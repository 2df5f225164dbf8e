"""The scene that a command is given: by name, by a scene file, or by a Python file."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from ..paper.comparisons import CASES
from ..runtime.errors import CommandError
from ..scene.mjcf import SUFFIXES, load_mjcf
from ..scene.scene import Scene
from ..scene.toml import load_scene

HELP = (
    "a scene file (.toml), a robot's (.xml, .urdf), a Python file that defines `scene` (it is run), or one of "
    f"{', '.join(CASES)}"
)


def scene_from(argument: str) -> Scene:
    """The scene that `argument` names. Raises `ValueError` for what is none, `OSError` for a file
    that cannot be read. What is left out of a robot's file is said on the standard error."""
    if argument in CASES:
        return CASES[argument].scene()
    path = Path(argument)
    if not path.is_file():
        raise CommandError(f"{argument!r} is neither a file nor one of {', '.join(CASES)}.")
    if path.suffix in SUFFIXES:
        scene, left_out = load_mjcf(path)
        print(*(f"left out: {line}" for line in left_out), sep="\n", end="\n" * bool(left_out), file=sys.stderr)
        return scene
    if path.suffix != ".py":
        return load_scene(path)
    scene = runpy.run_path(argument).get("scene")
    if not isinstance(scene, Scene):
        raise CommandError(f"{argument!r} does not define `scene`, an implicit_stepper.Scene.")
    return scene

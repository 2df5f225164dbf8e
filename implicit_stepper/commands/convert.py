"""`implicit-stepper convert`: a robot's file as a scene file."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..runtime.errors import CommandError
from ..scene.mjcf import SUFFIXES, load_mjcf


def add_parser(commands) -> argparse.ArgumentParser:
    """Adds the command to the subparsers of `implicit-stepper`."""
    command = commands.add_parser(
        "convert",
        help="an MJCF or URDF file as a scene file",
        description="Reads a robot's file with MuJoCo's own compiler, writes it as a scene file and says what of it has no "
        "counterpart and was left out. Exit code: 0, or 2 when the file is refused or nothing can be written.",
        epilog="Example: implicit-stepper convert robot.xml robot.toml && implicit-stepper check robot.toml",
    )
    command.add_argument("robot", metavar="ROBOT", help=f"the file to read ({', '.join(SUFFIXES)})")
    command.add_argument("scene", metavar="SCENE", help="the scene file to write (.toml)")
    command.add_argument("--keyframe", metavar="NAME", help="begin in this keyframe (default: as the bodies are placed)")
    return command


def run(arguments: argparse.Namespace) -> None:
    """Writes the file. Raises `ValueError` and `OSError` for what cannot be converted,
    `ImportError` without MuJoCo."""
    if Path(arguments.scene).suffix in SUFFIXES:
        raise CommandError(f"{arguments.scene!r} would be written over: name a scene file to write, as robot.toml.")
    if not Path(arguments.robot).is_file():
        raise CommandError(f"{arguments.robot!r} is no file: name the robot's file ({', '.join(SUFFIXES)}).")
    scene, left_out = load_mjcf(arguments.robot, keyframe=arguments.keyframe)
    scene.save(arguments.scene)
    print(*(f"left out: {line}" for line in left_out), f"written: {arguments.scene}", sep="\n")

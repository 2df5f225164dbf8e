"""`implicit-stepper view`: a saved run as a page or a film."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..run.trajectory_file import load
from ..runtime.errors import CommandError
from .outputs import refuse_clashes


def add_parser(commands) -> argparse.ArgumentParser:
    """Adds the command to the subparsers of `implicit-stepper`."""
    command = commands.add_parser(
        "view",
        help="a saved run as one HTML file, or a film",
        description="Writes a saved run as one HTML file that any browser opens without a network: bodies, floors, forces "
        "and curves, with a slider. Exit code: 0, or 2 when the run cannot be read or does not know its scene.",
    )
    command.add_argument("run", metavar="RUN", help="a trajectory that `run` or trajectory.save wrote (.npz)")
    page = command.add_mutually_exclusive_group()
    page.add_argument("--html", metavar="FILE", help="page to write (default: RUN with the ending .html)")
    page.add_argument("--show", action="store_true", help="open it in a browser until Ctrl-C, and write no page")
    command.add_argument("--film", metavar="FILE", help="a film, .gif or, with ffmpeg, .mp4, too")
    return command


def run(arguments: argparse.Namespace) -> None:
    """Writes the files. Raises `ValueError` and `OSError` for what is no run, `ImportError` without
    matplotlib."""
    if not Path(arguments.run).exists():
        raise CommandError(
            f"there is no file {arguments.run!r}: `implicit-stepper run SCENE --out {arguments.run}` writes one."
        )
    page = Path(arguments.run).with_suffix(".html") if arguments.html is None else Path(arguments.html)
    refuse_clashes({"--html": None if arguments.show else str(page), "--film": arguments.film}, {"RUN": arguments.run})
    trajectory = load(arguments.run)
    if arguments.film is not None:
        trajectory.plot.animation(arguments.film)
        print(f"written: {arguments.film}")
    if arguments.show:
        from ..output.served import view  # matplotlib, which takes a second

        view(trajectory)  # returns at Ctrl-C
        return
    trajectory.plot.page(page)
    print(f"written: {page}")

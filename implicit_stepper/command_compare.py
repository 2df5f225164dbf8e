"""`implicit-stepper compare`: methods side by side on a scene of the paper or of the user's own file."""

from __future__ import annotations

import argparse
import runpy
from pathlib import Path

from .compare import compare
from .paper.comparisons import CASES, METHODS
from .scene import Scene
from .simulate import simulate


def add_parser(commands) -> argparse.ArgumentParser:
    """Adds the command to the subparsers of `implicit-stepper`."""
    command = commands.add_parser(
        "compare",
        help="several methods on one scene: errors, artifacts and cost",
        description="Runs several time-steppers on a scene at several steps, and writes a table, trajectories and figures. "
        "Exit code: 0, also when a method fails, which the table then says; 2 when the command cannot run.",
    )
    command.add_argument("scene", metavar="SCENE", help=f"{', '.join(CASES)}, or a Python file that defines `scene`")
    command.add_argument("--methods", default=",".join(METHODS), help="names separated by commas (default: all)")
    command.add_argument("--h", help="steps [s] separated by commas (default: those of the scene)")
    command.add_argument("--duration", type=float, help="how long [s] (default: that of the scene)")
    command.add_argument(
        "--reference",
        default="exact",
        help="exact, which the named scenes have, or METHOD:H, a run with a step [s] that divides all others",
    )
    command.add_argument("--out", default="comparison", metavar="DIR", help="folder for table, runs, figures (comparison)")
    command.add_argument("--device", choices=["cpu", "gpu"], default="cpu", help="where the steps run (default: cpu)")
    return command


def run(arguments: argparse.Namespace, out: Path) -> None:
    """Prints the table and fills `out`. Raises `ValueError` for what cannot be run."""
    scene, exact, duration, sizes = _scene(arguments)
    names = arguments.methods.split(",")
    unknown = [name for name in names if name not in METHODS]
    if unknown:
        raise ValueError(f"--methods: there is no {unknown[0]!r}; the methods are {', '.join(METHODS)}.")
    reference = exact
    if arguments.reference != "exact":
        method, _, step = arguments.reference.partition(":")
        if method not in METHODS:
            raise ValueError(f"--reference {arguments.reference!r} must be exact or METHOD:H, one of {', '.join(METHODS)}.")
        reference = simulate(scene, METHODS[method], h=_number("--reference", step), duration=duration)
    if reference is None:
        raise ValueError(f"{arguments.scene} has no exact solution: give --reference METHOD:H, for instance implicit:1e-4.")
    comparison = compare(scene, {name: METHODS[name] for name in names}, sizes, reference, duration=duration)
    print(comparison.table())
    comparison.save(out)
    try:
        from . import comparison_plots  # matplotlib takes a second to import
    except ImportError:
        print("no figures: pip install 'implicit-stepper[plot]'")
        return
    for name, figure in comparison_plots.figures(comparison).items():
        figure.savefig(out / f"{name}.png", dpi=150)


def _scene(arguments: argparse.Namespace):
    """Scene, exact solution or None, duration [s], and steps [s]."""
    sizes = None if arguments.h is None else [_number("--h", text) for text in arguments.h.split(",")]
    if arguments.scene in CASES:
        case = CASES[arguments.scene]
        return case.scene(), case.reference, arguments.duration or case.duration, sizes or case.h
    path = Path(arguments.scene)
    if not path.is_file():
        raise ValueError(f"{arguments.scene!r} is neither a file nor one of {', '.join(CASES)}.")
    scene = runpy.run_path(str(path)).get("scene")
    if not isinstance(scene, Scene):
        raise ValueError(f"{arguments.scene!r} does not define `scene`, an implicit_stepper.Scene.")
    if sizes is None or arguments.duration is None:
        raise ValueError("a scene of your own needs --h and --duration.")
    return scene, None, arguments.duration, sizes


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"{option}: {text!r} is not a number.") from error

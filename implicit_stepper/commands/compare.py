"""`implicit-stepper compare`: methods side by side on a scene of the paper or of the user's own
file."""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ..paper.comparisons import ADAPTIVE, CASES, METHODS, Case
from ..run.compare import Adaptive, ComparisonInterrupted, compare
from ..run.comparison import HEADER
from ..run.scene_run import switches_of
from ..run.simulate import simulate
from ..runtime.errors import RunError
from ..scene.scene import Scene
from ..stepping.stepper import Stepper
from .scene_argument import HELP, scene_from

_REFERENCE = "radau:1e-8"  # of scenes without an exact motion


def add_parser(commands) -> argparse.ArgumentParser:
    """Adds the command to the subparsers of `implicit-stepper`."""
    command = commands.add_parser(
        "compare",
        help="several methods on one scene: errors, artifacts and cost",
        description="Runs several time-steppers on a scene at several steps, and writes a table, trajectories and figures. "
        "Exit code: 0, also when a method fails, which the table then says; 2 when the command cannot run; "
        "130 after Ctrl-C, which leaves the runs until then.",
    )
    command.add_argument("scene", metavar="SCENE", help=HELP)
    command.add_argument(
        "--methods",
        default=",".join(METHODS),
        help="names separated by commas (default: all, at every h); radau:TOL chooses its steps, for instance radau:1e-8",
    )
    command.add_argument(
        "--h",
        metavar="H,H,...",
        help="steps [s] separated by commas (default: those of the scene; of a scene file that of its run, and half of it)",
    )
    command.add_argument("--duration", type=float, help="how long [s] (default: that of the scene)")
    command.add_argument(
        "--reference",
        help="exact, which the named scenes have; radau:TOL, a run that chooses its steps; or METHOD:H, a run with a step "
        f"[s] that divides all others (default: exact, of other scenes {_REFERENCE})",
    )
    command.add_argument("--out", default="comparison", metavar="DIR", help="folder for table, runs, figures (comparison)")
    command.add_argument("--device", choices=["cpu", "gpu"], default="cpu", help="where the steps run (default: cpu)")
    return command


@dataclasses.dataclass(frozen=True)
class _Asked:
    """What the arguments ask for: `methods` by name, steps `h` [s], `duration` [s], the scene's
    `case` or None, the `scene` where it has been read, and the `reference` by name, "exact" or what
    `_reference` finds in it."""

    methods: dict[str, Stepper | Adaptive]
    h: Sequence[float]
    duration: float
    case: Case | None
    scene: Scene | None
    reference: str


def run(arguments: argparse.Namespace, out: Path) -> None:
    """Prints the table, a line as soon as its run is done, and fills `out`, also when it is
    interrupted. Raises `ValueError` for what cannot be run."""
    asked = _asked(arguments)
    scene = scene_from(arguments.scene) if asked.scene is None else asked.scene
    if asked.reference == "exact":
        reference = asked.case.reference
    else:
        stepper, choice = _reference(asked.reference, asked.methods, [])
        if "tol" in choice:
            choice["switches"] = switches_of(scene.run, asked.duration)
        print(f"reference: {asked.reference}", flush=True)
        reference = simulate(scene, stepper, **choice, duration=asked.duration)
    print(HEADER, flush=True)
    try:
        found = compare(
            scene, asked.methods, asked.h, reference, duration=asked.duration, report=lambda entry: tqdm.write(entry.row())
        )
    except ComparisonInterrupted as stop:
        stop.comparison.save(out)
        raise
    found.save(out)
    try:
        from ..output import comparison_plots  # matplotlib takes a second to import
    except ImportError:
        print("no figures: pip install matplotlib")
        return
    for name, figure in comparison_plots.figures(found).items():
        figure.savefig(out / f"{name}.png", dpi=150)


def _asked(arguments: argparse.Namespace) -> _Asked:
    """Raises `ValueError` that says all that is missing or wrong at once."""
    wrong: list[str] = []
    methods = {name: _method(name, wrong) for name in arguments.methods.split(",")}
    h = [] if arguments.h is None else [_number("--h", text, wrong) for text in arguments.h.split(",")]
    case, duration = CASES.get(arguments.scene), arguments.duration
    if duration is not None:
        _number("--duration", str(duration), wrong)
    scene, known = _read(arguments.scene), case is not None or Path(arguments.scene).is_file()
    own = case if scene is None else scene.run
    if own is not None:
        steps = case.h if case is not None else [own.h, own.h / 2] if own.h else []
        h, duration = h or steps, own.duration if duration is None else duration
    if not known:
        wrong.append(f"{arguments.scene!r} is neither a file nor one of {', '.join(CASES)}.")
    fixed = any(not isinstance(method, Adaptive) for method in methods.values())
    missing = [option for option, lacks in (("--h", fixed and not h), ("--duration", duration is None)) if lacks]
    if missing and known:
        wrong.append(f"The scene has no run settings that say it: it needs {', '.join(missing)}.")
    reference = arguments.reference or ("exact" if case is not None else _REFERENCE)
    if reference != "exact":
        _reference(reference, methods, wrong)
    elif case is None:
        wrong.append(f"--reference exact: only {', '.join(CASES)} have it; give radau:TOL or METHOD:H.")
    if wrong:
        raise RunError(" ".join(wrong))
    return _Asked(methods, h, duration, case, scene, reference)


def _read(argument: str) -> Scene | None:
    """The scene of a file, which says how it is run. (A Python file is not run before all else is
    right.)"""
    path = Path(argument)
    return scene_from(argument) if argument not in CASES and path.is_file() and path.suffix != ".py" else None


def _method(text: str, wrong: list[str]) -> Stepper | Adaptive | None:
    """The method NAME, or NAME:TOL; what is wrong with it is noted."""
    name, colon, tol = text.partition(":")
    if name not in METHODS:
        wrong.append(f"--methods: there is no {name!r}; the methods are {', '.join(METHODS)}.")
        return None
    if not colon:
        return METHODS[name]
    if name not in ADAPTIVE:
        wrong.append(f"--methods: {text!r} has fixed steps, from --h; {', '.join(ADAPTIVE)} can choose its steps.")
    elif not tol:
        wrong.append(f"--methods: {text!r} lacks its tolerance: give {name}:TOL, for instance {name}:1e-8.")
    value = _number("--methods", tol, wrong) if tol else math.nan
    return Adaptive(METHODS[name], value if 0 < value < math.inf else 1.0)  # of what is wrong, nothing is run


def _reference(text: str, methods: Mapping, wrong: list[str]) -> tuple[Stepper, dict[str, Any]] | None:
    """The stepper of METHOD:NUMBER and its tol or h; what is wrong with it is noted, also that
    `methods` cannot be compared with it."""
    name, _, number = text.partition(":")
    if name not in METHODS:
        wrong.append(f"--reference {text!r} must be exact, METHOD:H or radau:TOL, a METHOD of {', '.join(METHODS)}.")
        return None
    chosen = [named for named, method in methods.items() if isinstance(method, Adaptive)]
    if name not in ADAPTIVE and chosen:
        wrong.append(
            f"--reference {text!r} has states at the ends of its steps alone, and those of {', '.join(chosen)} end at other "
            "times: give radau:TOL."
        )
    if not number:
        lacks, form = ("tolerance", "TOL, for instance 1e-8") if name in ADAPTIVE else ("step [s]", "H, for instance 0.001")
        wrong.append(f"--reference {text!r} lacks its {lacks}: give {name}:{form}.")
        return None
    return METHODS[name], {"tol" if name in ADAPTIVE else "h": _number("--reference", number, wrong)}


def _number(option: str, text: str, wrong: list[str]) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        wrong.append(f"{option}: {text!r} is not a number above 0.")
    return number

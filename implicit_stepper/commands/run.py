"""`implicit-stepper run`: a scene file is run, and its trajectory written."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from ..model.results import Interrupted, StepError
from ..radau.error_control import tolerance_of
from ..run.checkpoint import CheckpointError
from ..run.scene_run import STEPPERS, given, run_scene, step_of, stepper_of
from ..run.trajectory import Trajectory
from ..run.trajectory_file import load
from ..scene.description import RunSettings
from ..scene.scene import Scene
from . import explain
from .outputs import refuse_clashes, refuse_format
from .scene_argument import HELP, scene_from

_USUAL = {"duration": 1.0, "h": 0.01}  # of scenes without settings


def add_parser(commands) -> argparse.ArgumentParser:
    """Adds the command to the subparsers of `implicit-stepper`."""
    command = commands.add_parser(
        "run",
        help="run a scene file and write its trajectory",
        description="Runs a scene as its file says, or as the options say in place of that, writes the trajectory and "
        "prints what came of it. Exit code: 0; 1 when a step was not solved, 130 after Ctrl-C, both of which leave every "
        "step until then in the file; 2 when the command cannot run as it was given.",
        epilog="Example: implicit-stepper run examples/scenes/bowling.toml --out bowling.npz --csv bowling.csv",
    )
    command.add_argument("scene", metavar="SCENE", help=HELP)
    command.add_argument("--stepper", choices=sorted(STEPPERS), help="the method (default: that of the file)")
    command.add_argument("--h", type=float, help="fixed step [s]")
    command.add_argument("--tol", type=float, help="tolerance for chosen steps, in place of --h")
    command.add_argument("--duration", type=float, help="how long [s]")
    command.add_argument(
        "--estimate-error", action="store_true", help="run again with half the step, and say how far the run is off"
    )
    command.add_argument("--out", default="run.npz", metavar="FILE", help="trajectory to write (run.npz)")
    command.add_argument("--csv", metavar="FILE", help="the same as a table, too")
    command.add_argument("--resume", metavar="FILE", help="go on from the end of a saved trajectory of the scene")
    command.add_argument(
        "--checkpoint", metavar="FILE", help="write the run so far there, and go on from it where the run was cut before"
    )
    command.add_argument("--every", type=float, default=60.0, metavar="SECONDS", help="how often, with --checkpoint (60)")
    command.add_argument("--device", choices=["cpu", "gpu"], default="cpu", help="where the steps run (default: cpu)")
    return command


def run(arguments: argparse.Namespace) -> str | None:
    """Runs the scene and writes the trajectory, also of a run that failed after a step or was
    interrupted, or whose checkpoint cannot be written. Returns why a step was not solved, or None.
    Raises `ValueError` and `OSError` for what cannot be run, `CheckpointError` for a checkpoint
    that is damaged, of another run or cannot be written, and `Interrupted`."""
    refuse_clashes(
        {"--out": arguments.out, "--csv": arguments.csv, "--checkpoint": arguments.checkpoint},
        {"SCENE": arguments.scene, "that of --resume": arguments.resume},
    )
    refuse_format("--out", arguments.out)
    scene = scene_from(arguments.scene)
    other = {name: getattr(arguments, name) for name in ("stepper", "h", "tol", "duration")}
    other = {name: value for name, value in other.items() if value is not None}
    if scene.run is None and not {"h", "tol"} & set(other):
        other = {"h": _USUAL["h"]} | other
    if scene.run is None:
        other = {"duration": _USUAL["duration"]} | other
    start = None if arguments.resume is None else load(arguments.resume)
    begun, failure = time.perf_counter(), None
    try:
        trajectory = run_scene(scene, start=start, estimate_error=arguments.estimate_error, **_kept(arguments), **other)
    except StepError as error:
        trajectory, failure = error.trajectory, f"{error}\n{explain.where(error)}"
        if not trajectory:  # of no step
            return failure
    except (CheckpointError, Interrupted) as stop:
        if stop.trajectory is not None:
            _write(stop.trajectory, arguments)
        raise
    _write(trajectory, arguments)
    print(*_summary(scene, given(scene, **other), trajectory, time.perf_counter() - begun), sep="\n")
    print(f"written: {arguments.out}{'' if arguments.csv is None else f', {arguments.csv}'}")
    return failure


def _kept(arguments: argparse.Namespace) -> dict[str, Any]:
    """Where checkpoints are written, how often [s], and from which one the run goes on: that of the
    same command before, where it left one."""
    path = arguments.checkpoint
    return {"checkpoint": path, "every": arguments.every, "resume": path if path and Path(path).exists() else None}


def _write(trajectory: Trajectory, arguments: argparse.Namespace) -> None:
    trajectory.save(Path(arguments.out))
    if arguments.csv is not None:
        trajectory.to_csv(Path(arguments.csv))


def _error(scene: Scene, settings: RunSettings, run: Trajectory) -> str:
    """How far the run is from the motion, or how to find out: certificates do not say it."""
    if run.error is not None:
        return f"{repr(run.error).removeprefix('<ErrorEstimate: ').removesuffix('>')}, an estimate"
    if settings.tol is not None:
        return f"kept near {tolerance_of(settings.tol).relative:g} of each body's way, step by step"
    rebounds = any(law.restitution is not None for law in scene.body_pairs().laws)  # they cut steps at other times
    tells = "a run with half of it may tell" if rebounds else "--estimate-error does"
    return f"unknown: that steps are solved does not say how far h is from the motion; {tells}"


def _summary(scene: Scene, settings: RunSettings, run: Trajectory, seconds: float) -> list[str]:
    """What a user asks of a run first."""
    worst = max(run.certificate, key=lambda name: np.max(run.certificate[name], initial=0.0), default=None)
    energy = run.energy()
    lines = [
        repr(run)[1:-1],
        f"method       {type(stepper_of(settings)).__name__}, {step_of(settings)}; {seconds:.1f} s in all",
        f"solver       Jacobians: {np.sum(run.stats.iterations)}, at most {np.max(run.stats.iterations)} a step; "
        f"largest residual {np.max(run.stats.residual):.1e}",
    ]
    lines.append(f"error        {_error(scene, settings, run)}")
    if worst is not None:
        lines.append(f"certificate  largest violation {np.max(run.certificate[worst], initial=0.0):.1e}, of {worst!r}")
    left_out = f", without {', '.join(energy.left_out)}" if energy.left_out else ""
    lines.append(f"energy       {energy.total[0]:.6g} J to {energy.total[-1]:.6g} J{left_out}")
    for i, (first, second) in enumerate(run.contact_names[:20]):
        contact = run.contact(i)
        force = np.max(np.nan_to_num(contact.normal_force), initial=0.0)
        lines.append(
            f"contact {i}    {first} and {second}: force, mean of a step, at most {force:.4g} N; "
            f"gap {contact.gap[-1]:.3g} m at the end"
        )
    lines += [f"event        {e.time:.9g} s: {run.named(e)} {e.kind}" for e in run.events[:20]]
    if len(run.events) > 20:
        lines.append(f"             and {len(run.events) - 20} more events")
    return lines

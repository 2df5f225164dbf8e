"""The command `implicit-stepper`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import jax

from ..model.results import Interrupted, StepError
from ..paper.reproduce import CASES, reproduce
from ..runtime.compilation_cache import use_compilation_cache
from ..runtime.errors import CannotWriteError, DeviceError
from ..runtime.interpreter import faster_tracing
from ..runtime.threads import one_blas_thread
from ..runtime.version import VERSION
from . import check, compare, convert, explain, machine, run, scenes, view

# exit codes: a row is out of tolerance; the command cannot run as it was given; Ctrl-C, as shells
# have it
FAILED, MISUSED, INTERRUPTED = 1, 2, 130


@faster_tracing
@one_blas_thread()
def main(argv: list[str] | None = None) -> int:
    """Runs the command with `argv`, by default the process's arguments, and returns its exit
    code."""
    arguments = _parser().parse_args(argv)
    if arguments.command in ("compare", "reproduce"):
        return _into_folder(arguments)
    try:
        cache = use_compilation_cache()
        jax.config.update("jax_default_device", _device(getattr(arguments, "device", "cpu")))
        return _alone(arguments, cache)
    except (OSError, RuntimeError, ValueError, ImportError) as error:
        return _misused(error)
    except KeyboardInterrupt as stop:
        # `warm` runs scenes for their programs alone
        if arguments.command == "warm" or not isinstance(stop, Interrupted):
            return _stopped("interrupted")
        wrote = arguments.command == "run" and stop.trajectory is not None
        return _stopped(f"{stop} They are in {arguments.out}." if wrote else str(stop))


def _alone(arguments: argparse.Namespace, cache: Path | None) -> int:
    """The commands that are about one scene, or the machine."""
    if arguments.command == "run":
        for option, path in (("--out", arguments.out), ("--csv", arguments.csv)):
            if path is not None:
                _writable(Path(path).resolve().parent, option)
        failure = run.run(arguments)
        if failure is not None:
            print(f"implicit-stepper: {failure}", file=sys.stderr)
            return FAILED
    elif arguments.command == "check":
        check.run(arguments)
    elif arguments.command == "view":
        view.run(arguments)
    elif arguments.command == "convert":
        convert.run(arguments)
    elif arguments.command == "scenes":
        scenes.run()
    elif arguments.command == "explain":
        explain.run(arguments)
    elif arguments.command == "info":
        machine.info(cache)
    else:
        machine.warm(arguments.scenes, cache)
    return 0


def _into_folder(arguments: argparse.Namespace) -> int:
    """`compare` and `reproduce`, which fill a folder."""
    try:
        out = _writable(Path(arguments.out))
        use_compilation_cache()
        jax.config.update("jax_default_device", _device(arguments.device))
    except (OSError, RuntimeError) as error:
        return _misused(error)
    try:
        return _compare(arguments, out) if arguments.command == "compare" else _reproduce(arguments, out)
    except KeyboardInterrupt as stop:
        return _interrupted(stop, out)


def _compare(arguments: argparse.Namespace, out: Path) -> int:
    try:
        compare.run(arguments, out)
    except (ValueError, StepError, OSError, ImportError) as error:
        return _misused(error)
    print(f"everything is in {out}")
    return 0


def _reproduce(arguments: argparse.Namespace, out: Path) -> int:
    rows = reproduce(list(CASES) if arguments.case == "all" else [arguments.case], out, quick=arguments.quick)
    missed = sum(not row.ok for row in rows)
    checked = sum(row.tolerance is not None for row in rows)
    print(f"{checked - missed} of {checked} numbers are within tolerance; everything is in {out}")
    return FAILED if missed else 0


def _misused(error: Exception) -> int:
    print(*filter(None, (f"implicit-stepper: {error}", explain.where(error))), sep="\n", file=sys.stderr)
    return MISUSED


def _interrupted(stop: KeyboardInterrupt, out: Path) -> int:
    message = f"interrupted; what was done until then is in {out}"
    if isinstance(stop, Interrupted) and stop.trajectory is not None:
        stop.trajectory.save(out / "interrupted.npz")
        message += f", the run that was not over in interrupted.npz, to t = {stop.trajectory.time[-1]:.6g} s"
    return _stopped(message)


def _stopped(message: str) -> int:
    print(f"implicit-stepper: {message}", file=sys.stderr)
    return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="implicit-stepper",
        description="Geometrically implicit contact.",
        epilog="Exit codes of all commands: 0; 1 when a step was not solved, or a number is out of tolerance; 2 when the "
        "command cannot run as it was given; 130 after Ctrl-C. What was computed until then is written.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser(
        "reproduce",
        help="the examples of the paper against their exact solutions",
        description="Simulates the examples of Chakraborty, Berard, Akella and Trinkle (RSS 2007), compares them with their "
        "exact solutions and draws the paper's figures. Exit code: 0, or 1 when a number is out of tolerance, 2 when the "
        "command cannot run, 130 after Ctrl-C.",
    )
    command.add_argument("--case", choices=[*CASES, "all"], default="all", help="which example (default: all)")
    command.add_argument(
        "--out", default="results", metavar="DIR", help="folder for tables, trajectories, figures (results)"
    )
    command.add_argument("--quick", action="store_true", help="fewer steps, no convergence study, no animations")
    command.add_argument("--device", choices=["cpu", "gpu"], default="cpu", help="where the steps run (default: cpu)")
    compare.add_parser(commands)
    run.add_parser(commands)
    check.add_parser(commands)
    view.add_parser(commands)
    convert.add_parser(commands)
    scenes.add_parser(commands)
    explain.add_parser(commands)
    machine.add_parsers(commands)
    return parser


def _writable(folder: Path, option: str = "--out") -> Path:
    """`folder`, made if need be. Raises `OSError` that says what to do when nothing can be written
    there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise CannotWriteError(
            f"cannot write to the folder {str(folder)!r} ({error.strerror}): give another one with {option}."
        ) from error
    return folder


def _device(kind: str) -> jax.Device:
    """The first device of a kind. Raises `RuntimeError` that says what to do when there is none."""
    try:
        return jax.devices(kind)[0]
    except RuntimeError as error:
        remedy = "run without --device, or install the driver and pip install 'jax[cuda13]'"
        if kind == "cpu":
            remedy = f"set JAX_PLATFORMS, which is {os.environ.get('JAX_PLATFORMS')!r}, to include cpu, or give --device gpu"
        raise DeviceError(f"JAX finds no {kind} here: {remedy}.") from error


if __name__ == "__main__":
    sys.exit(main())

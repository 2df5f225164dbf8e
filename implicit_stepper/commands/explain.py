"""`implicit-stepper explain`: what the code of an error means, and what to do."""

from __future__ import annotations

import argparse
import inspect

from shapes.errors import Explained

from ..model.results import Result, StepError
from ..runtime.errors import CommandError


def add_parser(commands) -> None:
    """Adds the command to the subparsers of `implicit-stepper`."""
    command = commands.add_parser(
        "explain",
        help="what the code of an error means, and what to do",
        description="Explains the code that stands below the message of an error; without one, lists all codes.",
        epilog="Example: implicit-stepper explain OpenJointError",
    )
    command.add_argument("code", metavar="CODE", nargs="?", help="a code, as OpenJointError or NOT_CONVERGED")


def codes() -> dict[str, str]:
    """What each code means, and in a second paragraph what to do."""
    found, kinds = {}, [Explained]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        found[kind.__name__] = "\n\n".join(inspect.cleandoc(kind.__doc__).split("\n\n")[:2])
    del found[Explained.__name__]
    return dict(sorted(found.items())) | {result.name: result.message for result in Result}


def where(error: BaseException) -> str:
    """The codes of an error and of what caused it, of a step the way in which it ended, and how to
    have the last of them explained; nothing of errors of the system, which have no code."""
    names = [type(error).__name__]
    explained = isinstance(error, Explained)
    if isinstance(error, StepError):
        names.append(error.result.name)
    while error.__cause__ is not None:
        error = error.__cause__
        if isinstance(error, Explained) and type(error).__name__ not in names:
            names.append(type(error).__name__)
            explained = True
    if not explained:
        return ""
    return f"[{', caused by '.join(names)}] docs/errors.md#{names[-1].lower()}, or: implicit-stepper explain {names[-1]}"


def run(arguments: argparse.Namespace) -> None:
    """Prints one, or the first sentence of all. Raises `ValueError` for a code that there is
    not."""
    known = codes()
    if arguments.code is None:
        widest = max(map(len, known))
        print(*(f"{name:{widest}}  {' '.join(means.split()).split('. ')[0]}" for name, means in known.items()), sep="\n")
        return
    if arguments.code not in known:
        raise CommandError(f"{arguments.code!r} is no code: `implicit-stepper explain` lists all of them.")
    print(known[arguments.code])

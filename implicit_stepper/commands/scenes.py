"""`implicit-stepper scenes`: the scenes that have names."""

from __future__ import annotations

from ..paper.comparisons import CASES


def add_parser(commands) -> None:
    """Adds the command to the subparsers of `implicit-stepper`."""
    commands.add_parser(
        "scenes",
        help="the scenes that have names, and what each shows",
        description="Lists the scenes that `run`, `check` and `compare` know by name. Each has an exact solution.",
    )


def run() -> None:
    """Prints a line for each."""
    widest = max(map(len, CASES))
    print(*(f"{name:{widest}}  {case.shows} ({case.duration:g} s)" for name, case in CASES.items()), sep="\n")

"""The files that a command writes: none over one that it reads, nor over another that it writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..runtime.errors import CommandError

_OTHERS = {".csv", ".txt", ".json", ".toml", ".md", ".html", ".png", ".gif", ".mp4"}  # names of other formats


def refuse_format(option: str, path: str) -> None:
    """Raises `ValueError` for a trajectory to write, named by its option, to a file that is named
    as those of another format are."""
    if Path(path).suffix.lower() in _OTHERS:
        raise CommandError(f"{option} {path!r} is written as .npz: name a file that ends in it, and a table by --csv.")


def refuse_clashes(written: Mapping[str, str | None], read: Mapping[str, str | None]) -> None:
    """Raises `ValueError` for a file to write, named by its option, that is a folder, one of those
    that are `read`, or that another option writes too; None where an option is not given."""
    taken = {Path(path).resolve(): what for what, path in read.items() if path and Path(path).is_file()}
    for option, path in written.items():
        if path is None:
            continue
        where = Path(path).resolve()
        if where.is_dir():
            raise CommandError(f"{option} {path!r} is a folder: name a file in it.")
        if where.exists() and not where.is_file():  # a pipe or a device may be written to twice
            continue
        if where in taken:
            raise CommandError(f"{option} {path!r} would be written over {taken[where]}, the same file: name another.")
        taken[where] = f"that of {option}"

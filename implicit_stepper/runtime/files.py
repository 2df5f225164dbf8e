"""Files that are either whole or not there: written aside, then renamed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from shapes.errors import ArgumentError


def path_of(name: str, value: str | os.PathLike) -> Path:
    """The `value` of an argument of this name as a path. Raises `ValueError` for what is none."""
    if not isinstance(value, str | os.PathLike):
        raise ArgumentError(f"`{name}` = {value!r:.60} must be a path: text, or a pathlib.Path.")
    return Path(value)


@contextlib.contextmanager
def replaced(path: str | os.PathLike) -> Iterator[Path]:
    """A path beside `path` to write to, which takes its name when the block ends, so that a full
    disk or an interrupt leaves the file that was there. What is no regular file, as a pipe or a
    device, is written to directly. Raises `OSError`, and `ValueError` for what is no path."""
    path = path_of("path", path)
    if path.exists() and not path.is_file():
        yield path
        return
    target = path.resolve()  # of a link, what it points to
    # the ending stays: writers look at it
    aside = target.with_name(f".{os.getpid()}.{target.name}")
    try:
        yield aside
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)

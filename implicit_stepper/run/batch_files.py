"""Batches that stream to disk: a folder with a file for every block of scenes, written by one
thread, whole or not at all.

A call that finds parts of the same batch there goes on with the others, so that a batch whose
process was killed loses the blocks that it was at.
"""

from __future__ import annotations

import dataclasses
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..model.bodies import State
from ..runtime.files import path_of, replaced
from .checkpoint import CheckpointError

_FORMAT = "implicit-stepper batch 2"
_FIELDS = tuple(field.name for field in dataclasses.fields(State))
_RESULTS = ("result", "steps", "violation", "helped", "overlap")


class Folder:
    """The `path` of a batch of `count` scenes, `asked` for what it is. Raises `CheckpointError`
    where it holds another batch or anything else, which stays as it is."""

    def __init__(self, path: str | os.PathLike, asked: Mapping[str, str], count: int):
        self.path, header = path_of("folder", path), {"format": _FORMAT, "scenes": count, "asked": dict(asked)}
        index = self.path / "batch.json"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if index.exists():
                self._check(json.loads(index.read_text(encoding="utf-8")), header)
            elif any(self.path.iterdir()):
                raise CheckpointError(f"`folder` = {str(path)!r} holds other files: give an empty one.")
            else:
                with replaced(index) as new:
                    new.write_text(json.dumps(header), encoding="utf-8")
        except ValueError as error:
            raise CheckpointError(f"`folder` = {str(path)!r} is damaged: {error}. Give another.") from error
        except OSError as error:
            raise CheckpointError(f"`folder` = {str(path)!r} cannot be written: {error}.") from error

    def _check(self, found, header) -> None:
        if not isinstance(found, dict) or found.get("format") != _FORMAT:
            raise CheckpointError(f"`folder` = {str(self.path)!r} is of no batch of this version: give another.")
        both = {**found.get("asked", {}), "scenes": found.get("scenes")}, {**header["asked"], "scenes": header["scenes"]}
        differs = sorted(key for key in {*both[0], *both[1]} if both[0].get(key) != both[1].get(key))
        if differs:
            raise CheckpointError(
                f"`folder` = {str(self.path)!r} is of another batch, which differs in: {', '.join(differs)}. It is left as "
                "it is: give another folder."
            )

    def read(self, number: int) -> tuple | None:
        """The part of that number, None where it is not there. Raises `CheckpointError` where it is
        damaged."""
        part = self._part(number)
        if not part.exists():
            return None
        try:
            with np.load(part, allow_pickle=False) as file:
                end = State(*(file[name] for name in _FIELDS))
                return end, *(file[name] for name in _RESULTS)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise CheckpointError(f"{str(part)!r} is damaged: {error}. Remove it, and it is computed again.") from error

    def write(self, number: int, found: tuple) -> None:
        """Raises `CheckpointError` where the disk does not take it; the parts before it stay."""
        end, *results = found
        arrays = {name: getattr(end, name) for name in _FIELDS} | dict(zip(_RESULTS, results, strict=True))
        try:
            with replaced(self._part(number)) as new:
                np.savez(new, **arrays)
        except OSError as error:
            raise CheckpointError(f"`folder` = {str(self.path)!r} does not take part {number}: {error}.") from error

    def _part(self, number: int) -> Path:
        return self.path / f"part-{number:06d}.npz"

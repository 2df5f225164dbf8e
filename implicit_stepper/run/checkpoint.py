"""Files from which a run goes on after its process was killed, to the bits of a run that was not.

A file holds what the next step depends on, what was recorded so far, and what the run was asked
for, by which another run's is told. It is written aside and renamed, so that a kill leaves the one
before. Reading makes nothing but arrays, numbers and the package's own records."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import hashlib
import importlib
import inspect
import io
import json
import os
import pickle
import time
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jaxlib
import numpy as np
import sympy

from shapes.errors import Explained

from ..model.bodies import State
from ..model.system import System
from ..runtime.files import path_of, replaced
from ..runtime.program_keys import described, structure

_MAGIC = "implicit-stepper checkpoint 4"
_LEVELS = 4  # of what a function holds
_SHARE = 20  # times as long as a file took to write, steps are computed before the next
_NUMPY = {"_reconstruct", "scalar", "ndarray", "dtype", "_frombuffer"}


class CheckpointError(Explained, RuntimeError):
    """A checkpoint that cannot be read, belongs to another run, or cannot be written.

    Give another path, or begin without `resume`.

    Where a run ended by it, `trajectory` holds all its steps, and `state` the one after them, to
    `start` from."""

    def __init__(self, message: str, *, trajectory=None, state=None):
        super().__init__(message)
        self.trajectory = trajectory
        self.state = state


def _told(value, within: tuple[int, ...] = ()) -> str:
    """A user's function or other value in words that are the same in another process: its place,
    its code, and what it holds or closes over, so many levels deep. What else it calls or reads is
    not seen."""
    if isinstance(value, np.ndarray | jax.Array):
        return digest([value], ())
    if type(value) in (bool, int, float, complex, str, bytes, type(None)) or isinstance(value, np.generic):
        return described(value)
    value = inspect.unwrap(value) if callable(value) else value
    of = value if inspect.isroutine(value) or isinstance(value, type) else type(value)
    place = f"{of.__module__}.{of.__qualname__}"
    if isinstance(value, type | types.ModuleType) or id(value) in within or len(within) > _LEVELS:
        return place
    inner = functools.partial(_told, within=(*within, id(value)))
    if isinstance(value, enum.Enum):
        return f"{place}.{value.name}"
    if isinstance(value, sympy.Basic):
        return sympy.srepr(value)
    if isinstance(value, set | frozenset):
        return f"{place}{sorted(map(inner, value))}"
    code, held = _held(value)
    return f"{place}{digest([], (code, [inner(one) for one in held]))}"


def _held(value) -> tuple[tuple, list]:
    """The code of a function, or of the calls of another value, and what it holds."""
    if isinstance(value, Mapping):
        return (), [part for item in value.items() for part in item]
    if isinstance(value, tuple | list):
        return (), list(value)
    if isinstance(value, functools.partial):
        return (), [value.func, value.args, value.keywords]
    if isinstance(value, bool | int | float | complex | str | bytes):  # of a class of its own
        return (), [repr(value)]
    held = []
    if dataclasses.is_dataclass(value):
        held = [getattr(value, field.name) for field in dataclasses.fields(value) if field.compare]
    elif not inspect.isroutine(value):
        held = [getattr(value, "__dict__", None)]
        held += [getattr(value, name, None) for name in getattr(type(value), "__slots__", ())]
        if not held[0] and len(held) == 1:  # of C, as a range
            with contextlib.suppress(TypeError):
                held += value.__reduce_ex__(2)[1:]
    function = value if inspect.isroutine(value) else type(value).__call__ if callable(value) else None
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # of a cell that is empty
            held.append(cell.cell_contents)
    held += [getattr(function, name, None) for name in ("__defaults__", "__kwdefaults__", "__self__")]
    return _code(getattr(function, "__code__", None)), held


def _code(code: types.CodeType | None) -> tuple:
    """What a function does, with the functions within it."""
    if code is None:
        return ()
    constants = [_code(one) if isinstance(one, types.CodeType) else _told(one) for one in code.co_consts]
    return code.co_code, code.co_names, tuple(constants)


def asked_of(system: System, state: State, stepper, numbers: Mapping[str, Any]) -> dict[str, str]:
    """What a run is asked for, by name: digests of its scene and start, its settings, and what
    decides about bits."""
    functions = [_told(f) for f in system.wrench_functions]
    constraints = [structure(group, _told) for group in (*system.groups, *system.joints)]
    names = system.names, system.contact_names, system.joint_names, functions, constraints
    device = jax.devices()[0]
    return {
        "scene": digest(jax.tree.leaves(system), names),
        "start": digest(jax.tree.leaves(state), ()),
        "stepper": described(stepper, _told),
        **{name: repr(value) for name, value in numbers.items()},
        "jax": f"{jax.__version__}, jaxlib {jaxlib.__version__}, {device.platform} {device.device_kind}",
    }


def digest(leaves, names) -> str:
    """What tells arrays and names, and what else is not an array, from others, in a few letters."""
    found = hashlib.sha256(described(names, _told).encode())
    for leaf in leaves:
        found.update(repr(np.shape(leaf)).encode() + np.ascontiguousarray(leaf).tobytes())
    return found.hexdigest()[:16]


class Checkpoint:
    """Of a run `asked` for what it is: writes to `path`, None for nowhere, when `every` [s] have
    passed since the last."""

    def __init__(self, path: str | os.PathLike | None, every: float, asked: Mapping[str, str]):
        self.path, self.every, self.asked = None if path is None else path_of("checkpoint", path), every, dict(asked)
        self._next = time.monotonic() + every
        if self.path is not None and not self.path.parent.is_dir():
            raise CheckpointError(
                f"`checkpoint` = {str(self.path)!r} is in a folder that is not there: make it, or give another path."
            )
        if self.path is not None and self.path.exists():
            # another run's, or no checkpoint: refused, not overwritten
            read(self.path, self.asked, "checkpoint")

    def offer(self, kept: Callable[[], Mapping[str, Any]]) -> None:
        """Writes what `kept` gives if it is time to. Raises `CheckpointError` where it cannot."""
        if self.path is None or time.monotonic() < self._next:
            return
        begun = time.monotonic()
        try:
            write(self.path, self.asked, kept())
        except OSError as error:
            raise CheckpointError(f"`checkpoint` = {str(self.path)!r} cannot be written: {error}.") from error
        done = time.monotonic()
        self._next = done + max(self.every, _SHARE * (done - begun) if self.every else 0.0)


class _Pickler(pickle.Pickler):
    """Of arrays of JAX writes what they hold, whatever holds them: only that is read again."""

    def reducer_override(self, one):
        return np.asarray(one).__reduce_ex__(5) if isinstance(one, jax.Array) else NotImplemented


def write(path: Path, asked: Mapping[str, str], kept: Mapping[str, Any]) -> None:
    """A file with `kept`, a tree of the package's records. Raises `OSError`, and leaves what was
    there."""
    pickled = io.BytesIO()
    _Pickler(pickled, protocol=5).dump(dict(kept))
    payload = pickled.getvalue()
    header = {"format": _MAGIC, "asked": dict(asked), "size": len(payload), "sha256": hashlib.sha256(payload).hexdigest()}
    with replaced(path) as written, written.open("wb") as file:
        file.write(json.dumps(header).encode() + b"\n" + payload)
        file.flush()
        os.fsync(file.fileno())


def read(path: str | os.PathLike, asked: Mapping[str, str], argument: str = "resume") -> dict[str, Any]:
    """What was kept in the file of a run `asked` for the same. Raises `CheckpointError`, which says
    what differs."""
    name = f"`{argument}` = {str(path)!r}"
    try:
        first, _, payload = path_of(argument, path).read_bytes().partition(b"\n")
    except OSError as error:
        hint = " A run that left none begins without `resume`." if argument == "resume" else " Give another path."
        raise CheckpointError(f"{name} cannot be read: {error}.{hint}") from error
    try:
        header = json.loads(first)
        known = header["format"] == _MAGIC
    except (ValueError, KeyError, TypeError):
        known = False
    if not known:
        raise CheckpointError(f"{name} is no checkpoint of this version: it is left as it is. Give another path.")
    if len(payload) != header["size"] or hashlib.sha256(payload).hexdigest() != header["sha256"]:
        raise CheckpointError(f"{name} is damaged: its content is not what was written. Begin again under another path.")
    differs = sorted(key for key in {*asked, *header["asked"]} if asked.get(key) != header["asked"].get(key))
    if differs:
        raise CheckpointError(
            f"{name} belongs to another run, which differs in: {', '.join(differs)}. It is left as it is: give another "
            "path, or what that run was given."
        )
    return _Reader(io.BytesIO(payload)).load()


class _Reader(pickle.Unpickler):
    """Makes arrays, and records and numbers of this package, and nothing else."""

    def find_class(self, module: str, name: str):
        """The class of that name, if it is one that checkpoints have. Raises `CheckpointError` for
        others."""
        top = module.partition(".")[0]
        if top == "numpy" and name in _NUMPY:
            return getattr(importlib.import_module(module), name)
        if top == "implicit_stepper":
            found = getattr(importlib.import_module(module), name)
            own = isinstance(found, type) and (dataclasses.is_dataclass(found) or issubclass(found, enum.Enum | tuple))
            if own:
                return found
        raise CheckpointError(f"the checkpoint asks for {module}.{name}, which no run leaves: it is not read.")

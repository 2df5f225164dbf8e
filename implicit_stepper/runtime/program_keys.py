"""Keys by which a compiled program is found without tracing it.

What a trace depends on: the function, the structure and types of its arguments, everything static
in them, the source of both packages and the numbers in their modules, the versions of what is
called, JAX's settings and the machine. A key that forgets one of these would hand out the program
of another scene; what cannot be described completely, as functions of users, has none.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import os
import pkgutil
import platform
import sys
import types
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import jaxlib
import numpy as np
import sympy

_OURS = ("implicit_stepper", "shapes")
# rooms whose functions and numbers stand in programs
_TRACED = (
    "shapes", "implicit_stepper.model", "implicit_stepper.solvers", "implicit_stepper.collision",
    "implicit_stepper.constraints", "implicit_stepper.stepping", "implicit_stepper.implicit_euler",
    "implicit_stepper.time_lagged", "implicit_stepper.radau", "implicit_stepper.many_bodies",
)  # fmt: skip
_KNOWN = (*_OURS, "jax", "jaxlib", "numpy", "scipy", "sympy", "tqdm", "threadpoolctl", *sys.stdlib_module_names)
_PLAIN = (type(None), bool, int, str, bytes)
# in names of settings that change no program
_UNSEEN = ("dir", "cache", "log", "traceback", "explain", "profil")


def program_key(program, static: tuple, dynamic: tuple) -> str | None:
    """The key of the module's function `program` for its `static` arguments, and `dynamic` ones of
    the same structure and types, numbers or shapes alone; None where it has none."""
    try:
        parts = [_named(program), *map(described, static), *map(structure, dynamic), _surroundings()]
    except NotImplementedError:
        return None
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def described(value, other: Callable[[Any], str] | None = None) -> str:
    """A text that is the same for equal values, and for these alone; by `other` of what has none,
    as functions of users. Raises `NotImplementedError` without it."""
    of = functools.partial(described, other=other)
    if isinstance(value, float | complex | np.generic):
        return f"{type(value).__name__}({value.tolist() if isinstance(value, np.generic) else value!r})"
    if isinstance(value, enum.Enum):
        return f"{_named(type(value), other)}.{value.name}"
    if type(value) in _PLAIN:
        return repr(value)
    if type(value) in (tuple, list):
        return f"{type(value).__name__}({','.join(map(of, value))})"
    if type(value) is dict:
        return f"dict({','.join(f'{of(name)}:{of(one)}' for name, one in value.items())})"
    if type(value) is frozenset:
        return f"frozenset({','.join(sorted(map(of, value)))})"
    if isinstance(value, sympy.Basic):
        return _expression(value, other)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return f"{_named(type(value), other)}({','.join(map(of, value))})"
    ours = other is None or type(value).__module__.partition(".")[0] in _OURS
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and ours:
        fields = (f"{f.name}={of(getattr(value, f.name))}" for f in dataclasses.fields(value) if f.compare)
        return f"{_named(type(value), other)}({','.join(fields)})"
    if isinstance(value, functools.partial):
        return f"partial({of(value.func)},{of(value.args)},{of(value.keywords)})"
    return _named(value, other)


def _named(value, other: Callable[[Any], str] | None = None) -> str:
    """The name of a function or class of these packages, if it is what has that name."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if module is not None and name is not None and module.partition(".")[0] in _OURS:
        found = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is value and not isinstance(value, types.MethodType):
            return f"{module}:{name}"
    if other is None:
        raise NotImplementedError(f"no text describes {value!r} completely")
    return other(value)


def _expression(value: sympy.Basic, other: Callable[[Any], str] | None) -> str:
    """With the assumptions of its symbols; functions of users are known by name alone."""
    for part in sympy.preorder_traversal(value):
        if (type(part).__module__ or "").partition(".")[0] not in ("sympy", *_OURS):
            if other is not None:
                return other(value)
            raise NotImplementedError(f"no text describes {part!r} completely")
    return sympy.srepr(value)


def structure(value, other: Callable[[Any], str] | None = None) -> str:
    """Of an argument: the types of its leaves, and all that is static in it, see `described`."""
    found = jax.tree_util.default_registry.flatten_one_level(value)
    if found is None:
        return "{}{}{}".format(*leaf_type(value))
    parts, static = found
    known = type(value) in (tuple, list, dict, type(None))
    name = type(value).__name__ if known else _named(type(value), other)
    return f"{name}<{described(_plain(static), other)}>({','.join(structure(part, other) for part in parts)})"


def leaf_type(leaf) -> tuple:
    """Shape, dtype, and whether it is a Python number, of an array or of what stands for one."""
    kind = leaf if isinstance(leaf, jax.ShapeDtypeStruct) else jax.typeof(leaf)
    return kind.shape, kind.dtype, kind.weak_type


def _plain(static):
    """What the registry of trees says of a node: the class itself, of tuples with names."""
    return static.__qualname__ if isinstance(static, type) else static


def _surroundings() -> str:
    """What is the same for all programs of a process, unless a setting of JAX is changed."""
    names = sorted(name for name in jax.config.values if not any(part in name for part in _UNSEEN))
    settings = [f"{name}={getattr(jax.config, name, jax.config.values[name])}" for name in names]
    return "\n".join([_sources(), *_numbers(), _machine(), os.environ.get("XLA_FLAGS", ""), *settings])


def _numbers() -> list[str]:
    """The numbers and words in modules, which a user may have changed since they were read. Raises
    `NotImplementedError` where a function or a method has been replaced by one from elsewhere."""
    _import_all()
    found = []
    for name in sorted(sys.modules):
        if not name.startswith(_TRACED):
            continue
        for key, value in vars(sys.modules[name]).items():
            if type(value) in (bool, int, float, str) and not key.startswith("__"):
                found.append(f"{name}.{key}={value!r}")
            _refuse_foreign(value)
            if isinstance(value, type) and value.__module__ == name:
                for own in vars(value).values():
                    _refuse_foreign(getattr(own, "fget", None) or getattr(own, "__func__", own))
    return found


@functools.cache
def _import_all() -> None:
    """Imports all modules of those rooms, so that keys do not depend on what was asked for
    first."""
    for room in _TRACED:
        for module in pkgutil.walk_packages(import_module(room).__path__, f"{room}."):
            import_module(module.name)


def _refuse_foreign(value) -> None:
    if isinstance(value, types.FunctionType):
        root = value.__module__.partition(".")[0]
        if root not in _KNOWN and not root.startswith("namedtuple_"):
            raise NotImplementedError(f"no text describes {value!r} completely")


@functools.cache
def _sources() -> str:
    """A digest of the source of these packages, and the versions of what they call."""
    digest = hashlib.sha256()
    for package in _OURS:
        folder = Path(sys.modules[package].__file__).parent
        for file in sorted(folder.rglob("*.py")):
            digest.update(f"{package}/{file.relative_to(folder).as_posix()}\n".encode())
            digest.update(file.read_bytes())
    versions = (platform.python_version(), np.__version__, sympy.__version__, jax.__version__, jaxlib.__version__)
    return f"{digest.hexdigest()} {versions}"


@functools.cache
def _machine() -> str:
    """Its processor, with the instructions that it knows, and JAX's devices."""
    devices = jax.devices()
    about = Path("/proc/cpuinfo")
    first = about.read_text().partition("\n\n")[0] if about.exists() else platform.processor()
    lines = [line for line in first.splitlines() if "MHz" not in line and "bogomips" not in line]
    kinds = [f"{device.platform} {device.device_kind} {device.client.platform_version}" for device in devices]
    return "\n".join([platform.machine(), *lines, *kinds])

"""`implicit-stepper info` and `implicit-stepper warm`: what the machine has, and programs compiled
beforehand."""

from __future__ import annotations

import contextlib
import io
import os
import platform
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import jax
import jax.numpy as jnp

from ..paper.reproduce import CASES, reproduce
from ..run.scene_run import given, run_scene
from ..runtime.version import VERSION
from .scene_argument import HELP, scene_from


def add_parsers(commands) -> None:
    """Adds both commands to the subparsers of `implicit-stepper`."""
    commands.add_parser(
        "info",
        help="versions, devices, precision, and the cache of compiled programs",
        description="Prints what a report of a problem needs: versions, devices, precision, threads and the cache.",
    )
    command = commands.add_parser(
        "warm",
        help="compile programs into the cache, so that later commands start at once",
        description="Compiles the programs of `reproduce`, or of the scenes given, into the cache on disk. Exit code: 0; 2 "
        "when a scene cannot be read; 130 after Ctrl-C, which leaves what is compiled.",
    )
    command.add_argument("scenes", metavar="SCENE", nargs="*", help=HELP)


def info(cache: Path | None) -> None:
    """Prints versions, devices and the cache, which is the folder `cache` or None."""
    names = ("jax", "jaxlib", "numpy", "scipy", "sympy", "matplotlib")
    found = {}
    for name in names:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    print(f"implicit-stepper {VERSION}, Python {platform.python_version()} on {platform.platform()}")
    print(", ".join(f"{name} {found.get(name, 'missing')}" for name in names))
    print(f"devices: {', '.join(map(str, jax.devices()))}; {os.cpu_count()} cores")
    print(f"precision: {jnp.zeros(1).dtype}")
    if cache is None:
        print("cache: none, as the user's folder for caches cannot be written")
        return
    programs = list(cache.glob("*-cache"))
    size = sum(program.stat().st_size for program in programs) / 1e6
    print(f"cache: {cache}, {len(programs)} programs, {size:.0f} MB")


def warm(scenes: list[str], cache: Path | None) -> None:
    """Compiles what `reproduce`, or each of `scenes`, runs. Raises `ValueError` and `OSError` for
    what is no scene."""
    before, begun = _count(cache), time.perf_counter()
    if scenes:
        for argument in scenes:
            print(f"{argument} ...", file=sys.stderr)
            scene = scene_from(argument)
            settings = {} if scene.run is not None else {"h": 0.01, "duration": 1.0}
            asked = given(scene, **settings)
            short = {"duration": asked.duration} if asked.h is None else {"duration": min(asked.duration, 2 * asked.h)}
            run_scene(scene, **settings | short, progress=False)
    else:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            reproduce(list(CASES), Path(folder), quick=True)
    print(f"{_count(cache) - before} programs were added to {cache} in {time.perf_counter() - begun:.0f} s")


def _count(cache: Path | None) -> int:
    return 0 if cache is None else sum(1 for _ in cache.glob("*-cache"))

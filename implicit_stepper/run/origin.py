"""Where a run comes from: its scene, its settings, and the versions that made it, for figures that
are to be made again."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ..model.results import Interrupted, StepError
from ..runtime.errors import NotRecordedError
from ..runtime.version import VERSION
from ..scene import toml, toml_text
from ..scene.building import scene_of
from ..scene.description import SceneDescription
from ..scene.scene import Scene
from .checkpoint import CheckpointError


@dataclasses.dataclass(frozen=True)
class Origin:
    """`scene`: its description, or of a saved run its text, None where no file can hold it;
    `settings` of `simulate`, with the stepper in words; `versions` by package."""

    scene: SceneDescription | str | None
    settings: dict[str, Any]
    versions: dict[str, str]

    def text(self) -> str | None:
        """The scene as text of a scene file, or None: its loads may be functions."""
        if not isinstance(self.scene, SceneDescription):
            return self.scene
        try:
            return toml_text.written(self.scene)
        except ValueError:
            return None

    def built(self) -> Scene:
        """The scene again. Raises `ValueError` where it is not known."""
        if self.scene is None:
            raise NotRecordedError("the run does not know its scene, which no file could hold: give it, or run it again.")
        return scene_of(toml.read(self.scene, bounded=False) if isinstance(self.scene, str) else self.scene)

    def header(self) -> dict[str, Any]:
        """For a file."""
        return {"scene": self.text(), "settings": self.settings, "versions": self.versions}


def origin_of(scene: Scene, stepper, **settings) -> Origin:
    """Of a run that is to be made; `settings` that are left out, None, are not told."""
    told = {name: value for name, value in settings.items() if value is not None}
    told = {name: value if isinstance(value, float | int | list) else repr(value) for name, value in told.items()}
    return Origin(scene.description(), {"stepper": repr(stepper), **told}, versions())


def with_origin(origin: Origin, run: Callable, *arguments):
    """The trajectory that `run` gives, or that the error that it raises carries, with its
    origin."""
    try:
        return dataclasses.replace(run(*arguments), origin=origin)
    except (CheckpointError, StepError, Interrupted) as stop:
        if stop.trajectory is not None:
            stop.trajectory = dataclasses.replace(stop.trajectory, origin=origin)
        raise


def stored(header: dict[str, Any] | None) -> Origin | None:
    """Of what `Origin.header` gave. Raises `KeyError` or `TypeError` for anything else."""
    if header is None:
        return None
    scene = header["scene"]
    if not isinstance(scene, str | None):
        raise TypeError("the scene is no text")
    return Origin(scene, dict(header["settings"]), dict(header["versions"]))


@functools.cache
def versions() -> dict[str, str]:
    """Of this package and those whose arithmetic it uses."""
    found = {"implicit-stepper": VERSION}
    for name in ("jax", "jaxlib", "numpy", "scipy", "sympy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found

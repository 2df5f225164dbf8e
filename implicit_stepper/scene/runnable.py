"""The part of a scene that says how it is to be run."""

from __future__ import annotations

from ..runtime.errors import RunError
from .description import RunSettings


class Runnable:
    """What `scene.Scene` has of its run: the settings, None where it has none."""

    _run: RunSettings | None = None

    @property
    def run(self) -> RunSettings | None:
        """How `implicit_stepper.run_scene` runs the scene, to be set. Raises `ValueError` for what
        is no `RunSettings`."""
        return self._run

    @run.setter
    def run(self, settings: RunSettings | None) -> None:
        if settings is not None and not isinstance(settings, RunSettings):
            raise RunError(
                f"`run` = {settings!r:.60} must be None or an implicit_stepper.RunSettings, for instance "
                "RunSettings(duration=1.0, h=0.01)."
            )
        self._run = settings

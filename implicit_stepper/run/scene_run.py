"""A scene run as its file says."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from ..implicit_euler.closed_form_gap import ClosedFormGap
from ..implicit_euler.geometrically_implicit import GeometricallyImplicit
from ..model.bodies import State
from ..radau.radau_contact import RadauContact
from ..runtime.errors import RunError
from ..scene.description import RunSettings
from ..scene.scene import Scene
from ..stepping.stepper import Stepper
from ..time_lagged.cone_complementarity import ConeComplementarity
from ..time_lagged.convex import Convex
from ..time_lagged.explicit import Explicit
from ..time_lagged.linearized import Linearized
from .arguments import of_kind
from .simulate import simulate
from .trajectory import Trajectory

STEPPERS = {
    stepper.__name__: stepper
    for stepper in (
        GeometricallyImplicit,
        RadauContact,
        ClosedFormGap,
        ConeComplementarity,
        Linearized,
        Explicit,
        Convex,
    )
}


def run_scene(
    scene: Scene,
    *,
    start: State | Trajectory | None = None,
    progress: bool | None = None,
    estimate_error: bool = False,
    checkpoint: str | os.PathLike | None = None,
    every: float = 60.0,
    resume: str | os.PathLike | None = None,
    **other,
) -> Trajectory:
    """Runs `scene` by its `run` settings, of which `other` replaces some, for instance h=.001 or
    duration=2, which leaves out `switches` of the scene that are later; what else it takes is as
    `simulate` has it, `every` in [s]. Raises `ValueError` where there are none, or where they are
    wrong, and what `simulate` raises."""
    of_kind(scene, asked=("scene",))
    settings = given(scene, **other)
    if start is None and "duration" in other and "switches" not in other:  # those of a shorter run
        settings = dataclasses.replace(settings, switches=switches_of(settings, settings.duration))
    return simulate(
        scene,
        stepper_of(settings),
        **arguments_of(settings),
        start=start,
        progress=progress,
        estimate_error=estimate_error,
        checkpoint=checkpoint,
        every=every,
        resume=resume,
    )


def arguments_of(settings: RunSettings) -> dict[str, Any]:
    """The arguments of `simulate` that the settings have, but for the stepper."""
    names = ("h", "tol", "duration", "switches")
    found = {name: getattr(settings, name) for name in names}
    if settings.certificate_tolerance is not None:
        found["certificate_tolerance"] = settings.certificate_tolerance
    return found


def switches_of(settings: RunSettings | None, duration: float) -> tuple[float, ...]:
    """The switches [s] of a scene's settings, if it has any, that a run of `duration` [s] has."""
    return () if settings is None else tuple(time for time in settings.switches if time <= duration)


def step_of(settings: RunSettings) -> str:
    """The step or the tolerance of the settings, as a user reads it."""
    if settings.h is not None:
        return f"h = {settings.h:g} s"
    return f"tol = {settings.tol:g}" if isinstance(settings.tol, float | int) else f"tol = {settings.tol!r}"


def given(scene: Scene, **other) -> RunSettings:
    """The run settings of a scene, with `other` in place of some. A step `h` takes the place of a
    tolerance, and `tol` of a step; another `stepper` leaves the settings of the first one out.
    Raises `ValueError`."""
    known = [field.name for field in dataclasses.fields(RunSettings)]
    wrong = [name for name in other if name not in known]
    if wrong:
        raise RunError(f"{', '.join(wrong)}: run settings are {', '.join(known)}.")
    if scene.run is None and "duration" not in other:
        raise RunError("the scene has no run settings: give `duration` [s], and a step `h` [s] or a tolerance `tol`.")
    base = RunSettings(duration=other["duration"]) if scene.run is None else scene.run
    if ("h" in other) != ("tol" in other):
        other = {"h": None, "tol": None} | other
        chosen = base.stepper == "RadauContact" or base.tol is not None
        if "tol" in other and other["tol"] is not None and base.stepper not in (None, "RadauContact"):
            other = {"stepper": None} | other
        if other["h"] is not None and chosen:
            other = {"switches": ()} | other
    found = dataclasses.replace(base, **other)
    if "settings" in other or _name(found) == _name(base):
        return found
    return dataclasses.replace(found, settings={})


def _name(settings: RunSettings) -> str:
    """Of the stepper that is meant."""
    return settings.stepper or ("GeometricallyImplicit" if settings.tol is None else "RadauContact")


def stepper_of(settings: RunSettings) -> Stepper:
    """The stepper that the settings name. Raises `ValueError` for names and settings that there are
    not."""
    name = _name(settings)
    if name not in STEPPERS:
        raise RunError(f"`stepper` = {name!r:.60}: there are {', '.join(STEPPERS)}.")
    # what a file can say: numbers and words
    known = [field.name for field in dataclasses.fields(STEPPERS[name]) if isinstance(field.default, str | int | float)]
    wrong = [key for key in settings.settings if key not in known]
    if wrong:
        raise RunError(f"{name} has no setting {wrong[0]!r:.60}: it has {', '.join(known)}.")
    return STEPPERS[name](**settings.settings)

"""That a scene, a stepper and a trajectory are what functions of runs are given as such."""

from __future__ import annotations

from shapes.errors import ArgumentError

from ..scene.scene import Scene
from ..stepping.stepper import Stepper
from .trajectory import Trajectory


def of_kind(scene=None, stepper=None, trajectory=None, *, asked: tuple[str, ...]) -> None:
    """Raises `ValueError` for an argument of those that are `asked` for, by name, that is another
    thing, as where two were given in the other order."""
    if "scene" in asked and not isinstance(scene, Scene):
        raise ArgumentError(f"`scene` = {scene!r:.60} must be a Scene.")
    if "stepper" in asked and (isinstance(stepper, type) or not isinstance(stepper, Stepper)):
        raise ArgumentError(f"`stepper` = {stepper!r:.60} must be a stepper, for instance GeometricallyImplicit().")
    if "trajectory" in asked and not isinstance(trajectory, Trajectory):
        raise ArgumentError(
            f"`trajectory` = {trajectory!r:.60} must be a Trajectory, as `simulate` returns it and `load` reads it."
        )

"""What a run with error control refuses before it begins."""

from __future__ import annotations

import math

import numpy as np

from ..constraints.joint_rows import bound_names
from ..model.system import System
from ..runtime.errors import OverlapError, RunError, StepperError

SHORTEST = 1e-7  # of sqrt(L / g): shorter steps have no digits left
_OVERLAP = 1e-6  # of the scene's length: more is not a matter of rounded input


def unit(system: System) -> float:
    """The time sqrt(L / g) [s] of a scene."""
    return math.sqrt(float(system.length) / float(system.acceleration))


def refuse_short(system: System, duration: float) -> None:
    """Raises `ValueError` for a run that the shortest step would fill."""
    least = SHORTEST * unit(system)
    if duration <= least:
        raise RunError(
            f"`duration` = {duration:.3g} s: chosen steps of this scene are {least:.1e} s or longer. Give a longer one, or "
            "`h`."
        )


def refuse_limits(system: System) -> None:
    """Raises `ValueError` for limits of joints, which steps of several stages of given length may
    meet within."""
    met = bound_names(system)
    if met:
        raise StepperError(
            f"a step of several stages holds no impact, and {met[0]!r} may be met in one: give `tol` in "
            "place of `h`, or take GeometricallyImplicit."
        )


def refuse_overlap(system: System, every: np.ndarray) -> None:
    """Raises `ValueError` for rigid contacts that overlap at the start, by their gaps `every` (nc,)
    [m]: parting them would take a speed of depth/h, for every h."""
    rigid = [number for group in system.groups if group.compliance is None for number in group.numbers]
    deep = [number for number in sorted(rigid, key=every.__getitem__) if every[number] < -_OVERLAP * float(system.length)]
    if deep:
        names = [" and ".join(system.contact_names[number]) for number in deep]
        told = "; ".join(f"{name} overlap by {-every[number]:.3g} m" for name, number in zip(names, deep, strict=True))
        raise OverlapError(
            f"{told} at the start, which chosen steps cannot undo: move them apart, or take a first step of "
            "GeometricallyImplicit, which parts them at the speed depth / h."
        )

"""What the runs of `compare` are measured against: a function of times, or a trajectory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..runtime.errors import ComparisonError
from ..scene.scene import Scene
from .trajectory import Trajectory

_ROUNDED = 1e-6  # of a step: times that are the same

# Positions (n, nb, d) and velocities (n, nb, 6 or 3) at times (n,).
Reference = Callable[[np.ndarray], tuple[np.ndarray, ...]]


def reference_of(given: Reference | Trajectory) -> Reference:
    """The function that is `given`, or that of a trajectory. Raises `ValueError` for what is
    neither, and for a trajectory of no steps."""
    if isinstance(given, Trajectory):
        if not len(given):
            raise ComparisonError("`reference` has no steps: give a run as long as the `duration`.")
        return _sampled(given)
    if not callable(given):
        raise ComparisonError(f"`reference` = {given!r:.60} must be a Trajectory or a function of times.")
    return given


def refuse_reference(reference: Reference, scene: Scene, h: float, duration: float) -> None:
    """Raises `ValueError` for a `reference` that has not what bodies of `scene` are compared with
    at the times of a run in steps of h [s], or, where that is NaN, of chosen ones."""
    _, start = scene.build(contacts=False)
    first = float(start.time)
    inner = 1 if np.isnan(h) else int(np.ceil(duration / h - _ROUNDED))
    times = np.append(first + np.arange(inner) * h if inner > 1 else first, first + duration)
    found = reference(times)
    needed = [(len(times), *np.shape(part)) for part in (start.position, start.velocity, start.orientation)]
    shapes = [np.shape(part) for part in found] if isinstance(found, tuple | list) else None
    if shapes is None or len(shapes) not in (2, 3) or shapes != needed[: len(shapes)]:
        told = f"an object of shape {np.shape(found)}" if shapes is None else f"arrays of shapes {shapes}"
        raise ComparisonError(
            f"`reference` returns {told} for {len(times)} times: it needs positions {needed[0]}, velocities {needed[1]} "
            f"and, if it is to, orientations {needed[2]}."
        )


def _sampled(trajectory: Trajectory) -> Reference:
    """That of a trajectory: at all times, or at its own if it has nothing between them."""
    own, shortest = trajectory.time, np.min(np.diff(trajectory.time))

    def between(times):
        late = times - own[-1]
        state = trajectory.at(np.where((late > 0) & (late < _ROUNDED * shortest), own[-1], times))
        return state.position, state.velocity, state.orientation

    def at(times):
        index = np.clip(np.searchsorted(own, times - shortest / 2), 0, len(trajectory))
        missing = np.abs(own[index] - times) > _ROUNDED * shortest
        if np.any(missing):
            raise ComparisonError(
                f"`reference` has no state at t = {times[missing][0]:.9g} s: its step {shortest:g} s must divide every "
                "`h`, and it must last as long."
            )
        return trajectory.position[index], trajectory.velocity[index], trajectory.orientation[index]

    return at if trajectory.contacts.stages is None else between

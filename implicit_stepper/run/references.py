"""What the runs of `compare` are measured against: a function of times, or a trajectory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from ..model.bodies import State
from ..runtime.errors import ComparisonError
from ..scene.scene import Scene
from .trajectory import Trajectory

_ROUNDED = 1e-6  # of a step: times that are the same
_OTHERS = "give a run of RadauContact() with `tol`, which has all times, or a function of times."

# Positions (n, nb, d) and velocities (n, nb, 6 or 3) at times (n,).
Reference = Callable[[np.ndarray], tuple[np.ndarray, ...]]


def reference_of(given: Reference | Trajectory) -> Reference:
    """The function that is `given`, or that of a trajectory. Raises `ValueError` for what is
    neither, and for a trajectory of no steps."""
    if isinstance(given, Trajectory):
        if not len(given):
            raise ComparisonError("`reference` has no steps: give a run as long as the `duration`.")
        return _Sampled(given)
    if not callable(given):
        raise ComparisonError(f"`reference` = {given!r:.60} must be a Trajectory or a function of times.")
    return given


def refuse_reference(reference: Reference, scene: Scene, h: float, duration: float) -> None:
    """Raises `ValueError` for a `reference` that has not what bodies of `scene` are compared with
    at the times of a run in steps of h [s], or, where that is NaN, of chosen ones."""
    if h > (1 + _ROUNDED) * duration:
        raise ComparisonError(f"`h` = {h:g} s is longer than `duration` = {duration:g} s: leave it out.")
    if isinstance(reference, _Sampled):
        reference.refuse_steps(h)
    _, start = scene.build(contacts=False)
    first = float(start.time)
    inner = 1 if np.isnan(h) else int(np.ceil(duration / h - _ROUNDED))
    states_at(reference, np.append(first + np.arange(inner) * h if inner > 1 else first, first + duration), start)


def states_at(reference: Reference, times: np.ndarray, bodies: State | Trajectory) -> list[np.ndarray]:
    """Positions, velocities and, if it has them, orientations of a `reference` at `times` (n,) [s],
    for each of the `bodies`. Raises `ValueError` where it fails, or returns what has another
    shape or is not finite."""
    try:
        found = reference(times)
    except ComparisonError:
        raise
    except Exception as error:  # of any type: it may be the user's function
        raise ComparisonError(
            f"`reference` must have all of {len(times)} times from {times[0]:.9g} to {times[-1]:.9g} s, and fails there: "
            f"{type(error).__name__}: {error}"
        ) from error
    needed = [(len(times), *np.shape(part)[-2:]) for part in (bodies.position, bodies.velocity, bodies.orientation)]
    shapes = [np.shape(part) for part in found] if isinstance(found, tuple | list) else None
    if shapes is None or len(shapes) not in (2, 3) or shapes != needed[: len(shapes)]:
        told = f"an object of shape {np.shape(found)}" if shapes is None else f"arrays of shapes {shapes}"
        raise ComparisonError(
            f"`reference` returns {told} for {len(times)} times: it needs positions {needed[0]}, velocities {needed[1]} "
            f"and, if it is to, orientations {needed[2]}."
        )
    states = [np.asarray(part, float) for part in found]
    for what, part in zip(("positions", "velocities", "orientations"), states, strict=False):
        wrong = ~np.all(np.isfinite(part), axis=(1, 2))
        if np.any(wrong):
            raise ComparisonError(
                f"`reference` returns {what} at t = {times[wrong][0]:.9g} s that are not finite: it needs numbers at all "
                "times of the runs."
            )
    return states


@dataclasses.dataclass(frozen=True)
class _Sampled:
    """The reference that a `trajectory` is: at all times, or at its own if it has nothing between
    them."""

    trajectory: Trajectory

    @property
    def step(self) -> float:
        """[s], of which impacts and the end cut some: as it was asked for, or else the longest."""
        origin, time = self.trajectory.origin, self.trajectory.time
        asked = None if origin is None else origin.settings.get("h")
        return float(min(asked, time[-1] - time[0]) if isinstance(asked, float | int) else np.max(np.diff(time)))

    def refuse_steps(self, h: float) -> None:
        """Raises `ValueError` for runs in steps of h [s], or, where that is NaN, of chosen ones,
        which end at times that this trajectory has not. Impacts of other steps are at others."""
        if self.trajectory.contacts.stages is not None:
            return
        alone = f"`reference` has states at the ends of its steps of {self.step:g} s alone"
        if np.isnan(h):
            raise ComparisonError(f"{alone}, and a method that is `Adaptive` ends its steps at others: {_OTHERS}")
        if np.any(np.diff(self.trajectory.time) == 0) and abs(h - self.step) > _ROUNDED * h:
            raise ComparisonError(f"{alone}, and at its impacts, which with `h` = {h:g} s are at other times: {_OTHERS}")

    def __call__(self, times: np.ndarray) -> tuple[np.ndarray, ...]:
        run = self.trajectory
        # times of steps are sums of these
        summed = min(len(run) * np.spacing(np.max(np.abs(run.time))), self.step / 4)
        slack, index = max(_ROUNDED * self.step, summed), _nearest(run.time, times)
        index[:1] = np.where(times[:1] == run.time[0], 0, index[:1])  # also before an impact at the start
        own = run.position[index], run.velocity[index], run.orientation[index]
        if run.contacts.stages is None:
            missing = np.abs(run.time[index] - times) > slack
            if np.any(missing):
                raise ComparisonError(
                    f"`reference` has no state at t = {times[missing][0]:.9g} s: its step {self.step:g} s must divide every "
                    f"`h`, and it must last as long. For other times, as those of impacts, {_OTHERS}"
                )
            return own
        late = times - run.time[-1]
        state = run.at(np.where((late > 0) & (late < slack), run.time[-1], times))
        same = (run.time[index] == times)[:, None, None]  # also before an impact, where `at` is after it
        between = state.position, state.velocity, state.orientation
        return tuple(np.where(same, known, found) for known, found in zip(own, between, strict=True))


def _nearest(own: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Of each of `times`, the number of the nearest of `own`, both in order. Of a time that stands
    there several times, before and after impacts, the last one belongs to the last one, the one
    before to the one before."""
    after = np.clip(np.searchsorted(own, times), 1, len(own) - 1)
    near = own[np.where(times - own[after - 1] < own[after] - times, after - 1, after)]
    later = np.searchsorted(times, times, side="right") - 1 - np.arange(len(times))
    return np.maximum(np.searchsorted(own, near, side="right") - 1 - later, np.searchsorted(own, near))

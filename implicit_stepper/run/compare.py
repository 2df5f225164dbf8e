"""Several time-steppers on one scene, at several steps: errors, orders, gaps, energies, artifacts
and cost in one table."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from shapes.arguments import flag, positive
from shapes.errors import Explained

from ..constraints import linear_rows
from ..model.results import Interrupted, StepError
from ..runtime.errors import ComparisonError
from ..runtime.progress import Progress
from ..scene.scene import Scene
from ..stepping.stepper import Stepper
from . import carrying
from .comparison import Comparison, Entry, file_of
from .found_pairs import finds_pairs
from .pile_run import law_of_found
from .references import Reference, reference_of, refuse_reference, states_at
from .scene_run import switches_of
from .simulate import simulate
from .trajectory import Trajectory

_CARRIES = 1e-6  # of the largest normal impulse of a run: contacts with less, or rounding, are open
_COMPILES = 1e-3  # of the duration: a run of chosen steps before the one that is timed
_MEASURES = ("error", "velocity_error", "gap", "penetration", "energy", "predicted", "measured", "iterations")
_NOTHING = dict.fromkeys(_MEASURES, np.nan)
_INTERRUPTED = "interrupted"
_ROUNDED = 1e-6  # of a moment of inertia: those that are the same


@dataclasses.dataclass(frozen=True)
class Adaptive:
    """A method of `compare` that chooses its steps such that their error is near `tol`, as
    `simulate` does; `tol` is a number, by which tables and files name the run. Raises
    `ValueError` for another one."""

    stepper: Stepper
    tol: float

    def __post_init__(self):
        positive("tol", self.tol)


class ComparisonInterrupted(Explained, KeyboardInterrupt):
    """Ctrl-C in `compare`, which keeps the runs that were done.

    Take them from the error's `comparison`, which also has the run that was interrupted, as far as
    it got."""

    def __init__(self, comparison: Comparison, count: int):
        done = sum(not entry.failure.startswith(_INTERRUPTED) for entry in comparison.entries)
        super().__init__(f"interrupted after {done} of {count} runs, which are in the error's `comparison`.")
        self.comparison = comparison


def compare(
    scene: Scene,
    steppers: Mapping[str, Stepper | Adaptive],
    h: Sequence[float],
    reference: Reference | Trajectory,
    *,
    duration: float,
    progress: bool | None = None,
    report: Callable[[Entry], None] | None = None,
) -> Comparison:
    """Runs every stepper at every h [s], and every `Adaptive` one once, for `duration` [s] and
    measures it against `reference`.

    `reference` is a function of times (n,) [s], which returns positions (n, nb, d), velocities (n,
    nb, 6 or 3) and, if it is to, orientations (without which no energies of bodies in space are
    compared unless their moments of inertia are equal), or a trajectory that has all of them, as
    one of chosen steps does; one of fixed steps has only those at which its steps end. Chosen steps
    also end at the `switches` of the scene's own run settings, if there are any. A method
    that refuses the scene, loses a step, or ends one at a time that `reference` has not, as at an
    impact, is named in its entry, and the others go on. `report` is called with each entry as soon
    as it is there; `progress` is as in `simulate`. Ctrl-C raises `ComparisonInterrupted`, which
    carries the comparison so far. Raises `ValueError` for bad arguments, before any run.
    """
    if not isinstance(scene, Scene):
        raise ComparisonError(f"`scene` = {scene!r} must be a Scene.")
    if not isinstance(steppers, Mapping) or not steppers:
        raise ComparisonError(f"`steppers` = {steppers!r} must map names to steppers.")
    if not isinstance(h, Iterable):
        raise ComparisonError(f"`h` = {h!r} must be a list of steps [s], of one step [{h!r}].")
    sizes = sorted({positive("h", value) for value in h}, reverse=True)
    duration = positive("duration", duration)
    flag("progress", progress, or_none=True)
    of_reference = reference_of(reference)
    runs = [run for name, method in steppers.items() for run in _runs(name, method, sizes)]
    _refuse_names(runs)
    for size in {run.h for run in runs}:  # refused here, and not after the run
        refuse_reference(of_reference, scene, size, duration)
    entries, trajectories, stopped = [], {}, False
    with Progress(len(runs), "runs", progress) as told:
        try:
            for run in runs:
                told.now(run.label)
                trajectory, seconds, failure = _result(scene, run, duration)
                entry = _entry(run, trajectory, seconds, failure, of_reference, scene, entries)
                if trajectory is not None and len(trajectory):
                    trajectories[entry.key] = trajectory
                entries.append(entry)
                if report is not None:
                    report(entry)
                if failure.startswith(_INTERRUPTED):
                    stopped = True
                    break
                told.to(len(entries))
        except KeyboardInterrupt:
            stopped = True
    comparison = Comparison(tuple(entries), trajectories, of_reference)
    if stopped:
        raise ComparisonInterrupted(comparison, len(runs))
    return comparison


@dataclasses.dataclass(frozen=True)
class _Run:
    """A method with its `h` [s], or its `tol`; the other is NaN."""

    method: str
    stepper: Stepper
    h: float
    tol: float

    @property
    def label(self) -> str:
        """The method with its step or tolerance, for tables and figures."""
        return f"{self.method}, h = {self.h:g} s" if np.isnan(self.tol) else f"{self.method}, tol = {self.tol:g}"

    def over(self, scene: Scene, duration: float, on_failure: str) -> Trajectory:
        """The run of a `scene` over `duration` [s]; `on_failure` as in `simulate`."""
        chosen = not np.isnan(self.tol)
        choice = {"tol": self.tol, "switches": switches_of(scene.run, duration)} if chosen else {"h": self.h}
        return simulate(scene, self.stepper, **choice, duration=duration, progress=False, on_failure=on_failure)


def _runs(name: str, method: Stepper | Adaptive, sizes: Sequence[float]) -> list[_Run]:
    if isinstance(method, Adaptive):
        return [_Run(name, method.stepper, np.nan, method.tol)]
    if not sizes:
        raise ComparisonError(f"`h` is empty: give at least one step [s], which {name!r} needs.")
    return [_Run(name, method, size, np.nan) for size in sizes]


def _refuse_names(runs: Sequence[_Run]) -> None:
    """Raises `ValueError` for names that cannot stand in a table and in a file's name, and for two
    runs of one file."""
    files: dict[str, str] = {}
    for run in runs:
        name = run.method
        if not isinstance(name, str) or not name.strip() or not name.isprintable() or set(name) & set("/\\"):
            raise ComparisonError(
                f"`steppers` has the name {name!r:.60}: give text in one line without / and \\, as files are named by it."
            )
        file = file_of(name, run.h, run.tol)
        if file in files:
            raise ComparisonError(
                f"`steppers` has the names {files[file]!r:.60} and {name!r:.60}, whose runs would both be {file!r:.60}: "
                "give another one."
            )
        files[file] = name


def _result(scene: Scene, run: _Run, duration: float):
    """A trajectory (as far as it got), seconds a step, and why it stopped."""
    try:
        run.over(scene, run.h if np.isnan(run.tol) else _COMPILES * duration, "return")
        start = time.perf_counter()
        trajectory = run.over(scene, duration, "raise")
    except ValueError as refusal:
        return None, np.nan, f"refused: {refusal}"
    except StepError as error:
        return error.trajectory, np.nan, f"{error.result.name.lower().replace('_', ' ')} at t = {error.time:g} s"
    except Interrupted as stop:
        return stop.trajectory, np.nan, f"{_INTERRUPTED} at t = {float(stop.state.time):g} s"
    return trajectory, (time.perf_counter() - start) / len(trajectory), ""


def _entry(run: _Run, trajectory, seconds: float, failure: str, reference: Reference, scene, entries) -> Entry:
    """Of a `run`, after the `entries` of others."""
    if not failure:
        found = finds_pairs(scene, run.stepper) and np.isnan(run.tol)
        mu = law_of_found(scene, trajectory)[0] if found else np.asarray(linear_rows.of_contacts(scene.build()[0], "mu"))
        try:
            measures = _measures(trajectory, run.stepper, reference, mu)
        except ComparisonError as error:  # the run before it, and those after it, have their numbers
            seconds, failure = np.nan, f"not compared: {error}"
    if failure:
        return Entry(run.method, run.h, order=np.nan, seconds=seconds, failure=failure, tol=run.tol, **_NOTHING)
    h = float(np.mean(np.diff(trajectory.time))) if np.isnan(run.h) else run.h
    before = entries[-1] if entries and entries[-1].method == run.method else None
    order = np.nan if before is None else _order((before.h, before.error), (h, measures["error"]))
    return Entry(run.method, h, order=order, seconds=seconds, failure="", tol=run.tol, **measures)


def _measures(trajectory: Trajectory, stepper: Stepper, reference: Reference, mu) -> dict[str, float]:
    position, velocity, *orientation = states_at(reference, trajectory.time, trajectory)
    contacts, d = trajectory.contacts, trajectory.position.shape[-1]
    energy = _kinetic(trajectory, velocity, *orientation)
    most = np.max(energy)
    least = np.maximum(_CARRIES * np.max(contacts.normal_impulse, initial=0.0), carrying.least(trajectory))
    carries = contacts.normal_impulse > least
    predicted = np.asarray(stepper.predicted_gap(contacts, mu, np.reshape(trajectory.h, (-1, 1))))
    return {
        "error": float(np.max(np.linalg.norm(trajectory.position - position, axis=-1))),
        "velocity_error": float(np.max(np.linalg.norm((trajectory.velocity - velocity)[..., :d], axis=-1))),
        "gap": float(np.max(np.abs(contacts.gap), where=carries, initial=0.0)),
        "penetration": float(np.max(-contacts.gap, where=~np.isnan(contacts.gap), initial=0.0)),
        "energy": float(np.max(np.abs(trajectory.kinetic_energy() - energy)) / most) if most > 0 else np.nan,
        "predicted": float(np.max(predicted, where=carries, initial=0.0)),
        "measured": float(np.max(contacts.gap, where=carries, initial=0.0)),
        "iterations": float(np.mean(trajectory.stats.iterations)),
    }


def _kinetic(trajectory: Trajectory, velocity, orientation=None) -> np.ndarray:
    """The kinetic energy (n + 1,) [J] of a reference, NaN where it depends on an orientation that
    it does not have: of bodies that spin and are not round."""
    inertia, d = trajectory.inertia, trajectory.position.shape[-1]
    largest = np.max(inertia, axis=(1, 2), keepdims=True)
    round_ = np.abs(inertia - inertia[:, :1, :1] * np.eye(inertia.shape[-1])) <= _ROUNDED * largest
    if orientation is None and not np.all(round_) and np.any(velocity[..., d:]):
        return np.full(len(trajectory.time), np.nan)
    turned = trajectory.orientation if orientation is None else orientation
    return dataclasses.replace(trajectory, velocity=velocity, orientation=turned).kinetic_energy()


def _order(before, now) -> float:
    """Slope of the error in log-log between two (h, error)."""
    if not (before[1] > 0 and now[1] > 0):
        return np.nan
    return float(np.log(before[1] / now[1]) / np.log(before[0] / now[0]))

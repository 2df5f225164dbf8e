"""Several time-steppers on one scene, at several steps: errors, orders, gaps, energies, artifacts and cost in one table."""

from __future__ import annotations

import csv
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from shapes.arguments import positive

from . import nearby
from .files import replaced
from .results import StepError
from .scene import Scene
from .simulate import simulate
from .steppers.base import Stepper
from .trajectory import Trajectory

_CARRIES = 1e-6  # of the largest normal impulse of a run: contacts with less are open

# Positions (n, nb, d) and velocities (n, nb, 6 or 3) at times (n,).
Reference = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Entry:
    """One method at one h [s], over all steps; NaN where it left nothing.

    error [m] and velocity_error [m/s]: largest distance of a body's centre, and of its velocity, from the reference; order:
    of `error` against the next larger h; gap [m]: largest distance from 0 among contacts that carry; penetration [m];
    energy: largest error of the kinetic energy over the largest kinetic energy of the reference; predicted [m], measured
    [m]: the gap at which the method's own equations hold carrying contacts, and the one they have; iterations: mean a
    step; seconds: a step, of a compiled program; failure: why and when the method stopped, or "".
    """

    method: str
    h: float
    error: float
    order: float
    velocity_error: float
    gap: float
    penetration: float
    energy: float
    predicted: float
    measured: float
    iterations: float
    seconds: float
    failure: str


@dataclasses.dataclass(frozen=True)
class Comparison:
    """`entries`, method after method, the largest h first; `trajectories` by (method, h), as far as each got; the
    `reference`."""

    entries: tuple[Entry, ...]
    trajectories: Mapping[tuple[str, float], Trajectory]
    reference: Reference

    def table(self) -> str:
        """A Markdown table for people."""
        header = ["method", "h [s]", "error [m]", "order", "velocity error [m/s]", "gap [m]", "penetration [m]"]
        header += ["energy error", "artifact: predicted [m]", "measured [m]", "iterations", "us a step", "failure"]
        lines = [header, ["---"] * len(header)]
        for e in self.entries:
            numbers = (e.error, e.velocity_error, e.gap, e.penetration, e.energy, e.predicted, e.measured)
            numbers = [f"{value:.2e}" for value in numbers]
            order = "" if np.isnan(e.order) else f"{e.order:.2f}"
            cost = [f"{e.iterations:.1f}", f"{1e6 * e.seconds:.0f}"]
            lines.append([e.method, f"{e.h:g}", numbers[0], order, *numbers[1:], *cost, e.failure])
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)

    def save(self, folder: str | Path) -> None:
        """Writes comparison.csv with all digits, comparison.md, and every trajectory as METHOD-h=H.npz."""
        folder = Path(folder)
        with replaced(folder / "comparison.csv") as path, path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(field.name for field in dataclasses.fields(Entry))
            writer.writerows(dataclasses.astuple(entry) for entry in self.entries)
        with replaced(folder / "comparison.md") as path:
            path.write_text(self.table() + "\n", encoding="utf-8")
        for (method, h), trajectory in self.trajectories.items():
            trajectory.save(folder / f"{method}-h={h:g}.npz")


def compare(
    scene: Scene,
    steppers: Mapping[str, Stepper],
    h: Sequence[float],
    reference: Reference | Trajectory,
    *,
    duration: float,
    progress: bool | None = None,
) -> Comparison:
    """Runs every stepper at every h [s] for `duration` [s] and measures it against `reference`.

    `reference` is a function of times, or a trajectory that has all of them. A method that refuses the scene or loses a
    step is named in its entry, and the others go on. `progress` shows a bar; by default on terminals only. Raises
    `ValueError` for bad arguments.
    """
    if not isinstance(scene, Scene):
        raise ValueError(f"`scene` = {scene!r} must be a Scene.")
    if not isinstance(steppers, Mapping) or not steppers:
        raise ValueError(f"`steppers` = {steppers!r} must map names to steppers.")
    sizes = sorted({positive("h", value) for value in h}, reverse=True)
    if not sizes:
        raise ValueError("`h` is empty: give at least one step [s].")
    positive("duration", duration)
    of_reference = _sampled(reference) if isinstance(reference, Trajectory) else reference
    if not callable(of_reference):
        raise ValueError(f"`reference` = {reference!r} must be a Trajectory or a function of times.")
    mu = np.asarray(nearby.of_contacts(scene.build()[0], "mu"))
    entries, trajectories = [], {}
    with tqdm(total=len(steppers) * len(sizes), unit="run", disable=None if progress is None else not progress) as bar:
        for name, stepper in steppers.items():
            before = None
            for size in sizes:
                bar.set_description(f"{name}, h = {size:g} s")
                trajectory, seconds, failure = _run(scene, stepper, size, duration)
                if trajectory is not None and len(trajectory):
                    trajectories[name, size] = trajectory
                    measures = _measures(trajectory, stepper, of_reference, mu)
                else:
                    measures = dict.fromkeys(_MEASURES, np.nan)
                order = _order(before, (size, measures["error"]))
                before = None if failure else (size, measures["error"])
                entries.append(Entry(name, size, order=order, seconds=seconds, failure=failure, **measures))
                bar.update()
    return Comparison(tuple(entries), trajectories, of_reference)


_MEASURES = ("error", "velocity_error", "gap", "penetration", "energy", "predicted", "measured", "iterations")


def _run(scene: Scene, stepper: Stepper, h: float, duration: float):
    """A trajectory (as far as it got), seconds a step, and why it stopped."""
    try:
        simulate(scene, stepper, h=h, duration=h, progress=False, on_failure="return")  # compiles
        start = time.perf_counter()
        trajectory = simulate(scene, stepper, h=h, duration=duration, progress=False)
    except ValueError as refusal:
        return None, np.nan, f"refused: {refusal}"
    except StepError as error:
        return error.trajectory, np.nan, f"{error.result.name.lower().replace('_', ' ')} at t = {error.time:g} s"
    return trajectory, (time.perf_counter() - start) / len(trajectory), ""


def _measures(trajectory: Trajectory, stepper: Stepper, reference: Reference, mu) -> dict[str, float]:
    position, velocity = reference(trajectory.time)
    exact = dataclasses.replace(trajectory, velocity=np.asarray(velocity)).kinetic_energy()
    contacts, d = trajectory.contacts, trajectory.position.shape[-1]
    carries = contacts.normal_impulse > _CARRIES * np.max(contacts.normal_impulse, initial=0.0)
    predicted = np.asarray(stepper.predicted_gap(contacts, mu, np.reshape(trajectory.h, (-1, 1))))
    return {
        "error": float(np.max(np.linalg.norm(trajectory.position - position, axis=-1))),
        "velocity_error": float(np.max(np.linalg.norm((trajectory.velocity - velocity)[..., :d], axis=-1))),
        "gap": float(np.max(np.abs(contacts.gap), where=carries, initial=0.0)),
        "penetration": float(np.max(-contacts.gap, initial=0.0)),
        "energy": float(np.max(np.abs(trajectory.kinetic_energy() - exact)) / np.max(exact)),
        "predicted": float(np.max(predicted, where=carries, initial=0.0)),
        "measured": float(np.max(contacts.gap, where=carries, initial=0.0)),
        "iterations": float(np.mean(trajectory.stats.iterations)),
    }


def _order(before, now) -> float:
    """Slope of the error in log-log between two (h, error)."""
    if before is None or not (before[1] > 0 and now[1] > 0):
        return np.nan
    return float(np.log(before[1] / now[1]) / np.log(before[0] / now[0]))


def _sampled(trajectory: Trajectory) -> Reference:
    """The reference that a trajectory is, at its own times."""

    def at(times):
        index = np.clip(np.rint((times - trajectory.time[0]) / trajectory.h).astype(int), 0, len(trajectory))
        missing = np.abs(trajectory.time[index] - times) > 1e-6 * trajectory.h
        if np.any(missing):
            raise ValueError(
                f"`reference` has no state at t = {times[missing][0]:.9g} s: its step {trajectory.h:g} s must divide every "
                "`h`, and it must last as long."
            )
        return trajectory.position[index], trajectory.velocity[index]

    return at

"""Many steps: a compiled chunk of them at a time, each certified, with progress on a terminal."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Sequence

import jax
import numpy as np

from shapes.arguments import flag, number

from ..constraints.detection import closest_points
from ..model.bodies import State
from ..model.results import Interrupted, StepError
from ..radau import driver
from ..radau.error_control import Tolerance, resolved
from ..radau.refusals import refuse_overlap, refuse_short
from ..runtime.errors import AccuracyWarning, RunError
from ..runtime.progress import Progress
from ..runtime.threads import one_blas_thread
from ..scene.scene import Scene
from ..stepping.run_certificate import first_gaps
from ..stepping.stepper import Stepper
from ..stepping.sweep import Sweep
from . import adaptive_run, fixed_run
from .arguments import of_kind
from .checkpoint import Checkpoint, CheckpointError, asked_of, read
from .fixed_run import checked
from .joint_start import check_joints
from .jumps import refuse_jumps
from .memory import refuse_no_count, refuse_too_many
from .origin import origin_of, with_origin
from .overlaps import Undeclared, users_line, within
from .richardson import estimate
from .settings import refuse_settings
from .trajectory import Trajectory


@one_blas_thread()
def simulate(
    scene: Scene,
    stepper: Stepper,
    *,
    h: float | None = None,
    tol: float | Tolerance | None = None,
    duration: float,
    switches: Sequence[float] = (),
    certificate_tolerance: float = 1e-10,
    on_failure: str = "raise",
    start: State | Trajectory | None = None,
    progress: bool | None = None,
    estimate_error: bool = False,
    most_pairs: int | None = None,
    checkpoint: str | os.PathLike | None = None,
    every: float = 60.0,
    resume: str | os.PathLike | None = None,
) -> Trajectory:
    """Steps `scene` from its initial state, or from `start`, a `State` or the end of a trajectory
    of it (in piles with its last forces), for `duration` [s], in steps of h [s], the last one
    shorter where `duration` is no multiple of h; or, where the stepper can, in steps that keep the
    error near `tol` and end on every event and at `duration` (see `error_control.Tolerance` and
    `adaptive`). `switches` [s]: times at which loads, or the rates of motions, jump; adaptive steps
    end there. They lie within the run, unless it has a `start`: then they may be those of the whole
    motion.

    Every step must converge and pass its certificate within `certificate_tolerance` (dimensionless,
    see `certificate`; 1e-8 to 1e-10); one that does not is tried from other starts
    (`fallback.climb`). If that fails too, `StepError` is raised, which carries the trajectory
    before it and the state to `start` from; with `on_failure="return"` that shorter trajectory is
    returned instead. Ctrl-C raises `Interrupted`, whatever `on_failure` is, which carries the same.
    `progress` shows a bar, or nothing; by default a bar on terminals, and elsewhere a line on the
    error stream every half minute. `estimate_error`, of fixed steps: runs with h / 2 too, and keeps
    in `Trajectory.error` how far the run with h is from the motion (`ErrorEstimate`), which no
    certificate says. `most_pairs`: no step is taken in which more pairs may touch, or are declared
    where none are found. `checkpoint`: a file that is written `every` so many seconds, or seldom
    enough to take a twentieth of the time; with `resume`, such a file, the same call goes on from
    there, to the bits of a run that was never killed. Raises `ValueError` for bad arguments, and
    `CheckpointError` for files that are damaged, of another run, or cannot be written."""
    of_kind(scene, stepper, asked=("scene", "stepper"))
    told = {"h": h, "tol": tol, "duration": duration, "certificate_tolerance": certificate_tolerance}
    refuse_settings(stepper, **told, switches=switches, goes_on=start is not None)
    told["duration"] = duration = float(duration)
    _refuse_choices(on_failure, every)
    refuse_no_count(most_pairs)
    flag("progress", progress, or_none=True)
    flag("estimate_error", estimate_error)
    if estimate_error:
        _refuse_estimate(scene, h)
    origin = origin_of(scene, stepper, **told, switches=np.asarray(switches).tolist())
    more = certificate_tolerance, on_failure, start, progress, most_pairs, (checkpoint, every, resume)
    if tol is not None:
        return with_origin(origin, _adaptive, scene, stepper, tol, duration, switches, *more)
    run = with_origin(origin, fixed_run.run, scene, stepper, h, duration, *more)
    return _with_error(run, scene, stepper, h, duration, *more[:-1]) if estimate_error else run


def _refuse_choices(on_failure, every) -> None:
    """Raises `ValueError` for ways of failing and of writing that there are not."""
    if on_failure not in ("raise", "return"):
        raise RunError(f"`on_failure` = {on_failure!r} must be 'raise' or 'return'.")
    if number("every", every) < 0:
        raise RunError(f"`every` = {every} [s] is negative: use 0 to write as often as possible.")


def _refuse_estimate(scene: Scene, h: float | None) -> None:
    """Raises `ValueError` for runs of which no error is estimated."""
    if h is None:
        raise RunError("`estimate_error` is for steps of a fixed `h`: chosen steps keep their error near `tol`.")
    if any(contact.restitution is not None for contact in scene.part_contacts()):
        raise RunError("`estimate_error` compares states at equal times, and rebounds cut steps at others: leave it out.")


def _with_error(run: Trajectory, scene, stepper, h, duration, *more) -> Trajectory:
    """`run` with the estimate of its error, from a run with half of h [s]. Ctrl-C, and a step of
    the second run that is not solved, leave the `run` itself."""
    try:
        half = fixed_run.run(scene, stepper, min(h, duration) / 2, duration, *more, (None, 0.0, None))
        return dataclasses.replace(run, error=estimate(run, half))
    except StepError as error:
        raise StepError(
            f"with half the step, for `estimate_error`, the step to t = {error.time:.9g} s failed: {error.result.message} "
            f"The {len(run)} steps of `h` = {h} s are solved, and all in the error's `trajectory`, without an estimate.",
            result=error.result,
            time=error.time,
            trajectory=run,
            state=error.state,
            certificate=error.certificate,
        ) from error
    except Interrupted as stop:
        raise Interrupted(trajectory=run, state=run.end, end=float(run.time[-1])) from stop


def _adaptive(
    scene, stepper, tol, duration, switches, tolerance, on_failure, start, progress, most_pairs, files
) -> Trajectory:
    """`simulate` with chosen steps."""
    system, state = jax.device_put(scene.build())
    state = state if start is None else checked(start, system, state)
    check_joints(stepper, system, state, fixed=False)
    refuse_too_many(system, most_pairs)
    begun, allowed = float(state.time), resolved(tol, system, duration)
    ends = adaptive_run.stops(system, state, begun + duration, switches)
    refuse_jumps(system, state, begun + duration, ends[:-1])
    refuse_short(system, duration)
    numbers = {"tol": allowed, "duration": duration, "switches": ends[:-1], "certificate_tolerance": tolerance}
    path, every, resume = files
    asked = asked_of(system, state, stepper, numbers) if path is not None or resume is not None else {}
    file, kept, unwritten = Checkpoint(path, every, asked), None if resume is None else read(resume, asked), []

    def offer(what):
        try:
            file.offer(what)
        except CheckpointError as error:
            unwritten.append(error)
            raise KeyboardInterrupt from error

    if within(scene, system, state):
        refuse_overlap(system, first_gaps(system, closest_points(system, state)))
    with Progress(duration, "s of motion", progress) as told:
        sweep = Sweep(scene, stepper, system, float(allowed.position))
        run = driver.run(stepper, system, state, allowed, ends, tolerance, told, sweep, kept, offer)
    if run.told:
        warnings.warn(run.told, AccuracyWarning, stacklevel=users_line())
    Undeclared(scene, system).look(run.steps.state)
    trajectory = adaptive_run.trajectory(stepper, system, run, tolerance, "return" if run.interrupted else on_failure)
    if unwritten:
        raise CheckpointError(str(unwritten[0]), trajectory=trajectory, state=trajectory.end) from unwritten[0]
    if run.interrupted:
        raise Interrupted(trajectory=trajectory, state=trajectory.end, end=ends[-1])
    return trajectory

"""Many steps: a compiled chunk of them at a time, each certified, with progress on a terminal."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shapes.arguments import number, positive

from ..constraints.violations import described
from ..model.bodies import State
from ..model.results import Interrupted, Result, StepError
from ..model.system import System
from ..radau import driver
from ..radau.error_control import Tolerance, resolved
from ..radau.euler_steps import rounding
from ..radau.radau_contact import RadauContact
from ..radau.refusals import refuse_short
from ..radau.stage_certificate import IMPACT_WITHIN
from ..runtime.compilation import prepare
from ..runtime.errors import RunError, StartError, StepperError
from ..runtime.progress import Progress
from ..runtime.threads import one_blas_thread
from ..scene.scene import Scene
from ..stepping.fallback import Climb, Several, pieces
from ..stepping.loop import Record, programs
from ..stepping.run_certificate import bound, first_gaps
from ..stepping.stepper import Stepper, closest_points, init
from ..stepping.sweep import Sweep
from . import adaptive_run, pile_run
from .checkpoint import Checkpoint, CheckpointError, asked_of, read
from .joint_start import check_joints
from .jumps import refuse_jumps
from .memory import refuse_too_large
from .origin import origin_of, with_origin
from .overlaps import Undeclared, check_start
from .richardson import estimate
from .trajectory import Trajectory, assembled

_ROUNDING = 1e-9  # of a step: 3 steps of 0.1 make 0.3, whatever rounding leaves
_LOST = 1e-8  # what rounding leaves, see `euler_steps.rounding`: beyond it no certificate of 1e-8 to 1e-10 has digits
_SPACINGS = 1000  # of floating-point times: a shorter step is a per mille off


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
    checkpoint: str | os.PathLike | None = None,
    every: float = 60.0,
    resume: str | os.PathLike | None = None,
) -> Trajectory:
    """Steps `scene` from its initial state, or from `start`, a `State` or the end of a trajectory of it, for `duration` [s],
    in steps of h [s], of which the last one is shorter where `duration` is no multiple of h; or, where the stepper can, in
    steps that keep the error near `tol` and end on every event and at `duration` (see `error_control.Tolerance` and
    `adaptive`). `switches` [s]: times at which loads jump; adaptive steps end there.

    Every step must converge and pass its certificate within `certificate_tolerance` (dimensionless, see `certificate`;
    1e-8 to 1e-10); one that does not is solved again by the ladder (`fallback.climb`). If that fails too, `StepError` is
    raised, which carries the trajectory before it and the state to `start` from; with `on_failure="return"` that shorter
    trajectory is returned instead. Ctrl-C raises `Interrupted`, whatever `on_failure` is, which carries the same.
    `progress` shows a bar, or nothing; by default a bar on terminals, and elsewhere a line on the error stream every half
    minute. `estimate_error`, of fixed steps: runs with h / 2 too, and keeps in `Trajectory.error` how far the run with h is
    from the motion (`ErrorEstimate`), which no certificate says. `checkpoint`: a file that is written `every` so many
    seconds, or seldom enough to take a twentieth of the time; with `resume`, such a file, the same call goes on from there,
    to the bits of a run that was never killed. Raises `ValueError` for bad arguments, and `CheckpointError` for files that
    are damaged, of another run, or cannot be written.
    """
    if (h is None) == (tol is None):
        raise RunError(f"`h` = {h} and `tol` = {tol}: give one of them, a fixed step [s] or a tolerance for chosen steps.")
    duration = positive("duration", duration)
    positive("certificate_tolerance", certificate_tolerance)
    if on_failure not in ("raise", "return"):
        raise RunError(f"`on_failure` = {on_failure!r} must be 'raise' or 'return'.")
    if not isinstance(scene, Scene):
        raise RunError(f"`scene` = {scene!r} must be a Scene.")
    if isinstance(stepper, type) or not isinstance(stepper, Stepper):
        raise RunError(f"`stepper` = {stepper!r} must be a stepper, for instance GeometricallyImplicit().")
    if number("every", every) < 0:
        raise RunError(f"`every` = {every} [s] is negative: use 0 to write as often as possible.")
    if estimate_error and h is None:
        raise RunError("`estimate_error` is for steps of a fixed `h`: chosen steps keep their error near `tol`.")
    files = checkpoint, every, resume
    told = {"h": h, "tol": tol, "duration": duration, "certificate_tolerance": certificate_tolerance}
    origin = origin_of(scene, stepper, **told, switches=np.asarray(switches).tolist())
    more = certificate_tolerance, on_failure, start, progress, files
    if tol is not None:
        return with_origin(origin, _adaptive, scene, stepper, tol, duration, switches, *more)
    if len(switches):
        raise RunError(
            f"`switches` = {switches!r} are for chosen steps: with a fixed `h`, loads are taken at each step's start."
        )
    run = with_origin(origin, _fixed, scene, stepper, h, duration, *more)
    return _with_error(run, scene, stepper, h, duration, *more[:-1]) if estimate_error else run


def _fixed(scene, stepper, h, duration, tolerance, on_failure, start, progress, files) -> Trajectory:
    """`simulate` with steps of h [s]."""
    found = pile_run.finds_pairs(scene, stepper)
    system, state = jax.device_put(scene.build(contacts=not found))
    state = state if start is None else _checked(start, system, state)
    check_joints(stepper, system, state, fixed=True, h=0.0 if start is None else positive("h", h))
    refuse_jumps(system, state, float(state.time) + duration)
    asked = asked_of(system, state, stepper, {"h": h, "duration": duration, "certificate_tolerance": tolerance})
    h, whole, rest = steps = _steps(positive("h", h), duration, float(state.time))
    if found:
        pile_run.refuse(scene, files)
        return pile_run.run(scene, stepper, system, state, steps, tolerance, on_failure, progress, duration)
    refuse_too_large(system, system.contact_count, whole + 1)
    path, every, resume = files
    kept, file = None if resume is None else read(resume, asked), Checkpoint(path, every, asked)
    records, failed, stopped, unwritten = [] if kept is None else [kept["record"]], None, False, None
    with Progress(whole + (rest > 0), "steps", progress) as told:
        try:
            told.to(sum(len(record.result) for record in records))
            for size, piece, left in _pieces(scene, stepper, system, state, (h, whole, rest), tolerance, kept):
                if not piece.solved:
                    failed = piece.climb, piece.state, size
                records.append(piece.record)
                told.to(told.done + len(piece.record.result))
                file.offer(functools.partial(_kept, records, left))
        except KeyboardInterrupt:
            stopped = True
        except CheckpointError as error:
            unwritten = error
    if not records:
        raise Interrupted(trajectory=None, state=state, end=float(state.time) + duration)
    sizes = h if sum(len(record.result) for record in records) <= whole else np.append(np.full(whole, h), rest)
    trajectory = _join(system, state, sizes, records)
    if stopped:
        raise Interrupted(trajectory=trajectory, state=trajectory.end, end=float(state.time) + duration)
    if unwritten is not None:
        raise CheckpointError(str(unwritten), trajectory=trajectory, state=trajectory.end) from unwritten
    if failed is not None and on_failure == "raise":
        raise _error(*failed, system, tolerance, trajectory)
    return trajectory


def _with_error(run: Trajectory, scene, stepper, h, duration, *more) -> Trajectory:
    """`run` with the estimate of its error, from a run with half of h [s]. Ctrl-C leaves the `run` itself."""
    try:
        half = _fixed(scene, stepper, min(h, duration) / 2, duration, *more, (None, 0.0, None))
        return dataclasses.replace(run, error=estimate(run, half))
    except StepError as error:
        raise StepError(f"with half the step, for `estimate_error`, {error}", **vars(error)) from error
    except Interrupted as stop:
        raise Interrupted(trajectory=run, state=run.end, end=float(run.time[-1])) from stop


def _adaptive(scene, stepper, tol, duration, switches, tolerance, on_failure, start, progress, files) -> Trajectory:
    """`simulate` with chosen steps."""
    if not isinstance(stepper, RadauContact) or stepper.stages == 1:
        raise StepperError(
            f"`stepper` = {stepper!r} has no error estimate to choose steps by: use RadauContact() of 2 or 3 "
            "stages, or give `h`."
        )
    system, state = jax.device_put(scene.build())
    state = state if start is None else _checked(start, system, state)
    check_joints(stepper, system, state, fixed=False)
    refuse_jumps(system, state, float(state.time) + duration)
    refuse_short(system, duration)
    begun, allowed = float(state.time), resolved(tol, system, duration)
    ends = adaptive_run.stops(system, state, begun + duration, switches)
    numbers = {"tol": allowed, "duration": duration, "switches": ends[:-1], "certificate_tolerance": tolerance}
    asked, (path, every, resume) = asked_of(system, state, stepper, numbers), files
    kept, file, unwritten = None if resume is None else read(resume, asked), Checkpoint(path, every, asked), []

    def offer(what):
        try:
            file.offer(what)
        except CheckpointError as error:
            unwritten.append(error)
            raise KeyboardInterrupt from error

    with Progress(duration, "s of motion", progress) as told:
        sweep = Sweep(scene, stepper, system)
        run = driver.run(stepper, system, state, allowed, ends, tolerance, told, sweep, kept, offer)
    Undeclared(scene, system).look(run.steps.state)
    trajectory = adaptive_run.trajectory(stepper, system, run, tolerance, "return" if run.interrupted else on_failure)
    if unwritten:
        raise CheckpointError(str(unwritten[0]), trajectory=trajectory, state=trajectory.end) from unwritten[0]
    if run.interrupted:
        raise Interrupted(trajectory=trajectory, state=trajectory.end, end=ends[-1])
    return trajectory


def _kept(records: list[Record], left: _Left) -> dict:
    """What a checkpoint holds of a run that left `records`."""
    records[:] = [jax.tree.map(lambda *parts: np.concatenate(parts), *records)]
    return {"record": records[0], "left": left}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Left:
    """What the next step depends on: state, memory, the gaps (nc,) [m] and the last of the sweep."""

    state: State
    memory: Any
    gaps: np.ndarray
    swept: tuple | None


def _pieces(
    scene: Scene, stepper, system: System, state: State, steps, tolerance: float, kept: dict | None
) -> Iterator[tuple[float, Several, _Left]]:
    """With their h [s], pieces of the `steps` (h, how many, the length of the last or 0), up to the first that fails, and
    what they leave; from what was `kept` of them, if it is given."""
    h, whole, rest = steps
    prepare(programs, stepper, system, state, h)
    closest = closest_points(system, state)
    check_start(scene, system, closest, h)
    memory, sweep, undeclared = (
        init(stepper, system, state, closest),
        Sweep(scene, stepper, system),
        Undeclared(scene, system),
    )
    undeclared.look(jax.tree.map(lambda a: np.asarray(a)[None], state))
    gaps, done, last = first_gaps(system, closest), 0, None
    if kept is not None:
        left, done = kept["left"], len(kept["record"].result)
        state, memory, gaps, sweep.last = *jax.device_put((left.state, left.memory)), left.gaps, left.swept
        undeclared.look(kept["record"].state)
        last = _last(kept["record"])
    for size, count in ((h, max(whole - done, 0)), (rest, int(rest > 0 and done <= whole))):
        for found in pieces(stepper, system, state, memory, size, count, tolerance, sweep):
            piece = bound(stepper, system, state, gaps, found, tolerance, last)
            undeclared.look(piece.record.state)
            if len(piece.record.result):
                gaps, last = piece.record.contacts.gap[-1], _last(piece.record)
            state, memory = piece.state, piece.memory
            yield size, piece, _Left(state, memory, gaps, sweep.last)
            if not piece.solved:
                return


def _last(record: Record):
    """The contacts of the last step, None where there is none."""
    return jax.tree.map(lambda a: a[-1], record.contacts) if len(record.result) else None


def _checked(start: State | Trajectory, system: System, built: State) -> State:
    """`start`, or its end, as arrays, if it has the shapes of the scene's own state and finite values."""
    if isinstance(start, Trajectory):
        own = system.names[: system.body_count]
        if start.names != own:
            raise StartError(f"`start` is a trajectory of {', '.join(start.names)}, the scene has {', '.join(own)}.")
        start = start.end
    if not isinstance(start, State):
        raise StartError(f"`start` = {start!r} must be a State, for instance that of a StepError, or a Trajectory.")
    for field in dataclasses.fields(State):
        given, needed = np.asarray(getattr(start, field.name)), np.shape(getattr(built, field.name))
        if given.shape != needed or not np.all(np.isfinite(given)):
            raise StartError(f"`start.{field.name}` has shape {given.shape}: it needs finite numbers of shape {needed}.")
    return jax.tree.map(lambda a: jnp.asarray(a, float), start)


def _steps(h: float, duration: float, start: float) -> tuple[float, int, float]:
    """Steps of h [s], how many of them, and the shorter one [s] after them, 0 if there is none, that
    fill `duration` [s] from `start` [s]. Raises `ValueError` for an h that is lost in rounding."""
    h, end = min(h, duration), abs(start) + duration
    least = _SPACINGS * float(np.spacing(end))
    if h < least:
        raise RunError(
            f"`h` = {h:.3g} s is lost in the rounding of times near {end:.9g} s: give `h` and `duration` of at least "
            f"{least:.1e} s."
        )
    slack = _ROUNDING + duration / h * np.finfo(float).eps
    whole = math.floor(duration / h + slack)
    rest = duration - whole * h
    return h, whole, rest if rest > slack * h else 0.0


def _join(system: System, start: State, h: float | np.ndarray, records: list[Record]) -> Trajectory:
    record = jax.tree.map(lambda *parts: np.concatenate(parts), *records)
    states = jax.tree.map(lambda first, rest: np.concatenate([np.asarray(first)[None], rest]), start, record.state)
    return assembled(system, states, record.contacts, record.stats, record.certificates, h)


def _error(failed: Climb, state: State, h: float, system: System, tolerance: float, trajectory: Trajectory) -> StepError:
    """The exception for a step that no rung solved: when, which contact, by how much, what was tried, what to try."""
    time, result = float(state.time) + h, Result(int(failed.record.result))
    if result == Result.SOLVED:
        result = Result.NOT_CERTIFIED if failed.passed is None else Result.PASSED
    if result != Result.PASSED and rounding(system, state, h) > _LOST:
        result = Result.ROUNDED
    violations = {name: v for name, v in failed.record.certificates.items() if v.size and not np.max(v) <= tolerance}
    best: dict[str, float] = {}
    for attempt in failed.attempts:
        best[attempt.name] = min(best.get(attempt.name, np.inf), attempt.residual)
    tried = ", ".join(f"{name} {residual:.1e}" for name, residual in best.items())
    what = "" if failed.passed is None else f" They are {' and '.join(system.contact_names[failed.passed])}."
    if IMPACT_WITHIN in violations:
        what = " A step of several stages holds no impact: give `tol` in place of `h`, or take GeometricallyImplicit."
    message = (
        f"the step to t = {time:.9g} s failed: {result.message}{what} Least solver residual of the starts tried after the "
        f"warm one: {tried}; violated after the last (allowed {tolerance:.0e}): "
        f"{described(system, violations) or 'nothing'}. "
        f"The {len(trajectory)} steps before it are in the error's `trajectory`, the state before it in its `state`."
    )
    state = jax.tree.map(np.asarray, state)
    return StepError(message, result=result, time=time, trajectory=trajectory, state=state, certificate=violations)

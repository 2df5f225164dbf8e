"""`simulate` with steps of given length: pieces of them, each certified, and the trajectory that
they make."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shapes.arguments import positive

from ..constraints.detection import closest_points
from ..constraints.turn_violations import remedy
from ..constraints.violations import described
from ..model.bodies import State
from ..model.checks import UNIT, unit
from ..model.records import Contacts
from ..model.results import Interrupted, Result, StepError
from ..model.system import System
from ..radau.euler_steps import or_rounded, without_rebounds
from ..radau.events import Event
from ..radau.landings import Landings, Parts
from ..radau.stage_certificate import IMPACT_WITHIN
from ..runtime.compilation import prepare
from ..runtime.errors import RunError, StartError
from ..runtime.progress import Progress
from ..scene.scene import Scene
from ..stepping.fallback import Climb, pieces
from ..stepping.loop import Record, joined, programs
from ..stepping.run_certificate import bound, first_gaps
from ..stepping.stepper import init
from ..stepping.sweep import Sweep
from . import found_pairs, pile_run
from .checkpoint import Checkpoint, CheckpointError, asked_of, read
from .joint_start import check_joints
from .jumps import refuse_jumps, without_value
from .memory import refuse_too_large, refuse_too_many
from .overlaps import Undeclared, check_start, within
from .trajectory import Trajectory, assembled

_ROUNDING = 1e-9  # of a step: 3 steps of 0.1 make 0.3, whatever rounding leaves
_SPACINGS = 1000  # of floating-point times: a shorter step is a per mille off


def run(scene, stepper, h, duration, tolerance, on_failure, start, progress, most_pairs, files) -> Trajectory:
    """`simulate` with steps of h [s]."""
    path, every, resume = files
    found = found_pairs.finds_pairs(scene, stepper)
    system, state = jax.device_put(scene.build(contacts=not found))
    state = state if start is None else checked(start, system, state)
    check_joints(stepper, system, state, fixed=True, h=0.0 if start is None else positive("h", h))
    refuse_jumps(system, state, float(state.time) + duration)
    asked = {}  # of users' functions much may be looked at
    if path is not None or resume is not None:
        asked = asked_of(system, state, stepper, {"h": h, "duration": duration, "certificate_tolerance": tolerance})
    h, whole, rest = steps = _steps(positive("h", h), duration, float(state.time))
    if found:
        found_pairs.refuse(scene, stepper)
        more = tolerance, most_pairs, on_failure, progress, duration, asked, files
        return pile_run.run(scene, stepper, system, state, start, steps, *more)
    refuse_too_many(system, most_pairs)
    refuse_too_large(system, system.contact_count, whole + 1)
    file, kept = Checkpoint(path, every, asked), None if resume is None else read(resume, asked)
    records, sizes, failed, stopped, unwritten = [], [], None, False, None
    if kept is not None:
        records, sizes = [kept["record"]], [kept["left"].sizes]
    events = () if kept is None else kept["left"].events
    with Progress(whole + (rest > 0), "steps", progress) as told:
        try:
            told.to(0 if kept is None else kept["left"].done)
            given = scene, stepper, system, state, (h, whole, rest), tolerance, kept
            for parts, left in certified(*given, ended=_ended(start, system)):
                piece, events = parts.several, left.events
                if not piece.solved:
                    failed = piece.climb, piece.state, parts.sizes[len(piece.record.result)]
                records.append(piece.record)
                sizes.append(parts.sizes[: len(piece.record.result)])
                told.to(left.done)
                if piece.solved:
                    file.offer(functools.partial(_kept, records, sizes, left))
        except KeyboardInterrupt:
            stopped = True
        except CheckpointError as error:
            unwritten = error
    if not records:
        raise Interrupted(trajectory=None, state=state, end=float(state.time) + duration)
    trajectory = _join(system, state, h, np.concatenate(sizes), records, events)
    if stopped:
        raise Interrupted(trajectory=trajectory, state=trajectory.end, end=float(state.time) + duration)
    if unwritten is not None:
        raise CheckpointError(str(unwritten), trajectory=trajectory, state=trajectory.end) from unwritten
    if failed is not None and on_failure == "raise":
        raise _error(*failed, system, tolerance, trajectory)
    return trajectory


def _kept(records: list[Record], sizes: list[np.ndarray], left: _Left) -> dict:
    """What a checkpoint holds of a run that left `records` of so many `sizes` [s]."""
    records[:], sizes[:] = [joined(records)], [np.concatenate(sizes)]
    return {"record": records[0], "left": dataclasses.replace(left, sizes=sizes[0])}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Left:
    """What the next step depends on: state, memory, the gaps (nc,) [m], the last of the sweep, and
    how many steps are `done`; and of the run so far its `events` and, in a checkpoint, the `sizes`
    [s] of what was recorded."""

    state: State
    memory: Any
    gaps: np.ndarray
    swept: tuple | None
    done: int
    events: tuple[Event, ...]
    sizes: np.ndarray | None = None


def certified(
    scene: Scene,
    stepper,
    system: System,
    state: State,
    steps,
    tolerance: float,
    kept: dict | None = None,
    *,
    warns=True,
    ended: tuple[Contacts, float] | None = None,
) -> Iterator[tuple[Parts, _Left]]:
    """Pieces of the `steps` (h [s], how many, the length of the last or 0), up to the first that
    fails, and what they leave; from what was `kept` of them, if it is given. It `warns` of bodies
    that overlap at the start, and refuses them where they are deep in each other. `ended` as in
    `Landings.begin`."""
    h, whole, rest = steps
    rebounding, system = system, without_rebounds(system)
    early = warns and within(scene, system, state)
    if early:
        check_start(scene, system, closest_points(system, state), h)
    prepare(programs, stepper, system, state, h)
    closest = closest_points(system, state)
    if warns and not early:
        check_start(scene, system, closest, h)
    sweep, undeclared = Sweep(scene, stepper, system), Undeclared(scene, system)
    memory = init(stepper, system, state, closest)
    undeclared.look(jax.tree.map(lambda a: np.asarray(a)[None], state))
    gaps, done, last = first_gaps(system, closest), 0, None
    if kept is not None:
        left = kept["left"]
        state, memory, gaps, sweep.last = *jax.device_put((left.state, left.memory)), left.gaps, left.swept
        undeclared.look(kept["record"].state)
        last, done = _last(kept["record"]), left.done
    lands, events, begun = None, () if kept is None else kept["left"].events, None
    march = functools.partial(_march, stepper, system, tolerance, sweep)
    if any(group.restitution is not None for group in rebounding.groups):
        lands = Landings(stepper, rebounding, tolerance, sweep)
        march, begun = lands.pieces, lands.begin(state, memory, h, closest, ended) if kept is None else None
    for parts in _parts(march, begun, state, memory, steps, done):
        piece = bound(stepper, system, state, gaps, parts.several, tolerance, last)
        undeclared.look(piece.record.state)
        if len(piece.record.result):
            gaps, last = piece.record.contacts.gap[-1], _last(piece.record)
        state, memory, done = piece.state, piece.memory, done + parts.steps
        noted = () if lands is None else tuple(lands.events)
        yield parts._replace(several=piece), _Left(state, memory, gaps, sweep.last, done, events + noted)
        if not piece.solved:
            return


def _parts(march: Callable, begun: Parts | None, state: State, memory, steps, done: int) -> Iterator[Parts]:
    """Of the `steps` (h [s], how many, the length of the last or 0), `done` of them before, after
    what the run has `begun` with, by a `march` (state, memory, h, count)."""
    h, whole, rest = steps
    if begun is not None:
        yield begun
        state, memory = begun.several.state, begun.several.memory
    for size, count in ((h, max(whole - done, 0)), (rest, int(rest > 0 and done <= whole))):
        for parts in march(state, memory, size, count):
            yield parts
            state, memory = parts.several.state, parts.several.memory
            if not parts.several.solved:
                return


def _march(stepper, system: System, tolerance: float, sweep: Sweep, state: State, memory, h: float, count: int):
    """`fallback.pieces` as `Parts`."""
    for found in pieces(stepper, system, state, memory, h, count, tolerance, sweep):
        taken = len(found.record.result)
        yield Parts(found, np.full(taken + (not found.solved), h), taken)


def _last(record: Record):
    """The contacts of the last step, None where there is none."""
    return jax.tree.map(lambda a: a[-1], record.contacts) if len(record.result) else None


def _ended(start, system: System) -> tuple[Contacts, float] | None:
    """The contacts of the last step of a trajectory to `start` from, if they are those of the
    `system`, and its length [s]."""
    if not isinstance(start, Trajectory) or not len(start) or start.contact_names != system.contact_names:
        return None
    contacts = dataclasses.replace(start.contacts, stages=None, landing=None, joints=None, mu=None)
    return jax.tree.map(lambda a: np.asarray(a)[-1], contacts), float(np.broadcast_to(start.h, len(start))[-1])


def checked(start: State | Trajectory, system: System, built: State) -> State:
    """`start`, or its end, as arrays, if it has the shapes of the scene's own state and finite
    values."""
    if isinstance(start, Trajectory):
        own = system.names[: system.body_count]
        if start.names != own:
            raise StartError(f"`start` is a trajectory of {', '.join(start.names)}, the scene has {', '.join(own)}.")
        start = start.end
    if not isinstance(start, State):
        raise StartError(f"`start` = {start!r} must be a State, for instance that of a StepError, or a Trajectory.")
    for field in dataclasses.fields(State):
        given, needed = np.asarray(getattr(start, field.name)), np.shape(getattr(built, field.name))
        if given.dtype.kind not in "fiu" or given.shape != needed or not np.all(np.isfinite(given)):
            what = f"has shape {given.shape}" if given.shape != needed else f"= {given.tolist()} is not finite"
            raise StartError(f"`start.{field.name}` {what}: it needs finite numbers of shape {needed}.")
    lengths = np.linalg.norm(np.asarray(start.orientation), axis=1)
    if system.dimension == 3 and np.any(abs(lengths - 1) > UNIT):
        raise StartError(f"`start.orientation` has quaternions of length {lengths.tolist()}: give unit ones, w first.")
    values = {field.name: np.asarray(getattr(start, field.name), float) for field in dataclasses.fields(State)}
    values |= {"orientation": unit(values["orientation"])} if system.dimension == 3 else {}
    return State(**{name: jnp.asarray(value) for name, value in values.items()})


def _steps(h: float, duration: float, start: float) -> tuple[float, int, float]:
    """Steps of h [s], how many of them, and the shorter one [s] after them, 0 if there is none,
    that fill `duration` [s] from `start` [s]. Raises `ValueError` for an h that is lost in
    rounding."""
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


def _join(system: System, start: State, h: float, sizes: np.ndarray, records: list[Record], events) -> Trajectory:
    """The trajectory of `records` of so many `sizes` [s], which may all be `h` [s]."""
    record = joined(records)
    states = jax.tree.map(lambda first, rest: np.concatenate([np.asarray(first)[None], rest]), start, record.state)
    sizes, events = h if np.all(sizes == h) else sizes, tuple(e for e in events if e.time <= states.time[-1])
    return assembled(system, states, record.contacts, record.stats, record.certificates, sizes, events=events)


def result_of(failed: Climb) -> Result:
    """Why a step was not taken."""
    if failed.reason is not None:
        return failed.reason.result
    result = Result(int(failed.record.result))
    if result != Result.SOLVED:
        return result
    return Result.NOT_CERTIFIED if failed.passed is None else Result.PASSED


def _error(failed: Climb, state: State, h: float, system: System, tolerance: float, trajectory: Trajectory) -> StepError:
    """The exception for a step that no rung solved: when, which contact, by how much, what was
    tried, what to try."""
    time, result = float(state.time) + h, or_rounded(result_of(failed), system, state, h)
    violations = {name: v for name, v in failed.record.certificates.items() if v.size and not np.max(v) <= tolerance}
    best: dict[str, float] = {}
    for attempt in failed.attempts:
        best[attempt.name] = min(best.get(attempt.name, np.inf), attempt.residual)
    tried = ", ".join(f"{name} {residual:.1e}" for name, residual in best.items())
    what = "" if failed.passed is None else f" They are {' and '.join(system.contact_names[failed.passed])}."
    if IMPACT_WITHIN in violations:
        what = " A step of several stages holds no impact: give `tol` in place of `h`, or take GeometricallyImplicit."
    what += remedy(violations)
    tried = (
        f"{result.message}{what} Least solver residual of the starts tried after the warm one: {tried}; violated after the "
        f"last (allowed {tolerance:.0e}): {described(system, violations) or 'nothing'}."
    )
    why = without_value(system, state, [h]) or (tried if failed.reason is None else failed.reason.message)
    message = (
        f"the step to t = {time:.9g} s failed: {why} The {len(trajectory)} steps before it are "
        "in the error's `trajectory`, the state before it in its `state`."
    )
    state = jax.tree.map(np.asarray, state)
    return StepError(message, result=result, time=time, trajectory=trajectory, state=state, certificate=violations)

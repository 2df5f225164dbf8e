"""Many steps: a compiled chunk of them at a time, each certified, with progress on a terminal."""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from tqdm import tqdm

from shapes.arguments import positive

from .bodies import State
from .certificate import certificate
from .compilation import jit
from .ladder import Climb, climb
from .results import Result, StepError
from .scene import Scene
from .steppers.base import Contacts, Stats, Stepper, StepResult
from .system import System
from .trajectory import Trajectory

_CHUNK = 128  # steps per compiled call: long enough to hide the call, short enough for progress and early errors


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Record:
    """Steps of a chunk, first axis the steps: the states they end in, and what they left."""

    state: State
    contacts: Contacts
    stats: Stats
    result: jax.Array
    certificates: dict[str, jax.Array]


def simulate(
    scene: Scene,
    stepper: Stepper,
    *,
    h: float,
    duration: float,
    certificate_tolerance: float = 1e-10,
    on_failure: str = "raise",
    start: State | None = None,
    progress: bool | None = None,
) -> Trajectory:
    """Steps `scene` from its initial state, or from `start`, for at least `duration` [s], in steps of h [s].

    Every step must converge and pass its certificate within `certificate_tolerance` (dimensionless, see `certificate`;
    1e-8 to 1e-10); one that does not is solved again by the ladder (`ladder.climb`). If that fails too, `StepError` is
    raised, which carries the trajectory before it and the state to `start` from; with `on_failure="return"` that shorter
    trajectory is returned instead. `progress` shows a bar; by default on terminals only. Raises `ValueError` for bad
    arguments.
    """
    h, duration = positive("h", h), positive("duration", duration)
    positive("certificate_tolerance", certificate_tolerance)
    if on_failure not in ("raise", "return"):
        raise ValueError(f"`on_failure` = {on_failure!r} must be 'raise' or 'return'.")
    if not isinstance(scene, Scene):
        raise ValueError(f"`scene` = {scene!r} must be a Scene.")
    if isinstance(stepper, type) or not isinstance(stepper, Stepper):
        raise ValueError(f"`stepper` = {stepper!r} must be a stepper, for instance GeometricallyImplicit().")
    count = math.ceil(duration / h - 1e-9)  # 3 steps of 0.1 make 0.3 in spite of round-off
    system, state = jax.tree.map(jnp.asarray, scene.build())
    state = state if start is None else _checked(start, state)
    memory = _init(stepper, system, state)
    first, records, failed, done = state, [], None, 0
    with tqdm(total=count, unit="step", disable=None if progress is None else not progress, leave=False) as bar:
        while done < count and failed is None:
            state, memory, record = _chunk(
                stepper, system, state, memory, h, min(_CHUNK, count - done), certificate_tolerance
            )
            solved = len(record.result)
            if solved < min(_CHUNK, count - done):
                climbed = climb(stepper, system, state, memory, h, certificate_tolerance)
                if climbed.solved:
                    state, memory = climbed.step.state, climbed.step.memory
                    record = _append(record, climbed)
                else:
                    failed = climbed, state
            records.append(record)
            bar.update(len(record.result))
            done += len(record.result)
    trajectory = _join(system, first, h, records)
    if failed is not None and on_failure == "raise":
        raise _error(*failed, system, certificate_tolerance, trajectory)
    return trajectory


def _checked(start: State, built: State) -> State:
    """`start` as arrays, if it has the shapes of the scene's own state and finite values."""
    if not isinstance(start, State):
        raise ValueError(f"`start` = {start!r} must be a State, for instance that of a StepError.")
    for field in dataclasses.fields(State):
        given, needed = np.asarray(getattr(start, field.name)), np.shape(getattr(built, field.name))
        if given.shape != needed or not np.all(np.isfinite(given)):
            raise ValueError(f"`start.{field.name}` has shape {given.shape}: it needs finite numbers of shape {needed}.")
    return jax.tree.map(lambda a: jnp.asarray(a, float), start)


def _chunk(stepper: Stepper, system: System, state: State, memory, h: float, steps: int, tolerance: float):
    """Up to `steps` certified steps of the first rung: the state and memory after them and their record, with NumPy arrays
    shorter than `steps` where one failed."""
    end, memory, record = _advance(stepper, system, state, memory, h, steps)
    record = jax.tree.map(lambda a: np.array(a[:steps]), record)
    good = int(np.argmin(np.append(_certified(record, tolerance), False)))
    if good == steps:
        return end, memory, record
    last = int(np.argmax(np.append(record.result != Result.SOLVED, True)))
    if good > 0:
        state = jax.tree.map(lambda a: jnp.asarray(a[good - 1]), record.state)
    if last != good:  # solved but not certified: the loop went on, and the memory with it
        memory = _init(stepper, system, state)
    return state, memory, jax.tree.map(lambda a: a[:good], record)


def _certified(record: _Record, tolerance: float) -> np.ndarray:
    """Which steps (n,) are solved and violate nothing by more than `tolerance`."""
    worst = np.max(np.concatenate([v.reshape(len(v), -1) for v in record.certificates.values()], axis=1), axis=1)
    return (record.result == Result.SOLVED) & (worst <= tolerance)


@functools.partial(jit, static_argnums=0)
def _init(stepper: Stepper, system: System, state: State):
    return stepper.init(system, state)


@functools.partial(jax.jit, static_argnums=0)
def _step(stepper: Stepper, system: System, state: State, memory, h) -> StepResult:
    """A step as a jitted function of its own, so that `_advance` traces it once for its shapes and its loop."""
    return stepper.step(system, state, memory, h)


@functools.partial(jit, static_argnums=0)
def _advance(stepper: Stepper, system: System, state: State, memory, h, steps):
    """Up to `steps` <= _CHUNK steps, stopping after one that is not solved; one program for any number of them.

    Returns the last state; the memory after it or, where it is not solved, before it; and a `_Record` with first axis
    _CHUNK whose first `steps` entries are filled.
    """
    shapes = jax.eval_shape(_step, stepper, system, state, memory, h)
    empty = (shapes.state, shapes.state, shapes.contacts, shapes.stats, shapes.result)
    empty = jax.tree.map(lambda s: jnp.zeros((_CHUNK, *s.shape), s.dtype), empty)

    def proceed(carry):
        i, _, _, _, _, going = carry
        return (i < steps) & going

    def body(carry):
        i, state, memory, _, records, _ = carry
        step = _step(stepper, system, state, memory, h)
        new = (state, step.state, step.contacts, step.stats, step.result)
        records = jax.tree.map(lambda all_, one: all_.at[i].set(one), records, new)
        return i + 1, step.state, step.memory, memory, records, step.result == Result.SOLVED

    start = (jnp.zeros((), int), state, memory, memory, empty, jnp.asarray(True))
    _, state, memory, before, records, solved = lax.while_loop(proceed, body, start)
    starts, ends, contacts, stats, result = records
    certificates = jax.vmap(functools.partial(certificate, system), (0, 0, 0, None))(starts, ends, contacts, h)
    memory = jax.tree.map(lambda new, old: jnp.where(solved, new, old), memory, before)
    return state, memory, _Record(ends, contacts, stats, result, certificates)


def _append(record: _Record, climbed: Climb) -> _Record:
    """`record` and one more step."""
    step = climbed.step
    one = _Record(step.state, step.contacts, step.stats, step.result, climbed.certificate)
    return jax.tree.map(lambda a, b: np.concatenate([a, np.asarray(b)[None]]), record, one)


def _join(system: System, start: State, h: float, records: list[_Record]) -> Trajectory:
    record = jax.tree.map(lambda *parts: np.concatenate(parts), *records)
    states = jax.tree.map(lambda first, rest: np.concatenate([np.asarray(first)[None], rest]), start, record.state)
    return Trajectory(
        time=states.time,
        position=states.position,
        orientation=states.orientation,
        velocity=states.velocity,
        contacts=record.contacts,
        stats=record.stats,
        certificate={name: np.max(v, axis=1, initial=0.0) for name, v in record.certificates.items()},
        h=h,
        names=system.names[: system.body_count],
        contact_names=system.contact_names,
        mass=np.asarray(system.mass),
        inertia=np.asarray(system.inertia),
    )


def _error(failed: Climb, state: State, system: System, tolerance: float, trajectory: Trajectory) -> StepError:
    """The exception for a step that no rung solved: when, which contact, by how much, what was tried, what to try."""
    step = failed.step
    time, result = float(step.state.time), Result(int(step.result))
    result = Result.NOT_CERTIFIED if result == Result.SOLVED else result
    violations = {name: np.asarray(v) for name, v in failed.certificate.items() if v.size and not np.max(v) <= tolerance}
    where = []
    for name, values in violations.items():
        worst = int(np.argmax(np.where(np.isnan(values), np.inf, values)))
        place = {"momentum": system.names[worst], "energy": "all bodies"}.get(name)
        place = place or " and ".join(system.contact_names[worst])
        where.append(f"{name} {values[worst]:.2e} at {place}")
    tried = ", ".join(f"{attempt.name} {attempt.residual:.1e} ({attempt.iterations})" for attempt in failed.attempts)
    message = (
        f"the step to t = {time:.9g} s failed: {result.message} Solver residual (iterations) of each start tried after the "
        f"warm one: {tried}; violated after the last (allowed {tolerance:.0e}): {'; '.join(where) or 'nothing'}. The "
        f"{len(trajectory)} steps before it are in the error's `trajectory`, the state before it in its `state`."
    )
    state = jax.tree.map(np.asarray, state)
    return StepError(message, result=result, time=time, trajectory=trajectory, state=state, certificate=violations)

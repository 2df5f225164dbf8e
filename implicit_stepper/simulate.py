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
    progress: bool | None = None,
) -> Trajectory:
    """Steps `scene` from its initial state for at least `duration` [s], in steps of h [s].

    Every step must converge and pass its certificate within `certificate_tolerance` (dimensionless, see `certificate`;
    1e-8 to 1e-10). The first that does not raises `StepError`, which carries the trajectory before it; with
    `on_failure="return"` that shorter trajectory is returned instead. `progress` shows a bar; by default on terminals only.
    Raises `ValueError` for bad arguments.
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
    memory = _init(stepper, system, state)
    start, records, failed = state, [], None
    with tqdm(total=count, unit="step", disable=None if progress is None else not progress, leave=False) as bar:
        for first in range(0, count, _CHUNK):
            steps = min(_CHUNK, count - first)
            state, memory, record = _advance(stepper, system, state, memory, h, steps)
            record = jax.tree.map(lambda a, steps=steps: np.array(a[:steps]), record)
            bad = _first_bad(record, certificate_tolerance)
            records.append(jax.tree.map(lambda a, bad=bad: a[:bad], record))
            bar.update(steps)
            if bad is not None:
                failed = jax.tree.map(lambda a, bad=bad: a[bad], record)
                break
    trajectory = _join(system, start, h, records)
    if failed is not None and on_failure == "raise":
        raise _error(failed, system, certificate_tolerance, trajectory)
    return trajectory


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

    Returns the last state and memory, and a `_Record` with first axis _CHUNK whose first `steps` entries are filled.
    """
    shapes = jax.eval_shape(_step, stepper, system, state, memory, h)
    empty = (shapes.state, shapes.state, shapes.contacts, shapes.stats, shapes.result)
    empty = jax.tree.map(lambda s: jnp.zeros((_CHUNK, *s.shape), s.dtype), empty)

    def proceed(carry):
        i, _, _, _, going = carry
        return (i < steps) & going

    def body(carry):
        i, state, memory, records, _ = carry
        step = _step(stepper, system, state, memory, h)
        new = (state, step.state, step.contacts, step.stats, step.result)
        records = jax.tree.map(lambda all_, one: all_.at[i].set(one), records, new)
        return i + 1, step.state, step.memory, records, step.result == Result.SOLVED

    start = (jnp.zeros((), int), state, memory, empty, jnp.asarray(True))
    _, state, memory, (before, after, contacts, stats, result), _ = lax.while_loop(proceed, body, start)
    certificates = jax.vmap(functools.partial(certificate, system), (0, 0, 0, None))(before, after, contacts, h)
    return state, memory, _Record(after, contacts, stats, result, certificates)


def _first_bad(record: _Record, tolerance: float) -> int | None:
    """Index of the first step that is not solved or not certified; marks the latter in `record.result`."""
    worst = np.max(np.concatenate([v.reshape(len(v), -1) for v in record.certificates.values()], axis=1), axis=1)
    record.result[(record.result == Result.SOLVED) & ~(worst <= tolerance)] = Result.NOT_CERTIFIED
    bad = np.flatnonzero(record.result != Result.SOLVED)
    return int(bad[0]) if len(bad) else None


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


def _error(failed: _Record, system: System, tolerance: float, trajectory: Trajectory) -> StepError:
    """The exception for a failed step (`failed` without a first axis): when, which contact, by how much, what to try."""
    result, time = Result(int(failed.result)), float(failed.state.time)
    violations = {name: v for name, v in failed.certificates.items() if v.size and not np.max(v) <= tolerance}
    where = []
    for name, values in violations.items():
        worst = int(np.argmax(np.where(np.isnan(values), np.inf, values)))
        place = system.names[worst] if name == "momentum" else " and ".join(system.contact_names[worst])
        where.append(f"{name} {values[worst]:.2e} at {place}")
    message = (
        f"the step to t = {time:.9g} s failed: {result.message} Solver residual {float(failed.stats.residual):.2e} after "
        f"{int(failed.stats.iterations)} iterations; violated (allowed {tolerance:.0e}): {'; '.join(where) or 'nothing'}. "
        f"The {len(trajectory)} steps before it are in the error's `trajectory`."
    )
    return StepError(message, result=result, time=time, trajectory=trajectory, certificate=violations)

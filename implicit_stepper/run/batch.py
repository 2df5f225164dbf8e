"""Many scenes at once that differ in numbers: one after another on each core, every one as if it
were alone.

Scenes go through one compiled program in blocks of `_BLOCK`, whatever the size of the batch, and
within a block one after another. So no scene waits for another's iterations, and no result depends
on its place."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from shapes.arguments import positive

from ..implicit_euler.geometrically_implicit import GeometricallyImplicit
from ..model.bodies import State
from ..model.results import Result
from ..model.system import System
from ..runtime.compilation import jit
from ..runtime.errors import BatchError, RunError, StepperError
from ..runtime.progress import Progress
from ..runtime.threads import one_blas_thread
from ..scene.scene import Scene
from ..stepping.fallback import pieces
from ..stepping.stepper import closest_points, init, refuse_rebounds
from .parameters import changed, read
from .rollout import CERTIFIED

_BLOCK = 16  # scenes of one call of the program
_ROUNDING = 1e-9  # of a step
_POSITIVE = ("mass",)
_NOT_NEGATIVE = ("mu", "e_t", "e_o", "e_r", "compliance", "dissipation_time")


@dataclasses.dataclass(frozen=True)
class Batch:
    """B scenes after the same time; NumPy arrays. `end`: states with a first axis of B; `result`
    (B,), for each a `Result`, of its first step that was not solved, where its `end` is that before
    it; `steps` (B,), solved and certified ones; `violation` (B,), the largest of all certificates;
    `helped` (B,), which needed the whole fallback sequence. `seconds` and `cpu_seconds` [s] that
    the steps took, compiling left out."""

    end: State
    result: np.ndarray
    steps: np.ndarray
    violation: np.ndarray
    helped: np.ndarray
    seconds: float
    cpu_seconds: float

    def __str__(self) -> str:
        """The rate, and how many scenes are solved."""
        total, good = int(np.sum(self.steps)), int(np.sum(self.result == Result.SOLVED))
        return (
            f"{good} of {len(self.result)} scenes solved; {total} certified steps in {self.seconds:.3g} s "
            f"({total / self.seconds:.3g} a second, {total / self.cpu_seconds:.3g} a CPU second)"
        )


@one_blas_thread()
def simulate_batch(
    scene: Scene,
    stepper: GeometricallyImplicit,
    *,
    h: float,
    duration: float,
    parameters: Mapping[str, Any] | None = None,
    states: State | None = None,
    progress: bool | None = None,
) -> Batch:
    """Steps of h [s] for `duration` [s] of scenes that differ from `scene` in `parameters`, by name
    arrays whose first axis is the scene's number (see `parameters.names`), and in their first
    `states`, with that axis.

    On a CPU every core steps scenes of its own, on the devices that JAX has in turn. A scene's
    result depends on nothing but the scene, to the bit. Each step must converge and pass its
    certificate within 1e-10; a scene in which one does not is run again from the start with the
    whole fallback sequence, and if that fails too, it is flagged and the rest is kept. That bodies
    do not pass through each other between the poses of a step, only `simulate` checks. Raises
    `ValueError` for unknown names, first axes that differ, and a `duration` that is no multiple of
    h.
    """
    if not isinstance(stepper, GeometricallyImplicit):
        raise StepperError(f"`stepper` = {stepper!r} has no batches: use GeometricallyImplicit().")
    h, steps = positive("h", h), round(positive("duration", duration) / h)
    if steps < 1 or abs(duration - steps * h) > _ROUNDING * duration:
        raise RunError(f"`duration` = {duration} s is no multiple of `h` = {h} s: scenes of a batch take equal steps.")
    system, start = scene.build()
    refuse_rebounds(system)
    values = _values(system, start, parameters or {}, states)
    count = len(next(iter(values.values())))
    places = list(range(0, count, _BLOCK))
    blocks = [_block(values, first, count) for first in places]
    devices, workers = jax.devices(), max(os.cpu_count() or 1, len(jax.devices()))
    with Progress(count, "scenes", progress) as told:
        for device in devices if len(places) >= len(devices) else devices[:1]:
            _compiled(stepper, system, start, blocks[0], h, device)
        wall, cpu = time.perf_counter(), time.process_time()

        def run(own, device):
            found = _run(stepper, *jax.device_put((system, start, own, h, steps), device))
            return jax.tree.map(np.array, found)

        parts = []
        with ThreadPoolExecutor(workers) as threads:
            for part in threads.map(run, blocks, itertools.cycle(devices)):
                parts.append(part)
                told.to(min(len(parts) * _BLOCK, count))
        found = jax.tree.map(lambda *own: np.concatenate(own)[:count], *parts)
        found = _helped(stepper, system, start, values, h, steps, found)
    return Batch(*found, time.perf_counter() - wall, time.process_time() - cpu)


def _compiled(stepper, system: System, start: State, block, h: float, device) -> None:
    """The program of a block, by a call of no steps."""
    jax.block_until_ready(_run(stepper, *jax.device_put((system, start, block, h, 0), device)))


def _values(system: System, start: State, parameters: Mapping[str, Any], states: State | None) -> dict[str, np.ndarray]:
    """Arrays by name, all with the same first axis and, from the second on, what
    `parameters.changed` takes."""
    values = {name: np.asarray(value, float) for name, value in parameters.items()}
    if states is not None:
        both = {"position", "orientation", "velocity"} & set(values)
        if both:
            raise BatchError(f"`parameters` and `states` both have {', '.join(sorted(both))}: give it once.")
        values |= {name: np.asarray(getattr(states, name), float) for name in ("position", "orientation", "velocity")}
    if not values:
        raise BatchError("`parameters` and `states` are both empty: nothing says how many scenes there are.")
    sizes = {name: value.shape[:1] for name, value in values.items()}
    if len(set(sizes.values())) > 1 or not all(sizes.values()):
        raise BatchError(f"`parameters` have first axes {sizes}: all must be the number of scenes.")
    for name, value in values.items():
        now = read(system, start, name)
        if not np.all(np.isfinite(value)):
            raise BatchError(f"`parameters` has {name!r}, which is not finite in scene {_worst(~np.isfinite(value))}.")
        if value.shape[1:] not in ((), now.shape):
            raise BatchError(f"`parameters` has {name!r} of shape {value.shape[1:]} a scene: it must be () or {now.shape}.")
        if name in _POSITIVE and np.any(value <= 0) or name in _NOT_NEGATIVE and np.any(value < 0):
            bad = value <= 0 if name in _POSITIVE else value < 0
            raise BatchError(f"`parameters` has {name!r}, which is out of its range in scene {_worst(bad)}.")
    return values


def _worst(bad: np.ndarray) -> int:
    return int(np.flatnonzero(bad.reshape(len(bad), -1).any(axis=1))[0])


def _block(values: Mapping[str, np.ndarray], first: int, count: int) -> dict[str, np.ndarray]:
    """Of `_BLOCK` scenes from the `first` on; the last one again where there are no more."""
    index = np.minimum(np.arange(first, first + _BLOCK), count - 1)
    return {name: value[index] for name, value in values.items()}


def _one(stepper, system: System, start: State, values, h, steps):
    """One scene: its last state, whether all steps were solved, how many, the largest violation."""
    own, begun = changed(system, start, values)
    memory = stepper.init(own, begun)

    def proceed(at):
        return (at[2] == Result.SOLVED) & (at[3] < steps)

    def advance(at):
        state, memory, _, number, worst = at
        step = stepper.step_with_cuts(own, state, memory, h)
        found = stepper.certificate(own, state, step.state, step.contacts, h)
        violation = jnp.max(jnp.stack([jnp.max(v) for v in found.values() if v.size]))
        certified = jnp.where(violation <= CERTIFIED, int(Result.SOLVED), int(Result.NOT_CERTIFIED))
        result = jnp.where(step.result == Result.SOLVED, certified, step.result)
        good = result == Result.SOLVED
        state = jax.tree.map(lambda new, old: jnp.where(good, new, old), step.state, state)
        worst = jnp.where(good, jnp.maximum(worst, violation), worst)
        return state, step.memory, result, number + good, worst

    none = jnp.asarray(int(Result.SOLVED)), jnp.zeros((), int), jnp.zeros(())
    begun = jax.tree.map(lambda a: jnp.asarray(a, float), begun)
    state, _, result, number, worst = lax.while_loop(proceed, advance, (begun, memory, *none))
    return state, result, number, worst


@functools.partial(jit, static_argnums=0)
def _run(stepper, system: System, start: State, block, h, steps):
    """`_one` of every scene of a block, one after another."""
    return lax.map(lambda values: _one(stepper, system, start, values, h, steps), block)


def _helped(stepper, system: System, start: State, values, h: float, steps: int, found):
    """`found`, with the scenes in it that failed run again on the host by the whole fallback
    sequence."""
    state, result, number, worst = found
    helped = result != Result.SOLVED
    for i in np.flatnonzero(helped):
        own, begun = jax.device_put(changed(system, start, {name: value[i] for name, value in values.items()}))
        begun = jax.tree.map(lambda a: jnp.asarray(a, float), begun)
        memory, done, largest = init(stepper, own, begun, closest_points(own, begun)), 0, 0.0
        for piece in pieces(stepper, own, begun, memory, h, steps, CERTIFIED):
            if len(piece.record.result):
                done += len(piece.record.result)
                largest = max(largest, *(float(np.max(v, initial=0.0)) for v in piece.record.certificates.values()))
                begun = jax.tree.map(lambda a: a[-1], piece.record.state)
            result[i], number[i], worst[i] = Result.SOLVED if done == steps else result[i], done, largest
        for field in dataclasses.fields(State):
            getattr(state, field.name)[i] = np.asarray(getattr(begun, field.name))
    return state, result, number, worst, helped

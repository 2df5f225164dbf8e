"""Many scenes at once that differ in numbers: on each core blocks of its own, and every scene as if
it were alone.

Scenes go through one compiled program in blocks of one size, whatever that of the batch: so no
result depends on its place. Within a block, steps of one length are taken side by side, and chosen
steps and scenes that rebound one scene after another."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shapes.arguments import flag, positive

from ..constraints.detection import closest_points
from ..implicit_euler import side_by_side
from ..implicit_euler.geometrically_implicit import GeometricallyImplicit
from ..model.bodies import State
from ..model.results import Result
from ..model.system import System
from ..radau.error_control import Tolerance
from ..radau.radau_contact import RadauContact
from ..runtime.errors import RunError, StepperError
from ..runtime.progress import Progress
from ..runtime.threads import one_blas_thread
from ..scene.scene import Scene
from ..stepping.capabilities import FindsPairs
from ..stepping.fallback import pieces
from ..stepping.stepper import init
from . import chosen_batch, fixed_batch, rebounding_batch
from .arguments import of_kind
from .batch_files import Folder
from .batch_values import scene_of, shaped, values_of
from .checkpoint import asked_of, digest
from .hosts import first_here, gathered, shares, writes
from .joint_start import check_each, check_joints, check_stepper
from .jumps import refuse_jumps
from .overlaps import ROUNDED, deepest, warn_of_batch
from .parameters import SHAPE, moves_points
from .rollout import CERTIFIED
from .settings import refuse_both

_ROUNDING = 1e-9  # of a step
# of what the joints of a first state are made
_OF_STARTS = ("time", "position", "orientation", "velocity", "fixed_position", "fixed_orientation")


@dataclasses.dataclass(frozen=True)
class Batch:
    """B scenes after the same time; NumPy arrays. `end`: states with a first axis of B; `result`
    (B,), for each a `Result`, of its first step that was not solved, where its `end` is that before
    it; `steps` (B,), solved and certified ones; `violation` (B,), the largest of all certificates;
    `helped` (B,), which needed the whole fallback sequence; `overlap` (B,) [m], by how much bodies
    overlap at the start, of contacts that do not comply. `seconds` and `cpu_seconds` [s] that the
    steps took, compiling left out."""

    end: State
    result: np.ndarray
    steps: np.ndarray
    violation: np.ndarray
    helped: np.ndarray
    overlap: np.ndarray
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
    stepper: GeometricallyImplicit | RadauContact,
    *,
    h: float | None = None,
    tol: float | Tolerance | None = None,
    duration: float,
    parameters: Mapping[str, Any] | None = None,
    states: State | None = None,
    folder: str | os.PathLike | None = None,
    progress: bool | None = None,
) -> Batch:
    """Steps of h [s], or chosen ones of `RadauContact` that keep the error near `tol`, for
    `duration` [s] of scenes that differ from `scene` in `parameters`, by name arrays whose first
    axis is the scene's number (see `parameters.names`), and in their first `states`, with that
    axis, which may be those of another batch at its end.

    On a CPU every core steps scenes of its own, with h on the devices that JAX has in turn; those
    with a restitution are run one by one, as with chosen steps, on the CPU. A scene's result
    depends on nothing but the scene, to the bit. Each step must converge and pass its certificate
    within 1e-10; with h, a scene in which one does not is run again from the start with the whole
    fallback sequence. What fails too is flagged and the rest kept, as what begins with bodies deep
    in each other; less deep ones are warned of. That bodies do not pass through each other within a
    step, only what is run one by one checks. `folder`: every 32 scenes, 8192 on an accelerator, are
    written there once they are done, and the same call goes on with the others.
    Processes of `jax.distributed` share the scenes if all make the same call: each gets the whole
    batch, the time being its own, and a `folder` must be one that all of them see. Raises
    `ValueError` for bad arguments, and `CheckpointError` for a folder that is another's, is damaged
    or cannot be written."""
    refuse_both(h, tol)
    duration = positive("duration", duration)
    of_kind(scene, stepper, asked=("scene", "stepper"))
    flag("progress", progress, or_none=True)
    system, start = scene.build()
    values = values_of(system, start, parameters or {}, states)
    count = len(next(iter(values.values())))
    if tol is None:
        work = _fixed_steps(scene, stepper, system, start, values, h, duration)
    else:
        work = _chosen_steps(scene, stepper, system, start, values, tol, duration)
    blocks = [_block(values, first, work.width, count) for first in range(0, count, work.width)]
    sizes = h, tol, duration
    kept = None if folder is None else first_here(lambda: _folder(folder, system, start, stepper, values, sizes))
    found = _computed(work, blocks, count, kept, progress)
    warn_of_batch(system, found.overlap, h)
    return found


def _computed(work: _Work, blocks: list[dict], count: int, kept: Folder | None, progress: bool | None) -> Batch:
    """All `count` scenes in their `blocks`, of which this process computes its share, but for those
    that are `kept`."""
    mine = dict.fromkeys(shares(len(blocks)))
    parts = {number: None if kept is None else kept.read(number) for number in mine}
    left = [number for number, part in parts.items() if part is None]
    devices, width = jax.local_devices(), work.width
    with Progress(min(len(mine) * width, count), "scenes", progress) as told:
        told.to(min((len(mine) - len(left)) * width, told.total))
        if left:
            work.prepare(blocks[left[0]], devices if len(left) >= len(devices) else devices[:1])
        wall, cpu = time.perf_counter(), time.process_time()
        with ThreadPoolExecutor(max(work.at_once, len(devices))) as threads:
            found = threads.map(work.run, [blocks[number] for number in left], itertools.cycle(devices))
            try:
                for number, part in zip(left, found, strict=True):
                    own = min(width, count - number * width)
                    parts[number] = work.finish(blocks[number], jax.tree.map(lambda a, own=own: a[:own], part))
                    if kept is not None and writes(number):
                        kept.write(number, parts[number])
                    told.to(min(told.done + own, told.total))
            except BaseException:
                # what is done is kept, the rest is not begun
                threads.shutdown(wait=False, cancel_futures=True)
                raise
    took = time.perf_counter() - wall, time.process_time() - cpu
    every = jax.tree.map(lambda *own: np.concatenate(own)[:count], *gathered(parts, len(blocks), width))
    return Batch(*every, *took)


def _folder(folder, system: System, start: State, stepper, values, sizes) -> Folder:
    """Where the parts of a batch are, by `sizes`, h, tol and duration."""
    names = sorted(values)
    numbers = dict(zip(("h", "tol", "duration"), sizes, strict=True))
    numbers |= {"values": digest([values[name] for name in names], names)}
    return Folder(folder, asked_of(system, start, stepper, numbers), len(values[names[0]]))


class _Work(NamedTuple):
    """How blocks of `width` scenes are run: how many `at_once`, at least one on each device; what
    is compiled before; one block on a device; and what is done about its scenes that failed."""

    width: int
    at_once: int
    prepare: Callable
    run: Callable
    finish: Callable


def _fixed_steps(scene: Scene, stepper, system: System, start: State, values, h: float, duration: float) -> _Work:
    """Steps of h [s], in the programs of a block."""
    if not stepper.can.side_by_side:
        raise StepperError(f"`stepper` = {stepper!r} has no batches of steps of one `h`: use GeometricallyImplicit().")
    if stepper.can.finds_pairs == FindsPairs.ALWAYS:
        raise StepperError('`jacobian` = "sparse" finds pairs, and batches declare all of them: leave it "by size".')
    h, steps = positive("h", h), round(duration / positive("h", h))
    if steps < 1 or abs(duration - steps * h) > _ROUNDING * duration:
        raise RunError(f"`duration` = {duration} s is no multiple of `h` = {h} s: scenes of a batch take equal steps.")
    _refuse_starts(stepper, system, start, values, h, duration)
    if any(group.restitution is not None for group in system.groups):
        return _one_by_one(lambda own: rebounding_batch.one(scene, stepper, (system, start), own, h, steps))
    closest = None if any(map(moves_points, values)) else closest_points(system, start)
    how = side_by_side.of_platform(jax.local_devices()[0].platform)
    # an accelerator would keep two blocks in its memory; and on a CPU, where lanes are factorised
    # together, two blocks at once did not come to an end
    at_once = _cores() if how.lanes == 1 else 1
    most = np.tile(deepest(scene), (how.width, 1))

    def prepare(block, devices):
        """The program of a block, by a call of no steps."""
        for device in devices:
            jax.block_until_ready(called(block, device, most, 0))

    def called(block, device, most, steps):
        return fixed_batch.run(stepper, how, *jax.device_put((system, start, closest, most, block, h, steps), device))

    def run(block, device):
        own = most
        if any(name.startswith(SHAPE) for name in block):  # of bodies apart it takes long to know, and does not matter
            *_, overlap = called(block, device, most, 0)
            own = _deepest_of(scene, block, np.asarray(overlap) > ROUNDED * float(system.length), most)
        return jax.tree.map(np.array, called(block, device, own, steps))

    return _Work(how.width, at_once, prepare, run, functools.partial(_helped, stepper, system, start, h=h, steps=steps))


def _deepest_of(scene: Scene, block: Mapping[str, np.ndarray], overlap: np.ndarray, most: np.ndarray) -> np.ndarray:
    """`overlaps.deepest` (B, nc) [m] of the scenes of a `block`, each with its own shapes, that
    `overlap` (B,), and infinite of the others; `most` has its form."""
    found = np.full_like(most, np.inf)
    for i in np.flatnonzero(overlap):
        found[i] = deepest(shaped(scene, {name: value[i] for name, value in block.items()}))
    return found


def _chosen_steps(scene: Scene, stepper, system: System, start: State, values, tol, duration: float) -> _Work:
    """Chosen steps, scene after scene."""
    if not stepper.can.adaptive:
        raise StepperError(f"`stepper` = {stepper!r} chooses no steps: use RadauContact() of 2 or 3 stages, or give `h`.")
    _refuse_starts(stepper, system, start, values, None, duration)
    chosen_batch.refuse(system, start, values, duration)
    return _one_by_one(lambda own: chosen_batch.one(scene, stepper, (system, start), own, tol, duration))


def _refuse_starts(stepper, system: System, start: State, values, h: float | None, duration: float) -> None:
    """Raises `ValueError` for what a single run would refuse of the joints and the motions of one
    of the scenes."""
    if not any(name in values for name in _OF_STARTS):
        check_joints(stepper, system, start, fixed=h is not None)
    else:  # nothing begins at the scene's own
        check_stepper(stepper, system, fixed=h is not None)
        check_each(stepper, system, functools.partial(scene_of, system, start), values, h or 0.0)
    times = np.unique(values.get("time", start.time))
    apart = np.diff(times) > duration
    for first, last in zip(times[np.append(True, apart)], times[np.append(apart, True)], strict=True):
        refuse_jumps(system, dataclasses.replace(start, time=first), float(last) + duration)


def _one_by_one(one: Callable) -> _Work:
    """Scene after scene, of which each is `one(values)`."""
    width = side_by_side.CPU.width

    def run(block, _):
        found = []
        for i in range(width):
            again = i > 0 and all(np.array_equal(v[i], v[i - 1]) for v in block.values())
            found.append(found[-1] if again else one({n: v[i] for n, v in block.items()}))
        return jax.tree.map(lambda *own: np.stack([np.asarray(a) for a in own]), *found)

    def finish(_, part):
        *first, overlap = part
        return *first, np.zeros(len(part[1]), bool), overlap

    return _Work(width, _cores(), lambda *_: None, run, finish)


def _cores() -> int:
    return os.cpu_count() or 1


def _block(values: Mapping[str, np.ndarray], first: int, width: int, count: int) -> dict[str, np.ndarray]:
    """Of `width` scenes from the `first` on; the last one again where there are no more."""
    index = np.minimum(np.arange(first, first + width), count - 1)
    return {name: value[index] for name, value in values.items()}


def _helped(stepper, system: System, start: State, values, found, h: float, steps: int):
    """`found`, with the scenes in it that failed run again on the host by the whole fallback
    sequence."""
    state, result, number, worst, overlap = found
    helped = (result != Result.SOLVED) & (result != Result.OVERLAPS)
    for i in np.flatnonzero(helped):
        own, begun = jax.device_put(scene_of(system, start, {name: value[i] for name, value in values.items()}))
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
    return state, result, number, worst, helped, overlap

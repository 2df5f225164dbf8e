"""A compiled loop of steps with their certificates, one program for any number of them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..constraints.detection import prepare_closest_points
from ..model.bodies import State
from ..model.records import Contacts, Stats, StepResult
from ..model.results import Result
from ..model.system import System
from ..runtime.compilation import jit
from ..solvers.blocks import Kept
from .stepper import Stepper, init

# steps per compiled call: long enough to hide the call, short enough for progress and early errors
CHUNK = 128
# steps whose certificates are computed at once, the fewest that have so many contacts: of fewer,
# calls of kernels would cost more than what they do, and of more, steps that nobody asked for
_TOGETHER, _BUSY = (8, 16, 32, 64, CHUNK), 256


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Record:
    """Steps, first axis their number: the states they end in, and what they left."""

    state: State
    contacts: Contacts
    stats: Stats
    result: jax.Array
    certificates: dict[str, jax.Array]


def joined(records: list[Record]) -> Record:
    """Records, NumPy arrays, one after another; violations that only some of them know are 0 in the
    others."""
    shapes = {name: np.shape(v)[1:] for record in records for name, v in record.certificates.items()}

    def full(record):
        none = {name: np.zeros((len(record.result), *shape)) for name, shape in shapes.items()}
        return dataclasses.replace(record, certificates=none | record.certificates)

    return jax.tree.map(lambda *parts: np.concatenate(parts), *map(full, records))


def programs(ahead: Callable, stepper: Stepper, system: System, state: State, h, closest=None) -> None:
    """What steps of h [s] from `state` call, `begin` and `advance`, for `compilation.prepare`;
    `closest`, if another run has that program already, is what `closest_points` gives."""
    closest = prepare_closest_points(ahead, system, state) if closest is None else closest
    memory = ahead(init, stepper, system, state, closest)
    _, _, ends, contacts, *_ = ahead(_march, stepper, system, state, memory, h, CHUNK)
    ahead(certificates, stepper, system, state, ends, contacts, np.zeros(CHUNK), CHUNK)


def advance(stepper: Stepper, system: System, state: State, memory, h: float, steps: int):
    """Up to `steps` <= CHUNK steps of h [s], stopping after one that is not solved.

    Returns the last state; the memory after it or, where it is not solved, before it; and a
    `Record` with first axis CHUNK whose first `steps` entries are filled.
    """
    end, memory, ends, contacts, stats, result = _march(stepper, system, state, memory, h, steps)
    violations = certificates(stepper, system, state, ends, contacts, _same(h), steps)
    return end, memory, Record(ends, contacts, stats, result, violations)


@functools.partial(jit, static_argnums=0)
def certificates(
    stepper: Stepper, system: System, first: State, ends: State, contacts: Contacts, h, count=None
) -> dict[str, jax.Array]:
    """Violations by name of steps one after another of `h` (n,) [s], each an array (n, bodies or
    contacts): from the `first` state, without that axis, to their `ends`. Those of the first
    `count` () at least, if it is given: others may be zeros."""
    starts = jax.tree.map(lambda one, all_: jnp.concatenate([one[None], all_[:-1]]), first, ends)
    steps, one = (starts, ends, contacts, h), functools.partial(stepper.certificate, system)
    together = min(size for size in _TOGETHER if size * system.contact_count >= _BUSY or size == CHUNK)
    if count is None or len(h) <= together:
        return jax.vmap(one)(*steps)
    one = jax.jit(one)  # so that it is traced once for its shapes and the loop

    def more(piece, found):
        own = jax.tree.map(lambda a: lax.dynamic_slice_in_dim(a, piece * together, together), steps)
        return jax.tree.map(
            lambda all_, some: lax.dynamic_update_slice_in_dim(all_, some, piece * together, 0), found, jax.vmap(one)(*own)
        )

    shapes = jax.eval_shape(one, *jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), steps))
    none = jax.tree.map(lambda s: jnp.zeros((len(h), *s.shape), s.dtype), shapes)
    return lax.fori_loop(0, -(-count // together), more, none)


def _same(h: float) -> np.ndarray:
    return np.full(CHUNK, h)


@functools.partial(jit, static_argnums=0)
def _march(stepper: Stepper, system: System, state: State, memory, h, steps):
    """`advance` without certificates: the last state, the memory, and the records one by one."""
    shapes = jax.eval_shape(_step, stepper, system, state, memory, h)
    empty = (shapes.state, shapes.contacts, shapes.stats, shapes.result)
    empty = jax.tree.map(lambda s: jnp.zeros((CHUNK, *s.shape), s.dtype), empty)

    def proceed(carry):
        i, _, _, _, going = carry
        return (i < steps) & going

    def body(carry):
        i, state, memory, records, _ = carry
        step = _step(stepper, system, state, memory, h)
        new = (step.state, step.contacts, step.stats, step.result)
        records = jax.tree.map(lambda all_, one: lax.dynamic_update_index_in_dim(all_, one, i, 0), records, new)
        solved = step.result == Result.SOLVED
        memory = jax.tree.map(functools.partial(_where, solved), step.memory, memory, is_leaf=_chooses)
        return i + 1, step.state, memory, records, solved

    start = (jnp.zeros((), int), state, memory, empty, jnp.asarray(True))
    _, state, memory, records, _ = lax.while_loop(proceed, body, start)
    return state, memory, *records


def _chooses(part) -> bool:
    """Whether a part of a memory says itself what remains of it after a step that is not solved."""
    return isinstance(part, Kept)


def _where(solved, new, old):
    return new.where(solved, old) if _chooses(new) else jnp.where(solved, new, old)


@functools.partial(jax.jit, static_argnums=0)
def _step(stepper: Stepper, system: System, state: State, memory, h) -> StepResult:
    """A step as a jitted function of its own, so that `_march` traces it once for its shapes and
    its loop."""
    return stepper.step(system, state, memory, h)

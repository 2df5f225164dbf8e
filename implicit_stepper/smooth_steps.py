"""A compiled loop of steps with error control, for as long as no contact changes its mode."""

from __future__ import annotations

import dataclasses
import enum
import functools

import jax
import jax.numpy as jnp
from jax import lax

from .bodies import State
from .compilation import jit
from .error_control import Tolerance, next_step, ratio
from .records import Contacts, Stats
from .results import Result
from .stages import Modes
from .steppers import radau_contact
from .steppers.radau_contact import Memory, RadauContact
from .system import System

CHUNK = 64  # steps per compiled call
_LESS, _MUCH_LESS = 0.9, 0.25  # by which a refused step is shortened at least, and one whose modes are unclear
_GOING = -1


class Reason(enum.IntEnum):
    """Why the loop returned: at the end of its time; its records are full; a contact changed its mode within the step that
    was tried; that step was not solved; the step that would be accurate is too short."""

    END = 0
    FULL = 1
    SWITCH = 2
    UNSOLVED = 3
    TOO_SHORT = 4


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Point:
    """Between two steps: `state` and `memory`; the `modes` of all contacts, if they are `known` (); `h` [s], the step to try
    next."""

    state: State
    memory: Memory
    modes: Modes
    known: jax.Array
    h: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Taken:
    """One accepted step: the `state` it ends in, what it left, its `modes` and `h` [s]."""

    state: State
    contacts: Contacts
    stats: Stats
    modes: Modes
    h: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Limits:
    """What a run holds to: `tolerance`; `start` (nb, d), the bodies' first positions; `end` [s]; `shortest` h [s]; `lenient`:
    whether a step may contain a change of modes, if it is accurate all the same."""

    tolerance: Tolerance
    start: jax.Array
    end: jax.Array
    shortest: jax.Array
    lenient: jax.Array


@functools.partial(jit, static_argnums=0)
def advance(stepper: RadauContact, system: System, point: Point, limits: Limits):
    """Steps from `point`: the point reached, whose h is the one tried last where the reason is a step that was not taken;
    `Taken` with a first axis of CHUNK, and how many of them are filled; the `Reason`; how many problems were solved, and how
    many steps refused as too inaccurate."""
    shapes = jax.eval_shape(functools.partial(_attempt, stepper), system, point, limits, point.h)[0]
    empty = jax.tree.map(lambda s: jnp.zeros((CHUNK, *s.shape), s.dtype), shapes)

    def proceed(carry):
        return carry["reason"] == _GOING

    def body(carry):
        point, n = carry["point"], carry["count"]
        left = limits.end - point.state.time
        h = jnp.where(left < 1.01 * point.h, left, jnp.where(left < 2 * point.h, left / 2, point.h))
        taken, memory, uniform, size, slopes = _attempt(stepper, system, point, limits, h)
        solved = taken.stats.residual < jnp.inf
        same = uniform & (~point.known | _equal(point.modes, taken.modes))
        fine = solved & (size <= 1)
        accept = fine & (same | (limits.lenient & (slopes <= 1)))
        unclear = fine & ~accept & ~point.known  # the modes after an event: short enough a step has the same at all stages
        wanted = next_step(stepper.stages, h, size)
        wanted = jnp.where(accept, jnp.where(h < point.h, jnp.maximum(wanted, point.h), wanted), jnp.minimum(wanted, _LESS * h))
        wanted = jnp.where(unclear | (accept & ~same), jnp.minimum(wanted, _MUCH_LESS * h), wanted)
        reason = jnp.select(
            [~solved, accept & (h >= left), n + accept == CHUNK, ~accept & (wanted < limits.shortest), fine & ~accept & ~unclear],
            [int(r) for r in (Reason.UNSOLVED, Reason.END, Reason.FULL, Reason.TOO_SHORT, Reason.SWITCH)],
            _GOING,
        )
        wanted = jnp.where(jnp.isin(reason, jnp.array([Reason.UNSOLVED, Reason.SWITCH])), h, wanted)
        new = Point(taken.state, memory, taken.modes, jnp.asarray(True), wanted)
        old = dataclasses.replace(point, h=wanted)
        return {
            "point": jax.tree.map(lambda a, b: jnp.where(accept, a, b), new, old),
            # what is not accepted is overwritten by the next attempt
            "records": jax.tree.map(lambda all_, one: all_.at[n].set(one), carry["records"], taken),
            "count": n + accept,
            "reason": reason,
            "solves": carry["solves"] + 1,
            "refused": carry["refused"] + (solved & ~fine),
        }

    zero = jnp.zeros((), int)
    first = {"point": point, "records": empty, "count": zero, "reason": zero + _GOING, "solves": zero, "refused": zero}
    last = lax.while_loop(proceed, body, first)
    return tuple(last[name] for name in ("point", "records", "count", "reason", "solves", "refused"))


@functools.partial(jax.jit, static_argnums=0)
def _attempt(stepper: RadauContact, system: System, point: Point, limits: Limits, h):
    """A step of h [s]: `Taken`, with an infinite residual where it is not solved; memory; whether all stages have the same
    modes; the error estimate over what is allowed, and the same for a step that ends contact or sticking, at which forces are
    continuous and only their slopes are not."""
    state, memory = point.state, point.memory
    step, modes, missed = radau_contact.attempt(stepper, system, state, memory, h)
    last = jax.tree.map(lambda a: a[-1], modes)
    uniform = _equal(jax.tree.map(lambda a: jnp.broadcast_to(a[-1], a.shape), modes), modes)
    uniform &= _equal(modes.touching, modes.pressed)
    estimate = functools.partial(ratio, system, limits.tolerance, stepper.stages, state, limits.start, missed)
    stats = dataclasses.replace(step.stats, residual=jnp.where(step.result == Result.SOLVED, step.stats.residual, jnp.inf))
    taken = Taken(step.state, step.contacts, stats, last, h)
    return taken, step.memory, uniform, estimate(h), estimate(jnp.sqrt(system.length / system.acceleration))


def _equal(one, other):
    """Whether two trees of booleans are equal, ()."""
    same = jax.tree.map(lambda a, b: jnp.all(a == b), one, other)
    return functools.reduce(jnp.logical_and, jax.tree.leaves(same), jnp.asarray(True))

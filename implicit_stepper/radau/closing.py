"""When within a step a contact closes: the length of a step at whose end it touches, and does not
press yet.

By regula falsi (Dowell, Jarratt 1971, "Illinois") over lengths of steps from one state. A step that
is too long has no gap: the way that a body of the least mass would go with the impulse stands in
its place.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from ..model.system import System
from ..runtime.compilation import jit

_NOTHING = 1e-9  # of m g h: an impulse that only rounding left
MOST = 80  # steps tried for one that ends where a contact closes
_HALVED = 3  # every so many of them the rest is halved


class Bracket(NamedTuple):
    """Between a step that is too short, `low` (2,), and one that is too long, `high` (2,): their
    lengths [s] and gaps [m]; on which side the `last` one was, 1 if it was too long, -1 if too
    short, and how many (`count`) have been tried."""

    low: jax.Array
    high: jax.Array
    last: jax.Array
    count: jax.Array


def around(h, gap) -> Bracket:
    """Before the first step is tried, of h [s], of contacts that are a `gap` [m] apart as it
    begins."""
    nothing = jnp.zeros((), int)
    return Bracket(jnp.array([0.0, gap]), jnp.array([h, -gap]), nothing, nothing)


@jit
def narrowed(bracket: Bracket, size, gap, presses, way) -> tuple[Bracket, jax.Array]:
    """After a step of a `size` [s], which left a `gap` [m], or `presses`, which would lead a `way`
    [m]; and the length of the next one."""
    low, high, last, count = bracket
    weight = jnp.array([1.0, 0.5])  # an end that stays twice counts half: it would stay for ever
    low_kept = jnp.where(last > 0, low * weight, low)
    high_kept = jnp.where(last < 0, high * weight, high)
    low = jnp.where(presses, low_kept, jnp.array([size, gap]))
    high = jnp.where(presses, jnp.array([size, -way]), high_kept)
    share = jnp.where(count % _HALVED < _HALVED - 1, low[1] / (low[1] - high[1]), 0.5)
    narrower = Bracket(low, high, jnp.where(presses, 1, -1), count + 1)
    return narrower, low[0] + share * (high[0] - low[0])


def presses(system: System, impulses, size):
    """Whether normal `impulses` [N s] of a step of a `size` [s] are more than rounding left."""
    return impulses > _NOTHING * jnp.min(system.mass) * system.acceleration * size

"""A batch over the processes of `jax.distributed`, which share its blocks: all make the same call,
each computes every n-th block, and each gets all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jax
import numpy as np
from jax.experimental import multihost_utils


def shares(count: int) -> list[int]:
    """The numbers of this process's blocks of `count`, as many as every other's: who has none left
    has the last one again."""
    n, own = jax.process_count(), jax.process_index()
    return [min(first + own, count - 1) for first in range(0, count, n)]


def writes(number: int) -> bool:
    """Whether the block of that number is this process's to write."""
    return number % jax.process_count() == jax.process_index()


def first_here(make: Callable):
    """What `make()` gives, called by the first process before the others, which do not wait for it
    in vain where it raises."""
    if jax.process_count() == 1:
        return make()
    try:
        found = make() if jax.process_index() == 0 else None
    finally:
        multihost_utils.sync_global_devices("made by the first process")
    return make() if found is None else found


def gathered(parts: Mapping[int, tuple], count: int, size: int) -> list[tuple]:
    """All `count` blocks in their order, from every process's `parts` by number, trees of arrays
    whose first axis is at most `size`."""
    n = jax.process_count()
    if n == 1:
        return [parts[number] for number in range(count)]
    mine = [parts[number] for number in shares(count)]
    wide = jax.tree.map(lambda *own: np.stack([np.resize(a, (size, *a.shape[1:])) for a in own]), *mine)
    every = multihost_utils.process_allgather(wide)
    return [jax.tree.map(lambda a, at=number: a[at % n, at // n], every) for number in range(count)]

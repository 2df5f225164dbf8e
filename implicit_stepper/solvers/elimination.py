"""Gauss and Jordan's elimination of what a link owns, link by link with pivots from its own
rows."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from shapes.shards import varying_like

_GOOD = 0.01  # pivots of free unknowns, relative to the largest entry of their block
_GOOD_PAIR = 0.05  # pivots of pairs, whose rows and unknowns are dimensionless
# the largest derivative of a row by other unknowns, relative to its own, up to which it is alone
_COUPLED = 1e-3
# added to the derivative of a pair's row by its unknown: multipliers that equations leave open stay
# near
_GIVE = 1e-9


@dataclasses.dataclass(frozen=True)
class Links:
    """Alike links. `nodes`, for each the numbers of the nodes on its sides; `own`, how many
    unknowns and rows each has, of which the first `free` pivot on any of the first `free` rows;
    `pairs`, for the others (unknown, row, sign, follows): an unknown pivots on its own row only,
    whose derivative by it has that sign, and unless it always follows from that row, only where the
    row holds hardly any other unknown, as that of an inactive constraint."""

    nodes: tuple[tuple[int, ...], ...]
    own: int
    free: int
    pairs: tuple[tuple[int, int, float, bool], ...]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Local:
    """n links of a group after elimination, with o unknowns of their own and 2 w of their nodes.

    Eliminated unknowns are `alone` (n, o, o) F - `follow` (n, o, o + 2 w) dz; `push` (n, o + 2 w,
    o) takes F to the other rows, those that are left and those of nodes; `rows` and `columns` (n,
    o) are those that are left."""

    alone: jax.Array
    follow: jax.Array
    push: jax.Array
    rows: jax.Array
    columns: jax.Array


def eliminate(group: Links, block, give=_GIVE) -> tuple[Local, jax.Array]:
    """Of one link, not padded, with the matrix (own + acting, own + acting) of the other rows. The
    loop has [K, 1] alone: what it becomes, T [K, 1], takes all other columns along."""
    own, size, free = group.own, len(block), group.free
    block = block + give * signs(group, size)
    K = block[:own, :own]
    largest = jnp.max(jnp.abs(K[:free, :free]), initial=0.0)
    numbers = np.arange(free * free).reshape(free, free)

    def pivot(carry, r, c, least):
        matrix, rows, columns, found = carry
        # an entry, a row and a column are looked up: a sum of products with zeros takes far longer
        entry, across, down = matrix[r, c], matrix[r], matrix[:, c]
        good = (jnp.abs(entry) > least) & rows[r] & columns[c]
        row, column = np.arange(own) == r, np.arange(own) == c
        scaled = across / jnp.where(good, entry, 1.0)
        matrix = jnp.where(good, matrix - (down - row)[:, None] * scaled, matrix)
        row, column = row & good, column & good
        return matrix, rows & ~row, columns & ~column, found | (column[:, None] & row)

    def search(_, carry):
        matrix, rows, columns, _ = carry
        tried = jnp.abs(matrix[:free, :free]) * (rows[:free, None] & columns[:free])
        most = jnp.max(tried)  # argmax is a loop of scalars on a CPU
        at = jnp.max(jnp.where(tried == most, numbers, 0))
        return pivot(carry, *jnp.divmod(at, free), _GOOD * largest)

    every = jnp.ones(own, bool)
    start = jnp.concatenate([K, jnp.eye(own)], axis=1), every, every, jnp.zeros((own, own), bool)
    carry = varying_like(start, block)
    carry = jax.lax.fori_loop(0, free, search, carry) if free else carry
    for (unknown, row, *_), least in zip(group.pairs, _least_of_pairs(group, block), strict=True):
        carry = pivot(carry, row, unknown, least)
    matrix, rows, columns, found = carry
    push = matrix[:, own:]
    alone = found.astype(float) @ push
    follow = (alone @ block[:own]) * jnp.concatenate([columns, jnp.ones(size - own, bool)])
    acting = block[own:] - block[own:, :own] @ follow
    rest = jnp.concatenate([push @ block[:own], acting])
    push = jnp.concatenate([push, -block[own:, :own] @ alone])
    return Local(alone, follow, push, rows, columns), rest


def _least_of_pairs(group: Links, block) -> list:
    """The least pivots () of pairs. What is alone itself does not count in the rows of those that
    come after it."""
    found, counts = [], jnp.ones(len(block), bool)
    for unknown, row, _, follows in group.pairs:
        own = jnp.abs(block[row, unknown])
        others = jnp.max(jnp.where(counts & (np.arange(len(block)) != unknown), jnp.abs(block[row]), 0.0))
        alone = others <= _COUPLED * own
        found.append(jnp.where(follows | alone, _GOOD_PAIR, jnp.inf))
        counts = counts if follows else counts & ((np.arange(len(block)) != unknown) | ~alone)
    return found


def signs(group: Links, size: int) -> np.ndarray:
    """(size, size): the sign of each pair's derivative."""
    signs = np.zeros((size, size))
    for unknown, row, sign, _ in group.pairs:
        signs[row, unknown] = sign
    return signs


def padded(local: Local, rest, own: int, most: int, acting: int) -> tuple[Local, jax.Array]:
    """Links with `own` unknowns among those with up to `most`, and two sides each."""
    more, sides = most - own, acting + own - rest.shape[-1]

    def grown(array, *axes):
        """With `axes` of own unknowns grown, and with sides at their ends where these follow."""
        for axis, with_sides in axes:
            parts = [array[(slice(None),) * axis + (slice(0, own),)], *_zeros(array, axis, more)]
            if with_sides:
                parts += [array[(slice(None),) * axis + (slice(own, None),)], *_zeros(array, axis, sides)]
            array = jnp.concatenate(parts, axis=axis)
        return array

    padded = Local(
        grown(local.alone, (1, False), (2, False)),
        grown(local.follow, (1, False), (2, True)),
        grown(local.push, (1, True), (2, False)),
        grown(local.rows, (1, False)),
        grown(local.columns, (1, False)),
    )
    return padded, grown(rest, (1, True), (2, True))


def _zeros(array, axis: int, count: int) -> list:
    shape = (*array.shape[:axis], count, *array.shape[axis + 1 :])
    return [jnp.zeros(shape, array.dtype)] if count else []

"""What links leave of a Jacobian in blocks: its matrix of the nodes and of slots for unknowns that
were not eliminated."""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .elimination import Links, Local, padded

# of slots, in the last of these: for so many filled ones there is a size of the condensed system
_PARTS = (1, 2, 3, 4, 5, 6, 8)


@dataclasses.dataclass(frozen=True)
class Pattern:
    """What does not change with values: `count` nodes of `width` unknowns, groups of `links`, and
    the number of `slots` for unknowns of links that are not eliminated. Unknowns and rows stand as
    z = [nodes, links of the first group, ...]."""

    count: int
    width: int
    links: tuple[Links, ...]
    slots: int

    @property
    def of_nodes(self) -> int:
        """The number of unknowns of all nodes."""
        return self.count * self.width

    @property
    def size(self) -> int:
        """The number of unknowns of all nodes and slots."""
        return self.of_nodes + self.slots

    @property
    def own(self) -> int:
        """The largest number of own unknowns of a link."""
        return max(group.own for group in self.links)

    def leading(self, filled, function, *arguments):
        """`function(size, *arguments)` for the least of a few sizes of the condensed system that
        has its `filled` () rows: factors cost the cube of it, and most links leave nothing most of
        the time."""
        sizes = sorted({self.of_nodes + -(-self.slots * part // _PARTS[-1]) for part in _PARTS})
        number = jnp.minimum(jnp.sum(filled > np.array(sizes)), len(sizes) - 1)
        return jax.lax.switch(number, [functools.partial(function, size) for size in sizes], *arguments)

    def incidence(self) -> np.ndarray:
        """(links, 2, nodes): 1 where the node on a side of a link is that one."""
        every = np.zeros((sum(len(group.nodes) for group in self.links), 2, self.count))
        for link, nodes in enumerate(nodes for group in self.links for nodes in group.nodes):
            for side, node in enumerate(nodes):
                every[link, side, node] = 1.0
        return every

    def between(self) -> dict[tuple[int, int], list[int]]:
        """For two nodes the links between them, as 2 link + the side of the first of the two."""
        found: dict = {}
        for link, nodes in enumerate(nodes for group in self.links for nodes in group.nodes):
            if len(nodes) == 2:
                for side in range(2):
                    found.setdefault((nodes[side], nodes[1 - side]), []).append(2 * link + side)
        return found


class Rest(NamedTuple):
    """The matrix (x, x) of the nodes, with m unknowns and rows, and the slots: `nodes` (m, m), NaN
    where there are too few slots; `across` (slots, m), columns of their rows by what is in slots;
    `rows` (slots, m) in slots by nodes; `slots` (slots, slots)."""

    nodes: jax.Array
    across: jax.Array
    rows: jax.Array
    slots: jax.Array

    def leading(self, size: int):
        """Its first `size` rows and columns: the others are those of empty slots."""
        k = size - len(self.nodes)
        return jnp.block([[self.nodes, self.across[:k].T], [self.rows[:k], self.slots[:k, :k]]])


class Places(NamedTuple):
    """Where what links leave stands, of all k rows and unknowns that they own, group by group: the
    places `rows` (slots,) of the rows in the slots, k for an empty one; the slots `columns` (k,) of
    the unknowns that are left."""

    rows: jax.Array
    columns: jax.Array


def places(pattern: Pattern, local: tuple[Local, ...]) -> Places:
    """Those of what `local` has left."""
    columns = jnp.minimum(jnp.cumsum(flat(own.columns for own in local)) - 1, pattern.slots - 1)
    return Places(_slots(pattern, flat(own.rows for own in local)), columns)


def condensed(pattern: Pattern, nodes, local: tuple[Local, ...], left, place) -> Rest:
    """What is left of a Jacobian, of what links have `left`, per group those that are in their
    `place`, see `blocks.eliminated`."""
    count, w, o = pattern.count, pattern.width, pattern.own
    incidence = pattern.incidence()
    n = len(incidence)

    alike = [padded(own, some, group.own, o, 2 * w) for group, own, some in zip(pattern.links, local, left, strict=True)]
    starts = np.cumsum([0, *(len(own) for own in left)])
    nothing, behind = starts[-1], zip(place, left, starts, strict=False)
    place = jnp.concatenate([jnp.where(own < len(some), start + own, nothing) for own, some, start in behind])
    left = jnp.concatenate([*(own for _, own in alike), jnp.zeros((1, o + 2 * w, o + 2 * w))])
    among = _among(pattern, nodes, left[place, o:, o:].reshape(n, 2, w, 2, w))
    row_flags, column_flags = (flat(flags) for flags in zip(*((own.rows, own.columns) for own, _ in alike), strict=True))
    rows, columns = _slots(pattern, row_flags), _slots(pattern, column_flags)
    filled = rows < n * o
    row_link, row_own = jnp.divmod(jnp.minimum(rows, n * o - 1), o)
    column_link, column_own = jnp.divmod(jnp.minimum(columns, n * o - 1), o)
    sides = jnp.asarray(incidence)
    of_rows = left[place[row_link], row_own]
    from_nodes = of_rows[:, o:].reshape(-1, 2, 1, w)
    from_nodes = jnp.sum(from_nodes * sides[row_link][..., None], axis=1).reshape(-1, count * w)
    to_nodes = left[place[column_link], o:, column_own].reshape(-1, 2, 1, w)
    to_nodes = jnp.sum(to_nodes * sides[column_link][..., None], axis=1).reshape(-1, count * w)
    # a row has entries in the columns of its own link only
    same = (row_link[:, None] == column_link) & (columns < n * o)
    own = jnp.where(same, of_rows[np.arange(len(rows))[:, None], column_own], 0.0)
    own = jnp.where(filled[:, None], own, jnp.eye(len(rows)))
    among = among + jnp.where(jnp.sum(row_flags) <= pattern.slots, 0.0, jnp.nan)
    return Rest(among, *(jnp.where(filled[:, None], part, 0.0) for part in (to_nodes, from_nodes)), own)


def _among(pattern: Pattern, nodes, blocks):
    """The matrix (count w, count w) among nodes: their own blocks (count, w, w) and those of links,
    (n, 2, w, 2, w), by their sides. Blocks between the same two nodes are added, and all then
    looked up."""
    count, w, n = pattern.count, pattern.width, len(blocks)
    own = jnp.stack([blocks[:, side, :, side] for side in range(2)], axis=1).reshape(2 * n, w * w)
    diagonal = nodes.reshape(count, w * w) + pattern.incidence().reshape(2 * n, count).T @ own
    across = jnp.stack([blocks[:, side, :, 1 - side] for side in range(2)], axis=1).reshape(2 * n, w * w)
    of_pair = pattern.between()
    sources = np.full((len(of_pair), max(map(len, of_pair.values()), default=1)), 2 * n)
    place = np.full((count, count), len(of_pair))
    for number, (pair, found) in enumerate(of_pair.items()):
        sources[number, : len(found)], place[pair] = found, number
    np.fill_diagonal(place, len(of_pair) + 1 + np.arange(count))
    zero = jnp.zeros((1, w * w))
    summed = jnp.sum(jnp.concatenate([across, zero])[sources], axis=1)
    every = jnp.concatenate([summed, zero, diagonal])[place]
    return every.reshape(count, count, w, w).transpose(0, 2, 1, 3).reshape(count * w, count * w)


def _slots(pattern: Pattern, left):
    """The places (slots,) of what is `left` (k,), and k where a slot is empty."""
    return jnp.nonzero(left, size=pattern.slots, fill_value=left.size)[0]


def flat(parts):
    """All entries of the `parts`, one behind the other."""
    return jnp.concatenate([part.reshape(-1) for part in parts])

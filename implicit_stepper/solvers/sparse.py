"""Sparse linear systems of nodes and links, after elimination of what links own alone (see
`blocks`).

Links couple nodes only through the bodies that they are between, so that the matrix has the graph
of the nodes: ordered by nested dissection it fills little. SuperLU keeps that order, and exchanges
rows only where a pivot is a hundred times smaller than another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse.linalg import SuperLU

_PIVOT = 0.01  # relative to the largest of its column: a smaller one on the diagonal is exchanged
# entries that are left out of the matrix, whose rows and unknowns are dimensionless: open links have
# 1e-17
_SLIGHT = 1e-12


class Left(NamedTuple):
    """Of m links with `nodes` (m, s): which of their own `rows` and `columns` (m, o) are left, and
    the matrix `rest` (m, o + s w, o + s w) of the other rows, own ones and those of the nodes."""

    nodes: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    rest: np.ndarray

    def edges(self) -> np.ndarray:
        """Pairs (k, 2) of nodes that links couple."""
        own = self.rows.shape[1]
        couples = np.any(self.rows, axis=1) | np.any(np.abs(self.rest[:, own:, own:]) > _SLIGHT, axis=(1, 2))
        return self.nodes[couples] if self.nodes.shape[1] == 2 else np.zeros((0, 2), int)


@dataclasses.dataclass(frozen=True)
class Sparse:
    """A factorised system of `count` nodes of `width` unknowns: `place` of nodes (count, width)
    and, per group of links, of rows and columns (m, o), -1 where none is left."""

    count: int
    width: int
    nodes: np.ndarray
    links: tuple[Left, ...]
    rows: tuple[np.ndarray, ...]
    columns: tuple[np.ndarray, ...]
    factors: SuperLU

    @property
    def size(self) -> int:
        """Number of unknowns."""
        return self.factors.shape[0]

    def solve(self, of_nodes, of_links) -> tuple[np.ndarray, list[np.ndarray]]:
        """Unknowns of nodes (count, width), and those that are left of links (m, o), zero
        elsewhere; from the right sides `of_nodes` (count, width) and `of_links` (m, o + s w), rows
        as in `Left.rest`."""
        right = np.zeros(self.size)
        total = np.array(of_nodes, float)
        for link, rows, pushed in zip(self.links, self.rows, of_links, strict=True):
            own = rows.shape[1]
            for side, numbers in enumerate(link.nodes.T):
                np.add.at(total, numbers, pushed[:, own + side * self.width : own + (side + 1) * self.width])
            right[rows[rows >= 0]] = pushed[:, :own][rows >= 0]
        right[self.nodes] = total
        x = self.factors.solve(right)
        return x[self.nodes], [np.where(own >= 0, x[own], 0.0) for own in self.columns]


def factorised(nodes, links: Sequence[Left], order) -> Sparse | None:
    """The system with blocks `nodes` (count, w, w) and `links`, None where it is singular; `order`
    (count,): the rank of every node."""
    from scipy.sparse import csc_matrix  # here, as few runs need it
    from scipy.sparse.linalg import splu

    count, width = nodes.shape[:2]
    ranks = [np.repeat(np.asarray(order, float), width)]
    for link in links:
        last = np.max(order[link.nodes], axis=1) + 0.5  # right after both of its nodes
        ranks.append(np.repeat(last, np.sum(link.columns, axis=1)))
    places = np.empty(sum(map(len, ranks)), int)
    places[np.argsort(np.concatenate(ranks), kind="stable")] = np.arange(len(places))
    of_nodes, start = places[: count * width].reshape(count, width), count * width
    rows, columns = [], []
    for link in links:
        stop = start + int(np.sum(link.columns))
        for found, mask in ((rows, link.rows), (columns, link.columns)):
            own = np.full(mask.shape, -1)
            own[mask] = places[start:stop]
            found.append(own)
        start = stop
    entries = [(nodes, np.broadcast_to(of_nodes[:, :, None], nodes.shape), np.broadcast_to(of_nodes[:, None], nodes.shape))]
    for link, own_rows, own_columns in zip(links, rows, columns, strict=True):
        acting = of_nodes[link.nodes].reshape(len(link.nodes), -1)
        at_rows, at_columns = (np.concatenate([own, acting], axis=1) for own in (own_rows, own_columns))
        kept = (at_rows[:, :, None] >= 0) & (at_columns[:, None] >= 0) & (np.abs(link.rest) > _SLIGHT)
        spread = np.broadcast_to(at_rows[:, :, None], kept.shape), np.broadcast_to(at_columns[:, None], kept.shape)
        entries.append((link.rest[kept], *(index[kept] for index in spread)))
    values, i, j = (np.concatenate([np.ravel(entry[k]) for entry in entries]) for k in range(3))
    matrix = csc_matrix((values, (i, j)), shape=(len(places), len(places)))
    options = {"SymmetricMode": True, "Equil": False}
    try:
        factors = splu(matrix, permc_spec="NATURAL", diag_pivot_thresh=_PIVOT, options=options)
    except RuntimeError:  # an exact zero in the place of a pivot
        return None
    return Sparse(count, width, of_nodes, tuple(links), tuple(rows), tuple(columns), factors)

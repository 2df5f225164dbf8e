"""Sparse linear systems of nodes and links, after elimination of what links own alone (see
`blocks`).

Links couple nodes only through the bodies that they are between, so that what is left is a system
of nodes with the graph of those links that couple: eliminated in the order of least degree, it
fills little. SuperLU keeps that order, and exchanges rows only where a pivot is a hundred times
smaller than another, or a million times where no rows of links are left.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse.linalg import SuperLU

# relative to the largest of its column: a smaller pivot on the diagonal is exchanged; and where
# nodes alone are left, whose blocks have theirs there
_PIVOT, _PIVOT_OF_NODES = 0.01, 1e-6
# the largest entry of an inverse by which what is left of a link is taken out before nodes are
_STIFFEST = 1e8
# entries that are left out of the matrix, whose rows and unknowns are dimensionless: open links
# have 1e-17
_SLIGHT = 1e-12


class Left(NamedTuple):
    """Of m links with `nodes` (m, s): which of their own `rows` and `columns` (m, o) are left, and
    the matrix `rest` (m, o + s w, o + s w) of the other rows, own ones and those of the nodes."""

    nodes: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    rest: np.ndarray

    @property
    def between(self) -> np.ndarray:
        """The rows and columns (m, s w, s w) of the nodes in `rest`."""
        own = self.rows.shape[1]
        return self.rest[:, own:, own:]

    def acts(self) -> np.ndarray:
        """Which (m,) have a part in the system."""
        return _act(self.rows, self.between)


class Condensed(NamedTuple):
    """Links of one group, by their numbers `members` (k,), each with q `rows` and `columns` (k, q)
    of its own that follow from its nodes: unknowns `inverse` (k, q, q) right - `follow` (k, q, s w)
    x, and `push` (k, s w, q) right from the right sides of nodes."""

    members: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    inverse: np.ndarray
    follow: np.ndarray
    push: np.ndarray


@dataclasses.dataclass(frozen=True)
class Sparse:
    """A factorised system of `count` nodes of `width` unknowns: places of `nodes` (count, width)
    and, per group of links, of rows and columns (m, o), -1 where none is left, or it is one of
    those that are `condensed`."""

    count: int
    width: int
    nodes: np.ndarray
    links: tuple[Left, ...]
    rows: tuple[np.ndarray, ...]
    columns: tuple[np.ndarray, ...]
    condensed: tuple[tuple[Condensed, ...], ...]
    factors: SuperLU

    @property
    def size(self) -> int:
        """Number of unknowns."""
        return self.factors.shape[0]

    def solve(self, of_nodes, of_links) -> tuple[np.ndarray, list[np.ndarray]]:
        """Unknowns of nodes (count, width), and those that are left of links (m, o), zero
        elsewhere; from the right sides `of_nodes` (count, width) and `of_links` (m, o + s w), rows
        as in `Left.rest`."""
        right, total = np.zeros(self.size), np.array(of_nodes, float)
        for link, rows, parts, pushed in zip(self.links, self.rows, self.condensed, of_links, strict=True):
            own = rows.shape[1]
            acting = np.array(pushed[:, own:])
            for part in parts:
                acting[part.members] -= _products(part.push, _entries(pushed, part.members, part.rows))
            for side, numbers in enumerate(link.nodes.T):
                np.add.at(total, numbers, acting[:, side * self.width : (side + 1) * self.width])
            right[rows[rows >= 0]] = pushed[:, :own][rows >= 0]
        right[self.nodes] = total
        x = self.factors.solve(right)
        nodes, found = x[self.nodes], []
        for link, columns, parts, pushed in zip(self.links, self.columns, self.condensed, of_links, strict=True):
            values = np.where(columns >= 0, x[columns], 0.0)
            for part in parts:
                moves = nodes[link.nodes[part.members]].reshape(len(part.members), -1)
                own = _products(part.inverse, _entries(pushed, part.members, part.rows)) - _products(part.follow, moves)
                values[part.members[:, None], part.columns] = own
            found.append(values)
        return nodes, found

    def answers(self, of_nodes) -> np.ndarray:
        """The unknowns of nodes (k, count, width) for each of the right sides `of_nodes` (k, count,
        width), those of links zero."""
        right = np.zeros((self.size, len(of_nodes)))
        right[self.nodes] = np.moveaxis(of_nodes, 0, -1)
        return np.moveaxis(self.factors.solve(right)[self.nodes], -1, 0)


def _products(matrices, vectors) -> np.ndarray:
    return np.einsum("kij,kj->ki", matrices, vectors)


def _entries(values, members, places) -> np.ndarray:
    """Of values (m, n) those of `members` (k,) at `places` (k, q)."""
    return values[members[:, None], places]


def _act(rows, between) -> np.ndarray:
    """Which (m,) links with these `rows` left, and that `between` their nodes, have a part in the
    system."""
    return np.any(rows, axis=1) | np.any(_counts(between), axis=(1, 2))


def condensed(link: Left) -> tuple[tuple[Condensed, ...], Left, np.ndarray]:
    """The links whose own blocks have inverses with digits, by how many rows are left of them; all
    links without these rows, and what is then left between their nodes (m, s w, s w)."""
    own, counts = link.rows.shape[1], np.sum(link.rows, axis=1)
    if not np.any(counts):
        return (), link, link.between
    parts, between = [], np.array(link.between)
    rows_left, columns_left = np.array(link.rows), np.array(link.columns)
    for q in np.unique(counts[counts > 0]):
        members = np.flatnonzero(counts == q)
        rows, columns = (np.nonzero(left[members])[1].reshape(-1, q) for left in (link.rows, link.columns))
        blocks = link.rest[members[:, None, None], rows[:, :, None], columns[:, None]]
        regular = np.linalg.det(blocks) != 0
        inverse = np.linalg.inv(blocks[regular])
        good = np.max(np.abs(inverse), axis=(1, 2), initial=0.0) < _STIFFEST
        if not np.any(good):
            continue
        members, rows, columns = (a[regular][good] for a in (members, rows, columns))
        inverse = inverse[good]
        follow = inverse @ link.rest[members[:, None], rows, own:]
        down = np.swapaxes(link.rest[members[:, None], own:, columns], 1, 2)
        between[members] -= down @ follow
        rows_left[members], columns_left[members] = False, False
        parts.append(Condensed(members, rows, columns, inverse, follow, down @ inverse))
    return tuple(parts), link._replace(rows=rows_left, columns=columns_left), between


def factorised(nodes, links: Sequence[Left]) -> Sparse | None:
    """The system with blocks `nodes` (count, w, w) and `links`, None where it is singular or not
    finite."""
    from scipy.sparse.linalg import splu  # here, as few runs need it

    count, width = nodes.shape[:2]
    parts, links, between = zip(*map(condensed, links), strict=True) if links else ((), (), ())
    acts = [_act(link.rows, own) for link, own in zip(links, between, strict=True)]
    edges = [link.nodes[own] for link, own in zip(links, acts, strict=True) if link.nodes.shape[1] == 2]
    order = least_degree(count, np.concatenate([np.zeros((0, 2), int), *edges]))
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
    blocks, entries = [(order[:, None], nodes)], []
    for link, own_rows, own_columns, some, own in zip(links, rows, columns, acts, between, strict=True):
        left = np.any(link.rows, axis=1)
        acting = of_nodes[link.nodes].reshape(len(link.nodes), -1)[left]
        at = (np.concatenate([own_places[left], acting], axis=1) for own_places in (own_rows, own_columns))
        entries.append(_entries_at(link.rest[left], *at))
        some = np.flatnonzero(some & ~left)
        blocks.append((order[link.nodes[some]], own[some]))
    matrix, pivot = _matrix(count, width, blocks), _PIVOT_OF_NODES
    if len(places) > count * width:
        pivot = _PIVOT
        matrix = _with_entries(matrix, of_nodes[np.argsort(order)].reshape(-1), entries, len(places))
    if not np.all(np.isfinite(matrix.data)):  # SuperLU would go on with them
        return None
    options = {"SymmetricMode": True, "Equil": False}
    try:
        factors = splu(matrix, permc_spec="NATURAL", diag_pivot_thresh=pivot, options=options)
    except RuntimeError:  # an exact zero in the place of a pivot
        return None
    return Sparse(count, width, of_nodes, links, tuple(rows), tuple(columns), parts, factors)


def _matrix(count: int, width: int, blocks):
    """The sparse matrix, in columns, of `count` nodes, a sum of `blocks`: numbers (m, s) of nodes
    and matrices (m, s width, s width) between them. They are sorted as blocks, of which there are a
    36th as many as entries."""
    from scipy.sparse import bsr_matrix

    keys, values = [], []
    for nodes, own in blocks:
        m, s = nodes.shape
        keys.append((nodes[:, None] * count + nodes[:, :, None]).reshape(-1))
        # transposed, as rows of the transpose are columns
        values.append(own.reshape(m, s, width, s, width).transpose(0, 1, 3, 4, 2).reshape(-1, width, width))
    keys, values = np.concatenate(keys), np.concatenate(values)
    order = np.argsort(keys, kind="stable")
    first = np.flatnonzero(np.diff(keys[order], prepend=-1))
    columns, rows = np.divmod(keys[order[first]], count)
    starts = np.searchsorted(columns, np.arange(count + 1))
    summed = np.add.reduceat(values[order], first)
    return bsr_matrix((summed, rows, starts), shape=(count * width,) * 2).tocsr().T


def _with_entries(matrix, places, entries, size: int):
    """A `matrix` of nodes, whose rows and columns come to these `places`, with other `entries` in
    one of so many rows."""
    from scipy.sparse import csc_matrix

    own = matrix.tocoo()
    entries = [(own.data, places[own.row], places[own.col]), *entries]
    values, i, j = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    return csc_matrix((values, (i, j)), shape=(size, size))


def _entries_at(matrices, rows, columns):
    """Entries (k,) of `matrices` (m, n, n), and their places: `rows` and `columns` (m, n), -1 where
    there is none."""
    kept = (rows[:, :, None] >= 0) & (columns[:, None] >= 0) & _counts(matrices)
    return matrices[kept], *(np.broadcast_to(places, kept.shape)[kept] for places in (rows[:, :, None], columns[:, None]))


def _counts(entries):
    """Which are not slight; what is no number is not, so that it is refused."""
    return ~(np.abs(entries) <= _SLIGHT)


def least_degree(count: int, edges) -> np.ndarray:
    """The rank (count,) of nodes with `edges` (m, 2), of which the next to be eliminated always has
    the fewest neighbours: as SuperLU orders a matrix with one row for each node."""
    from scipy.sparse import csc_matrix  # here, as few runs need it
    from scipy.sparse.linalg import splu

    ends = np.concatenate([edges, edges[:, ::-1]])
    values = np.append(np.full(len(ends), -1.0), np.full(count, len(edges) + 1.0))
    places = np.concatenate([ends, np.repeat(np.arange(count)[:, None], 2, axis=1)]).T
    graph = csc_matrix((values, tuple(places)), shape=(count, count))
    return splu(graph, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}).perm_c

"""The order in which the nodes of a graph in space are eliminated: nested dissection.

Nodes are halved by a plane; those that are to be taken out so that no edge joins the halves come
after both, and each half is halved again. The fewest such nodes are a vertex cover of the edges
that cross the plane, which by König's theorem a largest matching of these edges gives.
"""

from __future__ import annotations

import dataclasses

import numpy as np

_LEAF = 24  # nodes of a part that is not dissected any further
# new edges, relative to those that were known, up to which an order is kept: each may join halves
# that had no edge
_NEW = 0.02


@dataclasses.dataclass(frozen=True)
class Order:
    """The `rank` (n,) of every node, found for the edges with sorted `keys` (m,)."""

    rank: np.ndarray
    keys: np.ndarray


def ordered(points, edges, last: Order | None = None) -> Order:
    """An order of nodes at `points` (n, d) with `edges` (m, 2): the `last` one, where hardly any of
    the edges is new to it."""
    keys = np.unique(np.min(edges, axis=1) * len(points) + np.max(edges, axis=1))
    if last is not None and np.sum(~np.isin(keys, last.keys, assume_unique=True)) <= _NEW * len(last.keys):
        return last
    return Order(dissected(points, np.stack(np.divmod(keys, len(points)), axis=1)), keys)


def dissected(points, edges) -> np.ndarray:
    """The rank (n,) of nodes at `points` (n, d) with `edges` (m, 2), by nested dissection across
    the axis along which the fewest nodes are between the halves."""
    points, edges = np.asarray(points), np.asarray(edges).reshape(-1, 2)
    rank, last = np.empty(len(points), int), len(points)
    parts = [(np.arange(len(points)), edges)]
    while parts:
        nodes, inside = parts.pop()
        if len(nodes) <= _LEAF or not len(inside):
            last -= len(nodes)
            rank[nodes] = last + np.arange(len(nodes))
            continue
        high, across = min((_halved(points, nodes, inside, axis) for axis in range(points.shape[1])), key=_border)
        border = np.zeros(len(points), bool)
        border[_cover(np.where(high[across[:, :1]], across[:, ::-1], across))] = True
        last -= int(np.sum(border))
        rank[border] = last + np.arange(int(np.sum(border)))
        free = inside[~np.any(border[inside], axis=1)]
        for side in (high, ~high):
            half = nodes[(side & ~border)[nodes]]
            parts.append((half, free[side[free[:, 0]]]))
    return rank


def _halved(points, nodes, inside, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Which of all nodes (n,) are in the upper half of `nodes` along an axis, and the edges `inside`
    that go across."""
    high = np.zeros(len(points), bool)
    high[nodes[np.argsort(points[nodes, axis], kind="stable")[len(nodes) // 2 :]]] = True
    return high, inside[high[inside[:, 0]] != high[inside[:, 1]]]


def _border(halved) -> int:
    """At least as many nodes as a cover has: the ends in one half."""
    high, across = halved
    upper = np.where(high[across[:, 0]], across[:, 0], across[:, 1])
    return min(len(np.unique(own)) for own in (upper, across.sum(axis=1) - upper))


def _cover(edges) -> np.ndarray:
    """The fewest nodes (k,) that hold an end of each of the `edges` (m, 2), from a node of one half
    to one of the other."""
    from scipy.sparse import csr_matrix  # here, as few runs need it
    from scipy.sparse.csgraph import breadth_first_order, maximum_bipartite_matching

    (lower, i), (upper, j) = (np.unique(side, return_inverse=True) for side in edges.T)
    shape = len(lower), len(upper)
    mate = maximum_bipartite_matching(csr_matrix((np.ones(len(i)), (i, j)), shape), perm_type="column")
    # from lower nodes without a mate, by edges without mates up and by mates down
    alone, mated, other, root = np.flatnonzero(mate < 0), np.flatnonzero(mate >= 0), j != mate[i], sum(shape)
    start = np.concatenate([i[other], len(lower) + mate[mated], np.full(len(alone), root)])
    stop = np.concatenate([len(lower) + j[other], mated, alone])
    ways = csr_matrix((np.ones(len(start)), (start, stop)), (root + 1, root + 1))
    met = np.zeros(root + 1, bool)
    met[breadth_first_order(ways, root, return_predecessors=False)] = True
    return np.concatenate([lower[~met[: len(lower)]], upper[met[len(lower) : root]]])

"""Linear systems of nodes and links, kept in blocks: what links own is eliminated where it can be,
the rest factorised.

Nodes have w unknowns and rows each; a link has unknowns and rows of its own and touches the nodes
on its sides only. Its block of the Jacobian is [[K, k], [A, B]]: rows of its own and rows of its
nodes, by unknowns of its own and of its nodes. `elimination` leaves the few unknowns without a good
pivot; these and the nodes are one small dense system. The cost of all else is proportional to the
numbers of nodes and links.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np

from shapes.shards import varying_like, when

from .elimination import Links, Local, eliminate, padded
from .linear import KEPT_DAMPING, damped_step, lu_factors, lu_solve

_FREE = 1.5e-12  # the damping up to which a step is one of LU
_SINGULAR = 1e-7  # the least pivot of LU, relative to the largest, up to which steps are damped
# of slots, in the last of these: for so many filled ones there is a size of the condensed system
_PARTS = (1, 2, 3, 4, 5, 6, 8)
_TOGETHER = 8  # links that are eliminated at once, where a group has more


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
    def own(self) -> int:
        """The largest number of own unknowns of a link."""
        return max(group.own for group in self.links)

    def leading(self, filled, function, *arguments):
        """`function(size, *arguments)` for the least of a few sizes of the condensed system that
        has its `filled` () rows: factors cost the cube of it, and most links leave nothing most of
        the time."""
        nodes = self.count * self.width
        sizes = sorted({nodes + -(-self.slots * part // _PARTS[-1]) for part in _PARTS})
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


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Blocks:
    """A Jacobian after elimination, if it is `known` (): its links, and the matrix `rest` (x, x) of
    the nodes and the slots, NaN where there are too few slots."""

    pattern: Pattern = dataclasses.field(metadata={"static": True})
    local: tuple[Local, ...]
    rest: jax.Array
    known: jax.Array

    def step(self, F, damping):
        """About -J^-1 F: by LU, or by a damped least-squares step where the damping was raised."""

        def by_factors(size: int, right):
            lu, order = lu_factors(self.rest[:size, :size])
            pivots = jnp.abs(jnp.diagonal(lu))
            x = jnp.pad(lu_solve(lu, order, right[:size]), (0, len(right) - size))
            return x, jnp.min(pivots) < _SINGULAR * jnp.max(pivots)

        def by_least_squares(size: int, right):
            return jnp.pad(-damped_step(self.rest[:size, :size], right[:size], damping), (0, len(right) - size))

        def solve(right):
            x, singular = self.pattern.leading(self.filled, by_factors, right)
            damped = singular | (damping > _FREE)
            return when(damped, lambda: self.pattern.leading(self.filled, by_least_squares, right), x)

        return -solved(self.pattern, self.local, places(self.pattern, self.local), F, solve)

    @property
    def filled(self):
        """How many () rows and columns of `rest` are not those of empty slots, which come last."""
        return self.pattern.count * self.pattern.width + sum(jnp.sum(own.rows) for own in self.local)

    def keep(self) -> Kept:
        """What serves systems nearby: directions that the matrix hardly sees are left alone."""

        def inverse(size: int):
            rest = self.rest[:size, :size]
            factor = jnp.linalg.cholesky(rest.T @ rest + KEPT_DAMPING * jnp.eye(size))
            half = jax.scipy.linalg.solve_triangular(factor, rest.T, lower=True)
            found = jax.scipy.linalg.solve_triangular(factor, half, lower=True, trans=1)
            return jnp.pad(found, (0, len(self.rest) - size))

        found = self.pattern.leading(self.filled, inverse)
        left = places(self.pattern, self.local)
        return Kept(self.pattern, self.local, left, found, self.filled, jnp.all(jnp.isfinite(found)))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Kept:
    """The links of `Blocks`, the `places` of what they leave, and about the `inverse` (x, x) of the
    rest, of which `filled` () rows and columns are not those of empty slots, if it is `valid` ().
    New blocks cost some forty chord iterations, a dense Jacobian ten."""

    contraction: ClassVar[float] = 0.5  # see `chord.newton_again`
    quick: ClassVar[int] = 16
    unseen: ClassVar[float] = 0.03
    shaken: ClassVar[float] = 10.0

    pattern: Pattern = dataclasses.field(metadata={"static": True})
    local: tuple[Local, ...]
    places: Places
    inverse: jax.Array
    filled: jax.Array
    valid: jax.Array

    def solve(self, F):
        """dz of J dz = F."""

        def rest(size: int, right):
            return jnp.pad(self.inverse[:size, :size] @ right[:size], (0, len(right) - size))

        return solved(self.pattern, self.local, self.places, F, functools.partial(self.pattern.leading, self.filled, rest))

    def where(self, solved, _) -> Kept:
        """This one, which is not `valid` after a step that is not `solved` (): a choice between it
        and the one before would copy one of them in every step."""
        return dataclasses.replace(self, valid=self.valid & solved)

    def system(self) -> Blocks:
        """The Jacobian that this is of, but for its `rest`."""
        return Blocks(self.pattern, self.local, jnp.zeros_like(self.inverse), jnp.asarray(self.valid))


def no_factors(pattern: Pattern) -> Kept:
    """For want of factors."""
    size, local = pattern.count * pattern.width + pattern.slots, []
    for group in pattern.links:
        n, o, w = len(group.nodes), group.own, 2 * pattern.width
        matrices = np.zeros((n, o, o)), np.zeros((n, o, o + w)), np.zeros((n, o + w, o))
        local.append(Local(*matrices, *np.zeros((2, n, o), bool)))
    none = Places(np.zeros(pattern.slots, int), np.zeros(sum(own.rows.size for own in local), int))
    return Kept(pattern, tuple(local), none, np.zeros((size, size)), np.asarray(0), np.asarray(False))


def eliminated(last: Blocks, nodes, links, wanted) -> Blocks:
    """The Jacobian with the blocks `nodes` (count, w, w) and, per group, those of its links:
    `links(numbers)` gives them (c, own + acting, own + acting) for c of them. Links that are not
    `wanted` (n,), which leave nothing for other rows, may be those of the `last` one."""
    pattern, parts = last.pattern, []
    for group, before, blocks_of, own in zip(pattern.links, last.local, links, wanted, strict=True):
        coupled = ~last.known | jnp.any(before.rows, axis=1)
        parts.append(_renewed(pattern, group, blocks_of, own | coupled, before))
    local, rest = zip(*parts, strict=True)
    return Blocks(pattern, local, _condensed(pattern, nodes, local, rest), jnp.asarray(True))


def _renewed(pattern: Pattern, group: Links, blocks_of, wanted, before) -> tuple[Local, jax.Array]:
    """A group's links, as they were `before` but for those that are `wanted` (n,): a few at a time,
    all where that is few. What others have left for other rows is nothing."""
    count, size = len(group.nodes), group.own + 2 * pattern.width

    def anew(numbers):
        one = jax.vmap(functools.partial(eliminate, group))(blocks_of(numbers))
        return padded(*one, group.own, group.own, 2 * pattern.width)

    if count <= _TOGETHER:
        return anew(np.arange(count))
    room = -(-count // _TOGETHER) * _TOGETHER
    order = jnp.nonzero(wanted, size=room, fill_value=count - 1)[0]

    def more(chunk, found):
        first = chunk * _TOGETHER
        own = anew(jax.lax.dynamic_slice_in_dim(order, first, _TOGETHER))
        return jax.tree.map(lambda all_, some: jax.lax.dynamic_update_slice_in_dim(all_, some, first, 0), found, own)

    # one behind the other, and then each to its place: a scatter is a loop over its entries
    empty = jax.tree.map(lambda a: jnp.zeros((room, *a.shape[1:]), a.dtype), (before, jnp.zeros((1, size, size))))
    found = jax.lax.fori_loop(0, -(-jnp.sum(wanted) // _TOGETHER), more, varying_like(empty, (before, wanted)))
    place = jnp.maximum(jnp.cumsum(wanted) - 1, 0)

    def placed(new, old):
        return jnp.where(wanted.reshape(-1, *(1,) * (new.ndim - 1)), new[place], old)

    return jax.tree.map(placed, found, (before, jnp.zeros((count, size, size))))


class Places(NamedTuple):
    """Where what links leave stands, of all k rows and unknowns that they own, group by group: the
    places `rows` (slots,) of the rows in the slots, k for an empty one; the slots `columns` (k,) of
    the unknowns that are left."""

    rows: jax.Array
    columns: jax.Array


def places(pattern: Pattern, local: tuple[Local, ...]) -> Places:
    """Those of what `local` has left."""
    columns = jnp.minimum(jnp.cumsum(_flat(own.columns for own in local)) - 1, pattern.slots - 1)
    return Places(_slots(pattern, _flat(own.rows for own in local)), columns)


def solved(pattern: Pattern, local: tuple[Local, ...], left: Places, F, rest):
    """dz of J dz = F, where `rest(right)` (x,) solves the condensed system."""
    w, nodes = pattern.width, pattern.count * pattern.width
    cuts = np.cumsum([0, *(own.rows.size for own in local)])
    values = [F[nodes + cut :][: own.rows.size].reshape(own.rows.shape) for cut, own in zip(cuts, local, strict=False)]
    pushed = [_times(own.push, f) for own, f in zip(local, values, strict=True)]
    incidence = pattern.incidence().reshape(-1, pattern.count)
    on_nodes = incidence.T @ jnp.concatenate([p[:, -2 * w :].reshape(-1, w) for p in pushed])
    on_rows = _flat(p[:, : -2 * w] for p in pushed)
    right = jnp.where(left.rows < on_rows.size, on_rows[jnp.minimum(left.rows, on_rows.size - 1)], 0.0)
    x = rest(jnp.concatenate([F[:nodes] + on_nodes.reshape(-1), right]))
    ends = np.cumsum([len(own.rows) for own in local])[:-1]
    moves = jnp.split((incidence @ x[:nodes].reshape(-1, w)).reshape(-1, 2 * w), ends)
    slots = jnp.split(x[nodes:][left.columns], cuts[1:-1])
    parts = [x[:nodes]]
    for own, f, by_nodes, by_slots in zip(local, values, moves, slots, strict=True):
        still = jnp.where(own.columns, by_slots.reshape(own.columns.shape), 0.0)
        follows = _times(own.follow, jnp.concatenate([still, by_nodes], axis=1))
        parts.append((still + _times(own.alone, f) - follows).reshape(-1))
    return jnp.concatenate(parts)


def _flat(parts):
    return jnp.concatenate([part.reshape(-1) for part in parts])


def _times(matrices, vectors):
    """Products (n, i) of `matrices` (n, i, j) and `vectors` (n, j): as dots, which XLA adds up in
    several lanes, where it has one for a sum of products, and takes seven times as long for 20 of
    22 x 34."""
    return jnp.matmul(matrices, vectors[:, :, None])[:, :, 0]


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


def _condensed(pattern: Pattern, nodes, local: tuple[Local, ...], rest):
    """The matrix (x, x) of the nodes and the slots."""
    count, w, o = pattern.count, pattern.width, pattern.own
    incidence = pattern.incidence()
    n = len(incidence)

    alike = [
        padded(own, own_rest, group.own, o, 2 * w) for group, own, own_rest in zip(pattern.links, local, rest, strict=True)
    ]
    local, rest = jax.tree.map(lambda *own: jnp.concatenate(own), *alike)
    among = _among(pattern, nodes, rest[:, o:, o:].reshape(n, 2, w, 2, w))
    rows, columns = (_slots(pattern, left.reshape(-1)) for left in (local.rows, local.columns))
    filled = rows < n * o
    row_link, row_own = jnp.divmod(jnp.minimum(rows, n * o - 1), o)
    column_link, column_own = jnp.divmod(jnp.minimum(columns, n * o - 1), o)
    sides = jnp.asarray(incidence)
    from_nodes = rest[row_link, row_own, o:].reshape(-1, 2, 1, w)
    from_nodes = jnp.sum(from_nodes * sides[row_link][..., None], axis=1).reshape(-1, count * w)
    to_nodes = rest[column_link, o:, column_own].reshape(-1, 2, 1, w)
    to_nodes = jnp.sum(to_nodes * sides[column_link][..., None], axis=1).reshape(-1, count * w)
    # a row has entries in the columns of its own link only
    same = (row_link[:, None] == column_link) & (columns < n * o)
    own = jnp.where(same, rest[row_link[:, None], row_own[:, None], column_own], 0.0)
    own = jnp.where(filled[:, None], own, jnp.eye(len(rows)))
    enough = jnp.sum(local.rows) <= pattern.slots
    zero = filled[:, None]
    top = jnp.concatenate([among, jnp.where(zero, to_nodes, 0.0).T], axis=1)
    bottom = jnp.concatenate([jnp.where(zero, from_nodes, 0.0), own], axis=1)
    return jnp.where(enough, jnp.concatenate([top, bottom]), jnp.nan)

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
from typing import ClassVar

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np

from shapes.shards import varying_like, when

from .elimination import Links, Local, eliminate, padded
from .left_over import Pattern, Places, Rest, condensed, flat, places
from .linear import KEPT_DAMPING, damped_step, lu_factors, lu_solve

_FREE = 1.5e-12  # the damping up to which a step is one of LU
_SINGULAR = 1e-7  # the least pivot of LU, relative to the largest, up to which steps are damped
_TOGETHER = 8  # links that are eliminated at once, where a group has more


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Blocks:
    """A Jacobian after elimination, if it is `known` (): its links, and what is left of it."""

    slight: ClassVar[float] = 1e-6  # see `linear.Dense`

    pattern: Pattern = dataclasses.field(metadata={"static": True})
    local: tuple[Local, ...]
    rest: Rest
    known: jax.Array

    def step(self, F, damping):
        """About -J^-1 F: by LU, or by a damped least-squares step where the damping was raised."""

        def by_factors(size: int, right):
            lu, order = lu_factors(self.rest.leading(size))
            pivots = jnp.abs(jnp.diagonal(lu))
            x = jnp.pad(lu_solve(lu, order, right[:size]), (0, len(right) - size))
            return x, jnp.min(pivots) < _SINGULAR * jnp.max(pivots)

        def by_least_squares(size: int, right):
            return jnp.pad(-damped_step(self.rest.leading(size), right[:size], damping), (0, len(right) - size))

        def solve(right):
            x, singular = self.pattern.leading(self.filled, by_factors, right)
            damped = singular | (damping > _FREE)
            return when(damped, lambda: self.pattern.leading(self.filled, by_least_squares, right), x)

        return -solved(self.pattern, self.local, places(self.pattern, self.local), F, solve)

    @property
    def filled(self):
        """How many () rows and columns of `rest` are not those of empty slots, which come last."""
        return self.pattern.of_nodes + sum(jnp.sum(own.rows) for own in self.local)

    def keep(self) -> Kept:
        """What serves systems nearby: directions that the matrix hardly sees are left alone."""

        def inverse(size: int):
            rest = self.rest.leading(size)
            factor = jnp.linalg.cholesky(rest.T @ rest + KEPT_DAMPING * jnp.eye(size))
            half = jax.scipy.linalg.solve_triangular(factor, rest.T, lower=True)
            found = jax.scipy.linalg.solve_triangular(factor, half, lower=True, trans=1)
            return jnp.pad(found, (0, self.pattern.size - size))

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
        nodes, slots = self.pattern.of_nodes, self.pattern.slots
        shapes = (nodes, nodes), (slots, nodes), (slots, nodes), (slots, slots)
        return Blocks(self.pattern, self.local, Rest(*map(jnp.zeros, shapes)), jnp.asarray(self.valid))


def no_factors(pattern: Pattern) -> Kept:
    """For want of factors."""
    size, local = pattern.size, []
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
    local, left, place = zip(*parts, strict=True)
    return Blocks(pattern, local, condensed(pattern, nodes, local, left, place), jnp.asarray(True))


def _renewed(pattern: Pattern, group: Links, blocks_of, wanted, before) -> tuple[Local, jax.Array, jax.Array]:
    """A group's links, as they were `before` but for those that are `wanted` (n,): a few at a time,
    all where that is few. What the wanted ones leave for other rows, (room, own + 2 w, own + 2 w),
    and for each link its place there (n,), `room` for the others, which leave nothing."""
    count, size = len(group.nodes), group.own + 2 * pattern.width

    def anew(numbers):
        one = jax.vmap(functools.partial(eliminate, group))(blocks_of(numbers))
        return padded(*one, group.own, group.own, 2 * pattern.width)

    if count <= _TOGETHER:
        return *anew(np.arange(count)), np.arange(count)
    room = -(-count // _TOGETHER) * _TOGETHER
    order = jnp.nonzero(wanted, size=room, fill_value=count - 1)[0]

    def more(chunk, found):
        first = chunk * _TOGETHER
        own = anew(jax.lax.dynamic_slice_in_dim(order, first, _TOGETHER))
        return jax.tree.map(lambda all_, some: jax.lax.dynamic_update_slice_in_dim(all_, some, first, 0), found, own)

    # one behind the other, and then each to its place: a scatter is a loop over its entries
    empty = jax.tree.map(lambda a: jnp.zeros((room, *a.shape[1:]), a.dtype), (before, jnp.zeros((1, size, size))))
    local, left = jax.lax.fori_loop(0, -(-jnp.sum(wanted) // _TOGETHER), more, varying_like(empty, (before, wanted)))
    place = jnp.cumsum(wanted) - 1

    def placed(new, old):
        return jnp.where(wanted.reshape(-1, *(1,) * (new.ndim - 1)), new[jnp.maximum(place, 0)], old)

    return jax.tree.map(placed, local, before), left, jnp.where(wanted, place, room)


def solved(pattern: Pattern, local: tuple[Local, ...], left: Places, F, rest):
    """dz of J dz = F, where `rest(right)` (x,) solves the condensed system."""
    w, nodes = pattern.width, pattern.of_nodes
    cuts = np.cumsum([0, *(own.rows.size for own in local)])
    values = [F[nodes + cut :][: own.rows.size].reshape(own.rows.shape) for cut, own in zip(cuts, local, strict=False)]
    pushed = [_times(own.push, f) for own, f in zip(local, values, strict=True)]
    incidence = pattern.incidence().reshape(-1, pattern.count)
    on_nodes = incidence.T @ jnp.concatenate([p[:, -2 * w :].reshape(-1, w) for p in pushed])
    on_rows = flat(p[:, : -2 * w] for p in pushed)
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


def _times(matrices, vectors):
    """Products (n, i) of `matrices` (n, i, j) and `vectors` (n, j): as dots, which XLA adds up in
    several lanes, where it has one for a sum of products, and takes seven times as long for 20 of
    22 x 34."""
    return jnp.matmul(matrices, vectors[:, :, None])[:, :, 0]

"""Linear systems some of whose unknowns follow from the others: these are eliminated, and the rest
is factorised.

J dz = F with z = [a, x] and the rows in the same order is K da + k dx = F_a, A da + B dx = F_x,
with K of small blocks. So (B - A K^-1 k) dx = F_x - A K^-1 F_a and da = K^-1 F_a - (K^-1 k) dx.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from shapes.small_algebra import inner

from .linear import damped_step, lu_factors, lu_solve


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Local:
    """What follows: `inverses` K^-1, of blocks of one or more sizes m that come round s times, each
    (s, k, m, m); `follow` K^-1 k (a, x); `lead` A (x, a)."""

    inverses: tuple[jax.Array, ...]
    follow: jax.Array
    lead: jax.Array

    def alone(self, F):
        """K^-1 F_a (a,)."""
        rounds, start, parts = len(self.inverses[0]), 0, []
        for inverse in self.inverses:
            stop = start + inverse.shape[1] * inverse.shape[2]
            own = F[: len(self.follow)].reshape(rounds, -1)[:, start:stop].reshape(inverse.shape[:3])
            parts.append(inner(inverse, own[..., None, :]).reshape(rounds, -1))
            start = stop
        return jnp.concatenate(parts, axis=1).reshape(-1)

    def solve(self, F, rest):
        """dz of J dz = F, where `rest(right)` (x,) solves the condensed system."""
        count = len(self.follow)
        if count == 0:
            return rest(F)
        alone = self.alone(F)
        x = rest(F[count:] - self.lead @ alone)
        return jnp.concatenate([alone - self.follow @ x, x])


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Condensed:
    """J as `rest` B - A K^-1 k (x, x) and `local`."""

    rest: jax.Array
    local: Local

    def damped_step(self, F, damping):
        """`linear.damped_step` of the condensed system, and what follows from it: about -J^-1 F."""
        return -self.local.solve(F, lambda right: -damped_step(self.rest, right, damping))

    def factorised(self) -> Factors:
        """By LU with row exchanges."""
        return Factors(*lu_factors(self.rest), self.local, jnp.asarray(True))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Factors:
    """LU factors (x, x) of a condensed system with its rows in that `order` (x,), if they are
    `valid` ()."""

    lu: jax.Array
    order: jax.Array
    local: Local
    valid: jax.Array

    def solve(self, F):
        """dz of J dz = F."""
        return self.local.solve(F, lambda right: lu_solve(self.lu, self.order, right))

    def least_pivot(self):
        """min |U_kk| (), small where the system is nearly singular."""
        return jnp.min(jnp.abs(jnp.diagonal(self.lu)))


def dense(matrix) -> Condensed:
    """A system (n, n) of which nothing is eliminated."""
    n = len(matrix)
    return Condensed(matrix, Local((), jnp.zeros((0, n)), jnp.zeros((n, 0))))


def no_factors(count: int, blocks=()) -> Factors:
    """For want of any, of `count` unknowns after those of `blocks` (s, k, m), see `Local`; in
    NumPy, so that nothing is compiled for them."""
    local = sum(s * k * m for s, k, m in blocks)
    inverses = tuple(np.zeros((*shape, shape[-1])) for shape in blocks)
    none = Local(inverses, np.zeros((local, count)), np.zeros((count, local)))
    return Factors(np.zeros((count, count)), np.zeros(count, np.int32), none, np.asarray(False))

"""Lemke's method for linear complementarity problems, Cottle, Pang and Stone (1992), sections 4.4
and 4.9.

    0 <= z  _|_  w = M z + q >= 0

From the basis z = 0 an artificial variable z_0 >= 0 enters, w = M z + q + d z_0 with d > 0; then
the complement of the variable that left enters, until z_0 is zero or nothing can leave (a ray).
Where M is copositive-plus a ray means that no z >= 0 has M z + q >= 0. The M of contact with
friction is copositive, and Anitescu and Potra (1997) show that Lemke's method finds a solution of
it where bodies do not overlap. Ties of the minimum ratio are broken lexicographically, so that no
basis comes back. A pivot costs two products of n x n matrices: it is for some hundred unknowns.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jax import lax

from shapes.shards import varying_like

# smallest pivot, of entries up to 1 and relative to the terms that add up to it: the rest is
# round-off
_PIVOT = 1e-11
# ratios closer than this are equal, and z_0 below it is zero, where the largest |q_i| is 1
_TIE = 1e-11
_POLISHED = 8  # pivots after which the inverse is mended: that costs what hundreds of pivots cost
_SWEEPS = 4  # of the scaling; the entries of a row and a column are then within a small factor of 1
_RUNNING, _ENDED, _RAY = 0, 1, 2


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LemkeSolution:
    """z (n,); pivots (), how many were made; solved (): z_0 is zero and 0 <= z _|_ M z + q >= 0
    within the tolerance."""

    z: jax.Array
    pivots: jax.Array
    solved: jax.Array


def lemke(M, q, *, tolerance=1e-10, max_pivots=1000) -> LemkeSolution:
    """Solves 0 <= z _|_ M z + q >= 0, M (n, n), q (n,), in at most `max_pivots` pivots.

    Rows and columns are scaled first, so that their units do not matter; `tolerance` bounds
    |min(z_i, w_i)| in that scale, in which the largest |q_i| is 1. Where it is not `solved`, z is
    what the last basis gives. Can be jitted and `vmap`ped.
    """
    n = q.shape[0]
    if n == 0:
        return LemkeSolution(q, jnp.zeros((), int), jnp.asarray(True))
    rows, columns = _scaling(M)
    A, b = rows[:, None] * M * columns, rows * q
    size = jnp.max(jnp.abs(b))
    b = b / jnp.where(size > 0, size, 1.0)
    # columns of w, z and z_0 with d = 1
    every = jnp.concatenate([jnp.eye(n), -A, -jnp.ones((n, 1))], axis=1)

    def proceed(carry):
        return (carry["status"] == _RUNNING) & (carry["pivots"] < max_pivots)

    def advance(carry):
        inverse, basis, entering = carry["inverse"], carry["basis"], carry["entering"]
        column = _cleaned(inverse, every[:, entering])
        row, found = _leaving(jnp.concatenate([(inverse @ b)[:, None], inverse], axis=1), column)
        out, basis = basis[row], basis.at[row].set(entering)
        inverse = _pivoted(inverse, column, row)
        due = carry["pivots"] % _POLISHED == 0
        inverse = lax.cond(due, _polished, lambda inverse, _: inverse, inverse, every[:, basis])
        artificial = jnp.max(jnp.where(basis == 2 * n, inverse @ b, 0.0))
        new = {
            "inverse": inverse,
            "basis": basis,
            "entering": jnp.where(out < n, out + n, out - n),
            "pivots": carry["pivots"] + 1,
            "status": jnp.where(artificial <= _TIE, _ENDED, _RUNNING),
        }
        return {name: jnp.where(found, new[name], _RAY if name == "status" else carry[name]) for name in new}

    # z_0 enters where w is least
    first = _least(jnp.concatenate([b[:, None], jnp.eye(n)], axis=1), jnp.ones(n, bool))
    trivial = jnp.all(b >= 0)
    start = {
        "inverse": jnp.where(trivial, jnp.eye(n), _pivoted(jnp.eye(n), -jnp.ones(n), first)),
        "basis": jnp.where(trivial, jnp.arange(n), jnp.arange(n).at[first].set(2 * n)),
        "entering": first + n,
        "pivots": jnp.where(trivial, 0, 1),
        "status": jnp.where(trivial, _ENDED, _RUNNING),
    }
    end = lax.while_loop(proceed, advance, varying_like(start, (A, b)))
    values = jnp.zeros(2 * n + 1).at[end["basis"]].set(jnp.linalg.solve(every[:, end["basis"]], b))
    z = jnp.maximum(values[n:-1], 0.0)
    violation = jnp.max(jnp.abs(jnp.minimum(z, A @ z + b)))
    return LemkeSolution(z * columns * size, end["pivots"], (end["status"] == _ENDED) & (violation <= tolerance))


def _scaling(M):
    """Factors of the rows and columns, powers of 2: they round nothing, so that ties stay ties."""

    def sweep(_, factors):
        rows, columns = factors
        A = jnp.abs(rows[:, None] * M * columns)
        return rows * _inverse_root(jnp.max(A, axis=1)), columns * _inverse_root(jnp.max(A, axis=0))

    ones = varying_like(jnp.ones(M.shape[0]), M)
    return jax.tree.map(lambda x: jnp.exp2(jnp.round(jnp.log2(x))), lax.fori_loop(0, _SWEEPS, sweep, (ones, ones)))


def _inverse_root(largest):
    """1 / sqrt, and 1 for a row of zeros."""
    return 1.0 / jnp.sqrt(jnp.where(largest > 0, largest, 1.0))


def _cleaned(inverse, entering):
    """inverse @ entering, without entries that are what round-off leaves of a sum that cancels."""
    column = inverse @ entering
    return jnp.where(jnp.abs(column) > _PIVOT * (1.0 + jnp.abs(inverse) @ jnp.abs(entering)), column, 0.0)


def _leaving(T, column):
    """The row that leaves when `column` enters, by the lexicographic minimum ratio of T (n, 1 + n),
    and whether there is one."""
    possible = column > 0
    return _least(T / jnp.where(possible, column, 1.0)[:, None], possible), jnp.any(possible)


def _least(ratios, among):
    """Number of the lexicographically least row of `ratios` (n, 1 + n) among some."""

    def proceed(carry):
        j, among = carry
        return (j < ratios.shape[1]) & (jnp.sum(among) > 1)

    def advance(carry):
        j, among = carry
        values = jnp.where(among, ratios[:, j], jnp.inf)
        least = jnp.min(values)
        return j + 1, among & (values <= least + _TIE * (1.0 + jnp.abs(least)))

    start = varying_like((jnp.zeros((), int), among), ratios)
    return jnp.argmax(lax.while_loop(proceed, advance, start)[1])


def _pivoted(inverse, column, row):
    """The basis' inverse after the variable with `column` has taken the place of that in `row`."""
    pivot_row = inverse[row] / column[row]
    return (inverse - column[:, None] * pivot_row).at[row].set(pivot_row)


def _polished(inverse, basis):
    """One step of Newton's method (Schulz) for an inverse, so that the errors of pivots do not add
    up."""
    return inverse + inverse @ (jnp.eye(len(basis)) - basis @ inverse)

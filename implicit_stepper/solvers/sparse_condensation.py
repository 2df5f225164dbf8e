"""Linear systems as in `static_condensation`, with sparse matrices on the host: SuperLU factorises
what is left.

Damped steps, which minimise |J dx + F|^2 + damping |dx|^2, are of the sparse system that their
residual r and dx solve together, [[sqrt(damping), J], [J^T, -sqrt(damping)]] (r, dx) = (-F, 0),
whose condition is the square root of that of J^T J.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse.linalg import SuperLU

_ORDER = "COLAMD"  # of columns, which is that of least degree of J^T J; pivots are the largest of their columns


@dataclasses.dataclass(frozen=True)
class Entries:
    """A sparse matrix by columns, as NumPy arrays, which checkpoints can keep."""

    values: np.ndarray
    rows: np.ndarray
    starts: np.ndarray
    shape: tuple[int, int]

    @functools.cached_property
    def matrix(self):
        """As SciPy has it."""
        from scipy.sparse import csc_array  # here, as few runs need it

        return csc_array((self.values, self.rows, self.starts), shape=self.shape)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


def entries(matrix) -> Entries:
    """Those of a `matrix` of SciPy."""
    by_columns = matrix.tocsc()
    return Entries(by_columns.data, by_columns.indices, by_columns.indptr, by_columns.shape)


@dataclasses.dataclass(frozen=True)
class SparseCondensed:
    """J as `rest` B - A K^-1 k (x, x); and what follows from it: `inverses` K^-1, each
    (s, k, m, m), `follow` K^-1 k (a, x) and `lead` A (x, a)."""

    rest: Entries
    inverses: tuple[np.ndarray, ...]
    follow: Entries
    lead: Entries

    def with_rows_of_their_own(self, which) -> SparseCondensed:
        """With the identity in the rows of the unknowns `which` (a + x,), of all, that are left."""
        from scipy.sparse import diags_array

        own = diags_array(which[self.follow.shape[0] :].astype(float))
        others = diags_array(1.0 - own.diagonal())
        rest, lead = others @ self.rest.matrix + own, others @ self.lead.matrix
        return dataclasses.replace(self, rest=entries(rest), lead=entries(lead))

    def factorised(self) -> SparseFactors:
        """By LU with row exchanges."""
        return SparseFactors(self, np.True_)

    def damped_step(self, F, damping) -> np.ndarray:
        """About -J^-1 F."""
        from scipy.sparse import block_array, eye_array

        count, root = self.rest.shape[0], np.sqrt(float(damping))
        one = root * eye_array(count)
        both = _factors(block_array([[one, self.rest.matrix], [self.rest.matrix.T, -one]]).tocsc())
        if both is None:
            return np.full(np.shape(F), np.nan)
        return self.solve(-np.asarray(F), lambda right: both.solve(np.concatenate([right, np.zeros(count)]))[count:])

    def solve(self, F, rest) -> np.ndarray:
        """dz of J dz = F, where `rest(right)` (x,) solves what is left."""
        count = self.follow.shape[0]
        if count == 0:
            return rest(F)
        rounds, start, parts = len(self.inverses[0]), 0, []
        for inverse in self.inverses:
            stop = start + inverse.shape[1] * inverse.shape[2]
            own = F[:count].reshape(rounds, -1)[:, start:stop].reshape(inverse.shape[:3])
            parts.append(np.einsum("skij,skj->ski", inverse, own).reshape(rounds, -1))
            start = stop
        alone = np.concatenate(parts, axis=1).reshape(-1)
        x = rest(F[count:] - self.lead.matrix @ alone)
        return np.concatenate([alone - self.follow.matrix @ x, x])

    @functools.cached_property
    def factors(self) -> SuperLU | None:
        """Of the `rest`, None where it is singular."""
        return _factors(self.rest.matrix)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


@dataclasses.dataclass(frozen=True)
class SparseFactors:
    """Those of a `system`, if they are `valid`; None for want of any."""

    system: SparseCondensed | None
    valid: np.bool_

    def solve(self, F) -> np.ndarray:
        """dz of J dz = F; 0 for want of factors, NaN where the system is singular."""
        F = np.asarray(F)
        if self.system is None:
            return np.zeros_like(F)
        if self.system.factors is None:
            return np.full(F.shape, np.nan)
        return self.system.solve(F, self.system.factors.solve)

    def least_pivot(self) -> float:
        """min |U_kk|, small where the system is nearly singular; 0 for want of factors."""
        if self.system is None or self.system.factors is None:
            return 0.0
        return float(np.min(np.abs(self.system.factors.U.diagonal())))


def _factors(matrix) -> SuperLU | None:
    from scipy.sparse.linalg import splu

    try:
        return splu(matrix, permc_spec=_ORDER, options={"Equil": False})
    except RuntimeError:  # an exact zero in the place of a pivot
        return None

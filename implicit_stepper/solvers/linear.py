"""Damped least-squares steps from a Jacobian; how it is stored and factorised stays in here."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
from jax import lax

from shapes.shards import varying_like
from shapes.small_algebra import inner, product

# of a kept inverse: directions that J hardly sees are left alone, for they will have turned
KEPT_DAMPING = 1e-8


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Dense:
    """A Jacobian (n, n) as a linear system of Newton's method."""

    slight: ClassVar[float] = 1.0  # the part of the damping that is left where iterations stall

    matrix: jax.Array

    def step(self, F, damping):
        """`damped_step`."""
        return damped_step(self.matrix, F, damping)

    def keep(self) -> Inverse:
        """What chord iterations keep of it."""
        return Inverse(damped_inverse(self.matrix, KEPT_DAMPING))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Inverse:
    """A kept inverse (n, n), or zeros for want of one."""

    contraction: ClassVar[float] = 0.3  # see `chord.newton_again`
    quick: ClassVar[int] = 8
    unseen: ClassVar[float] = 0.0
    shaken: ClassVar[float] = 0.0

    matrix: jax.Array

    @property
    def valid(self):
        """Whether () there is one."""
        return jnp.any(self.matrix != 0)

    def solve(self, F):
        """About J^-1 F."""
        return self.matrix @ F

    def system(self) -> Dense:
        """The last Jacobian, of which a dense one has no use."""
        return Dense(jnp.zeros_like(self.matrix))


def damped_step(jacobian, residual, damping):
    """The dz (n,) that minimises |J dz + F|^2 + damping |dz|^2, for a dense J (n, n) and F (n,).

    A rank-deficient J (an open contact leaves sigma free) gives the shortest step instead of a NaN.
    By QR of [[J, F], [sqrt(damping) I, 0]]: its last column of R is Q^T (F, 0), so Q is never
    formed. On an accelerator, whose QR of many small matrices takes as long as all else, by
    Cholesky factors of J^T J + damping I, which halve the digits, and a correction, which brings
    them back (docs/decisions/0056-batches-on-accelerators.md).
    """
    return (_step_by_qr if jax.default_backend() == "cpu" else _step_by_cholesky)(jacobian, residual, damping)


def damped_inverse(jacobian, damping):
    """The B (n, n) with `damped_step(J, F, damping)` = -B F for every F: (J^T J + damping I)^-1
    J^T.

    By the same factorisations, with the identity in the place of F, and without the correction:
    what is kept is an approximation anyway.
    """
    return (_inverse_by_qr if jax.default_backend() == "cpu" else _inverse_by_cholesky)(jacobian, damping)


def _step_by_qr(jacobian, residual, damping):
    n = residual.shape[0]
    stacked = jnp.block([[jacobian, residual[:, None]], [jnp.sqrt(damping) * jnp.eye(n), jnp.zeros((n, 1))]])
    r = jnp.linalg.qr(stacked, mode="r")
    return -jax.scipy.linalg.solve_triangular(r[:n, :n], r[:n, n])


def _inverse_by_qr(jacobian, damping):
    n = jacobian.shape[0]
    one = jnp.eye(n)
    r = jnp.linalg.qr(jnp.block([[jacobian, one], [jnp.sqrt(damping) * one, jnp.zeros((n, n))]]), mode="r")
    return jax.scipy.linalg.solve_triangular(r[:n, :n], r[:n, n:])


def _step_by_cholesky(jacobian, residual, damping):
    solve = _normal_equations(jacobian, damping)
    step = -solve(jacobian.T @ residual)
    return step - solve(jacobian.T @ (residual + jacobian @ step) + damping * step)


def _inverse_by_cholesky(jacobian, damping):
    return _normal_equations(jacobian, damping)(jacobian.T)


def _normal_equations(jacobian, damping):
    """About (J^T J + damping I)^-1 of what it is given, (n,) or (n, k); the damping is no less than
    what rounding makes of J^T J, so that factors exist."""
    n = jacobian.shape[1]
    square = jacobian.T @ jacobian
    least = jnp.maximum(damping, n * np.finfo(float).eps * jnp.max(jnp.diagonal(square), initial=0.0))
    factor = lax.linalg.cholesky(square + least * jnp.eye(n), symmetrize_input=False)
    return lambda right: jax.scipy.linalg.cho_solve((factor, True), right)


def lu_factors(matrix):
    """LU factors (n, n) by row exchanges P, and the order (n,) of the rows. A column (0, 1, ...)
    beside the matrix becomes L^-1 P (0, 1, ...), from which L gives the order: to follow the
    exchanges one by one takes longer than to factorise."""
    n = len(matrix)
    numbers = jnp.arange(n)
    both, _, _ = lax.linalg.lu(jnp.concatenate([matrix, numbers[:, None].astype(float)], axis=1))
    lu, last = both[:, :n], both[:, n]
    order = last + inner(jnp.where(numbers < numbers[:, None], lu, 0.0), last)
    return lu, jnp.round(order).astype(jnp.int32)


def lu_solve(lu, order, right):
    """x (n,) with A x = `right`, of `lu_factors(A)`. (SciPy's interface would find the order of
    rows anew every time.)"""
    lower = jax.scipy.linalg.solve_triangular(lu, right[order], lower=True, unit_diagonal=True)
    return jax.scipy.linalg.solve_triangular(lu, lower)


def small_inverse(matrix):
    """The inverse of a small matrix (m, m) by Gauss and Jordan's elimination with row exchanges;
    many of them under `vmap` are one loop over columns, where LAPACK is called one by one and the
    order of the rows found by a loop of its own."""
    m = len(matrix)

    def eliminate(k, carry):
        both, used = carry
        column = both[:, k]
        at = jnp.arange(m) == jnp.argmax(jnp.where(used, -1.0, jnp.abs(column)))
        row = inner(both.T, at) / inner(column, at)
        return jnp.where(at[:, None], row, both - column[:, None] * row), used | at

    start = jnp.concatenate([matrix, jnp.eye(m)], axis=1), jnp.zeros(m, bool)
    # the left half is a permutation
    both, _ = lax.fori_loop(0, m, eliminate, varying_like(start, matrix))
    return product(both[:, :m].T, both[:, m:])


def apart(blocks):
    """Rows (n, k, n j) of `blocks` (n, k, j) of which each has columns of its own."""
    n, k, j = blocks.shape
    return (blocks[:, :, None] * np.eye(n)[:, None, :, None]).reshape(n, k, n * j)

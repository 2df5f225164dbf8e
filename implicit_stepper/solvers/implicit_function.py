"""Derivatives of a root F(theta, z) = 0 by the implicit function theorem: J dz = -dF/dtheta dtheta,
whatever found z.

Iterations have derivatives of their own, which need not be those of what they find: chord
iterations end where F = 0 but carry no trace of how F depends on theta. Here the root alone counts,
in forward and in reverse mode and in those of higher order, as J and dF/dtheta are functions of
theta and of the root, whose derivatives are these again.

At a kink, J is the element of the generalised Jacobian that `complementarity` names. Where J is
singular, the unknowns that stay open have no derivative; those that follow from rows which ask for
the same several times have one only for changes that leave these rows consistent. What does not
exist is NaN (see `_Completed`).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from .linear import lu_factors, lu_solve

_SUSPECT = 1e-7  # the least pivot, relative to the largest, below which singular values decide
_SINGULAR = 1e-11  # of these, relative to the largest; J is dimensionless, and known to about 1e-14
_TRACE = 1e-7  # an entry of a null vector, or of the inverse, that is more than rounding
_INCONSISTENT = 1e-8  # of a right side: its part that no change of z leads to


def root(residual: Callable, linearize: Callable, theta, found):
    """`found` (n,), a root z of `residual(theta, z)` = 0 (n,), with its derivatives by the tree
    `theta`.

    `linearize(theta, z)` gives F and its Jacobian (n, n). Nothing is computed unless derivatives
    are taken. Both functions must be hashable and the same from call to call, so that their program
    is compiled once. A derivative is NaN where it does not exist: where J is singular, for unknowns
    that are not determined, and, in forward mode for changes of `theta` to which the rows have no
    answer, in reverse mode for all changes, the unknowns that depend on such rows.
    """
    leaves, tree = jax.tree.flatten(theta)
    return _root.bind(
        lax.stop_gradient(found), *map(jnp.asarray, leaves), residual=residual, linearize=linearize, tree=tree, axes=()
    )


def without_noise(z, noise):
    """`z` (n,) for a residual of which derivatives are taken: 0 where it is `noise` (n,), moving as
    z does. What solvers leave in the place of 0 tells a friction law that it sticks."""
    return z - lax.stop_gradient(jnp.where(noise, z, 0.0))


# A primitive of its own, as `custom_jvp` forgets its rule where `lax.scan` is differentiated in
# reverse mode: derivatives of that would be those of `found`, which has none. `axes`: what `vmap`
# maps, the innermost first.
_root = Primitive("implicit_root")
_root.def_impl(lambda found, *leaves, **_: found)
_root.def_abstract_eval(lambda found, *leaves, **_: found)
mlir.register_lowering(_root, mlir.lower_fun(lambda found, *leaves, **_: found, multiple_results=False))


def _tangent(primals, tangents, *, residual, linearize, tree, axes):
    """z, and dz = - J^-1 dF/dtheta dtheta."""
    z = _root.bind(*primals, residual=residual, linearize=linearize, tree=tree, axes=axes)
    moves = tuple(type(t) is not ad.Zero for t in tangents[1:])
    moved = functools.partial(_moved, residual, linearize, tree, moves)
    for mapped in axes:
        own = [axis for axis, changes in zip(mapped[1:], moves, strict=True) if changes]
        moved = jax.vmap(moved, (mapped[0], mapped[1:], own))
    return z, moved(z, primals[1:], [t for t, changes in zip(tangents[1:], moves, strict=True) if changes])


def _batched(arguments, axes_now, *, residual, linearize, tree, axes):
    found, *leaves = arguments
    at = axes_now[0]
    size = next(a.shape[axis] for a, axis in zip(arguments, axes_now, strict=True) if axis is not None)
    found = jnp.broadcast_to(found, (size, *found.shape)) if at is None else jnp.moveaxis(found, at, 0)
    mapped = (0, *(None if axis is None else axis for axis in axes_now[1:]))
    return _root.bind(found, *leaves, residual=residual, linearize=linearize, tree=tree, axes=(*axes, mapped)), 0


ad.primitive_jvps[_root] = _tangent
batching.primitive_batchers[_root] = _batched


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _moved(residual: Callable, linearize: Callable, tree, moves: tuple[bool, ...], z, leaves, changes):
    """dz (n,), linear in the `changes` of those `leaves` of theta that move."""

    def at_root(moving):
        rest = iter(moving)
        return residual(tree.unflatten([next(rest) if m else leaf for m, leaf in zip(moves, leaves, strict=True)]), z)

    moving = [leaf for leaf, m in zip(leaves, moves, strict=True) if m]
    _, change = jax.jvp(at_root, (moving,), (changes,))
    _, jacobian = linearize(tree.unflatten(leaves), z)
    return -solved(jacobian, change)


def solved(jacobian, right):
    """x (n,) of J x = `right`, NaN where it does not exist; `jacobian` (n, n)."""
    frozen = lax.stop_gradient(jacobian)
    return lax.custom_linear_solve(
        lambda x: jacobian @ x,
        right,
        lambda _, right: _either(frozen, right, _forward),
        lambda _, right: _either(frozen, right, _transposed),
    )


def _either(matrix, right, of_singular: Callable):
    """By LU, or by singular values where a pivot is small."""
    lu, order = lu_factors(matrix)
    pivots = jnp.abs(jnp.diagonal(lu))
    suspect = ~(jnp.min(pivots, initial=jnp.inf) > _SUSPECT * jnp.max(pivots, initial=0.0))
    by_lu = _lu_transposed if of_singular is _transposed else lu_solve
    return lax.cond(suspect, lambda: of_singular(_completed(matrix), right), lambda: by_lu(lu, order, right))


def _lu_transposed(lu, order, right):
    """x (n,) with A^T x = `right`, of `lu_factors(A)`."""
    upper = jax.scipy.linalg.solve_triangular(lu, right, trans=1)
    below = jax.scipy.linalg.solve_triangular(lu, upper, lower=True, unit_diagonal=True, trans=1)
    return jnp.zeros_like(right).at[order].set(below)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Completed:
    """The `inverse` (n, n) of J + U0 V0^T, with U0 and V0 the singular vectors of vanishing
    singular values: for consistent right sides the shortest solution, and what does not depend on
    redundant rows comes out as it is, as those keep apart. `left` (n, n) = U0, other columns zero;
    `opens` (n,): unknowns in V0; `redundant` (n,): those that depend on rows in U0."""

    inverse: jax.Array
    left: jax.Array
    right: jax.Array
    opens: jax.Array
    redundant: jax.Array


def _completed(matrix) -> _Completed:
    u, sizes, vt = jnp.linalg.svd(matrix)
    zero = ~(sizes > _SINGULAR * sizes[0])
    inverse = (vt.T / jnp.where(zero, 1.0, sizes)) @ u.T
    left, right = jnp.where(zero, u, 0.0), jnp.where(zero, vt.T, 0.0)
    opens = jnp.max(jnp.abs(right), axis=1) > _TRACE
    rows = jnp.max(jnp.abs(left), axis=1) > _TRACE
    redundant = jnp.any((jnp.abs(inverse) > _TRACE) & rows, axis=1)
    return _Completed(inverse, left, right, opens, redundant)


def _forward(completed: _Completed, right):
    """J x = `right`: open unknowns have no derivative; redundant ones only where the right side is
    consistent."""
    missed = jnp.max(jnp.abs(completed.left.T @ right)) > _INCONSISTENT * jnp.max(jnp.abs(right))
    x = completed.inverse @ right
    return jnp.where(completed.opens | (missed & completed.redundant), jnp.nan, x)


def _transposed(completed: _Completed, right):
    """J^T x = `right`: none where the right side asks for an unknown that has no derivative for
    some change."""
    asked = jnp.abs(right) > _INCONSISTENT * jnp.max(jnp.abs(right))
    x = completed.inverse.T @ right
    return jnp.where(jnp.any(asked & (completed.opens | completed.redundant)), jnp.nan, x)

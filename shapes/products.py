"""Products of vectors and matrices of a few entries, as sums of products.

XLA compiles each dot into a kernel of its own, tiled for large matrices; sums it fuses with what stands around them. For
three entries they take a third of the compile time and less time to run: docs/benchmarks.md.
"""

import jax.numpy as jnp


def inner(a, b):
    """Sum over the last axis of a b: a.b for vectors, and A b for a matrix and a vector."""
    return jnp.sum(a * b, axis=-1)


def product(A, B):
    """A B of matrices (l, m) and (m, n)."""
    return inner(A[:, None, :], B.T)

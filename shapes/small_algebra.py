"""Products of vectors and matrices of a few entries, as sums of products, and directions.

XLA compiles each dot into a kernel of its own, tiled for large matrices; sums it fuses with what
stands around them. For three entries they take a third of the compile time and less time to run:
docs/benchmarks.md. A quotient that several others need is a kernel of its own too, and derivatives
of quotients are full of them: hence one that is divided once.
"""

import jax
import jax.numpy as jnp
import numpy as np

# of a x b, as a bilinear form
CROSS = np.zeros((3, 3, 3))
CROSS[[0, 1, 2], [1, 2, 0], [2, 0, 1]], CROSS[[0, 1, 2], [2, 0, 1], [1, 2, 0]] = 1.0, -1.0


def inner(a, b):
    """Sum over the last axis of a b: a.b for vectors, and A b for a matrix and a vector."""
    return jnp.sum(a * b, axis=-1)


def product(A, B):
    """A B of matrices (l, m) and (m, n)."""
    return inner(A[:, None, :], B.T)


def bilinear(tensor, a, b):
    """sum_ij tensor_..ij a_i b_j: one kernel to compile where single components would be dozens."""
    return jnp.sum(tensor * (a[:, None] * b), axis=(-2, -1))


def cross(a, b):
    """a x b (3,)."""
    return bilinear(CROSS, a, b)


@jax.custom_jvp
def direction(v):
    """v / |v| (k,) and 1 / |v| of v (k,)."""
    per_length = 1 / jnp.sqrt(inner(v, v))
    return v * per_length, per_length


@direction.defjvp
def _direction_jvp(primals, tangents):
    (v,), (dv,) = primals, tangents
    n, per_length = direction(v)
    along = inner(n, dv)
    return (n, per_length), ((dv - along * n) * per_length, -along * per_length**2)

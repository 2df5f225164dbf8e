"""Functions whose roots are complementary: Fischer-Burmeister for numbers and cones, and the
natural map of a disc.

Fischer-Burmeister functions take a smoothing `kappa` >= 0: their roots then satisfy a b = kappa^2
instead of a b = 0. At the kinks (a = b = 0, or both parts on the boundary of the cone) the
derivative is that of the function smoothed by `_KINK`: never NaN, and an element of Clarke's
generalised derivative up to that smoothing.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from shapes.small_algebra import inner

# Smoothing under which derivatives are taken; the arguments are dimensionless, so it stands against
# 1.
_KINK = 1e-12
# Step of the natural map. Its roots do not depend on it; near the inverse of the response of a
# rolling sphere's contact point to a unit impulse, 1/(1/m + r^2/I) = 0.29 m, Newton crosses from
# stick to slip most directly.
STEP = 0.3


@jax.custom_jvp
def fischer_burmeister(a, b, kappa=0.0):
    """phi(a, b) = sqrt(a^2 + b^2 + 2 kappa^2) - a - b; zero iff a >= 0, b >= 0, a b = kappa^2.

    For a + b > 0 it is written without cancellation, as in Munson et al. (2001), so that a tiny
    product keeps its digits.
    """
    r = jnp.sqrt(a**2 + b**2 + 2 * kappa**2)
    total = a + b
    positive = total > 0
    return jnp.where(positive, 2 * (kappa**2 - a * b) / jnp.where(positive, r + total, 1.0), r - total)


@fischer_burmeister.defjvp
def _fischer_burmeister_jvp(primals, tangents):
    a, b, kappa = primals
    da, db, dkappa = tangents
    r = jnp.sqrt(a**2 + b**2 + 2 * jnp.maximum(kappa, _KINK) ** 2)
    per_r = 1 / r
    return fischer_burmeister(a, b, kappa), (a * per_r - 1) * da + (b * per_r - 1) * db + 2 * kappa * per_r * dkappa


@jax.custom_jvp
def fischer_burmeister_cone(x, s, kappa=0.0):
    """phi(x, s) = (x^2 + s^2 + 2 kappa^2 e)^(1/2) - x - s in the Jordan algebra of the second-order
    cone.

    x, s (1 + k,): zero iff x0 >= |x1..k|, s0 >= |s1..k| and x.s = 0 (at kappa = 0), Fukushima, Luo
    and Tseng (2002).
    """
    return _square_root(x, s, kappa) - x - s


@fischer_burmeister_cone.defjvp
def _fischer_burmeister_cone_jvp(primals, tangents):
    x, s, kappa = primals
    dx, ds, dkappa = tangents
    u = _square_root(x, s, jnp.maximum(kappa, _KINK))
    # u o u = x o x + s o s + 2 kappa^2 e, hence u o du = x o dx + s o ds + 2 kappa dkappa e
    right = _product(x, dx) + _product(s, ds) + 2 * kappa * dkappa * jnp.zeros_like(x).at[0].set(1.0)
    determinant = u[0] ** 2 - inner(u[1:], u[1:])
    smallest = _KINK * u[0]  # what the smoothing guarantees and round-off may lose
    head = (u[0] * right[0] - inner(u[1:], right[1:])) / jnp.maximum(determinant, smallest)
    du = jnp.concatenate([head[None], (right[1:] - head * u[1:]) / u[0]])
    return fischer_burmeister_cone(x, s, kappa), du - dx - ds


def _square_root(x, s, kappa):
    """u with u o u = x o x + s o s + 2 kappa^2 e and u in the cone.

    The smaller eigenvalue w0 - |w| is the determinant w0^2 - |w|^2 over the larger one; the
    determinant is summed from squares, so no digits cancel on the boundary of the cone, where a
    difference would leave an error of sqrt(eps).
    """
    x0, x1, s0, s1 = x[0], x[1:], s[0], s[1:]
    w0 = inner(x, x) + inner(s, s) + 2 * kappa**2
    w1 = 2 * (x0 * x1 + s0 * s1)
    length = jnp.sqrt(inner(w1, w1))
    determinant = (
        _determinant(x) ** 2
        + _determinant(s) ** 2
        + 2 * (jnp.sum((x0 * s1 - s0 * x1) ** 2) + (x0 * s0 - inner(x1, s1)) ** 2 + _wedge_squared(x1, s1))
        + 4 * kappa**2 * (inner(x, x) + inner(s, s) + kappa**2)
    )
    larger = w0 + length
    smaller = determinant / jnp.where(larger > 0, larger, 1.0)
    root_larger, root_smaller = jnp.sqrt(larger), jnp.sqrt(smaller)
    direction = w1 / jnp.where(length > 0, length, 1.0)
    return jnp.concatenate(
        [
            (root_larger + root_smaller)[None] / 2,
            (root_larger - root_smaller) / 2 * direction,
        ]
    )


def _determinant(x):
    length = jnp.sqrt(inner(x[1:], x[1:]))
    return (x[0] - length) * (x[0] + length)


def _wedge_squared(a, b):
    """|a|^2 |b|^2 - (a.b)^2 as a sum of squares."""
    minors = a[:, None] * b[None, :] - a[None, :] * b[:, None]
    return jnp.sum(minors**2) / 2


def _product(x, y):
    """Jordan product x o y = (x.y, x0 y1 + y0 x1)."""
    return jnp.concatenate([inner(x, y)[None], x[0] * y[1:] + y[0] * x[1:]])


def natural_disc(y, w, radius):
    """y - proj(y - r w) onto {|y| <= radius}, r = `STEP`: zero iff y maximises -w.y over the disc
    (k,); radius >= 0.

    The same roots as the cone function, without the multiplier |w|. Where y sticks inside the disc
    the row is r w itself, linear, so that statically indeterminate friction keeps Newton's fast
    convergence. On a disc that is a point the row is y, where nothing slides too.
    """
    return y - jnp.where(radius > 0, project_to_disc(y - STEP * w, radius), 0.0)


def project_to_disc(y, radius):
    """The point of {|y| <= radius} closest to y (k,); radius >= 0."""
    squared = inner(y, y)
    outside = squared > radius**2
    # a quotient by nothing would leave no number in reverse
    return y * jnp.where(outside, radius / jnp.where(outside, length_of(y), 1.0), 1.0)


@jax.custom_jvp
def length_of(v):
    """|v| with derivative 0 at v = 0, an element of the generalised derivative where autodiff gives
    NaN."""
    return jnp.sqrt(inner(v, v))


@length_of.defjvp
def _length_of_jvp(primals, tangents):
    (v,), (dv,) = primals, tangents
    length = length_of(v)
    per_length = jnp.where(length > 0, 1 / jnp.where(length > 0, length, 1.0), 0.0)
    return length, inner(v * per_length, dv)

"""Where two convex bodies come closest, roughly but from anywhere: a start for Newton's method on
the closest-point rows.

The least |a2 - a1|^2 / 2 over points of the bodies is a convex problem: a primal-dual
interior-point method goes from a point inside each body to its solution in 10 to 30 iterations,
whatever the shapes and wherever they are. Bodies that overlap have no solution with a normal; body
2 is then shifted to where they have one.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jax import lax

from shapes.closest_points.conditions import PairClass, Placed
from shapes.shards import varying_like
from shapes.small_algebra import inner

from .approach_sides import Response, side

# The interior-point method. Lengths are in units of `length`, forces are lengths.
_FIRST = 0.1  # products at the start, relative to the squared distance
_CENTRING = 0.1  # of the present products is what a step aims at, or all of them where
_HASTE = 10.0  # the squared unbalanced force is more than this times their sum, or
_UNEVEN = 0.1  # one of them is less than this share of their mean
_SHARE = 0.99  # of the way to where a multiplier or slack vanishes is the longest step
_CENTRAL = 0.01  # of the mean product must be left in each
_HALVINGS = 12  # of a step that leaves less
_REGULAR = 1e-12  # added to a matrix whose entries are of order 1: parallel faces leave it singular
_ITERATIONS = 60
# of the products, relative to the squared distance, and of forces relative to it
_ACCURACY, _BALANCE = 1e-13, 1e-4
_ROUND_OFF = 1e-15  # of a point inside a body
_ROUGH = 1e-4  # sum of products at which bodies that are near are left for a shift
# Shifts of body 2.
_TOUCHING = 1e-13  # lengths between bodies below which they have no normal of their own
_NEAR = 0.05  # lengths between shifted bodies below which they count as not parted
_SHIFT, _GROWTH = 0.1, 4.0  # lengths of the first shift, and how it grows until it parts the bodies
_BEYOND = 1.1  # times the depth, and the first shift, is the next once it does
_ALIGNED = 1e-3  # lengths that a shift may be off the normal
_ROUNDS = 12


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Approach:
    """Closest points a1, a2 (d,) [m] of the cores, with body 2 where it is; common normal n (d,);
    gap [m] with body 2 moved; weights (m1,), (m2,) of the unit normals; bend [rad per length], by
    how much curvature turns the normals."""

    a1: jax.Array
    a2: jax.Array
    n: jax.Array
    gap: jax.Array
    weights: tuple[jax.Array, jax.Array]
    bend: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Iterate:
    w: tuple[jax.Array, jax.Array]
    c: tuple[jax.Array, jax.Array]
    jets: tuple
    iterations: jax.Array


@dataclasses.dataclass(frozen=True)
class _Search:
    """Both `sides` with body 2 moved: a2 - a1 = `offset` (d,) + `link` (d, 2d) @ (y1, y2), in the
    coordinates of body 1 and in lengths; the search ends where they are within `enough` lengths."""

    sides: tuple
    offset: jax.Array
    link: jax.Array
    enough: float

    def both(self, method, *of_both):
        """The method of each side, with its part of every argument."""
        return tuple(getattr(side, method)(*of) for side, *of in zip(self.sides, *of_both, strict=True))

    def state(self, at: _Iterate):
        """Vector a2 - a1 (d,), unbalanced forces (2d,) and products (m1 + m2,)."""
        points, forces = zip(*self.both("point_and_force", at.w, at.c, at.jets), strict=True)
        between = self.offset + self.link @ jnp.concatenate(points)
        products = jnp.concatenate(self.both("products", at.c, at.jets))
        return between, self.link.T @ between + jnp.concatenate(forces), products

    def advance(self, at: _Iterate) -> _Iterate:
        """One step along the central path."""
        both, link = self.both, self.link
        _, unbalance, products = self.state(at)
        mean = jnp.mean(products)
        wait = (inner(unbalance, unbalance) > _HASTE * jnp.sum(products)) | (jnp.min(products) < _UNEVEN * mean)
        aim = jnp.where(wait, 1.0, _CENTRING)
        mu = (aim * mean, aim * mean)
        parts = [
            [getattr(r, f.name) for r in both("respond", at.w, at.c, at.jets, mu)] for f in dataclasses.fields(Response)
        ]
        lean, stiffness = (jax.scipy.linalg.block_diag(*parts[i]) for i in (0, 2))
        off = link.T @ (link @ jnp.concatenate(parts[1])) + jnp.concatenate(parts[3])
        matrix = link.T @ (link @ lean) + stiffness + _REGULAR * jnp.eye(link.shape[1])
        change = -jnp.linalg.solve(matrix, unbalance + off)
        # where an edge is parallel to a face within rounding, nothing is to be gained any more
        regular = jnp.all(jnp.isfinite(change))
        dw = tuple(jnp.split(jnp.where(regular, change, 0.0), 2))
        dc = both("follow", at.c, at.jets, mu, dw)
        value, slope = (jnp.concatenate(v) for v in zip(*both("positive", at.w, at.c, at.jets, dw, dc), strict=True))
        reach = jnp.min(jnp.where(slope < 0, -value / jnp.where(slope < 0, slope, -1.0), jnp.inf))
        steps = jnp.minimum(1.0, _SHARE * reach) * 0.5 ** jnp.arange(_HALVINGS)
        least = _CENTRAL * mean * (1 - (1 - aim) * steps)
        allowed = jnp.all(jnp.stack(both("allowed", at.w, at.c, dw, dc, (steps, steps), (least, least))), axis=0)
        step = jnp.where(regular & jnp.any(allowed), steps[jnp.argmax(allowed)], 0.0)
        # a slack may have been rounded to zero: then changes are not finite, and no step may add
        # them
        w, c = jax.tree.map(lambda old, change: jnp.where(step > 0, old + step * change, old), (at.w, at.c), (dw, dc))
        jets = varying_like(both("jet", w), w)  # of planes they are constants
        return _Iterate(w, c, jets, jnp.where(regular, at.iterations + 1, _ITERATIONS))

    def proceed(self, at: _Iterate):
        """Whether () more steps are worth it."""
        between, unbalance, products = self.state(at)
        distance, total = jnp.linalg.norm(between), jnp.sum(products)
        inexact = total > distance * jnp.maximum(_ACCURACY * jnp.minimum(1.0, distance), _ROUND_OFF)
        unbalanced = jnp.linalg.norm(unbalance) > jnp.maximum(_BALANCE * distance, _ROUND_OFF)
        left = (distance < self.enough) & (total < _ROUGH)
        return (inexact | unbalanced) & ~left & (at.iterations < _ITERATIONS)


def approach(
    pair: PairClass, first: Placed, second: Placed, inside_1, inside_2, length, shift, enough, fallback
) -> Approach:
    """Rough closest points with body 2 moved by `shift` (d,) [m]; only a direction when they are
    within `enough` lengths.

    `inside_i` (d,) [m] are points inside, in shape coordinates, and `fallback` (d,) is the normal
    if they are one.
    """
    turn = first.rotation.T @ second.rotation
    offset = first.rotation.T @ (second.position + shift - first.position) / length
    link = jnp.concatenate([-jnp.eye(pair.dimension), turn], axis=1)
    sides = tuple(side(*of, length) for of in ((pair.first, first, inside_1), (pair.second, second, inside_2)))
    search = _Search(sides, offset, link, enough)

    between = offset + link @ jnp.concatenate([inside_1, inside_2]) / length
    between = jnp.where(jnp.linalg.norm(between) > _NEAR, between, _NEAR * first.rotation.T @ fallback)
    mu = _FIRST * inner(between, between)
    w, c = zip(*search.both("start", tuple(jnp.split(-link.T @ between, 2)), (mu, mu)), strict=True)
    begin = _Iterate(w, c, search.both("jet", w), jnp.zeros((), int))
    end = lax.while_loop(search.proceed, search.advance, varying_like(begin, (first, second, offset)))

    (y1, force_1), (y2, force_2) = search.both("point_and_force", end.w, end.c, end.jets)
    pull = (force_1 - turn @ force_2) / 2
    size = jnp.linalg.norm(pull)
    safe = jnp.where(size > 0, size, 1.0)
    n = jnp.where(size > 0, first.rotation @ pull / safe, fallback)
    return Approach(
        a1=first.position + first.rotation @ (length * y1),
        a2=second.position + second.rotation @ (length * y2),
        n=n,
        gap=length * inner(n, first.rotation @ (offset + turn @ y2 - y1)),
        weights=search.both("weights", end.w, end.c, (safe, safe)),
        bend=sum(search.both("bend", end.c, end.jets, (safe, safe))),
    )


def start(pair: PairClass, first: Placed, second: Placed, inside_1, inside_2, length, direction, depth):
    """Long-form unknowns near closest points, in metres, and `bend`; of overlapping bodies along a
    normal near `direction`.

    Body 2 is shifted by `depth` [m] along the unit `direction` (d,) first. From the normal of
    bodies so parted, how far they overlap along it follows; that is never more than along the
    direction of the shift, which the normal replaces.
    """

    def again(at):
        number, shift, *_ = at
        limit = jnp.where(jnp.any(shift != 0), _NEAR, _TOUCHING)
        found = approach(pair, first, second, inside_1, inside_2, length, shift, limit / 2, direction)
        along = inner(shift, found.n)
        parted = found.gap >= limit * length
        aligned = parted & (jnp.linalg.norm(shift - along * found.n) < _ALIGNED * length)
        farther = jnp.where(parted, _BEYOND * jnp.maximum(along - found.gap, 0.0), _GROWTH * jnp.linalg.norm(shift))
        psi = inner(found.n, found.a2 - found.a1) - pair.radii(first, second)
        z = jnp.concatenate([found.a1, found.a2, found.n, psi[None], *found.weights])
        return number + 1, (farther + _SHIFT * length) * found.n, aligned, z, found.bend

    nothing = (jnp.zeros((), int), depth * direction, jnp.zeros((), bool), jnp.zeros(pair.unknowns), jnp.zeros(()))
    nothing = varying_like(nothing, (first, second, nothing))
    *_, z, bend = lax.while_loop(lambda at: (at[0] < _ROUNDS) & ~at[2], again, nothing)
    return z, bend

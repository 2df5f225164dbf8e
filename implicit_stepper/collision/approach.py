"""Where two convex bodies come closest, roughly but from anywhere: a start for Newton's method on the closest-point rows.

The least |a2 - a1|^2 / 2 over points of the bodies is a convex problem: a primal-dual interior-point method goes from a
point inside each body to its solution in 10 to 30 iterations, whatever the shapes and wherever they are. Bodies that
overlap have no solution with a normal; body 2 is then shifted to where they have one.

A side of the pair is a point y, in the body's coordinates and in lengths, and the force that holds it there. With
inequalities, y is an unknown and the force is sum l grad f, where l (-f) = mu. With a support function H, whose point is as
smooth as the inequality is not, the force w is an unknown and y = inside + (1 - s) grad H(w), where s (H(w) + mu) = mu. The
products l (-f) and s H / (1 - s), all mu, go to zero together.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jax import lax

from shapes.closest_points.conditions import PairClass, Placed
from shapes.shape_class import ShapeClass
from shapes.shards import varying_like
from shapes.small_algebra import inner

# The interior-point method. Lengths are in units of `length`, forces are lengths.
_FIRST = 0.1  # products at the start, relative to the squared distance
_CENTRING = 0.1  # of the present products is what a step aims at, or all of them where
_HASTE = 10.0  # the squared unbalanced force is more than this times their sum, or
_UNEVEN = 0.1  # one of them is less than this share of their mean
_SHARE = 0.99  # of the way to where a multiplier or slack vanishes is the longest step
_LONGEST = 1.0  # lengths by which a step may move a point: deep inside a body of high powers nothing holds it
_CENTRAL = 0.01  # of the mean product must be left in each
_HALVINGS = 12  # of a step that leaves less
_TURN = 0.3  # [rad] by which a step may turn the force on a support function, lest its point jumps to and fro
_REGULAR = 1e-12  # added to a matrix whose entries are of order 1: parallel faces leave it singular
_ITERATIONS = 60
_ACCURACY, _BALANCE = 1e-13, 1e-4  # of the products, relative to the squared distance, and of forces relative to it
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
class _Response:
    """Linearisation of one side: y changes by lean @ dw + y_off, the force by stiffness @ dw + force_off."""

    lean: jax.Array
    y_off: jax.Array
    stiffness: jax.Array
    force_off: jax.Array


@dataclasses.dataclass(frozen=True)
class _Inequalities:
    """Unknowns w = y (d,) and c = l (m,); `jet` is f, grad f and the Hessians, of slope near 1."""

    shape_class: ShapeClass
    placed: Placed
    inside: jax.Array
    length: jax.Array

    def value(self, w):
        """f_j (m,) in lengths."""
        return self.shape_class.jet.value(w * self.length, self.placed.theta) / (self.placed.slope * self.length)

    def jet(self, w):
        """What the other methods need of the surface at w."""
        x, slope = w * self.length, self.placed.slope[:, None]
        gradient = self.shape_class.jet.gradient(x, self.placed.theta) / slope
        hessian = self.shape_class.jet.hessian(x, self.placed.theta) * (self.length / slope[:, None])
        return self.value(w), gradient, hessian

    def start(self, _, mu):
        """w and c on the central path with products mu, given the force (d,) that the other body exerts."""
        return self.inside, mu / -self.value(self.inside)

    def products(self, c, jet):
        """Products (m,) or (1,), which vanish at the solution."""
        return -c * jet[0]

    def point_and_force(self, w, c, jet):
        """y and force (d,), both in the body's coordinates and in lengths."""
        return w, c @ jet[1]

    def respond(self, w, c, jet, mu):
        """The linearised relation of y and force that keeps the products at mu."""
        slack, g = -jet[0], jet[1]
        stiffness = jnp.tensordot(c, jet[2], 1) + (g.T * (c / slack)) @ g
        return _Response(jnp.eye(w.size), jnp.zeros(w.size), stiffness, (mu / slack - c) @ g)

    def follow(self, c, jet, mu, dw):
        """How c changes with w by dw when the products go to mu."""
        slack, g = -jet[0], jet[1]
        return mu / slack - c + c / slack * (g @ dw)

    def positive(self, w, c, jet, dw, dc):
        """What must stay positive along a step, and how fast it changes."""
        return jnp.append(c, _LONGEST), jnp.append(dc, -jnp.linalg.norm(dw))

    def allowed(self, w, c, dw, dc, steps, least):
        """Which `steps` (n,) leave every product above `least` (n,)."""
        products = -(c + steps[:, None] * dc) * jax.vmap(lambda step: self.value(w + step * dw))(steps)
        return jnp.all(products > least[:, None], axis=1)

    def weights(self, w, c, force):
        """Weights (m,) of the unit normals that make the unit normal, given the size of the force."""
        return c / force

    def bend(self, c, jet, force):
        """How much curvature turns the normal () [rad per length]."""
        return jnp.linalg.norm(jnp.tensordot(c / force, jet[2], 1))


@dataclasses.dataclass(frozen=True)
class _Support:
    """Unknowns w (d,), the force, and c = s (1,) in 0..1; `jet` is H about the inside, its gradient and its Hessian."""

    shape_class: ShapeClass
    placed: Placed
    inside: jax.Array
    length: jax.Array

    def jet(self, w):
        """What the other methods need of the surface at w."""
        of = self.shape_class.support_jet
        value, gradient, hessian = (part(w, self.placed.theta) / self.length for part in (of.value, of.gradient, of.hessian))
        return value - self.inside @ w, gradient - self.inside, hessian

    def start(self, force, mu):
        """w and c on the central path with products mu, given the force (d,) that the other body exerts."""
        return force, mu / (self.jet(force)[0] + mu)

    def products(self, c, jet):
        """Products (m,) or (1,), which vanish at the solution."""
        return c * jet[0] / (1 - c)

    def point_and_force(self, w, c, jet):
        """y and force (d,), both in the body's coordinates and in lengths."""
        return self.inside + (1 - c[0]) * jet[1][0], w

    def respond(self, w, c, jet, mu):
        """The linearised relation of y and force that keeps the products at mu."""
        s, H, g = c[0], jet[0][0], jet[1][0]
        lean = (1 - s) * jet[2][0] + s / (H + mu) * jnp.outer(g, g)
        return _Response(lean, (s - mu / (H + mu)) * g, jnp.eye(w.size), jnp.zeros(w.size))

    def follow(self, c, jet, mu, dw):
        """How c changes with w by dw when the products go to mu."""
        return (mu - c * (jet[1] @ dw)) / (jet[0] + mu) - c

    def positive(self, w, c, jet, dw, dc):
        """What must stay positive along a step, and how fast it changes."""
        size = jnp.linalg.norm(w)
        turn = jnp.linalg.norm(dw - w * (inner(w, dw) / size**2))
        return jnp.concatenate([c, 1 - c, jet[0], _TURN * size[None]]), jnp.concatenate([dc, -dc, jet[1] @ dw, -turn[None]])

    def allowed(self, w, c, dw, dc, steps, least):
        """Which `steps` (n,) leave every product above `least` (n,)."""
        return jnp.ones(steps.shape, bool)  # every force has a point inside

    def weights(self, w, c, force):
        """Weights (m,) of the unit normals that make the unit normal, given the size of the force."""
        own = self.shape_class.support_jet.gradient(w, self.placed.theta)[0]
        return self.placed.slope / jnp.linalg.norm(self.shape_class.jet.gradient(own, self.placed.theta), axis=1)

    def bend(self, c, jet, force):
        """How much curvature turns the normal () [rad per length]."""
        return jnp.zeros(())  # the normal does not follow from the point


def _side(shape_class: ShapeClass, placed: Placed, inside, length):
    # The gradient of a swept support function jumps; the inequality of such a body is smooth enough.
    kind = _Inequalities if shape_class.support is None or any(i is not None for i in shape_class.sweep) else _Support
    return kind(shape_class, placed, inside / length, length)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Approach:
    """Closest points a1, a2 (d,) [m] of the cores, with body 2 where it is; common normal n (d,); gap [m] with body 2 moved;
    weights (m1,), (m2,) of the unit normals; bend [rad per length], by how much curvature turns the normals."""

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


def approach(
    pair: PairClass, first: Placed, second: Placed, inside_1, inside_2, length, shift, enough, fallback
) -> Approach:
    """Rough closest points with body 2 moved by `shift` (d,) [m]; only a direction when they are within `enough` lengths.

    `inside_i` (d,) [m] are points inside, in shape coordinates, and `fallback` (d,) is the normal if they are one.
    """
    d = pair.dimension
    turn = first.rotation.T @ second.rotation
    offset = first.rotation.T @ (second.position + shift - first.position) / length
    link = jnp.concatenate([-jnp.eye(d), turn], axis=1)  # a2 - a1 = offset + link @ (y1, y2), in the coordinates of body 1
    sides = tuple(_side(*of, length) for of in ((pair.first, first, inside_1), (pair.second, second, inside_2)))

    def both(method, *of_both):
        """The method of each side, with its part of every argument."""
        return tuple(getattr(side, method)(*of) for side, *of in zip(sides, *of_both, strict=True))

    def state(at: _Iterate):
        """Vector a2 - a1 (d,), unbalanced forces (2d,) and products (m1 + m2,)."""
        points, forces = zip(*both("point_and_force", at.w, at.c, at.jets), strict=True)
        between = offset + link @ jnp.concatenate(points)
        return between, link.T @ between + jnp.concatenate(forces), jnp.concatenate(both("products", at.c, at.jets))

    def advance(at: _Iterate) -> _Iterate:
        _, unbalance, products = state(at)
        mean = jnp.mean(products)
        wait = (inner(unbalance, unbalance) > _HASTE * jnp.sum(products)) | (jnp.min(products) < _UNEVEN * mean)
        aim = jnp.where(wait, 1.0, _CENTRING)
        mu = (aim * mean, aim * mean)
        parts = [
            [getattr(r, f.name) for r in both("respond", at.w, at.c, at.jets, mu)] for f in dataclasses.fields(_Response)
        ]
        lean, stiffness = (jax.scipy.linalg.block_diag(*parts[i]) for i in (0, 2))
        off = link.T @ (link @ jnp.concatenate(parts[1])) + jnp.concatenate(parts[3])
        matrix = link.T @ (link @ lean) + stiffness + _REGULAR * jnp.eye(2 * d)
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
        # a slack may have been rounded to zero: then changes are not finite, and no step may add them
        w, c = jax.tree.map(lambda old, change: jnp.where(step > 0, old + step * change, old), (at.w, at.c), (dw, dc))
        jets = varying_like(both("jet", w), w)  # of planes they are constants
        return _Iterate(w, c, jets, jnp.where(regular, at.iterations + 1, _ITERATIONS))

    def proceed(at: _Iterate):
        between, unbalance, products = state(at)
        distance, total = jnp.linalg.norm(between), jnp.sum(products)
        inexact = total > distance * jnp.maximum(_ACCURACY * jnp.minimum(1.0, distance), _ROUND_OFF)
        unbalanced = jnp.linalg.norm(unbalance) > jnp.maximum(_BALANCE * distance, _ROUND_OFF)
        left = (distance < enough) & (total < _ROUGH)
        return (inexact | unbalanced) & ~left & (at.iterations < _ITERATIONS)

    between = offset + link @ jnp.concatenate([inside_1, inside_2]) / length
    between = jnp.where(jnp.linalg.norm(between) > _NEAR, between, _NEAR * first.rotation.T @ fallback)
    mu = _FIRST * inner(between, between)
    w, c = zip(*both("start", tuple(jnp.split(-link.T @ between, 2)), (mu, mu)), strict=True)
    begin = _Iterate(w, c, both("jet", w), jnp.zeros((), int))
    end = lax.while_loop(proceed, advance, varying_like(begin, (first, second, offset)))

    (y1, force_1), (y2, force_2) = both("point_and_force", end.w, end.c, end.jets)
    pull = (force_1 - turn @ force_2) / 2
    size = jnp.linalg.norm(pull)
    safe = jnp.where(size > 0, size, 1.0)
    n = jnp.where(size > 0, first.rotation @ pull / safe, fallback)
    return Approach(
        a1=first.position + first.rotation @ (length * y1),
        a2=second.position + second.rotation @ (length * y2),
        n=n,
        gap=length * inner(n, first.rotation @ (offset + turn @ y2 - y1)),
        weights=both("weights", end.w, end.c, (safe, safe)),
        bend=sum(both("bend", end.c, end.jets, (safe, safe))),
    )


def start(pair: PairClass, first: Placed, second: Placed, inside_1, inside_2, length, direction, depth):
    """Long-form unknowns near closest points, in metres, and `bend`; of overlapping bodies along a normal near `direction`.

    Body 2 is shifted by `depth` [m] along the unit `direction` (d,) first. From the normal of bodies so parted, how far they
    overlap along it follows; that is never more than along the direction of the shift, which the normal replaces.
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

"""Where two convex bodies come closest, roughly but from anywhere: a start for Newton's method on the closest-point rows.

The least |a2 - a1|^2 / 2 over points of the bodies is a convex problem: a primal-dual interior-point method goes from a point
inside each body to its solution in about 13 iterations, whatever the shapes are like. Bodies that touch or overlap have
no such solution with a normal; body 2 is then shifted away, by `shift`, to where they have one.

A side of the pair is a point y, in the body's coordinates and in lengths, and the force that holds it. With inequalities, y
is an unknown and the force is sum l grad f, l (-f) = mu. With a support function H, whose point is as smooth as the inequality
is not, the force w is an unknown, y = inside + (1 - s) grad H(w) and s (H(w) + mu) = mu. The method follows mu to zero.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jax import lax

from shapes.closest_points import PairClass, Placed
from shapes.implicit import ShapeClass

_CENTRING = 0.1  # of the present products l (-f) is what a step aims at
_HASTE = 10.0  # squared unbalanced force, relative to the products, above which the products must wait for it
_SHARE = 0.99  # of the way to where a multiplier or slack vanishes
_UNEVEN = 0.1  # least product, relative to their mean, below which they are first evened out
_CENTRAL = 0.01  # of the mean product must be left in each, lest steps become short
_TURN = 0.3  # [rad] by which the force on a support function turns in a step, lest its point jumps to and fro
_HALVINGS = 12
_ITERATIONS = 60
_ACCURACY = 1e-9  # of the sum of products and of the forces' balance, where a length is 1
_ROUGH = 1e-4  # sum of products at which bodies that are near are left for a shift
_FIRST = 0.1  # first products, relative to the squared distance
_NEAR = 0.05  # lengths between the bodies below which a shift keeps the normal well determined
_SHIFT = 0.1  # lengths by which they are then parted
_BEYOND = 1.1  # times a depth to get bodies apart
_GROWTH = 4.0  # of a shift that does not
_ALIGNED = 1e-3  # lengths that a shift may be off the normal
_ROUNDS = 12
_REGULAR = 1e-12  # added to a matrix whose entries are of order 1


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Step:
    """Linearisation of one side: y changes by lean @ dw + y_off, the force by stiffness @ dw + force_off."""

    lean: jax.Array
    y_off: jax.Array
    stiffness: jax.Array
    force_off: jax.Array


@dataclasses.dataclass(frozen=True)
class _Inequalities:
    """Unknowns w = y (d,) and the multipliers c = l (m,); `jet` is f, grad f, Hessian of f in lengths, of slope near 1."""

    shape_class: ShapeClass
    placed: Placed
    inside: jax.Array
    length: jax.Array

    def value(self, w):
        return self.shape_class.jet.value(w * self.length, self.placed.theta) / (self.placed.slope * self.length)

    def jet(self, w):
        x, slope = w * self.length, self.placed.slope[:, None]
        gradient = self.shape_class.jet.gradient(x, self.placed.theta) / slope
        hessian = self.shape_class.jet.hessian(x, self.placed.theta) * (self.length / slope[:, None])
        return self.value(w), gradient, hessian

    def start(self, _, mu):
        return self.inside, mu / -self.value(self.inside)

    def products(self, c, jet):
        return -c * jet[0]

    def look(self, w, c, jet):
        return w, c @ jet[1]

    def step(self, w, c, jet, mu):
        s, g = -jet[0], jet[1]
        stiffness = jnp.tensordot(c, jet[2], 1) + (g.T * (c / s)) @ g
        return _Step(jnp.eye(w.size), jnp.zeros(w.size), stiffness, (mu / s - c) @ g)

    def change(self, c, jet, mu, dw):
        s, g = -jet[0], jet[1]
        return mu / s - c + c / s * (g @ dw)

    def positive(self, w, c, jet, dw, dc):
        return c, dc

    def allowed(self, w, dw, c, dc, steps, least):
        products = -(c + steps[:, None] * dc) * jax.vmap(lambda step: self.value(w + step * dw))(steps)
        return jnp.all(products > least[:, None], axis=1)

    def weights(self, w, c, force):
        return c / force

    def bend(self, c, jet, force):
        return jnp.linalg.norm(jnp.tensordot(c / force, jet[2], 1))


@dataclasses.dataclass(frozen=True)
class _Support:
    """Unknowns w (d,), the force, and the slack c = s (1,), 0 < s < 1; `jet` is H about the inside, its gradient, Hessian."""

    shape_class: ShapeClass
    placed: Placed
    inside: jax.Array
    length: jax.Array

    def jet(self, w):
        of = self.shape_class.support_jet
        value, gradient, hessian = (part(w, self.placed.theta) / self.length for part in (of.value, of.gradient, of.hessian))
        return value - self.inside @ w, gradient - self.inside, hessian

    def start(self, force, mu):
        return force, mu / (self.jet(force)[0] + mu)

    def products(self, c, jet):
        return c * jet[0] / (1 - c)

    def look(self, w, c, jet):
        return self.inside + (1 - c[0]) * jet[1][0], w

    def step(self, w, c, jet, mu):
        s, H, g = c[0], jet[0][0], jet[1][0]
        lean = (1 - s) * jet[2][0] + s / (H + mu) * jnp.outer(g, g)
        return _Step(lean, (s - mu / (H + mu)) * g, jnp.eye(w.size), jnp.zeros(w.size))

    def change(self, c, jet, mu, dw):
        return (mu - c * (jet[1] @ dw)) / (jet[0] + mu) - c

    def positive(self, w, c, jet, dw, dc):
        size = jnp.linalg.norm(w)
        turn = jnp.linalg.norm(dw - w * (jnp.dot(w, dw) / size**2))
        return jnp.concatenate([c, 1 - c, jet[0], _TURN * size[None]]), jnp.concatenate([dc, -dc, jet[1] @ dw, -turn[None]])

    def allowed(self, w, dw, c, dc, steps, least):
        return jnp.ones(steps.shape, bool)  # every force has its point

    def weights(self, w, c, force):
        own = self.shape_class.support_jet.gradient(w, self.placed.theta)[0]
        return self.placed.slope / jnp.linalg.norm(self.shape_class.jet.gradient(own, self.placed.theta), axis=1)

    def bend(self, c, jet, force):
        return jnp.zeros(())  # an error of the point leaves the normal as it is


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Approach:
    """Closest points a1, a2 (d,) [m] of the cores, with body 2 where it is, common normal n (d,), gap [m] with body 2
    shifted, and weights (m1,), (m2,) of the unit normals; bend (): curvature at the points times the length."""

    a1: jax.Array
    a2: jax.Array
    n: jax.Array
    gap: jax.Array
    weights: tuple[jax.Array, jax.Array]
    bend: jax.Array
    iterations: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Iterate:
    w: tuple[jax.Array, jax.Array]
    c: tuple[jax.Array, jax.Array]
    jets: tuple
    iterations: jax.Array


def approach(pair: PairClass, first: Placed, second: Placed, inside_1, inside_2, shift, fallback, length) -> Approach:
    """Rough closest points with body 2 moved by `shift` (d,) [m]; `fallback` (d,) is the normal of concentric bodies.

    `inside_i` (d,) [m] are points inside, in shape coordinates.
    """
    d = pair.dimension
    turn = first.rotation.T @ second.rotation
    offset = first.rotation.T @ (second.position + shift - first.position) / length
    link = jnp.concatenate([-jnp.eye(d), turn], axis=1)  # a2 - a1 = offset + link @ (y1, y2), in the coordinates of body 1
    sides = tuple(_side(*of, length) for of in ((pair.first, first, inside_1), (pair.second, second, inside_2)))

    def every(method, *per_side):
        return tuple(getattr(side, method)(*of) for side, *of in zip(sides, *per_side, strict=True))

    def state(w, c, jets):
        """Vector a2 - a1 (d,), unbalanced forces (2d,) and products (m1 + m2,)."""
        points, forces = zip(*every("look", w, c, jets), strict=True)
        between = offset + link @ jnp.concatenate(points)
        return between, link.T @ between + jnp.concatenate(forces), jnp.concatenate(every("products", c, jets))

    def advance(at: _Iterate) -> _Iterate:
        _, unbalance, products = state(at.w, at.c, at.jets)
        rash = jnp.dot(unbalance, unbalance) > _HASTE * jnp.sum(products)
        sigma = jnp.where(rash | (jnp.min(products) < _UNEVEN * jnp.mean(products)), 1.0, _CENTRING)
        mu = sigma * jnp.mean(products)
        both = (mu, mu)
        steps = every("step", at.w, at.c, at.jets, both)
        off = link.T @ (link @ jnp.concatenate([s.y_off for s in steps])) + jnp.concatenate([s.force_off for s in steps])
        lean, stiffness = (jax.scipy.linalg.block_diag(*parts) for parts in zip(*((s.lean, s.stiffness) for s in steps)))
        matrix = link.T @ (link @ lean) + stiffness + _REGULAR * jnp.eye(2 * d)
        dw = jnp.split(-jnp.linalg.solve(matrix, unbalance + off), 2)
        dc = every("change", at.c, at.jets, both, dw)
        value, slope = (jnp.concatenate(parts) for parts in zip(*every("positive", at.w, at.c, at.jets, dw, dc), strict=True))
        reach = jnp.min(jnp.where(slope < 0, -value / jnp.where(slope < 0, slope, -1.0), jnp.inf))
        trials = jnp.minimum(1.0, _SHARE * reach) * 0.5 ** jnp.arange(_HALVINGS)
        least = _CENTRAL * jnp.mean(products) * (1 - (1 - sigma) * trials)
        allowed = jnp.all(jnp.stack(every("allowed", at.w, dw, at.c, dc, (trials, trials), (least, least))), axis=0)
        step = jnp.where(jnp.any(allowed), trials[jnp.argmax(allowed)], 0.0)
        w, c = (tuple(a + step * da for a, da in zip(*of, strict=True)) for of in ((at.w, dw), (at.c, dc)))
        return _Iterate(w, c, every("jet", w), at.iterations + 1)

    def proceed(at: _Iterate):
        between, unbalance, products = state(at.w, at.c, at.jets)
        inexact = jnp.sum(products) + jnp.linalg.norm(unbalance) > _ACCURACY * jnp.maximum(1.0, jnp.linalg.norm(between))
        near = (jnp.linalg.norm(between) < _NEAR / 2) & (jnp.sum(products) < _ROUGH)
        return inexact & ~near & (at.iterations < _ITERATIONS)

    centres = jnp.concatenate([inside_1, inside_2]) / length
    between = offset + link @ centres
    between = jnp.where(jnp.linalg.norm(between) > _NEAR, between, _NEAR * first.rotation.T @ fallback)
    mu = _FIRST * jnp.dot(between, between)
    w, c = zip(*every("start", tuple(jnp.split(-link.T @ between, 2)), (mu, mu)), strict=True)
    end = lax.while_loop(proceed, advance, _Iterate(w, c, every("jet", w), jnp.zeros((), int)))

    (y1, force_1), (y2, force_2) = every("look", end.w, end.c, end.jets)
    force = (force_1 - turn @ force_2) / 2
    size = jnp.linalg.norm(force)
    has_normal = size > 0
    safe = jnp.where(has_normal, size, 1.0)
    n = jnp.where(has_normal, first.rotation @ force / safe, fallback)
    return Approach(
        first.position + first.rotation @ (length * y1),
        second.position + second.rotation @ (length * y2),
        n,
        length * jnp.dot(n, first.rotation @ (offset + turn @ y2 - y1)),
        every("weights", end.w, end.c, (safe, safe)),
        sum(every("bend", end.c, end.jets, (safe, safe))),
        end.iterations,
    )


def start(pair: PairClass, first: Placed, second: Placed, inside_1, inside_2, length, direction, depth):
    """Long-form unknowns near closest points, in metres, and `bend`; for bodies that overlap along a normal near `direction`.

    Body 2 is first shifted by `depth` [m] along the unit `direction` (d,). Wherever that parts the bodies, their normal is a
    direction along which a shorter shift would: the depth never grows from round to round.
    """

    def round_(at):
        number, shift, *_ = at
        found = approach(pair, first, second, inside_1, inside_2, shift, direction, length)
        along = jnp.dot(shift, found.n)
        near = found.gap < _NEAR * length
        aligned = ~near & (jnp.linalg.norm(shift - along * found.n) < _ALIGNED * length)
        parted = _BEYOND * jnp.maximum(along - found.gap, 0.0)
        farther = jnp.where(near, _GROWTH * jnp.linalg.norm(shift), parted) + _SHIFT * length
        psi = jnp.dot(found.n, found.a2 - found.a1) - pair.radii(first, second)
        z = jnp.concatenate([found.a1, found.a2, found.n, psi[None], *found.weights])
        return number + 1, farther * found.n, aligned, z, found.bend

    nothing = (jnp.zeros((), int), depth * direction, jnp.zeros((), bool), jnp.zeros(pair.unknowns), jnp.zeros(()))
    *_, z, bend = lax.while_loop(lambda at: (at[0] < _ROUNDS) & ~at[2], round_, nothing)
    return z, bend


def _side(shape_class: ShapeClass, placed: Placed, inside, length):
    # A swept support function has kinks in its gradient; such bodies' inequalities are smooth enough here.
    kind = _Inequalities if shape_class.support is None or any(i is not None for i in shape_class.sweep) else _Support
    return kind(shape_class, placed, inside / length, length)

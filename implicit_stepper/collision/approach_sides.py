"""One side of a pair whose bodies approach: a point of the body and the force that holds it there.

The point is y, in the body's coordinates and in lengths. With inequalities, y is an unknown and the
force is sum l grad f, where l (-f) = mu. With a support function H, whose point is as smooth as the
inequality is not, the force w is an unknown and y = inside + (1 - s) grad H(w), where
s (H(w) + mu) = mu. The products l (-f) and s H / (1 - s), all mu, go to zero together.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from shapes.closest_points.conditions import Placed
from shapes.shape_class import ShapeClass
from shapes.small_algebra import inner

# lengths by which a step may move a point: deep inside a body of high powers nothing holds it
_LONGEST = 1.0
# [rad] by which a step may turn the force on a support function, lest its point jumps to and fro
_TURN = 0.3


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Response:
    """Linearisation of one side: y changes by lean @ dw + y_off, the force by stiffness @ dw +
    force_off."""

    lean: jax.Array
    y_off: jax.Array
    stiffness: jax.Array
    force_off: jax.Array


@dataclasses.dataclass(frozen=True)
class Inequalities:
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
        """w and c on the central path with products mu, given the force (d,) that the other body
        exerts."""
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
        return Response(jnp.eye(w.size), jnp.zeros(w.size), stiffness, (mu / slack - c) @ g)

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
        """Weights (m,) of the unit normals that make the unit normal, given the size of the
        force."""
        return c / force

    def bend(self, c, jet, force):
        """How much curvature turns the normal () [rad per length]."""
        return jnp.linalg.norm(jnp.tensordot(c / force, jet[2], 1))


@dataclasses.dataclass(frozen=True)
class Support:
    """Unknowns w (d,), the force, and c = s (1,) in 0..1; `jet` is H about the inside, its gradient
    and its Hessian."""

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
        """w and c on the central path with products mu, given the force (d,) that the other body
        exerts."""
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
        return Response(lean, (s - mu / (H + mu)) * g, jnp.eye(w.size), jnp.zeros(w.size))

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
        """Weights (m,) of the unit normals that make the unit normal, given the size of the
        force."""
        own = self.shape_class.support_jet.gradient(w, self.placed.theta)[0]
        return self.placed.slope / jnp.linalg.norm(self.shape_class.jet.gradient(own, self.placed.theta), axis=1)

    def bend(self, c, jet, force):
        """How much curvature turns the normal () [rad per length]."""
        return jnp.zeros(())  # the normal does not follow from the point


def side(shape_class: ShapeClass, placed: Placed, inside, length) -> Inequalities | Support:
    """The side of a `placed` body with a point `inside` (d,) [m], in its coordinates, and `length`
    () [m], the unit of the search: by its support function where that is smooth."""
    # The gradient of a swept support function jumps; the inequality of such a body is smooth
    # enough.
    kind = Inequalities if shape_class.support is None or any(i is not None for i in shape_class.sweep) else Support
    return kind(shape_class, placed, inside / length, length)

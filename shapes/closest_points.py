"""The closest-point conditions of a pair of convex bodies, as residual rows that any solver can drive to zero.

Chakraborty (9) for two smooth surfaces and (20)-(22) for intersections of inequalities, both with a signed gap psi and
the unit normal n from body 1 to body 2, so that they also hold, and stay differentiable, at and below contact.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from .implicit import ShapeClass

# A reference direction closer than this to the normal cannot orient the tangents (sine of the angle between them).
_PARALLEL = 0.1


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Placed:
    """A shape's parameters theta (k,) at a pose: `position` (d,) [m], `rotation` (d, d) from body to world.

    `slope` (m,) is a typical |grad f_j| on the surface [1/m times the unit of f_j]: it only scales residual rows.
    """

    theta: jax.Array
    slope: jax.Array
    position: jax.Array
    rotation: jax.Array

    def value(self, shape_class: ShapeClass, point):
        """f_j (m,) at a world point (d,)."""
        return shape_class.jet.value(self.rotation.T @ (point - self.position), self.theta)

    def gradient(self, shape_class: ShapeClass, point):
        """World gradients (m, d) of f_j at a world point (d,)."""
        return shape_class.jet.gradient(self.rotation.T @ (point - self.position), self.theta) @ self.rotation.T


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ContactGeometry:
    """Closest points a1, a2 (d,) [m], unit normal n (d,) from body 1 to body 2, tangents (d-1, d), signed gap psi [m]."""

    a1: jax.Array
    a2: jax.Array
    n: jax.Array
    tangents: jax.Array
    psi: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ClosestPointRows:
    """`equations` = 0 and 0 <= `multipliers` _|_ `slacks` >= 0, all dimensionless, with the geometry they define.

    `l1` (m1,), `l2` (m2,): the multipliers of the inequalities, in the units of 1/|grad f|.
    """

    geometry: ContactGeometry
    equations: jax.Array
    multipliers: jax.Array
    slacks: jax.Array
    l1: jax.Array
    l2: jax.Array


@dataclasses.dataclass(frozen=True)
class PairClass:
    """Two shape classes whose bodies may touch; the static key by which contacts are grouped.

    `eliminate` asks for the short form of the unknowns where there is one. It is what a step uses, near its last root; the
    long form, whose multipliers carry the sign of each normal, converges from much farther away.
    """

    first: ShapeClass
    second: ShapeClass
    eliminate: bool = True

    @property
    def dimension(self) -> int:
        """2 or 3."""
        return self.first.dimension

    @property
    def smooth(self) -> bool:
        """The short form: one inequality each, so that n, psi and the multipliers are functions of a1 and a2."""
        return self.eliminate and self.first.count == self.second.count == 1

    @property
    def general(self) -> PairClass:
        """The pair with the long form of the unknowns, of which the short form is the beginning."""
        return dataclasses.replace(self, eliminate=False)

    @property
    def unknowns(self) -> int:
        """Number of closest-point unknowns: (a1, a2), or (a1, a2, n, psi, l1, l2)."""
        d = self.dimension
        return 2 * d if self.smooth else 3 * d + 1 + self.first.count + self.second.count

    def unknown_scale(self, length):
        """Units (unknowns,) of the closest-point unknowns, for a scene of size `length` [m]."""
        d = self.dimension
        points = jnp.full(2 * d, length)
        if self.smooth:
            return points
        return jnp.concatenate([points, jnp.ones(d), jnp.full(1, length), jnp.ones(self.first.count + self.second.count)])

    def rows(self, unknowns, first: Placed, second: Placed, reference, length) -> ClosestPointRows:
        """The residual at `unknowns`; `reference` (d,) orients the tangents, `length` [m] scales distances."""
        build = _smooth_rows if self.smooth else _general_rows
        return build(self, unknowns, first, second, reference, length)

    def start(self, a1, a2, first: Placed, second: Placed):
        """Unknowns (unknowns,) that have closest points a1, a2 (d,): the rest follows from the surfaces there."""
        if self.smooth:
            return jnp.concatenate([a1, a2])
        l1, n1 = _outward(self.first, first, a1)
        l2, n2 = _outward(self.second, second, a2)
        n = _unit(n1 - n2)
        return jnp.concatenate([a1, a2, n, jnp.dot(n, a2 - a1)[None], l1, l2])


def tangents(n, reference):
    """Unit tangents (d-1, d) to the normal n (d,): t along the part of `reference` normal to n, and o = n x t.

    In the plane t is n turned by +90 degrees and `reference` is not used.
    """
    if n.shape == (2,):
        return jnp.stack([-n[1], n[0]])[None, :]
    along = reference - n * jnp.dot(n, reference)
    other = jnp.eye(3)[jnp.argmin(jnp.abs(n))]
    usable = jnp.dot(along, along) > _PARALLEL**2 * jnp.dot(reference, reference)
    t = _unit(jnp.where(usable, along, other - n * jnp.dot(n, other)))
    return jnp.stack([t, jnp.cross(n, t)])


def _smooth_rows(pair: PairClass, unknowns, first: Placed, second: Placed, reference, length) -> ClosestPointRows:
    """f(a1) = 0, g(a2) = 0, a2 - a1 parallel to n, and the two normals opposite.

    The last is the stereographic image of the second normal, 2 T n2 / (1 - n.n2): zero at n2 = -n as C(9) asks, and
    infinite at n2 = +n, which would be the farthest instead of the closest points.
    """
    d = pair.dimension
    a1, a2 = unknowns[:d], unknowns[d:]
    grad_f, grad_g = first.gradient(pair.first, a1)[0], second.gradient(pair.second, a2)[0]
    slope_f, slope_g = jnp.linalg.norm(grad_f), jnp.linalg.norm(grad_g)
    n, n2 = grad_f / slope_f, grad_g / slope_g
    tangent = tangents(n, reference)
    equations = jnp.concatenate(
        [
            first.value(pair.first, a1) / (slope_f * length),
            second.value(pair.second, a2) / (slope_g * length),
            tangent @ (a2 - a1) / length,
            2 * (tangent @ n2) / (1 - jnp.dot(n, n2)),
        ]
    )
    none = jnp.zeros(0)
    geometry = ContactGeometry(a1, a2, n, tangent, jnp.dot(n, a2 - a1))
    return ClosestPointRows(geometry, equations, none, none, (1 / slope_f)[None], (1 / slope_g)[None])


def _general_rows(pair: PairClass, unknowns, first: Placed, second: Placed, reference, length) -> ClosestPointRows:
    """a2 - a1 = psi n, |n| = 1, sum l1 grad f = n, sum l2 grad g = -n, and 0 <= l _|_ -f >= 0 for every inequality.

    Multipliers are stored as l |grad f| (dimensionless weights of the unit normals).
    """
    d, m1 = pair.dimension, pair.first.count
    a1, a2, n, psi, l1, l2 = jnp.split(unknowns, (d, 2 * d, 3 * d, 3 * d + 1, 3 * d + 1 + m1))
    equations = jnp.concatenate(
        [
            (a2 - a1 - psi * n) / length,
            (jnp.dot(n, n) - 1)[None],
            (l1 / first.slope) @ first.gradient(pair.first, a1) - n,
            (l2 / second.slope) @ second.gradient(pair.second, a2) + n,
        ]
    )
    slacks = jnp.concatenate(
        [
            -first.value(pair.first, a1) / (first.slope * length),
            -second.value(pair.second, a2) / (second.slope * length),
        ]
    )
    geometry = ContactGeometry(a1, a2, n, tangents(n, reference), psi[0])
    return ClosestPointRows(geometry, equations, jnp.concatenate([l1, l2]), slacks, l1 / first.slope, l2 / second.slope)


def _outward(shape_class: ShapeClass, placed: Placed, point):
    """Weights (m,) of the inequality that is nearest to being active at a point, and its unit normal (d,)."""
    active = jnp.argmax(placed.value(shape_class, point) / placed.slope)
    gradient = placed.gradient(shape_class, point)[active]
    weight = placed.slope[active] / jnp.linalg.norm(gradient)
    return jnp.zeros(shape_class.count).at[active].set(weight), gradient / jnp.linalg.norm(gradient)


def _unit(v):
    return v / jnp.linalg.norm(v)

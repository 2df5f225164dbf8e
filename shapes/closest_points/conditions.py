"""The closest-point conditions of a pair of convex bodies, as residual rows that any solver can
drive to zero.

Chakraborty (9) for two smooth surfaces and (20)-(22) for intersections of inequalities, both with a
signed gap psi and the unit normal n from body 1 to body 2, so that they also hold, and stay
differentiable, at and below contact.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from ..shape_class import ShapeClass
from ..small_algebra import cross, direction, inner, product

# A reference direction closer than this to the normal cannot orient the tangents (sine of the angle
# between them).
_PARALLEL = 0.1


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Placed:
    """A shape's parameters theta (k,) at a pose: `position` (d,) [m], `rotation` (d, d) from shape
    to world.

    `slope` (m,) is a typical |grad f_j| on the surface [1/m times the unit of f_j]: it only scales
    residual rows.
    """

    theta: jax.Array
    slope: jax.Array
    position: jax.Array
    rotation: jax.Array

    def value(self, shape_class: ShapeClass, point):
        """f_j (m,) at a world point (d,)."""
        return shape_class.jet.value(inner(self.rotation.T, point - self.position), self.theta)

    def gradient(self, shape_class: ShapeClass, point):
        """World gradients (m, d) of f_j at a world point (d,)."""
        local = shape_class.jet.gradient(inner(self.rotation.T, point - self.position), self.theta)
        return product(local, self.rotation.T)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ContactGeometry:
    """Closest points a1, a2 (d,) [m], unit normal n (d,) from body 1 to body 2, tangents (d-1, d),
    signed gap psi [m]."""

    a1: jax.Array
    a2: jax.Array
    n: jax.Array
    tangents: jax.Array
    psi: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ClosestPointRows:
    """`equations` = 0 and 0 <= `multipliers` _|_ `slacks` >= 0, all dimensionless, with the
    geometry they define.

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

    `eliminate` asks for the short form of the unknowns where there is one. It is what a step uses,
    near its last root; the long form, whose multipliers carry the sign of each normal, converges
    from much farther away.

    Unknown points a1, a2 are those of the bodies' cores {f_j <= 0}; a rounded body's own point lies
    its radius further along the normal, and the gap is smaller by the radii.

    With `query(pair, unknowns, first, second, length)` the geometry is that at the unknowns which
    this function finds, and the equations merely ask the unknowns to be those: a gap by function
    call instead of by equations.

    `members`: the pairs that this one stands for, where its classes are mixtures (see `mixture`).
    """

    first: ShapeClass
    second: ShapeClass
    eliminate: bool = True
    query: Callable | None = None
    members: tuple[PairClass, ...] = ()

    @property
    def dimension(self) -> int:
        """2 or 3."""
        return self.first.dimension

    @property
    def smooth(self) -> bool:
        """The short form: one inequality of finite curvature each, so that n, psi, l1 and l2 are
        functions of a1, a2."""
        sides = (self.first, self.second)
        return self.eliminate and all(side.count == 1 and side.support is None for side in sides)

    @property
    def general(self) -> PairClass:
        """The pair with the long form of the unknowns, of which the short form is the beginning."""
        return dataclasses.replace(self, eliminate=False, query=None)

    @property
    def unknowns(self) -> int:
        """Number of closest-point unknowns: (a1, a2), or (a1, a2, n, psi, l1, l2)."""
        d = self.dimension
        return 2 * d if self.smooth else 3 * d + 1 + self.first.count + self.second.count

    @property
    def lengths(self) -> np.ndarray:
        """1 for those of the closest-point unknowns (unknowns,) that are lengths, 0 for the
        others."""
        d = self.dimension
        found = np.zeros(self.unknowns)
        found[: 2 * d], found[3 * d : 3 * d + 1] = 1.0, 1.0  # the points, and psi
        return found

    def unknown_scale(self, length):
        """Units (unknowns,) of the closest-point unknowns, for a scene of size `length` [m]."""
        return self.lengths * length + (1.0 - self.lengths)

    def rows(self, unknowns, first: Placed, second: Placed, reference, length, angle=1.0) -> ClosestPointRows:
        """The residual at `unknowns`; `reference` (d,) orients the tangents; `length` [m] and
        `angle` [rad] are the units of its distances and of its normals."""
        build = _smooth_rows if self.smooth else _general_rows
        if self.query is None:
            return build(self, unknowns, first, second, reference, length, angle)
        found = self.query(self, unknowns, first, second, length)
        rows = build(self, found, first, second, reference, length, angle)
        away, none = (unknowns - found) / self.unknown_scale(length), jnp.zeros(0)
        return dataclasses.replace(rows, equations=away, multipliers=none, slacks=none)

    def curvature(self, tangents):
        """What one more 1/m of curvature adds to the derivative (unknowns, unknowns) by points [m]
        of the short form's rows, in units of 1 [m] and 1 [rad]: normals turn against each other as
        the points move along the `tangents` (d-1, d)."""
        d = self.dimension
        return jnp.concatenate([jnp.zeros((d + 1, 2 * d)), jnp.concatenate([tangents, tangents], axis=1)])

    def curvatures(self, size: int) -> np.ndarray:
        """(size, size), of which the first rows and unknowns are those of the long form: what it
        adds to their derivative that each body bends away from its point by as much in all
        directions. Zero for the short form, and for bodies with a support function."""
        d, added = self.dimension, np.zeros((size, size))
        for side, of in enumerate((self.first, self.second)):
            if not self.smooth and of.support is None:
                normals = (side + 1) * d + 1 + np.arange(d)
                added[normals, side * d + np.arange(d)] = 1.0
        return added

    def start(self, a1, a2, first: Placed, second: Placed):
        """Unknowns (unknowns,) that have closest points a1, a2 (d,): the rest follows from the
        surfaces there."""
        if self.smooth:
            return jnp.concatenate([a1, a2])
        l1, n1 = _outward(self.first, first, a1)
        l2, n2 = _outward(self.second, second, a2)
        n, _ = direction(n1 - n2)
        psi = inner(n, a2 - a1) - self.radii(first, second)
        return jnp.concatenate([a1, a2, n, psi[None], l1, l2])

    def radii(self, first: Placed, second: Placed):
        """Sum () [m] of the rounding radii."""
        return self.first.radius(first.theta) + self.second.radius(second.theta)

    def geometry(self, a1, a2, n, tangent, psi, first: Placed, second: Placed) -> ContactGeometry:
        """From the points of the cores to those of the bodies."""
        r1, r2 = self.first.radius(first.theta), self.second.radius(second.theta)
        return ContactGeometry(a1 + r1 * n, a2 - r2 * n, n, tangent, psi)


def tangents(n, reference):
    """Unit tangents (d-1, d) to the normal n (d,): t along the part of `reference` normal to n, and
    o = n x t.

    In the plane t is n turned by +90 degrees and `reference` is not used.
    """
    if n.shape == (2,):
        return jnp.stack([-n[1], n[0]])[None, :]
    along = reference - n * inner(n, reference)
    other = (np.arange(3) == jnp.argmin(jnp.abs(n))).astype(float)
    usable = inner(along, along) > _PARALLEL**2 * inner(reference, reference)
    t, _ = direction(jnp.where(usable, along, other - n * inner(n, other)))
    return jnp.stack([t, cross(n, t)])


# both are jitted functions of their own: what asks for the same rows again traces them no more
@functools.partial(jax.jit, static_argnums=0)
def _smooth_rows(pair: PairClass, unknowns, first: Placed, second: Placed, reference, length, angle):
    """f(a1) = 0, g(a2) = 0, a2 - a1 parallel to n, and the two normals opposite.

    The last is the stereographic image of the second normal, 2 T n2 / (1 - n.n2): zero at n2 = -n
    as C(9) asks, and infinite at n2 = +n, which would be the farthest instead of the closest
    points.
    """
    d = pair.dimension
    a1, a2 = unknowns[:d], unknowns[d:]
    grad_f, grad_g = first.gradient(pair.first, a1)[0], second.gradient(pair.second, a2)[0]
    (n, per_slope_f), (n2, per_slope_g) = direction(grad_f), direction(grad_g)
    tangent = tangents(n, reference)
    equations = jnp.concatenate(
        [
            first.value(pair.first, a1) * per_slope_f / length,
            second.value(pair.second, a2) * per_slope_g / length,
            inner(tangent, a2 - a1) / length,
            4 * inner(tangent, n2) / inner(n - n2, n - n2) / angle,
        ]
    )
    none = jnp.zeros(0)
    psi = inner(n, a2 - a1) - pair.radii(first, second)
    geometry = pair.geometry(a1, a2, n, tangent, psi, first, second)
    return ClosestPointRows(geometry, equations, none, none, per_slope_f[None], per_slope_g[None])


@functools.partial(jax.jit, static_argnums=0)
def _general_rows(pair: PairClass, unknowns, first: Placed, second: Placed, reference, length, angle):
    """a2 - a1 = psi n, |n| = 1, sum l1 grad f = n, sum l2 grad g = -n, and 0 <= l _|_ -f >= 0 for
    every inequality.

    Multipliers are stored as l |grad f| (dimensionless weights of the unit normals).
    """
    d, m1 = pair.dimension, pair.first.count
    a1, a2, n, psi, l1, l2 = jnp.split(unknowns, (d, 2 * d, 3 * d, 3 * d + 1, 3 * d + 1 + m1))
    normal_1, complementary_1 = _side_rows(pair.first, first, a1, l1, n, length, angle)
    normal_2, complementary_2 = _side_rows(pair.second, second, a2, l2, -n, length, angle)
    apart = a2 - a1 - (psi + pair.radii(first, second)) * n
    equations = jnp.concatenate([apart / length, (inner(n, n) - 1)[None], normal_1, normal_2])
    multipliers, slacks = (jnp.concatenate(both) for both in zip(complementary_1, complementary_2, strict=True))
    geometry = pair.geometry(a1, a2, n, tangents(n, reference), psi[0], first, second)
    return ClosestPointRows(geometry, equations, multipliers, slacks, l1 / first.slope, l2 / second.slope)


def _side_rows(shape_class: ShapeClass, placed: Placed, point, weights, outward, length, angle):
    """That `outward` (d,) is a normal of one body at `point` (d,): equations, and complementary
    (multipliers, slacks).

    From the inequalities, whose gradients must have finite derivatives; or, where the class has a
    support function H, as point = grad H(outward) + c with c_i at the end of its range to which
    `outward` points, or in it where it is across: 0 <= c + half length _|_ -min(half length - c,
    outward) >= 0.
    """
    if shape_class.support is None:
        equations = (inner(placed.gradient(shape_class, point).T, weights / placed.slope) - outward) / angle
        return equations, (weights / angle, -placed.value(shape_class, point) / (placed.slope * length))
    normal, body_point = inner(placed.rotation.T, outward), inner(placed.rotation.T, point - placed.position)
    own = shape_class.support_jet.gradient(normal, placed.theta)[0]
    c = (body_point - own) / length
    swept = np.array([i is not None for i in shape_class.sweep[: shape_class.dimension]])
    # n = l grad f along the point, whose product with the gradient is smooth where the gradient is
    # not; at the point that the normal gives, without the round-off of world coordinates, which a
    # power below 2 would turn from 1e-16 into 1e-3.
    at = jnp.where(swept, body_point, own)
    radial = inner(shape_class.jet.gradient(at, placed.theta)[0], at) / placed.slope
    equations = jnp.concatenate([c[~swept], (weights * radial - inner(normal, at)) / length])
    reach = shape_class.half_lengths(placed.theta)[swept] / length
    return equations, (c[swept] + reach, -jnp.minimum(reach - c[swept], normal[swept] / angle))


def _outward(shape_class: ShapeClass, placed: Placed, point):
    """Weights (m,) of the inequality that is nearest to being active at a point, and its unit
    normal (d,)."""
    active = jnp.argmax(placed.value(shape_class, point) / placed.slope)
    gradient = placed.gradient(shape_class, point)[active]
    normal, per_length = direction(gradient)
    return jnp.zeros(shape_class.count).at[active].set(placed.slope[active] * per_length), normal

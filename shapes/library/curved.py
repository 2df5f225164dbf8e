"""Bodies bounded by one smooth inequality, centred at the origin. Not sampled for validity: convex
by construction."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import jax.numpy as jnp
import sympy

from ..arguments import dimension_of, positive, positives
from ..errors import NoNormalError, NotConvexError, ShapeArgumentError
from ..expressions.symbols import AbsPower, Norm, PositivePower, x, y, z
from ..moments import centred
from ..shape import ImplicitShape, Shape

_LEAST_EPSILON = 0.01  # powers up to 200


def Sphere(radius: float) -> Shape:
    """Ball |x| <= radius [m]."""
    r = sympy.Symbol("radius", positive=True)
    radius = positive("radius", radius, error=ShapeArgumentError)
    f = (x**2 + y**2 + z**2) / r**2 - 1
    return ImplicitShape([f], parameters={r: radius}, name="Sphere", closed_form=_ball, validate=False)


def Ellipsoid(semi_axes: Sequence[float]) -> Shape:
    """(x/a)^2 + (y/b)^2 + (z/c)^2 <= 1 with semi-axes (a, b, c) [m]: the surface of Chakraborty
    section V-C."""
    a, b, c = sympy.symbols("a b c", positive=True)
    parameters = dict(zip((a, b, c), positives("semi_axes", semi_axes, 3, error=ShapeArgumentError), strict=True))
    f = (x / a) ** 2 + (y / b) ** 2 + (z / c) ** 2 - 1
    return ImplicitShape([f], parameters=parameters, name="Ellipsoid", closed_form=_ellipsoid, validate=False)


def Superquadric(semi_axes: Sequence[float], *, epsilon: tuple[float, float]) -> Shape:
    """Barr's superquadric (|x/a|^(2/e2) + |y/b|^(2/e2))^(e2/e1) + |z/c|^(2/e1) <= 1, convex for 0 <
    e1, e2 <= 2.

    `semi_axes` (a, b, c) [m]; `epsilon` = (e1, e2), at least .01: e1 rounds along z, e2 around it.
    e1 = e2 = 2/p is the sum of p-th powers, which is what contact solves best. The exponents are
    part of the expression, not parameters.

    With an exponent 2/e below 2, and none above, the curvature is infinite where a coordinate
    vanishes but bounded below everywhere: the class then has the `support` function, which is
    smooth where the inequality is not. With one exponent below and one above 2 neither is smooth
    everywhere. e2 = 2 (exponent 1) has edges: four inequalities, or, if e1 = 2 as well, the eight
    faces of an octahedron. e1 = 2 alone has an apex and is refused.
    """
    a, b, c = sympy.symbols("a b c", positive=True)
    axes = positives("semi_axes", semi_axes, 3, error=ShapeArgumentError)
    e1, e2 = positives("epsilon", epsilon, 2, error=ShapeArgumentError)
    if max(e1, e2) > 2:
        raise NotConvexError(f"`epsilon` = {(e1, e2)} must be at most 2 in both: a larger exponent is not convex.")
    if min(e1, e2) < _LEAST_EPSILON:
        raise ShapeArgumentError(
            f"`epsilon` = {(e1, e2)} must be at least {_LEAST_EPSILON} in both: an edge that sharp has no curvature that "
            "contact could resolve. Use Box or Cylinder, or Rounded(Box(...), radius)."
        )
    p1, p2 = _exponent(2 / e1), _exponent(2 / e2)
    if p1 == 1 < p2:
        raise NoNormalError(
            f"`epsilon` = {(e1, e2)} has an apex at both ends of z, which has no normal: make the first one 1.9, or cut the "
            "body off below the apex as Cone does."
        )
    return ImplicitShape(
        _superquadric(x / a, y / b, z / c, p1, p2),
        parameters=dict(zip((a, b, c), axes, strict=True)),
        name="Superquadric",
        closed_form=SuperquadricMoments(float(p1), float(p2)),
        support=_dual_norm(a, b, c, p1, p2) if 1 < min(p1, p2) < 2 >= max(p1, p2) else None,
        validate=False,
    )


def _superquadric(u, v, w, p1, p2) -> list[sympy.Expr]:
    """(|u|^p2 + |v|^p2)^(p1/p2) + |w|^p1 <= 1, one inequality for every piece without an edge."""
    slanted = [i * u + k * v for i in (1, -1) for k in (1, -1)]  # the largest is |u| + |v|
    if p1 == 1:
        return [ring + i * w - 1 for ring in slanted for i in (1, -1)]
    if p2 == 1:
        return [PositivePower(ring, p1) + AbsPower(w, p1) - 1 for ring in slanted]
    ring = AbsPower(u, p1) + AbsPower(v, p1) if p1 == p2 else AbsPower(Norm(u, v, p2), p1)
    return [ring + AbsPower(w, p1) - 1]


def Point(*, length: float = 1.0, dimension: int = 3) -> Shape:
    """The origin alone: a particle, the tip of a rod, a pin; with `dimension` 2 in the plane.

    It is a ball of the radius `length` [m] shrunk by `length`, so that its normal at a contact is
    that of the other body. The `length` enters no motion, but scales equations: give one of the
    order of the bodies that it meets. A point has no volume, so that its body needs `mass` and
    `inertia`, and two points cannot touch. It is drawn as a small ball.
    """
    dimension = dimension_of(dimension, error=ShapeArgumentError)
    r = sympy.Symbol("length", positive=True)
    length = positive("length", length, error=ShapeArgumentError)
    f = sum(c**2 for c in (x, y, z)[:dimension]) / r**2 - 1
    ball = ImplicitShape(
        [f], parameters={r: length}, dimension=dimension, name="Point", closed_form=Nothing(dimension), validate=False
    )
    return Shape(dataclasses.replace(ball.shape_class, rounded=True, point=True), ball.theta)


def Disc(radius: float) -> Shape:
    """Planar |x| <= radius [m], Chakraborty section V-A."""
    r = sympy.Symbol("radius", positive=True)
    radius = positive("radius", radius, error=ShapeArgumentError)
    f = (x**2 + y**2) / r**2 - 1
    return ImplicitShape([f], parameters={r: radius}, dimension=2, name="Disc", closed_form=_disc, validate=False)


def Ellipse(semi_axes: Sequence[float]) -> Shape:
    """Planar (x/a)^2 + (y/b)^2 <= 1 with semi-axes (a, b) [m]."""
    a, b = sympy.symbols("a b", positive=True)
    parameters = dict(zip((a, b), positives("semi_axes", semi_axes, 2, error=ShapeArgumentError), strict=True))
    f = (x / a) ** 2 + (y / b) ** 2 - 1
    return ImplicitShape([f], parameters=parameters, dimension=2, name="Ellipse", closed_form=_ellipse, validate=False)


def _exponent(p: float) -> sympy.Expr:
    """An exponent within round-off of an integer becomes one, so that even powers need no absolute
    value."""
    return sympy.Integer(round(p)) if math.isclose(p, round(p), rel_tol=1e-12) else sympy.Float(p)


def _dual_norm(a, b, c, p1, p2) -> sympy.Expr:
    """Support function of the superquadric: the body is the unit ball of a norm made of two, and H
    the dual of it."""
    q1, q2 = (_exponent(float(p / (p - 1))) for p in (p1, p2))
    return Norm(Norm(a * x, b * y, q2), c * z, q1)


@dataclasses.dataclass(frozen=True)
class SuperquadricMoments:
    """Moments by slices across z: each is a p2-norm disc, of radius (1 - |z/c|^p1)^(1/p1) in units
    of (a, b)."""

    p1: float
    p2: float

    def __call__(self, theta):
        area = 4 * _dirichlet(self.p2, 1, 1)
        square = 4 * _dirichlet(self.p2, 3, 1)
        scale = jnp.prod(theta)
        p, slices = self.p1, 2 / self.p1
        across = square * slices * _beta(1 / p, 4 / p + 1)
        along = area * slices * _beta(3 / p, 2 / p + 1)
        return centred(
            scale * area * slices * _beta(1 / p, 2 / p + 1),
            scale * jnp.asarray([across, across, along]) * theta**2,
        )


@dataclasses.dataclass(frozen=True)
class Nothing:
    """Moments of a point."""

    dimension: int

    def __call__(self, theta):
        return centred(jnp.zeros(()), jnp.zeros(self.dimension))


def _dirichlet(p: float, i: int, j: int) -> float:
    """Integral of u^(i-1) v^(j-1) over u, v >= 0 with u^p + v^p <= 1."""
    return math.exp(math.lgamma(i / p) + math.lgamma(j / p) - math.lgamma((i + j) / p + 1)) / p**2


def _beta(s: float, t: float) -> float:
    return math.exp(math.lgamma(s) + math.lgamma(t) - math.lgamma(s + t))


def _ball(theta):
    volume = 4 / 3 * jnp.pi * theta[0] ** 3
    return centred(volume, volume / 5 * jnp.full(3, theta[0] ** 2))


def _ellipsoid(theta):
    volume = 4 / 3 * jnp.pi * jnp.prod(theta)
    return centred(volume, volume / 5 * theta**2)


def _disc(theta):
    area = jnp.pi * theta[0] ** 2
    return centred(area, area / 4 * jnp.full(2, theta[0] ** 2))


def _ellipse(theta):
    area = jnp.pi * jnp.prod(theta)
    return centred(area, area / 4 * theta**2)

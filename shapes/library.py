"""Ready-made convex bodies. Every one is {f_j <= 0} in its own coordinates, centred at the origin unless said otherwise."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
import sympy

from .arguments import positive, vector
from .implicit import ImplicitShape, Shape
from .symbols import AbsPower, ShapeError, x, y, z


def Sphere(radius: float) -> Shape:
    """Ball |x| <= radius [m]."""
    r = sympy.Symbol("radius", positive=True)
    radius = positive("radius", radius, error=ShapeError)
    return _library("Sphere", [(x**2 + y**2 + z**2) / r**2 - 1], {r: radius}, 3, _ball)


def Ellipsoid(semi_axes: Sequence[float]) -> Shape:
    """(x/a)^2 + (y/b)^2 + (z/c)^2 <= 1 with semi-axes (a, b, c) [m]: the surface of Chakraborty section V-C."""
    a, b, c = sympy.symbols("a b c", positive=True)
    axes = _positive("semi_axes", semi_axes, 3)
    f = (x / a) ** 2 + (y / b) ** 2 + (z / c) ** 2 - 1
    return _library("Ellipsoid", [f], dict(zip((a, b, c), axes, strict=True)), 3, _ellipsoid)


def Superquadric(semi_axes: Sequence[float], *, epsilon: tuple[float, float]) -> Shape:
    """Barr's superquadric (|x/a|^(2/e2) + |y/b|^(2/e2))^(e2/e1) + |z/c|^(2/e1) <= 1, convex for 0 < e1, e2 <= 2.

    `semi_axes` (a, b, c) [m]; `epsilon` = (e1, e2): e1 rounds along z, e2 around it. e1 = e2 = 2/p is the sum of p-th
    powers, which is what contact solves best. The exponents are part of the expression, not parameters.
    """
    a, b, c = sympy.symbols("a b c", positive=True)
    axes = _positive("semi_axes", semi_axes, 3)
    e1, e2 = _positive("epsilon", epsilon, 2)
    if max(e1, e2) > 2:
        raise ShapeError(f"`epsilon` = {(e1, e2)} must be at most 2 in both: a larger exponent is not convex.")
    p1, p2 = _exponent(2 / e1), _exponent(2 / e2)
    if p1 == p2:
        ring = AbsPower(x / a, p1) + AbsPower(y / b, p1)
    else:
        ring = AbsPower(AbsPower(x / a, p2) + AbsPower(y / b, p2), p1 / p2)
    f = ring + AbsPower(z / c, p1) - 1
    return _library("Superquadric", [f], dict(zip((a, b, c), axes, strict=True)), 3)


def HalfSpace(*, normal: Sequence[float], offset: float = 0.0) -> Shape:
    """{n.x <= offset}: everything below the plane with outward unit `normal` (3,) at distance `offset` [m]."""
    return _half("HalfSpace", normal, offset, (x, y, z))


def HalfPlane(*, normal: Sequence[float], offset: float = 0.0) -> Shape:
    """Planar {n.x <= offset} with outward unit `normal` (2,) at distance `offset` [m]."""
    return _half("HalfPlane", normal, offset, (x, y))


def Disc(radius: float) -> Shape:
    """Planar |x| <= radius [m], Chakraborty section V-A."""
    r = sympy.Symbol("radius", positive=True)
    radius = positive("radius", radius, error=ShapeError)
    return _library("Disc", [(x**2 + y**2) / r**2 - 1], {r: radius}, 2, _disc)


def Ellipse(semi_axes: Sequence[float]) -> Shape:
    """Planar (x/a)^2 + (y/b)^2 <= 1 with semi-axes (a, b) [m]."""
    a, b = sympy.symbols("a b", positive=True)
    axes = _positive("semi_axes", semi_axes, 2)
    return _library("Ellipse", [(x / a) ** 2 + (y / b) ** 2 - 1], dict(zip((a, b), axes, strict=True)), 2, _ellipse)


def _library(name, expressions, parameters, dimension, volume_and_inertia=None) -> Shape:
    """Not sampled for validity: the library's inequalities are convex by construction, and sampling costs time."""
    return ImplicitShape(
        expressions,
        parameters=parameters,
        dimension=dimension,
        name=name,
        volume_and_inertia=volume_and_inertia,
        validate=False,
    )


def _half(name, normal, offset, coordinates) -> Shape:
    d = len(coordinates)
    normal = vector("normal", normal, d, error=ShapeError)
    length = np.linalg.norm(normal)
    if abs(length - 1) > 1e-6:
        raise ShapeError(f"`normal` = {normal} has length {length:.6g}: give a unit vector.")
    symbols = sympy.symbols(f"n_x:{'z' if d == 3 else 'y'}", real=True)
    distance = sympy.Symbol("offset", real=True)
    f = sum(n * c for n, c in zip(symbols, coordinates, strict=True)) - distance
    parameters = dict(zip(symbols, normal / length, strict=True)) | {distance: offset}
    return _library(name, [f], parameters, d)


def _positive(name: str, values, count: int) -> list[float]:
    array = vector(name, values, count, error=ShapeError)
    if np.any(array <= 0):
        raise ShapeError(f"`{name}` = {tuple(array.tolist())} must be positive.")
    return array.tolist()


def _exponent(p: float) -> sympy.Expr:
    """An exponent within round-off of an integer becomes one, so that even powers need no absolute value."""
    return sympy.Integer(round(p)) if math.isclose(p, round(p), rel_tol=1e-12) else sympy.Float(p)


def _ball(theta):
    return 4 / 3 * jnp.pi * theta[0] ** 3, 4 / 3 * jnp.pi * theta[0] ** 3 * jnp.full(3, 0.4) * theta[0] ** 2


def _ellipsoid(theta):
    a2, b2, c2 = theta**2
    volume = 4 / 3 * jnp.pi * jnp.prod(theta)
    return volume, volume / 5 * jnp.array([b2 + c2, a2 + c2, a2 + b2])


def _disc(theta):
    area = jnp.pi * theta[0] ** 2
    return area, area * jnp.array([theta[0] ** 2 / 2])


def _ellipse(theta):
    area = jnp.pi * jnp.prod(theta)
    return area, area * jnp.array([jnp.sum(theta**2) / 4])

"""Convex bodies as sympy inequalities f_j(x) <= 0, and the closest-point conditions of a pair of them."""

from .implicit import ImplicitShape, Intersection, Shape
from .library import Disc, Ellipse, Ellipsoid, HalfPlane, HalfSpace, Sphere, Superquadric
from .symbols import AbsPower, ShapeError, x, y, z

__all__ = [
    "AbsPower",
    "Disc",
    "Ellipse",
    "Ellipsoid",
    "HalfPlane",
    "HalfSpace",
    "ImplicitShape",
    "Intersection",
    "Shape",
    "ShapeError",
    "Sphere",
    "Superquadric",
    "x",
    "y",
    "z",
]

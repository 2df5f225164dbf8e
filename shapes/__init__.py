"""Convex bodies as sympy inequalities f_j(x) <= 0, and the closest-point conditions of a pair of them."""

from .combinations import Intersection, Rounded, cut
from .curved import Disc, Ellipse, Ellipsoid, Sphere, Superquadric
from .flat_faced import Box, HalfPlane, HalfSpace, Wedge
from .implicit import ImplicitShape, Shape
from .polytopes import Polygon, Polytope
from .revolution import Capsule, Cone, Cylinder, Frustum, Lens
from .symbols import AbsPower, PositivePower, ShapeError, x, y, z

__all__ = [
    "AbsPower",
    "Box",
    "Capsule",
    "Cone",
    "Cylinder",
    "Disc",
    "Ellipse",
    "Ellipsoid",
    "Frustum",
    "HalfPlane",
    "HalfSpace",
    "ImplicitShape",
    "Intersection",
    "Lens",
    "Polygon",
    "Polytope",
    "PositivePower",
    "Rounded",
    "Shape",
    "ShapeError",
    "Sphere",
    "Superquadric",
    "Wedge",
    "cut",
    "x",
    "y",
    "z",
]

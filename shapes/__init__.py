"""Convex bodies as sympy inequalities f_j(x) <= 0, and the closest-point conditions of a pair of
them.

Importing this package switches JAX to double precision, which moments and contact need.
"""

import jax

from .errors import ShapeError
from .expressions.symbols import AbsPower, PositivePower, x, y, z
from .library.combinations import Intersection, Rounded, cut
from .library.curved import Disc, Ellipse, Ellipsoid, Point, Sphere, Superquadric
from .library.flat_faced import Box, HalfPlane, HalfSpace, Wedge
from .library.polytopes import Polygon, Polytope
from .library.revolution import Capsule, Cone, Cylinder, Frustum, Lens
from .shape import ImplicitShape, Shape

jax.config.update("jax_enable_x64", True)  # for all packages that import this one; none makes an array before

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
    "Point",
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

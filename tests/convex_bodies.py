"""One body of every class of shapes with what independent checks of closest points need: its support function in closed form
and, for a conic solver, the body as the image of a cone program.

For any unit n the signed gap of two supporting planes, n.(c2 - c1) - h_1(n) - h_2(-n), bounds the distance from below, and
the distance of any two points of the bodies bounds it from above: where they agree it is proved, whatever found it.
"""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
from scipy.spatial import HalfspaceIntersection

import shapes
from shapes.compile import compile_jet

NONNEGATIVE, SECOND_ORDER, POWER = "nonnegative", "second order", "power"


@dataclasses.dataclass(frozen=True)
class Program:
    """All points E u with b - A u in a product of `cones`, each of a kind and a size (of power cones the exponent)."""

    A: np.ndarray
    b: np.ndarray
    cones: list
    E: np.ndarray


@dataclasses.dataclass(frozen=True)
class Body:
    """`support` gives h (k,) of directions (k, d), in the shape's coordinates, and `inside` is a point (d,) there. The
    program of a rounded body is that of its core. `semi_axes` are those of an ellipsoid."""

    shape: shapes.Shape
    support: Callable
    program: Program
    inside: tuple
    semi_axes: tuple | None = None

    @property
    def radius(self) -> float:
        """Of rounding [m]."""
        return float(self.shape.shape_class.radius(self.shape.theta))

    def outside(self, points):
        """Upper bounds (k,) [m] of the distances of points (k, d), in the shape's coordinates, from the core.

        Every f_j is convex: where it is v > 0, and -s < 0 at the point inside, v / (v + s) of the way there is enough.
        """
        kind, inside, theta = self.shape.shape_class, np.array(self.inside), np.asarray(self.shape.theta)
        value = compile_jet(kind.expressions, kind.dimension, kind.parameters, backend="numpy").value
        excess = np.maximum(value(points, theta), 0.0)
        return np.max(excess / (excess - value(inside, theta)), axis=1) * np.linalg.norm(points - inside, axis=1)


def proved(first: Body, second: Body, turns, between, found):
    """Lower and upper bounds (k,) [m] of the distance from the normals and from the points of answers about body 1.

    `turns` are the rotation matrices (k, d, d) of both bodies and `between` (k, d) is the second's position. The lower bound
    is as good for overlapping bodies: of their signed distance, minus the depth.
    """
    n = found.normal / np.linalg.norm(found.normal, axis=1, keepdims=True)
    lower = (
        np.sum(n * between, axis=1) - first.support(_turned_back(turns[0], n)) - second.support(_turned_back(turns[1], -n))
    )
    cores = found.point_1 - first.radius * n, found.point_2 + second.radius * n
    upper = np.linalg.norm(cores[1] - cores[0], axis=1) - first.radius - second.radius
    upper += first.outside(_turned_back(turns[0], cores[0])) + second.outside(_turned_back(turns[1], cores[1] - between))
    return lower, upper


def _turned_back(turns, vectors):
    return np.einsum("kji,kj->ki", turns, vectors)


def dual_norm(axes, exponent):
    """Support function of sum |x_i/a_i|^p <= 1 (Hoelder), scaled so that no power underflows."""
    q = exponent / (exponent - 1)

    def support(n):
        u = np.abs(n * axes)
        largest = np.maximum(np.max(u, axis=1, keepdims=True), np.finfo(float).tiny)
        return largest[:, 0] * np.sum((u / largest) ** q, axis=1) ** (1 / q)

    return support


def of_points(points):
    return lambda n: np.max(n @ np.asarray(points).T, axis=1)


def revolved(radial):
    """Of a body of revolution about z, from |n_xy| and n_z."""
    return lambda n: radial(np.linalg.norm(n[:, :2], axis=1), n[:, 2])


def faces_program(normals, offsets):
    normals = np.asarray(normals, dtype=float)
    return Program(normals, np.asarray(offsets, dtype=float), [(NONNEGATIVE, len(normals))], np.eye(normals.shape[1]))


def revolved_program(constant, slope, low, high):
    """|x_xy| <= constant - slope z, low <= z <= high."""
    A = np.array([[0, 0, slope], [-1, 0, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]])
    return Program(A, np.array([constant, 0, 0, high, -low]), [(SECOND_ORDER, 3), (NONNEGATIVE, 2)], np.eye(3))


def power_program(axes, exponent, below=False):
    """u = (x_i / a_i, t_i) with t_i >= |x_i / a_i|^p and sum t_i <= 1; `below` the plane z = 0 only."""
    rows, right = [], []
    for i in range(3):
        cone = np.zeros((3, 6))
        cone[0, 3 + i], cone[2, i] = -1.0, -1.0
        rows, right = [*rows, cone], [*right, 0.0, 1.0, 0.0]
    last = np.array([[0, 0, 0, 1.0, 1, 1], [0, 0, 1, 0, 0, 0]])[: 1 + below]
    cones = [*[(POWER, 1 / exponent)] * 3, (NONNEGATIVE, 1 + below)]
    return Program(
        np.vstack([*rows, last]), np.array([*right, 1.0, 0.0][: 10 + below]), cones, np.eye(3, 6) * [*axes, 0, 0, 0]
    )


def oval(shape, axes):
    d = len(axes)
    program = Program(np.eye(d + 1, d, -1), np.eye(d + 1)[0], [(SECOND_ORDER, d + 1)], np.diag(axes))
    return Body(shape, lambda n: np.linalg.norm(n * axes, axis=1), program, (0.0,) * d, axes)


def superquadric(exponent, axes=(0.4, 0.3, 0.25)):
    shape = shapes.Superquadric(axes, epsilon=(2 / exponent, 2 / exponent))
    return Body(shape, dual_norm(axes, exponent), power_program(axes, exponent), (0.0, 0.0, 0.0))


def half_superquadric(exponent, axes=(0.4, 0.3, 0.25)):
    """Where the normal rises, its support function is that of the section z = 0."""
    whole, section = dual_norm(axes, exponent), dual_norm(axes[:2], exponent)
    shape = shapes.cut(superquadric(exponent, axes).shape, normal=(0, 0, 1), offset=0.0)
    program = power_program(axes, exponent, below=True)
    return Body(shape, lambda n: np.where(n[:, 2] <= 0, whole(n), section(n[:, :2])), program, (0.0, 0.0, -0.1))


def polytope(shape, corners):
    d = shape.dimension
    faces = np.asarray(shape.theta).reshape(-1, d + 1)
    return Body(shape, of_points(corners), faces_program(faces[:, :d], faces[:, d]), tuple(np.mean(corners, axis=0)))


def random_polytope():
    """20 faces at .3 m."""
    normals = np.random.default_rng(5).normal(size=(20, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    corners = HalfspaceIntersection(np.column_stack([normals, np.full(20, -0.3)]), np.zeros(3)).intersections
    return polytope(shapes.Polytope(normals=normals, offsets=np.full(20, 0.3)), corners)


def box_corners(half_sizes):
    return np.asarray(half_sizes) * np.array(np.meshgrid(*[[-1, 1]] * 3)).T.reshape(-1, 3)


def box(half_sizes, radius=None):
    corners = of_points(box_corners(half_sizes))
    program = faces_program(np.vstack([np.eye(3), -np.eye(3)]), np.tile(half_sizes, 2))
    if radius is None:
        return Body(shapes.Box(half_sizes), corners, program, (0.0, 0.0, 0.0))
    rounded = shapes.Rounded(shapes.Box(half_sizes), radius)
    return Body(rounded, lambda n: corners(n) + radius * np.linalg.norm(n, axis=1), program, (0.0, 0.0, 0.0))


def wedge_corners(length, width, height):
    section = np.array([[-2 / 3 * length, -height / 3], [length / 3, -height / 3], [length / 3, 2 / 3 * height]])
    return np.array([[x, side * width / 2, z] for x, z in section for side in (-1, 1)])


def wedge(*sizes):
    """The program is that of the hull of its corners."""
    corners = wedge_corners(*sizes)
    return dataclasses.replace(polytope(shapes.Polytope(vertices=corners), corners), shape=shapes.Wedge(*sizes))


def cylinder(radius, half_height):
    support = revolved(lambda r, z: radius * r + half_height * np.abs(z))
    program = revolved_program(radius, 0.0, -half_height, half_height)
    return Body(shapes.Cylinder(radius, half_height), support, program, (0.0, 0.0, 0.0))


def capsule(radius, half_length):
    """The program's u = (x, s): x is within the radius of (0, 0, s)."""
    A = np.array([[0, 0, 0, 0], [-1, 0, 0, 0], [0, -1, 0, 0], [0, 0, -1, 1], [0, 0, 0, 1], [0, 0, 0, -1]], dtype=float)
    b = np.array([radius, 0, 0, 0, half_length, half_length])
    program = Program(A, b, [(SECOND_ORDER, 4), (NONNEGATIVE, 2)], np.eye(3, 4))
    support = revolved(lambda r, z: radius * np.hypot(r, z) + half_length * np.abs(z))
    return Body(shapes.Capsule(radius, half_length), support, program, (0.0, 0.0, 0.0))


def frustum(shape, bottom, top, height):
    low = height / 4 * (bottom**2 + 2 * bottom * top + 3 * top**2) / (bottom**2 + bottom * top + top**2)
    taper = (bottom - top) / height
    support = revolved(lambda r, z: np.maximum(bottom * r - low * z, top * r + (height - low) * z))
    return Body(shape, support, revolved_program(bottom - taper * low, taper, -low, height - low), (0.0, 0.0, 0.0))


def lens(radius, thickness):
    """Two caps of one radius: the ball of the nearer cap where the normal meets it, else the rim."""
    centre = radius - thickness / 2
    rim = np.sqrt(radius**2 - centre**2)

    def radial(r, z):
        size = np.hypot(r, z)
        return np.where(np.abs(z) * radius >= centre * size, radius * size - centre * np.abs(z), rim * r)

    ball = np.eye(4, 3, -1)
    b = np.array([radius, 0, 0, centre, radius, 0, 0, -centre])
    program = Program(-np.vstack([ball, ball]), b, [(SECOND_ORDER, 4)] * 2, np.eye(3))
    return Body(shapes.Lens(radius, radius, thickness), revolved(radial), program, (0.0, 0.0, 0.0))


def half(normal, offset=0.1):
    """The support function is the offset for the normal and infinite for others; normals of answers carry round-off."""
    make = shapes.HalfSpace if len(normal) == 3 else shapes.HalfPlane
    support = lambda n: np.where(np.linalg.norm(n - np.asarray(normal), axis=1) < 1e-9, offset, np.inf)  # noqa: E731
    inside = tuple(-np.asarray(normal))
    return Body(make(normal=normal, offset=offset), support, faces_program([normal], [offset]), inside)


TETRAHEDRON = 0.35 * np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
WEDGE = (0.6, 0.4, 0.3)
BOX = (0.5, 0.3, 0.2)
PENTAGON = np.array([[0.4, 0.0], [0.1, 0.4], [-0.3, 0.3], [-0.3, -0.2], [0.1, -0.4]])


@functools.cache
def spatial() -> dict[str, Body]:
    """Bodies in space, by name."""
    return {
        "sphere": oval(shapes.Sphere(0.3), (0.3, 0.3, 0.3)),
        "ellipsoid": oval(shapes.Ellipsoid((0.5, 0.3, 0.2)), (0.5, 0.3, 0.2)),
        "ellipsoid 1:20": oval(shapes.Ellipsoid((0.6, 0.12, 0.03)), (0.6, 0.12, 0.03)),
        **{f"superquadric {p:g}": superquadric(p) for p in (1.2, 3, 8, 20)},
        "half superquadric 4": half_superquadric(4),
        "box": box(BOX),
        "rounded box": box((0.4, 0.2, 0.1), 0.05),
        "tetrahedron": polytope(shapes.Polytope(vertices=TETRAHEDRON), TETRAHEDRON),
        "polytope": random_polytope(),
        "wedge": wedge(*WEDGE),
        "cylinder": cylinder(0.3, 0.2),
        "capsule": capsule(0.15, 0.3),
        "frustum": frustum(shapes.Frustum(0.35, 0.15, 0.5), 0.35, 0.15, 0.5),
        "cone": frustum(shapes.Cone(0.3, 0.6, tip=1e-3), 0.3, 0.3e-3, 0.6 * (1 - 1e-3)),
        "lens": lens(0.5, 0.25),
        "half-space": half((0.6, 0.0, 0.8)),
    }


@functools.cache
def planar() -> dict[str, Body]:
    """Bodies in the plane, by name."""
    return {
        "disc": oval(shapes.Disc(0.3), (0.3, 0.3)),
        "ellipse": oval(shapes.Ellipse((0.5, 0.1)), (0.5, 0.1)),
        "polygon": polytope(shapes.Polygon(PENTAGON), PENTAGON),
        "half-plane": half((0.6, 0.8)),
    }

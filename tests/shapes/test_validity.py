"""Shapes that contact cannot use are refused, with a point at which that can be seen; all others
are accepted.

The point in each message is read back and the defect is looked for there.
"""

import re

import numpy as np
import pytest
import sympy

import shapes
from shapes import AbsPower, ImplicitShape, PositivePower, ShapeError, x, y, z
from shapes.checks.convexity import check
from shapes.expressions.symbols import SignedPower

r2 = x**2 + y**2 + z**2


def refusal(expressions, **keywords):
    """The message with which a shape is refused, and the first point in it."""
    with pytest.raises(ShapeError) as caught:
        ImplicitShape(expressions, **keywords)
    message = str(caught.value)
    numbers = re.search(r"\[([^]]*)\]", message)
    return message, np.array(numbers[1].split(), dtype=float)


NOT_CONVEX = {
    "hyperboloid": [x**2 + y**2 - z**2 - 1, z**2 - 4],
    "outside of a ball": [1 - r2, r2 - 4],
    "peanut": [r2**2 - 2 * (x**2 - y**2 - z**2) - sympy.Rational(1, 5)],
    "ball with a dent": [r2 - 4, 1 - (x - 2) ** 2 - y**2 - z**2],
}


@pytest.mark.parametrize("name", NOT_CONVEX)
def test_inward_curvature_is_refused_at_a_surface_point(name):
    """At the point the bounding inequality curves inward: it is positive just outside, between two
    points inside."""
    message, point = refusal(NOT_CONVEX[name], name=name)
    assert f"{name} is not convex" in message
    assert "curves inward" in message
    assert "Split the body into convex parts" in message
    shape = ImplicitShape(NOT_CONVEX[name], validate=False)
    j = int(re.search(r"inequality (\d)", message)[1])
    # 8 printed digits
    np.testing.assert_allclose(np.max(shape.value(point)), shape.value(point)[j], rtol=0, atol=1e-6)
    np.testing.assert_allclose(shape.value(point)[j], 0.0, rtol=0, atol=1e-6)
    tangents = np.linalg.svd(np.asarray(shape.gradient(point))[j : j + 1])[2][1:]
    angles = np.linspace(0, np.pi, 36)
    along = 0.02 * np.stack([np.cos(angles), np.sin(angles)], axis=1) @ tangents
    ends = shape.shape_class.jet.value(np.stack([point + along, point - along]), shape.theta)[..., j]
    assert np.any(np.all(ends < -1e-5, axis=0))


def test_exponent_one_per_cent_below_one_is_refused():
    power = sympy.Rational(99, 100)
    message, _ = refusal([AbsPower(x, power) + AbsPower(y, power) + z**2 - 1])
    assert "not convex" in message


def test_inward_corner_between_flat_faces_is_refused_by_a_chord():
    """{z <= |x|} has no curvature anywhere, but a chord across its notch leaves it."""
    message, middle = refusal([z - sympy.Abs(x), r2 - 4])
    assert "halfway between two of its points" in message
    assert "Split the body into convex parts" in message
    assert middle[2] > abs(middle[0])


@pytest.mark.parametrize(
    ("expressions", "depth"),
    [
        ([r2 + 1], 1.0),
        ([r2], 0.0),
        ([r2 - 1, (x - 3) ** 2 + y**2 + z**2 - 1], 1.25),
        ([r2 - 1, (x - 2) ** 2 + y**2 + z**2 - 1], 0.0),
        ([x**2 + y**2 - 1, z, -z], 0.0),
    ],
    ids=["empty", "a point", "balls apart", "balls touching", "flat"],
)
def test_empty_and_flat_sets_are_refused_at_their_deepest_point(expressions, depth):
    message, deepest = refusal(expressions)
    assert "is empty or flat" in message
    assert "Check the signs" in message
    value = max(float(f.subs({x: deepest[0], y: deepest[1], z: deepest[2]})) for f in expressions)
    np.testing.assert_allclose(value, depth, atol=1e-6)  # the analytic minimum of max f


@pytest.mark.parametrize(
    ("expressions", "thickness"),
    [
        ([x**2 + y**2 - 1, z - 5e-13, -z - 5e-13], 1e-12),
        ([x**2 + y**2 - 1, z - 1e-12, -z], 1e-12),
        ([(x**2 + y**2) * 1e20 + z**2 - 1], 2e-10),
        ([r2 - 1, (x - 2) ** 2 + y**2 + z**2 - (1 + 1e-11) ** 2], 1e-11),
        ([(x - 1000) ** 2 + y**2 + z**2 - 1e-14], 2e-7),
    ],
    ids=["plate", "plate beside the origin", "needle", "balls that hardly overlap", "speck far away"],
)
def test_bodies_thinner_than_contact_resolves_are_refused(expressions, thickness):
    message, across = refusal(expressions)
    assert "is empty or flat: along" in message
    assert "which contact cannot resolve" in message
    np.testing.assert_allclose(np.linalg.norm(across), 1.0, rtol=1e-6)
    np.testing.assert_allclose(float(re.search(r"it is (\S+) m thick", message)[1]), thickness, rtol=0.2)


@pytest.mark.parametrize(
    "expressions",
    [[x**2 + y**2 - 1, z - 1e-7, -z - 1e-7], [(x**2 + y**2) * 1e12 + z**2 - 1], [z - 5e-4, -z - 5e-4]],
    ids=["plate", "needle", "sheet without end"],
)
def test_thin_bodies_are_accepted(expressions):
    assert ImplicitShape(expressions).shape_class.count == len(expressions)


@pytest.mark.parametrize("expression", [(r2 - 1) ** 3, (r2 - 1) * sympy.Abs(r2 - 1), (r2 - 1) ** 5])
def test_vanishing_normal_is_refused_at_a_surface_point(expression):
    message, point = refusal([expression])
    assert "has no normal at" in message
    assert "f, not f**3" in message
    np.testing.assert_allclose(np.linalg.norm(point), 1.0, rtol=1e-6)


@pytest.mark.parametrize(
    "expressions",
    [[sympy.sqrt(x**2 + y**2) + z - 1, -z], [sympy.sqrt(x**2 + y**2) - 1, z - 1, -z - 1]],
    ids=["apex", "axis"],
)
def test_points_without_a_gradient_are_refused(expressions):
    """Contact begins at a point inside the body: on the axis of such a cylinder its first step
    would be lost."""
    message, point = refusal(expressions)
    assert "has no normal at" in message
    assert "x**2 + y**2 - r**2" in message
    assert np.hypot(*point[:2]) == 0


@pytest.mark.parametrize(
    "expression",
    [(sympy.Abs(x) + sympy.Abs(y)) ** 2 + z**2 - 1, sympy.exp(sympy.Abs(x)) + y**2 + z**2 - 2],
    ids=["square rounded along z", "lens"],
)
def test_edges_within_an_inequality_are_refused(expression):
    """At the point named the gradient differs between both sides, and the surface is there."""
    message, edge = refusal([expression])
    assert "Give each face an inequality of its own" in message
    shape = ImplicitShape([expression], validate=False)
    np.testing.assert_allclose(shape.value(edge), 0.0, rtol=0, atol=1e-6)
    sides = [edge + 1e-6 * np.array([s, t, 0]) for s in (1, -1) for t in (1, -1)]
    normals = [g / np.linalg.norm(g) for g in (np.asarray(shape.gradient(side))[0] for side in sides)]
    assert max(np.linalg.norm(n - normals[0]) for n in normals) > 0.1


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("axis", [(0, 0, 1), (1, 1, 1)])
def test_two_sheets_are_refused(axis, size):
    """Each sheet of the hyperboloid is convex, and so are all chords between points of one."""
    along = np.array(axis) / np.linalg.norm(axis)
    height = sum(float(a) * c for a, c in zip(along, (x, y, z), strict=True))
    message, _ = refusal([r2 - 2 * height**2 + 0.01 * size**2])
    assert "is not convex: the line from" in message
    ends = re.findall(r"\[([^]]*)\]", message)
    start, end, _ = (np.array(e.split(), dtype=float) @ along for e in ends)
    assert start * end < 0  # on two sheets


def test_inequality_that_bounds_nothing_is_refused():
    message, _ = refusal([-r2 - 1])
    assert "bound nothing" in message
    assert "1.15e+18 m" in message  # 2^60: some hundred light years


def test_planar_shapes_are_checked_too():
    message, point = refusal([x**2 - y**2 - 1, y**2 - 4], dimension=2)
    assert "curves inward" in message
    assert point.shape == (2,)


def test_check_can_be_left_out():
    shape = ImplicitShape(NOT_CONVEX["hyperboloid"], validate=False)
    with pytest.raises(ShapeError, match="not convex"):
        check(shape.shape_class, shape.theta)


HALVES = [shapes.HalfSpace(normal=n, offset=0.5) for n in np.concatenate([np.eye(3), -np.eye(3)])]
LIBRARY = {
    "Sphere": shapes.Sphere(0.3),
    "Ellipsoid": shapes.Ellipsoid((0.01, 1.0, 100.0)),
    "Superquadric e1 = e2": shapes.Superquadric((0.5, 0.6, 0.7), epsilon=(0.25, 0.25)),
    "Superquadric e1 != e2": shapes.Superquadric((0.5, 0.6, 0.7), epsilon=(0.25, 0.8)),
    "Superquadric e > 1": shapes.Superquadric((0.5, 0.6, 0.7), epsilon=(1.5, 1.25)),
    "Superquadric e = 2": shapes.Superquadric((0.5, 0.6, 0.7), epsilon=(2.0, 2.0)),
    "HalfSpace": shapes.HalfSpace(normal=(0.6, 0.0, 0.8), offset=-3.0),
    "HalfPlane": shapes.HalfPlane(normal=(0.6, 0.8)),
    "Disc": shapes.Disc(20.0),
    "Ellipse": shapes.Ellipse((0.5, 0.01)),
    "Intersection": shapes.Intersection(HALVES, validate=False),
}
OWN = {
    "lens": [(x - 0.8) ** 2 + y**2 + z**2 - 1, (x + 0.8) ** 2 + y**2 + z**2 - 1],
    "paraboloid": [x**2 + y**2 - z],
    "catenoid-like cap": [sympy.cosh(x) + sympy.cosh(y) - 3, z - 1, -z],
    "octahedron": [sympy.Abs(x) + sympy.Abs(y) + sympy.Abs(z) - 1],
    "bullet": [x**2 + y**2 + PositivePower(z, 2) - 1, -z - 1],
    "cushion": [PositivePower(x - 1, 3) + PositivePower(-x - 1, 3) + y**2 + z**2 - 1],
    "power 1.5": [AbsPower(x, sympy.Rational(3, 2)) + y**2 + z**2 - 1],
    "ball away from the origin": [(x - 5) ** 2 + (y + 7) ** 2 + z**2 - 1],
}


@pytest.mark.parametrize("name", LIBRARY)
def test_library_shapes_are_accepted(name):
    shape = LIBRARY[name]
    report = check(shape.shape_class, shape.theta)
    assert report.bounded == (name not in ("HalfSpace", "HalfPlane"))
    assert report.least_normal > 0


@pytest.mark.parametrize("name", OWN)
def test_convex_shapes_of_a_users_own_are_accepted(name):
    shape = ImplicitShape(OWN[name], name=name)
    report = check(shape.shape_class, shape.theta)
    assert np.all(shape.value(report.interior_point) < 0)
    assert report.bounded == (name != "paraboloid")


@pytest.mark.parametrize("radius", [1e-3, 0.3, 40.0])
def test_report_of_a_sphere_has_its_closed_forms(radius):
    """|grad f| = 2 / r; the tangential Hessian is 2 / r^2 against a norm of sqrt(3) 2 / r^2; no
    chord leaves the ball."""
    sphere = shapes.Sphere(radius)
    report = check(sphere.shape_class, sphere.theta)
    np.testing.assert_array_equal(report.interior_point, np.zeros(3))
    # points are bisected to the last bit of a coordinate
    np.testing.assert_allclose(np.linalg.norm(report.surface_points, axis=1), radius, rtol=1e-14)
    np.testing.assert_allclose(report.least_normal, 2 / radius, rtol=1e-14)
    np.testing.assert_allclose(report.least_curvature, 1 / np.sqrt(3), rtol=1e-14)
    assert report.worst_chord < 1e-14


def test_report_of_a_plane_has_no_curvature():
    plane = LIBRARY["HalfSpace"]
    report = check(plane.shape_class, plane.theta)
    assert report.least_curvature == np.inf
    np.testing.assert_allclose(report.least_normal, 1.0, rtol=1e-15)
    far = np.max(np.abs(report.surface_points))
    np.testing.assert_allclose(report.surface_points @ [0.6, 0.0, 0.8], -3.0, rtol=0, atol=4 * far * np.finfo(float).eps)


def test_infinite_normal_is_refused_at_a_surface_point():
    message, point = refusal([SignedPower(r2 - 1, sympy.Rational(1, 3))])
    assert "has no normal at" in message
    np.testing.assert_allclose(np.linalg.norm(point), 1.0, rtol=1e-6)


@pytest.mark.parametrize("expression", [r2 - 1e-12, 1e-14 * (r2 - 1), 1e8 * (r2 - 1)])
def test_units_of_an_inequality_do_not_matter(expression):
    """A ball of a micrometre, and inequalities in odd units, are bodies like others."""
    assert shapes.ImplicitShape([expression]).shape_class.count == 1

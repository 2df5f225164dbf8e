"""Solids of revolution and bodies with flat faces, against textbook points and normals and
independent integrals.

Radii of slices are found by bisection of the inequalities, polytopes are integrated over Delaunay's
tetrahedra.
"""

import jax
import numpy as np
import pytest
import scipy.spatial

import shapes
from shapes import ShapeError
from shapes.checks.convexity import check
from shapes.expressions.compile import compile_jet

EPS = np.finfo(float).eps
ROUND_OFF = 50 * EPS  # coordinates and sizes are below 10
CORNERS = np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)], dtype=float)


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def turned(seed=0):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0]


def on_sphere(count, seed=0, dimension=3):
    return unit(np.random.default_rng(seed).normal(size=(count, dimension)))


def values(shape, points):
    kind = shape.shape_class
    return compile_jet(kind.expressions, kind.dimension, kind.parameters, backend="numpy").value(points, shape.theta)


def moments(shape):
    return shape.shape_class.closed_form(shape.theta)


# shape, heights between which r^2(z) is smooth, relative accuracy of its inequalities
OF_REVOLUTION = {
    "Cylinder": (shapes.Cylinder(0.3, 0.7), [-0.7, 0.7], 0.0),
    "Capsule": (shapes.Capsule(0.3, 0.7), [-1.0, -0.7, 0.7, 1.0], 0.0),
    "Frustum": (shapes.Frustum(0.5, 0.2, 0.9), 0.9 * (np.array([0, 1]) - (0.25 + 0.2 + 0.12) / (4 * 0.39)), 1e-12),
    "Frustum upside down": (shapes.Frustum(0.2, 0.5, 0.9), 0.9 * (np.array([0, 1]) - (0.04 + 0.2 + 0.75) / 1.56), 1e-12),
    "Lens": (shapes.Lens(1.0, 2.0, 0.5), None, 0.0),
    "Lens of equal radii": (shapes.Lens(1.0, 1.0, 0.4), [-0.2, 0.0, 0.2], 0.0),
    "Lens, more than a hemisphere": (shapes.Lens(0.5, 2.0, 0.95), None, 0.0),
}


def ends_and_rim(shape):
    """Lowest and highest point on the axis, by bisection, and for a lens the height where its two
    inequalities meet."""
    along = np.array([0.0, 0.0, 1.0])
    ends = []
    for sign in (-1.0, 1.0):
        near, far = 0.0, 5.0
        for _ in range(60):
            middle = (near + far) / 2
            near, far = (middle, far) if np.max(values(shape, sign * middle * along)) < 0 else (near, middle)
        ends.append(sign * near)
    low, high = ends
    if shape.shape_class.name != "Lens":
        return [low, high]
    r1, r2 = shape.theta[:2]
    first, second = high - r1, low + r2  # centres of the balls
    return [low, (second**2 - first**2 - r2**2 + r1**2) / (2 * (second - first)), high]


@pytest.mark.parametrize("name", OF_REVOLUTION)
def test_moments_of_revolution_match_slices(name):
    shape, breaks, inexact = OF_REVOLUTION[name]
    breaks = ends_and_rim(shape) if breaks is None else breaks
    nodes, weights = np.polynomial.legendre.leggauss(12)
    z = np.concatenate([(a + b) / 2 + (b - a) / 2 * nodes for a, b in zip(breaks[:-1], breaks[1:], strict=True)])
    weight = np.pi * np.concatenate([(b - a) / 2 * weights for a, b in zip(breaks[:-1], breaks[1:], strict=True)])
    near, far = np.zeros(len(z)), np.full(len(z), 5.0)
    for _ in range(60):
        middle = (near + far) / 2
        inside = np.max(values(shape, np.column_stack([middle, 0 * z, z])), axis=1) < 0
        near, far = np.where(inside, middle, near), np.where(inside, far, middle)
    got, rtol = moments(shape), 1e-13 + inexact
    size = max(np.max(near), breaks[-1])
    volume = weight @ near**2
    np.testing.assert_allclose(got.volume, volume, rtol=rtol)
    np.testing.assert_allclose(got.first, [0, 0, weight @ (z * near**2)], rtol=0, atol=rtol * volume * size)
    np.testing.assert_allclose(got.centre, 0.0, atol=1e-14 * size)
    across = weight @ near**4 / 4
    np.testing.assert_allclose(got.second, np.diag([across, across, weight @ (z**2 * near**2)]), rtol=rtol, atol=1e-17)


def tetrahedra(vertices):
    """Volume, first and second moments by Delaunay's simplices and a product rule on each (Duffy's
    coordinates)."""
    d = vertices.shape[1]
    cells = vertices[scipy.spatial.Delaunay(vertices).simplices]
    nodes, weights = np.polynomial.legendre.leggauss(4)
    nodes, weights = (nodes + 1) / 2, weights / 2
    grid = np.stack(np.meshgrid(*[nodes] * d, indexing="ij"), axis=-1).reshape(-1, d)
    weight = np.prod(np.stack(np.meshgrid(*[weights] * d, indexing="ij"), axis=-1).reshape(-1, d), axis=1)
    # what is left for the coordinates to come
    rest = np.cumprod(np.column_stack([np.ones(len(grid)), 1 - grid]), axis=1)
    local = grid * rest[:, :-1]
    weight = weight * np.prod(rest[:, :-1], axis=1)
    edges = cells[:, 1:] - cells[:, :1]
    points = cells[:, None, 0] + np.einsum("qi,cid->cqd", local, edges)
    weight = np.abs(np.linalg.det(edges))[:, None] * weight
    return np.sum(weight), np.einsum("cq,cqi->i", weight, points), np.einsum("cq,cqi,cqj->ij", weight, points, points)


WEDGE = np.array([[-2.0, 0, -1], [1, 0, -1], [1, 0, 2]]) / 3 * [1.2, 0, 0.6]
SPHERE_POINTS = on_sphere(40)
FLAT = {  # shape, its vertices
    "Box": (shapes.Box((0.3, 0.5, 0.2)), CORNERS * [0.3, 0.5, 0.2]),
    "Wedge": (shapes.Wedge(1.2, 0.8, 0.6), np.concatenate([WEDGE + [0, 0.4, 0], WEDGE - [0, 0.4, 0]])),
    "tetrahedron": (shapes.Polytope(np.vstack([np.zeros(3), np.eye(3)])), np.vstack([np.zeros(3), np.eye(3)])),
    "turned box far away": (shapes.Polytope(CORNERS @ turned() + 5), CORNERS @ turned() + 5),
    "hull of points on a sphere": (shapes.Polytope(SPHERE_POINTS), SPHERE_POINTS),
    "octahedron by half-spaces": (
        shapes.Polytope(normals=CORNERS / np.sqrt(3), offsets=np.full(8, 1 / np.sqrt(3))),
        np.concatenate([np.eye(3), -np.eye(3)]),
    ),
    "pentagon": (
        shapes.Polygon([(0, 0), (2, 0), (2.5, 1), (1, 2), (-0.2, 1)]),
        np.array([(0, 0), (2, 0), (2.5, 1), (1, 2), (-0.2, 1)]),
    ),
    "triangle by half-planes": (
        shapes.Polygon(normals=[(0, -1), (-1, 0), (0.6, 0.8)], offsets=[0, 0, 1.2]),
        np.array([(0, 0), (2, 0), (0, 1.5)]),
    ),
}


@pytest.mark.parametrize("name", FLAT)
def test_moments_of_flat_bodies_match_tetrahedra(name):
    shape, vertices = FLAT[name]
    got = moments(shape)
    volume, first, second = tetrahedra(vertices)
    reach = np.max(np.abs(vertices))
    np.testing.assert_allclose(got.volume, volume, rtol=1e-12)
    np.testing.assert_allclose(got.first, first, rtol=0, atol=1e-12 * volume * reach)
    np.testing.assert_allclose(got.second, second, rtol=0, atol=1e-12 * volume * reach**2)


@pytest.mark.parametrize("name", FLAT)
def test_flat_bodies_are_the_hulls_of_their_vertices(name):
    """Each vertex is on d faces or more, f is the signed distance from a face, and the inside is
    that of Delaunay."""
    shape, vertices = FLAT[name]
    d, count = shape.dimension, shape.shape_class.count
    tolerance = ROUND_OFF * np.max(np.abs(vertices))
    at_vertices = values(shape, vertices)
    assert np.max(at_vertices) <= tolerance
    assert np.all(np.sum(np.abs(at_vertices) <= tolerance, axis=1) >= d)
    # each face has d vertices or more
    assert np.all(np.sum(np.abs(at_vertices) <= tolerance, axis=0) >= d)
    hull = scipy.spatial.ConvexHull(vertices)
    assert count == len(np.unique(np.round(hull.equations, 9), axis=0))
    np.testing.assert_allclose(np.linalg.norm(shape.gradient(vertices[0]), axis=1), 1.0, rtol=ROUND_OFF)
    low, high = np.min(vertices, axis=0), np.max(vertices, axis=0)
    points = np.random.default_rng(2).uniform(low - 0.1, high + 0.1, (500, d))
    inside = scipy.spatial.Delaunay(vertices).find_simplex(points) >= 0
    assert 10 < np.sum(inside) < 490
    np.testing.assert_array_equal(np.max(values(shape, points), axis=1) <= 0, inside)


@pytest.mark.parametrize("make", [shapes.Cylinder, shapes.Capsule])
def test_side_of_a_cylinder_and_a_capsule(make):
    shape = make(0.3, 0.7)
    for angle in np.linspace(0, 6, 7):
        normal = np.array([np.cos(angle), np.sin(angle), 0.0])
        for height in (-0.6, 0.0, 0.69):
            point = 0.3 * normal + [0, 0, height]
            np.testing.assert_allclose(shape.value(point)[0], 0.0, atol=ROUND_OFF)
            np.testing.assert_allclose(shape.gradient(point)[0], normal, atol=ROUND_OFF)


def test_cylinder_ends_at_its_discs():
    shape = shapes.Cylinder(0.3, 0.7)
    for sign, j in ((1, 1), (-1, 2)):
        point = [0.1, 0.2, sign * 0.75]
        np.testing.assert_allclose(shape.value(point)[j], 0.05, rtol=1e-14)
        np.testing.assert_array_equal(shape.gradient(point)[j], [0, 0, sign])


def test_capsule_ends_in_hemispheres():
    shape = shapes.Capsule(0.3, 0.7)
    assert shape.shape_class.count == 1
    for normal in on_sphere(20):
        point = 0.3 * normal + [0, 0, np.copysign(0.7, normal[2])]
        np.testing.assert_allclose(shape.value(point)[0], 0.0, atol=ROUND_OFF)
        np.testing.assert_allclose(shape.gradient(point)[0], normal, atol=ROUND_OFF)


@pytest.mark.parametrize(("bottom", "top"), [(0.5, 0.2), (0.2, 0.5), (0.3, 0.3), (5.0, 0.01)])
def test_frustum_has_the_points_and_normals_of_a_truncated_cone(bottom, top):
    shape, height = shapes.Frustum(bottom, top, 0.9), 0.9
    low = height / 4 * (bottom**2 + 2 * bottom * top + 3 * top**2) / (bottom**2 + bottom * top + top**2)
    for share in (0.0, 0.3, 1.0):
        radius = bottom + share * (top - bottom)
        for angle in (0.0, 1.0, 4.0):
            radial = np.array([np.cos(angle), np.sin(angle), 0.0])
            point = radius * radial + [0, 0, share * height - low]
            np.testing.assert_allclose(shape.value(point)[0], 0.0, atol=1e-12 * radius + ROUND_OFF)
            normal = unit(height * radial + [0, 0, bottom - top])
            np.testing.assert_allclose(shape.gradient(point)[0], normal, rtol=0, atol=2e-12)
    np.testing.assert_allclose(shape.value([0.0, 0.0, height - low])[1], 0.0, atol=ROUND_OFF)
    np.testing.assert_allclose(shape.value([0.0, 0.0, -low])[2], 0.0, atol=ROUND_OFF)


def test_frustums_are_blunt_by_a_millionth_of_their_radii():
    """On the axis the lateral inequality lies that little, c, above the cone's; there 1e-6 b t / (b
    + t) = 1e-7."""
    bottom, top, height = 0.5, 0.125, 0.9
    axis = shapes.Frustum(bottom, top, height).value([0.0, 0.0, 0.0])[0] * np.hypot(1, (bottom - top) / height)
    low = height / 4 * (bottom**2 + 2 * bottom * top + 3 * top**2) / (bottom**2 + bottom * top + top**2)
    radius = bottom - (bottom - top) / height * low
    np.testing.assert_allclose(axis + radius, 1e-7, rtol=1e-6)


@pytest.mark.parametrize("shape", [shapes.Frustum(0.5, 0.2, 0.9), shapes.Cone(0.5, 0.9)], ids=["blunt", "tip"])
def test_cones_have_a_slope_on_the_axis_and_beyond_the_apex(shape):
    for point in ([0.0, 0.0, 0.0], [0.0, 0.0, 1.5], [0.0, 0.0, 20.0], [1e-9, 0.0, 1.5], [0.0, 0.0, -30.0]):
        slope = shape.gradient(point)[0]
        assert 0.2 < np.linalg.norm(slope) <= 1 + EPS
        assert slope[2] > 0
        assert np.all(np.isfinite(shape.hessian(point)))


@pytest.mark.parametrize("tip", [1e-3, 0.05, 0.5])
def test_cone_is_a_cone_without_its_tip(tip):
    """Same base and slope as the whole cone; its centre of mass is that of the cone less that of
    the tip."""
    radius, height = 0.5, 0.9
    assert (
        shapes.Cone(radius, height, tip).parameters()
        == shapes.Frustum(radius, tip * radius, (1 - tip) * height).parameters()
    )
    whole, lost = height / 4, height * (1 - tip) + tip * height / 4  # centres over the base
    centre = (whole - tip**3 * lost) / (1 - tip**3)
    points = [(radius, -centre), (tip * radius, height * (1 - tip) - centre)]
    for r, z in points:
        np.testing.assert_allclose(shapes.Cone(radius, height, tip).value([0.0, r, z])[0], 0.0, rtol=0, atol=1e-12)


def test_lens_is_in_both_balls():
    r1, r2, thickness = 1.0, 2.0, 0.5
    shape = shapes.Lens(r1, r2, thickness)
    low, rim, high = ends_and_rim(shape)
    np.testing.assert_allclose(high - low, thickness, rtol=1e-14)
    for normal in on_sphere(20):
        for j, centre, radius in ((0, high - r1, r1), (1, low + r2, r2)):
            point = radius * normal + [0, 0, centre]
            np.testing.assert_allclose(shape.value(point)[j], 0.0, atol=ROUND_OFF)
            np.testing.assert_allclose(shape.gradient(point)[j], normal, atol=ROUND_OFF)
            assert shape.value(point)[1 - j] <= 0 or (point[2] < rim) == (j == 0)


def test_the_centre_of_mass_of_a_lens_is_its_origin():
    """By quadrature of its slices, which are cubic in z: to round-off, not to the millionth that a
    picture would show."""
    shape = shapes.Lens(1.0, 2.0, 0.5)
    low, rim, high = ends_and_rim(shape)
    nodes, weights = np.polynomial.legendre.leggauss(4)
    first = 0.0
    for a, b, centre, radius in ((low, rim, low + 2.0, 2.0), (rim, high, high - 1.0, 1.0)):
        z = (a + b) / 2 + (b - a) / 2 * nodes
        first += (b - a) / 2 * np.sum(weights * z * np.pi * (radius**2 - (z - centre) ** 2))
    np.testing.assert_allclose(first / float(moments(shape).volume), 0.0, atol=1e-13)
    np.testing.assert_allclose(shape.moments().centre, 0.0, atol=1e-13)


SOLIDS = {name: entry[0] for name, entry in (OF_REVOLUTION | FLAT).items()}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.thorough) if n == "hull of points on a sphere" else n for n in SOLIDS],
)
def test_solids_pass_the_check_of_convexity_with_unit_slopes(name):
    report = check(SOLIDS[name].shape_class, SOLIDS[name].theta)
    assert report.bounded
    assert 0.3 < report.least_normal <= 1 + 1e-12  # a blunt tip is less steep


@pytest.mark.parametrize("name", ["Capsule", "Frustum", "Lens", "Wedge", "pentagon"])
def test_moments_can_be_traced_and_differentiated(name):
    """In sizes alone volume is of degree d and second moments of d + 2."""
    shape = SOLIDS[name]
    sizes = {"tip", "n_x", "n_y"}
    scaled = np.array([not any(str(s).startswith(prefix) for prefix in sizes) for s in shape.shape_class.parameters])
    form = shape.shape_class.closed_form
    value, slope = jax.jit(lambda theta: (form(theta), jax.jacfwd(form)(theta)))(shape.theta)
    d = shape.dimension
    np.testing.assert_allclose(slope.volume @ (shape.theta * scaled), d * value.volume, rtol=1e-12)
    by_degree = (d + 2) * np.asarray(value.second)
    np.testing.assert_allclose(slope.second @ (shape.theta * scaled), by_degree, rtol=1e-11, atol=1e-14)


def test_moments_of_a_polytope_say_that_they_cannot_be_traced():
    shape = shapes.Polytope(CORNERS)
    with pytest.raises(ShapeError, match="need numbers, .* outside of jit and grad"):
        jax.jit(shape.shape_class.closed_form)(shape.theta)


def test_polytopes_with_as_many_faces_share_their_class():
    one, other = shapes.Polytope(CORNERS), shapes.Polytope(CORNERS @ turned() * [1, 2, 3])
    assert one.shape_class == other.shape_class
    assert one.shape_class.jet is other.shape_class.jet


def test_points_on_faces_and_edges_change_nothing():
    extra = np.array([(1, 0, 0), (1, 1, 0), (0.2, 0.3, -1)])
    shape = shapes.Polytope(np.concatenate([CORNERS, extra]) @ turned())
    assert shape.shape_class.count == 6
    np.testing.assert_allclose(moments(shape).volume, 8.0, rtol=1e-13)


def test_order_of_vertices_and_of_half_planes_does_not_matter():
    corners = np.array([(0, 0), (2, 0), (2.5, 1), (1, 2), (-0.2, 1)])
    face_rows = shapes.Polygon(corners).theta.reshape(-1, 3)
    shuffled = np.random.default_rng(0).permutation
    expected = moments(shapes.Polygon(corners))
    rows = shuffled(face_rows)
    for other in (shapes.Polygon(shuffled(corners)), shapes.Polygon(normals=rows[:, :2], offsets=rows[:, 2])):
        np.testing.assert_allclose(moments(other).second, expected.second, rtol=1e-13)


SIDES = np.concatenate([np.eye(3), -np.eye(3)])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: shapes.Box((1, 0, 1)), "`half_sizes` = .* must be positive"),
        (lambda: shapes.Box((1, 1)), "`half_sizes` has shape .*needs 3 numbers"),
        (lambda: shapes.Wedge(1, -2, 1), "`width` = -2.0 must be positive"),
        (lambda: shapes.Wedge(np.nan, 2, 1), "`length` = nan is not finite"),
        (lambda: shapes.Cylinder(1, 0), "`half_height` = 0.0 must be positive"),
        (lambda: shapes.Cylinder(np.float32(1), 1), "`radius` is float32"),
        (lambda: shapes.Capsule(-1, 1), "`radius` = -1.0 must be positive"),
        (lambda: shapes.Frustum(1, 0, 1), "`radius_top` = 0.0 must be positive"),
        (lambda: shapes.Cone(1, 1, tip=0), "`tip` = 0.0 must be positive"),
        (lambda: shapes.Cone(1, 1, tip=1), "`tip` = 1.0 must be below 1: it is the share of the height that is cut off"),
        (lambda: shapes.Lens(1, 2, 2), "`thickness` = 2.0 must be below 2, the diameter of the smaller ball.* Use Sphere"),
        (lambda: shapes.Lens(1, 2, 0), "`thickness` = 0.0 must be positive"),
        (lambda: shapes.Polytope(), "Polytope needs either `vertices` or both `normals` and `offsets`"),
        (lambda: shapes.Polytope(CORNERS, offsets=[1]), "needs either `vertices` or both"),
        (lambda: shapes.Polytope(normals=SIDES), "needs either `vertices` or both"),
        (lambda: shapes.Polytope(CORNERS[:, :2]), r"`vertices` has shape \(8, 2\): it needs rows of 3 numbers"),
        (lambda: shapes.Polytope(CORNERS + np.inf), r"`vertices`\[0\] = .* not finite"),
        (lambda: shapes.Polytope(np.zeros((0, 3))), r"`vertices` has shape \(0, 3\)"),
        (lambda: shapes.Polytope("corners"), "`vertices` = 'corners' must be an array of rows of 3 real numbers"),
        (lambda: shapes.Polytope(CORNERS.astype(np.float32)), "`vertices` is float32"),
        (lambda: shapes.Polytope(CORNERS[:3]), "needs 4 vertices or more, not 3"),
        (lambda: shapes.Polytope(CORNERS[:4] @ turned()), "Polytope is flat: its 4 vertices lie in one plane"),
        (lambda: shapes.Polygon([(0, 0), (1, 1), (2, 2)]), "Polygon is flat: its 3 vertices lie in one line"),
        (
            lambda: shapes.Polytope(np.vstack([CORNERS, [(0.2, 0.1, 0.7)]])),
            r"vertex 8 at \[0.2 0.1 0.7\] is inside the convex hull of the others, 0.3 m deep. Split a mesh that",
        ),
        (lambda: shapes.Polytope(CORNERS[[0, 1, 2, 3, 4, 4]]), "vertices 4 and 5 are both .*: give every vertex once"),
        (lambda: shapes.Polytope(normals=2 * SIDES, offsets=np.ones(6)), r"`normals\[0\]` = .* has length 2: give a unit"),
        (lambda: shapes.Polytope(normals=SIDES, offsets=np.ones(5)), r"`offsets` has shape \(5,\): it needs 6 numbers"),
        (
            lambda: shapes.Polytope(normals=SIDES, offsets=[1, 1, 1, 1, -2, 1]),
            r"Polytope is empty: the half-spaces \[1, 4\] contradict each other, every point is outside .* by 0.5 m",
        ),
        (
            lambda: shapes.Polytope(normals=SIDES, offsets=[1, 1, 1, 1, -1, 1]),
            r"Polytope is flat: the half-spaces \[1, 4\] leave 0 m between them",
        ),
        (
            lambda: shapes.Polytope(normals=SIDES, offsets=[1, 1e-12, 1, 1, 0, 1]),
            r"Polytope is flat: the half-spaces \[1, 4\] leave 1e-12 m between them",
        ),
        (
            lambda: shapes.Polytope(normals=SIDES[:5], offsets=np.ones(5)),
            r"Polytope is unbounded: it never ends along \[ 0.  0. -1.\]. Close it",
        ),
        (
            lambda: shapes.Polytope(normals=np.vstack([SIDES, [(0.6, 0.8, 0.0)]]), offsets=[1, 1, 1, 1, 1, 1, 1.4]),
            r"half-space 6, with normal \[0.6 0.8 0. \] and offset 1.4, is never active, as the others imply it",
        ),
        (
            lambda: shapes.Polytope(normals=np.vstack([SIDES, SIDES[:1]]), offsets=np.ones(7)),
            "half-space 0, .* is never active, as the others imply it. Leave it out",
        ),
        (
            lambda: shapes.Polygon(normals=[(1, 0), (-1, 0), (0, -1)], offsets=[1, 1, 1]),
            r"Polygon is unbounded: it never ends along \[0. 1.\]",
        ),
    ],
)
def test_bad_argument_is_refused_by_name(make, says):
    with pytest.raises(ShapeError, match=says):
        make()


def test_a_face_that_cuts_off_a_small_corner_is_kept():
    normals = np.vstack([SIDES, np.ones((1, 3)) / np.sqrt(3)])
    shape = shapes.Polytope(normals=normals, offsets=[1, 1, 1, 1, 1, 1, np.sqrt(3) - 1e-6])
    assert shape.shape_class.count == 7


@pytest.mark.parametrize("size", [1e-6, 1e6])
def test_polytopes_may_have_any_size(size):
    shape = shapes.Polytope(size * (CORNERS @ turned()))
    again = shape.theta.reshape(-1, 4)
    other = shapes.Polytope(normals=again[:, :3], offsets=again[:, 3])
    for body in (shape, other):
        assert body.shape_class.count == 6
        np.testing.assert_allclose(moments(body).volume, 8 * size**3, rtol=1e-12)

"""Library shapes against what is known of them in closed form: surface points, normals, volume and second moments.

Volumes are checked against quadrature over all directions of the distance at which f changes sign, so the closed forms
are tied to the inequalities themselves.
"""

import numpy as np
import pytest

import shapes
from shapes import ShapeError

EPS = np.finfo(float).eps
# f is a difference of terms of size 1 (10 for the roundest powers below); normals are quotients of such terms.
ROUND_OFF = 200 * EPS


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def directions(dimension, count=8, seed=0):
    """Unit vectors (count, d), followed by the axes and their opposites."""
    random = unit(np.random.default_rng(seed).normal(size=(count, dimension)))
    return np.concatenate([random, np.eye(dimension), -np.eye(dimension)])


def assert_on_surface_with_normals(shape, points, normals):
    for point, normal in zip(points, normals, strict=True):
        assert abs(shape.value(point)[0]) <= ROUND_OFF
        np.testing.assert_allclose(unit(np.asarray(shape.gradient(point))[0]), normal, rtol=0, atol=ROUND_OFF)


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        (shapes.Sphere(0.7), [0.7, 0.7, 0.7]),
        (shapes.Ellipsoid((0.5, 1.3, 2.0)), [0.5, 1.3, 2.0]),
        (shapes.Disc(1.7), [1.7, 1.7]),
        (shapes.Ellipse((0.4, 3.0)), [0.4, 3.0]),
    ],
    ids=["Sphere", "Ellipsoid", "Disc", "Ellipse"],
)
def test_scaled_unit_vectors_are_on_the_quadric_and_their_normals_are_inversely_scaled(shape, axes):
    u = directions(len(axes))
    assert_on_surface_with_normals(shape, u * axes, unit(u / axes))


def power(base, exponent):
    return np.sign(base) * np.abs(base) ** exponent


@pytest.mark.parametrize(
    "epsilon", [(1.0, 1.0), (0.5, 0.5), (2 / 3, 2 / 3), (0.25, 0.8), (0.4, 1.0), (1.6, 1.6), (1.25, 0.5), (0.5, 1.5)]
)
def test_superquadric_has_barrs_points_and_normals(epsilon):
    """Barr (1981): the angles eta, omega with signed powers e1, e2, and normals with powers 2 - e1, 2 - e2."""
    e1, e2 = epsilon
    axes = np.array([0.7, 1.1, 0.4])
    eta, omega = np.random.default_rng(1).uniform([-1.5, -3.1], [1.5, 3.1], (10, 2)).T

    def along(p1, p2):
        ring = np.cos(eta) ** p1
        return np.stack([ring * power(np.cos(omega), p2), ring * power(np.sin(omega), p2), power(np.sin(eta), p1)], axis=1)

    shape = shapes.Superquadric(axes, epsilon=epsilon)
    assert_on_surface_with_normals(shape, axes * along(e1, e2), unit(along(2 - e1, 2 - e2) / axes))


def test_superquadric_with_unit_exponents_is_the_ellipsoid():
    axes = (0.5, 1.3, 2.0)
    superquadric, ellipsoid = shapes.Superquadric(axes, epsilon=(1, 1)), shapes.Ellipsoid(axes)
    for point in np.random.default_rng(2).normal(size=(5, 3)):
        np.testing.assert_allclose(superquadric.value(point), ellipsoid.value(point), rtol=ROUND_OFF, atol=ROUND_OFF)


@pytest.mark.parametrize(("make", "d"), [(shapes.HalfSpace, 3), (shapes.HalfPlane, 2)])
def test_half_space_is_below_its_plane(make, d):
    normal = unit(np.arange(1.0, d + 1))
    shape = make(normal=normal, offset=0.3)
    along = directions(d) - np.outer(directions(d) @ normal, normal)
    for point in 0.3 * normal + along:
        np.testing.assert_allclose(shape.value(point), 0.0, atol=ROUND_OFF)
        np.testing.assert_allclose(shape.value(point - 0.2 * normal), -0.2, atol=ROUND_OFF)  # f is the signed distance
        np.testing.assert_allclose(shape.gradient(point)[0], normal, rtol=2 * EPS)


def test_half_space_normalises_what_is_nearly_a_unit_normal():
    shape = shapes.HalfSpace(normal=(0.0, 0.0, 1 + 5e-7))
    np.testing.assert_array_equal(shape.gradient(np.zeros(3))[0], [0.0, 0.0, 1.0])


def test_intersection_has_the_inequalities_of_its_parts():
    parts = [shapes.Sphere(1.0), shapes.Sphere(2.0), shapes.HalfSpace(normal=(0, 0, 1), offset=0.5)]
    both = shapes.Intersection(parts)
    assert both.shape_class.count == 3
    assert set(both.parameters()) == {"radius_0", "radius_1", "n_x_2", "n_y_2", "n_z_2", "offset_2"}
    for point in directions(3):
        np.testing.assert_array_equal(both.value(point), [part.value(point)[0] for part in parts])
        np.testing.assert_array_equal(both.gradient(point), [part.gradient(point)[0] for part in parts])


def quadrature(shape):
    """Volume and second moments about the axes: the integrals of r^d / d and of r^(d+2) / (d+2) u.u over directions u,
    with r(u) from f(r u) = r^2 (f(u) + 1) - 1 = 0. Both rules converge geometrically for these smooth integrands."""
    angle = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    if shape.dimension == 2:
        u, weight = np.stack([np.cos(angle), np.sin(angle)], axis=1), np.full(200, 2 * np.pi / 200)
    else:
        height, height_weight = np.polynomial.legendre.leggauss(200)
        ring = np.sqrt(1 - height**2)[:, None]
        u = np.stack([ring * np.cos(angle), ring * np.sin(angle), height[:, None] + 0 * angle], axis=-1).reshape(-1, 3)
        weight = np.repeat(height_weight * 2 * np.pi / 200, 200)
    d = shape.dimension
    r = 1 / np.sqrt(np.asarray(shape.shape_class.jet.value(u, shape.theta))[:, 0] + 1)
    squares = (weight * r ** (d + 2) / (d + 2)) @ u**2
    return weight @ r**d / d, np.sum(squares) - squares if d == 3 else np.array([np.sum(squares)])


@pytest.mark.parametrize(
    "shape",
    [shapes.Sphere(0.7), shapes.Ellipsoid((0.8, 1.3, 1.6)), shapes.Disc(1.7), shapes.Ellipse((0.9, 1.4))],
    ids=lambda shape: shape.shape_class.name,
)
def test_volume_and_inertia_match_quadrature(shape):
    volume, moments = shape.shape_class.volume_and_inertia(shape.theta)
    expected_volume, expected_moments = quadrature(shape)
    np.testing.assert_allclose(volume, expected_volume, rtol=1e-13)  # 40 000 terms, summed pairwise
    np.testing.assert_allclose(moments, expected_moments, rtol=1e-13)


def test_shapes_without_a_closed_form_say_so():
    for shape in (shapes.Superquadric((1, 1, 1), epsilon=(0.5, 0.5)), shapes.HalfSpace(normal=(0, 0, 1))):
        assert shape.shape_class.volume_and_inertia is None


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: shapes.Sphere(0.0), "`radius` = .* must be (positive|one finite number)"),
        (lambda: shapes.Sphere(-1.0), "`radius` = .* must be (positive|one finite number)"),
        (lambda: shapes.Sphere(np.nan), "`radius` = .* must be (positive|one finite number)"),
        (lambda: shapes.Sphere([1.0, 2.0]), "`radius` has shape .*one finite number"),
        (lambda: shapes.Disc(np.inf), "`radius` = .* must be (positive|one finite number)"),
        (lambda: shapes.Ellipsoid((1.0, 0.0, 1.0)), "`semi_axes` = .* must be (positive|one finite number)"),
        (lambda: shapes.Ellipsoid((1.0, 2.0)), "`semi_axes` has shape .*needs 3 numbers"),
        (lambda: shapes.Ellipse((1.0, np.nan)), "`semi_axes` = .* not finite"),
        (lambda: shapes.Ellipse(1.0), "`semi_axes` has shape .*needs 2 numbers"),
        (lambda: shapes.Superquadric((1, 1, -1), epsilon=(1, 1)), "`semi_axes` = .* must be (positive|one finite number)"),
        (lambda: shapes.Superquadric((1, 1, 1), epsilon=(2.1, 1)), "`epsilon` = .* must be at most 2 .* not convex"),
        (lambda: shapes.Superquadric((1, 1, 1), epsilon=(0, 1)), "`epsilon` = .* must be (positive|one finite number)"),
        (lambda: shapes.Superquadric((1, 1, 1), epsilon=(1, 1, 1)), "`epsilon` has shape .*needs 2 numbers"),
        (lambda: shapes.HalfSpace(normal=(0, 0, 2)), "`normal` = .* has length 2: give a unit vector"),
        (lambda: shapes.HalfSpace(normal=(0, 0, 0)), "`normal` = .* has length 0: give a unit vector"),
        (lambda: shapes.HalfSpace(normal=(0, 0, np.nan)), "`normal` = .* not finite"),
        (lambda: shapes.HalfSpace(normal=(0, 1)), "`normal` has shape .*needs 3 numbers"),
        (lambda: shapes.HalfPlane(normal=(0, 0, 1)), "`normal` has shape .*needs 2 numbers"),
        (lambda: shapes.HalfSpace(normal=(0, 0, 1), offset=np.nan), "`offset` = .* must be one finite number"),
        (lambda: shapes.HalfSpace(normal=(0, 0, 1), offset=np.float32(1)), "`offset` is float32: give float64"),
        (lambda: shapes.Intersection([shapes.Sphere(1.0)]), "`parts` = .* must be a list of two or more shapes"),
        (lambda: shapes.Sphere(np.float32(1)), "`radius` is float32: give float64"),
        (lambda: shapes.Ellipsoid(np.ones(3, np.float32)), "`semi_axes` is float32: give float64"),
        (lambda: shapes.Sphere("a"), "`radius` = 'a' must be one finite number"),
        (lambda: shapes.Sphere(1 + 2j), "`radius` = .* must be one finite number"),
        (lambda: shapes.HalfSpace(normal=(0, 0, 1), offset="1"), "`offset` = '1' must be one finite number"),
        (lambda: shapes.Intersection(shapes.Sphere(1.0)), "`parts` = .* must be a list of two or more shapes"),
        (lambda: shapes.Intersection([shapes.Sphere(1.0), shapes.x]), "`parts` must be shapes"),
        (lambda: shapes.Intersection([shapes.Sphere(1.0), shapes.Disc(1.0)]), "mixes planar and spatial"),
    ],
)
def test_bad_argument_is_refused_by_name(make, says):
    with pytest.raises(ShapeError, match=says):
        make()

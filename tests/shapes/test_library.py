"""Curved library shapes and half-spaces against what is known of them: surface points, normals,
moments and supports.

Volumes are checked against quadrature of the distance at which f changes sign, so the closed forms
are tied to the inequalities themselves.
"""

import jax
import mpmath
import numpy as np
import pytest

import shapes
from shapes import ShapeError
from shapes.expressions.compile import compile_jet
from shapes.library.curved import SuperquadricMoments

EPS = np.finfo(float).eps
# f is a difference of terms of size 1 (10 for the roundest powers below); normals are quotients of
# such terms.
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
    """Barr (1981): the angles eta, omega with signed powers e1, e2, and normals with powers 2 - e1,
    2 - e2."""
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
        # f is the signed distance
        np.testing.assert_allclose(shape.value(point - 0.2 * normal), -0.2, atol=ROUND_OFF)
        np.testing.assert_allclose(shape.gradient(point)[0], normal, rtol=2 * EPS)


def test_half_space_normalises_what_is_nearly_a_unit_normal():
    shape = shapes.HalfSpace(normal=(0.0, 0.0, 1 + 5e-7))
    np.testing.assert_array_equal(shape.gradient(np.zeros(3))[0], [0.0, 0.0, 1.0])


def quadrature(shape):
    """Volume and second moments of a quadric: the integrals of r^d / d and of r^(d+2) / (d+2) u.u
    over directions u, with r(u) from f(r u) = r^2 (f(u) + 1) - 1 = 0. Both rules converge
    geometrically for these smooth integrands."""
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
    return weight @ r**d / d, np.einsum("k,ki,kj->ij", weight * r ** (d + 2) / (d + 2), u, u)


@pytest.mark.parametrize(
    "shape",
    [shapes.Sphere(0.7), shapes.Ellipsoid((0.8, 1.3, 1.6)), shapes.Disc(1.7), shapes.Ellipse((0.9, 1.4))],
    ids=lambda shape: shape.shape_class.name,
)
def test_moments_of_quadrics_match_quadrature(shape):
    moments = shape.shape_class.closed_form(shape.theta)
    volume, second = quadrature(shape)
    np.testing.assert_allclose(moments.volume, volume, rtol=1e-13)  # 40 000 terms, summed pairwise
    np.testing.assert_allclose(moments.second, second, rtol=1e-13, atol=1e-13 * np.max(second))
    np.testing.assert_array_equal(moments.first, np.zeros(shape.dimension))


def endpoint_rule(count=60):
    """Nodes and weights on (0, 1) of the double-exponential rule, which roots and powers at either
    end do not slow down."""
    t = np.linspace(-3.3, 3.3, count)
    inner = np.pi * np.sinh(t)
    nodes = 1 / (1 + np.exp(-inner))
    return nodes, (t[1] - t[0]) * np.pi * np.cosh(t) * nodes * (1 - nodes)


def reach(shape, points, axis):
    """How far each point (n, 3) can be moved along an axis until f = 0, by bisection."""
    jet = compile_jet(shape.shape_class.expressions, 3, shape.shape_class.parameters, backend="numpy")
    near, far = np.zeros(len(points)), np.full(len(points), 10.0)
    for _ in range(60):
        middle = (near + far) / 2
        inside = jet.value(points + middle[:, None] * np.eye(3)[axis], shape.theta)[:, 0] < 0
        near, far = np.where(inside, middle, near), np.where(inside, far, middle)
    return near


@pytest.mark.parametrize("epsilon", [(1.0, 1.0), (0.5, 0.5), (0.25, 0.8), (1.5, 1.25), (1.9, 0.3), (2.0, 2.0), (1.0, 2.0)])
def test_moments_of_superquadrics_match_nested_quadrature(epsilon):
    """An octant by slices: z to the top, x to the side of each slice, y to the surface."""
    shape = shapes.Superquadric((0.7, 1.1, 0.4), epsilon=epsilon)
    nodes, weights = endpoint_rule()
    top = reach(shape, np.zeros((1, 3)), axis=2)[0]
    slices = np.column_stack([0 * nodes, 0 * nodes, top * nodes])
    side = reach(shape, slices, axis=0)
    points = np.repeat(slices, len(nodes), axis=0)
    points[:, 0] = np.outer(side, nodes).ravel()
    weight = 8 * np.outer(top * weights * side, weights).ravel()
    deep = reach(shape, points, axis=1)
    second = [weight @ (points[:, 0] ** 2 * deep), weight @ (deep**3 / 3), weight @ (points[:, 2] ** 2 * deep)]
    moments = shape.shape_class.closed_form(shape.theta)
    np.testing.assert_allclose(moments.volume, weight @ deep, rtol=1e-9)
    np.testing.assert_allclose(np.diag(moments.second), second, rtol=1e-9)
    np.testing.assert_array_equal(moments.first, np.zeros(3))


@pytest.mark.parametrize(("epsilon", "pieces"), [((2.0, 2.0), 8), ((1.0, 2.0), 4), ((0.25, 2.0), 4)])
def test_superquadrics_with_edges_have_an_inequality_for_each_piece(epsilon, pieces):
    """Inside is where Barr's one inequality says."""
    shape = shapes.Superquadric((0.7, 1.1, 0.4), epsilon=epsilon)
    assert shape.shape_class.count == pieces
    points = np.random.default_rng(0).uniform(-1, 1, (1000, 3)) * np.asarray(shape.theta)
    u, v, w = np.abs(points / np.asarray(shape.theta)).T
    barr = (u + v) ** (2 / epsilon[0]) + w ** (2 / epsilon[0]) - 1
    inside = np.max(shape.shape_class.jet.value(points, shape.theta), axis=1) <= 0
    np.testing.assert_array_equal(inside, barr <= 0)
    assert 50 < np.sum(inside) < 950


def test_superquadric_moments_are_those_of_the_ellipsoid_and_of_the_box_in_the_limits():
    axes = (0.7, 1.1, 0.4)
    for p, limit, rtol in ((2.0, shapes.Ellipsoid(axes), 1e-14), (2e8, shapes.Box(axes), 1e-7)):
        got = SuperquadricMoments(p, p)(np.asarray(axes))
        expected = limit.shape_class.closed_form(np.asarray(limit.theta))
        np.testing.assert_allclose(got.volume, expected.volume, rtol=rtol)
        np.testing.assert_allclose(got.second, expected.second, rtol=rtol)


def test_moments_can_be_differentiated_in_the_parameters():
    """Volume and second moments are homogeneous of degree 3 and 5 in the semi-axes."""
    shape = shapes.Superquadric((0.7, 1.1, 0.4), epsilon=(0.5, 1.5))
    form = shape.shape_class.closed_form
    value, slope = form(shape.theta), jax.jacfwd(form)(shape.theta)
    np.testing.assert_allclose(slope.volume @ shape.theta, 3 * value.volume, rtol=1e-13)
    np.testing.assert_allclose(slope.second @ shape.theta, 5 * value.second, rtol=1e-13)


def test_a_half_space_has_no_moments():
    assert shapes.HalfSpace(normal=(0, 0, 1)).shape_class.closed_form is None


@pytest.mark.parametrize("epsilon", [(1.5, 1.5), (1.5, 1.25), (1.1, 1.9), (1.0, 1.5), (1.5, 1.0), (4 / 3, 4 / 3)])
def test_support_function_leads_to_the_surface_point_with_that_normal(epsilon):
    """H(n) is the largest n.x over the body, and grad H(n) is where: on the surface, with the
    gradient of f along n."""
    shape = shapes.Superquadric((0.7, 1.1, 0.4), epsilon=epsilon)
    support, jet = shape.shape_class.support_jet, shape.shape_class.jet
    for n in directions(3, count=30, seed=3):
        point = support.gradient(n, shape.theta)[0]
        np.testing.assert_allclose(jet.value(point, shape.theta), 0.0, atol=ROUND_OFF)
        np.testing.assert_allclose(unit(jet.gradient(point, shape.theta)[0]), n, rtol=0, atol=2 * ROUND_OFF)
        np.testing.assert_allclose(n @ point, support.value(n, shape.theta)[0], rtol=ROUND_OFF)
        hessian = np.asarray(support.hessian(n, shape.theta)[0])
        np.testing.assert_allclose(hessian @ n, 0.0, atol=ROUND_OFF)  # of degree 1
        assert np.linalg.eigvalsh(hessian)[0] > -ROUND_OFF  # also where coordinates of n vanish


@pytest.mark.parametrize("epsilon", [(1.0, 1.0), (0.5, 0.5), (1.5, 0.5), (0.5, 1.5), (1.5, 2.0), (2.0, 2.0)])
def test_only_superquadrics_of_unbounded_and_nowhere_vanishing_curvature_have_a_support_function(epsilon):
    assert shapes.Superquadric((1, 1, 1), epsilon=epsilon).shape_class.support is None


@pytest.mark.parametrize("epsilon", [(1.0, 0.1), (1.0, 0.4), (0.5, 0.1), (1.25, 0.5)])
@pytest.mark.parametrize("distance", [1e-1, 1e-3, 1e-8, 1e-100])
def test_superquadric_keeps_its_slope_close_to_the_pole(epsilon, distance):
    """Where x/a and y/b are small, |x|^(2/e2) underflows: the gradient is compared with that of 60
    digits."""
    shape = shapes.Superquadric((1.0, 1.0, 1.0), epsilon=epsilon)
    point = np.array([distance, 0.7 * distance, 0.9])
    with mpmath.workdps(60):
        p1, p2 = (2 / mpmath.mpf(e) for e in epsilon)
        u, v = mpmath.mpf(point[0]), mpmath.mpf(point[1])
        ring = (u**p2 + v**p2) ** (p1 / p2 - 1)
        expected = [float(p1 * ring * w ** (p2 - 1)) for w in (u, v)]
    np.testing.assert_allclose(shape.gradient(point)[0, :2], expected, rtol=1e-12)
    assert np.all(np.isfinite(shape.hessian(point)))


@pytest.mark.parametrize("epsilon", [(1.0, 0.1), (1.0, 1.5), (0.5, 0.2), (1.6, 0.5)])
def test_superquadric_has_a_slope_and_a_semidefinite_hessian_at_the_pole(epsilon):
    shape = shapes.Superquadric((0.7, 1.1, 0.4), epsilon=epsilon)
    for sign in (1, -1):
        pole = np.array([0.0, 0.0, sign * 0.4])
        np.testing.assert_allclose(unit(np.asarray(shape.gradient(pole))[0]), [0, 0, sign], rtol=0, atol=1e-15)
        hessian = np.asarray(shape.hessian(pole))[0]
        assert np.all(np.isfinite(hessian))
        assert np.linalg.eigvalsh(hessian)[0] >= -1e-14 * np.max(np.abs(hessian))
        by_jax = jax.jacfwd(shape.gradient)(pole)[0]
        np.testing.assert_allclose(hessian, by_jax, rtol=1e-14, atol=1e-200 * np.max(np.abs(hessian)))


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
        (lambda: shapes.Superquadric((1, 1, 1), epsilon=(1, 1e-6)), "`epsilon` = .* must be at least 0.01 .* Use Box"),
        (lambda: shapes.Superquadric((1, 1, 1), epsilon=(2, 1)), "`epsilon` = .* has an apex .* make the first one 1.9"),
        (lambda: shapes.Superquadric((1, 1, 1), epsilon=(1, 1, 1)), "`epsilon` has shape .*needs 2 numbers"),
        (lambda: shapes.HalfSpace(normal=(0, 0, 2)), "`normal` = .* has length 2: give a unit vector"),
        (lambda: shapes.HalfSpace(normal=(0, 0, 0)), "`normal` = .* has length 0: give a unit vector"),
        (lambda: shapes.HalfSpace(normal=(0, 0, np.nan)), "`normal` = .* not finite"),
        (lambda: shapes.HalfSpace(normal=(0, 1)), "`normal` has shape .*needs 3 numbers"),
        (lambda: shapes.HalfPlane(normal=(0, 0, 1)), "`normal` has shape .*needs 2 numbers"),
        (lambda: shapes.HalfSpace(normal=(0, 0, 1), offset=np.nan), "`offset` = .* must be one finite number"),
        (lambda: shapes.HalfSpace(normal=(0, 0, 1), offset=np.float32(1)), "`offset` is float32: give float64"),
        (lambda: shapes.Sphere(np.float32(1)), "`radius` is float32: give float64"),
        (lambda: shapes.Ellipsoid(np.ones(3, np.float32)), "`semi_axes` is float32: give float64"),
        (lambda: shapes.Sphere("a"), "`radius` = 'a' must be one finite number"),
        (lambda: shapes.Sphere(1 + 2j), "`radius` = .* must be one finite number"),
        (lambda: shapes.HalfSpace(normal=(0, 0, 1), offset="1"), "`offset` = '1' must be one finite number"),
    ],
)
def test_bad_argument_is_refused_by_name(make, says):
    with pytest.raises(ShapeError, match=says):
        make()


def test_shapes_of_the_same_class_and_parameters_are_equal():
    made = [shapes.Sphere(0.1), shapes.Sphere(0.2), shapes.Box((0.1, 0.1, 0.2)), shapes.Disc(0.1)]
    again = [shapes.Sphere(0.1), shapes.Sphere(0.2), shapes.Box((0.1, 0.1, 0.2)), shapes.Disc(0.1)]
    assert [[a == b for b in again] for a in made] == np.eye(4, dtype=bool).tolist()
    assert made[0] != 0.1

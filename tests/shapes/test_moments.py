"""Volume, centre and second moments by quadrature, against closed forms and one-dimensional
integrals.

Every comparison is with the error that the quadrature itself states, which must be below 1e-8.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import sympy

import shapes
from shapes import Rounded, ShapeError, x, y, z
from shapes.closest_points.surface import surface
from shapes.moments import Moments, together
from shapes.volume import cubature, quadrature
from shapes.volume.ray_casting import balanced
from shapes.volume.triangulation import tile

ROUND_OFF = 1e-13  # of sums over some ten thousand rays
GOLDEN = (1 + np.sqrt(5)) / 2


def solid(*expressions, **parameters):
    """A shape without closed form; not sampled, as these are convex by inspection."""
    symbols = {s: v for e in expressions for s in e.free_symbols for name, v in parameters.items() if s.name == name}
    return shapes.ImplicitShape(list(expressions), parameters=symbols, validate=False)


def planar(*expressions):
    return shapes.ImplicitShape(list(expressions), dimension=2, validate=False)


def without_closed_form(shape):
    return dataclasses.replace(shape, shape_class=dataclasses.replace(shape.shape_class, closed_form=None))


def half_spaces(normals, offsets):
    """The polytope {n_i.x <= offset_i |n_i|}."""
    normals = np.array(normals, dtype=float)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    return solid(*(sum(c * s for c, s in zip(n, (x, y, z), strict=True)) - o for n, o in zip(normals, offsets, strict=True)))


def block(a, b, c):
    return half_spaces(np.concatenate([np.eye(3), -np.eye(3)]), [a, b, c, a, b, c])


def cuboid(a, b, c):
    """Moments of the block of half sizes (a, b, c)."""
    volume = 8 * a * b * c
    return Moments(volume, np.zeros(3), np.diag(volume / 3 * np.array([a, b, c]) ** 2))


def of_revolution(square, *heights):
    """Moments of a solid of revolution about z with radius^2 = square(z) [m^2], a parabola between
    successive heights."""
    total = np.zeros(4)
    nodes, weights = np.polynomial.legendre.leggauss(3)  # exact up to z^5
    for low, high in zip(heights, heights[1:], strict=False):
        h = (low + high) / 2 + (high - low) / 2 * nodes
        powers = np.array([square(h), square(h) * h, square(h) ** 2 / 4, square(h) * h**2])
        total += np.pi * (high - low) / 2 * powers @ weights
    volume, first, across, along = total
    return Moments(volume, np.array([0, 0, first]), np.diag([across, across, along]))


def relative_error(found, expected):
    """The largest error of a moment, in units of the volume and the body's rms widths."""
    widths = np.sqrt(np.diag(np.asarray(expected.second)) / float(expected.volume))
    volume = float(expected.volume)
    return max(
        abs(float(found.volume) / volume - 1),
        np.max(np.abs(np.asarray(found.first) - np.asarray(expected.first)) / volume / widths),
        np.max(np.abs(np.asarray(found.second) - np.asarray(expected.second)) / volume / np.outer(widths, widths)),
    )


def assert_found(shape, expected):
    found = shape.moments()
    assert 0 < found.error <= 1e-8
    assert relative_error(found, expected) <= found.error + ROUND_OFF


CLOSED_FORMS = {
    "sphere": (without_closed_form(shapes.Sphere(0.3)), shapes.Sphere(0.3).moments()),
    "needle": (without_closed_form(shapes.Ellipsoid((1, 2, 20))), shapes.Ellipsoid((1, 2, 20)).moments()),
    "pancake": (without_closed_form(shapes.Ellipsoid((20, 15, 1))), shapes.Ellipsoid((20, 15, 1)).moments()),
    "block": (block(0.2, 0.3, 0.5), cuboid(0.2, 0.3, 0.5)),
    "plate": (block(1.0, 1.0, 0.01), cuboid(1.0, 1.0, 0.01)),
    "cylinder": (solid(x**2 + y**2 - 1, z - 2, -z - 2), of_revolution(np.ones_like, -2, 2)),
    "disc": (solid(x**2 + y**2 - 1, z - 0.01, -z - 0.01), of_revolution(np.ones_like, -0.01, 0.01)),
    "half ball": (solid(x**2 + y**2 + z**2 - 1, -z), of_revolution(lambda h: 1 - h**2, 0, 1)),
    "lens": (
        solid(x**2 + y**2 + (z - 0.9) ** 2 - 1, x**2 + y**2 + (z + 0.9) ** 2 - 1),
        of_revolution(lambda h: 1 - (abs(h) + 0.9) ** 2, -0.1, 0, 0.1),
    ),
    "cone with a small top": (
        solid(x**2 + y**2 - (1 - z) ** 2, z - 0.95, -z),
        of_revolution(lambda h: (1 - h) ** 2, 0, 0.95),
    ),
    "exponent 4": (
        without_closed_form(shapes.Superquadric((1, 2, 3), epsilon=(0.5, 0.5))),
        shapes.Superquadric((1, 2, 3), epsilon=(0.5, 0.5)).moments(),
    ),
    "exponent 8": (
        without_closed_form(shapes.Superquadric((1, 2, 1), epsilon=(0.25, 0.25))),
        shapes.Superquadric((1, 2, 1), epsilon=(0.25, 0.25)).moments(),
    ),
    "exponent 20": (
        without_closed_form(shapes.Superquadric((1, 2, 1), epsilon=(0.1, 0.1))),
        shapes.Superquadric((1, 2, 1), epsilon=(0.1, 0.1)).moments(),
    ),
}


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_quadrature_is_as_good_as_it_says(name):
    assert_found(*CLOSED_FORMS[name])


def test_half_ball_has_its_known_centre_and_inertia():
    moments = solid(x**2 + y**2 + z**2 - 4, -z).moments()
    np.testing.assert_allclose(moments.volume, 2 / 3 * np.pi * 8, rtol=1e-8)
    np.testing.assert_allclose(moments.centre, [0, 0, 3 / 8 * 2], rtol=0, atol=1e-8)
    expected = moments.volume * 4 * np.diag([83 / 320, 83 / 320, 2 / 5])
    np.testing.assert_allclose(moments.inertia(), expected, rtol=0, atol=1e-7)


def test_polytopes_with_corners_of_degree_four_and_five_are_exact():
    """Insphere radius 1: the volume is a third of the area."""
    signs = [(a, b, c) for a in (1, -1) for b in (1, -1) for c in (1, -1)]
    assert half_spaces(signs, [1] * 8).moments().volume == pytest.approx(4 * np.sqrt(3), rel=ROUND_OFF)
    cyclic = [(0, a / GOLDEN, b * GOLDEN) for a in (1, -1) for b in (1, -1)]
    normals = signs + [tuple(np.roll(n, k)) for n in cyclic for k in range(3)]
    icosahedron = 5 / 12 * (3 + np.sqrt(5)) * (12 / (np.sqrt(3) * (3 + np.sqrt(5)))) ** 3
    assert half_spaces(normals, [1] * 20).moments().volume == pytest.approx(icosahedron, rel=ROUND_OFF)


def test_a_facet_much_smaller_than_the_spacing_of_rays_is_found():
    for depth in (0.1, 1e-2, 1e-3):
        normals = np.concatenate([np.eye(3), -np.eye(3), np.ones((1, 3))])
        moments = half_spaces(normals, [1] * 6 + [(3 - depth) / np.sqrt(3)]).moments()
        assert moments.volume == pytest.approx(8 - depth**3 / 6, rel=ROUND_OFF)


def of_one_inequality(axes):
    """An octahedron as |x/a| + |y/b| + |z/c| <= 1, which the library splits into its faces."""
    eight = shapes.Superquadric(axes, epsilon=(2, 2))
    kinks = sum(shapes.AbsPower(u / s, 1) for u, s in zip((x, y, z), eight.shape_class.parameters, strict=True))
    return dataclasses.replace(eight, shape_class=dataclasses.replace(eight.shape_class, expressions=(kinks - 1,)))


def test_one_inequality_with_kinks_has_an_honest_error(monkeypatch):
    """|x/a| + |y/b| + |z/c| <= 1: edges that the tiling does not know, and panels that they only
    touch."""
    for module in (cubature, quadrature):
        monkeypatch.setattr(module, "TOLERANCE", 1e-5)
    for axes in [(1, 1, 1), (1, 2, 1), (1, 1.1, 1.2)]:
        octahedron = of_one_inequality(axes)
        found = without_closed_form(octahedron).moments()
        assert relative_error(found, octahedron.moments()) <= found.error <= 1e-5


def test_planar_bodies():
    half_disc = planar(x**2 + y**2 - 1, -x).moments()
    assert half_disc.volume == pytest.approx(np.pi / 2, rel=1e-12)
    np.testing.assert_allclose(half_disc.centre, [4 / (3 * np.pi), 0], rtol=0, atol=1e-12)
    assert_planar(without_closed_form(shapes.Ellipse((0.1, 2))).moments(), shapes.Ellipse((0.1, 2)).moments())
    a, b, r = 0.5, 1.0, 0.2
    rounded = Rounded(planar(x - a, -x - a, y - b, -y - b), r).moments()

    def squares(a, b):
        def across(t):
            return 2 * (b + (r if t < a else np.sqrt(max(0.0, r**2 - (t - a) ** 2))))

        return 2 * scipy.integrate.quad(lambda t: t**2 * across(t), 0, a + r, points=[a], epsrel=1e-12)[0]

    area = 4 * a * b + 4 * (a + b) * r + np.pi * r**2
    assert_planar(rounded, Moments(area, np.zeros(2), np.diag([squares(a, b), squares(b, a)])))


def assert_planar(found, expected):
    # what quad gives at its steep ends
    assert relative_error(found, expected) <= found.error + 1e-11


def rounded_rectangle(a, b, r):
    """Area, and second moment about the axis across a, of the rectangle of half sizes (a, b) grown
    by r."""
    area = 4 * a * b + 4 * (a + b) * r + np.pi * r**2
    quarter_disc = np.pi / 4 * r**2 * a**2 + 2 / 3 * r**3 * a + np.pi / 16 * r**4
    return area, 4 / 3 * (b + r) * a**3 + 4 / 3 * b * ((a + r) ** 3 - a**3) + 4 * quarter_disc


def rounded_block(a, b, c, r):
    """Moments of the block grown by r, from slices across each axis, which are rounded
    rectangles."""

    def integral(f):
        straight = scipy.integrate.quad(lambda h: f(h, r), 0, c, epsrel=1e-13)[0]
        angle = scipy.integrate.quad(
            lambda q: f(c + r * np.sin(q), r * np.cos(q)) * r * np.cos(q), 0, np.pi / 2, epsrel=1e-13
        )[0]
        return 2 * (straight + angle)

    volume = integral(lambda h, q: rounded_rectangle(a, b, q)[0])
    second = [
        integral(lambda h, q: rounded_rectangle(a, b, q)[1]),
        integral(lambda h, q: rounded_rectangle(b, a, q)[1]),
        integral(lambda h, q: h**2 * rounded_rectangle(a, b, q)[0]),
    ]
    return Moments(volume, np.zeros(3), np.diag(second))


@pytest.mark.parametrize("radius", [1e-3, 0.1, 2.0])
def test_rounded_block(radius):
    a, b, c = 0.2, 0.3, 0.5
    expected = rounded_block(a, b, c, radius)
    edges, area = 8 * (a + b + c), 8 * (a * b + b * c + c * a)
    steiner = 8 * a * b * c + area * radius + edges * np.pi / 4 * radius**2 + 4 / 3 * np.pi * radius**3
    assert expected.volume == pytest.approx(steiner, rel=1e-12)
    assert_found(Rounded(block(a, b, c), radius), expected)


def of_meridian(pieces):
    """Moments of a solid of revolution about z, by Gauss's theorem over its meridian from bottom to
    top.

    pieces: (radius(q), height(q), slope of the height(q), low, high).
    """
    total = np.zeros(4)
    for radius, height, slope, low, high in pieces:

        def flux(q, r=radius, h=height, dh=slope):
            return np.pi * r(q) ** 2 * dh(q) * np.array([1, h(q), r(q) ** 2 / 4, h(q) ** 2])

        total += scipy.integrate.quad_vec(flux, low, high, epsrel=1e-12)[0]
    volume, first, across, along = total
    return Moments(volume, np.array([0, 0, first]), np.diag([across, across, along]))


def rim(radius, height, rounding, low, high):
    """Of the meridian: an arc about a rim, between two normals at angles from the horizontal."""
    return (
        lambda q: radius + rounding * np.cos(q),
        lambda q: height + rounding * np.sin(q),
        lambda q: rounding * np.cos(q),
        low,
        high,
    )


@pytest.mark.parametrize("radius", [0.01, 0.5, 3.0])
def test_rounded_solids_of_revolution(radius):
    """A cylinder, a half ball and a cone with a tiny top, whose rims become parts of a torus."""
    wall = (lambda q: 1 + radius, lambda q: q, lambda q: 1.0, -2, 2)
    cylinder = of_meridian([rim(1, -2, radius, -np.pi / 2, 0), wall, rim(1, 2, radius, 0, np.pi / 2)])
    assert_found(Rounded(solid(x**2 + y**2 - 1, z - 2, -z - 2), radius), cylinder)
    dome = tuple(lambda q, f=f: (1 + radius) * f(q) for f in (np.cos, np.sin, np.cos))
    half_ball = of_meridian([rim(1, 0, radius, -np.pi / 2, 0), (*dome, 0, np.pi / 2)])
    assert_found(Rounded(solid(x**2 + y**2 + z**2 - 1, -z), radius), half_ball)
    offset, height = radius / np.sqrt(2), 0.999 if radius < 1 else 0.99  # the tip takes a minute where both are extreme
    slope = (lambda q: 1 - q + offset, lambda q: q + offset, lambda q: 1.0, 0, height)
    lower, upper = rim(1, 0, radius, -np.pi / 2, np.pi / 4), rim(1 - height, height, radius, np.pi / 4, np.pi / 2)
    assert_found(Rounded(solid(x**2 + y**2 - (1 - z) ** 2, z - height, -z), radius), of_meridian([lower, slope, upper]))


def test_a_rounded_ball_is_a_larger_ball():
    assert_found(Rounded(without_closed_form(shapes.Sphere(1.0)), 0.5), shapes.Sphere(1.5).moments())


@pytest.mark.parametrize("radius", [0.01, 3.0])
def test_rounded_solids_of_the_library(radius):
    """The meridians of a frustum, up and upside down, and of a lens, about their centres of
    mass."""
    for bottom, top in ((0.6, 0.2), (0.2, 0.6)):
        height, low = 0.9, 0.9 / 4 * (bottom**2 + 2 * bottom * top + 3 * top**2) / (bottom**2 + bottom * top + top**2)
        tilt = np.arctan2(bottom - top, height)
        out, up, rise = radius * np.cos(tilt), radius * np.sin(tilt), top - bottom
        side = (lambda q, b=bottom, o=out, d=rise: b + o + q * d, lambda q, z=up - low: z + q * 0.9, lambda q: 0.9, 0, 1)
        below, above = rim(bottom, -low, radius, -np.pi / 2, tilt), rim(top, height - low, radius, tilt, np.pi / 2)
        found = Rounded(shapes.Frustum(bottom, top, height), radius).moments()
        assert relative_error(found, of_meridian([below, side, above])) <= ROUND_OFF
    wall = (lambda q: 0.3 + radius, lambda q: q, lambda q: 1.0, -0.7, 0.7)
    cylinder = of_meridian([rim(0.3, -0.7, radius, -np.pi / 2, 0), wall, rim(0.3, 0.7, radius, 0, np.pi / 2)])
    assert relative_error(Rounded(shapes.Cylinder(0.3, 0.7), radius).moments(), cylinder) <= ROUND_OFF
    # two balls of radius 1 whose centres are 1.2 apart: a rim of radius .8
    angle = np.arcsin(0.6)
    cap = rim(0.0, -0.6, 1 + radius, angle, np.pi / 2)
    upper, lower = [rim(0.8, 0.0, radius, 0, angle), cap], [rim(0.8, 0.0, radius, -angle, 0)]
    lower.append(rim(0.0, 0.6, 1 + radius, -np.pi / 2, -angle))
    found = Rounded(shapes.Lens(1.0, 1.0, 0.8), radius).moments()
    assert relative_error(found, of_meridian([*lower, *upper])) <= ROUND_OFF


@pytest.mark.parametrize("axes", [(0.4, 0.5, 0.7), (1.0, 1.0, 0.2)])
def test_rounded_ellipsoids_and_superquadrics_of_even_powers(axes):
    """What is smooth the quadrature finds as well, which casts rays and knows no normals'
    angles."""
    for shape in (shapes.Ellipsoid(axes), shapes.Superquadric(axes, epsilon=(0.5, 0.5))):
        rounded = Rounded(shape, 0.3)
        by_rays = without_closed_form(rounded).moments()
        assert 0 < by_rays.error <= 1e-8
        assert relative_error(rounded.moments(), by_rays) <= by_rays.error


@pytest.mark.parametrize("epsilon", [(1.5, 1.5), (0.889, 0.805), (1.6, 0.4), (0.1, 1.8)])
def test_rounded_superquadrics_grow_by_their_widths(epsilon):
    """The volume of a layer is S r + M r^2 + 4/3 pi r^3 with M the integral of the support function
    over all directions (Minkowski), which is the dual norm."""
    axes = np.array([0.4, 0.5, 0.7])
    volumes = [Rounded(shapes.Superquadric(axes, epsilon=epsilon), r).moments().volume for r in (0.5, 1.0, 2.0)]
    core = shapes.Superquadric(axes, epsilon=epsilon).moments().volume
    rest = [float(v - core - 4 / 3 * np.pi * r**3) / r for v, r in zip(volumes, (0.5, 1.0, 2.0), strict=True)]
    slopes = np.diff(rest) / np.diff([0.5, 1.0, 2.0])
    q1, q2 = (p / (p - 1) for p in (2 / epsilon[0], 2 / epsilon[1]))

    def support(rise, around):
        n = np.array([np.cos(rise) * np.cos(around), np.cos(rise) * np.sin(around), np.sin(rise)])
        u, v, w = axes * n
        return ((u**q2 + v**q2) ** (q1 / q2) + w**q1) ** (1 / q1) * np.cos(rise)

    mean = 8 * scipy.integrate.dblquad(support, 0, np.pi / 2, 0, np.pi / 2, epsabs=1e-9, epsrel=1e-9)[0]
    np.testing.assert_allclose(slopes, mean, rtol=3e-8)


def test_moments_of_what_has_grown_have_derivatives_where_they_are_closed():
    shape = Rounded(shapes.Frustum(0.6, 0.2, 0.9), 0.1)
    volume = lambda theta: dataclasses.replace(shape, theta=theta).moments().volume  # noqa: E731
    found, step = jax.jit(jax.grad(volume))(jnp.asarray(shape.theta)), 1e-5
    differences = [(volume(shape.theta + e) - volume(shape.theta - e)) / (2 * step) for e in step * np.eye(4)]
    np.testing.assert_allclose(found, differences, rtol=1e-8)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e6])
def test_a_corner_that_is_at_the_origin_but_for_rounding_is_none_of_the_inside(scale):
    """Offsets of edges through the origin are some 1e-17 of the size, which makes it a point inside
    of a triangle that no axis enters: its interior point is a tenth as deep as the triangle is, or
    deeper, and rounded it has the area A + P r + pi r^2 (Steiner)."""
    corners = scale * np.array([[0.0, 0.0], [1.0, 0.2], [0.3, 0.8]])
    triangle = shapes.Polygon(corners)
    sides = np.roll(corners, -1, axis=0) - corners
    around, area = np.sum(np.linalg.norm(sides, axis=1)), np.linalg.det(sides[:2]) / 2
    assert np.max(triangle.value(surface(triangle).interior)) < -0.1 * 2 * area / around
    radius = 0.05 * scale
    found = Rounded(triangle, radius).moments()
    np.testing.assert_allclose(found.volume, area + around * radius + np.pi * radius**2, rtol=1e-8)


def test_moments_are_polynomials_of_the_radius():
    """Steiner: those of six radii give that of any other; the apex has four faces."""
    pyramid = half_spaces([(1, 0, 1), (-1, 0, 1), (0, 1, 1), (0, -1, 1), (0, 0, -1)], [1, 1, 1, 1, 0.2])
    radii = np.array([0.0, 0.3, 0.6, 0.9, 1.2, 1.5])
    seconds = [pyramid.moments().second] + [Rounded(pyramid, r).moments().second for r in radii[1:]]
    fitted = np.array([np.polyval(np.polyfit(radii, [s[i, i] for s in seconds], 5), 2.0) for i in range(3)])
    np.testing.assert_allclose(fitted, np.diag(Rounded(pyramid, 2.0).moments().second), rtol=1e-8)


def test_moments_move_with_the_body():
    """The body placed by its own expressions has the moments that `moved` gives."""
    turn, shift = np.array([[0.36, 0.48, -0.8], [-0.8, 0.6, 0.0], [0.48, 0.64, 0.6]]), np.array([0.5, -2.0, 1.0])
    expressions = [x**2 + 2 * y**2 + 3 * z**2 - 1, x + y - 0.5]
    own = turn.T @ (sympy.Matrix([x, y, z]) - sympy.Matrix(shift))
    placed = [e.subs(dict(zip((x, y, z), own, strict=True)), simultaneous=True) for e in expressions]
    expected = solid(*placed).moments()
    found = solid(*expressions).moments().moved(shift, turn)
    assert relative_error(found, expected) <= found.error + expected.error


@pytest.mark.parametrize("far", [0.0, 1.0, 100.0])
def test_small_bodies_far_from_the_origin_of_their_coordinates_keep_their_inertia(far):
    """Blocks, squares and a ball of 1 mm, for which int x x^T is 1e10 times as large at 100 m: what
    is lost is but the rounding of their own offsets, eps * 1e5. A block in two halves is one."""
    a, place = 1e-3, far * np.array([1.0, -0.7, 0.3])
    corners = a * np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)]) + place
    unit = sum(((c - float(p)) / a) ** 2 for c, p in zip((x, y, z), place, strict=True))
    half = shapes.Polytope(corners - np.array([0, 0, a]) * (corners[:, 2:] > place[2])).moments()
    block, square = shapes.Polytope(corners).moments(), shapes.Polygon(corners[::2, :2]).moments()
    ball = solid(unit - 1).moments()
    upper = half.moved(np.array([0, 0, a]), np.eye(3))
    whole, size = (2 * a) ** 3, 2 * a * a / 3
    found = [(block, whole, size), (square, 4 * a * a, size), (ball, 4 / 3 * np.pi * a**3, 2 / 5 * a**2)]
    for moments, volume, square_radius in [*found, (together([half, upper]), whole, size)]:
        d = len(moments.centre)
        inertia = volume * square_radius * np.eye(3 if d == 3 else 1)
        np.testing.assert_allclose(moments.volume, volume, rtol=3e-10)
        np.testing.assert_allclose(moments.inertia(), inertia, rtol=0, atol=1e-9 * np.max(inertia))
        np.testing.assert_allclose(moments.centre, place[:d], rtol=0, atol=1e-12 * max(far, a))


def test_moments_of_the_halves_add_up():
    shape, cutting = x**2 / 4 + y**4 + z**2 - 1, x + 0.4 * y - 0.3
    halves = together([solid(shape, cutting).moments(), solid(shape, -cutting).moments()])
    whole = solid(shape).moments()
    assert relative_error(halves, whole) <= halves.error + whole.error <= 2e-8


@pytest.mark.parametrize(
    "shape",
    [
        shapes.HalfSpace(normal=(0, 0, 1)),
        shapes.HalfPlane(normal=(0, 1)),
        shapes.ImplicitShape([x**2 + y**2 - 1], validate=False),  # every ray but one leaves it
        shapes.ImplicitShape([x**2 + y**2 - z], validate=False),
    ],
)
def test_an_unbounded_body_has_no_volume(shape):
    with pytest.raises(ShapeError, match="unbounded|too thin"):
        shape.moments()


@pytest.mark.parametrize("rounded", [
    (Rounded(shapes.Sphere(0.3), 0.1), shapes.Sphere(0.4)),
    (Rounded(Rounded(shapes.Capsule(0.2, 0.5), 0.1), 0.1), shapes.Capsule(0.4, 0.5)),
    (Rounded(shapes.Disc(0.3), 0.1), shapes.Disc(0.4)),
], ids=lambda pair: pair[1].shape_class.name)  # fmt: skip
def test_what_a_ball_sweeps_is_rounded_by_a_larger_ball(rounded):
    """A capsule's curvature jumps, which quadrature does not follow."""
    found, exact = (shape.moments() for shape in rounded)
    for name in ("volume", "first", "second"):
        np.testing.assert_allclose(getattr(found, name), getattr(exact, name), rtol=1e-14, atol=1e-15)


def test_a_volume_that_will_not_be_found_is_given_up_early():
    """The curvature of a superquadric of exponent 2.5 has kinks, which the plane that cuts it moves
    off the tiling: no count of rays finds the layer around it, and a twentieth of those allowed
    tells."""
    cast = []
    rays = quadrature.Fans.rays

    def counted(self, owner, lows, highs, nodes):
        cast.append(len(owner) * len(nodes) ** 2)
        return rays(self, owner, lows, highs, nodes)

    body = shapes.cut(shapes.Superquadric((0.4, 0.5, 0.6), epsilon=(0.8, 0.8)), normal=(0, 0.6, 0.8), offset=0.1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quadrature.Fans, "rays", counted)
        with pytest.raises(ShapeError, match="relative error of"):
            Rounded(body, 0.3).moments()
    assert sum(cast) < 6e5  # by both rules, of the 6.5e6 of each that are allowed


def test_what_is_not_found_to_the_tolerance_is_an_error_with_a_remedy(monkeypatch):
    monkeypatch.setattr(quadrature, "_STAGES", {3: ((92, 20_000, 20_000),)})
    with pytest.raises(ShapeError, match=r"relative error of .* Give the body its `mass` and `inertia`"):
        without_closed_form(of_one_inequality((1, 1, 0.77))).moments()


def test_rounding_an_edge_that_the_tiling_does_not_see_is_an_error(monkeypatch):
    """The layer around the edges of |x| + |y| + |z| <= 1 is missing, which the integral of the
    curvatures tells."""
    monkeypatch.setattr(quadrature, "_STAGES", {3: ((92, 50_000, 50_000),)})
    with pytest.raises(ShapeError, match="relative error of"):
        Rounded(of_one_inequality((1, 1, 0.78)), 0.5).moments()


def test_traced_parameters_need_a_closed_form():
    shape = solid(x**2 + y**2 + z**2 - sympy.Symbol("r") ** 2, -z, r=1.0)
    with pytest.raises(ShapeError, match="quadrature needs numbers"):
        jax.jit(lambda theta: dataclasses.replace(shape, theta=theta).moments().volume)(shape.theta)


@pytest.mark.parametrize(
    ("shape", "reach"),
    [
        (block(0.2, 0.3, 0.5), lambda u: np.min([0.2, 0.3, 0.5] / np.abs(u), axis=1)),
        (shapes.Ellipsoid((1, 5, 20)), lambda u: 1 / np.linalg.norm(u / [1, 5, 20], axis=1)),
        (
            shapes.Superquadric((1, 2, 1), epsilon=(0.1, 0.1)),
            lambda u: np.sum(np.abs(u / [1, 2, 1]) ** 20, axis=1) ** (-1 / 20),
        ),
    ],
)
def test_rays_leave_at_the_known_distance(shape, reach):
    body = dataclasses.replace(balanced(shape.shape_class, shape.theta), centre=np.zeros(3), axes=np.eye(3))
    u = np.random.default_rng(0).normal(size=(1000, 3))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    np.testing.assert_allclose(body.exits(u), reach(u), rtol=1e-14)
    np.testing.assert_allclose(body.exits(u, start=1e-3), reach(u), rtol=1e-14)


def test_a_tiling_finds_the_corners_of_a_block():
    body = balanced(block(0.2, 0.3, 0.5).shape_class, ())
    tiling = tile(body, 92)
    corners = body.place(tiling.points[np.sum(tiling.active, axis=1) == 3])
    expected = [(a, b, c) for a in (-0.2, 0.2) for b in (-0.3, 0.3) for c in (-0.5, 0.5)]
    np.testing.assert_allclose(sorted(map(tuple, corners.round(12))), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("width", [1e-3, 1e-6, 1e-8])
def test_bodies_much_longer_than_wide_keep_the_digits_of_their_least_moment(width):
    """8 a b c (b^2 + c^2) / 3, beside moments that are 1 / width^2 times as large."""
    moments = shapes.Box((1.0, width, width)).moments()
    np.testing.assert_allclose(moments.inertia()[0, 0], 16 * width**4 / 3, rtol=1e-14)


def test_the_steepness_of_an_inequality_is_that_of_where_it_is_not_flat():
    """A ball of radius 1 with a cap off at z = -.6, by an inequality that is flat above z = -.5."""
    capped = shapes.ImplicitShape([x**2 + y**2 + z**2 - 1, shapes.PositivePower(-z - 0.5, 2) - 0.01])
    slope = surface(capped).slope
    np.testing.assert_allclose(slope[0], 2.0, rtol=1e-12)
    assert 0.1 < slope[1] <= 1.0

"""Balls in and around shapes, against their closed forms."""

import numpy as np
import pytest
from scipy.spatial import ConvexHull

import shapes
from shapes.closest_points.extent import extent

CASES = {
    "sphere": (lambda s: shapes.Sphere(0.5 * s), 0.5, 0.5),
    "box": (lambda s: shapes.Box((s, s, s)), 1.0, np.sqrt(3)),
    "plate": (lambda s: shapes.Box((s, s, 0.01 * s)), 0.01, np.sqrt(2.0001)),
    "cylinder": (lambda s: shapes.Cylinder(0.1 * s, s), 0.1, np.sqrt(1.01)),
    "ellipsoid": (lambda s: shapes.Ellipsoid((0.3 * s, 0.4 * s, s)), 0.3, 1.0),
    "capsule": (lambda s: shapes.Capsule(0.1 * s, s), 0.1, 1.1),
    "rounded plate": (lambda s: shapes.Rounded(shapes.Box((s, s, 0.01 * s)), 0.1 * s), 0.11, np.sqrt(2.0001) + 0.1),
    "disc": (lambda s: shapes.Disc(0.5 * s), 0.5, 0.5),
}


@pytest.mark.parametrize("size", [1.0, 1e-3])
@pytest.mark.parametrize("name", CASES)
def test_balls_in_and_around(name, size):
    """The ball around may miss a corner by 2 %; both follow the size."""
    make, inner, outer = CASES[name]
    found = extent(make(size))
    np.testing.assert_allclose(found.centre, 0.0, atol=1e-9 * size)
    np.testing.assert_allclose(found.inner, inner * size, rtol=1e-5)
    assert 0.98 * outer * size < found.outer <= (1 + 1e-12) * outer * size


def test_what_is_unbounded_has_no_ball_around():
    assert np.isinf(extent(shapes.HalfSpace(normal=(0, 0, 1))).outer)


def test_the_centre_of_a_shape_off_its_origin_is_inside():
    corner = shapes.Polytope([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    found = extent(corner)
    assert 0.15 < found.inner < 0.2114  # of the inscribed ball: (3 - sqrt 3) / 6
    assert np.linalg.norm(found.centre - 0.25) < 0.1


def test_corners_of_turned_polytopes_are_within_the_ball_around():
    """Flat and needle-like ones, whose corners no climb along one face at a time finds."""
    random = np.random.default_rng(3)
    cases = [np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0.05, 0.05, 0.1]])]
    for scales in ((1, 0.1, 0.01), (1, 1, 0.02), (1, 1, 1)):
        turn, _ = np.linalg.qr(random.normal(size=(3, 3)))
        points = random.normal(size=(11, 3)) * scales @ turn.T
        cases.append(points[ConvexHull(points).vertices])
    for points in cases:
        shape = shapes.Polytope(points)
        found = extent(shape)
        reach = np.max(np.linalg.norm(points - found.centre, axis=1))
        np.testing.assert_allclose(found.outer, reach, rtol=1e-9)
        assert 0 < found.inner < found.outer


def test_a_bar_without_an_end_has_no_ball_around_whichever_way_it_lies():
    """Of four half-spaces, turned so that no ray goes along it."""
    turn, _ = np.linalg.qr(np.random.default_rng(5).normal(size=(3, 3)))
    sides = [[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0]]
    bar = shapes.Intersection([shapes.HalfSpace(normal=turn @ side, offset=0.1) for side in sides])
    assert np.isinf(extent(bar).outer)


def test_a_polygon_and_a_rounded_polytope_are_held():
    corners = np.array([[0, 0], [2, 0.1], [0.1, 0.3]])
    found = extent(shapes.Polygon(corners))
    np.testing.assert_allclose(found.outer, np.max(np.linalg.norm(corners - found.centre, axis=1)), rtol=1e-9)
    core = shapes.Polytope([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0.05, 0.05, 0.1]])
    np.testing.assert_allclose(extent(shapes.Rounded(core, 0.05)).outer, extent(core).outer + 0.05, rtol=1e-9)


def turned(seed):
    """x, y and z in turned axes."""
    turn, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))
    return [sum(float(n) * c for n, c in zip(row, (shapes.x, shapes.y, shapes.z), strict=True)) for row in turn]


@pytest.mark.parametrize("axes", [(1.0, 0.1, 0.01), (0.01, 0.1, 0.075), (1.0, 0.03, 0.001)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_turned_blades_are_held(axes, seed):
    """Ellipsoids whose longest axis no ray meets, and whose surface leads to it by an edge
    alone."""
    blade = shapes.ImplicitShape([sum((u / a) ** 2 for u, a in zip(turned(seed), axes, strict=True)) - 1])
    assert 0.98 * max(axes) < extent(blade).outer <= (1 + 1e-9) * max(axes)


def test_a_turned_pipe_has_no_ball_around():
    u, v, _ = turned(5)
    assert np.isinf(extent(shapes.ImplicitShape([u**2 + v**2 - 1])).outer)

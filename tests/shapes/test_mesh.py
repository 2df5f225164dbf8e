"""Meshes for drawing: closed, outward, on the surface, with the body's corners, and of second order
in their resolution."""

import numpy as np
import pytest
import scipy.spatial

import shapes
from shapes import Rounded, ShapeError, x, y, z

AXES = np.concatenate([np.eye(3), -np.eye(3)])


def solid(*expressions):
    return shapes.ImplicitShape(list(expressions), validate=False)


def half_spaces(normals, offsets):
    normals = np.array(normals) / np.linalg.norm(normals, axis=1, keepdims=True)
    return solid(*(sum(c * s for c, s in zip(n, (x, y, z), strict=True)) - o for n, o in zip(normals, offsets, strict=True)))


BLOCK = half_spaces(AXES, [0.2, 0.3, 0.5] * 2)
BODIES = {
    "sphere": shapes.Sphere(0.5),
    "needle": shapes.Ellipsoid((1, 1, 20)),
    "exponent 20": shapes.Superquadric((1, 1, 2), epsilon=(0.1, 0.1)),
    "block": BLOCK,
    "rod": half_spaces(AXES, [20, 0.5, 0.5] * 2),
    "plate": half_spaces(AXES, [1, 1, 0.01] * 2),
    "octahedron": half_spaces([(a, b, c) for a in (1, -1) for b in (1, -1) for c in (1, -1)], [1] * 8),
    "pyramid": half_spaces([(np.cos(a), np.sin(a), 1) for a in np.arange(7)] + [(0, 0, -1)], [1] * 8),
    "cylinder": solid(x**2 + y**2 - 1, z - 2, -z - 2),
    "disc": solid(x**2 + y**2 - 1, z - 0.01, -z - 0.01),
    "lens": solid(x**2 + y**2 + (z - 0.9) ** 2 - 1, x**2 + y**2 + (z + 0.9) ** 2 - 1),
    "cone with a small top": solid(x**2 + y**2 - (1 - z) ** 2, z - 0.95, -z),
    "three cylinders": solid(x**2 + y**2 - 1, y**2 + z**2 - 1, z**2 + x**2 - 1),
    "cut ellipsoid": solid(x**2 + y**2 / 4 + z**2 / 9 - 1, x + y - 0.5, z - 1),
    "far away": solid((x - 50) ** 2 + y**2 - 1, z - 4, 2 - z),
}
ROUNDED = {"block": 0.1, "pyramid": 0.01, "lens": 0.02, "needle": 1.0, "exponent 20": 0.5, "rod": 2.0, "plate": 1e-7}
BODIES |= {f"rounded {name}": Rounded(BODIES[name], radius) for name, radius in ROUNDED.items()}


def directed_edges(mesh):
    return np.concatenate([mesh.triangles[:, [0, 1]], mesh.triangles[:, [1, 2]], mesh.triangles[:, [2, 0]]])


def assert_watertight(mesh):
    """Every edge is in one triangle in each direction, all vertices are used, and the surface is a
    sphere's."""
    edges = directed_edges(mesh)
    once = set(map(tuple, edges.tolist()))
    assert len(once) == len(edges)
    assert all((b, a) in once for a, b in once)
    assert set(edges.ravel().tolist()) == set(range(len(mesh.vertices)))
    assert len(mesh.vertices) - len(edges) // 2 + len(mesh.triangles) == 2


def sines(mesh):
    """The least height of each triangle over its longest side: 0.87 for the best, 0 for one without
    area."""
    corners = mesh.vertices[mesh.triangles]
    sides = corners - np.roll(corners, 1, axis=1)
    area = np.linalg.norm(np.cross(sides[:, 0], sides[:, 1]), axis=1)
    return area / np.max(np.linalg.norm(sides, axis=2), axis=1) ** 2


@pytest.mark.parametrize("resolution", [3, 8])
@pytest.mark.parametrize("name", BODIES)
def test_meshes_are_closed_and_convex_from_outside(name, resolution):
    mesh = BODIES[name].mesh(resolution)
    assert_watertight(mesh)
    inside = np.mean(mesh.vertices, axis=0)
    corners = mesh.vertices[mesh.triangles] - inside
    assert np.all(np.linalg.det(corners) > 0)  # counter-clockwise from outside
    hull = scipy.spatial.ConvexHull(mesh.vertices).volume
    assert (0.95 if resolution == 3 else 0.985) * hull <= mesh.volume <= hull * (1 + 1e-12)


@pytest.mark.parametrize("name", [name for name in BODIES if not name.startswith("rounded")])
def test_vertices_are_on_the_surface(name):
    shape = BODIES[name]
    vertices = shape.mesh(4).vertices
    depth = np.max([shape.value(v) for v in vertices], axis=1)
    slope = np.max([np.linalg.norm(shape.gradient(v), axis=1) for v in vertices])
    assert np.max(np.abs(depth)) <= 1e-13 * slope * np.max(np.abs(vertices))


def test_vertices_of_a_rounded_body_are_at_the_radius():
    """Distance from a block: of what exceeds it along each axis."""
    vertices = Rounded(BLOCK, 0.1).mesh(6).vertices
    beyond = np.maximum(np.abs(vertices) - [0.2, 0.3, 0.5], 0)
    np.testing.assert_allclose(np.linalg.norm(beyond, axis=1), 0.1, rtol=0, atol=1e-14)


def test_a_block_has_its_corners_and_volume():
    for resolution in (1, 2, 5, 16):
        mesh = BLOCK.mesh(resolution)
        assert mesh.volume == pytest.approx(8 * 0.2 * 0.3 * 0.5, rel=1e-12)
        corners = [(a, b, c) for a in (-0.2, 0.2) for b in (-0.3, 0.3) for c in (-0.5, 0.5)]
        nearest = scipy.spatial.cKDTree(mesh.vertices).query(corners)[0]
        assert np.max(nearest) <= 1e-12
        on_face = np.isclose(np.abs(mesh.vertices[mesh.triangles]), [0.2, 0.3, 0.5], rtol=0, atol=1e-12)
        assert np.all(np.any(np.all(on_face, axis=1), axis=1))  # no triangle cuts an edge


@pytest.mark.parametrize("name", ["rod", "plate", "octahedron", "pyramid"])
def test_polytopes_have_their_volume(name):
    assert BODIES[name].mesh(4).volume == pytest.approx(BODIES[name].moments().volume, rel=1e-12)


def test_a_facet_much_smaller_than_the_spacing_is_drawn():
    mesh = half_spaces(np.concatenate([AXES, np.ones((1, 3))]), [1] * 6 + [2.99 / np.sqrt(3)]).mesh(4)
    assert mesh.volume == pytest.approx(8 - 0.01**3 / 6, rel=1e-14)
    assert np.sum(np.isclose(np.sum(mesh.vertices, axis=1), 2.99, rtol=0, atol=1e-12)) >= 3


@pytest.mark.parametrize(
    "name", ["sphere", "needle", "cylinder", "lens", "cut ellipsoid", "rounded block", "rounded needle"]
)
def test_volume_converges_to_second_order(name):
    shape = BODIES[name]
    volume = float(shape.moments().volume)
    lost = [1 - shape.mesh(resolution).volume / volume for resolution in (5, 10, 20)]
    assert 0 < lost[2] < 2.5e-3
    np.testing.assert_allclose(np.log2([lost[0] / lost[1], lost[1] / lost[2]]), 2, rtol=0, atol=0.4)


def test_triangles_have_no_vanishing_height():
    for name in ("sphere", "block", "octahedron", "cylinder", "lens", "three cylinders", "rounded block"):
        assert np.min(sines(BODIES[name].mesh(8))) > 0.01
        assert np.quantile(sines(BODIES[name].mesh(8)), 0.1) > 0.2


def test_points_are_spread_evenly_on_long_bodies():
    """A needle is a stretched ball, and so is its mesh: as many vertices near its ends as near its
    middle."""
    heights = BODIES["needle"].mesh(8).vertices[:, 2] / 20
    # zones of equal height have equal area
    counts, _ = np.histogram(heights, bins=5, range=(-1, 1))
    assert np.max(counts) < 1.2 * np.min(counts)


def test_planar_outlines():
    half_disc = shapes.ImplicitShape([x**2 + y**2 - 1, -x], dimension=2, validate=False)
    for shape, expected in [
        (shapes.Disc(2.0), 4 * np.pi),
        (shapes.Ellipse((0.1, 3)), 0.3 * np.pi),
        (half_disc, np.pi / 2),
        (Rounded(half_disc, 0.5), np.pi / 2 + (np.pi + 2) * 0.5 + np.pi * 0.25),
    ]:
        coarse, fine = (shape.mesh(resolution).area for resolution in (8, 32))
        assert fine < expected
        assert 1 - fine / expected < 4e-4
        assert 10 < (expected - coarse) / (expected - fine) < 25
    square = shapes.ImplicitShape([x - 1, -x - 1, y - 1, -y - 1], dimension=2, validate=False).mesh(1)
    assert square.area == pytest.approx(4, rel=1e-14)
    corners = [(1, 1), (-1, 1), (-1, -1), (1, -1)]
    np.testing.assert_allclose(scipy.spatial.cKDTree(square.vertices).query(corners)[0], 0, atol=1e-12)


def test_meshes_move():
    turn, shift = np.array([[0.36, 0.48, -0.8], [-0.8, 0.6, 0.0], [0.48, 0.64, 0.6]]), np.array([0.5, -2.0, 1.0])
    mesh = BLOCK.mesh(3)
    moved = mesh.moved(shift, turn)
    np.testing.assert_allclose(moved.vertices[7], shift + turn @ mesh.vertices[7], rtol=1e-15)
    assert moved.volume == pytest.approx(mesh.volume, rel=1e-13)
    outline = shapes.Disc(1.0).mesh(4)
    quarter = outline.moved((1, 0), [[0, -1], [1, 0]])
    np.testing.assert_allclose(quarter.vertices, [(1 - b, a) for a, b in outline.vertices], rtol=1e-15)
    assert quarter.area == pytest.approx(outline.area, rel=1e-13)


def test_bad_resolutions_and_unbounded_bodies_are_refused():
    for resolution in (0, -3, 2.5, "fine"):
        with pytest.raises(ValueError, match="must be a whole number"):
            BLOCK.mesh(resolution)
    with pytest.raises(ShapeError, match="unbounded"):
        shapes.HalfSpace(normal=(0, 0, 1)).mesh()

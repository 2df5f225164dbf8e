"""The public query of closest points: gaps proved by weak duality over all classes of shapes, and
by conic programs.

A slice of benchmarks/closest_points.py, whose whole run stands in docs/benchmarks.md.
"""

import dataclasses
import functools
import sys
from pathlib import Path

import clarabel
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

import implicit_stepper as ist
import shapes

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from closest_points import CORNERS, SHAPES, SMOOTH, at_gaps, bounds, outside, quaternions, query, tilted

# every class against at least one other, curved against flat, sharp against round
PAIRS = [
    ("ellipsoid 1:20", "superquadric 8"),
    pytest.param("superquadric 1.2", "polytope", marks=pytest.mark.thorough),
    pytest.param("box", "cylinder", marks=pytest.mark.thorough),
    pytest.param("lens", "frustum", marks=pytest.mark.thorough),
    pytest.param("capsule", "wedge", marks=pytest.mark.thorough),
    pytest.param("rounded box", "superquadric 20", marks=pytest.mark.thorough),
    pytest.param("tetrahedron", "box", marks=pytest.mark.thorough),
    ("sphere", "ellipsoid 1:20"),
]
POSES = 1250  # a pair; 10^4 in all


def pair(name_1, name_2):
    return SHAPES[name_1][0], SHAPES[name_2][0]


@functools.cache
def asked(name_1, name_2):
    """One program a pair: asked for POSES poses at once by whoever asks."""
    return query(*pair(name_1, name_2))


@pytest.mark.parametrize(("name_1", "name_2"), PAIRS)
@pytest.mark.usefixtures("optimised")
def test_gaps_are_proved_by_weak_duality(name_1, name_2):
    """All answers: points on the bodies as far apart as parallel planes between them, and by the
    gap set."""
    (shape_1, h_1), (shape_2, h_2) = SHAPES[name_1], SHAPES[name_2]
    ask = asked(name_1, name_2)
    turns_1, turns_2, between, gap = at_gaps(ask, POSES, seed=1)
    found = ask(turns_1, turns_2, between)
    assert np.all(found.converged)
    lower, upper = bounds(found, h_1, h_2, turns_1, turns_2, between)
    allowed = 1e-12 if {name_1, name_2} <= SMOOTH else 1e-9
    for bound in (lower, upper, gap):
        np.testing.assert_allclose(found.distance, bound, rtol=0, atol=allowed)
    np.testing.assert_allclose(np.linalg.norm(found.normal, axis=1), 1.0, rtol=0, atol=1e-12)
    assert outside(shape_1, turns_1, 0.0, found.point_1).max() <= 1e-9
    assert outside(shape_2, turns_2, between, found.point_2).max() <= 1e-9


@pytest.mark.usefixtures("optimised")
def test_corners_that_nearly_touch_faces_are_found_in_programs_of_users():
    """Compiled as JAX does by default, some slacks are rounded to zero on the way."""
    shape_1, shape_2 = pair("tetrahedron", "box")
    turns_1, turns_2, between, gap = at_gaps(asked("tetrahedron", "box"), POSES, seed=1)
    ask = jax.jit(
        lambda turn_1, between, turn_2: ist.closest_points(shape_1, (np.zeros(3), turn_1), shape_2, (between, turn_2)),
        compiler_options={"xla_backend_optimization_level": 3},
    )
    found = jax.vmap(ask)(quaternions(turns_1), between, quaternions(turns_2))
    assert np.all(found.converged)
    np.testing.assert_allclose(found.distance, gap, rtol=0, atol=1e-9)


@pytest.mark.parametrize("size", [1e-3, 1.0, 20.0])
@pytest.mark.parametrize("origin", [(0, 0, 0), (0.5, 0.5, 0), (1e-9, 0.2, 0.3), (-3, 1, 2), (40, -40, 10)])
def test_the_origin_of_a_shape_may_be_anywhere(size, origin):
    """A cube whose own coordinates begin at its corner, in a face, within rounding of one, or far
    outside."""
    corners = size * (np.array([[i, j, k] for i in (0, 1) for j in (0, 1) for k in (0, 1)]) - np.array(origin))
    cube, middle = shapes.Polytope(corners), size * (0.5 - np.array(origin))
    upright = np.array([1.0, 0, 0, 0])
    found = ist.closest_points(cube, (-middle, upright), shapes.Sphere(size), (np.array([0, 0.2 * size, 2 * size]), upright))
    np.testing.assert_allclose(found.distance, size / 2, rtol=1e-12)
    np.testing.assert_allclose(found.point_1, [0, 0.2 * size, size / 2], rtol=0, atol=1e-9 * size)


def conic_distance(parts, between):
    """min t with |between + E_2 u_2 - E_1 u_1| <= t, each u in its cone program (A, b, cones) of
    the unit body."""
    sizes = [part[0].shape[1] for part in parts]
    n = 1 + sum(sizes)
    tip = np.zeros((4, n))
    tip[0, 0] = -1.0
    tip[1:, 1 : 1 + sizes[0]], tip[1:, 1 + sizes[0] :] = parts[0][3], -parts[1][3]
    rows, right, cones = [tip], [np.concatenate([[0.0], between])], [clarabel.SecondOrderConeT(4)]
    at = 1
    for (a, b, own, _), size in zip(parts, sizes, strict=True):
        wide = np.zeros((len(b), n))
        wide[:, at : at + size] = a
        rows, right, cones, at = [*rows, wide], [*right, b], [*cones, *own], at + size
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    cost = np.zeros(n)
    cost[0] = 1.0
    solver = clarabel.DefaultSolver(
        scipy.sparse.csc_matrix((n, n)),
        cost,
        scipy.sparse.csc_matrix(np.vstack(rows)),
        np.concatenate(right),
        cones,
        settings,
    )
    return solver.solve().x[0]


def ball_program(axes, turn):
    """|u| <= 1 with the point R diag(axes) u."""
    a = np.vstack([np.zeros((1, 3)), -np.eye(3)])
    return a, np.array([1.0, 0, 0, 0]), [clarabel.SecondOrderConeT(4)], turn.as_matrix() * axes


def box_program(half_sizes, turn):
    return np.vstack([np.eye(3), -np.eye(3)]), np.ones(6), [clarabel.NonnegativeConeT(6)], turn.as_matrix() * half_sizes


def cylinder_program(radius, half_height, turn):
    a = np.vstack([np.zeros((1, 3)), -np.eye(3)[:2], np.eye(3)[2:], -np.eye(3)[2:]])
    cones = [clarabel.SecondOrderConeT(3), clarabel.NonnegativeConeT(2)]
    return a, np.array([1.0, 0, 0, 1, 1]), cones, turn.as_matrix() * [radius, radius, half_height]


PROGRAMS = {
    "box": lambda turn: box_program([0.5, 0.3, 0.2], turn),
    "cylinder": lambda turn: cylinder_program(0.3, 0.4, turn),
    "ellipsoid 1:20": lambda turn: ball_program([1.0, 0.2, 0.05], turn),
    "sphere": lambda turn: ball_program([0.3] * 3, turn),
}


@pytest.mark.parametrize(("name_1", "name_2"), [("box", "cylinder"), ("sphere", "ellipsoid 1:20")])
def test_gaps_match_a_conic_solver(name_1, name_2):
    ask = asked(name_1, name_2)
    turns_1, turns_2, between, gap = at_gaps(ask, POSES, seed=2)
    found = ask(turns_1, turns_2, between)
    # an interior-point method stops at the vertex of the cone when bodies touch
    chosen = np.flatnonzero(gap > 1e-3)[:150]
    assert len(chosen) == 150
    for i in chosen:
        best = conic_distance([PROGRAMS[name_1](turns_1[i]), PROGRAMS[name_2](turns_2[i])], between[i])
        assert found.distance[i] == pytest.approx(best, abs=1e-9)


@pytest.mark.usefixtures("optimised")
def test_penetration_depth_of_polytopes_is_that_of_their_minkowski_difference():
    """The depth is the distance from the origin to the nearest face of the hull of all differences
    of corners."""
    half = np.array([0.5, 0.3, 0.2])
    corners = half * np.array(np.meshgrid(*[[-1, 1]] * 3)).T.reshape(-1, 3)
    ask, count, rng = asked("tetrahedron", "box"), POSES, np.random.default_rng(0)
    turns_1, turns_2, between, _ = at_gaps(ask, count, seed=3)
    touching = ask(turns_1, turns_2, between)
    overlap = rng.uniform(0.001, 0.05, count)
    between = between - touching.normal * (touching.distance + overlap)[:, None]
    tetrahedron, box = pair("tetrahedron", "box")
    found = ist.closest_points(tetrahedron, (np.zeros(3), quaternions(turns_1)), box, (between, quaternions(turns_2)))
    assert np.all(found.converged)
    least = np.zeros(count)
    for i in range(count):
        second = turns_2[i].apply(corners) + between[i]
        hull = ConvexHull((second[:, None] - turns_1[i].apply(CORNERS)[None]).reshape(-1, 3))
        least[i] = np.min(-hull.equations[:, 3])
    np.testing.assert_allclose(-found.distance, least, rtol=0, atol=1e-9)


def depths_by_15_axes(half_1, turns_1, half_2, turns_2, between):
    """The least overlaps (n,) of the shadows of two boxes on the axes of their faces and of two
    edges each, if all overlap."""
    first, second = np.swapaxes(turns_1, 1, 2), np.swapaxes(turns_2, 1, 2)  # rows are the axes of faces
    across = np.cross(first[:, :, None], second[:, None]).reshape(-1, 9, 3)
    axes = np.concatenate([first, second, across / np.linalg.norm(across, axis=2, keepdims=True)], axis=1)
    shadows = np.abs(axes @ turns_1) @ half_1 + np.abs(axes @ turns_2) @ half_2
    return np.min(shadows - np.abs(axes @ between[:, :, None])[..., 0], axis=1)


@pytest.mark.usefixtures("optimised")
@pytest.mark.parametrize("rounding", [pytest.param(0.0, marks=pytest.mark.thorough), 0.05])
def test_depth_of_boxes_is_that_of_fifteen_axes(rounding):
    """Of deep overlaps, too, of which 12 starts all around found 7 of 1954 too deep; rounded boxes
    add their radii."""
    half_1, half_2, count = np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.35, 0.15]), 1250
    turns_1, turns_2 = (Rotation.random(count, random_state=seed) for seed in (1, 2))
    between = np.random.default_rng(5).normal(size=(count, 3))
    between *= (np.random.default_rng(6).uniform(0, 0.7, count) / np.linalg.norm(between, axis=1))[:, None]
    boxes = [shapes.Box(half) for half in (half_1, half_2)]
    boxes = [shapes.Rounded(box, rounding) for box in boxes] if rounding else boxes
    found = ist.closest_points(boxes[0], (np.zeros(3), quaternions(turns_1)), boxes[1], (between, quaternions(turns_2)))
    least = depths_by_15_axes(half_1, turns_1.as_matrix(), half_2, turns_2.as_matrix(), between)
    deep = least > 0
    assert np.sum(deep) > 1200
    np.testing.assert_allclose(-found.distance[deep], least[deep] + 2 * rounding, rtol=0, atol=1e-12)


def test_depth_of_polygons_is_that_of_their_sides():
    """In the plane, by the hull of the differences of corners."""
    rng, count = np.random.default_rng(2), 200
    corners = [np.stack([np.cos(a), np.sin(a)], axis=1) * size for a, size in
               ((np.array([0.1, 1.0, 2.5, 4.0, 5.5]), 0.5), (np.array([0.3, 2.0, 4.1]), 0.4))]  # fmt: skip
    angles, between = rng.uniform(0, 2 * np.pi, (count, 2)), rng.uniform(-0.3, 0.3, (count, 2))
    first, second = (shapes.Polygon(c) for c in corners)
    found = ist.closest_points(first, (np.zeros(2), angles[:, 0]), second, (between, angles[:, 1]))
    for i in range(count):
        own = [
            c @ np.array([[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]]) for c, a in zip(corners, angles[i], strict=True)
        ]
        hull = ConvexHull((own[1][:, None] + between[i] - own[0][None]).reshape(-1, 2))
        least = np.min(-hull.equations[:, 2])
        if least > 0:
            assert -found.distance[i] == pytest.approx(least, abs=1e-12)


@pytest.mark.parametrize("tilt", [0.0, 1e-16, 1e-13, 1e-7, 1e-4])
def test_edges_nearly_parallel_to_a_plane(tilt):
    """Where the point along the edge is anywhere, or nearly so, and the faces beside it hold the
    body unevenly."""
    corners = 0.3 * np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    # the first, an edge's, becomes x
    along, across = np.array([[0.0, 1.0, 1.0], [0.0, 1.0, -1.0]]) / np.sqrt(2)
    edge_first = Rotation.from_matrix([along, across, np.cross(along, across)])
    roll, turn = (angles.ravel() for angles in np.meshgrid(np.linspace(0.0, 6.0, 25), np.linspace(0.0, 3.0, 8)))
    turned = Rotation.from_euler("zyx", np.stack([turn, np.full_like(turn, tilt), roll], axis=1)) * edge_first
    height = 0.6
    found = ist.closest_points(
        shapes.HalfSpace(normal=(0, 0, 1)), ((0, 0, 0), (1.0, 0, 0, 0)),
        shapes.Polytope(vertices=corners), (np.tile([0.2, -0.1, height], (len(turn), 1)), quaternions(turned)),
    )  # fmt: skip
    lowest = [height + np.min(one.apply(corners)[:, 2]) for one in turned]
    np.testing.assert_allclose(found.distance, lowest, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("name_1", "name_2"), [("box", "box"), pytest.param("box", "cylinder", marks=pytest.mark.thorough)])
@pytest.mark.usefixtures("optimised")
def test_faces_nearly_parallel(name_1, name_2):
    """Faces and edges turned out of parallel by 1e-12 to 1e-4, as bodies that rest on each other
    are: proved by duality. At small gaps some are not found, but none is taken for one that
    overlaps."""
    (shape_1, h_1), (shape_2, h_2) = SHAPES[name_1], SHAPES[name_2]
    rng, count = np.random.default_rng(0), POSES
    turns_2 = tilted(count, rng)
    turns_1 = Rotation.from_rotvec(np.zeros((count, 3)))
    between = np.stack([*rng.uniform(-0.3, 0.3, (2, count)), np.full(count, 3.0)], axis=1)
    ask = asked(name_1, name_2)
    apart = ask(turns_1, turns_2, between)
    nearer = between + apart.normal * (10 ** rng.uniform(-8, 0, count) - apart.distance)[:, None]
    close = ask(turns_1, turns_2, nearer)
    assert np.all(apart.converged)
    assert np.mean(close.converged) > 0.9
    for found, where in ((apart, between), (close, nearer)):
        good = found.converged
        for bound in bounds(found, h_1, h_2, turns_1, turns_2, where):
            np.testing.assert_allclose(found.distance[good], bound[good], rtol=0, atol=1e-12)
        assert outside(shape_1, turns_1, 0.0, found.point_1)[good].max() <= 1e-12
        assert outside(shape_2, turns_2, where, found.point_2)[good].max() <= 1e-12


def test_touching_and_overlapping_balls_and_boxes():
    upright = (1.0, 0.0, 0.0, 0.0)
    box_shape, ball = SHAPES["box"][0], SHAPES["sphere"][0]
    for x, expected in ((0.8, 0.0), (0.79, -0.01), (0.6, -0.2), (0.8 + 1e-9, 1e-9)):
        found = ist.closest_points(box_shape, ((0, 0, 0), upright), ball, ((x, 0.02, 0.01), upright))
        assert found.distance == pytest.approx(expected, abs=1e-12)
        np.testing.assert_allclose(found.normal, [1, 0, 0], atol=1e-9)
        assert found.active_1.tolist().count(True) == 1


@pytest.mark.parametrize("size", [1.0, 100.0, 1e5])
def test_bodies_of_very_different_sizes(size):
    """A ball of 1 m near a box and in it, up to 1e5 times as large, and far from it: the distance
    of a point to a box is known."""
    rng, half = np.random.default_rng(3), size * np.array([1.0, 0.7, 0.5])
    surface = rng.uniform(-half, half, (60, 3))
    surface[np.arange(60), np.arange(60) % 3] = np.sign(rng.normal(size=60)) * half[np.arange(60) % 3]
    away = rng.normal(size=(60, 3)) * 10.0 ** rng.uniform(-3, 3, (60, 1))
    centre = np.where(np.abs(surface) >= half, surface + np.sign(surface) * (0.1 + np.abs(away)), surface + 0.1 * away)
    turns = rng.normal(size=(2, 60, 4))
    turns /= np.linalg.norm(turns, axis=2, keepdims=True)
    world = Rotation.from_quat(turns[0], scalar_first=True).apply(centre)
    found = ist.closest_points(shapes.Box(tuple(half)), (np.zeros((60, 3)), turns[0]), shapes.Sphere(1.0), (world, turns[1]))
    expected = np.linalg.norm(centre - np.clip(centre, -half, half), axis=1) - 1.0
    assert np.any(expected < 0)
    assert np.any(expected > 0)
    np.testing.assert_allclose(found.distance, expected, rtol=1e-14, atol=1e-14 * size + 1e-13)


def derivative_cases():
    turn = quaternions(Rotation.from_rotvec([[0.3, -0.5, 0.2], [1.0, 0.4, -0.7]]))
    return [
        pytest.param(
            "ellipsoids",
            shapes.Ellipsoid((0.5, 0.3, 0.2)),
            shapes.Ellipsoid((0.4, 0.6, 0.3)),
            turn,
            marks=pytest.mark.thorough,
        ),
        ("box and cylinder", SHAPES["box"][0], SHAPES["cylinder"][0], turn),
    ]


@pytest.mark.parametrize(
    ("name", "first", "second", "turn"), derivative_cases(), ids=lambda v: v if isinstance(v, str) else ""
)
def test_derivatives_in_poses_and_parameters(name, first, second, turn):
    """Of the distance -n and n in the positions; in angles, parameters and of points against
    central differences."""
    centre_1, centre_2 = jnp.zeros(3), jnp.array([1.3, 0.2, 0.4])

    def found(c1, c2, rotation_vector, theta):
        half = rotation_vector / 2
        spun = jnp.concatenate([jnp.ones(1), half])
        spun = spun / jnp.linalg.norm(spun)
        w, v = spun[0], spun[1:]
        q = jnp.concatenate(
            [(w * turn[0, 0] - v @ turn[0, 1:])[None], w * turn[0, 1:] + turn[0, 0] * v + jnp.cross(v, turn[0, 1:])]
        )
        return ist.closest_points(dataclasses.replace(first, theta=theta), (c1, q), second, (c2, turn[1]))

    at = (centre_1, centre_2, jnp.zeros(3), jnp.asarray(first.theta))
    answer = found(*at)
    slopes = jax.jit(jax.grad(lambda *a: found(*a).distance, argnums=(0, 1, 2, 3)))(*at)
    np.testing.assert_allclose(slopes[0], -answer.normal, atol=1e-9)
    np.testing.assert_allclose(slopes[1], answer.normal, atol=1e-9)
    points = jax.jit(jax.jacfwd(lambda *a: found(*a).point_1, argnums=(0, 1, 2, 3)))(*at)
    step = 1e-5
    for k in (2, 3):
        for j in range(len(at[k])):
            moved = [found(*(a.at[j].add(s * step) if i == k else a for i, a in enumerate(at))) for s in (1, -1)]
            difference = (moved[0].distance - moved[1].distance) / (2 * step)
            assert slopes[k][j] == pytest.approx(float(difference), abs=1e-8)
            difference = (moved[0].point_1 - moved[1].point_1) / (2 * step)
            np.testing.assert_allclose(points[k][:, j], difference, atol=1e-6)


def test_vmapped_gradients_are_finite_on_faces():
    """Two boxes face to face: points are not unique, the distance is, and so is its derivative."""
    upright, both = jnp.array([1.0, 0, 0, 0]), SHAPES["box"][0]

    def distance(centre):
        return ist.closest_points(both, (jnp.zeros(3), upright), both, (centre, upright)).distance

    centres = jnp.array([[1.5, 0.0, 0.0], [1.5, 0.1, 0.2], [0.0, 0.0, 0.7]])
    distances, slopes = jax.jit(jax.vmap(jax.value_and_grad(distance)))(centres)
    np.testing.assert_allclose(distances, [0.5, 0.5, 0.3], atol=1e-12)
    np.testing.assert_allclose(slopes, [[1, 0, 0], [1, 0, 0], [0, 0, 1]], atol=1e-9)


def test_planar_pairs():
    disc, square = shapes.Disc(0.5), shapes.Polygon(vertices=[[-1, -1], [1, -1], [1, 1], [-1, 1]])
    found = ist.closest_points(square, ((0, 0), 0.0), disc, ((2.0, 2.0), 0.3))
    assert found.distance == pytest.approx(np.sqrt(2) - 0.5, abs=1e-12)
    np.testing.assert_allclose(found.point_1, [1, 1], atol=1e-9)


GOOD = ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0))
BAD = {
    "not a shape": (("ball", GOOD, shapes.Sphere(1), GOOD), "`shape_1` = 'ball' must come from `shapes`"),
    "planar and spatial": ((shapes.Sphere(1), GOOD, shapes.Disc(1), ((0, 0), 0.0)), "`shape_2` has dimension 2"),
    "no quaternion": ((shapes.Sphere(1), (0, 0, 0), shapes.Sphere(1), GOOD), "`pose_1` = .* must be a pair"),
    "short position": (
        (shapes.Sphere(1), GOOD, shapes.Sphere(1), ((0.0, 0.0), GOOD[1])),
        "`pose_2` has a position of shape",
    ),
    "long quaternion": ((shapes.Sphere(1), GOOD, shapes.Sphere(1), (GOOD[0], (1.0, 1, 0, 0))), "`pose_2` has a quaternion"),
    "nan": ((shapes.Sphere(1), ((np.nan, 0, 0), GOOD[1]), shapes.Sphere(1), GOOD), "`pose_1` .* not finite"),
    "half-spaces": (
        (shapes.HalfPlane(normal=(0, 1)), ((0, 0), 0.0), shapes.HalfPlane(normal=(0, -1)), ((0, 3.0), 0.0)),
        "`shape_1` and `shape_2` are half-spaces",
    ),
    "no angle": (
        (shapes.Disc(1), ((0, 0), None), shapes.Disc(1), ((3, 0), 0.0)),
        "turn of `pose_1` is None: give real numbers",
    ),
    "text": ((shapes.Disc(1), ((3, 0), 0.0), shapes.Disc(1), (("0", "1"), 0.0)), "position of `pose_2` is .'0', '1'.: give"),
    "complex": ((shapes.Disc(1), ((0, 1j), 0.0), shapes.Disc(1), ((3, 0), 0.0)), "position of `pose_1` is .* real"),
    "ragged": (
        (shapes.Disc(1), ([(0, 0), (1,)], 0.0), shapes.Disc(1), ((3, 0), 0.0)),
        "position of `pose_1` is .* rows of one length",
    ),
    "a bool": ((shapes.Disc(1), ((3, 0), 0.0), shapes.Disc(1), ((0, 0), True)), "turn of `pose_2` is True"),
    "three and two": (
        (shapes.Sphere(1), (np.zeros((3, 3)), GOOD[1]), shapes.Sphere(1), (np.ones((2, 3)), GOOD[1])),
        r"`pose_1` has leading axes \(3,\) and \(\), and `pose_2` \(2,\) and \(\): give as many poses of each, or one",
    ),
}


@pytest.mark.parametrize(("own", "exponent", "name"), [(False, 4, "box"), (True, 8, "cylinder")])
def test_points_without_curvature_against_faces_and_edges(own, exponent, name):
    """The middle of a superquadric's side is as flat as its exponent is high: its point is found to
    a few hundredths only, but parallel planes prove the distance of a face from the side, and of an
    edge below the middle of it."""
    size = (0.4, 0.3, 0.25)
    powers = sum((c / s) ** exponent for c, s in zip((shapes.x, shapes.y, shapes.z), size, strict=True))
    flat = shapes.ImplicitShape([powers - 1]) if own else shapes.Superquadric(size, epsilon=(2 / exponent, 2 / exponent))
    other = {"box": shapes.Box((0.5, 0.3, 0.2)), "cylinder": shapes.Cylinder(0.3, 0.2)}[name]
    tilted = np.array(
        [np.cos(np.pi / 8), np.sin(np.pi / 8), 0, 0]
    )  # 45 degrees about x: the edge at y = .1, z = .5, by root 2
    upright, half = np.array([1.0, 0, 0, 0]), np.sqrt(0.5)
    turns = np.array([upright, upright, tilted])
    between = np.array([[0, 0, -2.0], [0.1, -0.05, -2.0], [0, -0.1 * half, -2.0]])
    found = ist.closest_points(flat, (np.zeros(3), upright), other, (between, turns))
    np.testing.assert_allclose(found.distance, 2 - 0.25 - np.array([0.2, 0.2, 0.5 * half]), rtol=0, atol=1e-10)
    assert np.all(found.residual <= 1e-10)


@pytest.mark.parametrize(
    ("residual", "distance", "says"),
    [(1e-9, 0.3, "right to about the residual"), (0.1, -0.3, "bodies overlap there"), (0.1, 0.3, "extreme aspect")],
)
def test_pairs_that_are_not_proved_are_named_with_their_answers(monkeypatch, residual, distance, says):
    leaf = shapes.ImplicitShape([shapes.x**2 + shapes.y**2 + (4 * shapes.z) ** 2 - 1], name="leaf")
    poses = (np.zeros(3), np.array([1.0, 0, 0, 0])), (np.zeros((3, 3)), np.array([1.0, 0, 0, 0]))
    vectors = [np.zeros((3, 3))] * 3
    answer = ist.ClosestPoints(
        np.array([1.0, distance, 2.0]), *vectors, np.ones((3, 1), bool), np.ones((3, 1), bool),
        np.array([0.0, residual, 0.0]), np.array([True, False, True]),
    )  # fmt: skip
    monkeypatch.setattr("implicit_stepper.collision.closest_points._query", lambda *_: answer)
    with pytest.raises(ist.ClosestPointsError) as caught:
        ist.closest_points(leaf, poses[0], shapes.Sphere(0.5), poses[1])
    message = str(caught.value)
    assert message.startswith("closest points of `shape_1` = leaf(x**2 + y**2 + 16*z**2 - 1 <= 0) and `shape_2` = Sphere(")
    assert f"not proved for 1 of 3 pairs of poses (numbers 1): residual {residual:.2e} at distance {distance} m" in message
    assert says in message
    assert caught.value.answer is answer
    assert ist.closest_points(leaf, poses[0], shapes.Sphere(0.5), poses[1], on_failure="return") is answer
    with pytest.raises(ValueError, match="`on_failure` = 'ignore' must be 'raise' or 'return'"):
        ist.closest_points(leaf, poses[0], shapes.Sphere(0.5), poses[1], on_failure="ignore")


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused(name):
    arguments, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        ist.closest_points(*arguments)


def test_closest_points_and_their_derivatives_under_shard_map_keep_their_types():
    """Loops that start with constants go on with what varies between devices; no devices are needed
    to see it."""
    by_hand = (jax.sharding.AxisType.Auto,)  # newer JAX else wants arguments that are shared out already
    over, mesh = jax.sharding.PartitionSpec("devices"), jax.sharding.AbstractMesh((2,), ("devices",), axis_types=by_hand)
    box, ball, upright = shapes.Box((0.5, 0.5, 0.5)), shapes.Sphere(0.3), jnp.array([1.0, 0.0, 0.0, 0.0])

    def distance(height):
        at = jnp.stack([0 * height, 0 * height, height])
        return ist.closest_points(box, (jnp.zeros(3), upright), ball, (at, upright)).distance

    slopes = jax.shard_map(jax.vmap(jax.value_and_grad(distance)), mesh=mesh, in_specs=over, out_specs=over)
    assert jax.eval_shape(slopes, jnp.arange(4.0))[1].shape == (4,)

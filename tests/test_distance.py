"""The public query of closest points: gaps proved by weak duality over all classes of shapes, and by conic programs.

For any unit n the gap of two supporting planes, n.(c2 - c1) - h_1(n) - h_2(-n), bounds the distance from below, and the
distance of any two points of the bodies bounds it from above: where they agree the answer is right, whatever found it.
"""

import dataclasses

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

CORNERS = 0.35 * np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
FACES = np.random.default_rng(5).normal(size=(20, 3))
FACES /= np.linalg.norm(FACES, axis=1, keepdims=True)


def dual_norm(axes, exponent):
    """Support function of sum |x_i/a_i|^p <= 1 (Hoelder)."""
    q = exponent / (exponent - 1)
    return lambda n: np.sum(np.abs(n * axes) ** q, axis=-1) ** (1 / q)


def of_points(points):
    return lambda n: np.max(n @ np.asarray(points).T, axis=-1)


def box(half_sizes):
    return lambda n: np.abs(n) @ np.asarray(half_sizes)


def round_with(radial):
    """Of a body of revolution about z from (|n_xy|, n_z)."""
    return lambda n: radial(np.linalg.norm(n[..., :2], axis=-1), n[..., 2])


def frustum(bottom, top, height):
    low = height / 4 * (bottom**2 + 2 * bottom * top + 3 * top**2) / (bottom**2 + bottom * top + top**2)
    return round_with(lambda r, z: np.maximum(bottom * r - low * z, top * r + (height - low) * z))


def lens(radius, thickness):
    """Two caps of one radius: the nearer cap's ball where its normal reaches, else the rim."""
    centre, rim = radius - thickness / 2, np.sqrt(radius**2 - (radius - thickness / 2) ** 2)
    return round_with(lambda r, z: np.where(np.abs(z) * radius >= centre, radius - centre * np.abs(z), rim * r))


def superquadric(exponent):
    return shapes.Superquadric((0.4, 0.3, 0.25), epsilon=(2 / exponent, 2 / exponent))


POLYTOPE = shapes.Polytope(normals=FACES, offsets=np.full(20, 0.3))
WEDGE = shapes.Wedge(0.6, 0.4, 0.3)
SHAPES = {
    "sphere": (shapes.Sphere(0.3), lambda n: 0.3 * np.linalg.norm(n, axis=-1)),
    "ellipsoid 1:20": (shapes.Ellipsoid((1.0, 0.2, 0.05)), lambda n: np.linalg.norm(n * [1.0, 0.2, 0.05], axis=-1)),
    "superquadric 1.2": (superquadric(1.2), dual_norm([0.4, 0.3, 0.25], 1.2)),
    "superquadric 8": (superquadric(8), dual_norm([0.4, 0.3, 0.25], 8)),
    "superquadric 20": (superquadric(20), dual_norm([0.4, 0.3, 0.25], 20)),
    "box": (shapes.Box((0.5, 0.3, 0.2)), box([0.5, 0.3, 0.2])),
    "tetrahedron": (shapes.Polytope(vertices=CORNERS), of_points(CORNERS)),
    "polytope": (POLYTOPE, of_points(POLYTOPE.mesh(4).vertices)),
    "cylinder": (shapes.Cylinder(0.3, 0.4), round_with(lambda r, z: 0.3 * r + 0.4 * np.abs(z))),
    "capsule": (shapes.Capsule(0.15, 0.3), lambda n: 0.15 * np.linalg.norm(n, axis=-1) + 0.3 * np.abs(n[..., 2])),
    "frustum": (shapes.Frustum(0.35, 0.15, 0.5), frustum(0.35, 0.15, 0.5)),
    "lens": (shapes.Lens(0.5, 0.5, 0.3), lens(0.5, 0.3)),
    "wedge": (WEDGE, of_points(WEDGE.mesh(4).vertices)),
    "rounded box": (
        shapes.Rounded(shapes.Box((0.4, 0.2, 0.1)), 0.05),
        lambda n: box([0.4, 0.2, 0.1])(n) + 0.05 * np.linalg.norm(n, axis=-1),
    ),
}
# every class against at least one other, curved against flat, sharp against round
PAIRS = [
    ("ellipsoid 1:20", "superquadric 8"),
    ("superquadric 1.2", "polytope"),
    ("box", "cylinder"),
    ("lens", "frustum"),
    ("capsule", "wedge"),
    ("rounded box", "superquadric 20"),
    ("tetrahedron", "box"),
    ("sphere", "ellipsoid 1:20"),
]
# Between bodies of many faces and edges a gap below 1e-6 m may not be resolved: the query then raises, see docs/shapes.md.
COARSE = [("superquadric 1.2", "polytope"), ("box", "cylinder"), ("tetrahedron", "box")]
POSES = 1250  # a pair; 10^4 in all


def random_poses(count, seed):
    rng = np.random.default_rng(seed)
    turns = Rotation.random(2 * count, random_state=rng)
    directions = rng.normal(size=(count, 3))
    return turns[:count], turns[count:], directions / np.linalg.norm(directions, axis=1, keepdims=True), rng


def quaternions(turns):
    return np.roll(turns.as_quat(), 1, axis=1)


def at_gaps(name_1, name_2, count, seed, least=1e-8):
    """Poses with gaps from `least` to 10 m, log-uniform: body 2 is moved along the normal by what its gap lacks."""
    (shape_1, _), (shape_2, _) = SHAPES[name_1], SHAPES[name_2]
    turns_1, turns_2, directions, rng = random_poses(count, seed)
    origin, between = np.zeros((count, 3)), 3.0 * directions
    gap = 10 ** rng.uniform(np.log10(least), 1, count)
    first = ist.closest_points(shape_1, (origin, quaternions(turns_1)), shape_2, (between, quaternions(turns_2)))
    between = between + np.asarray(first.normal) * (gap - np.asarray(first.distance))[:, None]
    return turns_1, turns_2, between, gap


def ask(name_1, name_2, turns_1, turns_2, between):
    found = ist.closest_points(
        SHAPES[name_1][0], (np.zeros_like(between), quaternions(turns_1)), SHAPES[name_2][0], (between, quaternions(turns_2))
    )
    return jax.tree.map(np.array, found)  # scipy's rotations want arrays that may be written to


@pytest.mark.parametrize(("name_1", "name_2"), PAIRS)
def test_gaps_are_proved_by_weak_duality(name_1, name_2):
    """All answers: points on the bodies as far apart as parallel planes between them, and by the gap set."""
    (shape_1, h_1), (shape_2, h_2) = SHAPES[name_1], SHAPES[name_2]
    least = 1e-6 if (name_1, name_2) in COARSE else 1e-8
    turns_1, turns_2, between, gap = at_gaps(name_1, name_2, POSES, seed=1, least=least)
    found = ask(name_1, name_2, turns_1, turns_2, between)
    assert np.all(found.converged)
    lower = (
        np.sum(found.normal * between, axis=1)
        - h_1(turns_1.inv().apply(found.normal))
        - h_2(turns_2.inv().apply(-found.normal))
    )
    upper = np.linalg.norm(found.point_2 - found.point_1, axis=1)
    smooth = {name_1, name_2} <= {"sphere", "ellipsoid 1:20"}  # strictly convex with finite curvature
    allowed = 1e-12 if smooth else 1e-9
    for bound in (lower, upper, gap):
        np.testing.assert_allclose(found.distance, bound, rtol=0, atol=allowed)
    np.testing.assert_allclose(np.linalg.norm(found.normal, axis=1), 1.0, rtol=0, atol=1e-12)
    for shape, turns, points, centre in ((shape_1, turns_1, found.point_1, 0.0), (shape_2, turns_2, found.point_2, between)):
        body_points = turns.inv().apply(points - centre)
        if not shape.shape_class.rounded:
            values = np.asarray(shape.shape_class.jet.value(jnp.asarray(body_points), jnp.asarray(shape.theta)))
            assert values.max() <= 1e-9 * max(1.0, np.abs(shape.gradient(body_points[0])).max())


@pytest.mark.xfail(reason="gaps below 1e-6 m between bodies of many faces are not always resolved", strict=False)
@pytest.mark.parametrize(("name_1", "name_2"), COARSE[1:2])
def test_tiny_gaps_between_faces_and_edges(name_1, name_2):
    ask(name_1, name_2, *at_gaps(name_1, name_2, POSES, seed=1)[:3])


def conic_distance(parts, between):
    """min t with |between + E_2 u_2 - E_1 u_1| <= t, each u in its cone program (A, b, cones) of the unit body."""
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
    turns_1, turns_2, between, gap = at_gaps(name_1, name_2, POSES, seed=2, least=1e-6)
    found = ask(name_1, name_2, turns_1, turns_2, between)
    chosen = np.flatnonzero(gap > 1e-3)[:150]  # an interior-point method stops at the vertex of the cone when bodies touch
    assert len(chosen) == 150
    for i in chosen:
        best = conic_distance([PROGRAMS[name_1](turns_1[i]), PROGRAMS[name_2](turns_2[i])], between[i])
        assert found.distance[i] == pytest.approx(best, abs=1e-9)


def test_penetration_depth_of_polytopes_is_that_of_their_minkowski_difference():
    """The depth is the distance from the origin to the nearest face of the hull of all differences of corners."""
    half = np.array([0.5, 0.3, 0.2])
    corners = half * np.array(np.meshgrid(*[[-1, 1]] * 3)).T.reshape(-1, 3)
    turns_1, turns_2, between, _ = at_gaps("tetrahedron", "box", POSES, seed=3, least=1e-6)
    touching = ask("tetrahedron", "box", turns_1, turns_2, between)
    count, rng = 300, np.random.default_rng(0)
    overlap = rng.uniform(0.001, 0.05, count)
    turns_1, turns_2 = turns_1[:count], turns_2[:count]
    between = between[:count] - touching.normal[:count] * (touching.distance[:count] + overlap)[:, None]
    found = ask("tetrahedron", "box", turns_1, turns_2, between)
    assert np.all(found.converged)
    for i in range(count):
        second = turns_2[i].apply(corners) + between[i]
        hull = ConvexHull((second[:, None] - turns_1[i].apply(CORNERS)[None]).reshape(-1, 3))
        assert -found.distance[i] == pytest.approx(np.min(-hull.equations[:, 3]), abs=1e-9)


def test_touching_and_overlapping_balls_and_boxes():
    upright = (1.0, 0.0, 0.0, 0.0)
    box_shape, ball = SHAPES["box"][0], SHAPES["sphere"][0]
    for x, expected in ((0.8, 0.0), (0.79, -0.01), (0.6, -0.2), (0.8 + 1e-9, 1e-9)):
        found = ist.closest_points(box_shape, ((0, 0, 0), upright), ball, ((x, 0.02, 0.01), upright))
        assert found.distance == pytest.approx(expected, abs=1e-12)
        np.testing.assert_allclose(found.normal, [1, 0, 0], atol=1e-9)
        assert found.active_1.tolist().count(True) == 1


def derivative_cases():
    turn = quaternions(Rotation.from_rotvec([[0.3, -0.5, 0.2], [1.0, 0.4, -0.7]]))
    return [
        ("ellipsoids", shapes.Ellipsoid((0.5, 0.3, 0.2)), shapes.Ellipsoid((0.4, 0.6, 0.3)), turn),
        ("box and cylinder", SHAPES["box"][0], SHAPES["cylinder"][0], turn),
    ]


@pytest.mark.parametrize(
    ("name", "first", "second", "turn"), derivative_cases(), ids=lambda v: v if isinstance(v, str) else ""
)
def test_derivatives_in_poses_and_parameters(name, first, second, turn):
    """Of the distance: -n and n in the positions, exactly; in angles, parameters and of points against central differences."""
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
    np.testing.assert_allclose(jax.vmap(distance)(centres), [0.5, 0.5, 0.3], atol=1e-12)
    np.testing.assert_allclose(jax.jit(jax.vmap(jax.grad(distance)))(centres), [[1, 0, 0], [1, 0, 0], [0, 0, 1]], atol=1e-9)


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
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused(name):
    arguments, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        ist.closest_points(*arguments)

"""The public query of closest points: proved for random poses of all classes of shapes, and against a conic solver."""

import dataclasses
import functools

import clarabel
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from convex_bodies import NONNEGATIVE, SECOND_ORDER, TETRAHEDRON, WEDGE, box_corners, planar, proved, spatial, wedge_corners
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

import implicit_stepper as ist
import shapes
from implicit_stepper import distance

BODIES = {**spatial(), **planar()}
# Every class against two others: curved and flat, sharp and round, thick and thin.
RING = [
    "sphere", "ellipsoid", "ellipsoid 1:20", "superquadric 8", "half-space", "cone", "superquadric 20", "rounded box",
    "superquadric 1.2", "cylinder", "polytope", "capsule", "lens", "frustum", "superquadric 3", "half superquadric 4",
    "tetrahedron", "wedge", "box",
]  # fmt: skip
PLANAR_RING = ["disc", "ellipse", "polygon", "half-plane"]
PAIRS = [pair for ring in (RING, PLANAR_RING) for pair in zip(ring, [*ring[1:], ring[0]], strict=True)]
POSES = 435  # a pair, 10^4 in all; one number, so that a pair compiles once
every_pair = pytest.mark.parametrize("pair", PAIRS, ids=" and ".join)

# What the query promises: residuals of 1e-13 of the smaller body, below 1 m here, besides round-off of 10 m.
ROUND_OFF = 1e-12


@dataclasses.dataclass(frozen=True)
class Poses:
    """Random orientations of both bodies, as matrices and as poses take them; body 1 is at the origin, body 2 at `between`."""

    turns: tuple
    orientations: tuple
    between: np.ndarray


@functools.cache
def anywhere(pair) -> Poses:
    """Centres up to 1.2 m apart: about half the bodies overlap."""
    rng, d = np.random.default_rng(PAIRS.index(pair)), BODIES[pair[0]].shape.dimension
    if d == 2:
        angles = rng.uniform(-np.pi, np.pi, (2, POSES))
        cos, sin = np.cos(angles), np.sin(angles)
        turns, orientations = np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], -2), angles
    else:
        rotations = [Rotation.random(POSES, random_state=rng) for _ in range(2)]
        turns = [r.as_matrix() for r in rotations]
        orientations = [np.roll(r.as_quat(), 1, axis=1) for r in rotations]  # scipy has w last
    directions = rng.normal(size=(POSES, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return Poses(tuple(turns), tuple(orientations), directions * rng.uniform(0.05, 1.2, (POSES, 1)))


def ask(pair, poses: Poses):
    first, second = (BODIES[name].shape for name in pair)
    origin = np.zeros_like(poses.between)
    found = ist.closest_points(first, (origin, poses.orientations[0]), second, (poses.between, poses.orientations[1]))
    return jax.tree.map(np.asarray, found)


@functools.cache
def found_anywhere(pair):
    return ask(pair, anywhere(pair))


@functools.cache
def at_gaps(pair):
    """Poses with gaps from 1e-8 to 10 m, these gaps, and the answers: body 2 is moved along the normal by what is missing, which
    leaves the points closest."""
    poses, found = anywhere(pair), found_anywhere(pair)
    gaps = 10 ** np.random.default_rng(1).uniform(-8, 1, POSES)
    poses = dataclasses.replace(poses, between=poses.between + found.normal * (gaps - found.distance)[:, None])
    return poses, gaps, ask(pair, poses)


@every_pair
def test_wherever_bodies_are_the_answer_is_a_gap_or_a_depth(pair):
    """Deep inside each other too: an unsolved pair would raise. The distance of bodies apart is proved from both sides; a depth
    is that of two planes with their normals opposed, and moving body 2 along them by so much parts the bodies."""
    poses, found = anywhere(pair), found_anywhere(pair)
    first, second = (BODIES[name] for name in pair)
    lower, upper = proved(first, second, poses.turns, poses.between, found)
    np.testing.assert_allclose(found.distance, lower, rtol=0, atol=ROUND_OFF)
    apart = found.distance > 0
    assert 20 < np.sum(apart) < POSES - 20
    np.testing.assert_allclose(found.distance[apart], upper[apart], rtol=0, atol=ROUND_OFF)
    np.testing.assert_allclose(np.linalg.norm(found.normal, axis=1), 1.0, rtol=0, atol=ROUND_OFF)


@every_pair
def test_gaps_are_proved(pair):
    poses, gaps, found = at_gaps(pair)
    first, second = (BODIES[name] for name in pair)
    for bound in (*proved(first, second, poses.turns, poses.between, found), gaps):
        np.testing.assert_allclose(found.distance, bound, rtol=0, atol=ROUND_OFF)


@pytest.mark.parametrize("pair", [p for p in PAIRS if BODIES[p[0]].semi_axes], ids=" and ".join)
def test_points_of_ellipsoids_are_those_of_the_normal(pair):
    """A^2 n / |A n|. A normal is as exact as round-off of points, 1e-16 of 10 m, times the curvature of the other body, at most
    1e3 per metre, and moves the point by that times the largest radius of curvature, .6^2 / .03 = 12 m."""
    poses, _, found = at_gaps(pair)
    axes = BODIES[pair[0]].semi_axes
    n = np.einsum("kji,kj->ki", poses.turns[0], found.normal) * axes
    expected = np.einsum("kij,kj->ki", poses.turns[0], n * axes / np.linalg.norm(n, axis=1, keepdims=True))
    np.testing.assert_allclose(found.point_1, expected, rtol=0, atol=1e-10)


def conic_distance(programs, turns, between) -> float:
    """min t with |between + R_2 E_2 u_2 - R_1 E_1 u_1| <= t."""
    d, widths = len(between), [program.A.shape[1] for program in programs]
    reach = np.hstack([-turns[0] @ programs[0].E, turns[1] @ programs[1].E])
    tip = np.block([[-np.ones((1, 1)), np.zeros((1, sum(widths)))], [np.zeros((d, 1)), -reach]])
    bodies = np.hstack([np.zeros((sum(len(p.b) for p in programs), 1)), scipy.linalg.block_diag(*(p.A for p in programs))])
    make = {NONNEGATIVE: clarabel.NonnegativeConeT, SECOND_ORDER: clarabel.SecondOrderConeT}
    cones = [clarabel.SecondOrderConeT(d + 1)]
    cones += [make.get(kind, clarabel.PowerConeT)(size) for program in programs for kind, size in program.cones]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    right = np.concatenate([[0.0], between, *(program.b for program in programs)])
    n = 1 + sum(widths)
    rows = scipy.sparse.csc_matrix(np.vstack([tip, bodies]))
    return clarabel.DefaultSolver(scipy.sparse.csc_matrix((n, n)), np.eye(n)[0], rows, right, cones, settings).solve().x[0]


@every_pair
def test_gaps_match_a_conic_solver(pair):
    poses, _, found = at_gaps(pair)
    first, second = (BODIES[name] for name in pair)
    errors = []
    for i in range(20):
        turns = poses.turns[0][i], poses.turns[1][i]
        errors.append(
            conic_distance((first.program, second.program), turns, poses.between[i])
            - first.radius
            - second.radius
            - found.distance[i]
        )
    print("conic", np.max(np.abs(errors)))


CORNERS = {"tetrahedron": TETRAHEDRON, "wedge": wedge_corners(*WEDGE), "box": box_corners((0.5, 0.3, 0.2))}


@pytest.mark.parametrize("pair", [("tetrahedron", "wedge"), ("wedge", "box")], ids=" and ".join)
def test_penetration_depth_of_polytopes_is_that_of_their_minkowski_difference(pair):
    """The distance from the origin to the nearest face of the hull of all differences of corners, up to a fifth of a body."""
    touching, gaps, found = at_gaps(pair)
    overlap = np.random.default_rng(2).uniform(0.0, 0.1, POSES)
    poses = dataclasses.replace(touching, between=touching.between - found.normal * (gaps + overlap)[:, None])
    depths = -ask(pair, poses).distance
    for i in range(POSES):
        first, second = (CORNERS[name] @ turns[i].T for name, turns in zip(pair, poses.turns, strict=True))
        hull = ConvexHull((poses.between[i] + second[:, None] - first).reshape(-1, 3))
        np.testing.assert_allclose(depths[i], np.min(-hull.equations[:, 3]), rtol=0, atol=ROUND_OFF)

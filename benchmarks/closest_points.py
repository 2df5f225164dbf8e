"""Closest points of every pair of shape classes, proved by weak duality; of nearly parallel faces;
and of many ellipsoids.

    python benchmarks/closest_points.py --poses 100 --ellipsoids 1000000

For any unit n the gap of two supporting planes, n.(c2 - c1) - h_1(n) - h_2(-n), bounds the distance
from below, and the distance of any two points of the bodies bounds it from above: where they agree
the answer is right, whatever found it. Prints the Markdown tables of docs/benchmarks.md.
"""

import argparse
import dataclasses
import itertools
import os
import time

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial.transform import Rotation
from tqdm import tqdm

import implicit_stepper as ist
import shapes
from implicit_stepper.runtime.compilation import jit

CORNERS = 0.35 * np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
FACES = np.random.default_rng(5).normal(size=(20, 3))
FACES /= np.linalg.norm(FACES, axis=1, keepdims=True)
APART = 3.0  # [m] between centres: more than the largest diameter


def dual_norm(axes, exponent):
    """Support function of sum |x_i/a_i|^p <= 1 (Hoelder)."""
    q = exponent / (exponent - 1)
    return lambda n: np.sum(np.abs(n * axes) ** q, axis=-1) ** (1 / q)


def of_points(points):
    """Support function of their hull."""
    return lambda n: np.max(n @ np.asarray(points).T, axis=-1)


def box(half_sizes):
    """Support function of a box."""
    return lambda n: np.abs(n) @ np.asarray(half_sizes)


def round_with(radial):
    """Support function of a body of revolution about z from (|n_xy|, n_z)."""
    return lambda n: radial(np.linalg.norm(n[..., :2], axis=-1), n[..., 2])


def frustum(bottom, top, height):
    """Support function of a frustum about its centre of mass."""
    low = height / 4 * (bottom**2 + 2 * bottom * top + 3 * top**2) / (bottom**2 + bottom * top + top**2)
    return round_with(lambda r, z: np.maximum(bottom * r - low * z, top * r + (height - low) * z))


def lens(radius, thickness):
    """Support function of two caps of one radius: the nearer cap's ball where its normal reaches,
    else the rim."""
    centre, rim = radius - thickness / 2, np.sqrt(radius**2 - (radius - thickness / 2) ** 2)
    return round_with(lambda r, z: np.where(np.abs(z) * radius >= centre, radius - centre * np.abs(z), rim * r))


def superquadric(exponent):
    """Sum of |x_i/a_i|^exponent."""
    return shapes.Superquadric((0.4, 0.3, 0.25), epsilon=(2 / exponent, 2 / exponent))


POLYTOPE = shapes.Polytope(normals=FACES, offsets=np.full(20, 0.3))
WEDGE = shapes.Wedge(0.6, 0.4, 0.3)
SMOOTH = {"sphere", "ellipsoid 1:20"}  # strictly convex, of finite curvature
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


def random_poses(count, seed):
    """Turns of both bodies, unit vectors between them (count, 3), and the generator."""
    rng = np.random.default_rng(seed)
    turns = Rotation.random(2 * count, random_state=rng)
    directions = rng.normal(size=(count, 3))
    return turns[:count], turns[count:], directions / np.linalg.norm(directions, axis=1, keepdims=True), rng


def quaternions(turns):
    """w-first."""
    return np.roll(turns.as_quat(), 1, axis=1)


def query(shape_1, shape_2):
    """Compiled closest points of a batch, body 1 at the origin; compiled code flags what is not
    found instead of raising."""

    @jit
    def compiled(origin, turn_1, between, turn_2):
        return ist.closest_points(shape_1, (origin, turn_1), shape_2, (between, turn_2))

    def ask(turns_1, turns_2, between):
        found = compiled(np.zeros_like(between), quaternions(turns_1), between, quaternions(turns_2))
        return jax.tree.map(np.array, found)  # scipy's rotations want arrays that may be written to

    return ask


def at_gaps(ask, count, seed, least=1e-8):
    """Poses with gaps from `least` to 10 m, log-uniform: body 2 is moved along the normal by what
    its gap lacks."""
    turns_1, turns_2, directions, rng = random_poses(count, seed)
    gap = 10 ** rng.uniform(np.log10(least), 1, count)
    first = ask(turns_1, turns_2, APART * directions)
    if not np.all(first.converged):
        raise RuntimeError(f"{np.sum(~first.converged)} of {count} pairs {APART} m apart were not found.")
    between = APART * directions + first.normal * (gap - first.distance)[:, None]
    return turns_1, turns_2, between, gap


def bounds(found, h_1, h_2, turns_1, turns_2, between):
    """Lower and upper bound (count,) of the distance that an answer proves if its points are in the
    bodies."""
    lower = np.sum(found.normal * between, axis=1)
    lower = lower - h_1(turns_1.inv().apply(found.normal)) - h_2(turns_2.inv().apply(-found.normal))
    return lower, np.linalg.norm(found.point_2 - found.point_1, axis=1)


def outside(shape, turns, centre, points):
    """How far (count,) points are outside a shape: its largest inequality over its slope there [m];
    0 for rounded shapes, whose inequalities are those of their core."""
    if shape.shape_class.rounded:
        return np.zeros(len(points))
    body = turns.inv().apply(points - centre)
    theta = jnp.asarray(shape.theta)
    values = np.asarray(shape.shape_class.jet.value(jnp.asarray(body), theta))
    slopes = np.linalg.norm(np.asarray(shape.shape_class.jet.gradient(jnp.asarray(body), theta)), axis=-1)
    return np.max(np.maximum(values, 0.0) / np.maximum(slopes, 1.0), axis=-1)


def all_pairs(poses):
    """A Markdown table row per class, against all others."""
    print("| class, against all | pairs | poses | not found | worst gap error by duality [m] | us a query |\n|" + "---|" * 6)
    rows = {name: [] for name in SHAPES}
    pairs = list(itertools.combinations_with_replacement(SHAPES, 2))
    for name_1, name_2 in tqdm(pairs, disable=None):
        (shape_1, h_1), (shape_2, h_2) = SHAPES[name_1], SHAPES[name_2]
        ask = query(shape_1, shape_2)
        *where, gap = at_gaps(ask, poses, seed=pairs.index((name_1, name_2)))
        start = time.perf_counter()
        found = ask(*where)
        seconds = (time.perf_counter() - start) / poses
        lower, upper = bounds(found, h_1, h_2, *where)
        error = np.maximum(np.abs(found.distance - lower), np.abs(found.distance - upper))
        lost = int(np.sum(~found.converged))
        error = np.maximum(error, np.abs(found.distance - gap))
        row = (poses, lost, np.nanmax(error), 1e6 * seconds)
        for name in {name_1, name_2}:
            rows[name].append(row)
        if lost or row[2] > 1e-9 or ({name_1, name_2} <= SMOOTH and row[2] > 1e-12):
            print(f"not found to 1e-9 (1e-12 if smooth): {name_1} and {name_2}: {row}", flush=True)
    for name, found in rows.items():
        count, lost, error, cost = zip(*found, strict=True)
        print(f"| {name} | {len(found)} | {sum(count)} | {sum(lost)} | {max(error):.0e} | {np.median(cost):.0f} |")


def ellipsoids(count, batch=10_000):
    """Random axes from .05 to 1 m, apart by 1e-8 to 10 m or overlapping by up to the least axis;
    all errors by duality."""
    query = jit(lambda *batch: jax.lax.map(lambda one: _ellipsoid_query(*one), batch))
    lost, worst, seconds = 0, 0.0, 0.0
    for seed in tqdm(range(count // batch), disable=None):
        turns_1, turns_2, directions, rng = random_poses(batch, seed)
        axes = 10 ** rng.uniform(np.log10(0.05), 0, (2, batch, 3))
        turned = quaternions(turns_1), quaternions(turns_2)
        first = query(*axes, *turned, APART * directions)
        gap = 10 ** rng.uniform(-8, 1, batch)
        gap = np.where(rng.uniform(size=batch) < 0.2, -rng.uniform(0, 1, batch) * axes.min(axis=(0, 2)), gap)
        between = APART * directions + np.asarray(first.normal) * (gap - np.asarray(first.distance))[:, None]
        start = time.perf_counter()
        found = jax.tree.map(np.array, query(*axes, *turned, between))
        seconds += time.perf_counter() - start if seed else 0.0
        supports = [lambda n, a=a: np.linalg.norm(n * a, axis=-1) for a in axes]
        lower, upper = bounds(found, *supports, turns_1, turns_2, between)
        error = np.maximum(np.abs(found.distance - lower), np.abs(np.abs(found.distance) - upper))
        lost += int(np.sum(~found.converged))
        worst = max(worst, np.nanmax(error))
    print(f"{count} pairs of ellipsoids: {lost} not found, worst gap error by duality {worst:.0e} m, ", end="")
    print(f"{1e6 * seconds / (count - batch):.0f} us a query")


def nearly_parallel(poses):
    """Body 2 3 m above body 1, `tilted`; then moved along the normal to gaps of 1e-8 to 1 m. A
    Markdown table row a pair."""
    print("| nearly parallel | poses | not found 3 m apart | at gaps to 1e-8 m | worst error by duality [m] |")
    print("|" + "---|" * 5)
    for name_1, name_2 in itertools.combinations_with_replacement(("box", "cylinder", "wedge", "frustum"), 2):
        (shape_1, h_1), (shape_2, h_2) = SHAPES[name_1], SHAPES[name_2]
        ask, rng = query(shape_1, shape_2), np.random.default_rng(0)
        turns_1 = Rotation.from_rotvec(np.zeros((poses, 3)))
        turns_2 = tilted(poses, rng)
        between = np.stack([*rng.uniform(-0.3, 0.3, (2, poses)), np.full(poses, 3.0)], axis=1)
        apart = ask(turns_1, turns_2, between)
        gap = 10 ** rng.uniform(-8, 0, poses)
        nearer = between + apart.normal * (gap - apart.distance)[:, None]
        lost, worst = [], 0.0
        for found, where in ((apart, between), (ask(turns_1, turns_2, nearer), nearer)):
            errors = [np.abs(found.distance - bound) for bound in bounds(found, h_1, h_2, turns_1, turns_2, where)]
            worst = max(worst, np.max(np.max(errors, axis=0)[found.converged]))
            lost.append(int(np.sum(~found.converged)))
        print(f"| {name_1} and {name_2} | {poses} | {lost[0]} | {lost[1]} | {worst:.0e} |", flush=True)


def tilted(count, rng):
    """Turns about the vertical that leave faces, edges or diagonals horizontal but for 1e-12 to
    1e-4."""
    axes = rng.normal(size=(count, 3)) / np.sqrt(3)
    tilt = Rotation.from_rotvec(axes * 10 ** rng.uniform(-12, -4, (count, 1)))
    eighths = np.pi / 4 * np.stack([rng.integers(0, 8, count), 2 * rng.integers(0, 4, count)], axis=1)
    return tilt * Rotation.from_euler("z", rng.uniform(0, 6, (count, 1))) * Rotation.from_euler("xy", eighths)


def _ellipsoid_query(axes_1, axes_2, turn_1, turn_2, between):
    ball = shapes.Ellipsoid((1.0, 1.0, 1.0))
    first, second = dataclasses.replace(ball, theta=axes_1), dataclasses.replace(ball, theta=axes_2)
    return ist.closest_points(first, (jnp.zeros(3), turn_1), second, (between, turn_2))


def main():
    """All tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--poses", type=int, default=100, help="of each pair of classes")
    parser.add_argument("--ellipsoids", type=int, default=1_000_000, help="pairs")
    parser.add_argument("--parallel", type=int, default=1000, help="of each pair of classes with nearly parallel faces")
    arguments = parser.parse_args()
    if arguments.poses:
        all_pairs(arguments.poses)
    if arguments.parallel:
        nearly_parallel(arguments.parallel)
    if arguments.ellipsoids:
        ellipsoids(arguments.ellipsoids)


if __name__ == "__main__":
    main()

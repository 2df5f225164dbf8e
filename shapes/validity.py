"""Is {f_j <= 0} a convex body with usable normals? Sampled on its surface; answers with a report or a `ShapeError`."""

from __future__ import annotations

import dataclasses

import numpy as np

from .compile import Jet, compile_jet
from .symbols import ShapeError

_DIRECTIONS = 200  # rays cast from the interior point, besides both ways along the axes
_CHORDS = 2000  # pairs of surface points whose midpoint must be inside
FARTHEST = 1e6  # [m] a ray that is still inside here is taken as unbounded
_FLATTEST = 1e-15  # an interior shallower than this (in f) is round-off
# Contact is solved to 1e-10 of a scene's length: a body ten times as thin, relative to its largest coordinate, is flat.
FLAT = 1e-9
# A gradient that changes by the second factor within the first share of the way inside vanishes or is infinite there.
_STEP_IN, _STEEPEST = 1e-6, 1e3
# A body that fails by less than this is convex to sampling accuracy: chords relative to |grad f| times the body's
# size, curvatures relative to |Hessian|. Round-off leaves 1e-15, an exponent off by 1 % leaves 1e-4.
_CONVEXITY = 1e-9


@dataclasses.dataclass(frozen=True)
class Report:
    """What the samples showed. Points (n, d) [m] in body coordinates."""

    interior_point: np.ndarray
    surface_points: np.ndarray
    bounded: bool
    least_normal: float
    least_curvature: float
    worst_chord: float


def check(shape_class, theta) -> Report:
    """Sample the surface of a shape class at theta (k,). Raises `ShapeError` when it is empty or flat, its normals vanish or
    are infinite, or it is not convex; the message names the point and the value."""
    jet = compile_jet(shape_class.expressions, shape_class.dimension, shape_class.parameters, backend="numpy")
    theta, name = np.asarray(theta, dtype=float), shape_class.name
    interior = interior_point(jet, theta, shape_class.dimension, name)
    directions = _directions(len(interior))
    lengths = ray_lengths(jet, theta, interior, directions)
    left = lengths < FARTHEST
    points = (interior + lengths[:, None] * directions)[left]
    if len(points) == 0:
        raise ShapeError(f"{name} has no surface within {FARTHEST:g} m of {interior}: its inequalities bound nothing.")
    within = np.minimum(lengths, 10 * np.max(lengths[left]))  # a sheet without end is not flat for being large
    _check_thickness(interior + within[:, None] * directions, name)
    least_normal, least_curvature = _check_normals_and_curvature(jet, theta, interior, points, name)
    return Report(
        interior_point=interior,
        surface_points=points,
        bounded=bool(np.all(left)),
        least_normal=least_normal,
        least_curvature=least_curvature,
        worst_chord=_check_chords(jet, theta, points, name),
    )


def interior_point(jet: Jet, theta, dimension: int, name: str) -> np.ndarray:
    """A point (d,) with all f_j < 0: the origin, a point at 1 m on an axis, or else the deepest found.

    Raises `ShapeError` when the set is empty or flat.
    """
    near = np.concatenate([np.zeros((1, dimension)), np.eye(dimension), -np.eye(dimension)])
    with np.errstate(all="ignore"):
        depths = np.max(jet.value(near, theta), axis=1)
    inside = np.flatnonzero(depths < -_FLATTEST)
    return near[inside[0]] if len(inside) else _deepest_point(jet, theta, dimension, name)


def _deepest_point(jet: Jet, theta, dimension: int, name: str) -> np.ndarray:
    """Minimises s subject to f_j(x) <= s; s stops at -1, as a half-space has no deepest point."""
    import scipy.optimize  # takes .2 s, which most shapes need not wait for

    found = scipy.optimize.minimize(
        lambda point: point[-1],
        np.append(np.full(dimension, 1e-3), 1.0),
        bounds=[(None, None)] * dimension + [(-1.0, None)],
        constraints={"type": "ineq", "fun": lambda point: point[-1] - jet.value(point[:-1], theta)},
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    point = found.x[:-1]
    depth = np.max(jet.value(point, theta))
    if not depth < -_FLATTEST:
        raise ShapeError(
            f"{name} is empty or flat: the deepest point found, {point}, has max f = {depth:.3g}, which must be "
            "negative. Check the signs: the body is where every f_j(x) <= 0."
        )
    return point


def surface_points(jet: Jet, theta, interior: np.ndarray) -> tuple[np.ndarray, bool]:
    """Where rays from an interior point (d,) leave the body: points (n, d), and whether every ray left it."""
    directions = _directions(len(interior))
    lengths = ray_lengths(jet, theta, interior, directions)
    left = lengths < FARTHEST
    return (interior + lengths[:, None] * directions)[left], bool(np.all(left))


def _directions(dimension: int) -> np.ndarray:
    random = np.random.default_rng(0).normal(size=(_DIRECTIONS, dimension))
    directions = np.concatenate([np.eye(dimension), -np.eye(dimension), random])
    return directions / np.linalg.norm(directions, axis=1, keepdims=True)


def ray_lengths(jet: Jet, theta, interior, directions) -> np.ndarray:
    """How far (n,) [m] rays from an interior point in unit directions (n, d) stay inside, at most `FARTHEST`."""

    def inside(distance):
        with np.errstate(all="ignore"):
            return np.max(jet.value(interior + distance[:, None] * directions, theta), axis=-1) < 0

    near, far = np.zeros(len(directions)), np.full(len(directions), 1e-6)
    while np.any(still := inside(far) & (far < FARTHEST)):
        near, far = np.where(still, far, near), np.where(still, 2 * far, far)
    left = far < FARTHEST
    for _ in range(60):
        middle = (near + far) / 2
        is_inside = inside(middle)
        near, far = np.where(is_inside, middle, near), np.where(is_inside, far, middle)
    return np.where(left, far, FARTHEST)


def _check_thickness(ends, name: str) -> None:
    """Raises `ShapeError` if the ends of rays (n, d) [m] in all directions lie in one plane."""
    middle = np.mean(ends, axis=0)
    across = np.linalg.svd(ends - middle)[2][-1]
    thickness, reach = np.ptp((ends - middle) @ across), np.max(np.abs(ends))
    if thickness < FLAT * reach:
        raise ShapeError(
            f"{name} is empty or flat: along {across} it is {thickness:.3g} m thick, less than {FLAT:g} of its largest "
            f"coordinate {reach:.3g} m, which contact cannot resolve."
        )


def _active(jet: Jet, theta, points) -> tuple[np.ndarray, np.ndarray]:
    """Which inequality (n, m) bounds the body at each surface point, and the lengths (n, m) of all gradients there."""
    values = jet.value(points, theta)
    return values >= np.max(values, axis=1, keepdims=True), np.linalg.norm(jet.gradient(points, theta), axis=-1)


def _check_normals_and_curvature(jet: Jet, theta, interior, points, name) -> tuple[float, float]:
    with np.errstate(all="ignore"):
        active, lengths = _active(jet, theta, points)
        gradients, hessians = jet.gradient(points, theta), jet.hessian(points, theta)
        nearby = np.linalg.norm(jet.gradient(points + _STEP_IN * (interior - points), theta), axis=-1)
        usable = (lengths > nearby / _STEEPEST) & (lengths < nearby * _STEEPEST) & np.isfinite(lengths)
    for k, j in zip(*np.nonzero(active & ~usable), strict=True):
        raise ShapeError(
            f"{name} has no normal at {points[k]}: |grad f| = {lengths[k, j]:.3g} there, which must be positive and "
            "finite. Write the inequality so that its gradient does not vanish on the surface (f, not f**3)."
        )
    least = np.inf
    for k, j in zip(*np.nonzero(active), strict=True):
        tangents = np.linalg.svd(gradients[k, j][None, :])[2][1:]
        magnitude = np.linalg.norm(hessians[k, j])
        if magnitude == 0.0 or not np.isfinite(magnitude):  # flat, or a ridge of infinite curvature
            continue
        curvature = np.linalg.eigvalsh(tangents @ hessians[k, j] @ tangents.T)[0] / magnitude
        if curvature < -_CONVEXITY:
            raise ShapeError(
                f"{name} is not convex: at {points[k]} inequality {j} curves inward, with a tangential Hessian of "
                f"{curvature:.3g} times its norm. Split the body into convex parts."
            )
        least = min(least, curvature)
    return float(np.min(lengths[active])), float(least)


def _check_chords(jet: Jet, theta, points, name) -> float:
    rng = np.random.default_rng(1)
    first, second = points[rng.integers(len(points), size=(2, _CHORDS))]
    middle = (first + second) / 2
    with np.errstate(all="ignore"):
        active, lengths = _active(jet, theta, first)
        slope = np.max(np.where(active, lengths, 0.0), axis=1)
        outside = np.max(jet.value(middle, theta), axis=1)
        relative = outside / (slope * np.max(np.linalg.norm(second - first, axis=1)))
    relative = np.where(np.isnan(relative), np.inf, np.where(outside <= 0, -1.0, relative))
    worst = int(np.argmax(relative))
    if relative[worst] > _CONVEXITY:
        raise ShapeError(
            f"{name} is not convex: {middle[worst]}, halfway between two of its points, has f = {outside[worst]:.3g} > 0. "
            "Split the body into convex parts."
        )
    return float(relative[worst])

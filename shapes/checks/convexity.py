"""Is {f_j <= 0} a convex body with usable normals? Sampled on its surface; answers with a report or
a `ShapeError`."""

from __future__ import annotations

import dataclasses

import numpy as np

from ..errors import EmptyShapeError, NoNormalError, NotConvexError
from ..expressions.compile import Jet, compile_jet
from .interior import FLAT, REACHES, ends, first_order_depth, interior_point, ray_lengths

_DIRECTIONS = 200  # rays cast from the interior point, besides both ways along the axes
_CHORDS = 2000  # pairs of surface points whose midpoint must be inside
# times as far as where a ray leaves: none of these points may be inside
_BEYOND = np.geomspace(1.01, 1e3, 200)
# A gradient that changes by the second factor within the first share of the way inside vanishes or
# is infinite there.
_STEP_IN, _STEEPEST = 1e-6, 1e3
# A body that fails by less than this is convex to sampling accuracy: chords relative to |grad f|
# times the body's size, curvatures relative to |Hessian|. Round-off leaves 1e-15, an exponent off
# by 1 % leaves 1e-4.
_CONVEXITY = 1e-9
# A normal that turns by more than this [rad] between points that are 2^-40 of the body apart jumps:
# |u|^1.1 turns by .06.
_JUMP, _HALVINGS, _WAYS = 0.1, 40, 500


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
    """Sample the surface of a shape class at theta (k,). Raises `ShapeError` when it is empty or
    flat, its normals vanish or are infinite, or it is not convex; the message names the point and
    the value."""
    jet = compile_jet(shape_class.expressions, shape_class.dimension, shape_class.parameters, backend="numpy")
    theta, name = np.asarray(theta, dtype=float), shape_class.name
    interior = interior_point(jet, theta, shape_class.dimension, name)
    directions = _directions(len(interior))
    lengths = ray_lengths(jet, theta, interior, directions)
    left = ends(lengths)
    if not np.any(left):
        raise EmptyShapeError(
            f"{name} has no surface within {REACHES[-1]:.3g} m of {interior}: its inequalities bound nothing."
        )
    points = interior + lengths[left, None] * directions[left]
    # a sheet without end is not flat for being large
    within = np.minimum(lengths, 10 * np.max(lengths[left]))
    _check_thickness(interior + within[:, None] * directions, name)
    _check_gradient(jet, theta, np.concatenate([interior[None], points]), name)
    least_normal, least_curvature = _check_normals_and_curvature(jet, theta, interior, points, name)
    worst_chord = _check_chords(jet, theta, points, name)
    _check_one_part(jet, theta, interior, points, name)
    _check_edges(jet, theta, interior, points, name)
    return Report(
        interior_point=interior,
        surface_points=points,
        bounded=bool(np.all(left)),
        least_normal=least_normal,
        least_curvature=least_curvature,
        worst_chord=worst_chord,
    )


def surface_points(jet: Jet, theta, interior: np.ndarray) -> tuple[np.ndarray, bool]:
    """Where rays from an interior point (d,) leave the body: points (n, d), and whether every ray
    left it."""
    directions = _directions(len(interior))
    lengths = ray_lengths(jet, theta, interior, directions)
    left = ends(lengths)
    return interior + lengths[left, None] * directions[left], bool(np.all(left))


def _directions(dimension: int) -> np.ndarray:
    random = np.random.default_rng(0).normal(size=(_DIRECTIONS, dimension))
    directions = np.concatenate([np.eye(dimension), -np.eye(dimension), random])
    return directions / np.linalg.norm(directions, axis=1, keepdims=True)


def _check_thickness(ends, name: str) -> None:
    """Raises `ShapeError` if the ends of rays (n, d) [m] in all directions lie in one plane."""
    middle = np.mean(ends, axis=0)
    across = np.linalg.svd(ends - middle)[2][-1]
    thickness, reach = np.ptp((ends - middle) @ across), np.max(np.abs(ends))
    if thickness < FLAT * reach:
        raise EmptyShapeError(
            f"{name} is empty or flat: along {across} it is {thickness:.3g} m thick, less than {FLAT:g} of its largest "
            f"coordinate {reach:.3g} m, which contact cannot resolve."
        )


def _active(jet: Jet, theta, points) -> tuple[np.ndarray, np.ndarray]:
    """Which inequality (n, m) bounds the body at each surface point, and the lengths (n, m) of all
    gradients there."""
    values = jet.value(points, theta)
    return values >= np.max(values, axis=1, keepdims=True), np.linalg.norm(jet.gradient(points, theta), axis=-1)


def _check_gradient(jet: Jet, theta, points, name: str) -> None:
    with np.errstate(all="ignore"):
        missing = np.isnan(jet.gradient(points, theta)).any(axis=-1)
    for k, j in zip(*np.nonzero(missing), strict=True):
        raise NoNormalError(
            f"{name} has no normal at {points[k]}: inequality {j} has no gradient there, as sqrt(x**2 + y**2) has none on "
            "its axis. Write x**2 + y**2 - r**2 for sqrt(x**2 + y**2) - r, and cut a cone off below its apex as shapes.Cone "
            "is."
        )


def _check_normals_and_curvature(jet: Jet, theta, interior, points, name) -> tuple[float, float]:
    with np.errstate(all="ignore"):
        active, lengths = _active(jet, theta, points)
        gradients, hessians = jet.gradient(points, theta), jet.hessian(points, theta)
        nearby = np.linalg.norm(jet.gradient(points + _STEP_IN * (interior - points), theta), axis=-1)
        usable = (lengths > nearby / _STEEPEST) & (lengths < nearby * _STEEPEST) & np.isfinite(lengths)
    for k, j in zip(*np.nonzero(active & ~usable), strict=True):
        raise NoNormalError(
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
            raise NotConvexError(
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
        raise NotConvexError(
            f"{name} is not convex: {middle[worst]}, halfway between two of its points, has f = {outside[worst]:.3g} > 0. "
            "Split the body into convex parts."
        )
    return float(relative[worst])


def _check_one_part(jet: Jet, theta, interior, points, name: str) -> None:
    """Raises `ShapeError` if a ray that left the set at one of `points` (n, d) enters it again."""
    beyond = interior + _BEYOND[:, None, None] * (points - interior)
    depths = first_order_depth(jet, theta, beyond) / np.linalg.norm(beyond - interior, axis=-1)
    far, ray = np.unravel_index(np.argmax(depths), depths.shape)
    if depths[far, ray] > FLAT:
        raise NotConvexError(
            f"{name} is not convex: the line from {interior} to {beyond[far, ray]}, both inside, leaves it at {points[ray]}."
            " Split the body into convex parts, and give each an inequality that cuts off the others."
        )


def _check_edges(jet: Jet, theta, interior, points, name: str) -> None:
    """Raises `ShapeError` for an edge or a corner within one inequality, as |x| has at x = 0: each
    way between two of the points (n, d) is halved towards where the normal turns most, and so is
    the way over the surface there."""
    rng = np.random.default_rng(2)
    start, end = points[rng.integers(len(points), size=(2, _WAYS))]
    for j in range(jet.value(interior, theta).size):

        def normals(x, j=j):
            with np.errstate(all="ignore"):
                gradient = jet.gradient(x, theta)[:, j]
                return np.nan_to_num(gradient / np.linalg.norm(gradient, axis=-1, keepdims=True))

        kinks, across = _largest_turns(normals, start, end)
        turns = np.linalg.norm(across, axis=1)
        k = int(np.argmax(turns))
        if turns[k] < _JUMP:
            continue
        ray = (kinks[k] - interior) / np.linalg.norm(kinks[k] - interior)
        length = ray_lengths(jet, theta, interior, ray[None])[0]
        edge = interior + length * ray
        if not np.isfinite(length) or np.argmax(jet.value(edge, theta)) != j:
            continue  # not on the surface
        beside = _STEP_IN * length * across[k] / turns[k]
        _, on_surface = _largest_turns(normals, (edge - beside)[None], (edge + beside)[None])
        if np.linalg.norm(on_surface) > _JUMP:
            raise NoNormalError(
                f"{name} has an edge at {edge}: the normal of inequality {j} jumps there, which contact cannot follow. Give "
                "each face an inequality of its own, as max(f, g) <= 0 is the list [f, g], or use Polytope."
            )


def _largest_turns(normals, start, end):
    """Where (n, d) on the ways from `start` to `end` (n, d) normals change most, and how (n, d)
    over 2^-40 of each."""
    first, last = normals(start), normals(end)
    for _ in range(_HALVINGS):
        middle = (start + end) / 2
        n = normals(middle)
        early = (np.linalg.norm(n - first, axis=1) > np.linalg.norm(last - n, axis=1))[:, None]
        start, first = np.where(early, start, middle), np.where(early, first, n)
        end, last = np.where(early, middle, end), np.where(early, n, last)
    return start, last - first

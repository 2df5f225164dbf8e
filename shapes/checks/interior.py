"""A point inside a convex set, and where rays from it leave, whatever the unit of length and
wherever the origin.

Lengths are first sought among the powers of two, so that a set that is scaled by one gives the same
digits.
"""

from __future__ import annotations

import numpy as np

from ..errors import EmptyShapeError
from ..expressions.compile import Jet

REACHES = 2.0 ** np.arange(-60, 61)  # [m] from below an atom to above a light year
_BISECTIONS = 54  # of the span between two of them, to the last bit
# Contact is solved to 1e-10 of a scene's length: a body ten times as thin, relative to its largest
# coordinate, is flat.
FLAT = 1e-9
# A ray this many times as long as another from the same point is parallel to a face but for
# rounding.
ENDLESS = 1e15
_DEEP = 0.1  # of the depth of other points is enough for the origin
_SHALLOW = 1e-3  # of its distance from the origin is too little depth for a point on an axis
_NEARLY = 0.1  # a share of depth this much smaller is as good
_SEARCHES = 3  # for the deepest point, after the first
_ROUND_OFF = 1e-15  # a set less deep than this, relative to where it is, is empty but for rounding
_UNITS = REACHES[::10]  # of searches for a point that is deeper than one on the surface


def interior_point(jet: Jet, theta, dimension: int, name: str) -> np.ndarray:
    """A point (d,) with all f_j < 0: the origin, one on an axis that is much deeper, or else the
    deepest found.

    Raises `ShapeError` when the set is empty or flat.
    """
    point = _point_by_the_axes(jet, theta, dimension, name)
    depth = first_order_depth(jet, theta, point)
    if depth > FLAT * _width(jet, theta, point):
        return point
    # where a corner is at the origin but for rounding, all that is seen from there is as small
    found = np.stack([_lowest(jet, theta, point, _slopes(jet, theta, point, unit), unit) for unit in _UNITS])
    depths = first_order_depth(jet, theta, found)
    deepest = np.argmax(depths)
    return found[deepest] if _DEEP * depths[deepest] > depth else point


def _width(jet: Jet, theta, point) -> float:
    """How far () [m] the farthest inequality is from a point (d,) by values and slopes, or the
    largest radius of curvature there: about the size of the body, or more."""
    with np.errstate(all="ignore"):
        slopes = np.linalg.norm(jet.gradient(point, theta), axis=-1)
        radii = slopes / np.linalg.norm(jet.hessian(point, theta), axis=(-2, -1))
        lengths = np.concatenate([np.abs(jet.value(point, theta)) / slopes, radii])
    return np.max(lengths, where=np.isfinite(lengths), initial=0.0)


def _slopes(jet: Jet, theta, point, reach: float) -> np.ndarray:
    """The largest slope (m,) of each inequality that far from a point (d,) along the axes; 1 where
    there is none."""
    along = np.concatenate([np.eye(len(point)), -np.eye(len(point))])
    with np.errstate(all="ignore"):
        slopes = np.max(np.linalg.norm(jet.gradient(point + reach * along, theta), axis=-1), axis=0)
    return np.where(np.isfinite(slopes) & (slopes > 0), slopes, 1.0)


def slopes_at(jet: Jet, theta, points) -> np.ndarray:
    """The usual steepness (m,) [1/m] of each inequality at `points` (n, d), of those at which it is
    not flat; 1 where it is flat at all."""
    steep = np.linalg.norm(jet.gradient(points, theta), axis=-1)
    steep = np.where(np.isfinite(steep) & (steep > 0), steep, np.nan)
    return np.array([1.0 if np.all(np.isnan(own)) else np.nanmedian(own) for own in steep.T])


def _point_by_the_axes(jet: Jet, theta, dimension: int, name: str) -> np.ndarray:
    """A point (d,) with all f_j < 0 as `interior_point` has it, with lengths that are seen from the
    origin and the axes alone."""
    origin, along = np.zeros(dimension), np.concatenate([np.eye(dimension), -np.eye(dimension)])
    points = REACHES[None, :, None] * along[:, None, :]
    depths = first_order_depth(jet, theta, points)
    inside = depths > FLAT * REACHES
    chosen = np.array([_typical(row) for row in inside])
    rows = np.arange(len(along))
    of_axes = np.where(inside, depths, -np.inf)[rows, chosen]
    depth_of_origin = first_order_depth(jet, theta, origin)
    if depth_of_origin > 0 and depth_of_origin >= _DEEP * np.max(of_axes):
        return origin
    shares = np.minimum(of_axes / REACHES[chosen], 1.0)
    best = np.argmax(shares)
    if shares[best] > _SHALLOW:
        return points[best, chosen[best]]
    shares = depths / REACHES
    best = np.unravel_index(np.argmax(shares), shares.shape)
    nearest = _typical(shares[best[0]] >= shares[best] - _NEARLY)
    return _deepest_point(jet, theta, points[best[0], nearest], name)


def _typical(which) -> int:
    """An index of `REACHES` for what is so at `which` (n,) of them: half the last one; where there
    is no last one, twice the first; where there is neither, none is better than 1 m."""
    first, last = int(np.argmax(which)), len(which) - 1 - int(np.argmax(which[::-1]))
    if which[-1]:
        return len(which) // 2 if which[0] else min(first + 1, last)
    return max(last - 1, first)


def first_order_depth(jet: Jet, theta, points) -> np.ndarray:
    """How deep inside {f_j <= 0} points (..., d) are (...) [m] by values and slopes; infinite where
    no slope says."""
    with np.errstate(all="ignore"):
        values, slopes = jet.value(points, theta), np.linalg.norm(jet.gradient(points, theta), axis=-1)
        depths = -values / slopes
    depths = np.where(np.isnan(depths), np.where(values < 0, np.inf, -np.inf), depths)
    return np.min(depths, axis=-1)


def ray_lengths(jet: Jet, theta, interior, directions) -> np.ndarray:
    """How far (n,) [m] rays from an interior point in unit directions (n, d) stay inside; infinite
    where they always do."""

    def inside(distances):
        with np.errstate(all="ignore"):
            f = jet.value(interior + distances[..., None] * directions.reshape(-1, *[1] * (distances.ndim - 1), d), theta)
        return np.max(f, axis=-1) < 0

    d = len(interior)
    still = inside(np.broadcast_to(REACHES, (len(directions), len(REACHES))))
    leaves = np.argmin(still, axis=1)
    far = REACHES[leaves]
    near = np.where(leaves > 0, far / 2, 0.0)
    for _ in range(_BISECTIONS):
        middle = (near + far) / 2
        is_inside = inside(middle)
        near, far = np.where(is_inside, middle, near), np.where(is_inside, far, middle)
    return np.where(np.all(still, axis=1), np.inf, far)


def ends(lengths) -> np.ndarray:
    """Which rays of `lengths` (n,) [m] leave the body: those whose ends are no matter of rounding
    beside the nearest one."""
    return lengths < ENDLESS * np.min(lengths)


def _deepest_point(jet: Jet, theta, start, name: str) -> np.ndarray:
    """By a search from `start` (d,) that weighs inequalities by their slopes there; where that
    finds none, by others from where it ends that take them as they are, for slopes may be much
    smaller there."""
    slopes = np.linalg.norm(jet.gradient(start, theta), axis=-1)
    slopes = np.where(np.isfinite(slopes) & (slopes > 0), slopes, 1.0)
    point = _lowest(jet, theta, start, slopes, np.linalg.norm(start))
    for _ in range(_SEARCHES):
        if np.max(jet.value(point, theta) / slopes) < -_ROUND_OFF * np.linalg.norm(point):
            return point
        steepest = np.max(np.linalg.norm(jet.gradient(point, theta), axis=-1))
        slopes = np.full(len(slopes), steepest if steepest > 0 else 1.0)
        point = _lowest(jet, theta, point, slopes, np.linalg.norm(point))
    raise EmptyShapeError(
        f"{name} is empty or flat: the deepest point found, {point}, has max f = {np.max(jet.value(point, theta)):.3g}, "
        "which must be negative. Check the signs: the body is where every f_j(x) <= 0."
    )


def _lowest(jet: Jet, theta, start, slopes, reach: float) -> np.ndarray:
    """The point (d,) of least s with f_j <= s slope_j `reach` [m] for all j, sought from `start`; s
    stops at -1, as a half-space has no deepest point."""
    import scipy.optimize  # takes .2 s, which most shapes need not wait for

    d = len(start)

    def value(point):
        return jet.value(reach * point, theta) / (reach * slopes)

    def slope(point):
        gradients = np.nan_to_num(jet.gradient(reach * point, theta)) / slopes[:, None]
        return np.column_stack([-gradients, np.ones(len(slopes))])

    found = scipy.optimize.minimize(
        lambda point: point[-1],
        np.append(start / reach, np.max(value(start / reach))),
        jac=lambda point: np.eye(d + 1)[-1],
        bounds=[(None, None)] * d + [(-1.0, None)],
        constraints={
            "type": "ineq",
            "fun": lambda point: point[-1] - value(point[:-1]),
            "jac": lambda point: slope(point[:-1]),
        },
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    return reach * found.x[:-1]

"""Checks of a body put together from others: does it end in every direction, and does every
inequality bound it?"""

from __future__ import annotations

import numpy as np

from ..expressions.compile import Jet, compile_jet
from . import halfspaces
from .convexity import Report
from .interior import FLAT, ray_lengths, slopes_at

_STARTS = 3  # of the search for a point that only one inequality excludes
_ENDLESS = 1e6  # times its size is as far as a body must end
# normals added in the search for a direction without an end; a millionth of a radian takes about 40
_CUTS = 200


def endless(shape_class, theta, report: Report) -> np.ndarray | None:
    """A direction (d,) in which a convex body has no end within a million times its size, or None
    where it is bounded.

    Such a direction leans outward on no surface point. One is sought that satisfies this for the
    points known; where the body ends along it, that is one more point.
    """
    jet = compile_jet(shape_class.expressions, shape_class.dimension, shape_class.parameters, backend="numpy")
    theta, interior = np.asarray(theta, dtype=float), report.interior_point

    def outward(points):
        gradients = jet.gradient(points, theta)[np.arange(len(points)), np.argmax(jet.value(points, theta), axis=1)]
        return gradients / np.linalg.norm(gradients, axis=1, keepdims=True)

    normals = outward(report.surface_points)
    for _ in range(_CUTS):
        direction = halfspaces.escape(normals)
        if direction is None:
            return None
        length = ray_lengths(jet, theta, interior, direction[None])
        if length >= _ENDLESS * _size(report):
            return direction
        normals = np.concatenate([normals, outward(interior + length * direction[None])])
    return None


def superfluous(shape_class, theta, report: Report) -> list[int]:
    """Indices j of the inequalities that cut off nothing from the set of the others, each by
    itself.

    An inequality is needed if it alone is active at a sampled surface point, and else if a search
    from the sampled points where it is largest finds one outside it that all others allow.
    """
    jet = compile_jet(shape_class.expressions, shape_class.dimension, shape_class.parameters, backend="numpy")
    theta = np.asarray(theta, dtype=float)
    points = report.surface_points
    slopes = slopes_at(jet, theta, points)
    size = _size(report)
    excess = jet.value(points, theta) / (slopes * size)
    found = []
    for j in range(shape_class.count):
        others = np.max(np.delete(excess, j, axis=1), axis=1, initial=-np.inf)
        if np.any(excess[:, j] - others > FLAT):
            continue
        starts = points[np.argsort(-excess[:, j])[:_STARTS]]
        if not any(_farthest_outside(jet, theta, slopes, size, j, start) > FLAT for start in starts):
            found.append(j)
    return found


def _size(report: Report) -> float:
    """A body's typical radius [m]."""
    return float(np.median(np.linalg.norm(report.surface_points - report.interior_point, axis=1)))


def _farthest_outside(jet: Jet, theta, slopes, size, j: int, start) -> float:
    """The largest f_j over the set of the other inequalities that is found from `start` (d,), in
    lengths of the body."""
    import scipy.optimize  # takes .2 s, which most shapes need not wait for

    def values(point):
        return jet.value(start + size * point, theta) / (slopes * size)

    def gradients(point):
        return jet.gradient(start + size * point, theta) / slopes[:, None]

    search = scipy.optimize.minimize(
        lambda point: -values(point)[j],
        np.zeros(len(start)),
        jac=lambda point: -gradients(point)[j],
        constraints={
            "type": "ineq",
            "fun": lambda point: -np.delete(values(point), j),
            "jac": lambda point: -np.delete(gradients(point), j, axis=0),
        },
        method="SLSQP",
        options={"maxiter": 200, "ftol": 1e-14},
    )
    return -search.fun

"""Moments of a convex body by quadrature over the rays from a point inside it, to `TOLERANCE` or a `ShapeError`.

With t(w) the distance at which the ray w leaves the body, the integral of a homogeneous g of degree k over it is that of
t^(d+k) / (d+k) g(w) over the directions. Panels are bisected until the difference of two rules, summed over them all without
regard to sign, is below the tolerance: Gauss's and Lobatto's, whose points at the ends see a kink that Gauss's just miss.
"""

from __future__ import annotations

import functools

import numpy as np

from .exits import Balanced, balanced
from .fans import Fans, fans
from .moments import Moments
from .rounding import closing_terms, closure, face_terms, full_angle
from .symbols import ShapeError
from .tiling import tile

TOLERANCE = 1e-8  # largest relative error of a quadrature
# Points of a tiling, and rays that may then be cast. A finer tiling sees smaller faces and is seldom needed.
_STAGES = {2: ((24, 20_000), (400, 1_000_000)), 3: ((92, 400_000), (368, 1_000_000), (1472, 40_000_000))}
_ORDERS = {2: (12, 11), 3: (8, 7)}  # points of the two rules along each parameter
_TRIAL = 16  # what share of the rays tells whether the rest are worth casting
_PANELS_AT_ONCE = 512


def integrate(shape_class, theta) -> Moments:
    """Moments of a shape class at theta (k,), grown by its radius. Raises `ShapeError` for a body that is unbounded, or whose
    moments are not found to `TOLERANCE`."""
    return _integrate(shape_class, tuple(np.asarray(theta, dtype=float).tolist()))


@functools.lru_cache(maxsize=1024)
def _integrate(shape_class, theta: tuple[float, ...]) -> Moments:
    body, radius = balanced(shape_class, theta), float(shape_class.radius(theta))
    for points, rays in _STAGES[body.dimension]:
        tiling = tile(body, points)
        terms, error = _adapted(fans(tiling), radius, rays)
        if radius > 0:
            terms = terms + closing_terms(tiling, radius)
            error = max(error, closure(body, terms))
        if error <= TOLERANCE:
            return _moments(body, terms, error)
    raise ShapeError(
        f"{shape_class.name}: its volume and inertia were found to a relative error of {error:.2g}, which must be "
        f"{TOLERANCE:g}. Give the body its `mass` and `inertia`."
    )


def _moments(body: Balanced, terms, error) -> Moments:
    """From int 1, y, y y^T dy over the body to the shape's coordinates x = centre + axes y."""
    d = body.dimension
    (volume,), first, second, _ = np.split(np.linalg.det(body.axes) * terms, [1, 1 + d, 1 + d + d * d])
    first, second = body.axes @ first, body.axes @ second.reshape(d, d) @ body.axes.T
    cross = np.outer(body.centre, first)
    second = second + cross + cross.T + volume * np.outer(body.centre, body.centre)
    return Moments(volume, first + volume * body.centre, (second + second.T) / 2, error)


def _adapted(panels: Fans, radius: float, most_rays: int) -> tuple[np.ndarray, float]:
    """The integral (c,) of `_integrand` over all fans, and a bound of its relative error."""
    d = panels.body.dimension
    owner = np.arange(len(panels.sides))
    lows, highs = np.zeros((len(owner), d - 1)), np.ones((len(owner), d - 1))
    fine, off = _rules(panels, radius, owner, lows, highs)
    rays = 0
    while True:
        total = np.sum(fine, axis=0)
        errors = np.max(np.abs(off) / _scales(panels.body, total), axis=1)
        rays += len(owner) * _ORDERS[d][0] ** (d - 1)
        order = np.argsort(errors)
        settled = np.cumsum(errors[order]) <= TOLERANCE / 2
        error = float(np.sum(errors))
        # Kinks inside panels converge to second order; what is far from that will not converge either.
        hopeless = rays > most_rays / _TRIAL and not error * (rays / most_rays) ** 2 < 10 * TOLERANCE
        if error <= TOLERANCE or rays > most_rays or hopeless:
            return total, error
        kept, split = order[settled], order[~settled]
        parts = _halves(owner[split], lows[split], highs[split])
        new_fine, new_off = _rules(panels, radius, *parts)
        owner, lows, highs = (np.concatenate([old[kept], new]) for old, new in zip((owner, lows, highs), parts, strict=True))
        fine, off = np.concatenate([fine[kept], new_fine]), np.concatenate([off[kept], new_off])


def _rules(panels: Fans, radius, owner, lows, highs) -> tuple[np.ndarray, np.ndarray]:
    """Integrals (k, c) over panels by Gauss's rule, and its differences from Lobatto's."""
    results = []
    for rule, order in zip((np.polynomial.legendre.leggauss, _lobatto), _ORDERS[panels.body.dimension], strict=True):
        nodes, weights = rule(order)
        weights = functools.reduce(np.multiply.outer, [weights / 2] * lows.shape[1]).ravel()
        blocks = []
        for start in range(0, len(owner), _PANELS_AT_ONCE):
            block = slice(start, start + _PANELS_AT_ONCE)
            rays, elements = panels.rays(owner[block], lows[block], highs[block], (nodes + 1) / 2)
            faces = np.repeat(panels.cell_faces[owner[block]], len(weights))
            terms = _integrand(panels.body, radius, rays.reshape(-1, rays.shape[-1]), elements.ravel(), faces)
            blocks.append(np.einsum("kpc,p->kc", terms.reshape(*elements.shape, -1), weights))
        results.append(np.concatenate(blocks))
    return results[0], results[0] - results[1]


def _lobatto(order: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on [-1, 1], ends included."""
    polynomial = np.polynomial.legendre.Legendre.basis(order - 1)
    nodes = np.concatenate([[-1.0], np.sort(polynomial.deriv().roots()), [1.0]])
    return nodes, 2 / (order * (order - 1) * polynomial(nodes) ** 2)


def _integrand(body: Balanced, radius: float, rays, elements, faces) -> np.ndarray:
    """Terms (n, c): shares of int 1, y, y y^T dy of the cones over the surface at rays (n, d) of element dw (n,), and of the
    layer above it where the body is grown by a radius; faces (n,): the inequalities that the surface should be on."""
    d, t = body.dimension, body.exits(rays)
    y, cone = t[:, None] * rays, t**d * elements
    squares = (y[:, :, None] * y[:, None, :]).reshape(len(y), -1)
    terms = cone[:, None] * np.concatenate([np.full((len(y), 1), 1 / d), y / (d + 1), squares / (d + 2)], axis=1)
    if radius == 0:
        return terms
    layer = face_terms(body, radius, y, cone, faces)
    layer[:, : terms.shape[1]] += terms
    return layer


def _scales(body: Balanced, total) -> np.ndarray:
    """What each term is compared with (c,): the volume, times the rms widths of the body; (area, area, full angle)."""
    d = body.dimension
    volume, second = total[0], total[1 + d : 1 + d + d * d].reshape(d, d)
    widths = np.sqrt(np.abs(np.diag(second) / volume))
    moments = abs(volume) * np.concatenate([[1.0], widths, np.outer(widths, widths).ravel()])
    if len(total) == len(moments):
        return moments
    area = abs(total[-3])
    return np.concatenate([moments, [area, (d - 1) * area, full_angle(d) / np.linalg.det(body.axes)]])


def _halves(owner, lows, highs):
    """Panels cut in two along every parameter."""
    middle = (lows + highs) / 2
    for axis in range(lows.shape[1]):
        upper, lower = lows.copy(), highs.copy()
        upper[:, axis], lower[:, axis] = middle[:, axis], middle[:, axis]
        owner, middle = np.tile(owner, 2), np.tile(middle, (2, 1))
        lows, highs = np.concatenate([lows, upper]), np.concatenate([lower, highs])
    return owner, lows, highs

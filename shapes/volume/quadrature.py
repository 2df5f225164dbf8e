"""Moments of a convex body by quadrature over the rays from a point inside it, to `TOLERANCE` or a
`ShapeError`.

With t(w) the distance at which the ray w leaves the body, the integral of a homogeneous g of degree
k over it is that of t^(d+k) / (d+k) g(w) over the directions.
"""

from __future__ import annotations

import functools

import jax
import numpy as np

from ..errors import MomentsError
from ..moments import Moments
from .cone_panels import Fans, fans
from .cubature import TOLERANCE, integrate_cubes
from .ray_casting import Balanced, balanced
from .rounding import Layer
from .triangulation import tile

# Points of a tiling, rays that may then be cast, and rays that tell whether more are worth while. A
# finer tiling sees smaller faces and is seldom needed.
_STAGES = {
    2: ((24, 20_000, 20_000), (400, 1_000_000, 1_000_000)),
    3: ((92, 1_000_000, 1_000_000), (1472, 25_000_000, 400_000)),
}
_LAYER_COST = 4  # of a ray on to which a layer is integrated, in rays without
_LAYER_TRIAL = 60_000  # rays that tell whether a layer will be found
_ORDERS = {2: (12, 11), 3: (8, 7)}  # points of the two rules along each parameter


def integrate(shape_class, theta) -> Moments:
    """Moments of a shape class at theta (k,), grown by its radius.

    Raises `ShapeError` for a body that is unbounded, or whose moments are not found to `TOLERANCE`,
    and for traced values.
    """
    if isinstance(theta, jax.core.Tracer):
        raise MomentsError(
            f"{shape_class.name} has no closed form for its moments, and quadrature needs numbers: take its moments outside "
            "of traced functions, or give the body its `mass` and `inertia`."
        )
    return _integrate(shape_class, tuple(np.asarray(theta, dtype=float).tolist()))


@functools.lru_cache(maxsize=1024)
def _integrate(shape_class, theta: tuple[float, ...]) -> Moments:
    body, radius = balanced(shape_class, theta), float(shape_class.radius(theta))
    d = body.dimension
    for points, *counts in _STAGES[d]:
        tiling = tile(body, points)
        layer = Layer.over(tiling, radius)
        panels = fans(tiling)
        evaluate = functools.partial(_terms, panels, layer)
        scales = functools.partial(_scales, layer)
        most, trial = counts if radius == 0 else (counts[0] // _LAYER_COST, min(counts[1] // _LAYER_COST, _LAYER_TRIAL))
        terms, error = integrate_cubes(evaluate, len(panels.sides), d - 1, scales, _ORDERS[d], most, trial)
        if radius > 0 and error <= TOLERANCE:
            terms, lost = layer.closed(terms, scales(terms))
            error += lost
        if error <= TOLERANCE:
            return _placed(body, terms, error)
    raise MomentsError(
        f"{shape_class.name}: its volume and inertia were found to a relative error of {error:.2g}, which must be "
        f"{TOLERANCE:g}. Give the body its `mass` and `inertia`."
    )


def _placed(body: Balanced, terms, error) -> Moments:
    """From int 1, y, y y^T dy over the body to the shape's coordinates x = centre + axes y."""
    d = body.dimension
    (volume,), first, second, _ = np.split(np.linalg.det(body.axes) * terms, [1, 1 + d, 1 + d + d * d])
    first, second = body.axes @ first, body.axes @ second.reshape(d, d) @ body.axes.T
    second = (second + second.T) / 2
    central, cross = second - np.outer(first, first) / volume, np.outer(body.centre, first)
    second = second + cross + cross.T + volume * np.outer(body.centre, body.centre)
    return Moments(volume, first + volume * body.centre, second, error, central)


def _terms(panels: Fans, layer: Layer, owner, lows, highs, nodes) -> np.ndarray:
    """Terms (k, p, c) at the points of panels: int 1, y, y y^T dy over the cones below them, and of
    the layer above them."""
    d = panels.body.dimension
    rays, elements = panels.rays(owner, lows, highs, nodes)
    shape, rays = elements.shape, rays.reshape(-1, d)
    t = panels.body.exits(rays)
    y, cone = t[:, None] * rays, t**d * elements.ravel()
    squares = (y[:, :, None] * y[:, None, :]).reshape(len(y), -1)
    terms = cone[:, None] * np.concatenate([np.full((len(y), 1), 1 / d), y / (d + 1), squares / (d + 2)], axis=1)
    if layer.radius > 0:
        above = layer.over_faces(y, cone, np.repeat(panels.cell_faces[owner], shape[1]))
        terms = np.concatenate([terms + above[:, : terms.shape[1]], above[:, terms.shape[1] :]], axis=1)
    return terms.reshape(*shape, -1)


def _scales(layer: Layer, terms) -> np.ndarray:
    """What the terms (c,) are compared with: the volume, times the rms widths of the body, and
    those of the layer."""
    d = layer.body.dimension
    volume, second = abs(terms[0]), terms[1 + d : 1 + d + d * d].reshape(d, d)
    widths = np.sqrt(np.abs(np.diag(second)) / volume)
    moments = volume * np.concatenate([[1.0], widths, np.outer(widths, widths).ravel()])
    return moments if layer.radius == 0 else np.concatenate([moments, layer.scales(volume)])

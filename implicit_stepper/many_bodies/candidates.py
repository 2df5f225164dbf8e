"""Pairs of parts that may touch within a step: balls around them overlap somewhere between its
poses, and no face of either keeps them apart."""

from __future__ import annotations

import numpy as np

from shapes.expressions.compile import compile_jet

from ..collision.broad_phase import overlapping
from ..model import poses
from ..scene.compound import Part
from .catalog import Catalog

_LARGER = 4.0  # times the radius of another ball: a part of which more is asked than its ball


def near(catalog: Catalog, position, orientation, reach) -> np.ndarray:
    """Pairs (m, 2) of parts, the lower number first, that may be closer than the sum of their
    `reach` (np,) [m], where all bodies, fixed ones last, have `position` (n, d) and `orientation`
    (n, 4 or 1)."""
    turns = poses.matrices(orientation)
    centres = position[catalog.body] + np.einsum("pij,pj->pi", turns[catalog.body], catalog.centre)
    radii = catalog.outer + reach
    bounded = np.flatnonzero(np.isfinite(catalog.outer))
    pairs = bounded[overlapping(centres[bounded], radii[bounded])]
    endless = np.flatnonzero(np.isinf(catalog.outer))
    more = np.stack(np.meshgrid(bounded, endless, indexing="ij"), axis=-1).reshape(-1, 2)
    both = endless[np.stack(np.triu_indices(len(endless), 1), axis=1)]
    pairs = np.concatenate([pairs, np.sort(more, axis=1), both])
    pairs = pairs[catalog.body[pairs[:, 0]] != catalog.body[pairs[:, 1]]]
    pairs = pairs[catalog.pairs.laws_of(catalog.body[pairs])[0] >= 0]
    apart = catalog.hulls.apart(pairs, catalog.body, position, turns)
    pairs = pairs[apart <= np.sum(reach[pairs], axis=1)]
    kept = np.ones(len(pairs), bool)
    for large, small in ((0, 1), (1, 0)):
        wide = catalog.outer[pairs[:, large]] > _LARGER * radii[pairs[:, small]]
        for part in np.unique(pairs[wide, large]):
            rows = np.flatnonzero(wide & (pairs[:, large] == part))
            others = pairs[rows, small]
            body = catalog.body[part]
            height = heights(catalog.parts[part], position[body], turns[body], centres[others])
            kept[rows] &= height <= radii[others] + reach[part]
    return pairs[kept]


def heights(part: Part, position, turn, points) -> np.ndarray:
    """At least how far (n,) [m] `points` (n, d) are from a part of a body at `position` (d,) with
    the rotation `turn` (d, d): f / |grad f| of a convex f."""
    of, theta = part.shape.shape_class, np.asarray(part.shape.theta)
    jet = compile_jet(of.expressions, of.dimension, of.parameters, backend="numpy")
    local = ((points - position) @ turn - part.position) @ part.rotation
    slopes = np.linalg.norm(jet.gradient(local, theta), axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.max(np.where(slopes > 0, jet.value(local, theta) / slopes, -np.inf), axis=-1) - of.radius(theta)

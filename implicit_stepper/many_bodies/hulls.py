"""How far parts are apart at least, along the normals of their flat faces.

Any plane between two convex bodies shows how far they are apart at least. Of a body with flat faces
those in its faces are tried: of boxes that lie on each other, or beside each other, one of them
tells the distance, where balls around them overlap long before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from shapes.closest_points.extent import extent

from ..collision.separating_axes import features
from ..scene.compound import Part


@dataclasses.dataclass(frozen=True)
class Hulls:
    """Of np parts, in the axes of their bodies: `corners` (np, k, d) [m] whose hull, grown by
    `radius` (np,) [m], holds the part, and outward `normals` (np, m, d) of flat faces; both filled
    up, with a corner that is there already and with zeros. A part without flat faces has the centre
    of its ball for a corner."""

    corners: np.ndarray
    normals: np.ndarray
    radius: np.ndarray

    def apart(self, pairs, body, position, turns) -> np.ndarray:
        """At least how far (m,) [m] the parts of `pairs` (m, 2) are apart, which belong to the
        bodies `body` (np,) with `position` (n, d) and `turns` (n, d, d); zero or less where no face
        tells."""
        corners, normals = [], []
        for parts in pairs.T:
            turn = turns[body[parts]]
            corners.append(np.einsum("mij,mkj->mki", turn, self.corners[parts]) + position[body[parts], None])
            normals.append(np.einsum("mij,mkj->mki", turn, self.normals[parts]))
        found = np.full(len(pairs), -np.inf)
        for own, other in ((0, 1), (1, 0)):
            far = np.max(np.einsum("mai,mki->mak", normals[own], corners[own]), axis=2)
            near = np.min(np.einsum("mai,mki->mak", normals[own], corners[other]), axis=2)
            found = np.maximum(found, np.max(near - far, axis=1))
        return found - np.sum(self.radius[pairs], axis=1)


def hulls(parts: Sequence[Part]) -> Hulls:
    """The hulls of `parts`."""
    found = [_hull(part) for part in parts]
    corners, normals = ([own[i] for own in found] for i in (0, 1))
    most = max(map(len, corners))
    filled = [np.concatenate([own, np.repeat(own[:1], most - len(own), axis=0)]) for own in corners]
    most = max(map(len, normals))
    padded = [np.concatenate([own, np.zeros((most - len(own), own.shape[1]))]) for own in normals]
    return Hulls(np.stack(filled), np.stack(padded), np.array([own[2] for own in found]))


def _hull(part: Part) -> tuple[np.ndarray, np.ndarray, float]:
    """Corners, normals and radius of one part."""
    flat, ball = features(part.shape), extent(part.shape)
    if flat is None:
        centre = part.position + part.rotation @ ball.centre
        return centre[None], np.zeros((1, len(centre))), ball.outer
    corners, normals, _ = flat
    radius = part.shape.shape_class.radius(np.asarray(part.shape.theta))
    return part.position + corners @ part.rotation.T, normals @ part.rotation.T, float(radius)

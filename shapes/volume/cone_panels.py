"""Parameters of the rays through a body's surface, smooth on every panel: w(rho, s) = (1 - rho)
apex + rho b(s) over a cell.

b runs along one side of the cell, and follows the body's edge where that side is one. Then the
distance at which the ray leaves the body is a smooth function of (rho, s), and the element of
directions is dw = rho det(apex, b, b') drho ds. In the plane w(s) = b(s) and dw = det(b, b') ds.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from .edges import curve
from .ray_casting import Balanced
from .triangulation import Tiling

_PROBES = np.linspace(0, 1, 9)  # shares of a side at which its curve must be found
# of the angle between the normals of two faces, for an edge between them to be followed
_LEAST_SINE = 0.05


@dataclasses.dataclass(frozen=True)
class Fans:
    """sides (k, 2, d): the ends of b, apexes (k, d), all y in balanced coordinates; in the plane
    apexes are not used.

    cell_faces (k,): the inequality that the cell is on. curved (k,): whether b follows the edge
    between inequalities `faces` (k, 2) instead of the chord.
    """

    body: Balanced
    sides: np.ndarray
    apexes: np.ndarray
    cell_faces: np.ndarray
    curved: np.ndarray
    faces: np.ndarray

    def rays(self, owner, lows, highs, nodes) -> tuple[np.ndarray, np.ndarray]:
        """Rays w (k, p, d) and elements dw (k, p), without quadrature weights, at the points of a
        product rule.

        owner (k,): the fan of each panel; lows, highs (k, d-1): its parameters (s, rho); nodes (q,)
        in [0, 1].
        """
        d, width = self.body.dimension, highs - lows
        grid = lows[:, None, :] + nodes[None, :, None] * width[:, None, :]
        side, slope = self._along_sides(owner, grid[..., 0])
        if d == 2:
            return side, (side[..., 0] * slope[..., 1] - side[..., 1] * slope[..., 0]) * width
        apex, rho = self.apexes[owner][:, None, None], grid[:, :, None, 1, None]
        rays = (1 - rho) * apex + rho * side[:, None]
        elements = rho[..., 0] * np.sum(apex[:, 0] * np.cross(side, slope), axis=-1)[:, None]
        count = len(owner), len(nodes) ** 2
        return rays.reshape(*count, d), elements.reshape(count) * np.prod(width, axis=1)[:, None]

    def _along_sides(self, owner, s) -> tuple[np.ndarray, np.ndarray]:
        first, last = self.sides[owner, 0][:, None], self.sides[owner, 1][:, None]
        side = first + s[..., None] * (last - first)
        slope = np.broadcast_to(last - first, side.shape).copy()
        curved = self.curved[owner]
        fans, count = np.repeat(owner[curved], s.shape[1]), s.shape[1]
        if len(fans):
            found = curve(self.body, s[curved].ravel(), self.sides[fans], self.faces[fans])
            side[curved], slope[curved] = (v.reshape(-1, count, self.body.dimension) for v in found)
        return side, slope


def fans(tiling: Tiling) -> Fans:
    """One fan a cell, opposite its curved side; where a cell has several curved sides, three from
    its middle."""
    body, points = tiling.body, tiling.points
    if body.dimension == 2:
        none = np.zeros((len(tiling.cells), 2), dtype=int)
        return Fans(body, points[tiling.cells], none, tiling.faces, np.zeros(len(none), dtype=bool), none)
    curved = _curved_sides(tiling)
    sides, apexes, own, faces = [], [], [], []
    for cell, face in zip(tiling.cells.tolist(), tiling.faces.tolist(), strict=True):
        around = [(cell[k], cell[(k + 1) % 3], cell[(k + 2) % 3]) for k in range(3)]
        bent = [side for side in around if side[:2] in curved]
        for first, last, opposite in around if len(bent) > 1 else bent or around[:1]:
            sides.append((first, last))
            apexes.append(np.mean(points[cell], axis=0) if len(bent) > 1 else points[opposite])
            own.append(face)
            faces.append(curved.get((first, last), (-1, -1)))
    faces = np.array(faces)
    return Fans(body, points[np.array(sides)], np.array(apexes), np.array(own), faces[:, 0] >= 0, faces)


def _curved_sides(tiling: Tiling) -> dict[tuple[int, int], tuple[int, int]]:
    """The inequalities of the edges along cells, by the pairs of points that they join, in both
    orders.

    Without those where the two faces are nearly tangent: there the edge is hard to follow, and
    hardly an edge.
    """
    ends, faces = tiling.edges()
    sharp, rows = np.ones(len(ends), dtype=bool), np.arange(len(ends))[:, None]
    for s in _PROBES:
        point, _ = curve(tiling.body, np.full(len(ends), s), tiling.points[ends], faces)
        normals = tiling.body.gradient(point)[rows, faces]
        normals = normals / np.linalg.norm(normals, axis=-1, keepdims=True)
        sharp &= np.linalg.norm(np.cross(normals[:, 0], normals[:, 1]), axis=1) > _LEAST_SINE
    curved = {tuple(pair): tuple(sides) for pair, sides in zip(ends[sharp].tolist(), faces[sharp].tolist(), strict=True)}
    return curved | {pair[::-1]: sides for pair, sides in curved.items()}

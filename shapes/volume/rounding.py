"""The layer that growing a convex body by a radius r adds to it: over its faces, around its edges
and around its corners.

The points of the layer are a + t n, with a on the body, n one of its unit normals at a and 0 <= t
<= r; their volume element is (1 + e1 t + e2 t^2) dt dA on a face with symmetric functions e1, e2 of
its curvatures, t (1 + c t) dt dphi ds on an edge, where n sweeps the angle phi and c = -a''.n, and
t^2 dt dn on a corner, where n sweeps a solid angle (Steiner's formula).

Terms are int 1, y, y y^T dy in balanced coordinates, then three numbers that tell whether faces,
edges and corners are all there: the area A, int (x.n) e1 dA and int e_{d-1} dA, all in units of
det(axes). Edges and corners complete the second to (d-1) A and the third to the full angle
(Minkowski and Gauss-Bonnet), and add nothing negative to either.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from .cubature import gauss, integrate_cubes
from .edges import ON, curve
from .normals import arcs, cone_integrals, unit_normals
from .ray_casting import Balanced
from .triangulation import Tiling

_EDGE_ORDERS, _MOST_POINTS = (12, 11), 20_000  # of the two rules along an edge
_ARC_ORDER = 12  # points along an arc of normals, which are trigonometric functions
_CAUTION = 10.0  # by how much more a lost edge can weigh in the inertia than in the volume


@dataclasses.dataclass(frozen=True)
class Layer:
    """Of `radius` [m] over a tiled body; height [m] is the least distance of its tangent planes
    from its centre."""

    tiling: Tiling
    radius: float
    height: float

    @staticmethod
    def over(tiling: Tiling, radius: float) -> Layer:
        """The layer, with the height found at the tiling's points."""
        n = unit_normals(tiling.body, tiling.points)
        heights = np.einsum("nmd,nd->nm", n, tiling.points @ tiling.body.axes.T)
        return Layer(tiling, radius, float(np.min(heights[tiling.active])))

    @property
    def body(self) -> Balanced:
        """The body below."""
        return self.tiling.body

    def over_faces(self, y, cone, faces) -> np.ndarray:
        """Terms (n, c) over surface points y (n, d), where the cone below the surface element has
        volume cone / d.

        faces (n,): the inequality to take the normal of, where it is active; on an edge it decides
        between two.
        """
        body, rows = self.body, np.arange(len(y))
        place, f = body.place(y), body.value(y)
        with np.errstate(all="ignore"):
            gradients, hessians = body.jet.gradient(place, body.theta), body.jet.hessian(place, body.theta)
        on = f[rows, faces] > -ON * np.linalg.norm(gradients[rows, faces] @ body.axes, axis=1)
        face = np.where(on, faces, np.argmax(f, axis=1))
        gradient, hessian = gradients[rows, face], hessians[rows, face]
        slope = np.linalg.norm(gradient, axis=1)
        n = gradient / slope[:, None]
        bent = np.einsum("nij,nj->ni", hessian, n)
        along = np.sum(bent * n, axis=1)
        e1 = (np.trace(hessian, axis1=1, axis2=2) - along) / slope
        squares = (np.sum(hessian**2, axis=(1, 2)) - 2 * np.sum(bent**2, axis=1) + along**2) / slope**2
        e2 = (e1**2 - squares) / 2
        area = cone / np.sum(y @ body.axes.T * n, axis=1)
        powers = _powers(self.radius, 1) + e1 * _powers(self.radius, 2) + e2 * _powers(self.radius, 3)
        return self._terms(y, n, area, powers, [area, cone * e1, area * (e1 if body.dimension == 2 else e2)])

    def closed(self, terms, scales) -> tuple[np.ndarray, float]:
        """The terms (c,) of body and faces with those of edges and corners, and the error that this
        adds, relative to `scales` (c,)."""
        d, error = self.body.dimension, 0.0
        for point, active in zip(self.tiling.points, self.tiling.active, strict=True):
            if np.sum(active) >= d:
                terms = terms + self._around_corner(point, unit_normals(self.body, point[None])[0, active])
        ends, faces = self.tiling.edges() if d == 3 else ((), ())
        if len(ends):

            def evaluate(owner, lows, highs, nodes):
                return self._around_edges(ends[owner], faces[owner], lows, highs, nodes)

            around, error = integrate_cubes(
                evaluate, len(ends), 1, lambda _: scales, _EDGE_ORDERS, _MOST_POINTS, trial=_MOST_POINTS
            )
            terms = terms + around
        area, support, angle = terms[-3:]
        missing = np.array([(d - 1) * area - support, 2 * np.pi * (d - 1) / np.linalg.det(self.body.axes) - angle])
        return terms, error + float(np.max(np.abs(missing) / scales[-2:]))

    def scales(self, volume: float) -> np.ndarray:
        """Errors (3,) of area, support and angle that may change the volume and inertia of a body
        of that volume by as much as they are, if they are due to edges and corners that are not
        there."""
        d = self.body.dimension
        support = 2 * self.height * volume / self.radius**2 / _CAUTION
        return np.array([support, support, d * volume / self.radius**d / _CAUTION])

    def _around_edges(self, ends, faces, lows, highs, nodes) -> np.ndarray:
        """Terms (k, q, c) at the shares lows + nodes (highs - lows) of the edges between points
        `ends` (k, 2)."""
        body, count = self.body, len(nodes)
        width = np.repeat(highs - lows, count)
        chords, faces = np.repeat(self.tiling.points[ends], count, axis=0), np.repeat(faces, count, axis=0)
        y, slope = curve(body, np.repeat(lows, count) + np.tile(nodes, len(ends)) * width, chords, faces)
        rows = np.arange(len(y))[:, None]
        phi, phi_weights = gauss(_ARC_ORDER)
        n, angle = arcs(*np.moveaxis(unit_normals(body, y)[rows, faces], 1, 0), phi)
        tangent = slope @ body.axes.T
        length = np.linalg.norm(tangent, axis=1)
        c = -np.sum(_curvature(body, y, faces, tangent / length[:, None])[:, None] * n, axis=-1).ravel()
        weights = ((width * length * angle)[:, None] * phi_weights).ravel() / np.linalg.det(body.axes)
        y, n = np.repeat(y, len(phi), axis=0), n.reshape(-1, 3)
        powers = _powers(self.radius, 2) + c * _powers(self.radius, 3)
        support = weights * np.sum(y @ body.axes.T * n, axis=1)
        terms = self._terms(y, n, weights, powers, [0 * weights, support, weights * c])
        return np.sum(terms.reshape(len(ends), count, len(phi), -1), axis=2)

    def _around_corner(self, y, normals) -> np.ndarray:
        """Terms (c,) of the sector over a corner y (d,) with unit normals (k, d)."""
        body = self.body
        d, x = body.dimension, body.axes @ y
        angle, first, second = cone_integrals(normals, x)
        m, mm = np.linalg.solve(body.axes, first), np.linalg.solve(body.axes, np.linalg.solve(body.axes, second).T)
        zeroth, linear, square = _powers(self.radius, d)[:, 0]
        # on a corner in space (x.n) has no e1 to go with
        support = np.sum(x * first) if d == 2 else 0.0
        squares = zeroth * angle * np.outer(y, y) + linear * (np.outer(y, m) + np.outer(m, y)) + square * mm
        moments = [zeroth * angle], zeroth * angle * y + linear * m, squares.ravel()
        return np.concatenate([*moments, [0.0, support, angle]]) / np.linalg.det(body.axes)

    def _terms(self, y, n, weights, powers, checks) -> np.ndarray:
        """Terms (q, c) of segments y + t n of weights (q,), where powers (3, q) are int t^k along
        them, k = 0, 1, 2."""
        m = np.linalg.solve(self.body.axes, n.T).T
        zeroth, first, second = weights * powers
        ym = y[:, :, None] * m[:, None, :]
        squares = (
            zeroth[:, None, None] * y[:, :, None] * y[:, None, :]
            + first[:, None, None] * (ym + np.swapaxes(ym, 1, 2))
            + second[:, None, None] * m[:, :, None] * m[:, None, :]
        )
        moments = [zeroth[:, None], zeroth[:, None] * y + first[:, None] * m, squares.reshape(len(y), y.shape[1] ** 2)]
        return np.concatenate([*moments, np.stack(checks, axis=1)], axis=1)


def _powers(radius: float, order: int) -> np.ndarray:
    """Integrals (3, 1) of t^(k + order - 1) from 0 to the radius, k = 0, 1, 2."""
    exponents = np.arange(3)[:, None] + order
    return radius**exponents / exponents


def _curvature(body: Balanced, y, faces, tangent) -> np.ndarray:
    """Second derivatives a'' (n, 3) [1/m] along the edges f_i = f_j = 0 with unit tangents (n, 3),
    by arc length."""
    rows = np.arange(len(y))[:, None]
    gradients, hessians = (part(body.place(y), body.theta)[rows, faces] for part in (body.jet.gradient, body.jet.hessian))
    matrix = np.concatenate([gradients, tangent[:, None]], axis=1)
    pull = -np.einsum("nkij,ni,nj->nk", hessians, tangent, tangent)
    return np.linalg.solve(matrix, np.concatenate([pull, np.zeros((len(y), 1))], axis=1)[..., None])[..., 0]

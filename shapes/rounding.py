"""The layer that growing a convex body by a radius r adds to it: over its faces, around its edges and around its corners.

The points of the layer are a + t n, with a on the body, n one of its unit normals at a and 0 <= t <= r; their volume element
is (1 + e1 t + e2 t^2) dt dA on a face with symmetric functions e1, e2 of its curvatures, t (1 + c t) dt dphi ds on an edge,
where n sweeps the angle phi and c = -a''.n, and t^2 dt dn on a corner, where n sweeps a solid angle (Steiner's formula).

Terms are int 1, y, y y^T dy in balanced coordinates, then three numbers that tell whether faces, edges and corners are all
there: the area A, int (x.n) e1 dA and int e_{d-1} dA, completed by edges and corners, of which the second is (d-1) A and the
third the full angle (Minkowski and Gauss-Bonnet).
"""

from __future__ import annotations

import numpy as np

from .exits import Balanced
from .tiling import Tiling, curve

_EDGE_ORDER, _ARC_ORDER, _RIM_ORDER = 12, 12, 24  # Gauss points along an edge, along an arc of normals, along a corner's rim
_ON = 1e-9  # an inequality this close to its zero set (balanced coordinates) is active
_LEAST_ANGLE = 1e-9  # [rad] between normals: a smaller edge adds less than round-off


def full_angle(dimension: int) -> float:
    """Of all unit normals: 2 pi or 4 pi."""
    return 2 * np.pi * (dimension - 1)


def face_terms(body: Balanced, radius: float, y, cone, faces) -> np.ndarray:
    """Terms (n, c) of the layer over surface points y (n, d), where the cone over the surface element has volume cone / d.

    faces (n,): the inequality to take the normal of, where it is active; on an edge it decides between two.
    """
    rows, x = np.arange(len(y)), y @ body.axes.T
    place, f = body.place(y), body.value(y)
    with np.errstate(all="ignore"):
        gradients, hessians = body.jet.gradient(place, body.theta), body.jet.hessian(place, body.theta)
    on = f[rows, faces] > -_ON * np.linalg.norm(gradients[rows, faces] @ body.axes, axis=1)
    face = np.where(on, faces, np.argmax(f, axis=1))
    gradient, hessian = gradients[rows, face], hessians[rows, face]
    slope = np.linalg.norm(gradient, axis=1)
    n = gradient / slope[:, None]
    bent = np.einsum("nij,nj->ni", hessian, n)
    along = np.sum(bent * n, axis=1)
    e1 = (np.trace(hessian, axis1=1, axis2=2) - along) / slope
    squares = (np.sum(hessian**2, axis=(1, 2)) - 2 * np.sum(bent**2, axis=1) + along**2) / slope**2
    e2 = (e1**2 - squares) / 2
    height = np.sum(x * n, axis=1)
    area = cone / height
    powers = [radius ** (k + 1) / (k + 1) + e1 * radius ** (k + 2) / (k + 2) + e2 * radius ** (k + 3) / (k + 3) for k in range(3)]
    whole = area * (e1 if body.dimension == 2 else e2)
    return _terms(body, y, n, area, powers, [area, cone * e1, whole])


def closing_terms(tiling: Tiling, radius: float) -> np.ndarray:
    """Terms (c,) of the layer around all edges and corners."""
    body = tiling.body
    d, size = body.dimension, 1 + body.dimension + body.dimension**2 + 3
    total = np.zeros(size)
    if d == 3:
        total += _edge_terms(tiling, radius)
    for point, active in zip(tiling.points, tiling.active, strict=True):
        if np.sum(active) >= d:
            total += _corner_terms(body, radius, point, unit_normals(body, point[None])[0, active])
    return total


def closure(body: Balanced, terms) -> float:
    """By how much, relatively, the terms (c,) of faces, edges and corners miss the integral identities."""
    area, support, angle = terms[-3:] * np.linalg.det(body.axes)
    d = body.dimension
    return float(max(abs(support / ((d - 1) * area) - 1), abs(angle / full_angle(d) - 1)))


def arcs(first, last, shares) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors (n, q, d) at the `shares` (q,) of the arcs from `first` to `last` (n, d), and the angles (n,) of those."""
    angle = 2 * np.arctan2(np.linalg.norm(last - first, axis=1), np.linalg.norm(last + first, axis=1))
    wide = np.maximum(angle, _LEAST_ANGLE)[:, None]
    a, b = (np.sin(wide * s) / np.sin(wide) for s in (1 - shares, shares))
    return a[..., None] * first[:, None] + b[..., None] * last[:, None], angle


def _edge_terms(tiling: Tiling, radius: float) -> np.ndarray:
    body = tiling.body
    ends, faces = tiling.edges()
    s, s_weights = _gauss(_EDGE_ORDER)
    phi, phi_weights = _gauss(_ARC_ORDER)
    chords, faces = np.repeat(tiling.points[ends], len(s), axis=0), np.repeat(faces, len(s), axis=0)
    y, slope = curve(body, np.tile(s, len(ends)), chords, faces)
    rows = np.arange(len(y))[:, None]
    normals = unit_normals(body, y)[rows, faces]
    n, angle = arcs(normals[:, 0], normals[:, 1], phi)
    tangent = slope @ body.axes.T
    length = np.linalg.norm(tangent, axis=1)
    bend = np.sum(_curvature(body, y, faces, tangent / length[:, None])[:, None] * n, axis=-1)
    weights = (np.tile(s_weights, len(ends)) * length * angle)[:, None] * phi_weights
    count = len(phi)
    y, n, bend, weights = np.repeat(y, count, axis=0), n.reshape(-1, 3), -bend.ravel(), weights.ravel()
    powers = [radius ** (k + 2) / (k + 2) + bend * radius ** (k + 3) / (k + 3) for k in range(3)]
    height = np.sum((y @ body.axes.T) * n, axis=1)
    volume = np.linalg.det(body.axes)
    weights = weights / volume
    return np.sum(_terms(body, y, n, weights, powers, [0 * weights, weights * height, weights * bend]), axis=0)


def _curvature(body: Balanced, y, faces, tangent) -> np.ndarray:
    """Second derivatives a'' (n, 3) [1/m] along the edges f_i = f_j = 0 with unit tangents (n, 3), by arc length."""
    rows = np.arange(len(y))[:, None]
    gradients, hessians = (part(body.place(y), body.theta)[rows, faces] for part in (body.jet.gradient, body.jet.hessian))
    matrix = np.concatenate([gradients, tangent[:, None]], axis=1)
    pull = -np.einsum("nkij,ni,nj->nk", hessians, tangent, tangent)
    return np.linalg.solve(matrix, np.concatenate([pull, np.zeros((len(y), 1))], axis=1)[..., None])[..., 0]


def _corner_terms(body: Balanced, radius: float, y, normals) -> np.ndarray:
    d, x = body.dimension, body.axes @ y
    n, weights = _cone_rule(normals, x)
    powers = [np.full(len(n), radius ** (k + d) / (k + d)) for k in range(3)]
    weights = weights / np.linalg.det(body.axes)
    places = np.broadcast_to(y, n.shape)
    support = weights * (n @ x) * (d == 2)  # on a corner in space (x.n) has no e1 to go with
    return np.sum(_terms(body, places, n, weights, powers, [0 * weights, support, weights]), axis=0)


def _cone_rule(normals, outward) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors (q, d) and weights (q,) for integrals over the unit vectors in the cone that `normals` (k, d) span.

    In space they are at shares of the arcs from the middle of the cone to points of the arcs around it.
    """
    shares, weights = _gauss(_ARC_ORDER)
    if normals.shape[1] == 2:
        n, angle = arcs(normals[:1], normals[1:2], shares)
        return n[0], angle[0] * weights
    around = ordered_around(normals, outward)
    if not len(around):
        return around, np.zeros(0)
    middle = np.sum(around, axis=0) / np.linalg.norm(np.sum(around, axis=0))
    fine, fine_weights = _gauss(_RIM_ORDER)
    rim, angle = arcs(around, np.roll(around, -1, axis=0), fine)
    pole = np.cross(around, np.roll(around, -1, axis=0)) / np.sin(angle)[:, None]
    rim, turn = rim.reshape(-1, 3), np.repeat(angle * (pole @ middle), len(fine)) / (1 - (rim.reshape(-1, 3) @ middle) ** 2)
    n, reach = arcs(np.broadcast_to(middle, rim.shape), rim, shares)
    heights = np.sin(reach[:, None] * shares) * reach[:, None]
    elements = (turn * np.tile(fine_weights, len(around)))[:, None] * heights * weights
    return n.reshape(-1, 3), elements.ravel()


def ordered_around(normals, outward) -> np.ndarray:
    """Those of the unit vectors (k, 3) that span the cone of them all, counter-clockwise around it; none if it is flat.

    All make less than a right angle with `outward` (3,).
    """
    import scipy.spatial

    frame = np.linalg.svd(outward[None])[2][1:]
    if np.linalg.det([outward, *frame]) < 0:
        frame = frame[::-1]
    flat = normals @ frame.T / (normals @ outward)[:, None]
    if np.linalg.matrix_rank(flat - flat[0], tol=_LEAST_ANGLE * np.max(np.abs(flat))) < 2:
        return normals[:0]
    return normals[scipy.spatial.ConvexHull(flat).vertices]


def unit_normals(body: Balanced, y) -> np.ndarray:
    """Unit gradients (n, m, d) of the inequalities, in the shape's coordinates, at points y (n, d)."""
    gradient = body.jet.gradient(body.place(y), body.theta)
    return gradient / np.linalg.norm(gradient, axis=-1, keepdims=True)


def _terms(body: Balanced, y, n, weights, powers, checks) -> np.ndarray:
    """Terms (q, c) of segments a + t n of weight `weights` (q,), where powers[k] (q,) are int t^k over the segment."""
    m = np.linalg.solve(body.axes, n.T).T
    zeroth, first, second = (weights * power for power in powers)
    ym = y[:, :, None] * m[:, None, :]
    squares = (
        zeroth[:, None, None] * y[:, :, None] * y[:, None, :]
        + first[:, None, None] * (ym + np.swapaxes(ym, 1, 2))
        + second[:, None, None] * m[:, :, None] * m[:, None, :]
    )
    points = zeroth[:, None] * y + first[:, None] * m
    return np.concatenate([zeroth[:, None], points, squares.reshape(len(y), y.shape[1] ** 2), np.stack(checks, axis=1)], axis=1)


def _gauss(order: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    return (nodes + 1) / 2, weights / 2

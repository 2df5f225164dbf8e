"""Unit normals of a convex body at its edges and corners: the arcs and the spherical polygons that
they fill."""

from __future__ import annotations

import numpy as np

from .ray_casting import Balanced

_LEAST_ANGLE = 1e-9  # [rad] between normals that are told apart


def unit_normals(body: Balanced, y) -> np.ndarray:
    """Unit gradients (n, m, d) of the inequalities, in the shape's coordinates, at points y (n, d)
    in balanced ones."""
    with np.errstate(all="ignore"):
        gradient = body.jet.gradient(body.place(y), body.theta)
        return gradient / np.linalg.norm(gradient, axis=-1, keepdims=True)


def arcs(first, last, shares) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors (n, q, d) at the `shares` (q,) of the arcs from `first` to `last` (n, d), and
    the arcs' angles (n,)."""
    angle = _angle(first, last)
    wide = np.maximum(angle, _LEAST_ANGLE)[:, None]
    a, b = (np.sin(wide * s) / np.sin(wide) for s in (1 - shares, shares))
    return a[..., None] * first[:, None] + b[..., None] * last[:, None], angle


def spanning(normals, outward) -> np.ndarray:
    """Those of the unit vectors (k, d) that span the cone of them all, counter-clockwise around it;
    none if it is flat.

    All make less than a right angle with `outward` (d,).
    """
    if normals.shape[1] == 2:
        turn = normals[:, 0] * outward[1] - normals[:, 1] * outward[0]
        return normals[[np.argmax(turn), np.argmin(turn)]]
    import scipy.spatial  # takes .2 s, which most shapes need not wait for

    frame = np.linalg.svd(outward[None])[2][1:]
    if np.linalg.det([outward, *frame]) < 0:
        frame = frame[::-1]
    flat = normals @ frame.T / (normals @ outward)[:, None]
    if np.linalg.matrix_rank(flat - flat[0], tol=_LEAST_ANGLE * np.max(np.abs(flat))) < 2:
        return normals[:0]
    return normals[scipy.spatial.ConvexHull(flat).vertices]


def cone_integrals(normals, outward) -> tuple[float, np.ndarray, np.ndarray]:
    """Integrals of 1, n (d,) and n n^T (d, d) over the unit vectors n in the cone that unit vectors
    (k, d) span.

    By Stokes' theorem, as n and n n^T are eigenfunctions of the sphere's Laplacian but for a
    constant, from integrals along the sides, whose poles are constant.
    """
    around = spanning(normals, outward)
    d = normals.shape[1]
    if len(around) == 0:
        return 0.0, np.zeros(d), np.zeros((d, d))
    following = np.roll(around, -1, axis=0)
    angles = _angle(around, following)
    along = (around + following) * np.tan(angles / 2)[:, None]  # int n over each side
    if d == 2:
        ends = np.stack([_products(n, np.array([-n[1], n[0]])) for n in around])
        return angles[0], along[0], angles[0] * np.eye(2) / 2 - (ends[1] - ends[0]) / 4
    poles = np.cross(around, following) / np.sin(angles)[:, None]
    middle = np.sum(around, axis=0) / np.linalg.norm(np.sum(around, axis=0))
    volumes = np.sum(np.cross(around, following) * middle, axis=1)
    widths = 1 + around @ middle + following @ middle + np.sum(around * following, axis=1)
    solid = 2 * np.sum(np.arctan2(volumes, widths))
    second = solid * np.eye(3) + sum(_products(p, q) for p, q in zip(poles, along, strict=True)) / 2
    return float(solid), angles @ poles / 2, second / 3


def _angle(first, last) -> np.ndarray:
    """Angles (n,) between unit vectors (n, d), also where they are small."""
    return 2 * np.arctan2(np.linalg.norm(last - first, axis=1), np.linalg.norm(last + first, axis=1))


def _products(p, q) -> np.ndarray:
    return np.outer(p, q) + np.outer(q, p)

"""Convex bodies for an audit: their support functions and how far points are outside, in NumPy
alone."""

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np


@dataclasses.dataclass(frozen=True)
class Solid:
    """A convex body in its own coordinates [m]: `support(n)` = max n.x over it, for n (..., 3);
    `outside(x)`, at most 0 for points in it and near its surface a length [m]; `radius` [m] of a
    ball around the origin that holds it."""

    support: Callable
    outside: Callable
    radius: float


def ellipsoid(axes):
    """(x/a)^2 + (y/b)^2 + (z/c)^2 <= 1."""
    return superquadric(axes, 2.0)


def superquadric(axes, power):
    """Sum of |x_i/a_i|^power <= 1; its support function is the dual norm."""
    axes, dual = np.asarray(axes, float), power / (power - 1)

    def norm(x, p):
        largest = np.max(np.abs(x), axis=-1, keepdims=True)
        return (largest * np.sum(np.abs(x / largest) ** p, axis=-1, keepdims=True) ** (1 / p))[..., 0]

    return Solid(
        lambda n: norm(n * axes, dual),
        lambda x: (norm(x / axes, power) - 1) * np.min(axes),
        float(np.linalg.norm(axes)),
    )


def polytope(corners):
    """The convex hull of points (k, 3), its faces by trying every plane through three of them."""
    corners, planes = np.asarray(corners, float), []
    size = float(np.max(np.linalg.norm(corners, axis=1)))
    for three in itertools.combinations(corners, 3):
        normal = np.cross(three[1] - three[0], three[2] - three[0])
        for n in (normal, -normal):
            if np.all((corners - three[0]) @ n <= 1e-12 * size**3) and np.any(n):
                planes.append([*n / np.linalg.norm(n), three[0] @ n / np.linalg.norm(n)])
    planes = np.array(planes)
    return Solid(
        lambda n: np.max(n @ corners.T, axis=-1), lambda x: np.max(x @ planes[:, :3].T - planes[:, 3], axis=-1), size
    )


def box(half_sizes):
    """|x_i| <= a_i."""
    a, b, c = half_sizes
    return polytope([(i * a, j * b, k * c) for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)])


def frustum(bottom, top, low, high):
    """A solid of revolution between a disc of radius `bottom` at z = low and one of radius `top` at
    z = high."""
    slant = np.hypot(1.0, (bottom - top) / (high - low))

    def support(n):
        across = np.hypot(n[..., 0], n[..., 1])
        return np.maximum(across * bottom + n[..., 2] * low, across * top + n[..., 2] * high)

    def outside(x):
        radius = bottom + (top - bottom) * (x[..., 2] - low) / (high - low)
        lateral = (np.hypot(x[..., 0], x[..., 1]) - radius) / slant
        return np.maximum(lateral, np.maximum(x[..., 2] - high, low - x[..., 2]))

    return Solid(support, outside, float(max(np.hypot(bottom, low), np.hypot(top, high))))


def lens(radius, thickness):
    """The common part of two balls of `radius` with centres on z, `thickness` at its middle."""
    offset = radius - thickness / 2
    rim = np.sqrt(radius**2 - offset**2)

    def support(n):
        across, up = np.hypot(n[..., 0], n[..., 1]), np.abs(n[..., 2])
        cap = radius * np.linalg.norm(n, axis=-1) - offset * up
        return np.where(up * radius >= offset * np.linalg.norm(n, axis=-1), cap, across * rim)

    def outside(x):
        return np.sqrt(x[..., 0] ** 2 + x[..., 1] ** 2 + (np.abs(x[..., 2]) + offset) ** 2) - radius

    return Solid(support, outside, float(rim))


def capsule(radius, half_length):
    """All points within `radius` of a segment along z."""

    def outside(x):
        along = np.clip(x[..., 2], -half_length, half_length)
        return np.linalg.norm(np.stack([x[..., 0], x[..., 1], x[..., 2] - along], axis=-1), axis=-1) - radius

    return Solid(
        lambda n: radius * np.linalg.norm(n, axis=-1) + half_length * np.abs(n[..., 2]), outside, radius + half_length
    )


def rounded_box(half_sizes, radius):
    """All points within `radius` of a box."""
    core, sizes = box(half_sizes), np.asarray(half_sizes, float)
    return Solid(
        lambda n: core.support(n) + radius * np.linalg.norm(n, axis=-1),
        lambda x: np.linalg.norm(np.maximum(np.abs(x) - sizes, 0.0), axis=-1) - radius,
        core.radius + radius,
    )

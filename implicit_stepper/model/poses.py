"""Poses in NumPy, with any leading axes, for what runs on the host between compiled steps."""

from __future__ import annotations

import numpy as np


def matrices(orientation) -> np.ndarray:
    """Rotation matrices (..., d, d) of unit quaternions (..., 4), w first, or of angles (..., 1)
    [rad]."""
    if orientation.shape[-1] == 1:
        c, s = np.cos(orientation[..., 0]), np.sin(orientation[..., 0])
        return np.stack([np.stack([c, -s], axis=-1), np.stack([s, c], axis=-1)], axis=-2)
    w, x, y, z = np.moveaxis(orientation, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def turned(orientation, turn) -> np.ndarray:
    """exp(turn) applied after `orientation`: `turn` (..., 3) or (..., 1) [rad] in the inertial
    frame."""
    if orientation.shape[-1] == 1:
        return orientation + turn
    half = np.linalg.norm(turn, axis=-1, keepdims=True) / 2
    return _product(np.concatenate([np.cos(half), np.sinc(half / np.pi) * turn / 2], axis=-1), orientation)


def turn_between(start, end, near) -> np.ndarray:
    """The rotation vector (..., 3) or (..., 1) [rad] that takes orientation `start` to `end`, of
    those that differ by whole turns the one nearest to `near` of the same shape."""
    if start.shape[-1] == 1:
        return end - start
    relative = _product(end, start * np.array([1.0, -1.0, -1.0, -1.0]))
    relative = np.where(relative[..., :1] < 0, -relative, relative)
    sine = np.linalg.norm(relative[..., 1:], axis=-1, keepdims=True)
    axis = np.where(sine > 0, relative[..., 1:] / np.where(sine > 0, sine, 1.0), near / _length(near))
    angle = 2 * np.arctan2(sine, relative[..., :1])
    missing = np.sum(near * axis, axis=-1, keepdims=True) - angle
    return (angle + 2 * np.pi * np.rint(missing / (2 * np.pi))) * axis


def _length(vectors):
    """Of vectors (..., 3), 1 for the zero vector."""
    size = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.where(size > 0, size, 1.0)


def _product(p, q) -> np.ndarray:
    """p q of quaternions (..., 4)."""
    scalar = p[..., :1] * q[..., :1] - np.sum(p[..., 1:] * q[..., 1:], axis=-1, keepdims=True)
    vector = p[..., :1] * q[..., 1:] + q[..., :1] * p[..., 1:] + np.cross(p[..., 1:], q[..., 1:])
    return np.concatenate([scalar, vector], axis=-1)

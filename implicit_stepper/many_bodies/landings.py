"""Which contacts land in a step, and across which gaps.

A smooth body comes to the point at which it lands across the gap with which the step began. One
with edges or faces may land at another point than the one that was closest then, as a box on the
second corner of an edge, or touch already and strike at another point, as a box that rocks. What
counts for it is the way of the points at which it presses as the step ends.
"""

from __future__ import annotations

import numpy as np

from ..constraints.kinematics import Motion
from ..constraints.restitution import SUDDEN, TOUCHING, bending
from ..model import poses
from ..model.records import Contacts


def landings(
    sharp, contacts: Contacts, sides, bodies: tuple[Motion, Motion], speed, scale: tuple[float, float], h: float, first: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Which of the `contacts` (m,) of a step of h [s] land in it, between the bodies `sides` (m, 2)
    of all, as they were before and after it; and the gaps (m,) [m] that they close. Those that are
    `sharp` (m,) have edges or faces; before the step their points approach with -`speed` (m,)
    [m/s]. In the `first` step of a run others strike too, where they touch as it begins. `scale`:
    the length [m] and the acceleration [m/s^2] of the scene."""
    (length, acceleration), began = scale, np.asarray(contacts.gap_start)
    touching = TOUCHING * length
    gaps = np.where(sharp, _between(contacts, sides, *bodies), began)
    fast = speed < -SUDDEN * h * (acceleration + _bending(contacts, sides, bodies[0]))
    struck = fast & (np.asarray(contacts.normal_impulse) > 0)
    fresh = ((began > touching) | (sharp & struck)) & (gaps > touching)
    return (fresh | (first & ~sharp & struck)) & (np.asarray(contacts.gap) <= touching), gaps


def _between(contacts: Contacts, sides, before: Motion, after: Motion) -> np.ndarray:
    """How far apart (m,) [m] along the normal the points of both bodies were before the step, at
    which they press after it."""
    turn = poses.matrices(before.orientation) @ np.swapaxes(poses.matrices(after.orientation), 1, 2)
    first, second = (
        np.einsum("mij,mj->mi", turn[own], np.asarray(point) - after.position[own]) + before.position[own]
        for own, point in zip(sides.T, (contacts.point_1, contacts.point_2), strict=True)
    )
    return np.einsum("mi,mi->m", np.asarray(contacts.normal), second - first)


def _bending(contacts: Contacts, sides, before: Motion) -> np.ndarray:
    """`bending` (m,) [m/s^2] of the points of both bodies."""
    d = before.position.shape[1]
    linear, angular = (np.linalg.norm(part, axis=1) for part in np.split(before.velocity, [d], axis=1))
    found = np.zeros(len(sides))
    for own, point in zip(sides.T, (contacts.point_1, contacts.point_2), strict=True):
        arm = np.linalg.norm(np.asarray(point) - before.position[own], axis=1)
        found += bending(angular[own], linear[own], arm)
    return found

"""How far the parts of bodies reach from the centres of mass about which they turn."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from shapes.closest_points.extent import extent

from .compound import Part


@dataclasses.dataclass(frozen=True)
class Extents:
    """Of n parts [m]: `inner` (n,), the radius of a ball that each holds, infinite for a point,
    `reach` (n,), that of the ball about its body's centre of mass that holds it, infinite for
    unbounded parts, and `lever` (n,): a turn by a small angle moves its support planes by at most
    that angle times the lever."""

    inner: np.ndarray
    reach: np.ndarray
    lever: np.ndarray


def extents(parts: Sequence[Part]) -> Extents:
    """Of each part. In the direction n its support plane is at h = n.x, where n.x > room, the
    radius of the ball about the centre of mass in it, and moves by |x cross n| = sqrt(x.x - h^2)
    per turn."""
    found = [extent(part.shape) for part in parts]
    offset = np.array([np.linalg.norm(p.position + p.rotation @ e.centre) for p, e in zip(parts, found, strict=True)])
    inner, outer = (np.array([getattr(e, name) for e in found]) for name in ("inner", "outer"))
    reach, room = offset + outer, np.maximum(np.where(np.isfinite(inner), inner, 0.0) - offset, 0.0)
    return Extents(inner, reach, np.sqrt(np.maximum(reach**2 - room**2, 0.0)))

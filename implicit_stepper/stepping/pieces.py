"""What lies between the poses of steps: how bodies move from one to the next."""

from __future__ import annotations

import dataclasses

import numpy as np

from ..model import poses
from .curves import Curves


@dataclasses.dataclass(frozen=True)
class Pieces:
    """What lies between k + 1 poses, one after another, of nb bodies with m contacts: position (k +
    1, nb, d), orientation (k + 1, nb, 4 or 1), velocity (k + 1, nb, 6 or 3) and h (k,) [s]; at the
    start and end of each piece gaps (k, m) [m] and normals (k, m, d), NaN where they are not known;
    the curves along which bodies move, None for straight motions, and of each piece the number of
    its curve and where it begins and ends on it, `spans` (k, 3)."""

    position: np.ndarray
    orientation: np.ndarray
    velocity: np.ndarray
    h: np.ndarray
    gaps: tuple[np.ndarray, np.ndarray]
    normals: tuple[np.ndarray, np.ndarray]
    curves: Curves | None = None
    spans: np.ndarray | None = None

    def alone(self, k: int) -> Pieces:
        """Piece number k."""
        two, one = slice(k, k + 2), slice(k, k + 1)
        pairs = (tuple(a[one] for a in pair) for pair in (self.gaps, self.normals))
        own = self.position[two], self.orientation[two], self.velocity[two], self.h[one], *pairs
        return Pieces(*own, self.curves, None if self.spans is None else self.spans[one])

    def moves(self) -> np.ndarray:
        """By how much bodies move (k, s, nb, d) [m]: coefficients of powers of the share."""
        if self.curves is None:
            return np.diff(self.position, axis=0)[:, None]
        steps, low, high = self.spans.T
        return self.curves.moves(steps.astype(int), low, high)

    def poses(self, share: float) -> tuple[np.ndarray, np.ndarray]:
        """Of one piece, positions (nb, d) and orientations (nb, 4 or 1) after a `share` of it."""
        (begun, ended), (start, end) = self.position, self.orientation
        if self.curves is not None:
            step, low, high = self.spans[0]
            return self.curves.at(int(step), low + share * (high - low))
        turn = poses.turn_between(start, end, self.h[0] * self.velocity[1][:, begun.shape[-1] :])
        return begun + share * (ended - begun), poses.turned(start, share * turn)

    def between(self, low: float, high: float, start, end) -> Pieces:
        """The part of one piece between two shares of it, with gaps and normals there."""
        position, orientation = (np.stack(two) for two in zip(self.poses(low), self.poses(high), strict=True))
        velocity, spans = np.stack([self.velocity[1]] * 2), None
        if self.curves is not None:
            step, first, last = self.spans[0]
            ends = first + np.array([low, high]) * (last - first)
            velocity, spans = self.velocity, np.array([[step, *ends]])
        pairs = (tuple(one[i][None] for one in (start, end)) for i in (0, 1))
        return Pieces(position, orientation, velocity, (high - low) * self.h, *pairs, self.curves, spans)

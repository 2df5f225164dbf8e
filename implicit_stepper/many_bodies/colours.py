"""Planes in colours, for sweeps over many of them at once: of one colour, no two touch the same
body that moves."""

from __future__ import annotations

import numpy as np

TOGETHER = 32  # planes of one colour that are relaxed at once


def coloured(sides, moving: int) -> np.ndarray:
    """Rows (k, TOGETHER) of numbers of planes between the bodies `sides` (r, 2), of which the first
    `moving` move: planes of a row have one colour; -1 where there is none. Each plane takes the
    least colour that its bodies have not."""
    taken, colour = [0] * moving, np.empty(len(sides), int)
    for plane, (first, second) in enumerate(sides.tolist()):
        used = (taken[first] if first < moving else 0) | (taken[second] if second < moving else 0)
        free = ~used & (used + 1)
        for body in (first, second):
            if body < moving:
                taken[body] |= free
        colour[plane] = free.bit_length() - 1
    rows = []
    for own in range(int(colour.max(initial=-1)) + 1):
        planes = np.flatnonzero(colour == own)
        missing = -len(planes) % TOGETHER
        rows.append(np.concatenate([planes, np.full(missing, -1)]).reshape(-1, TOGETHER))
    return np.concatenate([*rows, np.zeros((0, TOGETHER), int)])

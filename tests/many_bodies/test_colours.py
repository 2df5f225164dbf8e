"""Colours of planes: each plane once, and none beside another that moves the same body."""

import numpy as np
import pytest

from implicit_stepper.many_bodies.colours import TOGETHER, coloured


@pytest.mark.parametrize(("planes", "moving"), [(0, 3), (1, 1), (200, 30), (3000, 1000)])
def test_planes_of_a_row_share_no_body_that_moves(planes, moving):
    rng = np.random.default_rng(planes)
    sides = np.stack([rng.integers(0, moving, planes), rng.integers(0, moving + 4, planes)], axis=1)
    sides[:, 1] = np.where(sides[:, 0] == sides[:, 1], moving, sides[:, 1])
    rows = coloured(sides, moving)
    assert rows.shape[1] == TOGETHER
    assert sorted(rows[rows >= 0]) == list(range(planes))
    for row in rows:
        bodies = sides[row[row >= 0]].ravel()
        movers = bodies[bodies < moving]
        assert len(set(movers)) == len(movers)
    most = 2 * max(np.bincount(sides[sides < moving], minlength=1), default=0)
    assert len(rows) <= most + planes // TOGETHER + 1

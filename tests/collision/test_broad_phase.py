"""Overlapping balls against all pairs."""

import numpy as np
import pytest

from implicit_stepper.collision.broad_phase import overlapping


@pytest.mark.parametrize("dimension", [2, 3])
def test_overlapping_balls_are_those_that_all_pairs_show(dimension):
    rng = np.random.default_rng(dimension)
    for count in (0, 1, 2, 300):
        centres, radii = rng.uniform(0, 1, (count, dimension)), rng.lognormal(-3.5, 1.2, count)
        radii[: count // 10] = 0.0  # points among them
        apart = np.linalg.norm(centres[:, None] - centres, axis=2)
        expected = np.argwhere(np.triu(apart <= radii[:, None] + radii, 1))
        assert np.array_equal(overlapping(centres, radii), expected)
    assert len(expected) > 100


def test_balls_that_touch_count():
    assert overlapping([[0.0, 0.0], [1.0, 0.0]], [0.5, 0.5]).tolist() == [[0, 1]]
    assert overlapping([[0.0, 0.0], [1.0, 0.0]], [0.5, 0.49]).tolist() == []

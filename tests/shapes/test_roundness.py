"""Which bodies are round: by what their surfaces are known to be."""

import numpy as np
import pytest

import shapes
from shapes.closest_points.surface import surface


def turned(f):
    """The inequality `f(u, v, w)` of coordinates along turned axes."""
    turn, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))
    axes = [sum(float(n) * c for n, c in zip(row, (shapes.x, shapes.y, shapes.z), strict=True)) for row in turn]
    return shapes.ImplicitShape([f(*axes)])


ROUND = {
    "sphere": shapes.Sphere(0.1),
    "ellipsoid": shapes.Ellipsoid((1, 0.01, 0.1)),
    "sides that bend nowhere in the middle": shapes.Superquadric((0.1, 0.08, 0.06), epsilon=(0.25, 0.25)),
    "infinite curvature": shapes.Superquadric((0.1, 0.08, 0.06), epsilon=(1.33, 1.33)),
    "turned": turned(lambda u, v, w: u**4 + v**4 + w**4 - 1),
    "grown": shapes.Rounded(shapes.Ellipsoid((1, 1, 0.1)), 0.1),
    "disc": shapes.Disc(0.3),
}
OTHERS = {
    "lines": shapes.Capsule(0.1, 0.1),
    "plane": shapes.HalfSpace(normal=(0, 0, 1)),
    "line": shapes.HalfPlane(normal=(0, 1)),
    "faces": shapes.Box((1, 1, 1)),
    "pipe": turned(lambda u, v, w: u**2 + v**2 - 1),
    "grown faces": shapes.Rounded(shapes.Box((1, 1, 1)), 0.1),
}


@pytest.mark.parametrize("name", [*ROUND, *OTHERS])
def test_what_bends_everywhere_but_in_places_is_round(name):
    assert surface((ROUND | OTHERS)[name]).round == (name in ROUND)

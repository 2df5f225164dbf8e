"""How far faces keep parts apart: never farther than they are, and exactly where a face tells."""

import numpy as np
import pytest

import shapes
from implicit_stepper.many_bodies.hulls import hulls
from implicit_stepper.model import poses
from implicit_stepper.scene.compound import Part

BODY = np.array([0, 1])
PAIR = np.array([[0, 1]])


def part(shape):
    return Part(shape, np.zeros(3), np.eye(3))


def apart(shape_1, shape_2, position, turns):
    return hulls([part(shape_1), part(shape_2)]).apart(PAIR, BODY, np.asarray(position, float), turns)[0]


def test_no_pair_is_closer_than_its_faces_tell():
    """Against the least distance between points of both bodies, drawn at random, which is at least
    that of the bodies."""
    rng, told = np.random.default_rng(0), 0
    half, axes = np.array([0.3, 0.2, 0.1]), np.array([0.25, 0.15, 0.2])
    for _ in range(200):
        turns = poses.matrices(rng.normal(size=(2, 4)) * [[1.0], [1.0]])
        turns = np.array([np.linalg.qr(turn)[0] for turn in turns])
        position = np.stack([np.zeros(3), rng.uniform(-0.8, 0.8, 3)])
        cube = rng.uniform(-1, 1, (400, 3))
        ball = cube / np.maximum(np.linalg.norm(cube, axis=1, keepdims=True), 1.0)
        for shape, points in ((shapes.Box(half), cube * half), (shapes.Ellipsoid(axes), ball * axes)):
            first, second = cube * half @ turns[0].T, points @ turns[1].T + position[1]
            nearest = np.min(np.linalg.norm(first[:, None] - second[None], axis=2))
            found = apart(shapes.Box(half), shape, position, turns)
            assert found <= nearest
            told += found > 0
    assert told > 100


def test_faces_that_look_at_each_other_tell_their_distance():
    box, straight = shapes.Box((0.1, 0.1, 0.1)), np.stack([np.eye(3)] * 2)
    assert apart(box, box, [[0, 0, 0], [0.05, 0.03, 0.5]], straight) == pytest.approx(0.3, abs=1e-15)
    round_ = shapes.Rounded(box, 0.02)
    assert apart(round_, round_, [[0, 0, 0], [0.5, 0, 0.05]], straight) == pytest.approx(0.26, abs=1e-15)
    assert apart(box, shapes.Sphere(0.1), [[0, 0, 0], [0, 0.4, 0]], straight) == pytest.approx(0.2, abs=1e-15)
    assert apart(box, box, [[0, 0, 0], [0.05, 0.03, 0.15]], straight) < 0

"""Poses on the host against scipy's rotations."""

import numpy as np
from scipy.spatial.transform import Rotation

from implicit_stepper.model import checks, poses

EPS = np.finfo(float).eps
QUATERNIONS = np.random.default_rng(7).normal(size=(2, 5, 4))
QUATERNIONS /= np.linalg.norm(QUATERNIONS, axis=-1, keepdims=True)
TURNS = np.random.default_rng(8).normal(size=(2, 5, 3))


def scipy_rotations(quaternions):
    """scipy has w last."""
    return Rotation.from_quat(np.roll(quaternions, -1, axis=-1).reshape(-1, 4))


def test_matrices_are_those_of_scipy_for_any_leading_axes():
    expected = scipy_rotations(QUATERNIONS).as_matrix().reshape(2, 5, 3, 3)
    np.testing.assert_allclose(poses.matrices(QUATERNIONS), expected, rtol=0, atol=8 * EPS)
    c, s = np.cos(0.3), np.sin(0.3)
    np.testing.assert_allclose(poses.matrices(np.array([[0.3]])), [[[c, -s], [s, c]]], rtol=0, atol=EPS)


def test_a_turn_comes_after_and_is_found_again_with_its_whole_turns():
    end = poses.turned(QUATERNIONS, TURNS)
    expected = Rotation.from_rotvec(TURNS.reshape(-1, 3)) * scipy_rotations(QUATERNIONS)
    np.testing.assert_allclose(poses.matrices(end).reshape(-1, 3, 3), expected.as_matrix(), rtol=0, atol=16 * EPS)
    axes = TURNS / np.linalg.norm(TURNS, axis=-1, keepdims=True)
    for whole in (0, 1, -2):
        turn = TURNS + 2 * np.pi * whole * axes
        np.testing.assert_allclose(poses.turn_between(QUATERNIONS, end, turn), turn, rtol=0, atol=1e-13)


def test_unit_quaternions_of_bodies_stay_as_given_to_the_bit():
    """What a file or a run tells of a body is what the body has; others are made unit."""
    given = np.random.default_rng(3).normal(size=(200, 4))
    given /= np.linalg.norm(given, axis=1, keepdims=True)
    np.testing.assert_array_equal([checks.orientation(q, None, 3) for q in given], given)
    np.testing.assert_allclose(np.linalg.norm(checks.orientation(given[0] * (1 + 1e-7), None, 3)), 1.0, rtol=0, atol=1e-15)

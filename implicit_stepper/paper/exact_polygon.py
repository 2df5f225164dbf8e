"""What a disc that rolls as a regular polygon loses, in closed form: the oracle of figure 1 of
Chakraborty, Berard, Akella, Trinkle (RSS 2007).

The disc of example 1: radius 1 m, 1 kg, 0.5 kg m^2, so 1.5 kg m^2 about a corner; 6.75 J at 3
rad/s. As in `exact`, only numpy is used, and nothing of this package.
"""

from __future__ import annotations

import numpy as np

ENERGY, SPIN, GRAVITY = 6.75, 3.0, 9.81  # kinetic energy [J], omega [rad/s] at the start; [m/s^2]


def after_collisions(time: np.ndarray, sides: int) -> np.ndarray:
    """Kinetic energy (n,) [J] of a polygon of many `sides` that turns about one corner after the
    other.

    Each inelastic impact keeps the angular momentum about the new corner, which divides omega by
    1.5 / (0.5 + cos b), b = 2 pi / sides: to second order, 1 + b^2 / 3. It comes after a turn by b,
    so d omega / dt = -omega^2 b / 3.
    """
    return ENERGY / (1.0 + 2.0 * np.pi / 3.0 * SPIN * np.asarray(time) / sides) ** 2


def after_linearisation(time: np.ndarray, h: float) -> np.ndarray:
    """Kinetic energy (n,) [J] of a disc under linearised gaps in steps of h [s], the limit of many
    sides.

    By the velocities at the end of a step the point at angle a ahead of the lowest moves down by
    omega h sin a, so the point with the least linearised gap has tan a = omega h. There the line
    carries the weight, at an arm of about omega h, and brakes: 1.5 d omega / dt = -9.81 omega h.
    """
    return ENERGY * np.exp(-2.0 * GRAVITY * h / 1.5 * np.asarray(time))

"""How bodies move between the poses of steps of several stages: the polynomials whose rates are
those of the stages."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from ..model import poses
from ..solvers.collocation import Collocation


@dataclasses.dataclass(frozen=True)
class Curves:
    """Of n steps the poses at their starts, position (n, nb, d) [m] and orientation (n, nb, 4 or
    1); and the coefficients `change` (n, s, nb, 6 or 3) of theta, theta^2, ... by which bodies move
    [m] and turn [rad] from there."""

    position: np.ndarray
    orientation: np.ndarray
    change: np.ndarray

    def at(self, step: int, theta: float) -> tuple[np.ndarray, np.ndarray]:
        """Positions and orientations at a fraction of a step."""
        own, d = self.change[step], self.position.shape[-1]
        moved = np.tensordot(theta ** np.arange(1, len(own) + 1), own, 1)
        return self.position[step] + moved[:, :d], poses.turned(self.orientation[step], moved[:, d:])

    def moves(self, steps, low, high) -> np.ndarray:
        """Between the fractions `low` and `high` (k,) of `steps` (k,), by how much bodies move
        (k, s, nb, d) [m]: the coefficients of t, t^2, ... for t from 0 to 1."""
        own, d, width = self.change[steps], self.position.shape[-1], high - low
        orders = range(1, own.shape[1] + 1)
        powers = np.array([[math.comb(m, j) * low ** max(m - j, 0) * width**j for m in orders] for j in orders])
        return np.einsum("jmk,kmbd->kjbd", powers, own[..., :d])

    def bends(self, steps, low, high) -> tuple[np.ndarray, np.ndarray]:
        """How far off a straight line [m], and off an even turn [rad], bodies are at most (k, nb)
        between the fractions `low` and `high` (k,) of `steps` (k,): an eighth of the largest
        acceleration, which turns have also by their rates alone, as they do not commute."""
        d, orders, largest = self.position.shape[-1], np.arange(1, self.change.shape[1] + 1), []
        for theta in (low, high):  # of degree 1 at most in between
            slopes, bends = orders * theta[:, None] ** (orders - 1), np.zeros((len(theta), len(orders)))
            bends[:, 1:] = orders[1:] * orders[:-1] * theta[:, None] ** (orders[1:] - 2)
            rate, rises = (np.einsum("ks,ksbw->kbw", by, self.change[steps]) for by in (slopes, bends))
            turning = np.linalg.norm(rises[..., d:], axis=-1) + np.sum(rate[..., d:] ** 2, axis=-1) / 2
            largest.append((np.linalg.norm(rises[..., :d], axis=-1), turning))
        share = (high - low)[:, None] ** 2 / 8
        moved, turned = (share * np.maximum(*both) for both in zip(*largest, strict=True))
        return moved, turned


def curves(method: Collocation, position, orientation, rates, h) -> Curves:
    """Of steps of h (n,) [s] from these poses, with `rates` (n, s, nb, 6 or 3) at their stages."""
    powers = method.powers / np.arange(1, method.stages + 1)
    return Curves(position, orientation, h[:, None, None, None] * np.einsum("jk,njbw->nkbw", powers, rates))


def least(of) -> np.ndarray:
    """The least values (k, m) for t in 0..1 of `of`_1 t + `of`_2 t^2 + ... (k, s, m), s <= 3."""
    first, second, third = np.concatenate([of, np.zeros((len(of), 3 - of.shape[1], of.shape[2]))], axis=1).swapaxes(0, 1)
    # where the derivative vanishes, by the form that loses no digits
    half = second + np.where(second >= 0, 1.0, -1.0) * np.sqrt(np.maximum(second**2 - 3 * third * first, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = [np.clip(np.nan_to_num(at), 0.0, 1.0) for at in (-half / (3 * third), -first / half)]
    return np.minimum.reduce([t * (first + t * (second + t * third)) for t in (*shares, 0.0, 1.0)])

"""The error of a run of fixed steps, estimated from a second one with half the step.

With an error that falls as h^p, x_h - x_{h/2} is 1 - 2^-p of the error of x_h (Richardson, 1911).
Twice the difference is that error at first order, and up to twice as much at higher orders.
"""

from __future__ import annotations

import dataclasses

import numpy as np

_FACTOR = 2.0  # 1 / (1 - 2^-1)


@dataclasses.dataclass(frozen=True)
class ErrorEstimate:
    """How far a run of fixed steps is from the motion, by `simulate(..., estimate_error=True)`:
    time (m,) [s], and at these times of every moving body, (m, nb), the errors of `position` [m],
    `angle` [rad], `velocity` [m/s] and `spin` [rad/s].

    An estimate holds where halving the step halves the error. Where it does not, as h is too long
    for the motion or small differences grow in it, the estimate is large, and says no more than
    that."""

    time: np.ndarray
    position: np.ndarray
    angle: np.ndarray
    velocity: np.ndarray
    spin: np.ndarray

    def __repr__(self) -> str:
        if not len(self.time):  # of steps after the end of the run with half the step
            return "<ErrorEstimate: at no time>"
        last = [np.max(getattr(self, name)[-1]) for name in ("position", "angle", "velocity", "spin")]
        sizes = ", ".join(f"{value:.2g} {unit}" for value, unit in zip(last, ("m", "rad", "m/s", "rad/s"), strict=True))
        return f"<ErrorEstimate: at t = {self.time[-1]:.9g} s up to {sizes}>"

    def __getitem__(self, nodes: slice) -> ErrorEstimate:
        """Of some of the times."""
        return ErrorEstimate(**{field.name: getattr(self, field.name)[nodes] for field in dataclasses.fields(self)})


def estimate(run, half) -> ErrorEstimate:
    """Of the trajectory `run`, from `half`, a trajectory with half its steps, at the times that
    both have."""
    nodes = np.searchsorted(half.time, run.time - np.min(run.h) / 8)
    nodes = nodes[nodes < len(half.time)]
    n, d = len(nodes), run.position.shape[-1]

    def apart(name, components=slice(None)):
        return _FACTOR * np.linalg.norm((getattr(run, name)[:n] - getattr(half, name)[nodes])[..., components], axis=-1)

    turned = _FACTOR * _turn(run.orientation[:n], half.orientation[nodes])
    linear, angular = slice(0, d), slice(d, None)
    return ErrorEstimate(run.time[:n], apart("position"), turned, apart("velocity", linear), apart("velocity", angular))


def _turn(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The angle [rad] between two orientations (..., 4) or (..., 1)."""
    if first.shape[-1] == 1:
        return np.abs(first - second)[..., 0]
    chord = np.minimum(*(np.linalg.norm(first - sign * second, axis=-1) for sign in (1, -1)))
    return 4 * np.arcsin(np.minimum(chord / 2, 1.0))

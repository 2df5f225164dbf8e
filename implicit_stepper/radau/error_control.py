"""How large a step may be: the free error estimate of the stages, against tolerances with units.

d = V_n - sum_i l_i(0) V_i is how far the stage polynomial, carried back to the start, misses the
start's velocity: O(h^s). gamma h |d| is of order s + 1, the error of the solution of order 2 s - 1:
so the first may be tol^((s + 1)/(2 s - 1)).
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from shapes.arguments import number

from ..model.bodies import State
from ..model.system import System
from ..runtime.errors import RunError

LEAST, LARGEST = 1e-12, 1e-1  # of `tol`: some roundings of a pose, and what still tells a motion
_CALIBRATION = 0.5  # measured on all scenes with an exact solution: docs/benchmarks.md
_GAMMA = {1: 0.5, 2: 0.25, 3: 0.275}
_SAFETY, _SHRINK, _GROW = 0.9, 0.1, 5.0
_EXACT = 1e-30  # a ratio of no error: the next step is then _GROW times as long
_ENERGY = 10.0  # of tol: energy that may appear or vanish in a run
# of positions and energies, that energy in a step may be: the shortest steps are allowed less
_ROUNDINGS = 64


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Tolerance:
    """Errors to aim for: `relative` to how far a body has gone, plus `position` [m]; `angle` [rad].
    Each in [1e-12, 1e-1] (`position` in units of the scene's length). Velocities follow, with
    errors of the same size per sqrt(L/g).

    `energy` [1/s]: energy that may appear or vanish each second, relative to the kinetic energy and
    sum m g L; left out, 10 `relative` in the whole run, which only long runs notice: left alone,
    some .1 to .6 tol appear or vanish a second. A number tol stands for Tolerance(relative=tol,
    position=tol L, angle=tol). Raises `ValueError` naming the argument.
    """

    relative: float
    position: float | None = None
    angle: float | None = None
    energy: float | None = None

    def __post_init__(self):
        if not isinstance(self.relative, float | int | str | list | complex):
            return  # a leaf of a pytree in traced code
        for name in ("relative", "position", "angle", "energy"):
            value = getattr(self, name)
            if value is not None and not LEAST <= number(name, value) <= LARGEST:
                raise RunError(f"`{name}` = {value} of the tolerance must be between {LEAST:g} and {LARGEST:g}.")


def tolerance_of(tol: float | Tolerance) -> Tolerance:
    """That of a number. Raises `ValueError` for one out of range."""
    if isinstance(tol, Tolerance):
        return tol
    value = number("tol", tol)
    if not LEAST <= value <= LARGEST:
        raise RunError(f"`tol` = {value} must be between {LEAST:g} and {LARGEST:g}: 1e-8 is a good start.")
    return Tolerance(value)


def resolved(tol: float | Tolerance, system: System, duration: float) -> Tolerance:
    """For a run of `duration` [s], with all parts in SI units, as floats. Raises `ValueError` for a
    number out of range."""
    tol = tolerance_of(tol)
    length = float(system.length)
    return Tolerance(
        np.asarray(tol.relative, float),
        np.asarray(tol.relative * length if tol.position is None else tol.position, float),
        np.asarray(tol.relative if tol.angle is None else tol.angle, float),
        np.asarray(_ENERGY * tol.relative / duration if tol.energy is None else tol.energy, float),
    )


def ratio(system: System, tolerance: Tolerance, stages: int, state: State, start, defect, created, h):
    """Estimate over what is allowed, (), accepted up to 1; `start` (nb, d): where the bodies were
    at first; `defect` (nb, 6 or 3) [m/s, rad/s]; energy `created` (), see `energy.created`: no
    estimate but an error, of order 2 s - 1 per time."""
    d, power = system.dimension, (stages + 1) / (2 * stages - 1)
    gone = jnp.linalg.norm(state.position - start, axis=1)
    position = (tolerance.position + tolerance.relative * gone) / system.length
    linear = jnp.linalg.norm(defect[:, :d], axis=1) / (system.length * (_CALIBRATION * position) ** power)
    angular = jnp.linalg.norm(defect[:, d:], axis=1) / (_CALIBRATION * tolerance.angle) ** power
    noise = _ROUNDINGS * jnp.finfo(float).eps * (1.0 + jnp.max(jnp.abs(state.position)) / system.length)
    drift = (jnp.maximum(jnp.abs(created) - noise, 0.0) / (h * tolerance.energy)) ** power
    return jnp.maximum(_GAMMA[stages] * h * jnp.maximum(jnp.max(linear), jnp.max(angular)), drift)


def next_step(stages: int, h, ratio):
    """h [s] that would have a ratio of 1, within bounds."""
    return h * jnp.clip(_SAFETY * jnp.maximum(ratio, _EXACT) ** (-1 / (stages + 1)), _SHRINK, _GROW)

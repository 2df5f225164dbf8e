"""Radau IIA collocation with 1, 2 or 3 stages: nodes, Butcher matrix, and the polynomials through
the stages.

Hairer and Wanner, Solving Ordinary Differential Equations II, section IV.5: s stages, stiffly
accurate (the last stage is the end of the step), L-stable, of order 2 s - 1. One stage is implicit
Euler.
"""

from __future__ import annotations

import dataclasses
import functools

import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.polynomial import Polynomial

_BEFORE = 1e-14  # of a step: at its end, loads are those before it
_ROUNDINGS = 4  # of the time there, if that is more: late in a run, a share of the step is rounded away
_NODES = {
    1: (1.0,),
    2: (1 / 3, 1.0),
    3: ((4 - np.sqrt(6)) / 10, (4 + np.sqrt(6)) / 10, 1.0),
}


@dataclasses.dataclass(frozen=True, eq=False)
class Collocation:
    """c (s,); A (s, s); `at_start` (s,): the stage polynomial's weights at 0, before the first
    node; `powers` (s, s): of the Lagrange polynomials l_j the coefficient of theta^k, row j."""

    c: np.ndarray
    A: np.ndarray
    at_start: np.ndarray
    powers: np.ndarray

    @property
    def stages(self) -> int:
        """Number s of stages."""
        return len(self.c)

    def seen(self, begun, h):
        """Times (s,) [s] at which the stages of a step of h [s], `begun` () [s], see their loads:
        one that jumps at its end, as it was before."""
        end = begun + h
        # no digits of it count but those that put it before the jump
        before = lax.stop_gradient(jnp.maximum(_BEFORE * h, _ROUNDINGS * jnp.finfo(float).eps * jnp.abs(end)))
        return begun + h * self.c - jnp.where(self.c == 1, before, 0.0)

    def basis(self, theta):
        """l_j(theta) (..., s): the polynomial through stage values v_j is sum_j l_j v_j."""
        theta = jnp.asarray(theta)[..., None]
        return theta ** np.arange(self.stages) @ self.powers.T


@functools.lru_cache(maxsize=4)
def radau(stages: int) -> Collocation:
    """The method with that many stages."""
    c = np.array(_NODES[stages])
    powers = np.array([_lagrange(c, j).coef for j in range(stages)])
    A = np.array([[_lagrange(c, j).integ()(end) for j in range(stages)] for end in c])
    return Collocation(c, A, powers[:, 0], powers)


def _lagrange(c: np.ndarray, j: int) -> Polynomial:
    """The polynomial that is 1 at node j and 0 at the others."""
    others = np.delete(c, j)
    return Polynomial.fromroots(others) / np.prod(c[j] - others) if len(others) else Polynomial([1.0])

"""Tangent planes of contacts as a step begins, as arrays."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np


class Planes(NamedTuple):
    """Tangent planes of c contacts as a step begins: the numbers `sides` (c, 2) of their bodies,
    that of all fixed ones after the others; maps `on` (c, 2, 1 + k, w) from the velocities of both
    to (v_n, w), zero of fixed ones; gaps `psi` (c,) [m]; semi-axes `e` (c, k) of friction;
    coefficients (c,), compliances [m/N] and dissipation times [s]; the impulses `start` (c, 1 + k)
    [N s] of the last step."""

    sides: np.ndarray
    on: np.ndarray
    psi: np.ndarray
    e: np.ndarray
    mu: np.ndarray
    compliance: np.ndarray
    dissipation_time: np.ndarray
    start: np.ndarray

    def filled(self, size: int, gap: float) -> Planes:
        """With rows up to `size`, of contacts of nothing, with a `gap` [m]."""
        more = size - len(self.psi)
        every = (np.concatenate([a, np.zeros((more, *a.shape[1:]), a.dtype)]) for a in self)
        filled = Planes(*every)
        return filled._replace(psi=np.concatenate([self.psi, np.full(more, gap)]))

    def scaled(self, velocity):
        """(v_n, w) (c, 1 + k) [m/s] of the moving bodies' `velocity` (nb, 6 or 3)."""
        every = jnp.concatenate([velocity, jnp.zeros((1, velocity.shape[1]))])
        return jnp.einsum("csrw,csw->cr", self.on, every[self.sides])

    def momenta(self, impulses, body_count: int):
        """(nb, 6 or 3) [N s, N m s]: what `impulses` (c, 1 + k) give the moving bodies."""
        total = jnp.zeros((body_count + 1, self.on.shape[-1]))
        return total.at[self.sides].add(jnp.einsum("csrw,cr->csw", self.on, impulses))[:-1]

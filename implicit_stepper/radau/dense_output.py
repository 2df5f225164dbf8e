"""Bodies between steps, from the stages.

Velocities at the start and at the stages give a polynomial, of an error O(h^(s + 1)); its integral,
of one order more, moves the bodies. The rates of the stages themselves, which GGL keeps apart from
velocities, are of an order less.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import Polynomial

from ..model import rotation
from ..model.bodies import State
from ..runtime.compilation import jit
from ..runtime.errors import OutsideRunError
from ..solvers.collocation import radau

_ROUNDED = 1e-12  # of the largest time of a run: what sums of steps and a user's arithmetic may differ by


def at(trajectory, time: np.ndarray) -> State:
    """Bodies of a `Trajectory` with stages at `time` (m,) [s], see `Trajectory.at`."""
    time = np.atleast_1d(time)
    nodes = trajectory.time
    slack = _ROUNDED * np.max(np.abs(nodes))
    outside = ~((time >= nodes[0] - slack) & (time <= nodes[-1] + slack))  # true of NaN
    if np.any(outside):
        raise OutsideRunError(f"`time` = {time[outside][0]} s is outside the run, {nodes[0]:.9g} s to {nodes[-1]:.9g} s.")
    step = np.clip(np.searchsorted(nodes, time, side="right") - 1, 0, len(nodes) - 2)
    h = np.diff(nodes)[step]
    theta = (time - nodes[step]) / np.where(h > 0, h, 1.0)  # a run that is nothing but an impact
    own, d = trajectory.contacts.stages, trajectory.position.shape[-1]
    method = radau(own.rates.shape[1])
    basis = through_start(method.c)
    velocities = np.concatenate([trajectory.velocity[step][:, None], own.velocity[step]], axis=1)
    change = _change(method.A, basis, h[:, None, None], theta, own.rates[step], velocities, d)
    turned = _turned(trajectory.orientation[step], change[..., d:])
    velocity = np.einsum("sm,msbw->mbw", [lagrange(theta) for lagrange in basis], velocities)
    at_node = (time >= nodes[-1])[:, None, None]  # the last one may follow an impact
    velocity = np.where(at_node, trajectory.velocity[-1], velocity)
    return State(time, trajectory.position[step] + change[..., :d], np.asarray(turned), velocity)


def mean(values: np.ndarray) -> np.ndarray:
    """Over each of n steps (n, ...), of `values` (n, s, ...) at its stages."""
    return np.tensordot(values, radau(values.shape[1]).A[-1], (1, 0))


def _change(A, basis: list[Polynomial], h, theta, rates, velocities, d: int) -> np.ndarray:
    """What bodies have moved and turned (m, nb, 6 or 3) at `theta` (m,): the integral of the rates
    that `velocities` (m, s + 1, nb, 6 or 3) are, and evenly spread what it lacks at the end of the
    step, which the stages' `rates` say."""
    stages = h[:, None] * np.einsum("ij,mjbw->mibw", A, rates)
    changes = np.concatenate([np.zeros_like(stages[:, :1]), stages], axis=1)
    spins = _spins(changes[..., d:], velocities[..., d:])
    rates = np.concatenate([velocities[..., :d], np.asarray(spins)], axis=-1)
    moved, whole = (
        h * np.einsum("sm,msbw->mbw", [lagrange.integ()(end) for lagrange in basis], rates)
        for end in (theta, np.ones_like(theta))
    )
    return moved + theta[:, None, None] * (changes[:, -1] - whole)


def _turning(turn, spin):
    """The rate of `turn` for which exp(turn) Q has the angular velocity `spin`, both (3,) or
    (1,)."""
    return jnp.linalg.solve(jax.vmap(rotation.angular_velocity, (None, 0), 1)(turn, jnp.eye(len(turn))), spin)


# one program each, in the place of 50 for single operations
_turned = jit(jax.vmap(jax.vmap(rotation.advance)), once=True)
_spins = jit(jax.vmap(jax.vmap(jax.vmap(_turning))), once=True)


def through_start(c: np.ndarray) -> list[Polynomial]:
    """Of degree s, each 1 at one of the nodes 0 and c (s,), and 0 at the others."""
    nodes = np.concatenate([[0.0], c])
    return [Polynomial.fromroots(others := np.delete(nodes, j)) / np.prod(nodes[j] - others) for j in range(len(nodes))]

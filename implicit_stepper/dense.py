"""Bodies between steps, from the stages' polynomials."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import Polynomial

from . import rotation
from .bodies import State
from .collocation import radau


def at(trajectory, time: np.ndarray) -> State:
    """Bodies of a `Trajectory` with stages at `time` (m,) [s], see `Trajectory.at`."""
    time = np.atleast_1d(time)
    nodes = trajectory.time
    slack = 1e-12 * max(1.0, abs(nodes[-1]))  # of rounding
    outside = ~((time >= nodes[0] - slack) & (time <= nodes[-1] + slack))  # true of NaN
    if np.any(outside):
        raise ValueError(f"`time` = {time[outside][0]} s is outside the run, {nodes[0]:.9g} s to {nodes[-1]:.9g} s.")
    step = np.clip(np.searchsorted(nodes, time, side="right") - 1, 0, len(nodes) - 2)
    h = np.diff(nodes)[step]
    theta = (time - nodes[step]) / h
    own, d = trajectory.contacts.stages, trajectory.position.shape[-1]
    method = radau(own.rates.shape[1])
    change = h[:, None, None] * np.einsum("ms,msbw->mbw", method.integrals(theta), own.rates[step])
    turned = jax.vmap(jax.vmap(rotation.advance))(jnp.asarray(trajectory.orientation[step]), jnp.asarray(change[..., d:]))
    velocities = np.concatenate([trajectory.velocity[step][:, None], own.velocity[step]], axis=1)
    weights = _through_start(method.c, theta)
    velocity = np.einsum("ms,msbw->mbw", weights, velocities)
    at_node = (time >= nodes[-1])[:, None, None]  # the last one may follow an impact
    velocity = np.where(at_node, trajectory.velocity[-1], velocity)
    return State(time, trajectory.position[step] + change[..., :d], np.asarray(turned), velocity)


def _through_start(c: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Weights (m, s + 1) at `theta` (m,) of the values at the start and at the nodes c (s,), in their polynomial."""
    nodes = np.concatenate([[0.0], c])
    columns = []
    for j, node in enumerate(nodes):
        others = np.delete(nodes, j)
        columns.append(Polynomial.fromroots(others)(theta) / np.prod(node - others))
    return np.stack(columns, axis=1)

"""Closest points without a hint: where searches start, and which root is kept."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from shapes.closest_points.conditions import PairClass, Placed
from shapes.shards import varying_like

from . import approach
from .local_search import ROUND_OFF, TOLERANCE, closest_points_near, units
from .vantage import vantage

_STARTS = 12


def one_by_one(function):
    """`jax.vmap(function)`; but on a CPU one after the other: overlapping bodies need twelve times
    the work, which a `vmap` would do for all."""
    if jax.default_backend() != "cpu":
        return jax.vmap(function)
    return lambda *arguments: lax.map(lambda own: function(*own), arguments)


@functools.partial(jax.jit, static_argnums=0)  # one trace for all scenes with such a pair
def closest_points_cold(pair: PairClass, first: Placed, second: Placed, inside_1, inside_2, length):
    """Long-form closest-point unknowns of one pair, without a hint; `inside_i` (d,): points inside,
    in shape coordinates."""
    general = pair.general
    z, _ = search(general, first, second, inside_1, inside_2, length, TOLERANCE)
    return z * units(general, length)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Best:
    """The best root so far, the `number` of starts, and whether the first one showed the cores
    `apart`."""

    z: jax.Array
    psi: jax.Array
    number: jax.Array
    apart: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Deepest:
    """Where depths are known to be least: `directions` (k, d), from body 1 to body 2, and the least
    `depth` () [m] of all; see `separating_axes`."""

    directions: jax.Array
    depth: jax.Array


def search(pair: PairClass, first: Placed, second: Placed, inside_1, inside_2, length, tolerance, deepest=None, rough=None):
    """Dimensionless unknowns and their psi, -inf unless they are a root to `tolerance` or to what
    round-off allows, from up to 12 starts: the bodies as they are, then parted along directions all
    around, those of `deepest` first.

    Where the bodies (the cores of rounded ones) are apart there is one root. Else there may be
    several; the largest psi is kept, and of `deepest`, which knows it, no other is taken. Starts
    are found in units of `rough` () [m], by default of the `length` that the tolerance is meant in.
    """
    unit, d = units(pair, length), pair.dimension
    inside_1, inside_2 = vantage(pair, first, second, inside_1, inside_2, length)
    between = second.position + second.rotation @ inside_2 - first.position - first.rotation @ inside_1
    distance = jnp.linalg.norm(between)
    axis = jnp.where(distance > 0, between / jnp.where(distance > 0, distance, 1.0), jnp.eye(d)[-1])
    known = jnp.zeros((0, d)) if deepest is None else deepest.directions
    directions = jnp.concatenate([axis[None], known, _around(d)[len(known) :] @ first.rotation.T])
    reach = jnp.maximum(jnp.linalg.norm(first.position), jnp.linalg.norm(second.position)) / length

    overlap = -TOLERANCE * length
    enough = overlap - (0.0 if deepest is None else jnp.maximum(deepest.depth, 0.0))

    def core_gap(psi):
        return psi + pair.radii(first, second)

    def attempt(best: _Best) -> _Best:
        # parted by little more than the least depth so far: only a lesser one is of interest
        depth = jnp.where(best.number > 0, jnp.maximum(-core_gap(best.psi), 0.0) + length, 0.0)
        depth = jnp.where(jnp.isfinite(depth), depth, length)
        where = (first, second, inside_1, inside_2, length if rough is None else rough)
        start, bend = approach.start(pair, *where, directions[best.number], depth)
        allowed = jnp.minimum(tolerance + ROUND_OFF * (1 + reach) * (1 + bend), TOLERANCE)
        apart = jnp.where(best.number == 0, core_gap(start[3 * d]) > -overlap, best.apart)
        found, solved = closest_points_near(pair, start, first, second, length, allowed)
        # bodies apart have roots with psi < 0 too, which are no distance
        psi = jnp.where(solved & (~apart | (core_gap(found[3 * d]) > overlap)), found[3 * d], -jnp.inf)
        # the first start is kept, converged or not, until a better one comes
        better = (psi > best.psi) | (best.number == 0)
        new, old = (found / unit, psi), (best.z, best.psi)
        return _Best(*jax.tree.map(lambda a, b: jnp.where(better, a, b), new, old), best.number + 1, apart)

    nothing = _Best(jnp.zeros(pair.unknowns), -jnp.inf * jnp.ones(()), jnp.zeros((), int), jnp.asarray(False))
    nothing = varying_like(nothing, (first, second))
    found = lax.while_loop(lambda best: (core_gap(best.psi) < enough) & (best.number < _STARTS), attempt, nothing)
    if deepest is None:
        return found.z, found.psi
    return found.z, jnp.where(core_gap(found.psi) < enough, -jnp.inf, found.psi)


def _around(d: int) -> np.ndarray:
    """`_STARTS` - 1 unit vectors (.., d) spread evenly: on the circle, or along a spiral on the
    sphere."""
    steps = np.arange(_STARTS - 1) + 0.5
    if d == 2:
        angles = 2 * np.pi * steps / len(steps)
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)
    heights, angles = 1 - 2 * steps / len(steps), np.pi * (1 + np.sqrt(5)) * steps
    across = np.sqrt(1 - heights**2)
    return np.stack([across * np.cos(angles), across * np.sin(angles), heights], axis=1)

"""Derivatives from either side of a switch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from shapes.arguments import positive
from shapes.errors import ArgumentError

_OFFSET = 1e-6  # of a direction


class Sides(NamedTuple):
    """The derivative along a direction as it is `below` and `above` a point: from against the
    direction, and from along it."""

    below: Any
    above: Any


def one_sided(function: Callable, at, direction, *, offset: float = _OFFSET) -> Sides:
    """Derivatives of a differentiable `function` of a tree, as one of a `rollout`, along
    `direction` at the switch `at`, both trees of floats alike: the limits of those on either side.

    Derivatives at `offset` and twice as far are extrapolated, so that the error falls with the
    offset's square; nothing else may switch within that. Where there is no switch at `at` both
    sides are alike; where one does not exist it is NaN. Raises `ValueError` for trees that differ
    and an offset that is not positive.
    """
    offset = positive("offset", offset)
    shapes = [jax.tree.map(jnp.shape, tree) for tree in (at, direction)]
    if jax.tree.structure(at) != jax.tree.structure(direction) or shapes[0] != shapes[1]:
        raise ArgumentError(f"`direction` has the shapes {shapes[1]}: it must have those of `at`, {shapes[0]}.")
    at, direction = (jax.tree.map(lambda a: jnp.asarray(a, float), tree) for tree in (at, direction))

    def along(share):
        there = jax.tree.map(lambda a, d: a + share * d, at, direction)
        return jax.jvp(function, (there,), (direction,))[1]

    near = jax.lax.map(along, offset * jnp.array([-1.0, -2.0, 1.0, 2.0]))
    return Sides(*(jax.tree.map(lambda a, i=i: 2 * a[i] - a[i + 1], near) for i in (0, 2)))

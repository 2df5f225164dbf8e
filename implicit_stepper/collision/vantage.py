"""Points inside two bodies from which a search for their closest points begins, near both whatever
their sizes.

The point that a shape knows inside it may be very far away in a body that is much larger than the
other, and in a half-space it is anywhere: the interior-point method would then begin among lengths
of another order.
"""

from __future__ import annotations

import jax.numpy as jnp

from shapes.closest_points.conditions import PairClass, Placed
from shapes.shape_class import ShapeClass
from shapes.small_algebra import direction, inner

# lengths below the surface where a point is sought, and how deep it must be
_DEPTH, _ENOUGH = 2.0, 1.0


def vantage(pair: PairClass, first: Placed, second: Placed, inside_1, inside_2, length):
    """Points (d,) [m] inside both bodies, in shape coordinates: `inside_i`, or one of a large body
    near the other one.

    `length` [m] is at most of the order of the smaller body.
    """
    centre_1 = first.position + first.rotation @ inside_1
    centre_2 = second.position + second.rotation @ inside_2
    return _under(pair.first, first, inside_1, centre_2, length), _under(pair.second, second, inside_2, centre_1, length)


def _under(shape_class: ShapeClass, placed: Placed, inside, point, length):
    """Below the face that a world `point` (d,) is farthest out of, where the body is thick enough
    there; else `inside`."""
    local = inner(placed.rotation.T, point - placed.position)
    values, gradients = shape_class.jet.value(local, placed.theta), shape_class.jet.gradient(local, placed.theta)
    face = jnp.argmax(values / placed.slope)
    n, per_slope = direction(gradients[face])
    below = local - (values[face] * per_slope + _DEPTH * length) * n
    deep = jnp.max(shape_class.jet.value(below, placed.theta) / placed.slope) < -_ENOUGH * length
    return jnp.where(deep, below, inside)

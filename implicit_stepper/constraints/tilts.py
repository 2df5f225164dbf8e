"""Tilts that a line or a face of contact forbids: about which axes of the tangent plane bodies that
touch may not turn.

Bodies touch along the tangents e along which neither surface bends: n.e = 0 holds all the way,
whose rate is

    (omega_2 - omega_1).(n x e) = 0

Where along e the forces act, the centre of pressure, is what keeps it. In a step of several stages
both n.e and its rate are kept at zero, as the gap and its rate are.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from shapes.closest_points.conditions import PairClass, Placed
from shapes.shape_class import ShapeClass
from shapes.small_algebra import inner, product

_FLAT = 1e-9  # times the scene's length: curvatures of a plane or a straight line, but for rounding


def forbidden(pair: PairClass, closest, active, tangents, first: Placed, second: Placed, length):
    """The projector (d - 1, d - 1) on the axes, in the `tangents` (d - 1, d), of tilts that two
    bodies forbid each other which touch at the `closest` points (unknowns,), in long form, where
    the inequalities that are `active` (pairs,) carry the normal; `length` [m] is the scene's. In
    the plane there is one axis, across it, which two straight edges forbid."""
    d = tangents.shape[1]
    a1, a2, n, _, l1, l2 = jnp.split(closest, np.cumsum([d, d, d, 1, pair.first.count]))
    own = _pairs(pair.first)
    bends = _bends(pair.first, first, a1, l1, n, active[:own], tangents, length)
    bends = bends + _bends(pair.second, second, a2, l2, -n, active[own:], tangents, length)
    size = jnp.trace(bends)
    face = size <= _FLAT
    if d == 2:
        return jnp.where(face, jnp.eye(1), 0.0)
    area = bends[0, 0] * bends[1, 1] - bends[0, 1] * bends[1, 0]
    line = area <= _FLAT * size**2
    # along a line, surfaces bend across it alone: the axis of the tilt
    across = bends / jnp.where(face, 1.0, size)
    return jnp.where(face, jnp.eye(2), jnp.where(line, across, 0.0))


def _pairs(shape_class: ShapeClass) -> int:
    """How many complementary pairs a side of a contact has, see `conditions`."""
    if shape_class.support is None:
        return shape_class.count
    return sum(i is not None for i in shape_class.sweep)


def _bends(shape_class: ShapeClass, placed: Placed, point, weights, outward, active, tangents, length):
    """A matrix (d - 1, d - 1), not negative, whose null vectors are the tangents along which a
    surface is straight."""
    if shape_class.support is None:
        gradients = placed.gradient(shape_class, point) / placed.slope[:, None]
        across = jnp.where(active[:, None], product(gradients, tangents.T), 0.0)
        local = inner(placed.rotation.T, point - placed.position)
        curvature = shape_class.jet.hessian(local, placed.theta) / placed.slope[:, None, None]
        held = jnp.where(active, jnp.abs(weights), 0.0)
        own = product(tangents, placed.rotation)
        curved = product(product(own, length * jnp.einsum("j,jab->ab", held, curvature)), own.T)
        # which only tells lines from curves
        return product(across.T, across) + lax.stop_gradient(curved)
    normal, local = inner(placed.rotation.T, outward), inner(placed.rotation.T, point - placed.position)
    along = local - shape_class.support_jet.gradient(normal, placed.theta)[0]
    # of the two ends of a sweep, not the far one
    inside = shape_class.half_lengths(placed.theta) - along > length * normal
    swept = [i for i, number in enumerate(shape_class.sweep) if number is not None]
    straight = jnp.zeros(len(normal), bool).at[np.array(swept, int)].set(active) & inside
    axes = product(tangents, placed.rotation)
    return jnp.eye(len(tangents)) - product(jnp.where(straight, axes, 0.0), axes.T)

"""Which gaps below zero are those of bodies that overlap, from the record of a contact alone."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

import shapes
from implicit_stepper.constraints.violations import overlap_violation
from implicit_stepper.model import poses
from shapes.closest_points.conditions import PairClass, Placed
from shapes.closest_points.surface import surface

TETRAHEDRON = shapes.Polytope(vertices=0.1 * np.array([(1, 1, 1), (-1, -1, 1), (1, -1, -1), (-1, 1, -1)]))
BALL, BOX, ROUNDED = shapes.Sphere(0.1), shapes.Box((0.1, 0.1, 0.1)), shapes.Rounded(shapes.Box((0.1, 0.1, 0.1)), 0.02)


def violation(shapes_of, placed_at, point_1, gap):
    """Of closest points along z, the first at `point_1`, of two shapes at `placed_at`, (position,
    quaternion) each."""
    placed = [
        Placed(
            jnp.asarray(shape.theta), surface(shape).slope, jnp.asarray(position, float), poses.matrices(np.asarray(turn))
        )
        for shape, (position, turn) in zip(shapes_of, placed_at, strict=True)
    ]
    thetas = {f"theta_{side}": own.theta for side, own in enumerate(placed, start=1)}
    member = SimpleNamespace(pair=PairClass(*(shape.shape_class for shape in shapes_of)), **thetas)
    first, normal = jnp.asarray(point_1, float), jnp.array([0.0, 0.0, 1.0])
    record = SimpleNamespace(point_1=first, point_2=first + gap * normal, normal=normal, gap=jnp.asarray(gap))
    return float(overlap_violation(SimpleNamespace(length=0.1), member, record, *placed))


def about(axis, angle):
    return np.concatenate([[np.cos(angle / 2)], np.sin(angle / 2) * np.asarray(axis, float)])


@pytest.mark.parametrize("depth", [1e-2, 1e-5, 1e-9])
@pytest.mark.parametrize("tilt", [0.0, 0.7, 0.9])
def test_edges_that_cross_overlap_though_the_normal_leads_out_of_both(depth, tilt):
    """Edges of tetrahedra, whose faces enclose 70.5 degrees: tilted about their edges by more than
    half of that, what lies below the one and above the other along the normal is in neither."""
    up = about((1 / np.sqrt(2), 1 / np.sqrt(2), 0), tilt)  # about its upper edge
    edge = poses.matrices(up) @ [0, 0, 0.1]
    down = about((1 / np.sqrt(2), -1 / np.sqrt(2), 0), tilt)  # about its lower edge, across the other
    lower = poses.matrices(down) @ [0, 0, -0.1]
    first, second = (-edge, up), (-lower - [0, 0, depth], down)
    assert violation((TETRAHEDRON, TETRAHEDRON), (first, second), (0, 0, 0), -depth) <= 1e-12


@pytest.mark.parametrize("both", [(BOX, BOX), (BALL, BALL), (BOX, BALL), (ROUNDED, ROUNDED)])
def test_far_sides_of_bodies_apart_do_not_overlap(both):
    """The first lies .3 m and more above the second, and its upper side has a normal that leads to
    the lower side of the other."""
    still = about((1, 0, 0), 0.0)
    high = 0.5
    reach = [0.12 if shape is ROUNDED else 0.1 for shape in both]
    gap = -(high + sum(reach))
    assert violation(both, (((0, 0, high), still), ((0, 0, 0), still)), (0, 0, high + reach[0]), gap) >= 0.1


@pytest.mark.parametrize("both", [(BOX, BOX), (BALL, BALL), (BOX, BALL), (ROUNDED, ROUNDED)])
@pytest.mark.parametrize("depth", [1e-9, 0.01, 0.05])
def test_bodies_on_each_other_overlap(both, depth):
    still = about((1, 0, 0), 0.0)
    reach = [0.12 if shape is ROUNDED else 0.1 for shape in both]
    placed = (((0, 0, 0), still), ((0, 0, sum(reach) - depth), still))
    assert violation(both, placed, (0, 0, reach[0]), -depth) <= 1e-12

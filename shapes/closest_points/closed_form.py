"""Closest points in closed form, for the pairs that have them, as `PairClass.query` functions: no
equation is solved."""

from __future__ import annotations

import jax.numpy as jnp

from .conditions import PairClass, Placed


def balls(pair: PairClass, unknowns, first: Placed, second: Placed, length):
    """Spheres or discs: on the line of centres."""
    between = second.position - first.position
    n = between / jnp.linalg.norm(between)
    return jnp.concatenate([first.position + first.theta[0] * n, second.position - second.theta[0] * n])


def plane_and_ball(pair: PairClass, unknowns, first: Placed, second: Placed, length):
    """A half-space or half-plane, and a sphere or disc."""
    n, height = _above(pair.first, first, second.position)
    return jnp.concatenate([second.position - height * n, second.position - second.theta[0] * n])


def ball_and_plane(pair: PairClass, unknowns, first: Placed, second: Placed, length):
    """A sphere or disc, and a half-space or half-plane."""
    n, height = _above(pair.second, second, first.position)
    return jnp.concatenate([first.position - first.theta[0] * n, first.position - height * n])


def _above(shape_class, plane: Placed, point):
    """The plane's unit normal (d,), and the height () of a point above it [m]."""
    gradient = plane.gradient(shape_class, point)[0]
    slope = jnp.linalg.norm(gradient)
    return gradient / slope, plane.value(shape_class, point)[0] / slope


# By the names of the two shape classes; a point's core is a ball.
CLOSED_FORMS = {
    ("Sphere", "Sphere"): balls,
    ("Disc", "Disc"): balls,
    ("HalfSpace", "Sphere"): plane_and_ball,
    ("HalfPlane", "Disc"): plane_and_ball,
    ("Sphere", "HalfSpace"): ball_and_plane,
    ("Disc", "HalfPlane"): ball_and_plane,
    ("Point", "Sphere"): balls,
    ("Sphere", "Point"): balls,
    ("Point", "Disc"): balls,
    ("Disc", "Point"): balls,
    ("HalfSpace", "Point"): plane_and_ball,
    ("HalfPlane", "Point"): plane_and_ball,
    ("Point", "HalfSpace"): ball_and_plane,
    ("Point", "HalfPlane"): ball_and_plane,
}

"""Convex polytopes and polygons, from their vertices or from half-spaces. Checked exactly, so not
sampled for validity."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ..arguments import points, vector
from ..checks import halfspaces
from ..errors import MomentsError, ShapeArgumentError
from ..moments import Moments
from ..shape import ImplicitShape, Shape
from .flat_faced import plane, unit_normal


def Polytope(vertices: Sequence | None = None, *, normals: Sequence | None = None, offsets: Sequence | None = None) -> Shape:
    """The convex hull of `vertices` (n, 3) [m], or {normals @ x <= offsets} with unit `normals` (m,
    3), `offsets` (m,) [m].

    One inequality per face; coplanar facets of the hull are one face. Parameters are the normals
    and offsets, face by face. The moments are taken from the vertices that these have, which needs
    numbers: they cannot be traced.

    Raises `ShapeError` for vertices that are flat, given twice or inside the hull of the others,
    and for half-spaces that contradict each other, leave a flat or unbounded set, or are implied by
    the others.
    """
    return _from_vertices_or_faces("Polytope", 3, vertices, normals, offsets, _polytope)


def Polygon(vertices: Sequence | None = None, *, normals: Sequence | None = None, offsets: Sequence | None = None) -> Shape:
    """Planar, as `Polytope`: the hull of `vertices` (n, 2) [m], in any order, or {normals @ x <=
    offsets}."""
    return _from_vertices_or_faces("Polygon", 2, vertices, normals, offsets, _polygon)


def _from_vertices_or_faces(name: str, d: int, vertices, normals, offsets, closed_form) -> Shape:
    if (vertices is None) != (normals is not None and offsets is not None) or (normals is None) != (offsets is None):
        raise ShapeArgumentError(f"{name} needs either `vertices` or both `normals` and `offsets`.")
    if vertices is not None:
        normals, offsets = halfspaces.faces(points("vertices", vertices, d, error=ShapeArgumentError), name)
    else:
        normals = points("normals", normals, d, error=ShapeArgumentError)
        normals = np.stack([unit_normal(f"normals[{i}]", n, d) for i, n in enumerate(normals)])
        offsets = vector("offsets", offsets, len(normals), error=ShapeArgumentError)
        halfspaces.check(normals, offsets, name)
    expressions, parameters = [], {}
    for i, face in enumerate(np.column_stack([normals, offsets])):
        expression, symbols = plane(d, f"_{i}")
        expressions.append(expression)
        parameters |= dict(zip(symbols, face, strict=True))
    return ImplicitShape(expressions, parameters=parameters, dimension=d, name=name, closed_form=closed_form, validate=False)


def _polytope(theta) -> Moments:
    """Sum over tetrahedra between the middle and the triangles of the surface."""
    if isinstance(theta, jax.core.Tracer):
        raise MomentsError("moments of a Polytope need numbers, its vertices are sought: take them outside of jit and grad.")
    from scipy.spatial import ConvexHull

    faces = np.asarray(theta, dtype=float).reshape(-1, 4)
    corners = halfspaces.vertices(faces[:, :3], faces[:, 3])
    middle = np.mean(corners, axis=0)
    # (k, 3 corners, 3); the fourth corner is the origin
    edges = (corners - middle)[ConvexHull(corners).simplices]
    volumes = np.abs(np.linalg.det(edges)) / 6
    sums = np.sum(edges, axis=1)
    second = np.einsum("k,kci,kcj->ij", volumes, edges, edges) + np.einsum("k,ki,kj->ij", volumes, sums, sums)
    return Moments(np.sum(volumes), volumes @ sums / 4, second / 20).moved(middle, np.eye(3))


def _polygon(theta) -> Moments:
    """Sum over triangles between the middle and the edges, in the order of the normals' angles."""
    faces = jnp.asarray(theta).reshape(-1, 3)
    faces = faces[jnp.argsort(jnp.arctan2(faces[:, 1], faces[:, 0]))]
    ahead = jnp.roll(faces, -1, axis=0)
    normals, offsets = (jnp.stack([faces[:, part], ahead[:, part]], axis=1) for part in (slice(2), slice(2, 3)))
    start = jnp.linalg.solve(normals, offsets)[..., 0]  # the corner between a face and the next
    middle = jnp.mean(start, axis=0)
    start = start - middle
    end = jnp.roll(start, -1, axis=0)
    areas = (start[:, 0] * end[:, 1] - start[:, 1] * end[:, 0]) / 2
    sums = start + end
    squares = sum(jnp.einsum("k,ki,kj->ij", areas, v, v) for v in (start, end, sums))
    return Moments(jnp.sum(areas), areas @ sums / 3, squares / 12).moved(middle, jnp.eye(2))

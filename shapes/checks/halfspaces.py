"""Convex sets N x <= o of half-spaces, and hulls of points: whether they are bodies, their faces
and their vertices.

N (m, d) are unit normals, o (m,) offsets [m], d = 2 or 3. scipy is imported inside: most shapes
need not wait for it.
"""

from __future__ import annotations

import numpy as np

from ..errors import EmptyShapeError, NotConvexError, RedundantPartError, ShapeArgumentError, UnboundedShapeError

# Contact is solved to 1e-10 of a scene's length. What is ten times that, relative to the largest
# coordinate, is nothing: a body this thin is flat, faces that differ by less are one, and a face
# that cuts off less is superfluous.
NOTHING = 1e-9


def check(normals, offsets, name: str) -> None:
    """Raises `ShapeError` if the set is empty, flat or unbounded, or if an inequality is never
    active, and says which."""
    centre, radius, touched, scale = _inner_ball(normals, offsets)
    if radius < -NOTHING * scale:
        raise EmptyShapeError(
            f"{name} is empty: the half-spaces {touched} contradict each other, every point is outside one of them by "
            f"{-radius:.3g} m or more. Check the signs: normals point outward, and the body is where normals @ x <= offsets."
        )
    direction = escape(normals)
    if direction is not None:
        raise UnboundedShapeError(f"{name} is unbounded: it never ends along {direction}. Close it with more half-spaces.")
    if radius < NOTHING * scale:
        raise EmptyShapeError(f"{name} is flat: the half-spaces {touched} leave {2 * abs(radius):.3g} m between them.")
    reach = np.max(np.linalg.norm(vertices(normals, offsets) - centre, axis=1))
    for j, (normal, offset) in enumerate(zip(normals, offsets - normals @ centre, strict=True)):
        limits = offsets - normals @ centre
        limits[j] += reach  # only bounds what is sought
        if -_minimum(-normal, normals, limits / reach).fun <= offset / reach + NOTHING:
            raise RedundantPartError(
                f"{name}: half-space {j}, with normal {normals[j]} and offset {offsets[j]}, is never active, as the others "
                "imply it. Leave it out."
            )


def escape(normals) -> np.ndarray | None:
    """A direction (d,) in which a set with these normals has no end, far from those that end; None
    if it is bounded."""
    d = normals.shape[1]
    found, margin = None, -NOTHING
    for axis in range(d):
        for sign in (-1.0, 1.0):
            bounds = [(-1.0, 1.0)] * d + [(None, 1.0)]
            bounds[axis] = (sign, sign)
            rows = np.column_stack([normals, np.ones(len(normals))])
            best = _minimum(np.append(np.zeros(d), -1.0), rows, np.zeros(len(normals)), bounds)
            if best.x[-1] > margin:
                found, margin = best.x[:-1] / np.linalg.norm(best.x[:-1]) + 0.0, best.x[-1]  # no -0
    return found


def vertices(normals, offsets) -> np.ndarray:
    """Corners (k, d) [m] of a bounded set that is not flat; one where many faces meet may be there
    several times."""
    from scipy.spatial import HalfspaceIntersection

    centre, _, _, _ = _inner_ball(normals, offsets)
    about = np.column_stack([normals, normals @ centre - offsets])
    return centre + HalfspaceIntersection(about, np.zeros(normals.shape[1])).intersections


def faces(points, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Normals (m, d) and offsets (m,) of the convex hull of points (n, d) [m], coplanar facets as
    one.

    Raises `ShapeError` if the hull is flat, a point is given twice, or one is inside the hull of
    the others. A point on a face or an edge is superfluous but harmless.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import ConvexHull, cKDTree

    d = points.shape[1]
    if len(points) <= d:
        raise ShapeArgumentError(f"{name} needs {d + 1} vertices or more, not {len(points)}.")
    thinnest = NOTHING * np.max(np.abs(points))
    for i, k in sorted(cKDTree(points).query_pairs(thinnest)):
        raise ShapeArgumentError(f"{name}: vertices {i} and {k} are both {points[i]}: give every vertex once.")
    middle = np.mean(points, axis=0)
    if np.ptp((points - middle) @ np.linalg.svd(points - middle)[2][-1]) <= thinnest:
        raise EmptyShapeError(f"{name} is flat: its {len(points)} vertices lie in one {'plane' if d == 3 else 'line'}.")

    hull = ConvexHull(points - middle)
    corners = hull.points[hull.simplices]
    first, second = np.repeat(np.arange(len(corners)), d), hull.neighbors.ravel()
    apart = np.einsum("fkd,fd->fk", corners[second], hull.equations[first, :-1]) + hull.equations[first, -1:]
    same = np.all(np.abs(apart) <= thinnest, axis=1)
    links = coo_array((np.ones(np.sum(same)), (first[same], second[same])), shape=(len(corners), len(corners)))
    count, face = connected_components(links, directed=False)

    normals = np.empty((count, d))
    for f in range(count):
        on_face = hull.points[np.unique(hull.simplices[face == f])]
        normal = np.linalg.svd(on_face - np.mean(on_face, axis=0))[2][-1]
        normals[f] = normal * np.sign(normal @ np.mean(on_face, axis=0))  # the origin is inside
    offsets = np.max(hull.points @ normals.T, axis=0)
    depths = np.min(offsets - hull.points @ normals.T, axis=1)
    deepest = int(np.argmax(depths))
    if depths[deepest] > thinnest:
        raise NotConvexError(
            f"{name}: vertex {deepest} at {points[deepest]} is inside the convex hull of the others, "
            f"{depths[deepest]:.3g} m deep. Split a mesh that is not convex into convex parts; leave out points that are no "
            "corners."
        )
    return normals, offsets + normals @ middle


def _inner_ball(normals, offsets):
    """Centre (d,) and radius [m] of a largest ball inside, at most as large as the largest offset
    (returned too), and the indices of the faces that stop it. A negative radius is by how much the
    half-spaces miss each other."""
    scale = np.max(np.abs(offsets)) or 1.0
    d = normals.shape[1]
    found = _minimum(
        np.append(np.zeros(d), -1.0),
        np.column_stack([normals, np.ones(len(normals))]),
        offsets / scale,
        bounds=[(None, None)] * d + [(None, 1.0)],
    )
    touched = np.flatnonzero(found.ineqlin.marginals < -NOTHING).tolist()
    return scale * found.x[:-1], scale * found.x[-1], touched, scale


def _minimum(objective, rows, limits, bounds=(None, None)):
    """Of objective . x over rows x <= limits, to the accuracy of the solver's smallest
    tolerance."""
    from scipy.optimize import linprog

    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    return linprog(objective, A_ub=rows, b_ub=limits, bounds=bounds, method="highs", options=tight)

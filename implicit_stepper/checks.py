"""Checks of what a body is given, each with a message that names the argument, the value and the remedy."""

from __future__ import annotations

import numpy as np

from shapes import Shape
from shapes.arguments import positive, vector

_UNIT = 1e-6  # a quaternion is normalised only when its length is this close to 1


def orientation(quaternion, angle, dimension: int) -> np.ndarray:
    """Unit quaternion (4,), w first, or angle (1,) in the plane; the identity when neither is given."""
    if dimension == 2:
        if quaternion is not None:
            raise ValueError(f"`quaternion` = {quaternion!r} in a planar scene: give `angle` [rad].")
        return vector("angle", [0.0 if angle is None else angle], 1)
    if angle is not None:
        raise ValueError(f"`angle` = {angle!r} in a spatial scene: give `quaternion`, w first.")
    q = vector("quaternion", (1.0, 0.0, 0.0, 0.0) if quaternion is None else quaternion, 4)
    length = np.linalg.norm(q)
    if abs(length - 1) > _UNIT:
        raise ValueError(f"`quaternion` = {q} has length {length:.9g}: give a unit quaternion, w first.")
    return q / length


def mass_properties(shape: Shape, mass, inertia, density) -> tuple[float, np.ndarray]:
    """Mass [kg] and inertia matrix [kg m^2], (3, 3) or (1, 1), from what the user gave and what the shape knows."""
    if density is not None and (mass is not None or inertia is not None):
        raise ValueError(f"`density` = {density} together with `mass` or `inertia`: give one or the other.")
    if density is None and mass is None:
        raise ValueError("`mass` is missing: give mass [kg], or density to take it from the shape.")
    mass = None if mass is None else positive("mass", mass)
    if inertia is not None:
        return mass, _inertia_matrix(inertia, shape.dimension)
    closed_form = shape.shape_class.volume_and_inertia
    if closed_form is None:
        raise ValueError(f"`inertia` is missing and {shape.shape_class.name} has no closed form for it: give it.")
    volume, second_moment = (np.asarray(v, dtype=float) for v in closed_form(np.asarray(shape.theta)))
    if mass is None:
        mass = positive("density", density) * float(volume)
    return mass, _inertia_matrix(second_moment * mass / volume, shape.dimension)


def _inertia_matrix(inertia, dimension: int) -> np.ndarray:
    if dimension == 2:
        return np.array([[positive("inertia", vector("inertia", np.atleast_1d(inertia), 1)[0])]])
    matrix = np.asarray(inertia)
    if matrix.shape == (3,):
        matrix = np.diag(vector("inertia", inertia, 3))
    else:
        if matrix.shape != (3, 3):
            raise ValueError(f"`inertia` has shape {matrix.shape}: give principal moments (3,) or a matrix (3, 3).")
        matrix = vector("inertia", matrix.reshape(-1), 9).reshape(3, 3)
    if not np.allclose(matrix, matrix.T, rtol=0, atol=1e-12 * np.abs(matrix).max()):
        raise ValueError(f"`inertia` = {matrix.tolist()} is not symmetric.")
    low, middle, high = np.linalg.eigvalsh(matrix)
    if low <= 0:
        raise ValueError(f"`inertia` has the principal moment {low:.6g}: all must be positive.")
    if high > (low + middle) * (1 + 1e-9):
        raise ValueError(
            f"`inertia` has principal moments {low:.6g}, {middle:.6g}, {high:.6g}: the largest exceeds the sum of the "
            "others, which no mass distribution does."
        )
    return matrix

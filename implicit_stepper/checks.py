"""Checks of what a user passes in, each with a message that names the argument, the value and the remedy."""

from __future__ import annotations

import numpy as np

from shapes import Shape

_UNIT = 1e-6  # a quaternion is normalised only when its length is this close to 1


def vector(name: str, value, size: int) -> np.ndarray:
    """`value` as float64 (size,). Refuses float32, other shapes, NaN and infinity."""
    try:
        array = np.asarray(value)
    except Exception as error:
        raise ValueError(f"`{name}` = {value!r} is not an array of numbers.") from error
    if array.dtype in (np.float32, np.float16):
        raise ValueError(f"`{name}` is {array.dtype}: give float64, single precision cannot resolve contact.")
    if array.dtype.kind not in "fiu":
        raise ValueError(f"`{name}` = {value!r} must be {size} real numbers.")
    if array.shape != (size,):
        raise ValueError(f"`{name}` has shape {array.shape}: it needs {size} numbers, shape ({size},).")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"`{name}` = {array} has a value that is not finite.")
    return array.astype(np.float64)


def positive(name: str, value) -> float:
    """`value` as a positive float."""
    number = vector(name, np.asarray(value)[None] if np.ndim(value) == 0 else value, 1)[0]
    if number <= 0:
        raise ValueError(f"`{name}` = {number} must be positive.")
    return float(number)


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
        return np.array([[positive("inertia", inertia)]])
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

"""Numbers and answers that a user passes in: checked, and refused with a message that names the
argument, the value and the remedy."""

from __future__ import annotations

import numpy as np

from .errors import ArgumentError

# from 1, at most, is the length of a vector divided by its length
_ROUNDED = 4 * np.finfo(float).eps


def vector(name: str, value, size: int, *, error: type[ValueError] = ArgumentError) -> np.ndarray:
    """`value` as float64 (size,). Raises `error` for float32, other shapes, NaN, infinity and what
    is not a real number."""
    array = _array(name, value, f"must be {size} real numbers", error)
    if array.shape != (size,):
        raise error(f"`{name}` has shape {array.shape}: it needs {size} numbers, shape ({size},).")
    if not np.all(np.isfinite(array)):
        raise error(f"`{name}` = {array} has a value that is not finite.")
    return array


def unit(value: np.ndarray) -> np.ndarray:
    """`value` (d,) over its length; what is a unit vector but for the rounding of such a division
    stays as it is, so that a vector that is normalised again is the same to the bit."""
    length = np.linalg.norm(value)
    return value if abs(length - 1) <= _ROUNDED else value / length


def number(name: str, value, *, error: type[ValueError] = ArgumentError) -> float:
    """`value` as one finite float, with the same refusals."""
    array = _array(name, value, "must be one finite number", error)
    if array.shape != ():
        raise error(f"`{name}` has shape {array.shape}: it must be one finite number.")
    if not np.isfinite(array):
        raise error(f"`{name}` = {array} is not finite: it must be one finite number.")
    return float(array)


def positive(name: str, value, *, error: type[ValueError] = ArgumentError) -> float:
    """`value` as one positive float."""
    checked = number(name, value, error=error)
    if checked <= 0:
        raise error(f"`{name}` = {checked} must be positive.")
    return checked


def positives(name: str, value, size: int, *, error: type[ValueError] = ArgumentError) -> list[float]:
    """`value` as `size` positive floats."""
    array = vector(name, value, size, error=error)
    if np.any(array <= 0):
        raise error(f"`{name}` = {tuple(array.tolist())} must be positive.")
    return array.tolist()


def dimension_of(value, *, error: type[ValueError] = ArgumentError) -> int:
    """`value` as the whole number 2 or 3 of dimensions; 2.0, which equals 2 as a key, is none."""
    if not isinstance(value, int | np.integer) or value not in (2, 3):
        raise error(f"`dimension` = {value!r} must be 2 or 3.")
    return int(value)


def flag(name: str, value, *, or_none: bool = False, error: type[ValueError] = ArgumentError) -> None:
    """Raises `error` for a `value` that is not True or False, as "no" is, which counts as true; or
    None, where that stands for something too."""
    if not isinstance(value, bool | np.bool_) and not (or_none and value is None):
        raise error(f"`{name}` = {value!r:.60} must be {'True, False or None' if or_none else 'True or False'}.")


def points(name: str, value, dimension: int, *, error: type[ValueError] = ArgumentError) -> np.ndarray:
    """`value` as float64 (n, dimension), with the refusals of `vector`."""
    array = _array(name, value, f"must be an array of rows of {dimension} real numbers", error)
    if array.ndim != 2 or array.shape[1] != dimension or len(array) == 0:
        raise error(f"`{name}` has shape {array.shape}: it needs rows of {dimension} numbers, shape (n, {dimension}).")
    for i in np.flatnonzero(~np.all(np.isfinite(array), axis=1)):
        raise error(f"`{name}`[{i}] = {array[i]} has a value that is not finite.")
    return array


def _array(name: str, value, need: str, error: type[ValueError]) -> np.ndarray:
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as cause:
        raise error(f"`{name}` = {value!r} {need}.") from cause
    if array.dtype in (np.float32, np.float16):
        raise error(f"`{name}` is {array.dtype}: give float64, single precision cannot resolve contact.")
    if array.dtype.kind not in "fiu":
        raise error(f"`{name}` = {value!r} {need}.")
    return array.astype(np.float64)

"""Checks of what bodies and steppers are given, each with a message that names the argument, the
value and the remedy."""

from __future__ import annotations

import numbers

import jax
import jax.numpy as jnp
import numpy as np

from shapes.arguments import positive, vector
from shapes.errors import ArgumentError
from shapes.moments import Moments

from ..runtime.errors import BodyError, FunctionError, NameTakenError, PoseError

_LIGHT = 299_792_458.0  # [m/s]
_ROUNDED = 1e-15  # of the length of a quaternion
UNIT = 1e-6  # a quaternion is normalised only when its length is this close to 1


def count(name: str, value) -> int:
    """A positive integer."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
        raise ArgumentError(f"`{name}` = {value!r} must be a positive integer.")
    return int(value)


def new_name(name, taken, what: str) -> None:
    """`name` is text, and none of those that are taken."""
    if not isinstance(name, str) or not name:
        raise NameTakenError(f"`name` = {name!r} must be a non-empty string.")
    if name in taken:
        raise NameTakenError(f"`name` = {name!r} is taken: every {what} needs its own.")


def one_of(name: str, value, choices) -> None:
    """`value` is one of `choices`."""
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in choices):
        raise ArgumentError(f"`{name}` = {value!r} must be one of {', '.join(map(str, choices))}.")


def orientation(quaternion, angle, dimension: int) -> np.ndarray:
    """Unit quaternion (4,), w first, or angle (1,) in the plane; the identity when neither is
    given."""
    if dimension == 2:
        if quaternion is not None:
            raise PoseError(f"`quaternion` = {quaternion!r} in a planar scene: give `angle` [rad].")
        return vector("angle", [0.0 if angle is None else angle], 1)
    if angle is not None:
        raise PoseError(f"`angle` = {angle!r} in a spatial scene: give `quaternion`, w first.")
    q = vector("quaternion", (1.0, 0.0, 0.0, 0.0) if quaternion is None else quaternion, 4)
    length = np.linalg.norm(q)
    if abs(length - 1) > UNIT:
        raise PoseError(f"`quaternion` = {q} has length {length:.9g}: give a unit quaternion, w first.")
    return unit(q)


def pose(name: str, value, dimension: int) -> tuple[jax.Array, jax.Array]:
    """Position (..., d) and orientation (..., 4 or 1) of a pose (position, quaternion or angle);
    traced ones unchecked."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        need = "(position, quaternion)" if dimension == 3 else "(position, angle)"
        raise PoseError(f"`{name}` = {value!r} must be a pair {need}.")
    position, turn = (_numbers(f"{what} of `{name}`", part) for what, part in zip(("position", "turn"), value, strict=True))
    turn = turn if dimension == 3 else turn[..., None]
    for what, array, size in (("position", position, dimension), ("orientation", turn, 4 if dimension == 3 else 1)):
        if array.shape[-1:] != (size,):
            raise PoseError(f"`{name}` has a {what} of shape {array.shape}: its last axis must be {size}.")
        # in NumPy: inside of jit, JAX would trace what it computes from constants too
        if not isinstance(array, jax.core.Tracer) and not np.all(np.isfinite(np.asarray(array))):
            raise PoseError(f"`{name}` has a {what} with a value that is not finite: {array}.")
    if dimension == 3 and not isinstance(turn, jax.core.Tracer):
        length = np.linalg.norm(np.asarray(turn), axis=-1)
        if np.any(np.abs(length - 1) > UNIT):
            raise PoseError(f"`{name}` has a quaternion of length {length}: give unit quaternions, w first.")
        turn = jnp.asarray(unit(np.asarray(turn)))
    return position.astype(float), turn.astype(float)


def unit(quaternions: np.ndarray) -> np.ndarray:
    """`quaternions` (..., 4) at most `UNIT` off, normalised: shapes would be off by twice that.
    What is one stays so to the bit."""
    length = np.linalg.norm(quaternions, axis=-1, keepdims=True)
    return quaternions / np.where(np.abs(length - 1) > _ROUNDED, length, 1.0)


def _numbers(what: str, value) -> jax.Array:
    """`value`, which may be traced, as an array of real numbers."""
    traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value))
    try:
        array = jnp.asarray(value) if traced else np.asarray(value)
    except (TypeError, ValueError) as error:  # rows of several lengths
        raise PoseError(f"the {what} is {value!r:.60}: give real numbers, in rows of one length.") from error
    if array.dtype.kind not in "fiu":
        raise PoseError(f"the {what} is {value!r:.60}: give real numbers.")
    return jnp.asarray(array)


def load_function(wrench, position, orientation, velocity) -> None:
    """A `wrench` that steps can call: with numbers, and as JAX traces it, of these arrays in its
    first state."""
    start = (0.0, *(jnp.asarray(a) for a in (position, orientation, velocity)))
    try:
        load = wrench(*start)
    except Exception as error:  # of any type: it is the user's function that runs
        raise FunctionError(
            f"`wrench` = {wrench!r} must be a function of (time, position, orientation, velocity) that has a value at time "
            f"0, where it raises {type(error).__name__}: {error}"
        ) from error
    vector("wrench(0, position, orientation, velocity)", load, len(velocity))
    try:
        jax.eval_shape(lambda *arguments: jnp.stack([wrench(*arguments)]), *start)
    except Exception as error:
        # of any type: it is the user's function that JAX's tracers run through
        what = (str(error).splitlines() or [type(error).__name__])[0]
        raise FunctionError(
            f"`wrench` = {wrench!r} cannot be traced by JAX, which compiles the steps: {what} Compute with jax.numpy in "
            "place of numpy and math, choose with jnp.where in place of `if`, and return one array."
        ) from error


def velocity(value, inertia_per_mass, dimension: int) -> np.ndarray:
    """Linear [m/s] and angular [rad/s] velocity (6,) or (3,), of which neither moves the body, or
    its parts at the radius of gyration, faster than light."""
    found = vector("velocity", value, 6 if dimension == 3 else 3)
    radius = np.sqrt(np.trace(inertia_per_mass))
    for what, speed in (("moves", np.abs(found[:dimension])), ("turns", radius * np.abs(found[dimension:]))):
        if np.max(speed) > _LIGHT:
            raise ArgumentError(
                f"`velocity` = {found} {what} the body at {np.max(speed):.3g} m/s, faster than light: check its units, m/s "
                "and rad/s."
            )
    return found


def mass_properties(moments, mass, inertia, density, centre, dimension: int) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass [kg], inertia [kg m^2], (3, 3) or (1, 1), about the centre of mass, and that centre (d,)
    [m] in the body's coordinates, from what the user gave and, by `moments()`, what the shapes
    know."""
    if density is not None and (mass is not None or inertia is not None):
        raise BodyError(f"`density` = {density} together with `mass` or `inertia`: give one or the other.")
    if density is None and mass is None:
        raise BodyError("`mass` is missing: give mass [kg], or density to take it from the shape.")
    mass = None if mass is None else positive("mass", mass)
    if inertia is not None:
        centre = np.zeros(dimension) if centre is None else vector("centre_of_mass", centre, dimension)
        return mass, _inertia_matrix(inertia, dimension), centre
    if centre is not None:
        raise BodyError(f"`centre_of_mass` = {centre!r} without `inertia`: both come from the shape, or both from you.")
    found: Moments = moments()
    if float(found.volume) == 0:
        raise BodyError(
            "a Point has neither volume nor inertia: give the body `mass` [kg] and `inertia` [kg m^2]. Where it is touched "
            "at its centre of mass alone nothing turns it, and any will do: mass * length**2, with a length of the scene."
        )
    if mass is None:
        mass = positive("density", density) * float(found.volume)
    with np.errstate(all="ignore"):  # what is not finite is refused as an inertia
        unit_inertia = np.asarray(found.inertia()) * mass / float(found.volume)
    given = unit_inertia if dimension == 3 else unit_inertia[0, 0]
    return mass, _inertia_matrix(given, dimension), np.asarray(found.centre)


def _inertia_matrix(inertia, dimension: int) -> np.ndarray:
    if dimension == 2:
        return np.array([[positive("inertia", vector("inertia", np.atleast_1d(inertia), 1)[0])]])
    try:
        matrix = np.asarray(inertia)
    except ValueError as error:  # rows of several lengths
        raise BodyError(f"`inertia` = {inertia!r:.60} must be principal moments (3,) or a matrix (3, 3).") from error
    if matrix.shape == (3,):
        matrix = np.diag(vector("inertia", inertia, 3))
    else:
        if matrix.shape != (3, 3):
            raise BodyError(f"`inertia` has shape {matrix.shape}: give principal moments (3,) or a matrix (3, 3).")
        matrix = vector("inertia", matrix.reshape(-1), 9).reshape(3, 3)
    if not np.allclose(matrix, matrix.T, rtol=0, atol=1e-12 * np.abs(matrix).max()):
        raise BodyError(f"`inertia` = {matrix.tolist()} is not symmetric.")
    low, middle, high = np.linalg.eigvalsh(matrix)
    if low <= 0:
        raise BodyError(f"`inertia` has the principal moment {low:.6g}: all must be positive.")
    if high > (low + middle) * (1 + 1e-9):
        raise BodyError(
            f"`inertia` has principal moments {low:.6g}, {middle:.6g}, {high:.6g}: the largest exceeds the sum of the "
            "others, which no mass distribution does."
        )
    return matrix

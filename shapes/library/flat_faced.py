"""Bodies with a few flat faces, in metres. Not sampled for validity: convex by construction."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
import sympy

from ..arguments import number, positive, positives, unit, vector
from ..errors import ShapeArgumentError
from ..expressions.symbols import COORDINATES, x, y, z
from ..moments import Moments, centred
from ..shape import ImplicitShape, Shape

# A given normal may differ from unit length by the rounding of printed digits; it is then scaled to
# it.
_UNIT = 1e-6


def HalfSpace(*, normal: Sequence[float], offset: float = 0.0) -> Shape:
    """{n.x <= offset}: everything below the plane with outward unit `normal` (3,) at distance
    `offset` [m]."""
    return _half("HalfSpace", normal, offset, 3)


def HalfPlane(*, normal: Sequence[float], offset: float = 0.0) -> Shape:
    """Planar {n.x <= offset} with outward unit `normal` (2,) at distance `offset` [m]."""
    return _half("HalfPlane", normal, offset, 2)


def Box(half_sizes: Sequence[float]) -> Shape:
    """|x| <= a, |y| <= b, |z| <= c with half sizes (a, b, c) [m], centred at the origin: six
    inequalities."""
    sizes = sympy.symbols("a b c", positive=True)
    parameters = dict(zip(sizes, positives("half_sizes", half_sizes, 3, error=ShapeArgumentError), strict=True))
    faces = [sign * u - size for u, size in zip((x, y, z), sizes, strict=True) for sign in (1, -1)]
    return ImplicitShape(faces, parameters=parameters, name="Box", closed_form=_box, validate=False)


def Wedge(length: float, width: float, height: float) -> Shape:
    """A ramp that rises along x from 0 to `height` (z) over `length` (x), `width` (y) [m], centre
    of mass at the origin.

    Its section is the right triangle with corners (-2/3 length, -1/3 height), (1/3 length, -1/3
    height) and (1/3 length, 2/3 height) in (x, z).
    """
    names = ("length", "width", "height")
    along, across, up = symbols = sympy.symbols(names, positive=True)
    values = [positive(n, v, error=ShapeArgumentError) for n, v in zip(names, (length, width, height), strict=True)]
    ramp = (along * z - up * x - along * up / 3) / sympy.sqrt(along**2 + up**2)
    faces = [ramp, x - along / 3, -z - up / 3, y - across / 2, -y - across / 2]
    parameters = dict(zip(symbols, values, strict=True))
    return ImplicitShape(faces, parameters=parameters, name="Wedge", closed_form=_wedge, validate=False)


def unit_normal(name: str, value, dimension: int) -> np.ndarray:
    """`value` as a unit vector (d,). Raises `ShapeError` if its length is not 1 within 1e-6."""
    normal = vector(name, value, dimension, error=ShapeArgumentError)
    length = np.linalg.norm(normal)
    if abs(length - 1) > _UNIT:
        raise ShapeArgumentError(f"`{name}` = {normal} has length {length:.6g}: give a unit vector.")
    return unit(normal)


def plane(dimension: int, suffix: str = "") -> tuple[sympy.Expr, tuple[sympy.Symbol, ...]]:
    """n.x - offset, the signed distance from a plane, and its parameters n_x, n_y[, n_z],
    offset."""
    coordinates = COORDINATES[dimension]
    normal = [sympy.Symbol(f"n_{c}{suffix}", real=True) for c in coordinates]
    offset = sympy.Symbol(f"offset{suffix}", real=True)
    return sum(n * c for n, c in zip(normal, coordinates, strict=True)) - offset, (*normal, offset)


def _half(name: str, normal, offset, dimension: int) -> Shape:
    normal = unit_normal("normal", normal, dimension)
    expression, symbols = plane(dimension)
    values = [*normal, number("offset", offset, error=ShapeArgumentError)]
    parameters = dict(zip(symbols, values, strict=True))
    return ImplicitShape([expression], parameters=parameters, dimension=dimension, name=name, validate=False)


def _box(theta):
    volume = 8 * jnp.prod(theta)
    return centred(volume, volume / 3 * theta**2)


def _wedge(theta):
    length, width, height = theta
    volume = length * width * height / 2
    slanted = length * height / 36
    squares = jnp.diag(jnp.stack([length**2 / 18, width**2 / 12, height**2 / 18]))
    return Moments(volume, jnp.zeros(3), volume * squares.at[0, 2].set(slanted).at[2, 0].set(slanted))

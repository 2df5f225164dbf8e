"""A convex body {x : f_j(x; theta) <= 0, j = 1..m}: the expressions are static, the parameters an array."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import sympy

from . import validity
from .arguments import number
from .compile import Jet, compile_jet
from .symbols import COORDINATES, ShapeError, canonical


@dataclasses.dataclass(frozen=True)
class ShapeClass:
    """What all shapes of one kind share; hashable, so that contacts can be grouped by it and compiled once.

    `volume_and_inertia(theta)` gives volume [m^3] (area [m^2] in the plane) and the principal second moments per unit
    density [m^5] about the origin, for the classes that have a closed form and their centroid at the origin.
    """

    name: str
    expressions: tuple[sympy.Expr, ...]
    parameters: tuple[sympy.Symbol, ...]
    dimension: int
    volume_and_inertia: Callable | None = None

    @property
    def count(self) -> int:
        """Number m of inequalities."""
        return len(self.expressions)

    @property
    def jet(self) -> Jet:
        """f, gradient and Hessian as JAX functions of a body point (d,) and theta (k,)."""
        return compile_jet(self.expressions, self.dimension, self.parameters)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Shape:
    """A shape class with its parameter values theta (k,), in body coordinates; made by the library or `ImplicitShape`."""

    shape_class: ShapeClass = dataclasses.field(metadata={"static": True})
    theta: jax.Array

    @property
    def dimension(self) -> int:
        """2 or 3."""
        return self.shape_class.dimension

    def value(self, point) -> jax.Array:
        """f_j (m,) at one body point (d,); inside where all are <= 0."""
        return self.shape_class.jet.value(jnp.asarray(point), self.theta)

    def gradient(self, point) -> jax.Array:
        """Gradients (m, d) at one body point (d,)."""
        return self.shape_class.jet.gradient(jnp.asarray(point), self.theta)

    def hessian(self, point) -> jax.Array:
        """Hessians (m, d, d) at one body point (d,)."""
        return self.shape_class.jet.hessian(jnp.asarray(point), self.theta)

    def parameters(self) -> dict[str, float]:
        """Parameter values by name."""
        return {str(s): float(v) for s, v in zip(self.shape_class.parameters, self.theta, strict=True)}


def ImplicitShape(
    expressions: Sequence[sympy.Expr],
    *,
    parameters: Mapping[sympy.Symbol, float] | None = None,
    dimension: int = 3,
    name: str = "ImplicitShape",
    volume_and_inertia: Callable | None = None,
    validate: bool = True,
) -> Shape:
    """A convex body of your own, {f_j <= 0}, in the symbols `shapes.x, shapes.y, shapes.z` and named parameters.

    With `validate` the set is sampled (see `validity.check`) and refused with a `ShapeError` that names the offending
    point when it is empty, not convex, or has a zero or infinite normal. Traced parameter values cannot be sampled:
    build the shape once with numbers and change `theta` with `dataclasses.replace`.
    """
    if not isinstance(expressions, Sequence) or isinstance(expressions, str):
        raise ShapeError(f"`expressions` = {expressions!r} must be a list of sympy expressions: wrap a single one in [ ].")
    if dimension not in (2, 3):
        raise ShapeError(f"`dimension` = {dimension!r} must be 2 or 3.")
    if len(expressions) == 0:
        raise ShapeError("`expressions` is empty: a shape needs at least one inequality f(x) <= 0.")
    parameters = dict(parameters or {})
    symbols = tuple(parameters)
    if not all(isinstance(s, sympy.Symbol) for s in symbols) or set(symbols) & set(COORDINATES[3]):
        raise ShapeError(f"`parameters` keys must be sympy symbols other than x, y and z, got {symbols!r}.")
    theta = np.array([number(str(s), v, error=ShapeError) for s, v in parameters.items()], dtype=float)
    shape = Shape(
        ShapeClass(
            name=name,
            expressions=tuple(canonical(e, dimension, symbols) for e in expressions),
            parameters=symbols,
            dimension=dimension,
            volume_and_inertia=volume_and_inertia,
        ),
        theta,
    )
    if validate:
        validity.check(shape.shape_class, shape.theta)
    return shape


def Intersection(parts: Sequence[Shape], *, validate: bool = True) -> Shape:
    """The set of points in all `parts`, which share one body frame. Parameters are renamed `name_i` for part i."""
    if not isinstance(parts, Sequence) or len(parts) < 2:
        raise ShapeError(f"`parts` = {parts!r} must be a list of two or more shapes.")
    if not all(isinstance(part, Shape) for part in parts):
        raise ShapeError("`parts` must be shapes: wrap your own expressions in ImplicitShape([...]).")
    if len({part.dimension for part in parts}) > 1:
        raise ShapeError("`parts` mixes planar and spatial shapes.")
    expressions, parameters = [], {}
    for i, part in enumerate(parts):
        renamed = {s: sympy.Symbol(f"{s}_{i}", **s.assumptions0) for s in part.shape_class.parameters}
        expressions += [e.subs(renamed) for e in part.shape_class.expressions]
        parameters |= {renamed[s]: v for s, v in zip(part.shape_class.parameters, part.theta, strict=True)}
    return ImplicitShape(
        expressions, parameters=parameters, dimension=parts[0].dimension, name="Intersection", validate=validate
    )

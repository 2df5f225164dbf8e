"""A convex body {x : f_j(x; theta) <= 0, j = 1..m}: the expressions are static, the parameters an
array."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import sympy

from .arguments import dimension_of, number
from .checks import convexity
from .errors import ShapeArgumentError
from .expressions.symbols import COORDINATES, canonical, without_kinks
from .moments import Moments
from .shape_class import ShapeClass
from .volume import mesh, quadrature


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Shape:
    """A shape class with its parameter values theta (k,), in body coordinates; made by the library
    or `ImplicitShape`. Two are equal that have the same of both."""

    shape_class: ShapeClass = dataclasses.field(metadata={"static": True})
    theta: jax.Array

    @property
    def dimension(self) -> int:
        """2 or 3."""
        return self.shape_class.dimension

    def __eq__(self, other) -> bool:
        same = isinstance(other, Shape) and self.shape_class == other.shape_class
        return same and bool(jnp.array_equal(self.theta, other.theta))

    __hash__ = None  # of arrays there is none

    def value(self, point) -> jax.Array:
        """f_j (m,) at one body point (d,); inside where all are <= 0."""
        return self.shape_class.jet.value(jnp.asarray(point), self.theta)

    def gradient(self, point) -> jax.Array:
        """Gradients (m, d) at one body point (d,)."""
        return self.shape_class.jet.gradient(jnp.asarray(point), self.theta)

    def hessian(self, point) -> jax.Array:
        """Hessians (m, d, d) at one body point (d,)."""
        return self.shape_class.jet.hessian(jnp.asarray(point), self.theta)

    def moments(self) -> Moments:
        """Volume, centre and second moments at unit density: in closed form where there is one,
        else by quadrature to 1e-8 (`quadrature.integrate`, which raises `ShapeError` for unbounded
        bodies)."""
        if self.shape_class.closed_form is not None:
            return self.shape_class.closed_form(self.theta)
        return quadrature.integrate(self.shape_class, self.theta)

    def mesh(self, resolution: int = mesh.RESOLUTION) -> mesh.Mesh | mesh.Outline:
        """Watertight triangles of the surface for drawing (the outline in the plane); see
        `mesh.mesh`."""
        return mesh.mesh(self.shape_class, self.theta, resolution)

    def parameters(self) -> dict[str, float]:
        """Parameter values by name."""
        return {str(s): float(v) for s, v in zip(self.shape_class.parameters, self.theta, strict=True)}


def ImplicitShape(
    expressions: Sequence[sympy.Expr],
    *,
    parameters: Mapping[sympy.Symbol, float] | None = None,
    dimension: int = 3,
    name: str = "ImplicitShape",
    closed_form: Callable | None = None,
    support: sympy.Expr | None = None,
    sweep: tuple[int | None, ...] = (None, None, None),
    above: tuple[sympy.Expr, ...] = (),
    validate: bool = True,
) -> Shape:
    """A convex body of your own, {f_j <= 0}, in the symbols `shapes.x, shapes.y, shapes.z` and
    named parameters.

    A sum with |u| as a term, like |x| + |y| + z - 1, is split into the faces that it stands for;
    the shape then has an inequality for each. With `validate` the set is sampled (see
    `convexity.check`) and refused with a `ShapeError` that names the offending point when it is
    empty, not convex, or has a zero, infinite or jumping normal within an inequality. Traced
    parameter values cannot be sampled: build the shape once with numbers and change `theta` with
    `dataclasses.replace`.
    """
    if not isinstance(expressions, Sequence) or isinstance(expressions, str):
        raise ShapeArgumentError(
            f"`expressions` = {expressions!r} must be a list of sympy expressions: wrap a single one in [ ]."
        )
    dimension = dimension_of(dimension, error=ShapeArgumentError)
    if len(expressions) == 0:
        raise ShapeArgumentError("`expressions` is empty: a shape needs at least one inequality f(x) <= 0.")
    if not isinstance(parameters, Mapping | None):
        raise ShapeArgumentError(f"`parameters` = {parameters!r} must map symbols to values, as {{radius: 0.5}}.")
    parameters = dict(parameters or {})
    symbols = tuple(parameters)
    if not all(isinstance(s, sympy.Symbol) for s in symbols) or set(symbols) & set(COORDINATES[3]):
        raise ShapeArgumentError(f"`parameters` keys must be sympy symbols other than x, y and z, got {symbols!r}.")
    theta = np.array([number(str(s), v, error=ShapeArgumentError) for s, v in parameters.items()], dtype=float)
    expressions = [canonical(e, dimension, symbols) for e in expressions]
    unused = [str(s) for s in symbols if not any(e.has(s) for e in expressions)]
    if unused:
        raise ShapeArgumentError(
            f"`parameters` names {', '.join(unused)}, which no expression uses: leave it out, or use this very symbol "
            "(symbols of one name but other assumptions differ)."
        )
    values = dict(zip(symbols, theta, strict=True))
    shape = Shape(
        ShapeClass(
            name=name,
            expressions=tuple(piece for e in expressions for piece in without_kinks(e, values)),
            parameters=symbols,
            dimension=dimension,
            closed_form=closed_form,
            support=support,
            sweep=sweep,
            above=above,
        ),
        theta,
    )
    if validate:
        convexity.check(shape.shape_class, shape.theta)
    return shape

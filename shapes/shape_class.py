"""What all shapes of one kind share: inequalities f_j(x; theta) <= 0 in sympy, and their compiled
derivatives."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
import sympy

from .expressions.compile import Jet, compile_jet


@dataclasses.dataclass(frozen=True)
class ShapeClass:
    """What all shapes of one kind share; hashable, so that contacts can be grouped by it and
    compiled once.

    `closed_form(theta)` gives the `Moments` of the classes that have them in closed form.
    `support`, for a body whose inequality has infinite or jumping curvature somewhere, is the
    support function H(n), homogeneous of degree 1 and written in the coordinate symbols, of a
    smoother body which, moved along each coordinate axis by up to the parameter that `sweep`
    numbers, covers this one: closest-point rows then use the point grad H(n) instead of the
    inequality's gradient. `rounded`: the body is {f_j <= 0} grown by a radius, which is the last
    parameter and appears in no expression; of a `point`, which is a ball of the radius of its only
    parameter, shrunk by as much, it is less than zero. `above`: what of the parameters must be
    positive, beside those that are so by their symbols, for `closed_form` to hold.
    """

    name: str
    expressions: tuple[sympy.Expr, ...]
    parameters: tuple[sympy.Symbol, ...]
    dimension: int
    closed_form: Callable | None = None
    support: sympy.Expr | None = None
    sweep: tuple[int | None, ...] = (None, None, None)
    rounded: bool = False
    point: bool = False
    above: tuple[sympy.Expr, ...] = ()

    @property
    def count(self) -> int:
        """Number m of inequalities."""
        return len(self.expressions)

    @property
    def jet(self) -> Jet:
        """f, gradient and Hessian as JAX functions of a body point (d,) and theta (k,)."""
        return compile_jet(self.expressions, self.dimension, self.parameters)

    @property
    def support_jet(self) -> Jet:
        """H, its gradient (1, d) (the body point with that outward normal) and Hessian of a
        direction (d,)."""
        return compile_jet((self.support,), self.dimension, self.parameters)

    def half_lengths(self, theta):
        """How far (d,) [m] the body of `support` is moved both ways along each axis."""
        return jnp.stack([jnp.zeros(()) if i is None else theta[i] for i in self.sweep[: self.dimension]])

    def radius(self, theta):
        """Rounding radius () [m], 0 where the body is not rounded."""
        if self.point:
            return -theta[0]
        return theta[-1] if self.rounded else 0.0

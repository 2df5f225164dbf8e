"""Dry friction within an ellipsoid, with maximum dissipation: Chakraborty's friction model and its
Fritz-John form (5).

The law is kept in the scaled impulse y = (p_t/e_t, p_o/e_o, p_r/e_r) [N s] and scaled slip w = (e_t
v_t, e_o v_o, e_r v_r) [m/s], in which the ellipsoid is a ball: |y| <= mu p_n, and the multiplier of
(5) is sigma = |w|.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from shapes.arguments import number, positive, unit, vector
from shapes.small_algebra import inner

from ..runtime.errors import ContactLawError
from ..solvers.complementarity import fischer_burmeister_cone, length_of, natural_disc

LARGEST_MU = 1e6


@dataclasses.dataclass(frozen=True)
class FrictionEllipsoid:
    """(p_t/e_t)^2 + (p_o/e_o)^2 + (p_r/e_r)^2 <= mu^2 p_n^2.

    `mu` [-] friction coefficient, at most 10^6; `e_t`, `e_o` [-] tangential and `e_r` [m] drilling
    semi-axes; zero switches the component off. With e_t != e_o, `direction` (3,) is the t direction
    in the frame of body 1; it is projected on the tangent plane, unless it is within asin .1 of the
    normal, where it orients nothing. `mu_s` >= mu [-] holds a contact that sticks until it slips,
    and mu from then on until it sticks again; None where both are mu. Raises `ValueError` naming
    the argument for negative or non-finite values, and for mu above `mu_s`.
    """

    mu: float
    e_t: float = 1.0
    e_o: float = 1.0
    e_r: float = 0.0
    direction: Sequence[float] | None = None
    mu_s: float | None = None

    def __post_init__(self):
        for name in ("mu", "e_t", "e_o", "e_r"):
            object.__setattr__(self, name, not_negative(name, getattr(self, name)))
        if self.mu > LARGEST_MU:
            raise ContactLawError(
                f"`mu` = {self.mu} is above {LARGEST_MU:g}: friction then has no digits left beside the normal impulse. "
                "Where nothing may slip, 100 is enough."
            )
        if self.mu_s is not None:
            object.__setattr__(self, "mu_s", static_coefficient(self.mu, self.mu_s))
        if self.direction is None:
            if self.e_t != self.e_o:
                raise ContactLawError(
                    f"`e_t` = {self.e_t} differs from `e_o` = {self.e_o}: give `direction`, the t axis in body 1's frame."
                )
        else:
            direction = vector("direction", self.direction, 3)
            if not np.any(direction):
                raise ContactLawError("`direction` = (0, 0, 0) points nowhere: give the t axis in body 1's frame.")
            object.__setattr__(self, "direction", tuple(unit(direction).tolist()))


@dataclasses.dataclass(frozen=True)
class JointFriction:
    """Dry friction in a joint: of a hinge, or of a ball joint in the plane, a moment of at most mu
    `radius` |radial force|, with the radius of the pin [m]; of a ball joint in space a moment of at
    most mu `radius` |force| against the relative spin; of a slider, without radius, a force of at
    most mu |force on the guide|, or, where the guide's `length` [m] is given, of at most mu times
    the forces on both its ends, which also bear the moment across it. `mu_s` >= mu holds what
    sticks until it slips, as that of a `FrictionEllipsoid`. Raises `ValueError` naming the
    argument."""

    mu: float
    radius: float | None = None
    mu_s: float | None = None
    length: float | None = None

    def __post_init__(self):
        object.__setattr__(self, "mu", not_negative("mu", self.mu))
        for name in ("radius", "length"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, positive(name, getattr(self, name)))
        if self.mu_s is not None:
            object.__setattr__(self, "mu_s", static_coefficient(self.mu, self.mu_s))


def not_negative(name: str, value) -> float:
    """An argument that is zero or more."""
    value = number(name, value)
    if value < 0:
        raise ContactLawError(f"`{name}` = {value} is negative: use 0 to switch it off.")
    return value


def static_coefficient(mu: float, mu_s) -> float:
    """The argument `mu_s` beside `mu`. Raises `ValueError` where it is below that, not finite, or
    above 10^6."""
    mu_s = number("mu_s", mu_s)
    if not mu <= mu_s <= LARGEST_MU:
        raise ContactLawError(
            f"`mu_s` = {mu_s} beside `mu` = {mu}: what sticks holds by at least as much as what slips, and by at most "
            f"{LARGEST_MU:g}. Give mu_s >= mu, or leave it out where both are alike."
        )
    return mu_s


def cone_rows(mu_p_n, y, sigma, w):
    """(mu p_n, y) _|_ (sigma, w) in the second-order cone, rows (1 + k,): Chakraborty (5),
    unsquared.

    The same solutions for p_n > 0, with sigma = |w|, and better conditioned. Arguments
    dimensionless.
    """
    return fischer_burmeister_cone(jnp.concatenate([mu_p_n[None], y]), jnp.concatenate([sigma[None], w]))


def projection_rows(mu_p_n, y, sigma, w):
    """sigma = |w| and y = proj(y - r w) onto the disc of radius mu p_n, rows (1 + k,): the argmax
    of Chakraborty (4) itself.

    Arguments dimensionless; during iterations p_n may be negative, when the disc is a point.
    """
    return jnp.concatenate([(sigma - length_of(w))[None], natural_disc(y, w, jnp.maximum(mu_p_n, 0.0))])


# Two residuals with the same roots. docs/decisions/0002-friction-row.md has the measurements behind
# the default.
FRICTION_ROWS = {"projection": projection_rows, "fischer-burmeister": cone_rows}


def dissipation_defect(mu, p_n, y, w):
    """How far (p_t, p_o, p_r) is from dissipating the most: max over the ellipsoid of -v.p' less
    -v.p, >= 0 [W s].

    The maximum over |y'| <= mu p_n of -w.y' is mu p_n |w|.
    """
    return mu * p_n * length_of(w) + inner(w, y)

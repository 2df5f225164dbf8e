"""Solids of revolution about z, with their centre of mass at the origin. Convex by construction, so
not sampled.

Inequalities are in metres with slopes near 1 on the surface, so that those of one body weigh alike.
"""

from __future__ import annotations

import jax.numpy as jnp
import sympy

from ..arguments import positive
from ..errors import ShapeArgumentError
from ..expressions.symbols import PositivePower, x, y, z
from ..moments import Moments, together
from ..shape import ImplicitShape, Shape

# A cone's slope has no limit on its axis. Beside it the cone is replaced by a hyperboloid that is
# this many radii from it at the axis, and only half the square of it, relative to the radius, at
# the surface of a frustum.
_BLUNT = 1e-6


def Cylinder(radius: float, half_height: float) -> Shape:
    """x^2 + y^2 <= radius^2 and |z| <= half_height [m]."""
    r, h = sympy.symbols("radius half_height", positive=True)
    return _solid("Cylinder", [(x**2 + y**2 - r**2) / (2 * r), z - h, -z - h], {r: radius, h: half_height}, _cylinder)


def Capsule(radius: float, half_length: float) -> Shape:
    """All points within `radius` [m] of the segment |z| <= half_length [m]: one inequality, of
    continuous slope."""
    r, h = sympy.symbols("radius half_length", positive=True)
    beyond = PositivePower(z - h, 2) + PositivePower(-z - h, 2)
    inequality = (x**2 + y**2 + beyond - r**2) / (2 * r)
    # its support function; the capsule is the ball moved along z
    ball = r * sympy.sqrt(x**2 + y**2 + z**2)
    return _solid("Capsule", [inequality], {r: radius, h: half_length}, _capsule, support=ball, sweep=(None, None, 1))


def Frustum(radius_bottom: float, radius_top: float, height: float) -> Shape:
    """Truncated cone between two discs [m], the bottom one at negative z. Both radii are positive:
    see `Cone`.

    The lateral inequality is sqrt(x^2 + y^2 + c^2) <= R(z) with c below 1e-6 of either radius:
    convex with a slope everywhere, on the axis and beyond the apex too, and within 5e-13 of the
    radius.
    """
    bottom, top, h = sympy.symbols("radius_bottom radius_top height", positive=True)
    low = frustum_centre(bottom, top, h)
    taper = (bottom - top) / h
    blunt = _BLUNT * bottom * top / (bottom + top)
    lateral = (sympy.sqrt(x**2 + y**2 + blunt**2) - bottom + taper * (z + low)) / sympy.sqrt(1 + taper**2)
    parameters = {bottom: radius_bottom, top: radius_top, h: height}
    return _solid("Frustum", [lateral, z + low - h, -z - low], parameters, _frustum)


def Cone(radius: float, height: float, tip: float = 0.05) -> Shape:
    """Cone over a disc of `radius` [m] at negative z, cut off tip * height below the apex at
    `height` [m]: a `Frustum`.

    An apex has no normal to be in contact along. Cut off, it is a small disc, whose rim contact
    solves like any edge; a rounded tip of the same size has a curvature that Newton's method does
    not survive. 0 < tip < 1; a tip of 1e-3 makes a disc on whose rim a body turns many times within
    a step, which costs many more iterations and at times the step.
    """
    tip = positive("tip", tip, error=ShapeArgumentError)
    if tip >= 1:
        raise ShapeArgumentError(f"`tip` = {tip} must be below 1: it is the share of the height that is cut off.")
    radius, height = (
        positive("radius", radius, error=ShapeArgumentError),
        positive("height", height, error=ShapeArgumentError),
    )
    return Frustum(radius, tip * radius, (1 - tip) * height)


def Lens(radius_1: float, radius_2: float, thickness: float) -> Shape:
    """The common part of two balls [m] with centres on z: `radius_1` bounds it above, `radius_2`
    below.

    `thickness` [m] along z must be below the diameters of both, or one ball contains the other.
    """
    r1, r2, t = sympy.symbols("radius_1 radius_2 thickness", positive=True)
    radii = [positive(n, r, error=ShapeArgumentError) for n, r in (("radius_1", radius_1), ("radius_2", radius_2))]
    thickness = positive("thickness", thickness, error=ShapeArgumentError)
    if thickness >= 2 * min(radii):
        raise ShapeArgumentError(
            f"`thickness` = {thickness} must be below {2 * min(radii):g}, the diameter of the smaller ball: that one lies "
            "inside the other. Use Sphere."
        )
    h1, h2, centre = lens_heights(r1, r2, t)
    above = (x**2 + y**2 + (z + centre - h1 + r1) ** 2 - r1**2) / (2 * r1)
    below = (x**2 + y**2 + (z + centre + h2 - r2) ** 2 - r2**2) / (2 * r2)
    return _solid(
        "Lens", [above, below], {r1: radii[0], r2: radii[1], t: thickness}, _lens_moments, above=(2 * r1 - t, 2 * r2 - t)
    )


def _solid(name: str, expressions, values, closed_form, **support) -> Shape:
    parameters = {s: positive(str(s), v, error=ShapeArgumentError) for s, v in values.items()}
    return ImplicitShape(expressions, parameters=parameters, name=name, closed_form=closed_form, validate=False, **support)


# Heights below are written once for sympy's symbols and for numbers.


def frustum_centre(bottom, top, height):
    """Height of the centre of mass over the bottom."""
    return height / 4 * (bottom**2 + 2 * bottom * top + 3 * top**2) / (bottom**2 + bottom * top + top**2)


def lens_heights(r1, r2, thickness):
    """Heights h1, h2 of the two caps over the plane of the rim, and the centre of mass over that
    plane."""
    h1 = thickness * (2 * r2 - thickness) / (2 * (r1 + r2 - thickness))
    h2 = thickness - h1
    moment = h1**3 * (4 * r1 - h1) - h2**3 * (4 * r2 - h2)
    return h1, h2, moment / (4 * (h1**2 * (3 * r1 - h1) + h2**2 * (3 * r2 - h2)))


def _revolved(square_radius, low, high) -> Moments:
    """Of a solid of revolution between heights [m], from the coefficients of r^2(z) [m^2] in rising
    powers of z."""
    fourth = jnp.convolve(jnp.stack(square_radius), jnp.stack(square_radius))

    def integral(coefficients, power):
        orders = range(power + 1, power + 1 + len(coefficients))
        return jnp.pi * sum(c * (high**k - low**k) / k for c, k in zip(coefficients, orders, strict=True))

    across = integral(fourth, 0) / 4
    first = jnp.stack([0.0, 0.0, integral(square_radius, 1)])
    return Moments(integral(square_radius, 0), first, jnp.diag(jnp.stack([across, across, integral(square_radius, 2)])))


def _upside_down(moments: Moments) -> Moments:
    return moments.moved(jnp.zeros(3), jnp.diag(jnp.array([1.0, -1.0, -1.0])))


def _cylinder(theta):
    r, h = theta
    return _revolved([r**2], -h, h)


def _capsule(theta):
    r, h = theta
    shaft = _revolved([r**2], -h, h)
    cap = _revolved([r**2, 0.0, -1.0], 0.0, r).moved(jnp.stack([0.0, 0.0, h]), jnp.eye(3))
    return together([shaft, cap, _upside_down(cap)])


def _frustum(theta):
    bottom, top, height = theta
    low = frustum_centre(bottom, top, height)
    slope = (top - bottom) / height
    middle = bottom + slope * low  # radius at z = 0
    return _revolved([middle**2, 2 * middle * slope, slope**2], -low, height - low)


def _lens_moments(theta):
    r1, r2, thickness = theta
    h1, h2, centre = lens_heights(r1, r2, thickness)

    def cap(r, h):
        return _revolved([h * (2 * r - h), 2 * (h - r), -1.0], 0.0, h)

    return together([cap(r1, h1), _upside_down(cap(r2, h2))]).moved(jnp.stack([0.0, 0.0, -centre]), jnp.eye(3))

"""Moments of bodies of the library that have grown by a radius: balls, solids of revolution, and
ellipsoids and superquadrics.

The meridian of a grown solid of revolution is made of arcs and of straight lines between them.

A superquadric y = (a C^(2/p1) c^(2/p2), b C^(2/p1) s^(2/p2), c S^(2/p1)) of angles with cosines and
sines C, S and c, s has the normal m / |m|, where m is the point of the same angles on the dual one,
of semi-axes 1/a, 1/b, 1/c and powers q = p / (p - 1). The layer over the surface element dy_1 x
dy_2 has the volume (A0 + A1 t + A2 t^2) dt at the distance t from it, with A0 of dy_1 and dy_2, A1
of dy and dn, and A2 of dn_1 and dn_2 (Steiner's formula). Its curvature has no bound or jumps where
a coordinate vanishes, but there only a power of the angle is singular, which the double-exponential
rule of Takahasi and Mori (1974) integrates.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from ..moments import Moments, centred
from ..shape_class import ShapeClass
from ..volume import quadrature
from ..volume.cubature import TOLERANCE, gauss
from .curved import Disc, Ellipsoid, Sphere, SuperquadricMoments
from .revolution import Capsule, Cylinder, Frustum, Lens, frustum_centre, lens_heights

_POINTS = 16  # of Gauss's rule on a piece of a meridian: to round-off on arcs, exact on lines
_STEP, _FARTHEST = 0.05, 5.5  # of the double-exponential rule: to angles of 1e-167
_ALONG = 3  # points of Gauss's rule through the layer: exact for powers up to 5


def moments_when_grown(core: ShapeClass, rounded: ShapeClass) -> Callable | None:
    """`closed_form` of the class `rounded` of bodies of class `core` grown by its last parameter,
    where there is one."""
    if core in _balls():
        return _Ball(core.closed_form)
    if core in _revolved():
        return _revolved()[core]
    if core == _ellipsoids():
        return _Superquadric(core.closed_form, 2.0, 2.0, rounded)
    form = core.closed_form
    if isinstance(form, SuperquadricMoments) and min(form.p1, form.p2) > 1:
        return _Superquadric(form, form.p1, form.p2, rounded)
    return None


@functools.cache
def _balls() -> tuple[ShapeClass, ...]:
    """Classes whose first parameter is a radius, to which that of a rounding adds."""
    return tuple(shape.shape_class for shape in (Sphere(1.0), Disc(1.0), Capsule(1.0, 1.0)))


@functools.cache
def _revolved() -> dict[ShapeClass, Callable]:
    made = ((Cylinder(1.0, 1.0), _cylinder), (Frustum(1.0, 1.0, 1.0), _frustum), (Lens(1.0, 1.0, 1.0), _lens))
    return {shape.shape_class: form for shape, form in made}


@functools.cache
def _ellipsoids() -> ShapeClass:
    return Ellipsoid((1.0, 1.0, 1.0)).shape_class


@dataclasses.dataclass(frozen=True)
class _Ball:
    """The `closed_form` of a body whose last parameter, in theta (k,), adds to its first."""

    closed_form: Callable

    def __call__(self, theta) -> Moments:
        theta = jnp.asarray(theta)
        return self.closed_form(jnp.concatenate([theta[:1] + theta[-1:], theta[1:-1]]))


def _cylinder(theta) -> Moments:
    r, h, rounding = theta
    return _of_meridian([(r, -h, rounding, -np.pi / 2, 0.0), (r, h, rounding, 0.0, np.pi / 2)], _arrays(theta))


def _frustum(theta) -> Moments:
    of, (bottom, top, height, rounding) = _arrays(theta), theta
    low, slope = frustum_centre(bottom, top, height), of.arctan2(bottom - top, height)
    above = (top, height - low, rounding, slope, np.pi / 2)
    return _of_meridian([(bottom, -low, rounding, -np.pi / 2, slope), above], of)


def _lens(theta) -> Moments:
    of, (r1, r2, thickness, rounding) = _arrays(theta), theta
    h1, h2, centre = lens_heights(r1, r2, thickness)
    rim, plane = of.sqrt(h1 * (2 * r1 - h1)), -centre
    below, above = of.arctan2(h2 - r2, rim), of.arctan2(r1 - h1, rim)
    arcs = [
        (0.0, plane - h2 + r2, r2 + rounding, -np.pi / 2, below),
        (rim, plane, rounding, below, above),
        (0.0, plane + h1 - r1, r1 + rounding, above, np.pi / 2),
    ]
    return _of_meridian(arcs, of)


def _arrays(theta):
    """NumPy for numbers, for which JAX would compile every operation, else JAX."""
    return np if isinstance(theta, np.ndarray) else jnp


def _of_meridian(arcs, of) -> Moments:
    """Of a solid of revolution about z, whose meridian is made of arcs (distance of the centre from
    the axis, its height, radius [m], angles of both ends from the horizontal [rad]), from the
    bottom to the top, with straight lines between them: by Gauss's theorem, int pi r^2 z^k dz."""
    nodes, weights = gauss(_POINTS)
    radii, heights, rises, ends = [], [], [], []
    for across, height, radius, low, high in arcs:
        angles = low + (high - low) * nodes
        radii.append(across + radius * of.cos(angles))
        heights.append(height + radius * of.sin(angles))
        rises.append(weights * (high - low) * radius * of.cos(angles))
        ends.append([(across + radius * of.cos(end), height + radius * of.sin(end)) for end in (low, high)])
    for (_, (r, z)), ((r_next, z_next), _) in zip(ends[:-1], ends[1:], strict=True):
        radii.append(r + (r_next - r) * nodes)
        heights.append(z + (z_next - z) * nodes)
        rises.append(weights * (z_next - z))
    r, z, slices = of.concatenate(radii), of.concatenate(heights), np.pi * of.concatenate(rises)
    volume, first = of.sum(slices * r**2), of.sum(slices * r**2 * z)
    across, along = of.sum(slices * r**4) / 4, of.sum(slices * r**2 * z**2)
    nothing = 0 * first
    return Moments(volume, of.stack([nothing, nothing, first]), of.diag(of.stack([across, across, along])))


@dataclasses.dataclass(frozen=True)
class _Superquadric:
    """Of the superquadric of powers p1, p2 with the moments `core`, grown by the last parameter; by
    the quadrature for any convex body where the double-exponential rule has not enough points, as
    for powers near 1 and above 40 and for bodies much longer than wide."""

    core: Callable
    p1: float
    p2: float
    rounded: ShapeClass

    def __call__(self, theta) -> Moments:
        if isinstance(theta, jax.core.Tracer):
            return quadrature.integrate(self.rounded, theta)
        axes, radius = np.asarray(theta[:-1], dtype=float), float(theta[-1])
        inner = self.core(axes)
        volume, second = float(inner.volume), np.diag(inner.second)
        fine, coarse = (8 * self._over_octant(axes, radius, step) for step in (_STEP, 2 * _STEP))
        exact = np.concatenate([[4 * np.pi, volume], second])
        error = np.max(np.abs(fine[:5] - exact) / exact)
        total = fine[5:] + exact[1:]
        error = float(error + np.max(np.abs(fine[5:] - coarse[5:]) / total))
        if not error <= TOLERANCE:
            return quadrature.integrate(self.rounded, theta)
        return dataclasses.replace(centred(total[0], total[1:]), error=error)

    def _over_octant(self, axes, radius: float, step: float) -> np.ndarray:
        """Over an eighth of the surface: the solid angle of its normals, volume and int x_i^2 of
        the cone below it, which are known, and the same of the layer above it: (9,)."""
        t = np.arange(-_FARTHEST, _FARTHEST + step / 2, step)
        share, rest = 1 / (1 + np.exp(np.pi * np.sinh(t))), 1 / (1 + np.exp(-np.pi * np.sinh(t)))
        weight = step * np.pi**2 / 2 * share * rest * np.cosh(t)
        sine, cosine = np.sin(np.pi / 2 * share), np.sin(np.pi / 2 * rest)

        def surface(scale, p1, p2):
            """Points (n, n, 3), and their derivatives by both angles times the weights."""
            (C, dC, S, dS), (c, dc, s, ds) = (_powers(cosine, sine, weight, 2 / p) for p in (p1, p2))
            product = lambda up, u, v: np.stack([np.outer(up, u), np.outer(up, v)], axis=-1)  # noqa: E731
            along = lambda up: np.broadcast_to(up[:, None, None], (len(t), len(t), 1))  # noqa: E731
            point = np.concatenate([product(C, c, s), along(S)], axis=-1)
            up = np.concatenate([product(dC, c, s), along(dS)], axis=-1)
            around = np.concatenate([product(C, dc, ds), along(0 * S)], axis=-1)
            return point * scale, around * scale, up * scale

        y, y_1, y_2 = surface(axes, self.p1, self.p2)
        m, m_1, m_2 = surface(1 / axes, self.p1 / (self.p1 - 1), self.p2 / (self.p2 - 1))
        length = np.linalg.norm(m, axis=-1)
        n = m / length[..., None]
        area = _determinant(n, y_1, y_2)
        bent = (_determinant(n, y_1, m_2) + _determinant(n, m_1, y_2)) / length
        angle = _determinant(n, m_1, m_2) / length**2
        cone = np.sum(y * n, axis=-1) * area
        found = [np.sum(angle), np.sum(cone) / 3, *np.sum(cone[..., None] * y**2, axis=(0, 1)) / 5]
        layer = np.zeros(4)
        for node, share in zip(*gauss(_ALONG), strict=True):
            d = radius * node
            volume = radius * share * (area + d * bent + d**2 * angle)
            layer += [np.sum(volume), *np.sum(volume[..., None] * (y + d * n) ** 2, axis=(0, 1))]
        return np.concatenate([found, layer])


def _powers(cosine, sine, weight, power: float):
    """cos^power and sin^power, each with its derivative by the angle times the weight."""
    return (
        cosine**power,
        -power * cosine ** (power - 1) * sine * weight,
        sine**power,
        power * sine ** (power - 1) * cosine * weight,
    )


def _determinant(a, b, c) -> np.ndarray:
    """a . (b x c) (...)."""
    return np.sum(a * np.cross(b, c), axis=-1)

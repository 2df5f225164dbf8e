"""Where rays leave a convex body, in coordinates in which the body is about as long as wide, seen
from its centre."""

from __future__ import annotations

import dataclasses

import numpy as np

from ..checks.interior import ENDLESS, REACHES, interior_point, ray_lengths
from ..errors import EmptyShapeError, UnboundedShapeError
from ..expressions.compile import Jet, compile_jet

_EPS = np.finfo(float).eps
_BLOCK = 2**14  # rays at once: what fits a processor's cache
# of the bracket about a distance that is nearly right; it is squared at every miss
_FIRST_GROWTH = 1.02
_DIRECTIONS = {2: 64, 3: 162}  # rays by which a body is balanced
_ROUND = 1.5  # a body whose semi-axes of inertia differ by less than this factor is balanced
_MOST_ROUNDS = 60


@dataclasses.dataclass(frozen=True)
class Balanced:
    """The set {f_j <= 0} in coordinates y with x = centre + axes y, in which its second moments are
    nearly a unit ball's.

    centre (d,) [m] is inside; axes (d, d) [m]; a ray that is still inside at `limit` [m] never
    leaves. Points and directions y (n, d) are dimensionless.
    """

    name: str
    jet: Jet
    theta: np.ndarray
    centre: np.ndarray
    axes: np.ndarray
    limit: float

    @property
    def dimension(self) -> int:
        """2 or 3."""
        return len(self.centre)

    def place(self, y) -> np.ndarray:
        """Points x (n, d) [m] in the shape's coordinates."""
        return self.centre + y @ self.axes.T

    def value(self, y) -> np.ndarray:
        """f_j (n, m); infinite where it is not a number."""
        with np.errstate(all="ignore"):
            f = self.jet.value(self.place(y), self.theta)
        return np.where(np.isnan(f), np.inf, f)

    def gradient(self, y) -> np.ndarray:
        """Gradients (n, m, d) with respect to y."""
        with np.errstate(all="ignore"):
            return self.jet.gradient(self.place(y), self.theta) @ self.axes

    def active(self, y) -> np.ndarray:
        """Which inequality (n,) bounds the body at its surface points y."""
        return np.argmax(self.value(y), axis=1)

    def exits(self, directions, start=1.0, chosen=None) -> np.ndarray:
        """Distances t (n,) to round-off at which centre + t axes directions leaves the body;
        infinite where they do not.

        `start` is a guess of the distances: a good one saves evaluations. Only the inequalities in
        `chosen` (n, m) count.
        """
        if chosen is None:
            chosen = np.ones((len(directions), 1), dtype=bool)
        blocks = [slice(i, i + _BLOCK) for i in range(0, len(directions), _BLOCK)]
        found = [self._exits(directions[block], start, chosen[block]) for block in blocks]
        return np.concatenate(found) if found else np.zeros(0)

    def surface(self, directions) -> np.ndarray:
        """Points y (n, d) where rays leave the body."""
        return self.exits(directions)[:, None] * directions

    def _exits(self, directions, start, chosen):
        def depth(t, rows):
            return np.max(np.where(chosen[rows], self.value(t[:, None] * directions[rows]), -np.inf), axis=1)

        limit = self.limit / np.linalg.norm(directions @ self.axes.T, axis=1)
        return _crossings(depth, np.minimum(start, limit), limit)


def balanced(shape_class, theta) -> Balanced:
    """Coordinates for a shape class at theta (k,), without its rounding.

    Raises `ShapeError` for a body that is empty, flat or unbounded: it has no volume.
    """
    theta, d, name = np.asarray(theta, dtype=float), shape_class.dimension, shape_class.name
    jet = compile_jet(shape_class.expressions, d, shape_class.parameters, backend="numpy")
    inside, along = interior_point(jet, theta, d, name), np.concatenate([np.eye(d), -np.eye(d)])
    nearest = np.min(ray_lengths(jet, theta, inside, along), initial=REACHES[-1])
    body = Balanced(name, jet, theta, inside, nearest * np.eye(d), ENDLESS * nearest)
    rays = np.concatenate([spread_directions(d, _DIRECTIONS[d]), along])
    for _ in range(_MOST_ROUNDS):
        t = body.exits(rays)
        if not np.all(np.isfinite(t)):
            ray = body.axes @ rays[np.argmax(t)]
            raise UnboundedShapeError(
                f"{name} is unbounded: a ray from {body.centre} along {ray / np.linalg.norm(ray)} has not left it after "
                f"{body.limit:.3g} m. It has no volume: add inequalities that close it, or use it as a fixed body."
            )
        volume = np.sum(t**d) / d
        middle = t ** (d + 1) @ rays / (d + 1) / volume
        second = (t ** (d + 2) * rays.T) @ rays / (d + 2) / volume - np.outer(middle, middle)
        widths, turn = np.linalg.eigh((d + 2) * second)
        body = dataclasses.replace(
            body, centre=body.centre + body.axes @ middle, axes=body.axes @ turn * np.sqrt(widths) @ turn.T
        )
        if np.max(widths) < _ROUND**2 and np.min(widths) > 1 / _ROUND**2 and np.linalg.norm(middle) < _ROUND - 1:
            return body
    raise EmptyShapeError(f"{name} is too thin for its volume to be found: widths {np.linalg.norm(body.axes, axis=0)} m.")


def spread_directions(dimension: int, count: int) -> np.ndarray:
    """`count` unit vectors (count, d) spread evenly, none along an axis: of a turned polygon or
    Fibonacci's spiral."""
    step = np.arange(count) + 0.5
    if dimension == 2:
        angle = 2 * np.pi * step / count + 0.1
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)
    golden = np.pi * (3 - np.sqrt(5))
    height, angle = 1 - 2 * step / count, golden * step
    radius = np.sqrt(1 - height**2)
    spiral = np.stack([radius * np.cos(angle), radius * np.sin(angle), height], axis=1)
    # A rotation by angles without a simple relation: a body's edges and symmetry planes are mostly
    # along the axes.
    (c1, c2), (s1, s2) = np.cos([0.7, 0.4]), np.sin([0.7, 0.4])
    return spiral @ np.array([[c1, -s1, 0], [s1, c1, 0], [0, 0, 1]]) @ np.array([[1, 0, 0], [0, c2, -s2], [0, s2, c2]])


def _crossings(function, start, limit) -> np.ndarray:
    """t (n,) > 0 where function(t (k,), rows (k,)) -> (k,) turns positive; infinite where it has
    not at `limit` (n,)."""
    everywhere = np.arange(len(start))
    value = function(start, everywhere)
    inside = value < 0
    low, f_low = np.where(inside, start, 0.0), np.where(inside, value, -np.inf)
    high, f_high = np.where(inside, np.inf, start), np.where(inside, np.inf, value)
    factor, open_ = _FIRST_GROWTH, everywhere
    while len(open_):
        t = np.where(inside[open_], np.minimum(low[open_] * factor, limit[open_]), high[open_] / factor)
        value = function(t, open_)
        within = value < 0
        low[open_[within]], f_low[open_[within]] = t[within], value[within]
        high[open_[~within]], f_high[open_[~within]] = t[~within], value[~within]
        open_ = open_[(within == inside[open_]) & (t < limit[open_]) & (t > 0)]
        factor = min(factor**2, 4.0)
    closed = np.flatnonzero(np.isfinite(high))
    found = np.full(len(start), np.inf)
    found[closed] = zero(lambda t, rows: function(t, closed[rows]), low[closed], high[closed], f_low[closed], f_high[closed])
    return found


def zero(function, low, high, f_low, f_high) -> np.ndarray:
    """t (n,) between low and high, where function(t (k,), rows (k,)) -> (k,) changes sign, by
    Chandrupatla's method (1997).

    function(low) = f_low <= 0 <= f_high = function(high); values may be infinite. Right to
    round-off in t.
    """
    found = np.empty(len(low))
    rows = np.arange(len(low))
    a, fa, b, fb = low, f_low, high, f_high
    c, fc = a, fa
    with np.errstate(all="ignore"):
        share = fa / (fa - fb)  # of the way from a to b, by a straight line
    while len(rows):
        share = np.where(np.isfinite(share), share, 0.5)
        nearest = np.where(np.abs(fa) < np.abs(fb), a, b)
        least = 2 * _EPS * np.abs(nearest) / np.maximum(np.abs(b - a), 1e-300)
        done = (least > 0.5) | (np.minimum(np.abs(fa), np.abs(fb)) == 0)
        if np.any(done):
            found[rows[done]] = nearest[done]
            keep = ~done
            rows, a, b, c, fa, fb, fc = (v[keep] for v in (rows, a, b, c, fa, fb, fc))
            share, least = share[keep], least[keep]
        if not len(rows):
            break
        t = a + np.clip(share, least, 1 - least) * (b - a)
        ft = function(t, rows)
        same = (ft > 0) == (fa > 0)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = t, ft
        with np.errstate(all="ignore"):
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            inverse_quadratic = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
            share = np.where((phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi), inverse_quadratic, 0.5)
    return found

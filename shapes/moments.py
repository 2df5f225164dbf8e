"""Volume, centre and second moments of a body of unit density, and how they move and add."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

_SLENDER = 1e-3  # of the sum of all: a moment with digits to lose


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Moments:
    """Integrals over a body: volume () = int 1 [m^3], first (d,) = int x [m^4], second (d, d) = int
    x x^T [m^5].

    In the plane one power of metres less. All refer to the coordinates in which the body is given.
    `error` () bounds the relative error of a quadrature: 0 for a closed form. `central` (d, d) is
    int y y^T with y from the centre, None where `second` tells it: far from the origin nothing is
    left in this of the inertia of a small body.
    """

    volume: jax.Array
    first: jax.Array
    second: jax.Array
    error: jax.Array | float = 0.0
    central: jax.Array | None = None

    @property
    def centre(self):
        """Centre of mass (d,) [m] at uniform density."""
        return self.first / self.volume

    def moved(self, position, rotation) -> Moments:
        """Of the same body placed by x -> position + rotation x: `position` (d,) [m], `rotation`
        (d, d)."""
        turned = rotation @ self.first
        cross = jnp.outer(position, turned)
        second = rotation @ self.second @ rotation.T + cross + cross.T + self.volume * jnp.outer(position, position)
        central = rotation @ self.about(self._middle()) @ rotation.T
        return Moments(self.volume, turned + self.volume * position, second, self.error, central)

    def _middle(self):
        """The centre (d,) [m], and zero of a body without volume."""
        return self.first / jnp.where(self.volume == 0, 1.0, self.volume)

    def about(self, point):
        """int y y^T (d, d) [m^5] with y from a `point` (d,) [m]."""
        centre = self._middle()
        central = self.second - jnp.outer(centre, self.first) if self.central is None else self.central
        return central + self.volume * jnp.outer(centre - point, centre - point)

    def inertia(self):
        """Inertia per unit density about the centre: (3, 3), or (1, 1) in the plane."""
        about = self.about(self.centre)
        if about.shape == (2, 2):
            return jnp.trace(about)[None, None]
        # of slender bodies the least is a sum of two, no difference of nearly equal ones
        one, others, whole = np.eye(3), (1.0 - np.eye(3)) @ jnp.diagonal(about), jnp.trace(about)
        return jnp.where((one > 0) & (others < _SLENDER * whole), others, whole * one - about)


def together(parts: list[Moments]) -> Moments:
    """Of a body made of several, in the same coordinates; where parts overlap they count twice."""
    whole = Moments(
        sum(p.volume for p in parts),
        sum(p.first for p in parts),
        sum(p.second for p in parts),
        max(float(np.max(p.error)) for p in parts),
    )
    centre = whole._middle()
    return dataclasses.replace(whole, central=sum(p.about(centre) for p in parts))


def centred(volume, second) -> Moments:
    """Of a body that is symmetric in every coordinate: `second` (d,) are int x_i^2."""
    second = jnp.asarray(second)
    return Moments(volume, jnp.zeros(second.shape[0]), jnp.diag(second))

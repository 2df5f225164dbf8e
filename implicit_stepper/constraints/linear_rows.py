"""The constraint Jacobian of contacts whose geometry is known: linear rows from the velocities of
bodies to contacts.

The rows D^T of Negrut (5), and W^T of Chakraborty (1), take velocities to contacts, and their
transposes take impulses to bodies. They are kept contact by contact, in the order of
`Scene.add_contact` whatever the shapes, and never as a matrix.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from shapes.closest_points.conditions import ContactGeometry

from ..model.bodies import State
from ..model.system import System, contact_bodies, in_user_order, take
from . import contact


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Rows:
    """Linear maps `on_i` (nc, 1 + k, 6 or 3) from the velocities of body 1 and of body 2 to (v_n,
    v_t, v_o, v_r), or (v_n, v_t) in the plane; semi-axes `e` (nc, k) of friction; `bodies`, per
    contact, as `contact_bodies` numbers them."""

    bodies: tuple[tuple[int, int], ...] = dataclasses.field(metadata={"static": True})
    on_1: jax.Array
    on_2: jax.Array
    e: jax.Array

    def velocities(self, velocity):
        """v_n (nc,) [m/s] and slips (nc, k) of the moving bodies' `velocity` (nb, 6 or 3)."""
        every = jnp.concatenate([velocity, jnp.zeros((1, velocity.shape[1]))])
        first, second = (take(every, numbers) for numbers in self._numbers())
        both = jnp.einsum("crw,cw->cr", self.on_1, first) + jnp.einsum("crw,cw->cr", self.on_2, second)
        return both[:, 0], both[:, 1:]

    def scaled(self, velocity):
        """(v_n, w) (nc, 1 + k) [m/s], with w = (e_t v_t, e_o v_o, e_r v_r)."""
        normal, slip = self.velocities(velocity)
        return jnp.concatenate([normal[:, None], self.e * slip], axis=1)

    def momenta(self, impulses, body_count: int):
        """Transpose of `scaled`: (nb, 6 or 3) [N s, N m s] that `impulses` (nc, 1 + k) = (p_n, y)
        give the moving bodies."""
        none = jnp.zeros((1, self.on_1.shape[-1]))
        given = jnp.concatenate([*self._by_side(impulses), none])
        return jnp.sum(take(given, self._of_bodies(body_count)), axis=1)

    def _by_side(self, impulses):
        """What `impulses` (nc, 1 + k) give the bodies on both sides of each contact, two (nc, 6 or
        3)."""
        impulses = jnp.concatenate([impulses[:, :1], self.e * impulses[:, 1:]], axis=1)
        return [jnp.einsum("crw,cr->cw", on, impulses) for on in (self.on_1, self.on_2)]

    def gathered(self, blocks, body_count: int):
        """J^T diag(`blocks`) J (nb w, nb w), with J the matrix of `scaled` and one of `blocks` (nc,
        1 + k, 1 + k) for each contact."""
        width = self.on_1.shape[-1]
        total = jnp.zeros((body_count + 1, width, body_count + 1, width))
        for first, on_first in self.sides():
            for second, on_second in self.sides():
                block = jnp.einsum("crv,crs,csw->cvw", on_first, blocks, on_second)
                total = total.at[first, :, second, :].add(block)
        return total[:-1, :, :-1, :].reshape(body_count * width, body_count * width)

    def sides(self):
        """Per side of the contacts, the numbers of the bodies (nc,) and the part (nc, 1 + k, w) of
        `scaled` that takes their velocities."""
        weights = jnp.concatenate([jnp.ones_like(self.e[:, :1]), self.e], axis=1)[:, :, None]
        return [(of_side, weights * on) for of_side, on in zip(self._numbers(), (self.on_1, self.on_2), strict=True)]

    def _numbers(self):
        return np.array(self.bodies, int).reshape(-1, 2).T

    def _of_bodies(self, body_count: int) -> np.ndarray:
        """Per moving body (nb, m) which of all first and, after them, second sides are its own, and
        beyond these the number of sides. (A scatter would be a loop over the contacts.)"""
        bodies = self._numbers().reshape(-1)
        order, counts = np.argsort(bodies, kind="stable"), np.bincount(bodies, minlength=body_count + 1)
        own = np.arange(len(bodies)) - (np.cumsum(counts) - counts)[bodies[order]]
        found = np.full((len(counts), np.max(counts[:body_count], initial=0)), len(bodies))
        moving = bodies[order] < body_count
        found[bodies[order][moving], own[moving]] = order[moving]
        return found[:body_count]


def linear_rows(system: System, state: State, geometry: ContactGeometry) -> Rows:
    """The rows at the contacts' `geometry`, stacked in the order of `Scene.add_contact`."""
    numbers, width = contact_bodies(system), state.velocity.shape[1]
    everywhere = jnp.concatenate([state.position, system.fixed_position])
    # momenta of fixed bodies are not kept, so that their centre may be any
    centres = [take(everywhere, np.minimum(numbers[:, i], len(everywhere) - 1)) for i in (0, 1)]
    e = of_contacts(system, "e")
    if not system.groups:
        return Rows((), jnp.zeros((0, 1 + e.shape[1], width)), jnp.zeros((0, 1 + e.shape[1], width)), e)
    on = jax.vmap(functools.partial(rows_of_contact, width))(geometry, *centres)
    return Rows(tuple(map(tuple, numbers.tolist())), *on, e)


def rows_of_contact(width: int, geometry: ContactGeometry, centre_1, centre_2):
    """The maps (1 + k, `width`) from the velocities of both bodies, with these centres (d,) [m], to
    (v_n, v_t, v_o, v_r) of one contact."""

    def rates(nu_1, nu_2):
        normal, slip = contact.slip_velocities(geometry, centre_1, centre_2, nu_1, nu_2)
        return jnp.concatenate([normal[None], slip])

    return jax.jacfwd(rates, (0, 1))(jnp.zeros(width), jnp.zeros(width))


def of_contacts(system: System, name: str):
    """An array of the groups, `mu`, `compliance`, `dissipation_time` or `restitution` (nc,) or `e`
    (nc, k), in the order of `Scene.add_contact`; zero where rigid contacts have none."""
    k = 3 if system.dimension == 3 else 1
    parts = [getattr(group, name) for group in system.groups]
    parts = [np.zeros(len(g.numbers)) if part is None else part for g, part in zip(system.groups, parts, strict=True)]
    return in_user_order(system, jnp.concatenate(parts)) if parts else jnp.zeros((0, k) if name == "e" else 0)

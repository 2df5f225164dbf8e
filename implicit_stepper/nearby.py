"""What a stepper that asks for contacts outside its equations works on: closest points in one state, and linear rows there.

The rows D^T of Negrut (5), and W^T of Chakraborty (1), take velocities to contacts, and their transposes take impulses to
bodies. They are kept contact by contact, in the order of `Scene.add_contact` whatever the shapes, and never as a matrix.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from shapes.closest_points import ContactGeometry

from . import bodies, contact, kinematics, ncp
from .bodies import State
from .complementarity import length_of
from .distance import closest_points_from
from .records import Contacts
from .system import ContactGroup, System, contact_bodies, in_user_order, take

_TOLERANCE = 1e-12  # of closest points, in the scene's length


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Nearby:
    """Closest points of all contacts in one state. Per group: `closest` (nc, unknowns), long form. In the order of
    `Scene.add_contact`: `geometry` and the multipliers as in `Contacts`. `converged` ()."""

    closest: tuple[jax.Array, ...]
    geometry: ContactGeometry
    multipliers_1: jax.Array
    multipliers_2: jax.Array
    converged: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Rows:
    """Linear maps `on_i` (nc, 1 + k, 6 or 3) from the velocities of body 1 and of body 2 to (v_n, v_t, v_o, v_r), or (v_n,
    v_t) in the plane; semi-axes `e` (nc, k) of friction; `bodies`, per contact, as `contact_bodies` numbers them."""

    bodies: tuple[tuple[int, int], ...] = dataclasses.field(metadata={"static": True})
    on_1: jax.Array
    on_2: jax.Array
    e: jax.Array

    def velocities(self, velocity):
        """v_n (nc,) [m/s] and slips (nc, k) of the moving bodies' `velocity` (nb, 6 or 3)."""
        every = jnp.concatenate([velocity, jnp.zeros((1, velocity.shape[1]))])
        first, second = (every[numbers] for numbers in self._numbers())
        both = jnp.einsum("crw,cw->cr", self.on_1, first) + jnp.einsum("crw,cw->cr", self.on_2, second)
        return both[:, 0], both[:, 1:]

    def scaled(self, velocity):
        """(v_n, w) (nc, 1 + k) [m/s], with w = (e_t v_t, e_o v_o, e_r v_r)."""
        normal, slip = self.velocities(velocity)
        return jnp.concatenate([normal[:, None], self.e * slip], axis=1)

    def momenta(self, impulses, body_count: int):
        """Transpose of `scaled`: (nb, 6 or 3) [N s, N m s] that `impulses` (nc, 1 + k) = (p_n, y) give the moving bodies."""
        impulses = jnp.concatenate([impulses[:, :1], self.e * impulses[:, 1:]], axis=1)
        total = jnp.zeros((body_count + 1, self.on_1.shape[-1]))
        for numbers, on in zip(self._numbers(), (self.on_1, self.on_2), strict=True):
            total = total.at[numbers].add(jnp.einsum("crw,cr->cw", on, impulses))
        return total[:-1]

    def _numbers(self):
        return np.array(self.bodies, int).reshape(-1, 2).T


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Impulses:
    """What a contact solver leaves: gamma (nc, 1 + k) = (p_n, y) [N s, or dimensionless]; residual (), dimensionless;
    iterations (); converged ()."""

    gamma: jax.Array
    residual: jax.Array
    iterations: jax.Array
    converged: jax.Array


def find(system: System, state: State, closest, references=None) -> Nearby:
    """Closest points in `state` from `closest`, those of a state nearby or of `starts.cold_closest`; `references` (nc, d),
    in the order of `Scene.add_contact`, orient the tangents of isotropic friction."""
    if not system.groups:
        return _none(system)
    count, d = system.contact_count, system.dimension
    references = jnp.broadcast_to(jnp.eye(d)[0], (count, d)) if references is None else references
    most = most_multipliers(system)

    def one(member: ContactGroup, start, reference, motion_1, motion_2):
        placed = kinematics.placed(member, motion_1, motion_2)
        solution = closest_points_from(member.pair, start, *placed, system.length, _TOLERANCE)
        short = solution.z[: member.pair.unknowns]
        rows = ncp.geometry_rows(member, short, reference, system.length, motion_1, motion_2)
        padded = (jnp.pad(rows.l1, (0, most[0] - rows.l1.size)), jnp.pad(rows.l2, (0, most[1] - rows.l2.size)))
        return solution.z, rows.geometry, padded, solution.converged

    found = [
        jax.vmap(one)(group, start, take(references, group.numbers), *kinematics.contact_motions(system, state, group))
        for group, start in zip(system.groups, closest, strict=True)
    ]
    unknowns, *rest = zip(*found, strict=True)
    geometry, multipliers, converged = jax.tree.map(
        lambda *parts: in_user_order(system, jnp.concatenate(parts)), *zip(*rest, strict=True)
    )
    return Nearby(tuple(unknowns), geometry, *multipliers, jnp.all(converged))


def most_multipliers(system: System) -> tuple[int, int]:
    """The largest number of inequalities on either side of a contact."""
    pairs = [group.pair for group in system.groups]
    return max((p.first.count for p in pairs), default=0), max((p.second.count for p in pairs), default=0)


def _none(system: System) -> Nearby:
    d, empty = system.dimension, jnp.zeros((0, 0))
    vectors = jnp.zeros((0, d))
    geometry = ContactGeometry(vectors, vectors, vectors, jnp.zeros((0, d - 1, d)), jnp.zeros(0))
    return Nearby((), geometry, empty, empty, jnp.asarray(True))


def linear_rows(system: System, state: State, geometry: ContactGeometry) -> Rows:
    """The rows at the contacts' `geometry`, stacked in the order of `Scene.add_contact`."""
    numbers, width = contact_bodies(system), state.velocity.shape[1]
    everywhere = jnp.concatenate([state.position, system.fixed_position])
    # momenta of fixed bodies are not kept, so that their centre may be any
    centres = [everywhere[np.minimum(numbers[:, i], len(everywhere) - 1)] for i in (0, 1)]
    zero = jnp.zeros(width)

    def one(geometry, centre_1, centre_2):
        def rates(nu_1, nu_2):
            normal, slip = contact.slip_velocities(geometry, centre_1, centre_2, nu_1, nu_2)
            return jnp.concatenate([normal[None], slip])

        return jax.jacfwd(rates, (0, 1))(zero, zero)

    e = of_contacts(system, "e")
    if not system.groups:
        return Rows((), jnp.zeros((0, 1 + e.shape[1], width)), jnp.zeros((0, 1 + e.shape[1], width)), e)
    return Rows(tuple(map(tuple, numbers.tolist())), *jax.vmap(one)(geometry, *centres), e)


def of_contacts(system: System, name: str):
    """An array of the groups, `mu`, `compliance` or `dissipation_time` (nc,) or `e` (nc, k), in the order of
    `Scene.add_contact`; zero where rigid contacts have none."""
    k = 3 if system.dimension == 3 else 1
    parts = [getattr(group, name) for group in system.groups]
    parts = [np.zeros(len(g.numbers)) if part is None else part for g, part in zip(system.groups, parts, strict=True)]
    return in_user_order(system, jnp.concatenate(parts)) if parts else jnp.zeros((0, k) if name == "e" else 0)


def mass_matrices(system: System, state: State):
    """(nb, 6, 6) or (nb, 3, 3) of the moving bodies in `state`."""
    d = system.dimension

    def one(mass, inertia, orientation):
        return jax.scipy.linalg.block_diag(mass * jnp.eye(d), bodies.world_inertia(inertia, orientation))

    return jax.vmap(one)(system.mass, system.inertia, state.orientation)


def free_velocity(system: System, state: State, mass, h):
    """nu + h M^-1 (loads and gyroscopic moment) (nb, 6 or 3), all at the start of the step, Negrut (5a) without contact."""
    d = system.dimension
    momentum = ncp.applied_momentum(system, state, h)
    if d == 3:
        spin = state.velocity[:, d:]
        momentum = momentum.at[:, d:].add(-h * jnp.cross(spin, jnp.einsum("bij,bj->bi", mass[:, d:, d:], spin)))
    return jnp.linalg.solve(mass, momentum[..., None])[..., 0]


def moved(system: System, state: State, velocity, h) -> State:
    """Where `velocity` (nb, 6 or 3) leads in h [s]."""
    position, orientation = jax.vmap(bodies.advance, (0, 0, 0, None))(state.position, state.orientation, velocity, h)
    return State(state.time + h, position, orientation, velocity)


def record(nearby: Nearby, rows: Rows, impulses, velocity, gap) -> Contacts:
    """Contacts of a step whose equations hold at `nearby`: impulses (nc, 1 + k) = (p_n, y), the bodies' `velocity` (nb, 6 or
    3) and the gaps (nc,) at its end."""
    _, slip = rows.velocities(velocity)
    return Contacts(
        normal_impulse=impulses[:, 0],
        friction_impulse=rows.e * impulses[:, 1:],
        gap=gap,
        gap_start=nearby.geometry.psi,
        slip=slip,
        sigma=jax.vmap(length_of)(rows.e * slip) if slip.size else jnp.zeros(0),
        point_1=nearby.geometry.a1,
        point_2=nearby.geometry.a2,
        normal=nearby.geometry.n,
        tangent=nearby.geometry.tangents[:, 0],
        multipliers_1=nearby.multipliers_1,
        multipliers_2=nearby.multipliers_2,
    )


def geometry_of(contacts: Contacts) -> ContactGeometry:
    """The geometry that `record` kept."""
    n, t = contacts.normal, contacts.tangent
    tangents = t[:, None] if n.shape[-1] == 2 else jnp.stack([t, jnp.cross(n, t)], axis=1)
    return ContactGeometry(contacts.point_1, contacts.point_2, n, tangents, contacts.gap_start)

"""Contact detection: the closest points of all contacts in one state, without a hint or from those
of a state nearby."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from shapes.closest_points.conditions import ContactGeometry

from ..collision.global_search import closest_points_cold, one_by_one
from ..collision.local_search import are_closest, at_closest, closest_points_from
from ..model.bodies import State
from ..model.records import Contacts
from ..model.system import System, in_user_order, take
from ..runtime.compilation import jit, rows_filled_up
from ..solvers.complementarity import length_of
from . import contact, kinematics
from .contact_group import ContactGroup
from .kinematics import Motion
from .linear_rows import Rows

_LEAST, _GROWTH = 4, 4  # contacts of one form whose closest points a program finds
_TOLERANCE = 1e-12  # of closest points, in the scene's length
_RECORDED = 1e-10  # the same, of those at the end of a step


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Nearby:
    """Closest points of all contacts in one state. Per group: `closest` (nc, unknowns), long form.
    In the order of `Scene.add_contact`: `geometry` and the multipliers as in `Contacts`.
    `converged` ()."""

    closest: tuple[jax.Array, ...]
    geometry: ContactGeometry
    multipliers_1: jax.Array
    multipliers_2: jax.Array
    converged: jax.Array


def cold_closest(system: System, state: State) -> list:
    """Per group, closest-point unknowns (nc, unknowns) in long form, without a hint."""
    one = functools.partial(_cold, system.length)
    return [one_by_one(one)(group, *kinematics.motions_of(system, state, group)) for group in system.groups]


def closest_points(system: System, state: State) -> tuple[np.ndarray, ...]:
    """`cold_closest` by programs for contacts of one form, which serve all scenes that have some,
    however many and whatever else there is: they take the longest to compile."""
    forms = (_form(system, state, group) for group in system.groups)
    return tuple(np.asarray(closest_of_form(*form))[: form[-1]] for form in forms)


def prepare_closest_points(ahead: Callable, system: System, state: State) -> tuple[jax.ShapeDtypeStruct, ...]:
    """Compiles what `closest_points` calls in scenes of these shapes, by the `ahead` of
    `compilation.prepare`, and gives the shapes of what it finds."""
    system, state = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), (system, state))
    forms = [_form(system, state, group) for group in system.groups]
    found = [ahead(closest_of_form, *form) for form in forms]
    return tuple(jax.ShapeDtypeStruct((form[-1], *a.shape[1:]), a.dtype) for form, a in zip(forms, found, strict=True))


@functools.partial(jit, once=True)
def closest_of_form(like: ContactGroup, motions: tuple[Motion, Motion], length, count):
    """Closest points (size, unknowns) of the first `count` () of contacts."""
    one, every = functools.partial(_cold, length), (like, *motions)
    if jax.default_backend() != "cpu":
        return jax.vmap(one)(*every)

    def more(number, found):
        own = one(*jax.tree.map(lambda a: a[number], every))
        return lax.dynamic_update_index_in_dim(found, own, number, 0)

    return lax.fori_loop(0, count, more, jnp.zeros((len(like.theta_1), like.pair.general.unknowns)))


def _cold(length, member: ContactGroup, motion_1: Motion, motion_2: Motion):
    placed = kinematics.placed(member, motion_1, motion_2)
    return closest_points_cold(member.pair, *placed, member.interior_1, member.interior_2, length)


def _form(system: System, state: State, group: ContactGroup) -> tuple:
    """Of a group what closest points depend on, padded by its last contact to one of few sizes; and
    how many contacts it has."""
    count = len(group.bodies)
    rows = rows_filled_up(count, _LEAST, _GROWTH)
    laws = {name: None for name in ("mu", "e", "direction", "compliance", "dissipation_time", "restitution", "mu_s")}
    like = dataclasses.replace(group, bodies=(), numbers=(), moving=(True, True), of_impulses=False, **laws)
    both = (
        Motion(
            np.concatenate([state.position, system.fixed_position])[own],
            np.concatenate([state.orientation, system.fixed_orientation])[own],
            None,
        )
        for own in np.array(group.bodies)[rows].T
    )
    return jax.tree.map(lambda a: np.asarray(a)[rows], like), tuple(both), np.asarray(system.length), count


def find(system: System, state: State, closest, references=None, *, recorded: bool = False) -> Nearby:
    """Closest points in `state` from `closest`, those of a state nearby or of `cold_closest`; where
    they may be `recorded` ones of this state, these stay as they are. `references` (nc, d), in the
    order of `Scene.add_contact`, orient the tangents of isotropic friction. What is found has
    derivatives by all but the starts."""
    if not system.groups:
        return _none(system)
    count, d = system.contact_count, system.dimension
    references = jnp.broadcast_to(jnp.eye(d)[0], (count, d)) if references is None else references
    most = most_multipliers(system)

    def one(member: ContactGroup, start, reference, motion_1, motion_2):
        placed = kinematics.placed(member, motion_1, motion_2)
        fixed = lax.stop_gradient((*placed, system.length))
        solution = closest_points_from(member.pair, start, *fixed, _TOLERANCE)
        z, converged = solution.z, solution.converged
        if recorded:
            stays = are_closest(member.pair, start, *fixed, _RECORDED)
            z, converged = jnp.where(stays, start, z), converged | stays
        z = at_closest(member.pair, z, *placed, system.length)
        short = z[: member.pair.unknowns]
        rows = contact.geometry_rows(member, short, reference, system.length, motion_1, motion_2)
        padded = (jnp.pad(rows.l1, (0, most[0] - rows.l1.size)), jnp.pad(rows.l2, (0, most[1] - rows.l2.size)))
        return z, rows.geometry, padded, converged

    found = [
        jax.vmap(one)(group, start, take(references, group.numbers), *kinematics.motions_of(system, state, group))
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


def record(nearby: Nearby, rows: Rows, impulses, velocity, gap) -> Contacts:
    """Contacts of a step whose equations hold at `nearby`: impulses (nc, 1 + k) = (p_n, y), the
    bodies' `velocity` (nb, 6 or 3) and the gaps (nc,) at its end."""
    return Contacts(
        normal_impulse=impulses[:, 0],
        friction_impulse=rows.e * impulses[:, 1:],
        gap=gap,
        gap_start=nearby.geometry.psi,
        **_slips(rows, velocity),
        point_1=nearby.geometry.a1,
        point_2=nearby.geometry.a2,
        normal=nearby.geometry.n,
        tangent=nearby.geometry.tangents[:, 0],
        multipliers_1=nearby.multipliers_1,
        multipliers_2=nearby.multipliers_2,
    )


def with_slips(contacts: Contacts, rows: Rows, velocity) -> Contacts:
    """The record with the slips of bodies that have the `velocity` (nb, 6 or 3)."""
    return dataclasses.replace(contacts, **_slips(rows, velocity))


def _slips(rows: Rows, velocity) -> dict[str, jax.Array]:
    _, slip = rows.velocities(velocity)
    return {"slip": slip, "sigma": jax.vmap(length_of)(rows.e * slip) if slip.size else jnp.zeros(0)}


def geometry_of(contacts: Contacts) -> ContactGeometry:
    """The geometry that `record` kept."""
    n, t = contacts.normal, contacts.tangent
    tangents = t[:, None] if n.shape[-1] == 2 else jnp.stack([t, jnp.cross(n, t)], axis=1)
    return ContactGeometry(contacts.point_1, contacts.point_2, n, tangents, contacts.gap_start)

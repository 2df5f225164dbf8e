"""All that can act in an impact, of every kind, as linear rows of velocities.

Contacts stand first, then limits of joints, then joints that rub:

    0 <= P_n _|_ v_n+ + e v_n- >= 0    contacts and limits that are closed
    |P_f| <= mu P_n, |Y| <= mu R       friction of contacts, and of joints

beside the equations of joints, which `joint_rows` has.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..model.bodies import State
from ..model.system import System, compliant
from . import impact_friction, joint_rows, linear_rows
from .detection import Nearby
from .linear_rows import Rows
from .restitution import TOUCHING


class Shares(NamedTuple):
    """Of what met: of the `speed` (m,) of approach with which it parts, Newton; of the `impulse`
    (m,) before that is the least of its expansion, Poisson; or these themselves [m/s], [N s]."""

    speed: jax.Array
    impulse: jax.Array


class Everything(NamedTuple):
    """All that can act in a state, m in all: their `rows`, of which those of `contacts`; which of
    them are `touching` (m,) and can have an impulse; which are `soft` (m,); `mu` (m,) and
    restitutions `shares`; which are joints that rub, `rubs` (m,), and `pads` as in
    `impact_friction.Rubbing`; and the `room` for what has an impulse at once."""

    rows: Rows
    contacts: Rows
    touching: jax.Array
    soft: np.ndarray
    mu: jax.Array
    shares: Shares
    rubs: np.ndarray
    pads: jax.Array
    room: int


def everything(system: System, state: State, here: Nearby, room: int | None) -> Everything:
    """Of a `state` with the contacts `here`; with `room` for so many contacts that touch, or for
    all."""
    contacts = linear_rows.linear_rows(system, state, here.geometry)
    limits, gaps = joint_rows.bound_rows(system, state, contacts.e.shape[1])
    rubs = impact_friction.rubbing(system, state, contacts.e.shape[1])
    every, none = (contacts, limits, rubs.rows), [jnp.zeros(len(rubs.mu))]
    parts = [jnp.concatenate([getattr(own, name) for own in every]) for name in ("on_1", "on_2", "e")]
    rows = Rows(sum((own.bodies for own in every), ()), *parts)
    soft = np.concatenate([compliant(system), np.zeros(len(gaps) + len(rubs.mu), bool)])
    closed = jnp.concatenate([here.geometry.psi, gaps]) <= TOUCHING * system.length
    touching = jnp.concatenate([closed, *none]).astype(bool) & ~soft
    of = {name: linear_rows.of_contacts(system, name) for name in ("mu", "restitution")}
    mu = jnp.concatenate([of["mu"], 0.0 * gaps, rubs.mu])
    e = jnp.concatenate([of["restitution"], 0.0 * gaps, *none])
    shares = Shares(0.0 * e, e) if any(group.of_impulses for group in system.groups) else Shares(e, 0.0 * e)
    room = len(soft) if room is None else room + len(soft) - system.contact_count
    return Everything(rows, contacts, touching, soft, mu, shares, np.arange(len(soft)) >= len(closed), rubs.pads, room)


def names(system: System) -> list[int | str]:
    """Of contacts and limits, which are the first rows: numbers of contacts, names of limits."""
    return [*range(system.contact_count), *joint_rows.bound_names(system)]


def spring_forces(system: System, here: Nearby, every: Everything, velocity):
    """Normal forces (m,) [N] of compliant contacts, Castro et al. (2022) (2); zero of all else."""
    soft = compliant(system)
    c, tau = (linear_rows.of_contacts(system, name) for name in ("compliance", "dissipation_time"))
    normal, _ = every.contacts.velocities(velocity)
    forces = jnp.where(soft, jnp.maximum(-(here.geometry.psi + tau * normal), 0.0) / jnp.where(soft, c, 1.0), 0.0)
    return jnp.pad(forces, (0, len(every.soft) - len(soft)))


def of_joints(system: System, every: Everything, multipliers, elastic: list, gamma) -> list:
    """Impulses of joints per group (n, r): the `multipliers` (R,) of those that hold, the `elastic`
    ones, and of gamma (m, 1 + k) what is theirs, at their limits and along their coordinates."""
    elastic = joint_rows.with_bounds(system, elastic, gamma[system.contact_count :, 0])
    found = joint_rows.by_group(system, multipliers, elastic)
    return impact_friction.with_friction(system, found, gamma[every.rubs, 1:])


def no_impulses(system: System) -> list:
    """Of joints, as `of_joints` has them."""
    sizes = zip(system.joints, impact_friction.widths(system), strict=True)
    return [jnp.zeros((len(group.numbers), width)) for group, width in sizes]

"""What changes at once where motion is not smooth: velocities at an impact, and forces after any event.

Both are the contact NCP of a step at fixed poses: with h -> 0, M (V+ - V-) = sum_c W_c^T P_c with 0 <= P_n _|_ W_n V+ >= 0
and the friction law with V+; and over a short time under the loads, which leaves the forces with which motion goes on.

A compliant contact has no impulse. The normal force -k (psi + tau W_n V) with which it goes on is that of the state: it acts
as a load does, and bounds the contact's friction.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from shapes.shards import varying_like

from ..constraints import detection, joint, joint_limits, joint_rows, linear_rows
from ..constraints.detection import Nearby
from ..constraints.joint_rows import JointRows
from ..constraints.linear_rows import Rows
from ..constraints.restitution import SLIGHT
from ..model import bodies, loads
from ..model.bodies import State
from ..model.records import Contacts
from ..model.system import System, compliant
from ..solvers.cones import Impulses, apgd, coulomb

_TOUCHING = 1e-8  # of the scene's length: gaps that are closed
_SHORT = 1e-6  # of sqrt(L / g): the time over which forces act that motion goes on with
_AT_REST = 1e-12  # of the fastest speed at a contact
_TOLERANCE, _START_ITERATIONS = 1e-12, 200


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Forces:
    """Constraints in one state. Per group: `unknowns` (n, width + etas) as `stages` has them, with forces [N]; tangents
    `references` (nc, d) of contacts; `gaps` (nc,) [m] in the order of `Scene.add_contact`; `acceleration`
    (nb, 6 or 3) under them, and the time `h` [s] over which they were found."""

    unknowns: tuple[jax.Array, ...]
    references: tuple[jax.Array, ...]
    gaps: jax.Array
    acceleration: jax.Array
    h: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Impact:
    """`state` after it; its `contacts`, with its impulses [N s, N m s] and the slips before it; which of them, and after
    them which limits of joints, `met` (m,), that is approached; whether it `acts` (), and whether it was solved."""

    state: State
    contacts: Contacts
    met: jax.Array
    acts: jax.Array
    converged: jax.Array


def meet(system: System, state: State, closest, references=None) -> tuple[Impact, Forces]:
    """Velocities after what touches in `state` has met, perfectly inelastic, and the forces under which motion goes on, a
    first guess whether or not they were solved; `closest` and `references` as in `detection.find`."""
    here = detection.find(system, state, closest, references)
    every, mass = _everything(system, state, here), bodies.mass_matrices(system, state)
    rows, joints = every.rows, joint_rows.joint_rows(system, state, mass)
    h = _SHORT * jnp.sqrt(system.length / system.acceleration)
    fastest = jnp.max(jnp.abs(rows.scaled(state.velocity)), initial=0.0)
    fastest = jnp.where(fastest > 0, fastest, 1.0)
    # what only round-off moves does not meet
    met = every.touching & (-rows.scaled(state.velocity)[:, 0] > _AT_REST * fastest)
    hits = jnp.any(met)
    rebound = _rebounds(system, rows.scaled(state.velocity)[:, 0], every.e)

    def solve(velocity, which):
        """An impact, or a short time under the loads: as one loop, which is compiled once."""
        here_now, span = dataclasses.replace(state, velocity=velocity), jnp.where(which == 0, 0.0, h)
        elastic, pushed = joint_rows.elastic_forces(system, here_now)
        falls = loads.free_velocity(system, here_now, mass, h) + h * joints.alone(pushed)
        free, speed = jnp.where(which == 0, velocity, falls), jnp.where(which == 0, fastest, system.acceleration * h)
        springs = jnp.where(which == 0, 0.0, h * _spring_forces(system, here, every, velocity))
        target = joint_rows.targets(system, here_now, joints, span)
        held = free + joints.answer(free, target)[0]
        solution, gamma = _solve(system, every, joints, held, springs, speed, jnp.where(which == 0, rebound, 0.0))
        nothing = (which == 0) & ~hits
        gamma = jnp.where(nothing, 0.0, gamma)
        alone = free + joints.alone(rows.momenta(gamma, system.body_count))
        answer, multipliers = joints.answer(alone, target)
        after = jnp.where(nothing, velocity, alone + answer)
        multipliers = jnp.where(nothing, 0.0, multipliers * joints.lengths)
        forces = [f if f is None else span * f for f in elastic]
        forces = joint_limits.with_limits(system, forces, gamma[system.contact_count :, 0])
        multipliers = joint_rows.by_group(system, multipliers, forces)
        return jnp.where(which == 0, after, velocity), (gamma, multipliers, after, solution.converged)

    before = varying_like(state.velocity, (system, state, here))
    velocity, (gamma, multipliers, after, converged) = lax.scan(solve, before, np.arange(2))
    hit, pulls = ([own[i] for own in multipliers] for i in (0, 1))
    of_contacts, count = every.contacts, system.contact_count
    contacts = detection.record(here, of_contacts, gamma[0, :count], state.velocity, here.geometry.psi)
    moving = dataclasses.replace(state, velocity=velocity)
    contacts = dataclasses.replace(contacts, joints=joint.record(system, moving, hit))
    impact = Impact(moving, contacts, met, jnp.any(gamma[0, :, 0] > 0), here.converged & (converged[0] | ~hits))
    found = _forces(system, here, of_contacts, gamma[1, :count] / h, velocity, (after[1] - velocity) / h, h)
    pulls = tuple(
        jnp.pad(own / h, ((0, 0), (0, group.width + group.etas - own.shape[1])))
        for group, own in zip(system.joints, pulls, strict=True)
    )
    return impact, dataclasses.replace(found, unknowns=found.unknowns + pulls)


class _Everything(NamedTuple):
    """All that can meet in a state, contacts first and then limits of joints, m in all: their `rows`, of which those of
    `contacts`; which of them are `touching` (m,) and can have an impulse; which are `soft` (m,); `mu` (m,) and
    restitutions `e` (m,)."""

    rows: Rows
    contacts: Rows
    touching: jax.Array
    soft: np.ndarray
    mu: jax.Array
    e: jax.Array


def _everything(system: System, state: State, here: Nearby) -> _Everything:
    contacts = linear_rows.linear_rows(system, state, here.geometry)
    limits, gaps = joint_limits.limit_rows(system, state, contacts.e.shape[1])
    parts = [jnp.concatenate([getattr(own, name) for own in (contacts, limits)]) for name in ("on_1", "on_2", "e")]
    soft = np.concatenate([compliant(system), np.zeros(len(gaps), bool)])
    touching = (jnp.concatenate([here.geometry.psi, gaps]) <= _TOUCHING * system.length) & ~soft
    mu, e = (jnp.concatenate([linear_rows.of_contacts(system, name), 0.0 * gaps]) for name in ("mu", "restitution"))
    return _Everything(Rows(contacts.bodies + limits.bodies, *parts), contacts, touching, soft, mu, e)


def _rebounds(system: System, normal, e):
    """-e v_n (m,) [m/s] of what approaches at v_n < 0, where that is not slight."""
    speed = jnp.maximum(-e * normal, 0.0)
    return jnp.where(speed > SLIGHT * jnp.sqrt(system.acceleration * system.length), speed, 0.0)


def _forces(system: System, here: Nearby, rows: Rows, gamma, velocity, acceleration, h) -> Forces:
    scaled, unknowns, references = rows.scaled(velocity), [], []
    for group, long in zip(system.groups, here.closest, strict=True):
        numbers = np.array(group.numbers)
        w = scaled[numbers, 1:]
        columns = (long[:, : group.pair.unknowns], gamma[numbers], jnp.linalg.norm(w, axis=1)[:, None], 0 * w[:, :1])
        unknowns.append(jnp.concatenate(columns, axis=1))
        references.append(here.geometry.tangents[numbers, 0])
    return Forces(tuple(unknowns), tuple(references), here.geometry.psi, acceleration, h)


def _spring_forces(system: System, here: Nearby, every: _Everything, velocity):
    """Normal forces (m,) [N] of compliant contacts, S (2); zero of rigid ones and of limits."""
    soft = compliant(system)
    c, tau = (linear_rows.of_contacts(system, name) for name in ("compliance", "dissipation_time"))
    normal, _ = every.contacts.velocities(velocity)
    forces = jnp.where(soft, jnp.maximum(-(here.geometry.psi + tau * normal), 0.0) / jnp.where(soft, c, 1.0), 0.0)
    return jnp.pad(forces, (0, len(every.soft) - len(soft)))


def _solve(
    system: System, every: _Everything, joints: JointRows, velocity, springs, speed, rebound
) -> tuple[Impulses, jax.Array]:
    """The NCP in units of `speed` [m/s] from the `velocity` without contact, and gamma (m, 1 + k) [N s]. The normal impulses
    `springs` (m,) [N s] of compliant contacts are known; where bodies press, they part with the speed `rebound` (m,)."""
    rows, mu = every.rows, every.mu
    if not rows.bodies:
        nothing = jnp.zeros((0, 1 + rows.e.shape[1]))
        return Impulses(nothing, jnp.zeros(()), jnp.zeros((), int), jnp.asarray(True)), nothing
    unit = jnp.min(jnp.asarray(system.mass)) * speed
    acts, normal = (every.touching | (springs > 0))[:, None], np.arange(rows.on_1.shape[1]) == 0
    given = normal & every.soft[:, None]
    # contacts that do not act take no part, however fast their points slide: alone, they separate
    asked = acts & ~given

    def answer(impulses):
        return rows.scaled(joints.response(rows.momenta(impulses, system.body_count))) / speed

    def product(gamma):
        return jnp.where(asked, answer(jnp.where(asked, gamma, 0.0) * unit), gamma)

    known = jnp.where(given & acts, springs[:, None], 0.0)
    moves = rows.scaled(velocity) / speed + answer(known) - rebound[:, None] * normal / speed
    r = jnp.where(asked, moves, jnp.where(acts, -known / unit, 1.0 * normal))
    start = apgd(product, r, mu, jnp.zeros_like(r), _TOLERANCE, _START_ITERATIONS)
    solution = coulomb(product, r, mu, start, _TOLERANCE)
    return solution, solution.gamma * unit

"""What changes at once where motion is not smooth: velocities at an impact, and forces after any
event.

Both are the contact NCP of a step at fixed poses: with h -> 0, M (V+ - V-) = sum_c W_c^T P_c with 0
<= P_n _|_ W_n V+ >= 0 and the friction law with V+; and over a short time under the loads, which
leaves the forces with which motion goes on.

A compliant contact has no impulse. The normal force -k (psi + tau W_n V) with which it goes on is
that of the state: it acts as a load does, and bounds the contact's friction.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints import detection, impact_rows, joint, joint_rows
from ..constraints.detection import Nearby
from ..constraints.linear_rows import Rows
from ..constraints.static_friction import contact_coefficients, joint_coefficients
from ..model import bodies
from ..model.bodies import State
from ..model.records import Contacts
from ..model.system import System
from .impact_laws import Poses, at_once, at_rest, one_after_another, torn

_SHORT = 1e-6  # of sqrt(L / g): the time over which forces act that motion goes on with


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Forces:
    """Constraints in one state. Per group: `unknowns` (n, width + etas) as `stages` has them, with
    forces [N]; tangents `references` (nc, d) of contacts; `gaps` (nc,) [m] in the order of
    `Scene.add_contact`; `acceleration` (nb, 6 or 3) under them, and the time `h` [s] over which
    they were found."""

    unknowns: tuple[jax.Array, ...]
    references: tuple[jax.Array, ...]
    gaps: jax.Array
    acceleration: jax.Array
    h: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Impact:
    """`state` after it; its `contacts`, with its impulses [N s, N m s] and the slips before it;
    which of them, and after them which limits of joints, `met` (m,), that is approached; whether it
    `acts` (), and whether it was solved."""

    state: State
    contacts: Contacts
    met: jax.Array
    acts: jax.Array
    converged: jax.Array


def meet(
    system: System, state: State, closest, references=None, sequential: bool = False, room: int | None = None
) -> tuple[Impact, Forces]:
    """Velocities after what touches in `state` has met, all at once or `sequential`, pair after
    pair, and the forces under which motion goes on, a first guess whether or not they were solved;
    `closest` and `references` as in `detection.find`. With `room` for so many contacts that touch,
    or for all."""
    # the record of the step that ends here has its impact where its own closest points are: on flat
    # spots a further iteration of Newton's method would move these by more than the certificate's
    # tolerance
    here = detection.find(system, state, closest, references, recorded=True)
    every, mass = impact_rows.everything(system, state, here, room), bodies.mass_matrices(system, state)
    rows, joints = every.rows, joint_rows.joint_rows(system, state, mass)
    h = _SHORT * jnp.sqrt(system.length / system.acceleration)
    fastest = jnp.max(jnp.abs(rows.scaled(state.velocity)[~every.rubs]), initial=0.0)
    fastest = jnp.where(fastest > 0, fastest, 1.0)
    rest = at_rest(system, fastest)
    met = every.touching & (-rows.scaled(state.velocity)[:, 0] > rest)
    at = Poses(system, state, here, every, joints, mass, fastest, rest, h)
    solved = (one_after_another if sequential else at_once)(at)
    velocity, gamma = solved.velocity, solved.gamma
    of_contacts, count = every.contacts, system.contact_count
    contacts = detection.record(here, of_contacts, gamma[:count], state.velocity, here.geometry.psi)
    moving = dataclasses.replace(state, velocity=velocity)
    of_joints = joint.record(system, moving, solved.multipliers)
    if of_joints is not None:
        of_joints = dataclasses.replace(of_joints, mu=joint_coefficients(system))
    contacts = dataclasses.replace(contacts, joints=of_joints, mu=contact_coefficients(system))
    acts = jnp.any(gamma[:, 0] > 0) | torn(at, state.velocity)
    impact = Impact(moving, contacts, met, acts, here.converged & solved.converged)
    found = _forces(system, here, of_contacts, solved.pressing[:count] / h, velocity, (solved.after - velocity) / h, h)
    pulls = tuple(
        jnp.pad(own / h, ((0, 0), (0, group.width + group.etas - own.shape[1])))
        for group, own in zip(system.joints, solved.pulls, strict=True)
    )
    return impact, dataclasses.replace(found, unknowns=found.unknowns + pulls)


def _forces(system: System, here: Nearby, rows: Rows, gamma, velocity, acceleration, h) -> Forces:
    scaled, unknowns, references = rows.scaled(velocity), [], []
    for group, long in zip(system.groups, here.closest, strict=True):
        numbers = np.array(group.numbers)
        w = scaled[numbers, 1:]
        columns = (long[:, : group.pair.unknowns], gamma[numbers], jnp.linalg.norm(w, axis=1)[:, None])
        unknowns.append(jnp.pad(jnp.concatenate(columns, axis=1), ((0, 0), (0, group.etas))))
        references.append(here.geometry.tangents[numbers, 0])
    return Forces(tuple(unknowns), tuple(references), here.geometry.psi, acceleration, h)

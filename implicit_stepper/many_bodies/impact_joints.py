"""Joints in impacts among found pairs.

Rigid joints answer what contacts give, so that the rates of their closures stay what the step has
left them:

    M (V+ - V) = sum_c W_c^T P_c + G^T Lambda,      G (V+ - V) = 0

Limits that are met are contacts without friction. Springs and motors, whose forces are bounded,
take no part; what they give bodies in the step before it is energy that these bring.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints import joint, joint_rows
from ..constraints.joint_rows import JointRows
from ..constraints.linear_rows import Rows
from ..constraints.restitution import TOUCHING
from ..constraints.static_friction import joint_coefficients
from ..model import bodies
from ..model.bodies import State
from ..model.records import Contacts, Joints
from ..model.system import System, in_joint_order
from ..runtime.compilation import jit

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

NOTHING = 1e-12  # of what bodies without joints would answer: rounding


class Answers(NamedTuple):
    """What nb bodies answer to impulses: `inverse` (nb w, nb w), about M^-1, with the answer of
    joints, and `alone`, M^-1 itself; G, the `matrix` (R, nb w) of rigid joints, in lengths, and the
    `flexibility` (R, R) as in `joint_rows`. Which bodies are `given` (nb,): joints leave them their
    velocities whatever happens. Pairs (j, 2) of bodies that rigid joints link, and l limits that
    are met, between bodies `sides` (l, 2), of all `count`, by maps `on` (l, 2, 1 + k, w)."""

    inverse: csr_matrix
    alone: csr_matrix
    matrix: csr_matrix
    flexibility: np.ndarray
    given: np.ndarray
    links: np.ndarray
    limits: np.ndarray
    count: int
    sides: np.ndarray
    on: np.ndarray

    def kept(self, velocity, end) -> np.ndarray:
        """The `velocity` (nb, w) with what joints add to it so that their rates are those at the
        `end` (nb, w)."""
        if not self.matrix.shape[0]:
            return velocity
        apart = self.matrix @ (velocity - end).reshape(-1)
        return velocity - (self.alone @ (self.matrix.T @ (self.flexibility @ apart))).reshape(velocity.shape)

    def reactions(self, momenta) -> np.ndarray:
        """Lambda (R,) [N s], in lengths, of rigid joints to `momenta` (nb, w)."""
        return -self.flexibility @ (self.matrix @ (self.alone @ momenta.reshape(-1)))

    def fastest(self, end) -> float:
        """The fastest rate [m/s] of a rigid joint at the velocities `end` (nb, w), in lengths: that
        of what moves as it is told."""
        return float(np.max(np.abs(self.matrix @ end.reshape(-1)), initial=0.0))

    def driven(self, end) -> np.ndarray:
        """The part (nb, w) of the velocities `end` (nb, w) that the rates of joints make: an
        impulse has joints work by as much as it would on bodies with these the other way."""
        rates = self.matrix @ end.reshape(-1)
        return (self.alone @ (self.matrix.T @ (self.flexibility @ rates))).reshape(end.shape)

    def worked(self, islands, sides, given, end) -> np.ndarray:
        """Energies (nb,) [J] that impulses `given` (m, 2, w) to the bodies `sides` (m, 2) in a step
        bring the `islands` of these at most: their work there, and that of what joints answer to
        them, at the velocities `end` (nb, w), of those whose work is positive."""
        every = np.concatenate([self.kept(end, 0 * end), np.zeros((1, end.shape[1]))])
        at, found = np.minimum(sides, len(end)), np.zeros(len(every))
        work = np.sum(given * every[at], axis=2)
        inner = islands[at[:, 0]] == islands[at[:, 1]]
        work[inner] = np.stack([np.sum(work[inner], axis=1), np.zeros(np.sum(inner))], axis=1)
        np.add.at(found, at, np.maximum(work, 0.0))
        return found[:-1]

    def moving(self, sides) -> np.ndarray:
        """The body (m,) with the least number of those on `sides` (m, 2) that joints leave free, nb
        where there is none."""
        return np.min(self._free(sides), axis=1)

    def _free(self, sides) -> np.ndarray:
        count = len(self.given)
        return np.where(np.append(self.given, True)[np.minimum(sides, count)], count, sides)

    def islands(self, sides, joined) -> np.ndarray:
        """The numbers (nb + 1,) of the islands of bodies between which contacts (m,) have `joined`
        the two `sides` (m, 2), or rigid joints; the last is of none. Given bodies join nothing."""
        from scipy.sparse import csr_matrix  # here, as few runs need it
        from scipy.sparse.csgraph import connected_components

        count = len(self.given) + 1
        both = np.concatenate([self._free(sides[joined]), self._free(self.links)])
        both = both[np.all(both < count - 1, axis=1)]
        graph = csr_matrix((np.ones(len(both)), tuple(both.T)), shape=(count, count))
        return connected_components(graph, directed=False)[1]

    def limits_as_law(self) -> tuple[np.ndarray, ...]:
        """As `impact_root.Law` has contacts, of limits that are met."""
        return self.sides, self.on, *np.zeros((3, len(self.limits)))

    def answering(self, sides, on) -> np.ndarray:
        """Which contacts (m,) between bodies `sides` (m, 2), of which `on` (m, 2, 1, w) gives v_n,
        an impulse can part."""
        if not self.matrix.shape[0]:
            return np.ones(len(sides), bool)
        W = velocity_rows(sides, on, len(self.given))
        own, without = (W.multiply((W @ inverse).tocsr()).sum(axis=1) for inverse in (self.inverse, self.alone))
        return np.asarray(own > NOTHING * without).reshape(-1)


def velocity_rows(sides, on, count: int) -> csr_matrix:
    """The maps `on` (m, 2, r, w) from the velocities of the bodies `sides` (m, 2) as a matrix (m r,
    count w) of those of the `count` that move."""
    from scipy.sparse import csr_matrix  # here, as few runs need it

    (m, _, r, w), moves = on.shape, sides < count
    at = np.broadcast_to(np.arange(m * r).reshape(m, 1, r, 1), on.shape)
    of = np.broadcast_to((sides[:, :, None, None] * w) + np.arange(w), on.shape)
    return csr_matrix((on[moves].ravel(), (at[moves].ravel(), of[moves].ravel())), shape=(m * r, count * w))


def unlinked(mass) -> Answers:
    """Those of bodies with the matrices `mass` (nb, w, w) without joints."""
    from scipy.sparse import block_diag, csr_matrix

    (count, w, _), alone = mass.shape, block_diag(np.linalg.inv(mass), format="csr")
    none, no_limits = np.zeros((0, 2), int), np.zeros((0, 2, 4 if w == 6 else 2, w))
    matrix = csr_matrix((0, count * w))
    return Answers(alone, alone, matrix, np.zeros((0, 0)), np.zeros(count, bool), none, none[:, 0], 0, none, no_limits)


def answers(system: System, end: State) -> tuple[Answers, np.ndarray]:
    """Those of the bodies of `system` at the `end` of a step, and the mass matrices (nb, w, w)."""
    from scipy.sparse import block_diag, csr_matrix

    if not system.joints:
        mass = np.asarray(_masses(system, end))
        return unlinked(mass), mass
    mass, rows, limits, gaps = _at(system, end)
    alone = block_diag(np.asarray(rows.inverse), format="csr")
    matrix, flexibility = csr_matrix(np.asarray(rows.matrix)), np.asarray(rows.flexibility)
    back = alone @ matrix.T
    inverse = (alone - back @ csr_matrix(flexibility) @ back.T).tocsr()
    left, whole = (own.diagonal().reshape(np.shape(end.velocity)) for own in (inverse, alone))
    links = [np.array(group.bodies) for group in joint_rows.rigid(system)]
    met = np.asarray(gaps) <= TOUCHING * float(system.length)
    sides = np.array(limits.bodies, int).reshape(-1, 2)
    on = np.stack([np.asarray(limits.on_1), np.asarray(limits.on_2)], axis=1)
    given, links = np.all(left <= NOTHING * whole, axis=1), np.concatenate([np.zeros((0, 2), int), *links])
    found = Answers(inverse, alone, matrix, flexibility, given, links, np.flatnonzero(met), len(met), sides, on)
    met &= found.answering(sides, on[:, :, :1])
    return found._replace(limits=np.flatnonzero(met), sides=sides[met], on=on[met]), np.asarray(mass)


_masses = jit(bodies.mass_matrices)


@jit
def _at(system: System, end: State) -> tuple[jnp.ndarray, JointRows, Rows, jnp.ndarray]:
    mass, k = bodies.mass_matrices(system, end), 3 if system.dimension == 3 else 1
    return mass, joint_rows.joint_rows(system, end, mass), *joint_rows.bound_rows(system, end, k)


def pushed(system: System, sides, on, contacts: Contacts, some) -> tuple[np.ndarray, np.ndarray]:
    """The bodies (n, 2) of `some` (m,) of the `contacts` of a step, between bodies `sides` (m, 2)
    with maps `on` (m, 2, 1 + k, w), and of all joints that are no constraints; and what these gave
    both (n, 2, w) [N s, N m s]."""
    impulses = np.concatenate([np.asarray(contacts.normal_impulse)[:, None], contacts.friction_impulse], axis=1)
    given = np.einsum("cr,csrw->csw", impulses[some], on[some])
    forces = [number for group in system.joints if not group.bilateral for number in group.numbers]
    if not forces:
        return sides[some], given
    links = in_joint_order(system, np.concatenate([np.array(group.bodies) for group in system.joints]))
    pulls = np.stack([np.asarray(contacts.joints.impulse_1), np.asarray(contacts.joints.impulse_2)], axis=1)
    return np.concatenate([sides[some], links[forces]]), np.concatenate([given, pulls[forces]])


def recorded(system: System, after: State, reactions, limits) -> Joints | None:
    """The record of all joints in the state `after` an impact, with the `reactions` (R,) [N s] of
    rigid ones and the impulses of all `limits` (l,) [N s], in lengths; None where there are
    none."""
    return jax.tree.map(np.asarray, _recorded(system, after, reactions, limits)) if system.joints else None


@jit
def _recorded(system: System, after: State, reactions, limits) -> Joints:
    rigid = joint_rows.rigid(system)
    lengths = jnp.concatenate([jnp.tile(g.lengths(system.length), len(g.numbers)) for g in rigid] + [jnp.zeros(0)])
    none = [None if g.bilateral else jnp.zeros((len(g.numbers), g.closures)) for g in system.joints]
    acting = joint_rows.by_group(system, reactions * lengths, joint_rows.with_bounds(system, none, limits))
    record = joint.record(system, after, acting)
    return record and dataclasses.replace(record, mu=joint_coefficients(system))

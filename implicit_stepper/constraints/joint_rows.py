"""The joints of a system at fixed poses, as linear equations of velocities: G V + g_t = 0.

    V = V_free + M^-1 G^T Lambda,      Lambda = -(G M^-1 G^T)^+ (G V_free + target)

takes any velocities to those that joints allow. Joints that bound a coordinate are rows of
inequalities. Rows are measured in lengths; of redundant joints,
whose equations say things twice, Lambda is the shortest. Where joints of light bodies would hide
those of heavy ones, it is the shortest with every row measured by its own response.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from ..model import bodies
from ..model.bodies import State
from ..model.system import System
from ..runtime.compilation import jit
from . import incidence, kinematics
from .linear_rows import Rows

_UNFELT = 1e-8  # eigenvalue of G M^-1 G^T, with ones on its diagonal, below which bodies feel next to nothing
_SINGULAR = 1e-11  # of the largest eigenvalue of G M^-1 G^T: equations that others imply


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class JointRows:
    """G (R, nb w) in lengths; inverse mass matrices (nb, w, w); `flexibility` (R, R), an inverse of
    G M^-1 G^T; `lengths` (R,), what made the rows lengths."""

    matrix: jax.Array
    inverse: jax.Array
    flexibility: jax.Array
    lengths: jax.Array

    def alone(self, momenta):
        """M^-1 times `momenta` (..., nb, w), without joints."""
        return jnp.einsum("bij,...bj->...bi", self.inverse, momenta)

    def response(self, momenta):
        """Change of the velocities by impulsive `momenta` (..., nb, w) and the joints' answer to
        these."""
        change = self.alone(momenta)
        return change + self.answer(change, 0.0)[0]

    def answer(self, velocity, target) -> tuple[jax.Array, jax.Array]:
        """What the joints add to `velocity` (..., nb, w) so that G V = -`target` (R,), in lengths,
        and Lambda (..., R)."""
        flat = velocity.reshape(*velocity.shape[:-2], self.matrix.shape[1])
        multipliers = -(flat @ self.matrix.T + target) @ self.flexibility
        return self.alone((multipliers @ self.matrix).reshape(velocity.shape)), multipliers

    def beside_answer(self, momenta):
        """The transpose of V + answer(V, 0): `momenta` (..., nb, w) without what the joints' answer
        takes of them."""
        flat = self.alone(momenta).reshape(*momenta.shape[:-2], self.matrix.shape[1])
        return momenta - (flat @ self.matrix.T @ self.flexibility @ self.matrix).reshape(momenta.shape)


def joint_rows(system: System, state: State, mass) -> JointRows:
    """At the poses of `state`, with mass matrices (nb, w, w)."""
    (nb, w), parts = state.velocity.shape, [jnp.zeros((0, state.velocity.size))]
    for group in rigid(system):

        def one(member, motion_1, motion_2):
            lengths = member.lengths(system.length)
            acting = jax.vmap(lambda unit: member.wrenches(unit, motion_1, motion_2, state.time)[1])(jnp.diag(lengths))
            return jnp.stack([on for on, moves in zip(acting, member.moving, strict=True) if moves])

        # (n, sides, r, w)
        sides = jax.vmap(one)(group, *kinematics.motions_of(system, state, group))
        share = incidence.shares(system, group)
        parts.append(jnp.einsum("csb,csrw->crbw", share, sides).reshape(-1, nb * w))
    matrix, inverse = jnp.concatenate(parts), jnp.linalg.inv(mass)
    back = jnp.einsum("bij,rbj->rbi", inverse, matrix.reshape(-1, nb, w)).reshape(matrix.shape)
    flexibility = _flexibility(matrix @ back.T) if len(matrix) else matrix @ back.T
    lengths = [jnp.tile(g.lengths(system.length), len(g.numbers)) for g in rigid(system)]
    return JointRows(matrix, inverse, flexibility, jnp.concatenate([*lengths, jnp.zeros(0)]))


def _flexibility(responses):
    """The pseudo-inverse (R, R) of the `responses` G M^-1 G^T (R, R), or if that leaves equations
    out for no other reason than that they are those of much heavier or larger bodies, the inverse
    by rows with a response of 1 each."""
    own = jnp.diagonal(responses)
    unit = jnp.where(own > 0, 1 / jnp.sqrt(jnp.where(own > 0, own, 1.0)), 1.0)

    def inverse(matrix):
        found = jnp.linalg.pinv(matrix, rtol=_SINGULAR, hermitian=True)
        return found, jnp.sum(matrix * found)  # the trace of a projection: how many rows are independent

    plain, least = inverse(responses)
    scaled, rank = inverse(unit[:, None] * responses * unit)
    return jnp.where(rank > least + 0.5, unit[:, None] * scaled * unit, plain)


def felt(system: System, state: State, impulses):
    """`impulses` (..., R) of rigid joints, one after the other, less what gives bodies nothing at
    the poses of `state`, as redundant joints may pull against each other: the null space of G^T, in
    lengths and measured by the response of every row."""
    rows = joint_rows(system, state, bodies.mass_matrices(system, state))
    back = rows.alone(rows.matrix.reshape(-1, *rows.inverse.shape[:2])).reshape(rows.matrix.shape)
    responses = rows.matrix @ back.T
    own = jnp.diagonal(responses)
    unit = jnp.where(own > 0, 1 / jnp.sqrt(jnp.where(own > 0, own, 1.0)), 1.0)
    scaled = unit[:, None] * responses * unit
    factor = jax.scipy.linalg.cho_factor(scaled + _UNFELT * jnp.eye(len(scaled)), lower=True)
    size = rows.lengths * unit
    of_unit = (impulses / size).reshape(-1, len(scaled)).T
    return (scaled @ jax.scipy.linalg.cho_solve(factor, of_unit)).T.reshape(impulses.shape) * size


def rows_and_rank(system: System, state: State) -> tuple[int, int]:
    """How many equations the rigid joints have, and how many of them are independent at the poses
    of `state`, by the bounds on eigenvalues that `JointRows.flexibility` has."""
    return sum(len(group.numbers) * group.closures for group in rigid(system)), round(float(_rank(system, state)))


@functools.partial(jit, once=True)
def _rank(system: System, state: State):
    """The trace () of A A^+ with A = G M^-1 G^T, a projection."""
    rows = joint_rows(system, state, bodies.mass_matrices(system, state))
    back = rows.alone(rows.matrix.reshape(-1, *rows.inverse.shape[:2])).reshape(rows.matrix.shape)
    return jnp.sum(rows.matrix @ back.T * rows.flexibility)


def targets(system: System, state: State, rows: JointRows, h):
    """What is to be added to G V (R,), in lengths, so that V moves bodies as joints ask for over a
    short time `h` [s] after `state`: g_t, and h times what becomes of G V + g_t at constant
    velocities."""
    turning = _each(system, state, lambda member, *motions: member.rates_grow(*motions, state.time))
    return (_driven(system, state) + h * turning) * rows.lengths


def closing_targets(system: System, state: State, rows: JointRows, h):
    """What is to be added to G V (R,), in lengths, so that g = 0 after `h` [s], to first order: g_t
    + g / h."""

    def apart(member, *motions):
        return member.equations(*((motion.position, motion.orientation) for motion in motions), state.time)

    return (_driven(system, state) + _each(system, state, apart) / h) * rows.lengths


def ending_targets(system: System, state: State, rows: JointRows, h):
    """What is to be added to G V (R,), in lengths, so that g = 0 at the end of a step of h [s] from
    `state`, to first order: what g at these poses and that time is over h; of what holds
    velocities, g_t at that time."""
    later = dataclasses.replace(state, time=state.time + h)
    velocities = _each(system, state, lambda member, *_: jnp.full(member.closures, member.holds_velocities))
    return closures(system, later, rows) / h + jnp.where(velocities, _driven(system, later) * rows.lengths, 0.0)


def closures(system: System, state: State, rows: JointRows):
    """g (R,), in lengths; 0 of what holds velocities alone."""

    def apart(member, *motions):
        g, _ = member.wrenches(jnp.zeros(member.closures), *motions, state.time)
        return jnp.zeros_like(g) if member.holds_velocities else g

    return _each(system, state, apart) * rows.lengths


def _driven(system: System, state: State):
    """g_t (R,) of all rigid joints."""
    at_rest = dataclasses.replace(state, velocity=jnp.zeros_like(state.velocity))
    return _each(system, at_rest, lambda member, *motions: member.rates(*motions, state.time))


def _each(system: System, state: State, of):
    """`of`(member, motion_1, motion_2) -> (r,) for every rigid joint, one after the other (R,)."""
    found = [jax.vmap(of)(group, *kinematics.motions_of(system, state, group)).reshape(-1) for group in rigid(system)]
    return jnp.concatenate([*found, jnp.zeros(0)])


def rigid(system: System) -> list:
    """The groups of joints that are constraints."""
    return [group for group in system.joints if group.bilateral]


def elastic_forces(system: System, state: State) -> tuple[list, jax.Array]:
    """Per group the multipliers per time (n, r) of elastic joints in `state`, 0 of limits, None of
    rigid ones; what these push the moving bodies by, (nb, 6 or 3) [N, N m]."""
    forces, pushed = [], jnp.zeros_like(state.velocity)
    for group in system.joints:
        force = None
        if group.elastic:
            motions = kinematics.motions_of(system, state, group)
            force, wrenches = jax.vmap(lambda member, *of: member.elastic_forces(*of, state.time))(group, *motions)
            pushed = pushed + incidence.on_bodies(system, group, *wrenches)
        elif not group.bilateral:
            force = jnp.zeros((len(group.numbers), group.closures))
        forces.append(force)
    return forces, pushed


def by_group(system: System, values, elastic) -> list:
    """Multipliers per group (n, r) of joints: `values` (R,), one rigid joint after the other, or
    the `elastic` ones."""
    parts, start = [], 0
    for group, own in zip(system.joints, elastic, strict=True):
        shape = len(group.numbers), group.closures
        size = 0 if own is not None else shape[0] * shape[1]
        parts.append(values[start : start + size].reshape(shape) if own is None else own)
        start += size
    return parts


def bound_rows(system: System, state: State, k: int) -> tuple[Rows, jax.Array]:
    """Joints that bound as rows of impacts, in lengths, with k rows each for the friction that they
    lack; and their gaps (m,)."""
    w, pairs, sides, gaps = state.velocity.shape[1], [], [jnp.zeros((0, 2, state.velocity.shape[1]))], [jnp.zeros(0)]
    for group in bounds(system):

        def one(member, motion_1, motion_2):
            lengths = member.lengths(system.length)
            gap, acting = member.wrenches(lengths, motion_1, motion_2, state.time)
            return jnp.stack(acting), (gap * lengths)[0]

        acting, own = jax.vmap(one)(group, *kinematics.motions_of(system, state, group))
        pairs += [tuple(min(b, system.body_count) for b in pair) for pair in group.bodies]
        sides.append(acting)
        gaps.append(own)
    sides = jnp.concatenate(sides)
    rows = jnp.zeros((len(sides), 2, 1 + k, w)).at[:, :, 0].set(sides)
    return Rows(tuple(pairs), rows[:, 0], rows[:, 1], jnp.zeros((len(sides), k))), jnp.concatenate(gaps)


def bounds(system: System) -> list[Any]:
    """The groups of joints that bound."""
    return [group for group in system.joints if group.unilateral]


def bound_names(system: System) -> list[str]:
    """Names of joints that bound, in the order of `bound_rows`."""
    return [system.joint_names[number] for group in bounds(system) for number in group.numbers]


def with_bounds(system: System, forces: list, impulses) -> list:
    """`forces` per group, None of what is not elastic, with the `impulses` (m,) of those that
    bound, measured in lengths."""
    found, start = [], 0
    for group, own in zip(system.joints, forces, strict=True):
        if group.unilateral:
            stop = start + len(group.numbers)
            own, start = impulses[start:stop, None] * group.lengths(system.length), stop
        found.append(own)
    return found

"""Where Newton's method starts a step: the extrapolated last roots, and what is known before the
first step."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from shapes.shards import varying_like

from ..constraints import contact, kinematics
from ..constraints.conditions import Constraint
from ..model.bodies import State
from ..model.system import System, take
from ..solvers.complementarity import fischer_burmeister, length_of
from ..solvers.implicit_function import root
from ..solvers.newton import largest, linearized
from . import ncp

ROOTS = 6  # that are remembered
# max |F_i| that a kept Jacobian which has aged leaves; of other closest points it is more
_NEAR = 10.0
# times the tolerance: changes of velocities that are none
_RESTS = 1e3
# differences of the orders 0 to ROOTS - 1 of the last roots, the latest first
_DIFFERENCES = np.array([[(-1.0) ** j * math.comb(k, j) for j in range(ROOTS)] for k in range(ROOTS)])
_BOTH = np.concatenate([_DIFFERENCES, np.cumsum(_DIFFERENCES, axis=0)])


def extrapolated(history, noise):
    """The next root (N,), from the last ones, `history` (ROOTS, N), the latest first, each known to
    `noise` ().

    Newton's backward formula adds differences of rising order: of each unknown up to the least of
    them, or the first that is noise. Differences across a kink are large, so that what is taken
    lies behind it."""
    both = _BOTH @ history
    sizes, sums = jnp.abs(both[:ROOTS]), both[ROOTS:]
    least, continued = sizes[0], sums[0]
    for size, sum_ in zip(sizes[1:], sums[1:], strict=True):
        less = (size < least) & (least > noise)
        least, continued = jnp.where(less, size, least), jnp.where(less, sum_, continued)
    return continued


def determined(problem: ncp.StepProblem, start, last, kept, tolerance):
    """The `start` (N,) of a step of bodies with faces, or where that is no root within the
    `tolerance` () another one; and F there, None where nothing is asked. All are dimensionless.

    What F does not see, forces that joints and faces share as they like, wanders where it is
    extrapolated, until faces press at their rims. With rigid joints the other start is what the
    first says of F, by what is `kept` of a Jacobian, from the `last` root (N,) without reactions of
    joints and with faces that press below the middle of their bodies, so that these shares stay
    small. Without, where velocities do not change, it is the last root, if F is less there."""
    system = problem.system
    # the bound of friction is no linear function of reactions
    rigid = any(group.bilateral and group.mu is None for group in system.joints)
    if all(group.pair.smooth for group in system.groups):
        return start, None
    asked = ncp.residual(problem, start)

    def parted():
        resting = _unloaded(problem, last)
        found = resting + kept.solve(asked - ncp.residual(problem, resting))
        F = ncp.residual(problem, found)
        near = largest(F) <= _NEAR  # of edges and corners it is none
        return jnp.where(near, found, start), jnp.where(near, F, asked)

    def at_rest():
        F = ncp.residual(problem, last)
        less = largest(F) < largest(asked)
        return jnp.where(less, last, start), jnp.where(less, F, asked)

    velocities = ncp.layout(system).velocity
    rests = largest(take(start - last, velocities)) <= _RESTS * tolerance
    due, other = (kept.valid, parted) if rigid else (rests, at_rest)
    # a loop of one trip at most leaves what is kept where it is, of which a choice makes a copy
    begun = varying_like((due & (largest(asked) > tolerance), start, asked), (kept, start))
    return lax.while_loop(lambda at: at[0], lambda at: varying_like((jnp.asarray(False), *other()), begun), begun)[1:]


def _unloaded(problem: ncp.StepProblem, last):
    """The `last` root (N,) without reactions of rigid joints, and with the points of bodies with
    faces below the middle of those that move."""
    system, where, length = problem.system, ncp.layout(problem.system), problem.scales.length
    for group, index in zip(system.joints, where.unknowns[len(system.groups) :], strict=True):
        if group.bilateral and group.mu is None:
            last = last.at[index].set(0.0)
    d = system.dimension
    for group, index in zip(system.groups, where.unknowns, strict=False):
        if not group.pair.smooth:
            sides = [numbers for numbers, moves in zip(np.array(group.bodies).T, group.moving, strict=True) if moves]
            middle = sum(take(problem.state.position, numbers) for numbers in sides) / (len(sides) * length)
            first, second, n = (take(last, index[:, k * d : (k + 1) * d]) for k in range(3))
            off = second - middle
            off = off - jnp.sum(off * n, axis=1, keepdims=True) * n
            last = last.at[index[:, : 2 * d]].set(jnp.concatenate([first - off, second - off], axis=1))
    return last


def long_forms(problem: ncp.StepProblem, unknowns) -> list:
    """Per group, the closest-point unknowns (nc, unknowns) of a root (N,) in long form, physical
    units, before the step."""
    where = ncp.layout(problem.system)

    def one(member: Constraint, unknowns, motion_1, motion_2):
        closest, d = contact.split(member, unknowns).closest, member.pair.dimension
        if not member.pair.smooth:
            return closest
        return member.pair.general.start(closest[:d], closest[d:], *kinematics.placed(member, motion_1, motion_2))

    return [
        jax.vmap(one)(group, take(unknowns, index), *kinematics.motions_of(problem.system, problem.state, group))
        for group, index in zip(problem.system.groups, where.unknowns, strict=False)
    ]


def _closest_rows(where, z):
    """Closest-point conditions (unknowns,) as roots, at dimensionless unknowns z, of a contact
    placed as `where` says."""
    member, motion_1, motion_2, unit, length = where
    reference = jnp.eye(member.pair.dimension)[0]
    rows = contact.geometry_rows(member, z * unit, reference, length, motion_1, motion_2)
    return jnp.concatenate([rows.equations, fischer_burmeister(rows.multipliers, rows.slacks)])


def _linearized_closest_rows(where, z):
    """These and their derivative."""
    return linearized(functools.partial(_closest_rows, where))(z)


def resting_contacts(system: System, state: State, closest) -> list:
    """Per group, of contacts at rest in `state` at their `closest` points: unknowns (nc, width),
    tangents (nc, d), gaps; and slips |w| (nc,) [m/s], None where what sticks has no coefficient of
    its own. Derivatives are those of the closest points, whatever found them."""

    def one(member, closest, motion_1, motion_2):
        reference, zero, unit = jnp.eye(system.dimension)[0], jnp.zeros(()), member.pair.unknown_scale(system.length)
        where, start = (member, motion_1, motion_2, unit, system.length), closest[: member.pair.unknowns] / unit
        closest = unit * root(_closest_rows, _linearized_closest_rows, where, start)
        geometry = contact.geometry_rows(member, closest, reference, system.length, motion_1, motion_2).geometry
        unknowns = contact.join(contact.Unknowns(closest, zero, jnp.zeros_like(member.e), zero))
        slip = None if member.mu_s is None else length_of(contact.scaled_slip(member, geometry, motion_1, motion_2))
        return unknowns, geometry.tangents[0], geometry.psi, slip

    return [
        jax.vmap(one)(group, closest, *kinematics.motions_of(system, state, group))
        for group, closest in zip(system.groups, closest, strict=True)
    ]

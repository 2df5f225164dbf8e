"""Starts in which contacts that press stick: for bodies that spin on a face, and for those that
jam.

*Pivots.* A face has a contact point wherever the moments balance, up to mu times the height of the
body from its middle. Where the body turns about an axis nearer than that, it does not slide about
the middle of the face, as it does in the start from its closest points, but sticks at that axis,
its pivot: with v the slip at the old point and w_n the spin about the normal n, the new point is s
= n x v / w_n away, v + w_n n x s = 0. Slips turn by a right angle as a point moves from the middle
to there, so that Newton's method goes around between the two.

With friction against drilling, e_r > 0, the scaled slip does not vanish. It is as small as e_r w_n,
and along -y, so that moments and the cone decide all: of y = (y_t, y_o, y_r), |y| = mu p_n, they
ask for y_t and y_o as without it, hence for y_r, and sigma = e_r |w_n| mu p_n / |y_r|.

*Jams.* Where friction presses a sliding body down about as much as the normal force lifts it, as it
does Painleve's rod, only an impulse that stops it balances the step, of m v where others are of m g
h: Gauss-Seidel goes there by ever so little, and Newton's method has no reason to. It is that of a
bilateral contact, W_n nu = -psi/h and no slip,

    p = -(W M^-1 W^T)^-1 (W nu_free + (psi/h, 0))
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints import contact
from ..model.system import System, take
from ..solvers.complementarity import length_of
from . import ncp
from .cutting_planes import Cuts, at_planes, end_motions, response

# of the largest diagonal entry, on all: redundant contacts leave the matrix singular
_REGULAR = 1e-13


def stopped(problem: ncp.StepProblem, cuts: Cuts):
    """The start (N,), in physical units, in which contacts that press at the last planes of `cuts`
    neither approach nor slip (but may drill)."""
    last, k = cuts.rounds - 1, problem.system.groups[0].e.shape[-1]
    rows = np.array([1.0, 1.0, 1.0, 0.0])[np.arange(1 + k), None]
    presses = jnp.concatenate([planes.impulse[last, :, 0] > 0 for planes in cuts.groups])
    rate = jnp.concatenate([planes.rate[last] for planes in cuts.groups]) * rows * presses[:, None, None]
    approach = jnp.concatenate([planes.speed[last] for planes in cuts.groups])
    rate, approach = rate.reshape(-1, cuts.free.size), jnp.pad((approach * presses)[:, None], ((0, 0), (0, k))).reshape(-1)
    back = response(problem, cuts.free, rate)
    matrix = rate @ back.T
    largest = jnp.max(jnp.diag(matrix))
    regular = matrix + _REGULAR * jnp.where(largest > 0, largest, 1.0) * jnp.eye(len(rate))
    impulses = -jnp.linalg.solve(regular, rate @ cuts.free.reshape(-1) + approach)
    velocity = cuts.free + (impulses @ back).reshape(cuts.free.shape)
    parts = jnp.split(impulses.reshape(-1, 1 + k), np.cumsum([planes.speed.shape[1] for planes in cuts.groups])[:-1])
    groups = tuple(
        dataclasses.replace(planes, impulse=jnp.zeros_like(planes.impulse).at[last].set(part))
        for planes, part in zip(cuts.groups, parts, strict=True)
    )
    return at_planes(problem, dataclasses.replace(cuts, velocity=velocity, groups=groups))


def pivoted(problem: ncp.StepProblem, unknowns, rubs):
    """The start `unknowns` (N,), in physical units, with the points of all contacts that press
    moved to their pivots, and whether any was moved (). Friction in the face is `rubs` (), 0 or 1,
    times that of the start."""
    system, where = problem.system, ncp.layout(problem.system)
    if system.dimension == 2:
        return unknowns, jnp.zeros((), bool)
    velocity, moved = take(unknowns, where.velocity), jnp.zeros((), bool)
    for group, index, references in zip(system.groups, where.unknowns, problem.references, strict=False):

        def one(member, own, reference, motion_1, motion_2):
            u, length = contact.split(member, own), problem.scales.length
            geometry = contact.geometry_rows(member, u.closest, reference, length, motion_1, motion_2).geometry
            centres, velocities = zip(*((m.position, m.velocity) for m in (motion_1, motion_2)), strict=True)
            _, slip = contact.slip_velocities(geometry, *centres, *velocities)
            along, sigma = _at_pivot(member, u.p_n, rubs * u.y[:2], slip[2])
            e = member.e[:2]
            change = slip[:2] + jnp.where(e > 0, sigma * along[:2] / jnp.where(e > 0, e, 1.0), 0.0)
            way = (geometry.tangents[1] * change[0] - geometry.tangents[0] * change[1]) / jnp.where(slip[2] != 0, slip[2], 1)
            pivots = (u.p_n > 0) & (slip[2] != 0) & (length_of(way) < length)
            points = u.closest[:6] + jnp.concatenate([way, way])
            other = contact.Unknowns(u.closest.at[:6].set(points), u.p_n, member.mu * u.p_n * along, sigma)
            return jnp.where(pivots, contact.join(other), own), pivots

        found, pivots = jax.vmap(one)(group, take(unknowns, index), references, *end_motions(problem, group, velocity))
        unknowns, moved = unknowns.at[index].set(found), moved | jnp.any(pivots)
    return unknowns, moved


def _at_pivot(member, p_n, rubbed, spin):
    """y / (mu p_n) (3,) and sigma () [m/s] of a contact that pivots at the rate `spin` () [rad/s]
    with friction `rubbed` (2,) [N s] in the face."""
    limit, drill = member.mu * p_n, member.e[2] * spin
    across = rubbed / jnp.where(limit > 0, limit, 1.0)
    room = jnp.maximum(1 - jnp.sum(across**2), 0.0)
    drills = (drill != 0) & (room > 0)
    share = jnp.sqrt(jnp.where(drills, room, 1.0))
    y_r = jnp.where(drills, -jnp.sign(drill) * share, 0.0)
    return jnp.append(across, y_r), jnp.where(drills, jnp.abs(drill) / share, 0.0)


def without_drilling(system: System) -> System | None:
    """The same with e_r = 0 in all contacts; None where that changes nothing."""
    if not any(jnp.any(group.e[:, 2] > 0) for group in system.groups):
        return None
    groups = tuple(dataclasses.replace(group, e=jnp.asarray(group.e).at[:, 2].set(0.0)) for group in system.groups)
    return dataclasses.replace(system, groups=groups)

"""Closest points of contacts that push nothing, found apart from the rest of a step.

Nothing else of a step depends on them: what does is solved first, then they are, one by one, where
the velocities lead. Where edges of bodies pass each other, Newton's iterations of all unknowns jump
from one end of an edge to another, and take all bodies with them.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax

from shapes.shards import varying_like

from ..collision.local_search import undamped
from ..constraints import kinematics
from ..constraints.conditions import Constraint
from ..model.system import take
from ..solvers.chord import Apart
from . import ncp

_PUSHES = 1e-7  # of an impulse in its unit
_DUE = 0.01  # of the tolerance
_ITERATIONS = 20


def points_apart(problem: ncp.StepProblem, start, last, tolerance) -> Apart | None:
    """The points of contacts of bodies with faces that pushed nothing at the `last` root (N,), to
    be found apart from the rest, which begins at `start` (N,); None where there are no such bodies,
    or few unknowns."""
    groups = problem.system.groups
    apart = [g for g, group in enumerate(groups) if not group.pair.smooth and group.pair.query is None]
    if not apart or not ncp.in_blocks(problem.system, problem.dense) or problem.friction != "projection":
        return None
    loose, own = _loose(problem, apart, last)
    return Apart(
        own=own,
        start=jnp.where(own, last, start),
        solve=lambda z, F: _found(problem, apart, loose, z, F, tolerance),
        follow=functools.partial(_slipping, problem, apart, loose),
    )


def _loose(problem: ncp.StepProblem, apart, z):
    """Per group of those `apart`, which contacts (nc,) push nothing at z (N,), and which of all
    unknowns (N,) are theirs."""
    where, mask, loose = ncp.layout(problem.system), jnp.zeros(z.shape, bool), []
    for g in apart:
        group, index = problem.system.groups[g], where.unknowns[g]
        pushes = jnp.max(jnp.abs(take(z, index[:, group.pair.unknowns : group.width - 1])), axis=1) > _PUSHES
        loose.append(~pushes)
        mask = mask.at[index].set(jnp.broadcast_to(~pushes[:, None], index.shape))
    return loose, mask


def _slipping(problem: ncp.StepProblem, apart, loose, z, F):
    """z (N,) with sigma = |w| of `loose` contacts, which no other row has, and F there."""
    where = ncp.layout(problem.system)
    for g, own in zip(apart, loose, strict=True):
        index = where.unknowns[g]
        row = index[:, problem.system.groups[g].pair.unknowns + 1]
        left = jnp.where(own, take(F, row), 0.0)
        z, F = z.at[index[:, -1]].add(-left), F.at[row].add(-left)
    return z, F


def _found(problem: ncp.StepProblem, apart, loose, z, F, tolerance):
    """z (N,) with points of `loose` contacts where its velocities lead, of those that miss them."""
    where, units, system = ncp.layout(problem.system), problem.scales, problem.system
    V = take(z, where.velocity) * units.velocity
    for g, own in zip(apart, loose, strict=True):
        group, n = system.groups[g], system.groups[g].pair.unknowns
        index = where.unknowns[g][:, :n]
        due = own & (jnp.max(jnp.abs(take(F, where.unknowns[g])), axis=1) > _DUE * tolerance)
        order = jnp.nonzero(due, size=len(index), fill_value=0)[0]
        starts = kinematics.motions_of(system, problem.state, group)
        at_rest = jnp.zeros((len(system.fixed_position), V.shape[1]))
        sides = jnp.asarray(group.bodies)
        moves = jnp.concatenate([V, at_rest])[sides]
        points, scale = take(z, index) * units.unknowns[g][:, :n], units.length

        def more(k, points, group=group, starts=starts, moves=moves, order=order, scale=scale):
            number = order[k]
            member, motions, nu, last = jax.tree.map(lambda a: a[number], (group, starts, moves, points))
            return points.at[number].set(_closest(problem, member, motions, nu, last, scale, tolerance))

        points = lax.fori_loop(0, jnp.sum(due), more, varying_like(points, (points, due, V)))
        z = z.at[index].set(points / units.unknowns[g][:, :n])
    return z


def _closest(problem: ncp.StepProblem, member: Constraint, motions, nu, last, length, tolerance):
    """Closest points (unknowns,) [m] of one contact where velocities nu (2, 6 or 3) lead, near its
    `last` ones; these where they are not found."""
    ends = [
        kinematics.moved(motion, own, problem.h) if moves else motion
        for motion, own, moves in zip(motions, nu, member.moving, strict=True)
    ]
    enough = tolerance * problem.scales.gap / length
    points, left = undamped(member.pair, last, *kinematics.placed(member, *ends), length, enough, _ITERATIONS)
    return jnp.where(left <= enough, points, last)

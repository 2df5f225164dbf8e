"""Closest points of contacts that push nothing, found apart from the rest of a step.

Nothing else of a step depends on them: what does is solved first, then they are, one by one, where
the velocities lead. Where edges of bodies pass each other, Newton's iterations of all unknowns jump
from one end of an edge to another, and take all bodies with them.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jax import lax

from shapes.shards import varying_like

from ..collision.local_search import closest_points_from
from ..constraints import kinematics
from ..constraints.conditions import Constraint
from ..model.system import take
from ..solvers.newton import Chord, largest
from . import ncp

_PUSHES = 1e-7  # of an impulse in its unit
_DUE = 0.1  # of the tolerance
_MOST, _SHRINKS = 12, 0.5  # chord iterations for what presses, and by how much each is to reduce |F|


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _At:
    """z and F (N,), after `count` evaluations of F; max |F_i| of what presses, now and `before`;
    whether the points are `found`."""

    z: jax.Array
    F: jax.Array
    count: jax.Array
    size: jax.Array
    before: jax.Array
    found: jax.Array


def with_points_apart(problem: ncp.StepProblem, tried: Chord, start, last, kept, tolerance) -> Chord:
    """What chord iterations `tried` from the `start` (N,); where they did not solve the step,
    whether it is solved once the points of contacts of bodies with faces that push nothing, near
    those of the `last` root (N,), are found apart, and if not, from where Newton's method is to
    begin."""
    system = problem.system
    apart = [g for g, group in enumerate(system.groups) if not group.pair.smooth and group.pair.query is None]
    if not apart or not ncp.in_blocks(system, problem.dense) or problem.friction != "projection":
        return tried

    def once(tried: Chord) -> Chord:
        loose, mask = _loose(problem, apart, last)

        def advance(at: _At) -> _At:
            solved = (at.size <= tolerance) & (at.before <= tolerance)
            moves = [
                lambda: at.z,
                lambda: at.z - jnp.where(mask, 0.0, kept.solve(jnp.where(mask, 0.0, at.F))),
                lambda: _found(problem, apart, loose, at.z, at.F, tolerance),
            ]
            z = lax.switch(jnp.where(at.count == 0, 0, jnp.where(solved, 2, 1)), moves)
            z, F = _slipping(problem, apart, loose, z, ncp.residual(problem, z))
            size = largest(jnp.where(mask, 0.0, F))
            return _At(z, F, at.count + 1, size, jnp.where(at.count == 0, size, at.size), solved)

        def goes_on(at: _At):
            shrinks = (at.size <= jnp.maximum(_SHRINKS * at.before, tolerance)) | (at.count <= 1)
            return ~at.found & (at.count <= _MOST) & shrinks

        infinite = jnp.asarray(jnp.inf)
        at = _At(jnp.where(mask, last, start), tried.F, jnp.zeros((), int), infinite, infinite, jnp.asarray(False))
        end = lax.while_loop(goes_on, advance, varying_like(at, (tried, kept)))
        size = largest(end.F)
        solved, better = end.found & (size <= tolerance), end.found & (size < tried.size)
        return dataclasses.replace(
            tried,
            start=jnp.where(better, end.z, tried.start),
            size=jnp.where(better, size, tried.size),
            z=jnp.where(solved, end.z, tried.z),
            F=jnp.where(solved, end.F, tried.F),
            solved=solved,
            quick=solved,
        )

    # a loop of one trip at most leaves what is kept where it is, of which a choice makes a copy
    begun = varying_like((kept.valid & ~tried.solved, tried), (tried, kept))
    return lax.while_loop(lambda at: at[0], lambda at: varying_like((jnp.asarray(False), once(at[1])), begun), begun)[1]


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
    ends = [
        kinematics.moved(motion, own, problem.h) if moves else motion
        for motion, own, moves in zip(motions, nu, member.moving, strict=True)
    ]
    placed, tolerance = kinematics.placed(member, *ends), tolerance * problem.scales.gap / length
    solution = closest_points_from(member.pair, last, *placed, length, tolerance)
    return jnp.where(solution.converged, solution.z, last)

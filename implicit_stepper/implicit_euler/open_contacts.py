"""Closest points found anew for contacts that do not press, or whose points are what stalls.

Bodies whose parallel faces, edges or corners stay apart have closest points and multipliers that
are not unique, or that strict complementarity fails for: Newton's method on the whole step halves
what is left there with every iteration, if it does not go around, and stalls with |F| of 1e-5 in
rows that concern nobody. Such a contact is no part of the dynamics: at given velocities its rows
are a convex problem of its own, which detection without a hint solves from anywhere.

Where a body that leans on another slides or rolls over an edge, the points of a contact that
presses jump. A stall there has everything right but the rows of these points: they are found anew
too, and the contact keeps its force.
"""

from __future__ import annotations

import jax.numpy as jnp

from ..model.system import take
from . import ncp

_PRESSES = 1e-7  # p_n in its unit; stalls leave 1e-20 where contacts are open
_STALLED = 1e-7  # |F_i| of closest points that are no root; where others stall they are below 1e-9


def renewed(problem: ncp.StepProblem, unknowns, resting, stalled):
    """The `unknowns` (N,), in physical units, with those of every contact that does not press from
    `resting` (N,), which has no impulses and closest points of its own; where `stalled` (), also
    the closest points that are no root."""
    where, F = ncp.layout(problem.system), ncp.residual(problem, unknowns / ncp.unknown_scale(problem))
    for group, index, units in zip(problem.system.groups, where.unknowns, problem.scales.unknowns, strict=False):
        own, anew, p_n = take(unknowns, index), take(resting, index), group.pair.unknowns
        apart = own[:, p_n] <= _PRESSES * units[:, p_n]
        stalls = stalled & (jnp.max(jnp.abs(take(F, index)[:, :p_n]), axis=1) > _STALLED)
        own = jnp.where(apart[:, None], anew, own)
        closest = jnp.where(stalls[:, None], anew[:, :p_n], own[:, :p_n])
        unknowns = unknowns.at[index].set(jnp.concatenate([closest, own[:, p_n:]], axis=1))
    return unknowns

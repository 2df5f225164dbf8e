"""Closest points found anew for contacts that do not press.

Bodies whose parallel faces, edges or corners stay apart have closest points and multipliers that are not unique, or that
strict complementarity fails for: Newton's method on the whole step halves what is left there with every iteration, if it
does not go around, and stalls with |F| of 1e-5 in rows that concern nobody. Such a contact is no part of the dynamics:
at given velocities its rows are a convex problem of its own, which detection without a hint solves from anywhere.
"""

from __future__ import annotations

import jax.numpy as jnp

from ..model.system import take
from . import ncp

_PRESSES = 1e-7  # p_n in its unit; stalls leave 1e-20 where contacts are open


def renewed(problem: ncp.StepProblem, unknowns, resting):
    """The `unknowns` (N,), in physical units, with those of every contact that does not press from `resting` (N,), which has
    no impulses and closest points of its own."""
    where = ncp.layout(problem.system)
    for group, index, units in zip(problem.system.groups, where.unknowns, problem.scales.unknowns, strict=False):
        own, p_n = take(unknowns, index), group.pair.unknowns
        apart = own[:, p_n] <= _PRESSES * units[:, p_n]
        unknowns = unknowns.at[index].set(jnp.where(apart[:, None], take(resting, index), own))
    return unknowns

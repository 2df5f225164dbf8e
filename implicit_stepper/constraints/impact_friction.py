"""Dry friction of joints in impacts: impulses bounded by the impulsive reaction.

    |Y| <= mu R(Lambda),    Y against w = r q' after the impact, and of that length where w is not 0

the law of `joint_friction` with impulses: Lambda is what closes the joints' rates, G V+ + g_t = 0,
and R what of it presses the places that rub. Motors, whose force is bounded, have no impulse.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..model.bodies import State
from ..model.system import System
from . import kinematics
from .linear_rows import Rows


class Rubbing(NamedTuple):
    """Joints that rub, m in all: `rows`, whose first one is none, and the others (Y, w) of
    coordinates; `mu` (m,); and what takes Lambda (R,) of all rigid joints, one after the other, to
    the force (a,) on each of the p places that rub, `pads` (m, p, a, R)."""

    rows: Rows
    mu: jax.Array
    pads: jax.Array


def rubbing(system: System, state: State, k: int) -> Rubbing:
    """Those of `system`, with k rows each for friction."""
    w, bodies, sides, mu, e = state.velocity.shape[1], [], [], [jnp.zeros(0)], [np.zeros((0, k))]
    for group in groups(system):

        def one(member, *motions):
            of = jax.vmap(lambda unit: jnp.stack(member.moments(member.lever * unit, *motions, state.time)))
            return jnp.pad(of(jnp.eye(member.rubbing)), ((0, k - member.rubbing), (0, 0), (0, 0)))

        # (n, k, sides, w)
        sides.append(jax.vmap(one)(group, *kinematics.motions_of(system, state, group)))
        bodies += [tuple(min(b, system.body_count) for b in pair) for pair in group.bodies]
        mu.append(group.mu)
        e.append(np.tile(np.arange(k) < group.rubbing, (len(group.numbers), 1)))
    on = jnp.concatenate([jnp.zeros((0, k, 2, w)), *sides])
    on = jnp.pad(on, ((0, 0), (1, 0), (0, 0), (0, 0)))
    rows = Rows(tuple(bodies), on[:, :, 0], on[:, :, 1], jnp.asarray(np.concatenate(e), float))
    return Rubbing(rows, jnp.concatenate(mu), _pads(system))


def groups(system: System) -> list[Any]:
    """The groups of joints that rub."""
    return [group for group in system.joints if _rubs(group)]


def widths(system: System) -> list[int]:
    """Per group of joints, how many impulses of an impact one has: of closures and of friction."""
    return [group.closures + (group.rubbing if _rubs(group) else 0) for group in system.joints]


def with_friction(system: System, multipliers: list, y) -> list:
    """`multipliers` per group (n, r), with the impulses along coordinates of those that rub, from
    their Y (m, k)."""
    found, start = [], 0
    for group, own in zip(system.joints, multipliers, strict=True):
        if _rubs(group):
            stop = start + len(group.numbers)
            own = jnp.concatenate([own, group.lever[:, None] * y[start:stop, : group.rubbing]], axis=1)
            start = stop
        found.append(own)
    return found


def _rubs(group) -> bool:
    return group.bilateral and group.mu is not None


def _pads(system: System) -> jax.Array:
    """`Rubbing.pads`."""
    rigid = [group for group in system.joints if group.bilateral]
    count = sum(len(group.numbers) * group.closures for group in rigid)
    places, width = (max((group.pads.shape[i] for group in groups(system)), default=0) for i in (1, 2))
    found, start = [jnp.zeros((0, places, width, count))], 0
    for group in rigid:
        n, r = len(group.numbers), group.closures
        if _rubs(group):
            own = jnp.asarray(group.pads)
            own = jnp.pad(own, ((0, 0), (0, places - own.shape[1]), (0, width - own.shape[2]), (0, 0)))
            of_all = jnp.einsum("npar,nm->npamr", own, np.eye(n)).reshape(n, places, width, n * r)
            found.append(jnp.pad(of_all, ((0, 0), (0, 0), (0, 0), (start, count - start - n * r))))
        start += n * r
    return jnp.concatenate(found)

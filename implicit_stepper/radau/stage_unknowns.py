"""Where the unknowns of a step of several stages stand in z.

First what poses alone determine, the closest points of smooth bodies, so that linear solves may
eliminate it (`static_condensation`); then, stage after stage, the rates of all bodies and what is
left of every constraint. Rows F(z) stand where their unknowns do.
"""

from __future__ import annotations

import jax.numpy as jnp

from ..constraints.conditions import Constraint
from ..model.system import System


def width(group: Constraint) -> int:
    """Unknowns of a constraint at a stage: those of `ncp`, and its etas."""
    return group.width + group.etas


def rates_shape(system: System) -> tuple[int, int]:
    """(nb, 6 or 3)."""
    return system.body_count, 6 if system.dimension == 3 else 3


def size(system: System) -> int:
    """Unknowns of a stage."""
    bodies, rates = rates_shape(system)
    return bodies * rates + sum(len(g.bodies) * width(g) for g in system.constraints)


def join(system: System, rates, constraints):
    """z (s n,) of rates (s, nb, 6 or 3) and, per group, constraints (s, n, width)."""
    first, rest = [], [rates]
    for group, columns in zip(system.constraints, constraints, strict=True):
        first.append(columns[..., : group.determined])
        rest.append(columns[..., group.determined :])
    flat = [[a.reshape(len(rates), a[0].size) for a in parts] for parts in (first, rest)]
    return jnp.concatenate([jnp.concatenate(parts, axis=1).reshape(-1) for parts in flat if parts])


def split(system: System, stages: int, z):
    """Inverse of `join`."""
    first = sum(len(g.bodies) * g.determined for g in system.constraints)
    closest, rest = z[: stages * first].reshape(stages, first), z[stages * first :].reshape(stages, -1)

    def take(values, start, shape):
        stop = start + shape[0] * shape[1]
        return values[:, start:stop].reshape(stages, *shape), stop

    at, (rates, start), constraints = 0, take(rest, 0, rates_shape(system)), []
    for group in system.constraints:
        own, at = take(closest, at, (len(group.bodies), group.determined))
        other, start = take(rest, start, (len(group.bodies), width(group) - group.determined))
        constraints.append(jnp.concatenate([own, other], axis=-1))
    return rates, tuple(constraints)

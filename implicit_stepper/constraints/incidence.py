"""Which bodies constraints act on: sums over constraints by body, as one kernel.

A scatter would be a loop over the constraints, which takes as long as all the rest of a residual.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from ..model.system import System, body_numbers
from .conditions import Constraint


def shares(system: System, group: Constraint) -> np.ndarray | jax.Array:
    """(nc, sides, nb): 1 where the body on a moving side of a constraint is that one."""
    numbers, bodies = body_numbers(group), np.arange(system.body_count)
    stack = jnp.stack if isinstance(numbers, jax.Array) else np.stack
    return stack([(numbers[:, i, None] == bodies).astype(float) for i in (0, 1) if group.moving[i]], axis=1)


def by_body(share: np.ndarray, by_side):
    """What (nc, k, sides w) depends on bodies by the sides that they are on, as a matrix (nc, k, nb
    w) of all bodies."""
    (nc, sides, nb), (_, k, acting) = share.shape, by_side.shape
    parts = by_side.reshape(nc, k, sides, 1, acting // sides)
    return jnp.sum(parts * share[:, None, :, :, None], axis=2).reshape(nc, k, nb * acting // sides)


def on_bodies(system: System, group: Constraint, on_1, on_2):
    """Sum (nb, 6 or 3) over the moving bodies of what acts on body 1 and body 2 of each constraint,
    two (nc, 6 or 3)."""
    acting = jnp.stack([on for on, moves in zip((on_1, on_2), group.moving, strict=True) if moves], axis=1)
    return jnp.sum(shares(system, group)[..., None] * acting[:, :, None], axis=(0, 1))


def standing(system: System) -> System:
    """The system in which joints that stand on more than their two bodies have these fixed bodies,
    which their closure names as `still`, where the system has them."""

    def of_group(group):
        still = getattr(group.closure, "still", ())
        if not still:
            return group
        poses = tuple((system.fixed_position[i], system.fixed_orientation[i]) for i in still)
        own = jax.tree.map(lambda a: jnp.broadcast_to(a, (len(group.numbers), *a.shape)), poses)
        return dataclasses.replace(group, parameters=group.parameters | {"still": own})

    return dataclasses.replace(system, joints=tuple(map(of_group, system.joints)))

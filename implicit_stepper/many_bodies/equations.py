"""Rows of the contacts of one form, or of the joints of one group, and what is left of their
Jacobian when all is eliminated that they own.

The rows are those of `implicit_euler.ncp`. There a program knows which bodies a contact is between;
here that is data, so that other pairs are not another program.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints.conditions import Constraint, Units
from ..constraints.kinematics import Motion
from ..implicit_euler import ncp
from ..runtime.compilation import jit
from ..solvers.elimination import Local, eliminate, signs
from ..solvers.newton import linearized

_FEW, MANY, _MOST = 32, 512, 2048  # contacts that are evaluated at once
_MOST_FEW = 192  # contacts from which on many rows take no longer than several times few
# by which closest points are held that poses leave open: of contacts that push nothing, and on
# bodies with a support function
_HELD = 1e-6
PUSHES = 1e-7  # of an impulse in its unit: contacts that push
# of kappa^2: at most so much on the central path, which holds them itself
_OF_SMOOTHING = 1e-3
# of what forces give way by: the curvature that faces and edges have in the derivative alone
_ROUNDED = 30.0


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Step:
    """A step of h () [s] that ends at `time` () [s]; units of lengths, speeds and gaps (); `kappa`
    (): of a point of the central path, of which the step is the end."""

    length: jax.Array
    speed: jax.Array
    gap: jax.Array
    time: jax.Array
    h: jax.Array
    kappa: jax.Array | None = None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Slots:
    """Contacts of one form, or joints of one group: their data; the numbers `sides` (c, 2) of their
    bodies, and where these are at the start of the step, `starts`, with first axis c; directions
    `references` (c, d) that orient tangents, None of joints; units `impulse` (c,) [N s] and
    `unknowns` (c, width), and of the moving bodies `velocity` and `momentum` (c, acting)."""

    group: Constraint
    sides: np.ndarray
    starts: tuple[Motion, ...]
    references: jax.Array | None
    impulse: jax.Array
    unknowns: jax.Array
    velocity: jax.Array
    momentum: jax.Array

    @property
    def touching(self) -> bool:
        """Whether they are contacts."""
        return self.references is not None

    @property
    def smooth(self) -> bool:
        """Whether they are contacts of smooth bodies."""
        return self.touching and self.group.pair.smooth

    @property
    def closest(self) -> int:
        """How many of the unknowns are those of closest points, which come first."""
        return self.group.pair.unknowns if self.touching else 0

    def moving(self, values) -> np.ndarray:
        """Of values (n, k) of all bodies those of each contact's moving bodies, (c, acting)."""
        return np.concatenate([values[own] for own in self.movers(len(self.sides)).T], axis=1)

    def some(self, numbers) -> Slots:
        """The slots with these numbers."""
        some = jax.tree.map(lambda a: np.asarray(a)[numbers], self)
        group = dataclasses.replace(some.group, bodies=some.group.bodies[:1] * len(numbers))
        return dataclasses.replace(some, group=group)

    def movers(self, count: int) -> np.ndarray:
        """Of the first `count` contacts the numbers (count, sides) of the bodies that move."""
        return self.sides[:count, np.array(self.group.moving)]


def cut(count: int, many: int | None = None) -> list[tuple[int, int, int]]:
    """(start, stop, rows): how `count` contacts are cut, so that programs for two numbers of rows,
    few and `many`, serve any of them; for a third one where that is not given."""
    cuts, start = [], 0
    while start < count:
        left, rows = count - start, _FEW
        if left >= min(_MOST_FEW, many or MANY):
            rows = many or (_MOST if left > _MOST - MANY else MANY)
        cuts.append((start, min(start + rows, count), rows))
        start += rows
    return cuts


def of_sides(values, sides) -> tuple:
    """`values`, arrays of all bodies with a first axis, of body 1 and of body 2 of contacts that
    are between the bodies `sides` (c, 2), or of as many as joints have."""
    return tuple(jax.tree.map(lambda a, own=own: a[own], values) for own in sides.T)


@functools.partial(jit, static_argnums=0)
def evaluated(friction: str, step: Step, slots: Slots, V, z):
    """Rows (c, width) and impulses on moving bodies (c, acting), at their velocities V (c, acting)
    and unknowns z (c, width), all dimensionless."""
    both = _over(friction, step, slots, V, z, lambda function: function)
    return jnp.split(both, [z.shape[1]], axis=1)


@functools.partial(jit, static_argnums=0)
def eliminated(friction: str, step: Step, slots: Slots, V, z, give):
    """These, the elimination of what each contact owns, and the matrices (c, width + acting, width
    + acting) of the rest."""
    both, blocks = _over(friction, step, slots, V, z, linearized)
    links = slots.group.links((), 1.0 if friction == "projection" else -1.0)
    if not slots.touching:
        local, rest = jax.vmap(functools.partial(eliminate, links, give=give))(blocks)
        rest = jax.vmap(functools.partial(_regular, links.free, give))(local, rest)
        return (*jnp.split(both, [z.shape[1]], axis=1), local, rest)
    curved = slots.group.pair.curvatures(blocks.shape[-1])
    pushes = jnp.max(jnp.abs(z[:, links.free : -1]), axis=1) > PUSHES
    if step.kappa is None:
        held, bend = _HELD, _bend(pushes, give)
    else:
        held = jnp.minimum(_HELD, _OF_SMOOTHING * step.kappa**2)
        bend = jnp.broadcast_to(held, pushes.shape)
    blocks = blocks + bend[:, None, None] * curved
    local, rest = jax.vmap(functools.partial(eliminate, links, give=give))(blocks)
    if not np.any(curved):
        rest = jax.vmap(functools.partial(_regular, links.free, held))(local, rest)
    return (*jnp.split(both, [z.shape[1]], axis=1), local, rest)


def yielded(friction: str, slots: Slots, z, by, give: float) -> np.ndarray:
    """What rows (m, width) of contacts z (m, width) give way in `eliminated`, where z changes `by`
    (m, width), sigma apart, which no other row has where friction is a projection."""
    links, width = slots.group.links((), 1.0 if friction == "projection" else -1.0), z.shape[1]
    own = signs(links, width)
    if not slots.touching:
        own[: links.free, : links.free] += slots.group.bilateral * np.eye(links.free)
    elif friction == "projection":
        own[:, -1] = 0.0
    found = by @ (give * own).T
    if not slots.touching or not np.any(curved := slots.group.pair.curvatures(width)):
        return found
    pushes = np.max(np.abs(z[:, links.free : -1]), axis=1) > PUSHES
    return found + np.asarray(_bend(pushes, give))[:, None] * (by @ curved.T)


def _bend(pushes, give):
    """By how much bodies with faces bend, in the derivative alone, in contacts that push (m,) and
    others."""
    return jnp.where(pushes, _ROUNDED * give, jnp.maximum(_ROUNDED * give, _HELD))


def _regular(free: int, by, local: Local, rest):
    """The matrix `rest` of one contact with closest points that it leaves open, as on parallel
    edges, held `by` a little; of one joint with multipliers, which may be redundant."""
    rows, columns = (jnp.where(jnp.arange(len(own)) < free, own, False) for own in (local.rows, local.columns))
    same = jnp.cumsum(rows)[:, None] == jnp.cumsum(columns)
    own = rest[: len(rows), : len(rows)]
    held = jnp.where(rows[:, None] & columns & same, jnp.where(own < 0, -by, by), 0.0)
    return rest.at[: len(rows), : len(rows)].add(held)


def _over(friction: str, step: Step, slots: Slots, V, z, transform):
    def one(block, unit, impulse, momentum, reference, member, starts):
        units = Units(step.length, step.gap, step.speed, impulse)

        def own(block):
            return ncp.rows_and_impulses(
                member, units, momentum, reference, starts, step.time, step.h, friction, block * unit, step.kappa
            )

        return transform(own)(block)

    block = jnp.concatenate([z, V], axis=1)
    unit = jnp.concatenate([slots.unknowns, slots.velocity], axis=1)
    return jax.vmap(one)(block, unit, slots.impulse, slots.momentum, slots.references, slots.group, slots.starts)

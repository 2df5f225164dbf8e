"""Which half of each complementarity holds at the stages, and how far it is from being left."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from ..model.system import ContactGroup
from ..solvers.complementarity import STEP, length_of
from .stages import At, Held, Modes, Point, StageProblem, complementary

_NEVER = 1e9  # a margin that is not left
_SLIGHT = 1e-10  # of g h: a slip that is none


def modes_of(problem: StageProblem, ats: At) -> Modes:
    """The halves that hold in a solution, at every stage; without friction a contact slides.

    Forces of redundant contacts may lie on the edge of the cone although nothing slips: then both halves of friction hold,
    and rounding must not choose between them."""

    def one(member, point):
        (weights, slacks), (p, gap), (force, rate) = complementary(problem, member, point)
        on, speed = member.e > 0, problem.scales.speed
        along = jnp.where(on, point.u.y / point.impulse, 0.0) - STEP * point.w / speed
        radius = member.mu * force
        touching = p > gap
        sticking = touching & (length_of(along) <= radius + _SLIGHT) & (radius > 0)
        return Held(touching, force > rate, sticking, touching & (weights > slacks))

    def stage(at):
        return [jax.vmap(one)(group, point) for group, point in zip(problem.system.groups, at.points, strict=True)]

    each = jax.vmap(stage)(ats)
    return Modes(*(tuple(parts) for parts in zip(*each, strict=True))) if each else Modes((), (), (), ())


def margins(problem: StageProblem, ats: At, modes: Modes):
    """How far (s, n) every half that `modes` name is from being left, dimensionless, >= 0 while it is not: per contact gap
    or force; cone, or slip against friction; the inequalities' multipliers or slacks."""
    return jax.vmap(lambda at: margins_at(problem, at, modes))(ats)


def margins_at(problem: StageProblem, at: At, modes: Modes):
    """`margins` (n,) of one stage."""
    own = functools.partial(contact_margins, problem)
    parts = [
        jax.vmap(own)(group, point, modes.of(g)).reshape(-1)
        for g, (group, point) in enumerate(zip(problem.system.groups, at.points, strict=True))
    ]
    return jnp.concatenate([*parts, jnp.zeros(0)])


def contact_margins(problem: StageProblem, member: ContactGroup, point: Point, held: Held):
    """`margins` of one contact at one stage."""
    (weights, slacks), (_, gap), (force, _) = complementary(problem, member, point)
    y = jnp.where(member.e > 0, point.u.y / point.impulse, 0.0)
    # y is -mu p_n along the slip w, and y - STEP w longer than that by STEP |w|, or shorter where w has come to aid the slip
    slip = length_of(y - STEP * point.w / problem.scales.speed) - member.mu * force
    friction = jnp.where(held.sticking, member.mu * force - length_of(y), slip)
    normal = jnp.where(held.touching, force, gap)
    # without contact or friction there is nothing to slip or stick
    rubs = jnp.where(held.touching & (member.mu > 0), friction, _NEVER)
    own = jnp.where(held.touching, jnp.where(held.active, weights, slacks), _NEVER)
    return jnp.concatenate([normal[None], rubs[None], own])


def switched(modes: Modes, event) -> Modes:
    """`modes` after the half is left that number `event` () of `margins` measures."""
    parts, start = [], 0
    for held in (modes.of(g) for g in range(len(modes.touching))):
        count, width = len(held.touching), 2 + held.active.shape[1]
        left = (event - start == np.arange(count * width)).reshape(count, width)
        touching = held.touching ^ left[:, 0]
        sticking = (held.sticking ^ left[:, 1]) & touching
        parts.append(Held(touching, touching, sticking, held.active ^ left[:, 2:]))
        start += count * width
    return Modes(*(tuple(part) for part in zip(*parts, strict=True))) if parts else modes

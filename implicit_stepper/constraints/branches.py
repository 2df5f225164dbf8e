"""The branches of complementarities at a stage, of all kinds of constraints alike.

What a constraint states becomes rows, branches that hold, and margins, which tell how far these are
from being left:

    pairs     0 <= a _|_ b >= 0    a = 0 or b = 0
    cone      |y| <= bound         w = 0, or |y| = bound along y - STEP w

A pair of an impulse is closed where b = 0: `touching` of positions, `pressed` of their rates.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ..solvers.complementarity import STEP, fischer_burmeister, length_of
from .conditions import Cone, Constraint, Held, Instant, cone_rows, held_rows

NEVER = 1e9  # a margin that is not left
_SLIGHT = 1e-10  # of g h, and of its impulse: a slip and a force that are none


def stage_rows(member: Constraint, at: Instant, point, named: Held, held) -> jax.Array:
    """Rows (width + etas,) of one constraint; where `held` (), complementarities are the equations
    of the branches that are `named`."""
    stated, rows = member.stage_conditions(at, point), []
    if len(stated.rate[0]):
        # where bodies are apart, their closest points may wander over edges
        rows += [
            _pair_rows(stated.inequalities, named.active, held & named.touching),
            _pair_rows(stated.rate, named.pressed, held),
        ]
    if stated.cone is not None:
        rows.append(jnp.where(held, held_rows(stated.cone, named.sticking), cone_rows(stated.cone, at.friction)))
    positions = _pair_rows(stated.position, named.touching, held)
    return jnp.concatenate([stated.equations, *rows, positions, member.eta_equations(at, point, named, held)])


def modes(member: Constraint, at: Instant, point) -> Held:
    """The branches that hold in a solution; what has no friction slides, and what has no pairs
    holds.

    Forces of redundant constraints may lie on the edge of the cone although nothing slips: then
    both branches of friction hold, and rounding must not choose between them."""
    stated = member.stage_conditions(at, point)
    yes, (weights, slacks) = jnp.asarray(True), stated.inequalities
    if not len(stated.rate[0]):
        return Held(yes, yes, yes if stated.cone is None else _sticks(stated.cone), weights > slacks)
    # what touches without force is closed, whatever rounding makes of either
    (force, rate), noise = stated.rate, at.noise / at.units.gap
    pressed = (force > rate - _SLIGHT)[0]
    touching = pressed
    if len(stated.position[0]):
        p, gap = stated.position
        touching = (p > gap - noise - _SLIGHT)[0]
    sticking = jnp.asarray(False) if stated.cone is None else touching & _sticks(stated.cone)
    return Held(touching, pressed, sticking, touching & (weights > slacks))


def margins(member: Constraint, at: Instant, point, named: Held) -> jax.Array:
    """How far (2 + inequalities,) every branch that is `named` is from being left, dimensionless,
    >= 0 while it is not: gap or force; cone, or slip against friction; the inequalities'
    multipliers or slacks."""
    stated = member.stage_conditions(at, point)
    normal = rubs = jnp.asarray(NEVER)
    if len(stated.rate[0]):
        gap = stated.position[1] if len(stated.position[0]) else stated.rate[1]
        normal = jnp.where(named.touching, stated.rate[0], gap)[0]
    if stated.cone is not None:
        cone = stated.cone
        # y is -bound along the slip w, and y - STEP w longer by STEP |w|, or shorter where w has
        # come to aid the slip
        friction = jnp.where(named.sticking, cone.bound - length_of(_on(cone)), _along(cone) - cone.bound)
        # without contact or friction there is nothing to slip or stick
        rubs = jnp.where(named.touching & cone.rough, friction, NEVER)
    weights, slacks = stated.inequalities
    own = jnp.where(named.touching, jnp.where(named.active, weights, slacks), NEVER)
    return jnp.concatenate([jnp.stack([normal, rubs]), own])


def _pair_rows(pair, on, fixed):
    """Rows of 0 <= a _|_ b >= 0; where `fixed`, b = 0 or a = 0, as `on` says."""
    a, b = pair
    return jnp.where(fixed, jnp.where(on, b, a), fischer_burmeister(a, b))


def _on(cone: Cone):
    """y (k,), 0 where there is none."""
    return jnp.where(cone.on, cone.y, 0.0)


def _along(cone: Cone):
    """|y - STEP w| ()."""
    return length_of(_on(cone) - STEP * cone.w)


def _sticks(cone: Cone):
    return (_along(cone) <= cone.bound + _SLIGHT) & (cone.bound > 0)

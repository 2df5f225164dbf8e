"""Velocities after an impact at fixed poses, of all that meets at once or of pair after pair, and
the forces after it.

    at once       M (V+ - V-) = G^T Lambda + sum_c W_c^T P_c,   0 <= P_n _|_ v_n+ + e v_n- >= 0
                  or by Poisson first with e = 0, P_c, and then with 0 <= P_e - e P_c _|_ v_n+ >= 0
    sequential    the same of the one that approaches fastest, alone, until none approaches

beside G V+ + g_t = 0 and the friction law. Of a cradle of three balls with e = 1 the first leaves
one at -1/3 and two at 2/3, the second the first two at rest.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from shapes.shards import varying_like

from ..constraints import impact_rows, joint_rows
from ..constraints.detection import Nearby
from ..constraints.impact_rows import Everything, Shares
from ..constraints.joint_rows import JointRows
from ..constraints.restitution import SLIGHT
from ..model import loads
from ..model.bodies import State
from ..model.system import System
from .impact_problem import impulses

# Of the fastest speed at a contact, and of sqrt(g L), by which bodies that have come to rest are
# measured: all that still moves in these is what solvers left.
_AT_REST = 1e-12
# the same, by which joints may be torn: steps of several stages leave less, those of first order as
# much as accelerations change in one
_TORN = 1e-8
_EQUAL = 1e-9  # speeds of approach that differ by this share of them are equal
_MOST = 10_000  # impacts one after another


class Phase(enum.IntEnum):
    """What is solved for at fixed poses: an impact, or its part in which bodies approach; the part
    in which they part, by Poisson; and a short time under the loads."""

    IMPACT = 0
    EXPANSION = 1
    FORCES = 2


class Poses(NamedTuple):
    """What does not change as bodies meet: `every` thing that can meet, `joints`, `mass` matrices
    (nb, w, w), the `fastest` speed () [m/s] at a contact, what approaches at less than `rest` ()
    [m/s] meets nothing, and the time `h` [s] over which forces are found."""

    system: System
    state: State
    here: Nearby
    every: Everything
    joints: JointRows
    mass: jax.Array
    fastest: jax.Array
    rest: jax.Array
    h: jax.Array


def at_rest(system: System, fastest):
    """The speed () [m/s] up to which rounding and the tolerance of solvers move what rests, where
    the `fastest` () [m/s] at a contact is this."""
    return _AT_REST * jnp.maximum(fastest, jnp.sqrt(system.acceleration * system.length))


def torn(at: Poses, velocity) -> jax.Array:
    """Whether () joints are torn by a `velocity` (nb, w): an impact then closes their rates, though
    nothing meets."""
    if not at.joints.matrix.size:
        return jnp.asarray(False)
    here = dataclasses.replace(at.state, velocity=velocity)
    rates = at.joints.matrix @ velocity.reshape(-1) + joint_rows.targets(at.system, here, at.joints, 0.0)
    return jnp.any(jnp.abs(rates) > _TORN / _AT_REST * at_rest(at.system, at.fastest))


def _solve(at: Poses, carry, phase, acting, laws: Shares):
    """An impact of those that are `acting` (m,) by the `laws`, shares of approach and of impulses,
    or a short time under the loads: as one loop, which is compiled once."""
    system, state, here, every, joints, mass, fastest, rest, h = at
    rows = every.rows
    velocity, before = carry
    impact = phase != Phase.FORCES
    here_now, span = dataclasses.replace(state, velocity=velocity), jnp.where(impact, 0.0, h)
    elastic, pushed = joint_rows.elastic_forces(system, here_now)
    falls = loads.free_velocity(system, here_now, mass, h) + h * joints.alone(pushed)
    free, speed = jnp.where(impact, velocity, falls), jnp.where(impact, fastest, system.acceleration * h)
    springs = jnp.where(impact, 0.0, h * impact_rows.spring_forces(system, here, every, velocity))
    target = joint_rows.targets(system, here_now, joints, span)
    held = free + joints.answer(free, target)[0]
    approach = jnp.where(acting, -rows.scaled(velocity)[:, 0], 0.0)
    shares = Shares(
        jnp.where(phase == Phase.IMPACT, _not_slight(system, laws.speed * jnp.maximum(approach, 0.0)), 0.0),
        jnp.where(phase == Phase.EXPANSION, laws.impulse * before, 0.0),
    )
    reactions = joints.answer(free, target)[1]
    solution, gamma = impulses(system, every, joints, held, springs, speed, acting | ~impact, shares, reactions, impact)
    hits = jnp.any(approach > rest) | jnp.any(shares.impulse > 0) | torn(at, velocity)
    nothing = impact & ~hits
    gamma = jnp.where(nothing, 0.0, gamma)
    alone = free + joints.alone(rows.momenta(gamma, system.body_count))
    answer, multipliers = joints.answer(alone, target)
    after = jnp.where(nothing, velocity, alone + answer)
    multipliers = jnp.where(nothing, 0.0, multipliers * joints.lengths)
    forces = [f if f is None else span * f for f in elastic]
    multipliers = impact_rows.of_joints(system, every, multipliers, forces, gamma)
    rebounds = jnp.where(_not_slight(system, laws.impulse * jnp.max(approach, initial=0.0)) > 0, gamma[:, 0], 0.0)
    carry = jnp.where(impact, after, velocity), rebounds
    return carry, (gamma, multipliers, after, solution.converged | nothing)


def _not_slight(system: System, speed):
    """Speeds of rebounds [m/s], 0 where these are slight."""
    return jnp.where(speed > SLIGHT * jnp.sqrt(system.acceleration * system.length), speed, 0.0)


class Solved(NamedTuple):
    """The `velocity` (nb, w) after an impact, its `gamma` (m, 1 + k) and the `multipliers` of
    joints, and whether it was solved, `converged` (); of the time under the loads from there, the
    same: `after`, `pressing` and `pulls`."""

    velocity: jax.Array
    gamma: jax.Array
    multipliers: list
    converged: jax.Array
    after: jax.Array
    pressing: jax.Array
    pulls: list


def at_once(at: Poses) -> Solved:
    """What approaches meets together."""
    first = varying_like((at.state.velocity, 0.0 * at.every.mu), (at.system, at.state, at.here))
    phases = [Phase.IMPACT, *_expansion(at.system), Phase.FORCES]
    (velocity, _), (gamma, multipliers, after, converged) = lax.scan(
        lambda carry, phase: _solve(at, carry, phase, at.every.touching, at.every.shares), first, np.array(phases)
    )
    summed, last = (
        jax.tree.map(take, (gamma, multipliers)) for take in (lambda a: jnp.sum(a[:-1], axis=0), lambda a: a[-1])
    )
    return Solved(velocity, *summed, jnp.all(converged[:-1]), after[-1], *last)


class _Next(NamedTuple):
    """What is solved for next in a sequence of impacts: a `phase` (), of those that are `acting`
    (m,), which may be the `rest` (), all that approach slightly."""

    phase: jax.Array
    acting: jax.Array
    rest: jax.Array


def _next(at: Poses, velocity, last: _Next) -> _Next:
    """After `last`, which left this `velocity`."""
    system, touching = at.system, at.every.touching
    speed = jnp.where(touching, -at.every.rows.scaled(velocity)[:, 0], 0.0)
    fastest = jnp.max(speed, initial=0.0)
    alone = np.arange(speed.size) == jnp.argmax(speed >= (1 - _EQUAL) * fastest)
    slight = jnp.maximum(SLIGHT * jnp.sqrt(system.acceleration * system.length), at.rest)
    expands = (last.phase == Phase.IMPACT) & ~last.rest & bool(_expansion(system))
    strikes = (fastest > slight) & ~last.rest
    phase = jnp.where(expands, int(Phase.EXPANSION), jnp.where(last.rest, int(Phase.FORCES), int(Phase.IMPACT)))
    acting = jnp.where(expands, last.acting, jnp.where(strikes, alone, touching))
    return _Next(phase, acting, ~expands & ~strikes)


def one_after_another(at: Poses) -> Solved:
    """What approaches fastest meets alone, of equals what was added first, until nothing approaches
    but so slightly that it does not rebound; this meets together."""

    def proceed(carry):
        _, _, _, ended, count = carry
        return ~ended & (count < _MOST)

    def advance(carry):
        solved, expand, now, _, count = carry
        (velocity, expand), (gamma, multipliers, after, converged) = _solve(
            at, (solved.velocity, expand), now.phase, now.acting, at.every.shares
        )
        ended = now.phase == Phase.FORCES
        total = jax.tree.map(
            lambda old, new: jnp.where(ended, old, old + new), (solved.gamma, solved.multipliers), (gamma, multipliers)
        )
        solved = Solved(velocity, *total, solved.converged & (converged | ended), after, gamma, multipliers)
        return solved, expand, _next(at, velocity, now), ended, count + 1

    velocity, every = at.state.velocity, at.every
    gamma = jnp.zeros((len(every.mu), 1 + every.rows.e.shape[1]))
    multipliers = impact_rows.no_impulses(at.system)
    nothing = Solved(velocity, gamma, multipliers, jnp.asarray(True), velocity, gamma, multipliers)
    first = _next(at, velocity, _Next(jnp.asarray(int(Phase.EXPANSION)), every.touching, jnp.asarray(False)))
    carry = nothing, 0.0 * every.mu, first, jnp.asarray(False), jnp.zeros((), int)
    solved, *_, ended, _ = lax.while_loop(proceed, advance, varying_like(carry, (at.system, at.state, at.here)))
    return solved._replace(converged=solved.converged & ended)


def _expansion(system: System) -> list[Phase]:
    """The phase that Poisson's law adds to an impact."""
    return [Phase.EXPANSION] if any(group.of_impulses for group in system.groups) else []

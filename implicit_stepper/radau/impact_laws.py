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
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from shapes.shards import varying_like

from ..constraints import joint_limits, joint_rows, linear_rows
from ..constraints.detection import Nearby
from ..constraints.joint_rows import JointRows
from ..constraints.linear_rows import Rows
from ..constraints.restitution import SLIGHT
from ..model import loads
from ..model.bodies import State
from ..model.system import System, compliant
from ..solvers.cones import Impulses, apgd, coulomb, coulomb_rows
from ..solvers.implicit_function import root, without_noise
from ..solvers.newton import linearized

# Of the fastest speed at a contact, and of sqrt(g L), by which bodies that have come to rest are
# measured: all that still moves in these is what solvers left.
_AT_REST = 1e-12
# the same, by which joints may be torn: steps of several stages leave less, those of first order as
# much as accelerations change in one
_TORN = 1e-8
_FORCE = 1e-10  # impulses in their unit that are none, beside the tolerance of solvers
_TOLERANCE, _START_ITERATIONS = 1e-12, 200
_EQUAL = 1e-9  # speeds of approach that differ by this share of them are equal
_MOST = 10_000  # impacts one after another


class Phase(enum.IntEnum):
    """What is solved for at fixed poses: an impact, or its part in which bodies approach; the part
    in which they part, by Poisson; and a short time under the loads."""

    IMPACT = 0
    EXPANSION = 1
    FORCES = 2


class Everything(NamedTuple):
    """All that can meet in a state, contacts first and then limits of joints, m in all: their
    `rows`, of which those of `contacts`; which of them are `touching` (m,) and can have an impulse;
    which are `soft` (m,); `mu` (m,) and restitutions `shares`."""

    rows: Rows
    contacts: Rows
    touching: jax.Array
    soft: np.ndarray
    mu: jax.Array
    shares: Shares


class Shares(NamedTuple):
    """Of what met: of the `speed` (m,) of approach with which it parts, Newton; of the `impulse`
    (m,) before that is the least of its expansion, Poisson; or these themselves [m/s], [N s]."""

    speed: jax.Array
    impulse: jax.Array


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
    springs = jnp.where(impact, 0.0, h * _spring_forces(system, here, every, velocity))
    target = joint_rows.targets(system, here_now, joints, span)
    held = free + joints.answer(free, target)[0]
    approach = jnp.where(acting, -rows.scaled(velocity)[:, 0], 0.0)
    shares = Shares(
        jnp.where(phase == Phase.IMPACT, _not_slight(system, laws.speed * jnp.maximum(approach, 0.0)), 0.0),
        jnp.where(phase == Phase.EXPANSION, laws.impulse * before, 0.0),
    )
    solution, gamma = _impulses(system, every, joints, held, springs, speed, acting | ~impact, shares)
    hits = jnp.any(approach > rest) | jnp.any(shares.impulse > 0) | torn(at, velocity)
    nothing = impact & ~hits
    gamma = jnp.where(nothing, 0.0, gamma)
    alone = free + joints.alone(rows.momenta(gamma, system.body_count))
    answer, multipliers = joints.answer(alone, target)
    after = jnp.where(nothing, velocity, alone + answer)
    multipliers = jnp.where(nothing, 0.0, multipliers * joints.lengths)
    forces = [f if f is None else span * f for f in elastic]
    forces = joint_limits.with_limits(system, forces, gamma[system.contact_count :, 0])
    multipliers = joint_rows.by_group(system, multipliers, forces)
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
    multipliers = [jnp.zeros((len(group.numbers), group.closures)) for group in at.system.joints]
    nothing = Solved(velocity, gamma, multipliers, jnp.asarray(True), velocity, gamma, multipliers)
    first = _next(at, velocity, _Next(jnp.asarray(int(Phase.EXPANSION)), every.touching, jnp.asarray(False)))
    carry = nothing, 0.0 * every.mu, first, jnp.asarray(False), jnp.zeros((), int)
    solved, *_, ended, _ = lax.while_loop(proceed, advance, varying_like(carry, (at.system, at.state, at.here)))
    return solved._replace(converged=solved.converged & ended)


def _expansion(system: System) -> list[Phase]:
    """The phase that Poisson's law adds to an impact."""
    return [Phase.EXPANSION] if any(group.of_impulses for group in system.groups) else []


def _spring_forces(system: System, here: Nearby, every: Everything, velocity):
    """Normal forces (m,) [N] of compliant contacts, S (2); zero of rigid ones and of limits."""
    soft = compliant(system)
    c, tau = (linear_rows.of_contacts(system, name) for name in ("compliance", "dissipation_time"))
    normal, _ = every.contacts.velocities(velocity)
    forces = jnp.where(soft, jnp.maximum(-(here.geometry.psi + tau * normal), 0.0) / jnp.where(soft, c, 1.0), 0.0)
    return jnp.pad(forces, (0, len(every.soft) - len(soft)))


def _impulses(
    system: System, every: Everything, joints: JointRows, velocity, springs, speed, acting, shares: Shares
) -> tuple[Impulses, jax.Array]:
    """The NCP of those that are `acting` (m,), in units of `speed` [m/s], from the `velocity`
    without contact, and gamma (m, 1 + k) [N s]. The normal impulses `springs` (m,) [N s] of
    compliant contacts are known; where bodies press by more than their shares of impulses, they
    part with their shares of speeds."""
    rows, mu = every.rows, every.mu
    if not rows.bodies:
        nothing = jnp.zeros((0, 1 + rows.e.shape[1]))
        return Impulses(nothing, jnp.zeros(()), jnp.zeros((), int), jnp.asarray(True)), nothing
    unit = jnp.min(jnp.asarray(system.mass)) * speed
    acts, normal = (acting & (every.touching | (springs > 0)))[:, None], np.arange(rows.on_1.shape[1]) == 0
    given = normal & every.soft[:, None]
    # contacts that do not act take no part, however fast their points slide: alone, they separate;
    # and friction along a semi-axis of length 0 is 0, which its row must say to have a derivative
    asked = acts & ~given & (normal | (jnp.pad(rows.e, ((0, 0), (1, 0))) > 0))

    known = jnp.where(given & acts, springs[:, None], 0.0)
    problem = _Problem(rows, joints, asked, unit, speed, jnp.zeros_like(known), mu, shares.impulse / unit)
    moves = rows.scaled(velocity) / speed + problem.answer(known) - shares.speed[:, None] * normal / speed
    r = jnp.where(asked, moves, jnp.where(acts, -known / unit, 1.0 * normal))
    problem = problem._replace(r=r)
    solution = _solution(lax.stop_gradient(problem))
    gamma = root(_residual, _linearize, problem, solution.gamma.reshape(-1)).reshape(r.shape)
    return solution, gamma * unit


class _Problem(NamedTuple):
    """What `cones.coulomb` asks for: of those that are `asked` (m, 1 + k) about, with impulses in
    `unit` () [N s] and speeds in `speed` () [m/s]; `r` (m, 1 + k), `mu` (m,) and `least` (m,) as
    there."""

    rows: Rows
    joints: JointRows
    asked: jax.Array
    unit: jax.Array
    speed: jax.Array
    r: jax.Array
    mu: jax.Array
    least: jax.Array

    def answer(self, impulses):
        """What `impulses` (m, 1 + k) [N s] change velocities at contacts by."""
        momenta = self.rows.momenta(impulses, len(self.joints.inverse))
        return self.rows.scaled(self.joints.response(momenta)) / self.speed

    def product(self, gamma):
        """N gamma."""
        return jnp.where(self.asked, self.answer(jnp.where(self.asked, gamma, 0.0) * self.unit), gamma)


def _solution(problem: _Problem) -> Impulses:
    r, mu = problem.r, problem.mu
    start = apgd(problem.product, r, mu, jnp.zeros_like(r), _TOLERANCE, _START_ITERATIONS)
    return coulomb(problem.product, r, mu, start, _TOLERANCE, least=problem.least)


def _residual(problem: _Problem, z):
    gamma = z.reshape(problem.r.shape)
    noise = jnp.broadcast_to(gamma[:, :1] <= _FORCE, gamma.shape)
    z = without_noise(z, noise.reshape(-1))
    return coulomb_rows(problem.product, problem.r, problem.mu, problem.least, z)


def _linearize(problem: _Problem, z):
    return linearized(functools.partial(_residual, problem))(z)

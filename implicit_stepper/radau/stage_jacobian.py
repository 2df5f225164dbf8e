"""The derivative of the NCP of several stages, from one small block per constraint, without its
closest points.

At a stage, bodies are functions of their rates U_i, of the changes D_i and of the shifts of their
momenta; constraints are functions of their own unknowns and of the poses and velocities of two
bodies. Each is differentiated alone. What the closest-point rows of smooth bodies say, da = -K^-1
k_D dD, is put in where their points stand. Stages depend on each other only through the changes D_i
and through what pushes the bodies, both linear.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shapes.shards import varying_like
from shapes.small_algebra import product

from ..constraints import incidence, kinematics
from ..constraints.conditions import Constraint, Held
from ..constraints.kinematics import Motion
from ..model.system import System, body_numbers
from ..solvers.collocation import radau
from ..solvers.linear import apart, small_inverse
from ..solvers.static_condensation import Condensed, Local
from . import stage_unknowns, stages
from .stages import At, Modes, Stage, StageProblem

# Least curvature that closest-point rows are given here, over the scene's length: where two
# surfaces are flat, poses say nothing about closest points, but balances do.
_CURVATURE = 1e-10
# By which contacts give way here to what they transmit, dimensionless: where that is not unique,
# steps leave it as it is.
_GIVE = 1e-8


class Derivatives(NamedTuple):
    """Of F by z, `system`; of the rows of the rest by h, `by_h`, and how closest points `follow_h`
    [1/s]; of the last stage's `margins` (m, rest), `margins_local` (m, a) and `margins_by_h`
    (m,)."""

    system: Condensed
    by_h: jax.Array
    follow_h: jax.Array
    margins: jax.Array
    margins_local: jax.Array
    margins_by_h: jax.Array


class _Stage(NamedTuple):
    """One stage: its rows of the rest, margins and pushes, dimensionless, by all `_columns` but V;
    per group K^-1 (nc, na, na); K^-1 k_D (a, b) of all closest points."""

    rows: jax.Array
    margins: jax.Array
    pushes: jax.Array
    inverses: tuple[jax.Array, ...]
    follow: jax.Array


class _Bodies(NamedTuple):
    """Derivatives of what moves, first axis the w components of every body at once: of poses by D;
    of M T by U and by D; of V by D, with the momenta as they are, and by the momenta."""

    pose: Motion
    momenta_by_rates: jax.Array
    momenta: jax.Array
    velocity: jax.Array
    velocity_by_momenta: jax.Array


def derivatives(problem: StageProblem, z, modes: Modes, held) -> Derivatives:
    """At z (s n,), see `stage_unknowns`."""
    s, A, b = problem.stages, radau(problem.stages).A, problem.momentum.size
    whole = stages.split_stages(problem, z)
    each = jax.vmap(functools.partial(_at_stage, problem, modes, held))(whole, radau(problem.stages).seen)
    local = each.follow.shape[1]
    sizes = np.cumsum([z.size // s - local, local, b])
    # dD_i / dU_j, of dimensionless rates
    turn = problem.h * A[:, :, None] * problem.scales.velocity.reshape(-1)
    growth = (whole.change / problem.h).reshape(s, b)  # dD_i / dh

    def of_all(matrix):
        """By the rest (s, k, s, own) and the closest points (s, k, s, local) of all stages, and by
        h (s, k)."""
        own, closest, change, h = jnp.split(matrix, sizes, axis=-1)
        by_own, by_closest = (jnp.einsum("ikn,ij->ikjn", by, np.eye(s)) for by in (own, closest))
        turned = jnp.einsum("ikb,ijb->ikjb", change, turn)
        by_own = by_own + jnp.pad(turned, ((0, 0),) * 3 + ((0, by_own.shape[-1] - b),))
        return by_own, by_closest, h[..., 0] + jnp.einsum("ikb,ib->ik", change, growth)

    margins = [by[-1] for by in of_all(each.margins)]
    rest, closest, by_h = (
        of_rows.at[:, :b].add(-jnp.einsum("il,lk...->ik...", A, of_pushes))
        for of_rows, of_pushes in zip(of_all(each.rows), of_all(each.pushes), strict=True)
    )
    follow = jnp.zeros((s, local, *rest.shape[2:])).at[..., :b].set(jnp.einsum("iab,ijb->iajb", each.follow, turn))
    n, total, edges = by_h.size, s * local, len(margins[2])
    return Derivatives(
        Condensed(rest.reshape(n, n), Local(each.inverses, follow.reshape(total, n), closest.reshape(n, total))),
        by_h.reshape(-1),
        jnp.einsum("iab,ib->ia", each.follow, growth).reshape(-1),
        margins[0].reshape(edges, n),
        margins[1].reshape(edges, total),
        margins[2],
    )


def with_h(found: Derivatives, h, event) -> Condensed:
    """With one more unknown, h in units of `h`, and one more row: the margin of number `event`, or
    that unknown if it is -1."""
    rest, local = found.system.rest, found.system.local
    edge, edge_local = (
        jnp.concatenate([by, jnp.zeros((1, by.shape[1]))])[event][None] for by in (found.margins, found.margins_local)
    )
    corner = jnp.append(found.margins_by_h * h, 1.0)[event]
    column, follow = found.by_h[:, None] * h, found.follow_h[:, None] * h
    return Condensed(
        jnp.block([[rest, column], [edge, corner[None, None]]]),
        Local(local.inverses, jnp.concatenate([local.follow, follow], axis=1), jnp.concatenate([local.lead, edge_local])),
    )


def _columns(system: System) -> list[int]:
    """How many of what a stage is differentiated by: U; per group, the rest of its constraints'
    unknowns; per group, their closest points; D; h; and V. Unknowns are dimensionless."""
    b = int(np.prod(stage_unknowns.rates_shape(system)))
    local = [len(g.bodies) * g.determined for g in system.constraints]
    rest = [len(g.bodies) * stage_unknowns.width(g) - n for g, n in zip(system.constraints, local, strict=True)]
    return [b, *rest, *local, b, 1, b]


def _at_stage(problem: StageProblem, modes: Modes, held, stage: Stage, fraction) -> _Stage:
    """Everything of one stage."""
    system, b, count = problem.system, problem.momentum.size, sum(_columns(problem.system))
    at = stages.at_stage(problem, stage)
    moved = _bodies(problem, stage, at)
    rows, margins, inverses, follow = [], [], [], [jnp.zeros((0, b))]
    shifts, pushes = jnp.zeros((b, count)), _loads(problem, stage, at, moved, fraction)
    for g, group in enumerate(system.constraints):
        found, inverse, by_change = _constraints(problem, held, g, (stage, fraction), at, moved, modes.of(g))
        share, na = incidence.shares(system, group), group.determined
        stays, acts = stage_unknowns.width(group), at.momenta.shape[1] * share.shape[1]
        ends = [na, stays, found.shape[2] - 2 * acts, found.shape[2] - acts]
        _, own, edges, shift, push = jnp.split(_by_columns(system, g, found), ends, axis=1)
        shift, push = (
            jnp.einsum("csb,cswk->bwk", share, on.reshape(*share.shape[:2], -1, count)).reshape(b, count)
            for on in (shift, push)
        )
        shifts, pushes = shifts + shift, pushes + push
        rows.append(own.reshape(-1, count))
        margins.append(edges.reshape(-1, count))
        inverses.append(inverse)
        follow.append(incidence.by_body(share, by_change.swapaxes(1, 2)).reshape(-1, b))
    none, units = jnp.zeros((b, count - 3 * b - 1)), problem.scales
    by_rates, by_change = _diagonal(moved.momenta_by_rates) * units.velocity.reshape(-1), _diagonal(moved.momenta)
    momenta = jnp.concatenate([by_rates, none, by_change, jnp.zeros((b, 1))], axis=1) - shifts[:, :-b]
    velocity = _diagonal(moved.velocity_by_momenta) @ momenta
    velocity = velocity + jnp.pad(_diagonal(moved.velocity), ((0, 0), (velocity.shape[1] - b - 1, 1)))
    whole = jnp.concatenate([*rows, *margins, pushes])
    whole = whole[:, :-b] + whole[:, -b:] @ velocity
    own, edges, pushed = jnp.split(whole, np.cumsum([sum(map(len, rows)), sum(map(len, margins))]))
    unit = units.momentum.reshape(-1, 1)
    return _Stage(jnp.concatenate([momenta / unit, own]), edges, pushed / unit, tuple(inverses), jnp.concatenate(follow))


def _bodies(problem: StageProblem, stage: Stage, at: At) -> _Bodies:
    """Bodies depend on themselves alone: one component of all of them is differentiated by at
    once."""

    def moved(rates, change, momenta):
        there = stages.motion(problem, rates, change)
        velocity = stages.velocities(problem, there.orientation, momenta)
        return Motion(there.position, there.orientation, velocity), stages.momenta_of(problem.system, there)

    w = at.momenta.shape[1]
    lanes = jnp.broadcast_to(np.eye(3 * w).reshape(3 * w, 1, 3, w), (3 * w, len(at.momenta), 3, w))
    inputs = stage.rates, stage.change, at.momenta
    lanes = varying_like(lanes, inputs)
    motion, momenta = jax.vmap(lambda lane: jax.jvp(moved, inputs, tuple(jnp.moveaxis(lane, 1, 0)))[1])(lanes)
    pose = jax.tree.map(lambda a: a[w : 2 * w], motion)
    return _Bodies(pose, momenta[:w], momenta[w : 2 * w], pose.velocity, motion.velocity[2 * w :])


def _loads(problem: StageProblem, stage: Stage, at: At, moved: _Bodies, fraction):
    """Derivatives (b, columns) of what loads give the bodies in h."""
    (nb, w), b = at.momenta.shape, at.momenta.size

    def pushed(h, motion):
        return h * stages.loads(problem, problem.state.time + h * fraction, motion)

    one = np.eye(2 * w + 1)
    velocity = np.broadcast_to(one[:, None, w + 1 :], (len(one), nb, w))
    tangents = one[:, w], Motion(*_lanes(len(one), 0, (moved.pose.position, moved.pose.orientation)), velocity)
    found = jax.vmap(lambda *t: jax.jvp(pushed, (problem.h, at.motion), t)[1])(*varying_like(tangents, at))
    by_change, by_h, by_velocity = jnp.split(found, [w, w + 1])
    none = jnp.zeros((b, sum(_columns(problem.system)[:-3])))
    return jnp.concatenate([none, _diagonal(by_change), by_h.reshape(b, 1), _diagonal(by_velocity)], axis=1)


def _constraints(problem: StageProblem, held, g: int, of_stage: tuple, at: At, moved: _Bodies, named: Held):
    """Of a group: derivatives (n, lanes, outputs), see `_lane_counts` and `_outputs`, with the
    closest points put in; K^-1 (n, na, na); K^-1 k_D (n, sides w, na)."""
    system, group, (stage, fraction) = problem.system, problem.system.constraints[g], of_stage
    numbers = [body_numbers(group)[:, i] for i, moves in enumerate(group.moving) if moves]
    # (n, w, ...)
    poses = [jax.tree.map(lambda a, n=n: a[:, n].swapaxes(0, 1), moved.pose) for n in numbers]
    motions = kinematics.motions_of(system, at.motion, group)
    counts, na = _lane_counts(group, at.momenta.shape[1]), group.determined
    one = np.eye(sum(counts))
    of_rest, of_local, of_change, of_h, of_velocity = np.split(one, np.cumsum(counts)[:-1], axis=1)
    units = group.with_etas(problem.scales.unknowns[g])

    def single(member, unknowns, unit, reference, impulse, named, motions, poses):
        def instant(h):
            return stages.instant(dataclasses.replace(problem, h=h), impulse, problem.state.time + h * fraction)

        def outputs(unknowns, h, moving):
            here, parts = instant(h), iter(moving)
            both = [next(parts) if moves else motion for motion, moves in zip(motions, group.moving, strict=True)]
            placed, shifts = member.place(here, unknowns, reference, *both)
            point = member.point(here, placed, *both)
            rows, pushes = member.stage_rows(here, point, named, held), member.pushes(point)
            acting = [w for wrenches in (shifts, pushes) for w, moves in zip(wrenches, group.moving, strict=True) if moves]
            return jnp.concatenate([rows, member.margins(here, point, named), *acting])

        moving = [motion for motion, moves in zip(motions, group.moving, strict=True) if moves]
        sides = len(moving)
        velocities = np.split(of_velocity, sides, axis=1)
        starts = counts[0] + na + np.arange(sides) * (counts[2] // sides)
        tangents = [
            Motion(*_lanes(len(one), start, (pose.position, pose.orientation)), velocity)
            for start, pose, velocity in zip(starts, poses, velocities, strict=True)
        ]
        lanes = varying_like((np.concatenate([of_local, of_rest], axis=1) * unit, of_h[:, 0], tangents), unknowns)
        found = jax.vmap(lambda *t: jax.jvp(outputs, (unknowns, problem.h, moving), t)[1])(*lanes)
        given = _GIVE * member.give(instant(problem.h), held)
        given = given[:, na:].T
        found = found + jnp.pad(given, [(0, whole - own) for whole, own in zip(found.shape, given.shape, strict=True)])
        if na == 0:
            return found, jnp.zeros((0, 0)), jnp.zeros((counts[2], 0))
        flat = _CURVATURE * member.flat(instant(problem.h), unknowns, reference, *motions)
        rest, by_local, by_change, *others = jnp.split(found, np.cumsum(counts)[:-1])
        inverse = small_inverse(by_local[:, :na].T + flat)
        follow = product(by_change[:, :na], inverse.T)
        return jnp.concatenate([rest, by_local, by_change - product(follow, by_local), *others]), inverse, follow

    return jax.vmap(single)(
        group, stage.constraints[g], units, stages.reference_of(problem, g), problem.scales.impulse[g], named, motions, poses
    )


def _by_columns(system: System, g: int, found):
    """(n, outputs, columns) of (n, lanes, outputs): constraints depend on their own unknowns and
    bodies alone."""
    group, (_, w) = system.constraints[g], stage_unknowns.rates_shape(system)
    share, shape = incidence.shares(system, group), (len(group.bodies), found.shape[2])
    rest, local, change, h, velocity = jnp.split(found.swapaxes(1, 2), np.cumsum(_lane_counts(group, w))[:-1], axis=2)
    zeros = [jnp.zeros((*shape, count)) for count in _columns(system)]
    columns, groups = zeros, len(system.constraints)
    for place, own in ((1 + g, rest), (1 + groups + g, local)):
        columns[place] = apart(own)
    columns[-3], columns[-2], columns[-1] = incidence.by_body(share, change), h, incidence.by_body(share, velocity)
    return jnp.concatenate(columns, axis=2)


def _lane_counts(group: Constraint, w: int) -> list[int]:
    """How many of what a constraint is differentiated by: the rest of its unknowns, its closest
    points; changes of its moving bodies; h; and their velocities."""
    local, acting = group.determined, w * sum(group.moving)
    return [stage_unknowns.width(group) - local, local, acting, 1, acting]


def _lanes(count: int, start: int, arrays) -> list:
    """`arrays` (w, ...) as lanes `start` to `start` + w of `count`, others zero."""
    return [jnp.pad(a, ((start, count - start - len(a)), *(((0, 0),) * (a.ndim - 1)))) for a in arrays]


def _diagonal(each):
    """The matrix (nb k, nb w) of bodies that depend on themselves alone, from (w, nb, k)."""
    w, nb, k = each.shape
    return apart(each.transpose(1, 2, 0)).reshape(nb * k, nb * w)

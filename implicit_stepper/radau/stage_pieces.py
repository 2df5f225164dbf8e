"""The derivative of the NCP of several stages in pieces: a small block for every body and for every
constraint, without its closest points.

At a stage, bodies are functions of their rates U_i, of the changes D_i and of the shifts of their
momenta; constraints are functions of their own unknowns and of the poses and velocities of two
bodies. Each is differentiated alone. What the closest-point rows of smooth bodies say, da = -K^-1
k_D dD, is put in where their points stand.
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

from ..constraints import branches, kinematics
from ..constraints.conditions import Constraint, Held
from ..constraints.kinematics import Motion, told
from ..model import loads
from ..model.bodies import State
from ..model.system import body_numbers
from ..solvers.collocation import radau
from ..solvers.linear import small_inverse
from . import stage_unknowns, stages
from .stages import At, Modes, Stage, StageProblem

# Least curvature that closest-point rows are given here, over the scene's length: where two
# surfaces are flat, poses say nothing about closest points, but balances do.
_CURVATURE = 1e-10

# By which contacts give way here to what they transmit, dimensionless: where that is not unique,
# steps leave it as it is.
_GIVE = 1e-8


class Bodies(NamedTuple):
    """Derivatives of what moves, first axis the w components of every body at once: of poses by D;
    of M T by U and by D; of V by D, with the momenta as they are, and by the momenta."""

    pose: Motion
    momenta_by_rates: jax.Array
    momenta: jax.Array
    velocity: jax.Array
    velocity_by_momenta: jax.Array


class Loads(NamedTuple):
    """Derivatives of what loads give the bodies in h, first axis as in `Bodies`: by D, by V (w, nb,
    w), and by h (nb, w)."""

    change: jax.Array
    velocity: jax.Array
    h: jax.Array


class Pieces(NamedTuple):
    """One stage, piece by piece: its `bodies` and `loads`; per group, what `found` (n, lanes,
    outputs) says of each constraint, with the closest points put in, see `lane_counts` and
    `ends_of`; K^-1 (n, na, na) and K^-1 k_D (n, sides w, na) of these."""

    bodies: Bodies
    loads: Loads
    found: tuple[jax.Array, ...]
    inverses: tuple[jax.Array, ...]
    follow: tuple[jax.Array, ...]


def pieces(problem: StageProblem, z, modes: Modes, held) -> tuple[Stage, Pieces]:
    """The stages of z (s n,), see `stage_unknowns`, and their pieces, an axis (s,) in front."""
    whole = stages.split_stages(problem, z)
    return whole, jax.vmap(functools.partial(_pieces, problem, modes, held))(whole, radau(problem.stages).c)


def _pieces(problem: StageProblem, modes: Modes, held, stage: Stage, fraction) -> Pieces:
    """Those of one stage."""
    at = stages.at_stage(problem, stage)
    moved = _bodies(problem, stage, at)
    each = [
        _constraints(problem, held, g, (stage, fraction), at, moved, modes.of(g))
        for g in range(len(problem.system.constraints))
    ]
    found, inverses, follow = zip(*each, strict=True) if each else ((), (), ())
    return Pieces(moved, _loads(problem, (stage, fraction), at, moved), found, inverses, follow)


def _bodies(problem: StageProblem, stage: Stage, at: At) -> Bodies:
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
    return Bodies(pose, momenta[:w], momenta[w : 2 * w], pose.velocity, motion.velocity[2 * w :])


def _time(problem: StageProblem, of_stage: tuple, h):
    """The time () [s] of a stage at a fraction of the step, as a function of its length h [s]."""
    stage, fraction = of_stage
    return stage.time + (h - problem.h) * fraction


def _loads(problem: StageProblem, of_stage: tuple, at: At, moved: Bodies) -> Loads:
    nb, w = at.momenta.shape

    def pushed(h, motion):
        return h * loads.forces(problem.system, State(_time(problem, of_stage, h), *told(motion)))

    one = np.eye(2 * w + 1)
    velocity = np.broadcast_to(one[:, None, w + 1 :], (len(one), nb, w))
    tangents = one[:, w], Motion(*_lanes(len(one), 0, (moved.pose.position, moved.pose.orientation)), velocity)
    found = jax.vmap(lambda *t: jax.jvp(pushed, (problem.h, at.motion), t)[1])(*varying_like(tangents, at))
    by_change, by_h, by_velocity = jnp.split(found, [w, w + 1])
    return Loads(by_change, by_velocity, by_h[0])


def _constraints(problem: StageProblem, held, g: int, of_stage: tuple, at: At, moved: Bodies, named: Held):
    """Of a group: derivatives (n, lanes, outputs), see `lane_counts` and `ends_of`, with the
    closest points put in; K^-1 (n, na, na); K^-1 k_D (n, sides w, na)."""
    system, group, (stage, _) = problem.system, problem.system.constraints[g], of_stage
    numbers = [body_numbers(group)[:, i] for i, moves in enumerate(group.moving) if moves]
    # (n, w, ...)
    poses = [jax.tree.map(lambda a, n=n: a[:, n].swapaxes(0, 1), moved.pose) for n in numbers]
    motions = kinematics.motions_of(system, at.motion, group)
    counts, na = lane_counts(group, at.momenta.shape[1]), group.determined
    one = np.eye(sum(counts))
    of_rest, of_local, of_change, of_h, of_velocity = np.split(one, np.cumsum(counts)[:-1], axis=1)
    units = group.with_etas(problem.scales.unknowns[g])

    def single(member, unknowns, unit, reference, impulse, named, motions, poses):
        def instant(h):
            return stages.instant(dataclasses.replace(problem, h=h), impulse, _time(problem, of_stage, h))

        def outputs(unknowns, h, moving):
            here, parts = instant(h), iter(moving)
            both = [next(parts) if moves else motion for motion, moves in zip(motions, group.moving, strict=True)]
            placed, shifts = member.place(here, unknowns, reference, *both)
            point = member.point(here, placed, *both)
            rows, pushes = branches.stage_rows(member, here, point, named, held), member.pushes(point)
            acting = [w for wrenches in (shifts, pushes) for w, moves in zip(wrenches, group.moving, strict=True) if moves]
            return jnp.concatenate([rows, branches.margins(member, here, point, named), *acting])

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


def lane_counts(group: Constraint, w: int) -> list[int]:
    """How many of what a constraint is differentiated by: the rest of its unknowns, its closest
    points; changes of its moving bodies; h; and their velocities."""
    local, acting = group.determined, w * sum(group.moving)
    return [stage_unknowns.width(group) - local, local, acting, 1, acting]


def ends_of(group: Constraint, w: int, outputs: int) -> list[int]:
    """Where the rows of closest points of a constraint end among its `outputs`, its other rows, its
    margins, and its shifts of momenta; pushes follow."""
    acts = w * sum(group.moving)
    return [group.determined, stage_unknowns.width(group), outputs - 2 * acts, outputs - acts]


def _lanes(count: int, start: int, arrays) -> list:
    """`arrays` (w, ...) as lanes `start` to `start` + w of `count`, others zero."""
    return [jnp.pad(a, ((start, count - start - len(a)), *(((0, 0),) * (a.ndim - 1)))) for a in arrays]

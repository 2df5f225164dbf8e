"""Contacts of bodies with faces and edges that stay apart in a step: they push nothing, so that the
step is solved without them, and their closest points are found after it, at the poses of its
stages.

Where edges or faces are nearly parallel these jump from corner to corner, and no Newton's method
that moves bodies too follows them.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..collision.local_search import ROUND_OFF, closest_points_along_faces, closest_points_near
from ..constraints import contact, kinematics
from ..constraints.kinematics import Motion
from ..model.system import System
from ..solvers.complementarity import length_of
from ..solvers.static_condensation import Condensed
from . import stage_unknowns, stages
from .stages import Modes, Stage, StageProblem

# Of closest points, in the scene's length and in radians, on top of what rounding leaves: a tenth
# of what certificates allow, and of smooth bodies what steps usually ask for.
_TOLERANCE, _OF_SMOOTH = 1e-11, 1e-12


def sharp(system: System) -> bool:
    """Whether any contact is one of bodies with faces or edges."""
    return any(not group.pair.smooth for group in system.groups)


def held_apart(system: System, modes: Modes, held, event) -> tuple[jax.Array, ...]:
    """Which contacts (nc,) of every group these are, None for groups of smooth bodies, in a step
    whose `modes` are equations, if they are `held` (); not the one whose margin of number `event`
    () the step ends on."""
    found, start = [], 0
    for group, touching, active in zip(system.groups, modes.touching, modes.active, strict=False):
        count, width = len(touching), 2 + active.shape[1]
        meets = (event - start) // width == np.arange(count)
        found.append(None if group.pair.smooth else held & ~touching & ~meets)
        start += count * width
    return tuple(found)


def unknowns_of(problem: StageProblem, which) -> tuple[jax.Array, jax.Array]:
    """Which unknowns (s n,) are those of the contacts `which` (nc,) of every group, and which of
    these are no closest points."""
    system, s = problem.system, problem.stages
    rates = jnp.zeros((s, *stage_unknowns.rates_shape(system)), bool)

    def joined(first):
        columns = []
        for g, group in enumerate(system.constraints):
            left = which[g] if g < len(which) else None
            own = jnp.zeros(len(group.bodies), bool) if left is None else left
            numbers = np.arange(stage_unknowns.width(group)) >= (group.pair.unknowns if first and g < len(which) else 0)
            columns.append(jnp.broadcast_to(own[:, None] & numbers, (s, len(own), len(numbers))))
        return stage_unknowns.join(system, rates, columns)

    return joined(False), joined(True)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Aside:
    """Unknowns (s n + 1,) of contacts that push nothing, their `own`, each with a row of its own:
    it has this one of `values` (s n + 1,)."""

    own: jax.Array
    values: jax.Array

    def rows(self, F, z):
        """F (s n + 1,) at z with these rows."""
        return jnp.where(self.own, z - self.values, F)

    def system(self, system: Condensed) -> Condensed:
        """The derivative of F with them."""
        mask, one = self.own[-len(system.rest) :], jnp.eye(len(system.rest))
        lead = jnp.where(mask[:, None], 0.0, system.local.lead)
        local = dataclasses.replace(system.local, lead=lead)
        return Condensed(jnp.where(mask[:, None], one, system.rest), local)


def left_out(problem: StageProblem, which, starts) -> tuple[Aside | None, jax.Array]:
    """The contacts `which` (nc,) of every group, which push nothing and keep the closest points of
    the first of `starts` (k, s n + 1), and these starts without them. None where all are solved
    with."""
    if not sharp(problem.system):
        return None, starts
    own, pushes = (jnp.append(mask, False) for mask in unknowns_of(problem, which))
    aside = Aside(own, jnp.where(pushes, 0.0, starts[0]))
    return aside, jnp.where(own, aside.values, starts)


def completed(problem: StageProblem, which, at: Motion, own: Stage) -> tuple[Stage, jax.Array]:
    """The stages `own` of what was solved without the contacts `which`, where bodies are `at` with
    an axis (s,) in front, with the closest points of these; and whether they were found ()."""
    columns, found = with_closest_points(problem, at, own.constraints, which)
    return own._replace(constraints=columns), found


def jumped(problem: StageProblem, ahead: Stage, modes: Modes, held):
    """The constraints of the stages `ahead` with closest points of their own for contacts that do
    not touch in `modes`, where these are no equations: those that are `held` need none."""
    groups = problem.system.groups
    parted = tuple(None if g.pair.smooth else ~on for on, g in zip(modes.touching, groups, strict=False))

    def found():
        at = jax.vmap(functools.partial(stages.motion, problem))(ahead.rates, ahead.change)
        return with_closest_points(problem, at, ahead.constraints, parted)[0]

    return lax.cond(held, lambda: tuple(ahead.constraints), found)


@jax.jit  # so that it is traced once for the start and the end
def with_closest_points(problem: StageProblem, at: Motion, constraints, which):
    """The `constraints` of stages where bodies are `at`, each with an axis (s,) in front, with the
    closest points there and their slips for the contacts `which` (nc,) of every group; and whether
    all were found ()."""
    system, length = problem.system, problem.scales.length

    def at_stage(moving: Motion, constraints):
        columns, good = list(constraints), jnp.asarray(True)
        farthest = jnp.max(jnp.abs(jnp.concatenate([moving.position, system.fixed_position])))
        rounding = ROUND_OFF * (1 + farthest / length)
        for g, (group, chosen) in enumerate(zip(system.groups, which, strict=True)):
            n, d = group.pair.unknowns, group.pair.dimension

            allowed = rounding + (_OF_SMOOTH if group.pair.smooth else _TOLERANCE)

            def one(member, own, chosen, reference, *motions, n=n, d=d, allowed=allowed):
                placed, start = kinematics.placed(member, *motions), own[:n]
                if member.pair.smooth:
                    start = member.pair.general.start(own[:d], own[d:n], *placed)
                search = closest_points_near if member.pair.smooth else closest_points_along_faces
                z, found = search(member.pair.general, start, *placed, length, allowed)
                frame = contact.geometry_rows(member, z[:n], reference, length, *motions).geometry
                sigma = length_of(contact.scaled_slip(member, frame, *motions))
                moved = jnp.concatenate([z[:n], own[n : member.width - 1], sigma[None], own[member.width :]])
                return jnp.where(chosen & found, moved, own), found | ~chosen

            if chosen is not None:
                motions = kinematics.motions_of(system, moving, group)
                columns[g], found = jax.vmap(one)(group, columns[g], chosen, problem.references[g], *motions)
                good = good & jnp.all(found)
        return tuple(columns), good

    columns, good = jax.vmap(at_stage)(at, constraints)
    return columns, jnp.all(good)

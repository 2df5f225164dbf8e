"""What a step of several stages leaves for the next one, and its polynomials continued."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from ..constraints import joint_rows
from ..constraints.conditions import Constraint
from ..model.bodies import State
from ..solvers.collocation import radau
from . import impact
from .stages import StageProblem


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Memory:
    """Warm start: `rates` (s, nb, 6 or 3) and, per group, `constraints` (s, n, width + etas), the
    last stages' unknowns with forces [N] in place of impulses; `h` [s] of that step; `references`,
    per group (nc, d), the last tangents t; `gaps` (nc,) [m], in the order of `Scene.add_contact`;
    whether forces `follow` () their polynomials though equations may not determine them, which
    would grow from step to step."""

    rates: jax.Array
    constraints: tuple[jax.Array, ...]
    h: jax.Array
    references: tuple[jax.Array, ...]
    gaps: jax.Array
    follow: jax.Array


def steady(count: int, state: State, found: impact.Forces) -> Memory:
    """Memory of a motion that goes on from `state` under the constant forces `found` there."""
    back = found.h * (radau(count).c - 1)  # the memory's polynomials end now
    return Memory(
        rates=state.velocity + back[:, None, None] * found.acceleration,
        constraints=tuple(jnp.broadcast_to(u, (count, *u.shape)) for u in found.unknowns),
        h=found.h,
        references=found.references,
        gaps=found.gaps,
        follow=jnp.asarray(False),
    )


def per_time(group: Constraint, h):
    """Factors (width + etas,) that turn a constraint's unknowns in a step of h [s] into those of
    `Memory`: impulses into forces."""
    return jnp.where(group.forces, 1 / h, 1.0)


def at_fractions(problem: StageProblem, memory: Memory, weights, forces):
    """Rates and constraints of stages, physical, of which stage i has the values sum_j weights[i,
    j] of the last stages j, or for their forces sum_j forces[i, j]."""
    constraints = []
    for group, values in zip(problem.system.constraints, memory.constraints, strict=True):
        # etas, which are no forces, are as far from what they were as rates are from theirs
        as_rates, as_forces = (jnp.einsum("ij,jcw->icw", w, values) for w in (weights, forces))
        constraints.append(jnp.where(group.forces, as_forces, as_rates) / per_time(group, problem.h))
    return jnp.einsum("ij,jbw->ibw", weights, memory.rates), tuple(constraints)


def felt(problem: StageProblem, constraints) -> tuple:
    """`constraints`, per group (k, s, n, width + etas), in which impulses and etas of joints that
    hold are without what they give to nobody, see `joint_rows.felt`."""
    system, count = problem.system, len(problem.system.groups)
    rigid = [(count + g, group) for g, group in enumerate(system.joints) if group.bilateral]
    found, start, both = list(constraints), 0, []
    for of_etas in (False, True):
        parts = []
        for g, group in rigid:
            own = found[g][..., of_etas * group.width :][..., : group.closures]
            own = jnp.pad(own, ((0, 0),) * 3 + ((0, group.closures - own.shape[-1]),))  # what holds velocities has no etas
            parts.append(own.reshape(*own.shape[:2], -1))
        both.append(jnp.concatenate(parts, axis=-1))
    both = joint_rows.felt(system, problem.state, jnp.stack(both))
    for g, group in rigid:
        stop = start + len(group.numbers) * group.closures
        impulses, etas = both[..., start:stop].reshape(2, *found[g].shape[:-1], group.closures)
        own = found[g].at[..., : group.closures].set(impulses)
        found[g], start = own.at[..., group.width :].set(etas[..., : group.etas]), stop
    return tuple(found)

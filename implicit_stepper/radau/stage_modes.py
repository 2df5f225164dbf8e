"""Which branch of each complementarity holds at the stages, and how far it is from being left."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints import branches
from ..constraints.conditions import Held
from .stages import At, Modes, StageProblem, instant


def modes_of(problem: StageProblem, ats: At) -> Modes:
    """The branches that hold in a solution, at every stage."""

    def stage(at):
        def one(member, impulse, point):
            return branches.modes(member, instant(problem, impulse, at.time), point)

        constraints = zip(problem.system.constraints, problem.scales.impulse, at.points, strict=True)
        return [jax.vmap(one)(*of) for of in constraints]

    each = jax.vmap(stage)(ats)
    return Modes(*(tuple(parts) for parts in zip(*each, strict=True))) if each else Modes((), (), (), ())


def margins(problem: StageProblem, ats: At, modes: Modes):
    """How far (s, n) every branch that `modes` name is from being left, dimensionless, >= 0 while
    it is not."""

    def stage(at):
        def one(member, impulse, point, named):
            return branches.margins(member, instant(problem, impulse, at.time), point, named)

        constraints = zip(problem.system.constraints, problem.scales.impulse, at.points, strict=True)
        parts = [jax.vmap(one)(*of, modes.of(g)).reshape(-1) for g, of in enumerate(constraints)]
        return jnp.concatenate([*parts, jnp.zeros(0)])

    return jax.vmap(stage)(ats)


def switched(modes: Modes, event) -> Modes:
    """`modes` after the branch is left that number `event` () of `margins` measures."""
    parts, start = [], 0
    for held in (modes.of(g) for g in range(len(modes.touching))):
        count, width = len(held.touching), 2 + held.active.shape[1]
        left = (event - start == np.arange(count * width)).reshape(count, width)
        touching = held.touching ^ left[:, 0]
        sticking = (held.sticking ^ left[:, 1]) & touching
        parts.append(Held(touching, touching, sticking, held.active ^ left[:, 2:]))
        start += count * width
    return Modes(*(tuple(part) for part in zip(*parts, strict=True))) if parts else modes


def lasting(modes: Modes) -> Modes:
    """`modes` in which that alone touches which is closed and pressed: neither what parts nor what
    is still open and closes fast."""
    on = tuple(a & b for a, b in zip(modes.touching, modes.pressed, strict=True))
    sticking = tuple(a & b for a, b in zip(modes.sticking, on, strict=True))
    return Modes(on, on, sticking, tuple(a & b[:, None] for a, b in zip(modes.active, on, strict=True)))


def equal(one, other):
    """Whether two trees of booleans are equal, ()."""
    same = jax.tree.map(lambda a, b: jnp.all(a == b), one, other)
    return functools.reduce(jnp.logical_and, jax.tree.leaves(same), jnp.asarray(True))

"""Where the stages of a step begin that its memory does not lead to: at the ends of implicit Euler
steps from stage to stage, which have starts of their own.

    V_i, and the forces of stage i, from the step of length (c_i - c_{i-1}) h

Where a joint turns back within the step, or a contact comes to stick, its stages are on both sides
of that, and no polynomial of the last step tells which is where.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np

from ..implicit_euler.geometrically_implicit import GeometricallyImplicit
from ..model.bodies import State
from ..model.system import System
from ..solvers.collocation import radau
from . import euler_steps
from .memory import Memory

_CERTIFIED = 1e-8  # of steps that are no more than a start


def from_stage_to_stage(
    stepper: GeometricallyImplicit, stages: int, system: System, state: State, memory: Memory, h: float
) -> Memory | None:
    """Memory whose polynomials, continued over h [s] from `state`, go through the ends of steps
    from stage to stage; None where one of these is not solved. `memory` is that of the last
    step."""
    method, gaps, velocities, ends = radau(stages), memory.gaps, [], []
    for share in np.diff(method.c, prepend=0.0):
        found = euler_steps.forces(stepper, system, state, euler_steps.Known(gaps), [float(share * h)], _CERTIFIED)
        if not found.solved:
            return None
        state, gaps = found.after, found.records[-1].contacts.gap[-1]
        velocities.append(state.velocity)
        ends.append(euler_steps.memory_before(stages, system, found))
    continued = np.linalg.inv(method.basis(1 + method.c))  # of what polynomials over h are h later

    def through(values):
        return jnp.einsum("ij,j...->i...", continued, jnp.stack(values))

    constraints = zip(*(end.constraints for end in ends), strict=True)
    return dataclasses.replace(
        ends[-1],
        rates=through(velocities),
        constraints=tuple(through([u[-1] for u in own]) for own in constraints),
        h=jnp.asarray(h, float),
        gaps=memory.gaps,
        follow=jnp.asarray(True),
    )

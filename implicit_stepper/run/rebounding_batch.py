"""One scene of a batch with steps of given length, in which bodies rebound."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints.detection import closest_points
from ..implicit_euler.geometrically_implicit import GeometricallyImplicit
from ..model.bodies import State
from ..model.results import Result
from ..model.system import System
from ..radau.euler_steps import without_rebounds
from ..scene.scene import Scene
from . import fixed_run, overlaps
from .batch_values import one_of
from .rollout import CERTIFIED


def one(scene: Scene, stepper: GeometricallyImplicit, built: tuple[System, State], values, h: float, steps: int) -> tuple:
    """Of the `built` scene with other `values`: its state after so many `steps` of h [s], or before
    the first that is not solved, a `Result`, how many steps were solved and certified, the largest
    violation of their certificates, those of impacts among them, and by how much [m] bodies overlap
    at the start."""
    scene, *own = one_of(scene, built, values)
    system, begun = jax.device_put(own)
    state, done, worst = jax.tree.map(lambda a: jnp.asarray(a, float), begun), 0, 0.0
    depths = overlaps.depths_of(system, closest_points(without_rebounds(system), state))
    overlap = float(np.max(depths, initial=0.0))
    if np.any(depths > overlaps.deepest(scene)):
        return _at(state, Result.OVERLAPS, 0, 0.0, overlap)
    for parts, left in fixed_run.certified(scene, stepper, system, state, (h, steps, 0.0), CERTIFIED, warns=False):
        piece = parts.several
        state, done = left.state, left.done
        worst = max(worst, *(float(np.max(v, initial=0.0)) for v in piece.record.certificates.values()))
        if not piece.solved:
            return _at(state, fixed_run.result_of(piece.climb), done, worst, overlap)
    return _at(state, Result.SOLVED, done, worst, overlap)


def _at(state: State, result: Result, done: int, worst: float, overlap: float) -> tuple:
    return jax.tree.map(np.asarray, state), int(result), done, worst, overlap

"""One scene of a batch with chosen steps."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints.detection import closest_points
from ..model.bodies import State
from ..model.results import Result, StepError
from ..model.system import System
from ..radau import driver
from ..radau.error_control import Tolerance, resolved
from ..radau.radau_contact import RadauContact
from ..runtime.errors import OverlapError
from ..runtime.progress import Progress
from ..scene.scene import Scene
from ..stepping.sweep import Sweep
from . import adaptive_run
from .batch_values import scene_of
from .overlaps import depths_of
from .rollout import CERTIFIED


def one(
    scene: Scene, stepper: RadauContact, built: tuple[System, State], values, tol: float | Tolerance, duration: float
) -> tuple:
    """Of the `built` scene with other `values`: its last state, a `Result`, how many steps it took,
    the largest violation of their certificates, and by how much [m] bodies overlap at the start."""
    system, begun = jax.device_put(scene_of(*built, values))
    begun = jax.tree.map(lambda a: jnp.asarray(a, float), begun)
    overlap = float(np.max(depths_of(system, closest_points(system, begun)), initial=0.0))
    end, allowed = float(begun.time) + duration, resolved(tol, system, duration)
    try:
        with Progress(duration, "s of motion", False) as told:
            sweep = Sweep(scene, stepper, system, float(allowed.position))
            found = driver.run(stepper, system, begun, allowed, [end], CERTIFIED, told, sweep)
        run = adaptive_run.trajectory(stepper, system, found, CERTIFIED, "return")
    except StepError as error:
        return jax.tree.map(np.asarray, begun), int(error.result), 0, 0.0, overlap
    except OverlapError:
        return jax.tree.map(np.asarray, begun), int(Result.OVERLAPS), 0, 0.0, overlap
    certified = len(run) == len(found.steps.h)
    result = Result.NOT_CERTIFIED if not certified else Result.NOT_CONVERGED if found.failure else Result.SOLVED
    worst = max((float(np.max(values, initial=0.0)) for values in run.certificate.values()), default=0.0)
    return run.end, int(result), len(run), worst, overlap

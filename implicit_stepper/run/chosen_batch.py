"""Batches with chosen steps: what is refused of them, and one scene of them."""

from __future__ import annotations

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints.detection import closest_points
from ..model.bodies import State
from ..model.results import Result
from ..model.system import System
from ..radau import driver
from ..radau.error_control import Tolerance, resolved
from ..radau.radau_contact import RadauContact
from ..radau.refusals import refuse_short
from ..runtime.errors import AccuracyWarning, JumpError, OverlapError
from ..runtime.progress import Progress
from ..scene.scene import Scene
from ..stepping.sweep import Sweep
from . import adaptive_run
from .batch_values import filled, one_of
from .overlaps import depths_of
from .rollout import CERTIFIED

_AT_ONCE = 64  # scenes whose loads are looked at together
# without numbers, so that Python shows it once
_TOLD = (
    "scenes of a batch lost more energy than `tol` allows where bodies roll over places that bend nowhere: `simulate` says "
    "of a single one how much."
)


def refuse(system: System, start: State, values, duration: float) -> None:
    """Raises `ValueError` where a single run would refuse the `duration` [s] or, without
    `switches`, the loads of one of the scenes."""
    refuse_short(system, duration)
    names = [field.name for field in dataclasses.fields(State)]
    count = max(len(values[name]) if name in values else 1 for name in names)
    base = {name: np.asarray(getattr(start, name)) for name in names}
    every = State(*(filled(values.get(name, base[name][None]), count, base[name].shape) for name in names))
    for time in np.unique(every.time):
        same = np.flatnonzero(every.time == time)
        for first in range(0, len(same), _AT_ONCE):
            own = same[first : first + _AT_ONCE]
            found = adaptive_run.load_jump(
                system, jax.tree.map(lambda a, own=own: a[own], every), time + duration, np.zeros(0)
            )
            if found is not None:
                raise JumpError(
                    f"the wrench of {found[0]!r} jumps at t = {found[1]:.9g} s, where chosen steps of a batch do not end: "
                    "make it continuous, take GeometricallyImplicit() with `h`, or `simulate` each scene with `switches`."
                )


def one(
    scene: Scene, stepper: RadauContact, built: tuple[System, State], values, tol: float | Tolerance, duration: float
) -> tuple:
    """Of the `built` scene with other `values`: its last state, a `Result`, how many steps it took,
    the largest violation of their certificates, and by how much [m] bodies overlap at the start."""
    scene, *own = one_of(scene, built, values)
    system, begun = jax.device_put(own)
    begun = jax.tree.map(lambda a: jnp.asarray(a, float), begun)
    overlap = float(np.max(depths_of(system, closest_points(system, begun)), initial=0.0))
    end, allowed = float(begun.time) + duration, resolved(tol, system, duration)
    try:
        with Progress(duration, "s of motion", False) as told:
            sweep = Sweep(scene, stepper, system, float(allowed.position))
            found = driver.run(stepper, system, begun, allowed, [end], CERTIFIED, told, sweep)
        if found.told:
            warnings.warn(_TOLD, AccuracyWarning, stacklevel=2)
        run = adaptive_run.trajectory(stepper, system, found, CERTIFIED, "return")
    except OverlapError:
        return jax.tree.map(np.asarray, begun), int(Result.OVERLAPS), 0, 0.0, overlap
    certified = len(run) == len(found.steps.h)
    result = Result.NOT_CERTIFIED if not certified else found.failure.result if found.failure else Result.SOLVED
    worst = max((float(np.max(values, initial=0.0)) for values in run.certificate.values()), default=0.0)
    return run.end, int(result), len(run), worst, overlap

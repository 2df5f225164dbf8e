"""Derivatives of the states along a finished run."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from shapes.arguments import positive

from ..constraints.detection import closest_points
from ..implicit_euler.geometrically_implicit import GeometricallyImplicit
from ..model.bodies import State
from ..model.results import Result, StepError
from ..model.system import System
from ..radau.radau_contact import RadauContact
from ..runtime.errors import RunError, StepperError
from ..runtime.threads import one_blas_thread
from ..scene.scene import Scene
from . import length_sensitivities, stage_sensitivities
from .arguments import of_kind
from .found_pairs import finds_pairs
from .parameters import changed, read
from .rollout import rollout
from .trajectory import Trajectory


@one_blas_thread()
def sensitivities(
    scene: Scene, stepper: GeometricallyImplicit | RadauContact, trajectory: Trajectory, parameters: Sequence[str]
) -> dict[str, State]:
    """d(state)/d(parameter) along a `trajectory` of `scene`, by name: a `State` of arrays (n + 1,
    ..., *shape of the parameter), time among them.

    `parameters`: names that `parameters.names` lists, as "mass", "mu", "velocity" (of the start) or
    "shape of ball"; and, of steps of one length, "h". Nodes of the run at which a step ended on an
    event move with the event, and their derivative of `time` is that of the event; all others are
    derivatives at a fixed time, and where an impact is, those after it. Steps of
    `GeometricallyImplicit` are taken again, from the trajectory's first state, or, of several
    lengths or with a restitution, each from where it began. A derivative that
    does not exist is NaN. Raises `ValueError` for bad arguments, and `StepError` where a step of
    the trajectory is not solved again, or leads elsewhere than the trajectory.
    """
    of_kind(stepper=stepper, asked=("stepper",))
    if not stepper.can.differentiable:
        raise StepperError(
            f"`stepper` = {stepper!r} has no derivatives: use a run of GeometricallyImplicit() or RadauContact()."
        )
    names = [] if isinstance(parameters, str) else list(parameters)
    if not names:
        raise RunError(f"`parameters` = {parameters!r} lists no names: give some of `parameters.names`, as ['mu'].")
    of_kind(scene, trajectory=trajectory, asked=("scene", "trajectory"))
    if np.ndim(trajectory.h) and "h" in names:
        raise RunError("`trajectory` has steps of several lengths, of which `h` is no parameter: leave it out.")
    if stepper.can.adaptive != (trajectory.contacts.stages is not None):
        raise StepperError(f"`stepper` = {stepper!r} is not that of the `trajectory`: give the one that made it.")
    system, _ = scene.build()
    _refuse_other(system, trajectory)
    first = (trajectory.time, trajectory.position, trajectory.orientation, trajectory.velocity)
    start = State(*(jnp.asarray(a[0], float) for a in first))
    system = jax.tree.map(jnp.asarray, system)
    values = {name: jnp.asarray(trajectory.h) if name == "h" else read(system, start, name) for name in names}
    if stepper.can.adaptive:
        return stage_sensitivities.along(stepper, system, start, trajectory, values)
    if np.ndim(trajectory.h) or any(group.restitution is not None for group in system.groups):
        if tuple(trajectory.contact_names) != tuple(system.contact_names) or finds_pairs(scene, stepper):
            raise RunError(
                "`trajectory` found its pairs step by step: such runs have derivatives in steps of one length without a "
                "`restitution`. Take fewer pairs."
            )
        return length_sensitivities.along(stepper, system, start, trajectory, values)
    return _along(stepper, system, start, trajectory, values)


def _refuse_other(system: System, trajectory: Trajectory) -> None:
    """Raises `ValueError` for the trajectory of a scene with other moving bodies or joints."""
    run, own = (*trajectory.names, *trajectory.joint_names), (*system.names[: system.body_count], *system.joint_names)
    if run != own:
        raise RunError(
            f"`trajectory` is one of {', '.join(run)}, the scene has {', '.join(own)}: give the scene that it was made with."
        )


def _along(stepper, system: System, start: State, trajectory: Trajectory, values) -> dict[str, State]:
    """Of steps of one stage and one length, without rebounds."""
    h, steps = positive("h", trajectory.h), len(trajectory)
    closest = closest_points(system, start)

    def along(values):
        rest = {name: value for name, value in values.items() if name != "h"}
        own, begun = changed(system, start, rest)
        memory = stepper.init(own, begun, closest)
        run = rollout(own, stepper, values.get("h", h), steps, start=begun, memory=memory)
        return run.states, (run.states, run.result)

    found, (states, result) = jax.jit(jax.jacfwd(along, has_aux=True))(values)
    _agree(system, states, np.asarray(result), trajectory, start)
    fields = ("time", "position", "orientation", "velocity")
    return {name: State(*(np.asarray(getattr(found, field)[name]) for field in fields)) for name in values}


def _agree(system: System, states: State, result: np.ndarray, trajectory: Trajectory, start: State) -> None:
    """Raises `StepError` unless all steps were solved, and lead where those of the `trajectory`
    do."""
    if np.any(result != Result.SOLVED):
        step, why = int(np.argmax(result != Result.SOLVED)), Result(int(result[np.argmax(result != Result.SOLVED)]))
        what = f"step {step} needs starts that a rollout does not have, or is not certified: {why.message}"
    else:
        step, why, apart = 0, Result.NOT_CERTIFIED, stage_sensitivities.off(system, states, trajectory)
        if apart <= stage_sensitivities.SAME:
            return
        what = (
            f"a rollout is off the trajectory by {apart:.1e}: it is a run of another scene or stepper, or one of its steps "
            "has more than one solution."
        )
    time = float(trajectory.time[step + 1])
    raise StepError(
        f"no derivatives along this run: {what}", result=why, time=time, trajectory=None, state=start, certificate={}
    )

"""Every way a step can end: what it is, why it happens, what to do; and the error that carries what
was computed."""

from __future__ import annotations

import enum
from typing import NamedTuple

from shapes.errors import Explained


class Result(enum.IntEnum):
    """Outcome of a step, carried as an integer array through compiled code. `Result.X.message`
    explains it."""

    SOLVED = 0
    NOT_CONVERGED = 1
    NOT_CERTIFIED = 2
    PASSED = 3
    ROUNDED = 4
    OVERLAPS = 5
    OPEN_JOINTS = 6
    IMPACT = 7
    NO_CENTRES = 8
    NO_LANDING = 9
    MISSED_REBOUND = 10
    ENDLESS = 11
    TOO_MANY_PAIRS = 12

    @property
    def message(self) -> str:
        """What happened, why, and what to try."""
        return _MESSAGES[self]


_MESSAGES = {
    Result.SOLVED: "the step solved its complementarity problem and passed the certificate.",
    Result.NOT_CONVERGED: (
        "no start of the fallback sequence reached the tolerance. Try shorter steps (a smaller `h` or `tol`), check masses "
        "and friction for values that are off by orders of magnitude, or give the stepper more iterations."
    ),
    Result.NOT_CERTIFIED: (
        "the solver converged, but the step violates the paper's equations by more than the certificate's tolerance. "
        "Try shorter steps (a smaller `h` or `tol`), or a smaller `tolerance` of the stepper."
    ),
    Result.PASSED: (
        "two bodies pass through each other between the start and the end of the step, where alone contact conditions hold. "
        "Try a smaller `h`: one in which they move less than the thinner one is thick."
    ),
    Result.ROUNDED: (
        "rounding alone leaves more than the tolerances: bodies are too far from the origin or too fast, or `h` is too "
        "short, for the digits of double precision. Move the scene to the origin, take a larger `h`, or set `length_scale` "
        "and `acceleration_scale` of the scene, or `certificate_tolerance`, knowingly."
    ),
    Result.OVERLAPS: (
        "bodies are deep in each other at the start, and no step was taken: parting them would take the speed depth / h. "
        "Move them apart."
    ),
    Result.OPEN_JOINTS: (
        "joints are open, or torn by velocities, at the start, and no step was taken: it would close them at the speed "
        "opening / h. Give their bodies poses and velocities that fit, as `Scene.build` has them."
    ),
    Result.IMPACT: "the impact was not solved. Check masses and friction for values that are off by orders of 10.",
    Result.NO_CENTRES: (
        "bodies met in edges or faces, and no centres of pressure were found with which they rebound by their law "
        "everywhere. Leave their `restitution` out, or round them by a radius."
    ),
    Result.NO_LANDING: "no shorter step was found that ends where its bodies come to touch. Give a smaller `h`.",
    Result.MISSED_REBOUND: (
        "bodies met where no rebound is known: in a step of first order of a run of chosen steps, for which try another "
        "`tol`; or once more than `most_impacts` in a step of `rollout`, of which allow more."
    ),
    Result.ENDLESS: (
        "events follow each other without end: far more problems were solved than a run of this length needs. Look at the "
        "last ones; a larger `tol`, or GeometricallyImplicit with a fixed `h`, steps over them."
    ),
    Result.TOO_MANY_PAIRS: (
        "more pairs may touch in the step than `most_pairs` allows. Raise it, or take a smaller `h`, in which less comes "
        "near."
    ),
}


class Failure(NamedTuple):
    """How a step or a run ended, and what is `told` of it in the place of the result's message."""

    result: Result
    told: str = ""

    @property
    def message(self) -> str:
        """What happened, why, and what to try."""
        return self.told or self.result.message


class ClosestPointsError(Explained, RuntimeError):
    """A query of closest points with pairs that are not proved.

    Check the poses; `on_failure="return"` returns all answers, flagged.

    `answer`: the `ClosestPoints` of all pairs, as far as they were found, with the `residual` of
    each."""

    def __init__(self, message, *, answer):
        super().__init__(message)
        self.answer = answer


class StepError(Explained, RuntimeError):
    """A step that is not solved.

    Do what the message says for its `result`, which is one of the codes below.

    `result` says how; `trajectory` holds every step before it and `state` the `State` that the step
    began in; `certificate` is a mapping of the violated quantities; `time` [s] is the end of the
    failed step."""

    def __init__(self, message, *, result, time, trajectory, state, certificate):
        super().__init__(message)
        self.result = result
        self.time = time
        self.trajectory = trajectory
        self.state = state
        self.certificate = certificate


class Interrupted(Explained, KeyboardInterrupt):
    """Ctrl-C in a run, which keeps what was computed.

    Go on by `simulate(..., start=error.state)`.

    The run was to last to `end` [s]; `trajectory` holds every step, None before the first; `state`
    is the `State` after them, to `start` from."""

    def __init__(self, *, trajectory, state, end):
        time = float(state.time)
        go_on = f"simulate(..., start=error.state, duration={end - time:.9g}) goes on from there."
        go_on = go_on if end > time else "that is the whole run, of which the error was to be estimated."
        if trajectory is None:
            super().__init__(f"interrupted before the first step: {go_on}")
        else:
            super().__init__(
                f"interrupted at t = {time:.9g} s. The {len(trajectory)} steps until then are in the error's `trajectory`, "
                f"the state after them in its `state`: {go_on}"
            )
        self.trajectory = trajectory
        self.state = state

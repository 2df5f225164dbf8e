"""`simulate` with chosen steps: when they must end, their certificate, and the trajectory that they
make."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Sequence

import jax
import numpy as np

from shapes.arguments import vector

from ..constraints.turn_violations import remedy
from ..constraints.violations import described
from ..model.bodies import State
from ..model.records import OF_JOINTS, Contacts
from ..model.results import Failure, Result, StepError
from ..model.system import System
from ..radau.driver import Run
from ..radau.euler_steps import rounding
from ..radau.impact_certificate import gain, impact_violations
from ..radau.radau_contact import RadauContact
from ..radau.refusals import unit
from ..radau.stage_certificate import IMPACT_WITHIN
from ..radau.way import Taken
from ..runtime.errors import JumpError
from ..solvers.collocation import radau
from ..stepping.loop import CHUNK, certificates
from ..stepping.run_certificate import GAP_AT_START, JOINT_HELD, gap_violations, held_violations
from .jumps import jump_of, without_value
from .trajectory import Trajectory, assembled

_AHEAD = np.array([1e-7, 1e-5, 1e-3])  # of sqrt(L / g): where steps that are lost may have looked for loads
_OF_POINTS = ("closest points", "tangent")  # violations that have no unit of speed


def stops(system: System, state: State, end: float, switches: Sequence[float]) -> list[float]:
    """Times [s] after that of `state` at which a step must end, in order; `end` is the last. Raises
    `ValueError` for switches that are no times, and for loads that jump at others."""
    times = vector("switches", switches, len(switches)) if len(switches) else np.zeros(0)
    found = load_jump(system, jax.tree.map(lambda a: np.asarray(a)[None], state), end, times)
    if found is not None:
        name, jump = found
        raise JumpError(
            f"the wrench of {name!r} jumps at t = {jump:.9g} s: give `switches`=[{jump:.9g}, ...], so that steps end there, "
            "or make it continuous."
        )
    return [*sorted({float(t) for t in times if float(state.time) < t < end}), end]


def load_jump(system: System, states: State, end: float, known: np.ndarray) -> tuple[str, float] | None:
    """A body and a time [s] at which the load on it jumps, with bodies in one of the `states` (B,),
    all of one time, from that to `end` [s], other than the times `known`."""
    for i, function in enumerate(system.wrench_functions):
        if function is not None:
            at = functools.partial(_loads, function, states.position[:, i], states.orientation[:, i], states.velocity[:, i])
            jump = jump_of(jax.vmap(at), float(states.time[0]), end, known)
            if jump is not None:
                return system.names[i], jump
    return None


def _loads(function: Callable, position, orientation, velocity, time):
    return jax.vmap(functools.partial(function, time))(position, orientation, velocity).reshape(-1)


def violations(stepper: RadauContact, system: System, run: Run) -> dict[str, np.ndarray]:
    """Violations by name of all steps, each an array (n, bodies or contacts). Whether motion is
    smooth within a step has been judged by the estimate of its error, of which an impact would be a
    part."""
    states, parts, sums = _states(run), [], stepper.impacts == "sequential"
    for first in range(0, len(run.steps.h), CHUNK):
        # one program for any number of steps
        index = np.minimum(np.arange(first, first + CHUNK), len(run.steps.h) - 1)
        begun = jax.tree.map(lambda a, first=first: a[first], states)
        chunk = jax.tree.map(lambda a, index=index: a[index], (run.steps.state, run.steps.contacts, run.steps.h))
        own = certificates(stepper, system, begun, *chunk)
        parts.append({name: np.array(values) for name, values in own.items() if name != IMPACT_WITHIN})
    if not parts:  # the first step failed
        return {}
    found = jax.tree.map(lambda *a: np.concatenate(a)[: len(run.steps.h)], *parts)
    for step, own in run.one_stage.items():  # these have equations of their own
        for name in found:
            found[name][step] = own.get(name, 0.0)
    # those of no length have no equations but those of their impact
    for name in set(found) - set(_OF_POINTS):
        found[name][run.steps.h == 0] = 0.0
    for step in impacts(run.steps):
        for name, values in impact_violations(system, *impact(states, run.steps, step), sums).items():
            found[name][step] = np.maximum(found[name][step], values)
    held = held_violations(system, None, run.steps.contacts)
    held = {JOINT_HELD: held[JOINT_HELD]} if JOINT_HELD in held else {}
    return found | {GAP_AT_START: gap_violations(system, run.gaps, run.steps.contacts)} | held


def impacts(steps: Taken) -> np.ndarray:
    """The numbers of the `steps` that end with an impact, after which velocities are not those of
    the last stage."""
    return np.flatnonzero(np.any(steps.state.velocity != steps.contacts.stages.velocity[:, -1], axis=(1, 2)))


def impact(states: State, steps: Taken, step: int) -> tuple[State, State, Contacts, np.ndarray]:
    """Of the impact at the end of a `step`: states before and after it; its contacts, with its
    impulses; and the impulses (nc,) [N s] of the motion before it, from which these are told."""
    last, after, contacts = (
        jax.tree.map(operator.itemgetter(i), t) for t, i in ((states, step), (states, step + 1), (steps.contacts, step))
    )
    own, share = contacts.stages, radau(len(contacts.stages.velocity)).A[-1]
    pressed, rubbed = (np.tensordot(share, a, 1) for a in (own.contacts.normal_impulse, own.contacts.friction_impulse))
    before = last if steps.h[step] == 0 else dataclasses.replace(after, velocity=own.velocity[-1])
    joints = contacts.joints
    if joints is not None:
        pulled = {name: np.tensordot(share, getattr(own.contacts.joints, name), 1) for name in OF_JOINTS}
        joints = dataclasses.replace(joints, **{name: getattr(joints, name) - pulled[name] for name in OF_JOINTS})
    contacts = dataclasses.replace(
        contacts,
        normal_impulse=contacts.normal_impulse - pressed,
        friction_impulse=contacts.friction_impulse - rubbed,
        stages=None,
        joints=joints,
    )
    return before, after, contacts, pressed


def _states(run: Run) -> State:
    """All states (n + 1,), from the first."""
    return jax.tree.map(lambda first, rest: np.concatenate([np.asarray(first)[None], rest]), run.first, run.steps.state)


def trajectory(stepper: RadauContact, system: System, run: Run, tolerance: float, on_failure: str) -> Trajectory:
    """The trajectory of `run`, up to the first step that is not certified. Raises `StepError` where
    it stopped early."""
    found, states = violations(stepper, system, run), _states(run)
    allowed = _allowed(stepper, system, run, states, tolerance)
    within = [np.max(v, axis=1, initial=0.0) <= allowed(name) for name, v in found.items()]
    good = int(np.argmin(np.append(np.all(within, axis=0), False))) if within else 0
    steps, states = (jax.tree.map(lambda a, n=n: a[:n], t) for t, n in ((run.steps, good), (states, good + 1)))
    end = float(states.time[-1])
    kept = {name: v[:good] for name, v in found.items()}
    events = tuple(event for event in run.events if event.time <= end)
    made = assembled(system, states, steps.contacts, steps.stats, kept, steps.h, events=events, counts=run.counts)
    certified = good == len(run.steps.h)
    if (run.failure or not certified) and on_failure == "raise":
        raise _error(
            system,
            made,
            run,
            {} if certified else {name: v[good] for name, v in found.items()},
            lambda name: float(allowed(name)[good]),
        )
    return made


def _allowed(stepper: RadauContact, system: System, run: Run, states: State, tolerance: float) -> Callable:
    """What rounding leaves of a violation (n,), by its name, and the `tolerance`. The momentum of a
    stage is measured by what its own force gives in a step, A_ii h of it; in steps of one stage
    that is all of it."""
    long = run.steps.h > 0  # an impact at the start has no step's units
    units = rounding(system, jax.tree.map(lambda a: a[:-1], states), np.where(long, run.steps.h, 1.0))
    share = np.full(len(long), np.min(np.diag(radau(stepper.stages).A)))
    share[list(run.one_stage)] = 1.0
    return lambda name: tolerance + np.where(long, units / (share if name == "momentum" else 1.0), 0.0)


def _error(system: System, made: Trajectory, run: Run, violations: dict, allowed: Callable) -> StepError:
    time = float(made.time[-1])
    violated = {name: values for name, values in violations.items() if not np.max(values, initial=0.0) <= allowed(name)}
    what = f"{described(system, violated)} (allowed {max(map(allowed, violated)):.0e})." if violated else ""
    ends, hint = run.failure or Failure(Result.NOT_CERTIFIED), gain(system, violated) + remedy(violated)
    said = f"the step violates {what}{hint}" if hint else f"{ends.message} {what}"
    why = without_value(system, made.end, _AHEAD * unit(system)) or said
    last = ", ".join(f"{made.named(e)} {e.kind} at {e.time:.9g} s" for e in made.events[-3:])
    return StepError(
        f"the run stopped at t = {time:.9g} s: {why} Last events: "
        f"{last or 'none'}. "
        f"The {len(made)} steps before are in the error's `trajectory`, the state after them in its `state`.",
        result=Result.NOT_CERTIFIED if violated else ends.result,
        time=time,
        trajectory=made,
        state=made.end,
        certificate=violated,
    )

"""Steps of one length as one pure function of JAX, for programs that differentiate them, or run
many at once."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from shapes.arguments import flag, positive
from shapes.errors import ArgumentError

from ..constraints.incidence import standing
from ..implicit_euler.geometrically_implicit import GeometricallyImplicit
from ..model import checks
from ..model.bodies import State
from ..model.records import Contacts
from ..model.results import Result
from ..model.system import System
from ..radau import rebounding_step, step_derivatives
from ..radau.euler_steps import without_rebounds
from ..radau.radau_contact import RadauContact
from ..runtime.errors import RunError, StartError, StepperError
from ..stepping.stepper import refuse_rebounds
from .arguments import of_kind
from .joint_start import misfit

CERTIFIED = 1e-10  # the bound of certificates that `simulate` has unless it is given one
_IMPACTS = 4  # in a step, unless more are asked for: each costs its time in a batch, whether or not it happens


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Rollout:
    """n steps: `states` with a first axis of n + 1, the start first; `contacts` with one of n;
    `result` (n,), for each a `Result`; `violation` (n,), the largest of its certificate,
    dimensionless. After a step that is not SOLVED, states and contacts are NaN. Where contacts have
    a restitution, `impacts` (n, most_impacts + 1) are the times [s] of the impacts in each step, of
    the first step one at its start among them, NaN of those that are none, and contacts have the
    impulses of all parts of a step, along the tangents of its last one."""

    states: State
    contacts: Contacts
    result: jax.Array
    violation: jax.Array
    impacts: jax.Array | None = None


def rollout(
    system: System,
    stepper: GeometricallyImplicit | RadauContact,
    h,
    steps: int,
    *,
    start: State,
    memory: Any = None,
    economical: bool = False,
    kappa=None,
    most_impacts: int | None = None,
) -> Rollout:
    """`steps` steps of `simulate`, h [s] each, of `system` from `start`, both of `Scene.build`.

    A pure function of `system`, `start` and h: `jit`, `vmap`, `grad`, `jacfwd`, `jvp`, `vjp` work,
    and second derivatives. Put it into a compiled function. Derivatives are those of the converged
    steps (docs/derivatives.md); one that does not exist is NaN. Steps that their warm start does
    not solve are tried from cuts, which leaves about one of 10^4 that `simulate` solves: those are
    NOT_CONVERGED, and all after them NaN. A step that is not certified within 1e-10 is
    NOT_CERTIFIED. From a start whose joints are open or torn, which `simulate` refuses, none is
    taken: all are OPEN_JOINTS. That bodies do not pass through each other between the poses of a
    step, and how deep they overlap at the start, only `simulate` checks. `memory`: that of
    `stepper.init` for `start`, if it is known, which is half of the compile time. `economical`:
    reverse mode keeps about 2 sqrt(steps) states instead of what it needs of every step, and runs
    every step twice. `kappa` () > 0 smooths all complementarities and friction, so that contacts
    act before they touch: those are other steps than the hard ones, to which they tend as kappa
    falls (docs/derivatives.md), SOLVED where the smoothed problem is, and `violation` says how far
    they are from the hard laws. Steps of several stages of `RadauContact` are tried from their warm
    start alone; one in which bodies land is not SOLVED. Where contacts have a restitution, steps
    land before they rebound, as those of `simulate` do: each may have `most_impacts`, or else is
    MISSED_REBOUND; by default as many as contacts with a restitution, four at most. It begins with
    the impact of what touches and approaches, also of what the last step of another rollout has
    left resting without rebound: two are not one. Impacts in sequence have no reverse mode, as
    their number is not known; no `memory` is taken. Raises `ValueError` for bad arguments.
    """
    stepper = _with_derivatives(stepper, system, start)
    checks.count("steps", steps)
    flag("economical", economical)
    if not isinstance(h, jax.core.Tracer):
        positive("h", h)
    most = _impacts_of(stepper, system, most_impacts, memory)
    if kappa is not None:
        _refuse_smoothing(stepper, system, kappa)
    system = standing(system)
    start = jax.tree.map(lambda a: jnp.asarray(a, float), start)
    h = jnp.asarray(h, float)

    memory = _memory(stepper, without_rebounds(system), start) if memory is None else memory
    scan = functools.partial(_economical if economical else lax.scan, xs=None, length=steps)
    if most:
        states, contacts, result, violation, impacts = _with_rebounds(stepper, system, start, memory, h, most, scan)
    else:
        states, contacts, result, violation = _without_rebounds(stepper, system, start, memory, h, kappa, scan)
        impacts = None
    result = _begun(stepper, system, start, h, result)
    good = jnp.cumprod(result == Result.SOLVED).astype(bool)
    states, contacts = _kept(jnp.append(True, good), states), _kept(good, contacts)
    return Rollout(states, contacts, result, violation, impacts if impacts is None else _kept(good, impacts))


def _without_rebounds(stepper, system: System, start: State, memory, h, kappa, scan: Callable) -> tuple:
    """States, contacts, results and violations of steps in which nothing rebounds."""

    def one(carry, _):
        if kappa is not None:
            step = stepper.smoothed_step(system, *carry, h, kappa)
        elif stepper.can.adaptive:
            step = step_derivatives.of_length(stepper, system, *carry, h)
        else:
            step = stepper.step_with_cuts(system, *carry, h)
        return (step.state, step.memory), (step.state, step.contacts, step.result)

    _, (ends, contacts, result) = scan(one, (start, memory))
    states = _all(start, ends)
    violation = _violation(stepper, *lax.stop_gradient((system, states, contacts, h)))
    certified = jnp.where((violation <= CERTIFIED) | (kappa is not None), int(Result.SOLVED), int(Result.NOT_CERTIFIED))
    return states, contacts, jnp.where(result == Result.SOLVED, certified, result), violation


def _with_rebounds(stepper, system: System, start: State, memory, h, most: int, scan: Callable) -> tuple:
    """States, contacts, results, violations and times of impacts of steps with `most` impacts each,
    beside one in which the run begins."""

    def one(carry, _):
        state, memory, strikes = carry
        step = rebounding_step.step(stepper, system, state, memory, h, strikes, most, CERTIFIED)
        carry = step.state, step.memory, jnp.asarray(False)
        return carry, (step.state, step.contacts, step.result, step.violation, step.times)

    _, (ends, *others) = scan(one, (start, memory, rebounding_step.strikes_at(system, start, memory)))
    return _all(start, ends), *others


def _all(start: State, ends: State) -> State:
    return jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), start, ends)


def _impacts_of(stepper, system: System, most, memory) -> int:
    """How many impacts a step may have, 0 where nothing rebounds. Raises `ValueError` for what has
    no rebounds, and for a `memory` beside them."""
    asked = most is not None
    if asked:
        checks.count("most_impacts", most)
    possible = rebounding_step.most_impacts(system)
    if not possible:
        return 0
    if stepper.can.adaptive:
        refuse_rebounds(system)
    rebounding_step.refuse(system)
    if memory is not None:
        raise RunError(
            "`memory` is for scenes without a `restitution`, in which it is that of `stepper.init`: leave it out."
        )
    return most if asked else min(possible, _IMPACTS)


def _with_derivatives(stepper, system, start) -> GeometricallyImplicit | RadauContact:
    """`stepper`, with one stage under its other name. Raises `ValueError` for those without
    derivatives, and for a `system` or `start` that is none."""
    of_kind(stepper=stepper, asked=("stepper",))
    if not isinstance(system, System) or not isinstance(start, State):
        wrong = "start" if isinstance(system, System) else "system"
        raise ArgumentError(
            f"`{wrong}` must be a {'State' if wrong == 'start' else 'System'}, of those that `Scene.build` makes."
        )
    d, bodies = system.dimension, system.body_count
    needed = {"time": (), "position": (bodies, d), "orientation": (bodies, 4 if d == 3 else 1)}
    for name, shape in (needed | {"velocity": (bodies, 6 if d == 3 else 3)}).items():
        if jnp.shape(getattr(start, name)) != shape:
            raise StartError(f"`start.{name}` has shape {jnp.shape(getattr(start, name))}: `system` asks for {shape}.")
    if isinstance(stepper, RadauContact) and stepper.stages == 1:
        return stepper.one_stage
    if not stepper.can.differentiable:
        raise StepperError(f"`stepper` = {stepper!r} has no rollouts: use GeometricallyImplicit() or RadauContact().")
    return stepper


def _begun(stepper, system: System, start: State, h, result):
    """Results (n,), all OPEN_JOINTS where the joints are open, or torn, at the start."""
    if not system.joints:
        return result
    return jnp.where(lax.stop_gradient(misfit(stepper, system, start, h)), int(Result.OPEN_JOINTS), result)


def _memory(stepper, system: System, start: State):
    """That of `stepper.init`, whose gaps alone have derivatives."""
    if not stepper.can.adaptive:
        return stepper.init(system, start)
    gaps = stepper.one_stage.init(system, start).gaps
    return dataclasses.replace(stepper.init(*lax.stop_gradient((system, start))), gaps=gaps)


def _refuse_smoothing(stepper, system: System, kappa) -> None:
    """Raises `ValueError` for a kappa that smooths nothing, and for what has no smoothed law."""
    if stepper.can.adaptive:
        raise StepperError(f"`stepper` = {stepper!r} smooths no contacts: leave `kappa` out or use GeometricallyImplicit().")
    one = np.ndim(kappa) == 0 and not isinstance(kappa, str)
    if not one or not (isinstance(kappa, jax.core.Tracer) or 0 < kappa <= 1):
        raise RunError(f"`kappa` = {kappa} must be in (0, 1]; leave it out for hard contacts.")
    if rebounding_step.most_impacts(system):
        raise StepperError("`kappa` smooths no `restitution`: leave out one of them.")
    if system.sticks_more:
        raise StepperError("`kappa` smooths no `mu_s`, which breaks away at once: leave out one of them.")


def _kept(good, tree):
    """`tree`, its entries NaN where they are not `good` (n,)."""
    return jax.tree.map(lambda a: jnp.where(good.reshape(-1, *(1,) * (a.ndim - 1)), a, jnp.nan), tree)


def _violation(stepper, system: System, states: State, contacts: Contacts, h):
    """(n,): the largest violation of each step."""
    before, after = jax.tree.map(lambda a: a[:-1], states), jax.tree.map(lambda a: a[1:], states)
    found = jax.vmap(stepper.certificate, (None, 0, 0, 0, None))(system, before, after, contacts, h)
    worst = [jnp.max(v, axis=1) for v in found.values() if v.size]
    return jnp.max(jnp.stack(worst), axis=0)


def _economical(one: Callable, begun, *, xs: None, length: int):
    """`lax.scan` of `length` steps, which keeps the carry of some sqrt(length) of them, and
    computes the rest again from these for reverse mode."""
    size = math.isqrt(length - 1) + 1
    segments = -(-length // size)
    one = jax.jit(one)  # so that it is traced once for its shapes and the loop
    empty = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(one, begun, None)[1])

    def step(carry, number):
        return lax.cond(number < length, lambda carry: one(carry, None), lambda carry: (carry, empty), carry)

    @jax.checkpoint
    def segment(carry, numbers):
        return lax.scan(step, carry, numbers)

    numbers = jnp.arange(segments * size).reshape(segments, size)
    end, records = lax.scan(segment, begun, numbers)
    return end, jax.tree.map(lambda a: a.reshape(segments * size, *a.shape[2:])[:length], records)

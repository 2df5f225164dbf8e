"""What steppers have in common that ask for contacts before they solve: memory, first and last
lines of a step, restarts."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints import detection, joint, joint_rows, linear_rows
from ..constraints.detection import Nearby, closest_points, cold_closest
from ..constraints.held_rows import HeldRows, held_rows
from ..constraints.linear_rows import Rows
from ..model import bodies, loads
from ..model.bodies import State
from ..model.records import Joints, Stats, StepResult
from ..model.results import Result
from ..model.system import System
from ..runtime.compilation import jit
from ..runtime.errors import StepperError
from ..solvers.cones import Impulses
from ..stepping.stepper import Stepper

RUNGS = ("warm start", "closest points without a hint")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Memory:
    """`nearby`: closest points in the present state; `guess`, per group, where the search for those
    at the end of the step begins; `impulses` (nc, 1 + k) [N s] of the last step."""

    nearby: Nearby
    guess: tuple[jax.Array, ...]
    impulses: jax.Array


def begin(system: System, state: State, closest=None) -> Memory:
    """Memory without impulses, at `closest` as `detection.cold_closest` finds them."""
    here = detection.find(system, state, tuple(cold_closest(system, state)) if closest is None else closest)
    return Memory(here, here.closest, jnp.zeros((system.contact_count, 4 if system.dimension == 3 else 2)))


def half_implicit_step(
    system: System, state: State, memory: Memory, h, solve: Callable[[HeldRows, jax.Array], Impulses]
) -> StepResult:
    """Half-implicit symplectic Euler over h [s] with contacts and joints from the start of the
    step, Negrut (5a); `solve` finds impulses for bodies that joints hold, and whose velocity
    without contact is (nb, 6 or 3)."""
    here, mass = memory.nearby, bodies.mass_matrices(system, state)
    rows = linear_rows.linear_rows(system, state, here.geometry)
    held = held_rows(system, state, mass, rows, h)
    forces, pull = joint_rows.elastic_forces(system, state)
    free = loads.free_velocity(system, state, mass, h) + h * held.joints.alone(pull)
    impulses = solve(held, held.velocity(free)[0])
    velocity, lambdas = held.driven(free, mass, impulses.gamma)
    after = bodies.moved(state, velocity, h)
    joints = joint_record(system, state, state, after, lambdas, forces, h)
    return finish(system, memory, here, rows, impulses, after, joints)


def joint_record(system: System, before: State, acting: State, after: State, lambdas, forces, h) -> Joints | None:
    """What joints do in a step of h [s] that ends in `after`, with multipliers (R,) of the rigid
    ones that act by G in the poses `acting`, and the `forces` that elastic ones had `before`, as
    `joint_rows.elastic_forces` gives them."""
    if not system.joints:
        return None
    shares = [None if force is None else h * force for force in forces]
    multipliers = joint_rows.by_group(system, lambdas, shares)
    first, there, end = (joint.record(system, state, multipliers) for state in (before, acting, after))
    elastic = np.zeros((len(system.joint_names), 1), bool)
    for group in system.joints:
        elastic[list(group.numbers)] = not group.bilateral
    impulses = {name: jnp.where(elastic, getattr(first, name), getattr(there, name)) for name in ("impulse_1", "impulse_2")}
    return dataclasses.replace(end, **impulses)


def finish(
    system: System,
    memory: Memory,
    used: Nearby,
    rows: Rows,
    impulses: Impulses,
    after: State,
    joints: Joints | None,
) -> StepResult:
    """The step that ends in `after` with impulses in the frames of `used`, and the closest points
    there."""
    there = detection.find(system, after, memory.guess, used.geometry.tangents[:, 0])
    contacts = detection.record(used, rows, impulses.gamma, after.velocity, there.geometry.psi)
    return StepResult(
        state=after,
        memory=Memory(there, there.closest, impulses.gamma),
        contacts=dataclasses.replace(contacts, gap_start=memory.nearby.geometry.psi, joints=joints),
        stats=Stats(impulses.iterations, impulses.residual, jnp.asarray(0), jnp.asarray(1)),
        result=jnp.where(impulses.converged & there.converged, int(Result.SOLVED), int(Result.NOT_CONVERGED)),
    )


def again(stepper: Stepper, system: System, state: State, memory: Memory, h) -> Iterator[tuple[str, Memory]]:
    """Once more, with the closest points at the end of the step found without a hint."""
    after = _step(stepper, system, state, memory, h).state
    yield RUNGS[1], dataclasses.replace(memory, guess=closest_points(system, after))


def units(system: System, h):
    """Impulse [N s] and speed [m/s] in which contact is dimensionless; one for all contacts keeps
    it symmetric."""
    speed = system.acceleration * h
    return jnp.min(jnp.asarray(system.mass)) * speed, speed


def refuse_compliance(system: System) -> None:
    """Raises `ValueError` when a contact is compliant, for the steppers whose contacts are
    rigid."""
    for group in system.groups:
        if group.compliance is not None:
            names = " and ".join(system.contact_names[group.numbers[0]])
            raise StepperError(
                f"the contact of {names} has a `compliance`: use GeometricallyImplicit, RadauContact, ClosedFormGap or "
                "Convex."
            )


@functools.partial(jit, static_argnums=0, apart=True)
def _step(stepper: Stepper, system: System, state: State, memory: Memory, h) -> StepResult:
    return stepper.step(system, state, memory, h)

"""A step of `ConeComplementarity` for many bodies: the equations of `time_lagged`, with pairs that
are found anew for every step, forms of contact in the place of groups, and impulses by products
with M^-1 and D alone."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints import certificate_mechanics as mechanics
from ..constraints.conditions import Units
from ..model import bodies, loads
from ..model.bodies import State
from ..model.records import Contacts, no_contacts
from ..model.results import Result
from ..model.system import System
from ..runtime.compilation import jit
from ..solvers.cones import Impulses
from ..time_lagged import common, lagged_certificate
from ..time_lagged.cone_complementarity import ConeComplementarity
from ..time_lagged.joint_certificate import joints_of
from .advance import Done
from .catalog import Catalog
from .certificate import worst_of
from .equations import Slots, Step, filled_up, of_sides
from .records import recorded
from .step import Known, Memory, Posed, end_state, may_touch, posed
from .sweeps import nearest

_LEAST_ROWS, _GROWTH = 128, 2  # contacts of the program that solves, of which there are few sizes


def advance(
    stepper: ConeComplementarity, tolerance: float, catalog: Catalog, system: System, state: State, memory: Memory, h: float
) -> Done:
    """The step of h [s] from `state`, certified within `tolerance`. Never raises: see
    `Done.result`."""
    at = posed(catalog, system, state, memory, h, may_touch(catalog, system, state, h), "projection")
    still = np.zeros((len(at.problem.motion.position), state.velocity.shape[1]))
    closest = [k.unknowns[:, : s.group.pair.unknowns] for k, s in zip(at.known, at.problem.slots, strict=True)]
    here = [_planes(at, form, still, own) for form, own in enumerate(closest)]
    solution, velocity = _solved(stepper, at, system, state, here, h)
    end = end_state(system, state, velocity, h)
    acting = dataclasses.replace(state, velocity=velocity)
    parts, known, first = [], [], 0
    for form, (slots, was, (points, _, psi)) in enumerate(zip(at.problem.slots, at.known, here, strict=True)):
        own = np.asarray(solution.gamma)[first : first + len(psi)]
        first += len(psi)
        there, _, gaps = _planes(at, form, at.problem.with_fixed(velocity), points)
        z = np.column_stack([points, own, np.zeros(len(own))]) / slots.unknowns[: len(own)]
        record = recorded(catalog, at.problem, slots, was._replace(gaps=psi), z, acting)
        parts.append((slots, dataclasses.replace(record, gap=gaps)))
        unknowns = np.column_stack([there, own, record.sigma])
        known.append(Known(was.pairs, unknowns, record.tangent, record.normal, gaps))
    violations = certificate(stepper, system, state, end, parts, at.problem.step)
    records = [record for _, record in parts]
    converged, certified = bool(solution.converged), worst_of(violations) <= tolerance
    residual = float(solution.residual)
    return Done(
        state=end,
        memory=Memory(tuple(known), memory.held[:0]),
        pairs=np.concatenate([*at.pairs, np.zeros((0, 2), int)]),
        contacts=jax.tree.map(lambda *own: np.concatenate(own), *(records or [no_contacts(system.dimension)])),
        certificate=violations,
        result=Result.NOT_CONVERGED if not converged else Result.SOLVED if certified else Result.NOT_CERTIFIED,
        iterations=int(solution.iterations),
        residual=residual,
        rung=0,
        substeps=1,
        residuals={common.RUNGS[0]: residual},
    )


def _planes(at: Posed, form: int, velocity, closest):
    """Of the contacts of a form where `velocity` (n, 6 or 3) leads in the step: closest points (m,
    unknowns), the maps `on` (m, 2, 1 + k, 6 or 3) to scaled velocities, and gaps (m,) [m]."""
    slots, step, count = at.problem.slots[form], at.problem.step, at.problem.counts[form]
    rows = np.minimum(np.arange(len(slots.impulse)), count - 1)
    found, on, speed, _ = (np.asarray(a)[:count] for a in nearest(step, slots, velocity[slots.sides], closest[rows]))
    moved = np.einsum("csw,csw->c", on[:, :, 0], velocity[slots.sides[:count]])
    return found, on, float(step.h) * (speed + moved)


def _solved(stepper, at: Posed, system: System, state: State, here, h: float) -> tuple[Impulses, np.ndarray]:
    """Impulses (m, 1 + k) [N s] of all contacts, form after form, and the velocities (nb, 6 or 3)
    that they leave."""
    problem = at.problem
    free, inverse = (np.asarray(a) for a in _without_contact(system, state, h))
    fixed = problem.fixed
    free, inverse = (np.concatenate([a, np.zeros((fixed, *a.shape[1:]))]) for a in (free, inverse))
    count, width = sum(problem.counts), free.shape[1]
    if not count:
        nothing = np.zeros((0, 4 if width == 6 else 2))
        return Impulses(nothing, 0.0, 0, True), free[: len(free) - fixed]
    size = filled_up(count, _LEAST_ROWS, _GROWTH)
    starts = [k.unknowns[:, s.group.pair.unknowns : -1] for k, s in zip(at.known, problem.slots, strict=True)]
    sides, mu = (
        [values[:own] for values, own in zip(parts, problem.counts, strict=True)]
        for parts in ([s.sides for s in problem.slots], [np.asarray(s.group.mu) for s in problem.slots])
    )
    given = (sides, [on for _, on, _ in here], [psi for *_, psi in here], mu, starts)
    given = [np.concatenate(own) for own in given]
    padded = (np.concatenate([a, np.zeros((size - count, *a.shape[1:]), a.dtype)]) for a in given)
    velocity, solution = _impulses(stepper, system, h, free, inverse, *padded)
    return dataclasses.replace(solution, gamma=np.asarray(solution.gamma)[:count]), np.asarray(velocity)[: len(free) - fixed]


@jit
def _without_contact(system: System, state: State, h):
    """Velocities (nb, 6 or 3) after a step without contact, and M^-1 (nb, w, w) at its start."""
    mass = bodies.mass_matrices(system, state)
    return loads.free_velocity(system, state, mass, h), jnp.linalg.inv(mass)


@functools.partial(jit, static_argnums=0)
def _impulses(stepper, system: System, h, free, inverse, sides, on, psi, mu, start):
    """The velocities (n, 6 or 3) of all bodies, and the impulses: contacts between the bodies
    `sides` (c, 2), of which those that fill the program up have rows of zeros."""
    units = common.units(system, h)
    back = jnp.einsum("csrw,cswx->csxr", on, inverse[sides])

    def change(impulses):
        return jnp.zeros_like(free).at[sides].add(jnp.einsum("cr,csxr->csx", impulses, back))

    def rates(velocity):
        return jnp.einsum("csrw,csw->cr", on, velocity[sides])

    blocks = on, back * (units[0] / units[1]), sides, len(free) - 1
    found = stepper.impulses(rates(free), lambda p: rates(change(p)), blocks, psi, mu, start, units, h)
    return free + change(found.gamma), found


def certificate(
    stepper: ConeComplementarity,
    system: System,
    before: State,
    after: State,
    parts: Sequence[tuple[Slots, Contacts]],
    step: Step,
) -> dict[str, np.ndarray]:
    """Violations by name as `ConeComplementarity.certificate` has them, of bodies (nb,) or of
    contacts (m,) form by form; `parts`: per form its slots and the records of its contacts."""
    acting = jax.tree.map(np.asarray, _acting(system, before, after.velocity))
    nothing = np.zeros((2, len(acting.position), after.velocity.shape[1]))
    sums, found = nothing, {}
    for slots, record in parts:
        count = len(record.gap)
        rows = np.minimum(np.arange(len(slots.impulse)), count - 1)
        filled = jax.tree.map(lambda a, rows=rows: np.asarray(a)[rows], record)
        units = common.units(system, float(step.h))
        checked, given = _of_contacts(stepper, step, units, of_sides(acting, slots.sides), slots, filled)
        given = np.asarray(given)[:count]
        for total, own in zip(sums, (given, np.abs(given)), strict=True):
            np.add.at(total, slots.sides[:count], own)
        for name, values in checked.items():
            found.setdefault(name, []).append(np.asarray(values)[:count])
    given, passing = sums[:, : system.body_count]
    momentum, pose = _of_bodies(system, before, after, given, passing, float(step.h))
    contacts = {name: np.concatenate(own) for name, own in found.items()}
    return {"momentum": np.asarray(momentum), "pose": np.asarray(pose), **contacts}


@jit
def _acting(system: System, before: State, velocity) -> mechanics.Bodies:
    return mechanics.everywhere(system, before.position, before.orientation, velocity)


@functools.partial(jit, static_argnums=0)
def _of_contacts(stepper, step: Step, units, ends, slots: Slots, records: Contacts):
    """Violations (c,) by name of contacts of one form, and what they give their two bodies (c, 2, 6
    or 3)."""

    def one(member, ends, record, impulse):
        own = Units(step.length, step.gap, step.speed, impulse)
        violations, speeds, impulses, frame = lagged_certificate.of_contact(own, True, member, record, *ends)
        given = jnp.stack(mechanics.wrenches(frame, record.normal_impulse, record.friction_impulse))
        return violations, speeds, impulses, given

    violations, speeds, impulses, given = jax.vmap(one)(slots.group, ends, records, slots.impulse)
    laws = stepper.law_violations(speeds, impulses, records.gap_start, jnp.asarray(slots.group.mu), units, step.h)
    return violations | laws, given


@jit
def _of_bodies(system: System, before: State, after: State, given, passing, h):
    none = jnp.zeros((0, 0))
    turns = mechanics.rotations(before.orientation)
    found = lagged_certificate.Lagged({}, none, none, given, passing, turns)
    joints = joints_of(system, before, after, None, h)
    balance = lagged_certificate.half_implicit_balance(system, before, after, found, joints, h)
    return balance, lagged_certificate.pose(system, before, after, after.velocity, h)

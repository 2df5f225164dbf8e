"""A step of many bodies by methods that find contacts before they solve: the equations of
`time_lagged`, with pairs that are found anew for every step, and forms of contact in the place of
groups."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints import certificate_mechanics as mechanics
from ..constraints.conditions import Units
from ..model.bodies import State
from ..model.records import Contacts, no_contacts
from ..model.results import Result
from ..model.system import System
from ..runtime.compilation import jit
from ..solvers.cones import Impulses
from ..time_lagged import common, lagged_certificate
from ..time_lagged.theta_method import FreeMotion
from .advance import HALVINGS, joined
from .catalog import Catalog
from .certificate import worst_of
from .equations import Slots, Step, of_sides
from .lagged_methods import Method, method_of
from .passages import carried, nearest_at, passed
from .planes import Planes
from .records import recorded
from .step import MORE_PAIRS, Done, Known, Memory, Posed, end_state, may_touch, missed_by, no_memory, posed


def advance(
    stepper, tolerance: float, catalog: Catalog, system: System, state: State, memory: Memory, h: float, left: int = HALVINGS
) -> Done:
    """The step of h [s] from `state`, certified within `tolerance`, or, where bodies pass through
    each other in it, two of its halves, which may be halved again so many times as are `left`.
    Never raises: see `Done.result`."""
    whole = _whole(stepper, tolerance, catalog, system, state, memory, h)
    if whole.result != Result.PASSED or left == 0:
        return whole
    take = functools.partial(advance, stepper, tolerance, catalog, system, h=h / 2, left=left - 1)
    first = take(state, memory)
    if first.result != Result.SOLVED:
        return dataclasses.replace(first, residuals=whole.residuals | first.residuals)
    second = take(first.state, first.memory._replace(held=np.sort(first.pairs, axis=1)))
    if second.result != Result.SOLVED:
        return dataclasses.replace(second, residuals=whole.residuals | second.residuals)
    return dataclasses.replace(joined(len(catalog.body), first, second, whole.iterations), rung=len(common.RUNGS))


def _whole(stepper, tolerance: float, catalog: Catalog, system: System, state: State, memory: Memory, h: float) -> Done:
    """The step from the closest points of the last one, which may no longer be the closest, and
    where that fails from those that are found without a hint."""
    first = _step(stepper, tolerance, catalog, system, state, memory, h)
    residuals = {common.RUNGS[0]: first.residual}
    if first.result in (Result.SOLVED, Result.PASSED):
        return dataclasses.replace(first, residuals=residuals)
    again = _step(stepper, tolerance, catalog, system, state, no_memory()._replace(held=memory.held), h)
    residuals[common.RUNGS[1]] = again.residual
    return dataclasses.replace(again, rung=1, residuals=residuals, iterations=first.iterations + again.iterations)


def _step(stepper, tolerance: float, catalog: Catalog, system: System, state: State, memory: Memory, h: float) -> Done:
    """With those pairs too that the velocities found bring near."""
    pairs = np.unique(np.concatenate([may_touch(catalog, system, state, h), memory.held]), axis=0)
    for _ in range(MORE_PAIRS):
        done, moving = _of_pairs(stepper, tolerance, catalog, system, state, memory, h, pairs)
        if done.result == Result.NOT_CONVERGED or not np.all(np.isfinite(moving)):
            return done
        # some methods move bodies by other velocities than those that their laws are of
        ends = done.state, dataclasses.replace(done.state, velocity=moving)
        missed = [missed_by(catalog, system, state, end, h, pairs) for end in ends]
        if not any(map(len, missed)):
            return done
        pairs = np.unique(np.concatenate([pairs, *missed]), axis=0)
    return dataclasses.replace(done, result=Result.NOT_CONVERGED)


def _of_pairs(
    stepper, tolerance: float, catalog: Catalog, system: System, state: State, memory: Memory, h: float, pairs
) -> tuple[Done, np.ndarray]:
    """The step in which these `pairs` alone may touch, and the velocities (nb, 6 or 3) that move
    the bodies."""
    method = method_of(stepper)
    at = posed(catalog, system, state, memory, h, pairs, "projection")
    still = np.zeros((len(at.problem.motion.position), state.velocity.shape[1]))
    closest = [k.unknowns[:, : s.group.pair.unknowns] for k, s in zip(at.known, at.problem.slots, strict=True)]
    here = [nearest_at(at, form, still, own) for form, own in enumerate(closest)]
    free = _free(method, system, state, h)
    solution, velocity = _solved(method, at, system, state, free, here, h)
    moving = method.moving(state, velocity)
    end = dataclasses.replace(end_state(system, state, moving, h), velocity=velocity)
    acting = dataclasses.replace(state, velocity=velocity)
    parts, known, first, ways, begun, normals = [], [], 0, at.problem.with_fixed(moving), [], []
    for form, (slots, was, (points, _, psi)) in enumerate(zip(at.problem.slots, at.known, here, strict=True)):
        own = np.asarray(solution.gamma)[first : first + len(psi)]
        first += len(psi)
        there, on, gaps = nearest_at(at, form, ways, carried(at, form, ways, points))
        unknowns = np.column_stack([points, own, np.zeros(len(own))])
        record = recorded(catalog, at.problem, slots, was._replace(gaps=psi), unknowns, acting)
        parts.append((slots, dataclasses.replace(record, gap=gaps)))
        unknowns = np.column_stack([there, own, record.sigma])
        known.append(Known(was.pairs, unknowns, record.tangent, record.normal, gaps))
        begun.append(was._replace(unknowns=points, normals=record.normal, gaps=psi))
        normals.append(on[:, 1, 0, : system.dimension])
    violations = certificate(stepper, system, state, end, parts, at.problem.step)
    records = [record for _, record in parts]
    converged, certified = bool(solution.converged) and bool(free.converged), worst_of(violations) <= tolerance
    result = Result.NOT_CONVERGED if not converged else Result.SOLVED if certified else Result.NOT_CERTIFIED
    through = None
    if result == Result.SOLVED:
        through = passed(
            catalog, dataclasses.replace(at, known=tuple(begun)), normals, dataclasses.replace(end, velocity=moving)
        )
    done = Done(
        state=end,
        memory=Memory(tuple(known), memory.held[:0]),
        pairs=np.concatenate([*at.pairs, np.zeros((0, 2), int)]),
        contacts=jax.tree.map(lambda *own: np.concatenate(own), *(records or [no_contacts(system.dimension)])),
        certificate=violations,
        result=Result.PASSED if through else result,
        iterations=int(solution.iterations),
        residual=float(solution.residual),
        rung=0,
        substeps=1,
        residuals={},
        passed=through,
    )
    return done, np.asarray(moving)


@functools.partial(jit, static_argnums=0)
def _free(method: Method, system: System, state: State, h) -> FreeMotion:
    return method.free(system, state, h)


def _solved(
    method: Method, at: Posed, system: System, state: State, free: FreeMotion, here, h: float
) -> tuple[Impulses, np.ndarray]:
    """Impulses (m, 1 + k) [N s] of all contacts, form after form, and the velocities (nb, 6 or 3)
    that they leave."""
    problem, (bodies, width) = at.problem, state.velocity.shape
    count = sum(problem.counts)
    if not count:
        return Impulses(np.zeros((0, 4 if width == 6 else 2)), 0.0, 0, True), np.asarray(free.velocity)
    own = [
        (s.sides[:m], on, psi, *_law(s, m), k.unknowns[:, s.group.pair.unknowns : -1])
        for s, m, k, (_, on, psi) in zip(problem.slots, problem.counts, at.known, here, strict=True)
    ]
    planes = Planes(*(np.concatenate(parts) for parts in zip(*own, strict=True)))
    # all that is fixed is one body more, that nothing moves
    moves = planes.sides < bodies
    planes = planes._replace(sides=np.where(moves, planes.sides, bodies), on=planes.on * moves[:, :, None, None])
    planes = planes.filled(method.size(count), float(system.length))
    solution = method.impulses(system, state, free, planes, h)
    velocity = np.asarray(_answer(free, planes, solution.gamma))
    return dataclasses.replace(solution, gamma=np.asarray(solution.gamma)[:count]), velocity


def _law(slots: Slots, count: int) -> list[np.ndarray]:
    """Semi-axes, mu, compliance [m/N] and dissipation time [s] of the first `count` contacts."""
    given = [getattr(slots.group, name) for name in ("e", "mu", "compliance", "dissipation_time")]
    return [np.zeros(count) if values is None else np.asarray(values)[:count] for values in given]


@jit
def _answer(free: FreeMotion, planes: Planes, impulses):
    """The velocities (nb, 6 or 3) that the impulses (c, 1 + k) [N s] leave."""
    given = planes.momenta(impulses, len(free.A))
    return free.velocity + jnp.linalg.solve(free.A, given[..., None])[..., 0]


def certificate(
    stepper, system: System, before: State, after: State, parts: Sequence[tuple[Slots, Contacts]], step: Step
) -> dict[str, np.ndarray]:
    """Violations by name as the stepper's own certificate has them, of bodies (nb,) or of contacts
    (m,) form by form; `parts`: per form its slots and the records of its contacts."""
    method, h = method_of(stepper), float(step.h)
    acting, free = jax.tree.map(np.asarray, _begun(method, system, before, after.velocity, h))
    nothing = np.zeros((2, len(acting.position), after.velocity.shape[1]))
    # what is fixed answers nothing
    inverse = np.concatenate([np.linalg.inv(free.A), np.zeros((nothing.shape[1] - len(free.A), *free.A.shape[1:]))])
    sums, found = nothing, {}
    for slots, record in parts:
        count = len(record.gap)
        rows = np.minimum(np.arange(len(slots.impulse)), count - 1)
        filled = jax.tree.map(lambda a, rows=rows: np.asarray(a)[rows], record)
        ends, answers = of_sides(acting, slots.sides), inverse[slots.sides]
        checked, given = _of_contacts(method, system, step, ends, answers, slots, filled)
        given = np.asarray(given)[:count]
        for total, own in zip(sums, (given, np.abs(given)), strict=True):
            np.add.at(total, slots.sides[:count], own)
        for name, values in checked.items():
            found.setdefault(name, []).append(np.asarray(values)[:count])
    given, passing = sums[:, : system.body_count]
    momentum, pose = _of_bodies(method, system, before, after, free, given, passing, h)
    contacts = {name: np.concatenate(own) for name, own in found.items()}
    return {"momentum": np.asarray(momentum), "pose": np.asarray(pose), **contacts}


@functools.partial(jit, static_argnums=0)
def _begun(method: Method, system: System, before: State, velocity, h) -> tuple[mechanics.Bodies, FreeMotion]:
    return mechanics.everywhere(system, before.position, before.orientation, velocity), method.free(system, before, h)


@functools.partial(jit, static_argnums=0)
def _of_contacts(method: Method, system: System, step: Step, ends, answers, slots: Slots, records: Contacts):
    """Violations (c,) by name of contacts of one form, and what they give their two bodies (c, 2, 6
    or 3); `answers` (c, 2, w, w): of these to impulses."""

    def one(member, ends, record, impulse):
        own = Units(step.length, step.gap, step.speed, impulse)
        violations, speeds, impulses, frame = lagged_certificate.of_contact(own, True, member, record, *ends)
        given = jnp.stack(mechanics.wrenches(frame, record.normal_impulse, record.friction_impulse))
        return violations, speeds, impulses, given

    violations, speeds, impulses, given = jax.vmap(one)(slots.group, ends, records, slots.impulse)
    laws = method.law_violations(system, step.h, slots, answers, records, speeds, impulses)
    return violations | laws, given


@functools.partial(jit, static_argnums=0)
def _of_bodies(method: Method, system: System, before: State, after: State, free: FreeMotion, given, passing, h):
    balance = method.balance(system, before, after, free, given, passing, h)
    return balance, lagged_certificate.pose(system, before, after, method.moving(before, after.velocity), h)

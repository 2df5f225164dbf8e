"""One step of many bodies: the pairs that may touch in it, its complementarity problem, and the
root from which it ends."""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..collision.global_search import closest_points_cold, one_by_one
from ..constraints import contact, kinematics
from ..constraints.kinematics import Motion
from ..implicit_euler import ncp
from ..model import bodies, rotation
from ..model.bodies import State
from ..model.records import Contacts
from ..model.results import Result
from ..model.system import System
from ..runtime.compilation import jit
from ..solvers import sparse
from . import candidates
from .catalog import Catalog
from .equations import Slots, Step, cut, of_sides
from .linearization import Factored
from .problem import Point, Problem

NEW = 32  # contacts whose closest points are found anew at once
# of the radii: pairs that are farther apart than this, and what bodies move, are left out of a step
_MARGIN = 0.05
MORE_PAIRS = 5  # rounds in which pairs come to a step that turn out to be near in it


class Known(NamedTuple):
    """Contacts of the last step, form by form: `pairs` (m, 2) of parts, unknowns (m, width) in
    physical units, tangents (m, d) that the next friction is measured along, normals (m, d) and
    gaps (m,) [m]."""

    pairs: np.ndarray
    unknowns: np.ndarray
    tangents: np.ndarray
    normals: np.ndarray
    gaps: np.ndarray


class KeptDerivative(NamedTuple):
    """The derivative at a root, of a step of h [s] whose contacts, form by form, are between
    `pairs` of parts: it serves those after it, as long as they have the same."""

    pairs: tuple[np.ndarray, ...]
    h: float
    at: Factored


class Still(NamedTuple):
    """A `step` of h [s] at whose end all is as it was at its start."""

    h: float
    step: Done


class Memory(NamedTuple):
    """The contacts of the last step; pairs (k, 2) of parts that the next one has whether they are
    near or not; the unknowns (n, width) of joints, group by group, in physical units; what is
    `kept` of its derivative; and the step itself, if it was `still`."""

    known: tuple[Known, ...]
    held: np.ndarray
    joints: tuple[np.ndarray, ...] = ()
    kept: KeptDerivative | None = None
    still: Still | None = None


@dataclasses.dataclass(frozen=True)
class Done:
    """A step, or as far as it came: the `state` and `memory` at its end; the `pairs` (m, 2) of
    parts that might touch, and their `contacts`; violations by name; `result`; how much it took,
    and from which rung; `residuals` of its starts by name; of an impact, which contacts `landed`
    (m,) before it; the parts that `passed` through each other, if any did."""

    state: State
    memory: Memory
    pairs: np.ndarray
    contacts: Contacts
    certificate: dict[str, np.ndarray]
    result: Result
    iterations: int
    residual: float
    rung: int
    substeps: int
    residuals: dict[str, float]
    landed: np.ndarray | None = None
    passed: tuple[int, int] | None = None


def lasting(memory: Memory) -> Memory:
    """What a file may hold of it: factors are made again from what they are of."""
    if memory.kept is None:
        return memory
    return memory._replace(kept=memory.kept._replace(at=memory.kept.at._replace(factors=None)))


def no_memory() -> Memory:
    """Before the first step."""
    return Memory((), np.zeros((0, 2), int))


def everywhere(system: System, state: State) -> Motion:
    """All bodies, moving ones first."""
    at_rest = np.zeros((len(system.fixed_position), state.velocity.shape[1]))
    return Motion(
        np.concatenate([state.position, system.fixed_position]),
        np.concatenate([state.orientation, system.fixed_orientation]),
        np.concatenate([state.velocity, at_rest]),
    )


def reaches(catalog: Catalog, system: System, state: State, h: float) -> np.ndarray:
    """How far (np,) [m] points of each part may come in a step of h [s] from `state`, and a
    margin."""
    d, velocity = system.dimension, everywhere(system, state).velocity
    speed = np.linalg.norm(velocity[:, :d], axis=1)[catalog.body]
    spin = np.linalg.norm(velocity[:, d:], axis=1)[catalog.body]
    room = np.where(np.isfinite(catalog.outer), catalog.outer, 0.0)
    lever = np.linalg.norm(catalog.centre, axis=1) + room
    falls = h * float(system.acceleration) * (catalog.body < system.body_count)
    return np.where(_endless(catalog, spin), np.inf, h * (speed + falls + spin * lever) + _MARGIN * room)


def _endless(catalog: Catalog, spin: np.ndarray) -> np.ndarray:
    """Parts (np,) without an end that turn: some points of theirs come as far as you like."""
    return np.isinf(catalog.outer) & (spin > 0)


def may_touch(catalog: Catalog, system: System, state: State, h: float) -> np.ndarray:
    """Pairs (m, 2) of parts that may touch in a step of h [s] from `state`."""
    bodies = everywhere(system, state)
    return candidates.near(catalog, bodies.position, bodies.orientation, reaches(catalog, system, state, h))


def motions(catalog: Catalog, velocity, h: float) -> np.ndarray:
    """At most how far (np,) [m] points of each part move in h [s] if all bodies have the `velocity`
    (n, 6 or 3)."""
    d = catalog.centre.shape[1]
    lever = np.linalg.norm(catalog.centre, axis=1) + np.where(np.isfinite(catalog.outer), catalog.outer, 0.0)
    linear, angular = (np.linalg.norm(part, axis=1)[catalog.body] for part in (velocity[:, :d], velocity[:, d:]))
    return np.where(_endless(catalog, angular), np.inf, h * (linear + angular * lever))


def missed_by(catalog: Catalog, system: System, start: State, end: State, h: float, pairs) -> np.ndarray:
    """Pairs (k, 2) that are not among `pairs`, which hold those of `may_touch`, though they might
    have met on the way: the balls that hold their parts and the way of these overlap."""
    ways = motions(catalog, everywhere(system, end).velocity, h)
    if np.all(ways <= reaches(catalog, system, start, h)):
        return pairs[:0]
    bodies = everywhere(system, start)
    near = candidates.near(catalog, bodies.position, bodies.orientation, ways)
    keys, known = (own[:, 0] * len(catalog.body) + own[:, 1] for own in (near, np.sort(pairs, axis=1)))
    return near[~np.isin(keys, known)]


@jit
def _units(system: System, h):
    units = ncp.scales(system, h)
    return units.velocity, units.momentum, units.length, units.speed, units.gap


@functools.partial(jit, static_argnums=1)
def _bare(system: System, friction: str, state: State, h) -> ncp.StepProblem:
    return ncp.step_problem(system, state, h, (), friction)


@functools.partial(jit, once=True)
def _cold(step: Step, slots: Slots):
    """Unknowns (c, width) of contacts at rest where the step begins, in physical units, tangents,
    normals and gaps."""

    def one(member, starts):
        placed = kinematics.placed(member, *starts)
        closest = closest_points_cold(member.pair, *placed, member.interior_1, member.interior_2, step.length)
        closest, reference = closest[: member.pair.unknowns], jnp.eye(member.pair.dimension)[0]
        geometry = contact.geometry_rows(member, closest, reference, step.length, *starts).geometry
        own = contact.Unknowns(closest, jnp.zeros(()), jnp.zeros_like(member.e), jnp.zeros(()))
        return contact.join(own), geometry.tangents[0], geometry.n, geometry.psi

    return one_by_one(one)(slots.group, slots.starts)


@dataclasses.dataclass(frozen=True)
class Posed:
    """A step's problem and its contacts, form by form: `pairs` (m, 2) of parts, `laws` (m,), and
    where they begin; the derivative that is `kept` of a step with the same. The slots of the
    problem after these are those of joints."""

    problem: Problem
    forms: tuple[int, ...]
    pairs: tuple[np.ndarray, ...]
    laws: tuple[np.ndarray, ...]
    known: tuple[Known, ...]
    start: Point
    kept: Factored | None


def posed(catalog: Catalog, system: System, state: State, memory: Memory, h: float, pairs, friction: str) -> Posed:
    """The problem of a step of h [s] in which `pairs` (m, 2) of parts may touch; it starts where
    `memory` left them."""
    bare = _bare(system, friction, state, h)
    step, bodies = begins(system, state, h)
    velocity = bodies.velocity[: len(state.velocity)]
    pairs, laws = catalog.ordered(pairs)
    numbers = catalog.forms_of(pairs, laws)
    parts = []
    for form in np.unique(numbers):
        own_pairs, own_laws = pairs[numbers == form], laws[numbers == form]
        for start, stop, rows in cut(len(own_pairs)):
            own = slice(start, stop)
            parts.append(_slots(catalog, int(form), own_pairs[own], own_laws[own], rows, step, bodies, memory.known))
    forms, slots, own_pairs, own_laws, known = zip(*parts, strict=True) if parts else ((),) * 5
    contacts = tuple(k.unknowns / s.unknowns[: len(k.pairs)] for k, s in zip(known, slots, strict=True))
    of_joints = zip(bare.system.joints, bare.scales.impulse, bare.scales.unknowns, strict=True)
    joints = tuple(_joints(group, *units, bodies) for group, *units in of_joints)
    pulls = memory.joints or [np.zeros_like(own.unknowns) for own in joints]
    pulls = tuple(own / s.unknowns for own, s in zip(pulls, joints, strict=True))
    counts = *map(len, own_pairs), *(len(own.sides) for own in joints)
    problem = Problem(friction, bare, step, bodies.motion, velocity, (*slots, *joints), counts)
    start = Point(np.asarray(state.velocity) / velocity, (*contacts, *pulls))
    return Posed(problem, forms, own_pairs, own_laws, known, start, _still_fits(memory.kept, own_pairs, h))


def _still_fits(kept: KeptDerivative | None, pairs, h: float) -> Factored | None:
    """What is `kept`, if it is of a step of h [s] with contacts between the same `pairs`."""
    if kept is None or kept.h != h or len(kept.pairs) != len(pairs) or not all(map(np.array_equal, kept.pairs, pairs)):
        return None
    linear, factors = kept.at
    return Factored(linear, sparse.factorised(linear.nodes, linear.links) if factors is None else factors)


def _joints(group, impulse, unknowns, bodies: Bodies) -> Slots:
    """Slots of all n joints of a group, with the units of their impulses (n,) [N s] and unknowns
    (n, width)."""
    sides = np.array(group.bodies)
    slots = Slots(group, sides, of_sides(bodies.motion, sides), None, np.asarray(impulse), np.asarray(unknowns), None, None)
    return dataclasses.replace(slots, velocity=slots.moving(bodies.velocity), momentum=slots.moving(bodies.momentum))


class Bodies(NamedTuple):
    """All bodies, moving ones first: their `motion`, units of `velocity` and `momentum` (n, 6 or
    3), and `mass` (n,) [kg], infinite of those that do not move."""

    motion: Motion
    velocity: np.ndarray
    momentum: np.ndarray
    mass: np.ndarray


def begins(system: System, state: State, h: float) -> tuple[Step, Bodies]:
    """A step of h [s] from `state`, and all bodies where it begins."""
    velocity, momentum, length, speed, gap = (np.asarray(a) for a in _units(system, h))
    still = np.ones((len(system.fixed_position), velocity.shape[1]))
    mass = np.append(np.asarray(system.mass), np.full(len(still), np.inf))
    bodies = Bodies(everywhere(system, state), *(np.concatenate([a, still]) for a in (velocity, momentum)), mass)
    return Step(length, speed, gap, np.asarray(state.time + h), np.asarray(h)), bodies


def empty_slots(catalog: Catalog, form: int, pairs, laws, rows: int, step: Step, bodies: Bodies) -> Slots:
    """Slots of `rows` contacts without a reference, of which the last of `pairs` fills the rest."""
    group = catalog.group(form, pairs, laws, rows)
    sides = catalog.body[pairs[np.minimum(np.arange(rows), len(pairs) - 1)]]
    impulse = step.speed / np.sum(1 / bodies.mass[sides], axis=1)
    starts = of_sides(bodies.motion, sides)
    unknowns = group.unknown_units(step.length, step.speed, impulse)
    none = np.zeros((rows, group.direction.shape[1]))
    slots = Slots(group, sides, starts, none, impulse, unknowns, none, none)
    units = {name: slots.moving(getattr(bodies, name)) for name in ("velocity", "momentum")}
    return dataclasses.replace(slots, **units)


def _slots(catalog: Catalog, form: int, pairs, laws, rows: int, step: Step, bodies: Bodies, known: tuple[Known, ...]):
    """Slots of one form, and what is known of its contacts, those that are new at rest."""
    slots = empty_slots(catalog, form, pairs, laws, rows, step, bodies)
    group, d = slots.group, slots.references.shape[1]
    count = len(pairs)
    found = Known(pairs, np.zeros((count, group.width)), np.zeros((count, d)), np.zeros((count, d)), np.zeros(count))
    parts = len(catalog.body)
    keys = pairs[:, 0] * parts + pairs[:, 1]
    fresh = np.ones(len(pairs), bool)
    for last in known:
        if last.unknowns.shape[1] != group.width:
            continue
        old = last.pairs[:, 0] * parts + last.pairs[:, 1]
        _, here, there = np.intersect1d(keys, old, assume_unique=True, return_indices=True)
        fresh[here] = False
        for name in Known._fields[1:]:
            getattr(found, name)[here] = getattr(last, name)[there]
    new = np.flatnonzero(fresh)
    for first in range(0, len(new), NEW):
        own = new[first : first + NEW]
        cold = _cold(step, empty_slots(catalog, form, pairs[own], laws[own], NEW, step, bodies))
        for values, fresh_values in zip(found[1:], cold, strict=True):
            values[own] = np.asarray(fresh_values)[: len(own)]
    references = np.concatenate([found.tangents, np.repeat(found.tangents[-1:], rows - len(pairs), axis=0)])
    return form, dataclasses.replace(slots, references=references), pairs, laws, found


def end_state(system: System, state: State, V, h: float) -> State:
    """Where physical velocities V (nb, 6 or 3) lead in h [s]."""
    return jax.tree.map(np.asarray, _end(system, state, V, h))


@jit
def _end(system: System, state: State, V, h) -> State:
    end = bodies.moved(state, V, h)
    return dataclasses.replace(end, orientation=rotation.unit(end.orientation))

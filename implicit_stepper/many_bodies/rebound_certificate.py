"""The certificate of an impact of many bodies after a step, from what the run recorded: momenta,
the laws of contact with the velocities after it, of what lands with the sum of the impulses of
both, and no more energy than the bodies brought and the step gave their islands. By Poisson's law,
whose compression nothing records, impulses are asked to push within friction's cone, and bodies not
to approach.

Speeds and impulses have the units of `radau.impact_certificate`; the speeds at which bodies would
have met are written a second time, as roots of a polynomial."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints import certificate_mechanics as mechanics
from ..constraints import joint_violations
from ..constraints.impact_violations import law_violations
from ..constraints.restitution import SLIGHT, SUDDEN, TOUCHING
from ..model.bodies import State
from ..model.records import Contacts
from ..model.system import System
from ..model.units import scales
from ..runtime.compilation import jit, rows_filled_up
from .catalog import Catalog
from .certificate import padded_rows
from .equations import cut, of_sides
from .linked_certificate import joint_laws, linked
from .rebounds import HALVINGS

_FEW, _GROWTH = 32, 4  # contacts that are evaluated at once
_SLOW = 1e-4  # of the speeds of the motion: 1e-10 of that is some 50 roundings of them


def rebound_violations(
    catalog: Catalog,
    system: System,
    states: tuple[State, State, State],
    pairs,
    step: Contacts,
    impact: Contacts,
    h: float,
    first: bool = False,
) -> dict[str, np.ndarray]:
    """Violations by name, of bodies (nb,) and contacts (m,): of the `impact` after a `step` of h
    [s] between `pairs` (m, 2) of parts; `states` are those before the step, after it, and after the
    impact. `first`: whether a run begins with the step, in which what touches may strike."""
    pairs, laws = catalog.ordered(pairs)
    bodies = [jax.tree.map(np.asarray, _everywhere(system, states[1], state.velocity)) for state in states]
    mass, known, jump = (np.asarray(a) for a in _momenta(system, *states, h))
    sides, count, joints = catalog.body[pairs], system.body_count, linked(system, states[1], mass)
    began = jax.tree.map(np.asarray, _everywhere(system, states[0], states[0].velocity))
    approach = -_speeds(bodies[0], sides, step)[0]
    landed, gap = _landed(system, (began, bodies[1]), sides, step, catalog.sharp(pairs), approach, h, first)
    landed &= catalog.laws.restitution[laws] > 0
    landed &= joints.part(sides, lambda: _of_all(_wrenches, bodies[1], sides, _along_normals(step)), landed)
    free = joints.kept(np.linalg.solve(mass, known[..., None])[..., 0], states[1].velocity)
    brought = np.maximum(*(_kinetic(mass, velocity) for velocity in (states[0].velocity, free)))
    brought += joints.of_loads(free - states[0].velocity, states[1].velocity)
    closed = step.gap <= TOUCHING * float(system.length)
    held = np.isin(np.arange(count), sides[closed & ~landed & (np.asarray(step.normal_impulse) > 0)])
    kept = joints.kept(np.where(held[:, None], states[0].velocity, free), states[1].velocity)
    at_rest = np.zeros((len(bodies[0].velocity) - count, free.shape[1]))
    bodies.insert(1, bodies[0]._replace(velocity=np.concatenate([kept, at_rest])))
    speeds = [_speeds(every, sides, step) for every in bodies]
    slight, parting = SLIGHT * np.sqrt(float(system.acceleration * system.length)), np.zeros(len(pairs))
    for number in np.flatnonzero(landed):
        met = _met(gap[number], speeds[0][0][number], speeds[1][0][number], h)
        parting[number] = -catalog.laws.restitution[laws[number]] * met
    of_impulses = catalog.laws.of_impulses
    rebounds = landed & ((parting > slight) | (of_impulses & (speeds[1][0] >= 0)))
    slowest = max(_SLOW * np.max(np.abs(states[1].velocity)), np.max(parting))
    parting = np.where(rebounds & (not of_impulses), parting, 0.0)
    both = _with_the_step(rebounds, step, impact)
    islands = joints.islands(sides, closed | (step.normal_impulse > 0))
    own = islands[joints.moving(sides)]
    brought += joints.given_by(system, islands, *_acting(bodies[2], sides, step, ~rebounds), states[1].velocity)
    shares = _shares(count, own, (parting > 0) & (both.normal_impulse > 0), speeds[3][0], parting)
    bounds = np.where(rebounds, shares * parting, np.minimum(speeds[2][0], 0.0))
    drives = bodies[0]._replace(velocity=np.concatenate([joints.driven(states[1].velocity), at_rest]))
    energies = brought, _kinetic(mass, states[2].velocity), _work(_speeds(drives, sides, step), both)
    fastest = max(np.max(np.abs(bounds)), np.max(np.abs(speeds[2][0])), slowest)
    found, jump = _laws(catalog, system, (pairs, laws), (both, impact), bodies[3], (speeds[3], bounds, fastest), jump)
    units = scales(system, fastest / system.acceleration)
    moved = [abs(getattr(states[2], name) - getattr(states[1], name)).max(axis=1) for name in ("position", "orientation")]
    if system.joints:
        found |= joint_laws(system, units, joints, states[1:], impact.joints)
        jump = jump - np.asarray(joint_violations.given(system, impact.joints))
    return {
        "impact": np.max(np.abs(jump) / np.asarray(units.momentum), axis=1),
        "pose": np.maximum(moved[0] / float(system.length), moved[1]) + abs(states[2].time - states[1].time),
        "energy": _gained(islands, own, np.unique(own[rebounds]), *energies),
        **found,
    }


def _landed(
    system: System, bodies, sides, step: Contacts, sharp, approach, h: float, first: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Which contacts (m,) of a step of h [s] land in it, and the gaps (m,) [m] that they close;
    `bodies` are those before and after it. Those that are `sharp` (m,) have edges or faces: they
    close the gap that the points had at which they press after it, and where they touched before,
    they land if the `approach` (m,) [m/s] of these points was faster than loads and paths that bend
    account for; so do others in the `first` step of a run."""
    before, after = bodies
    touching, began, d = TOUCHING * float(system.length), np.asarray(step.gap_start), before.position.shape[1]
    linear, spins = np.split(np.abs(before.velocity), [d], axis=1)
    spin, speed = (np.sqrt(np.sum(part**2, axis=1)) for part in (spins, linear))
    points, bends = [], np.full(len(sides), float(system.acceleration))
    for body, point in zip(sides.T, (step.point_1, step.point_2), strict=True):
        local = np.einsum("mji,mj->mi", after.rotation[body], point - after.position[body])
        points.append(before.position[body] + np.einsum("mij,mj->mi", before.rotation[body], local))
        lever = np.sqrt(np.sum((point - before.position[body]) ** 2, axis=1))
        bends += spin[body] ** 2 * lever + spin[body] * speed[body]
    gap = np.where(sharp, np.sum(step.normal * (points[1] - points[0]), axis=1), began)
    struck = (np.asarray(step.normal_impulse) > 0) & (approach > SUDDEN * h * bends)
    lands = np.where(began > touching, gap > touching, struck & np.where(sharp, gap > touching, first))
    return lands & (np.asarray(step.gap) <= touching), gap


def _shares(count: int, own, pressed, v_n, parting) -> np.ndarray:
    """What is left (m,) of e of all contacts of an island, `own` (m,) of `count`: halved until
    none that `pressed` (m,) parts with it, at v_n (m,), faster than `parting` (m,)."""
    least = np.ones(count + 1)
    np.minimum.at(least, own[pressed], np.maximum(v_n[pressed] / parting[pressed], np.finfo(float).tiny))
    return 0.5 ** np.clip(np.round(-np.log2(least[own])), 0, HALVINGS)


def _work(speeds, record: Contacts) -> np.ndarray:
    """The work [J] (m,) of joints that drive bodies with these `speeds`, v_n (m,) and slips (m, k),
    of contacts with the impulses of the `record`: against these."""
    v_n, slips = speeds
    return -record.normal_impulse * v_n - np.sum(record.friction_impulse * slips, axis=1)


def _gained(islands, own, hit, brought, left, work) -> np.ndarray:
    """The largest share (1,) of its energy that one of the islands `hit` has gained, in which
    bodies (nb,) `brought` and have `left` [J], and drives did `work` (m,) [J] at `own` (m,)."""
    count = len(islands)
    left, before = (np.bincount(islands[:-1], of, count)[hit] for of in (left, brought))
    before += np.bincount(own, work, count)[hit]
    gains = np.maximum(left - before, 0.0) / np.maximum(before, np.finfo(float).tiny)
    return np.max(gains, initial=0.0, keepdims=True)


def _with_the_step(landed, step: Contacts, impact: Contacts) -> Contacts:
    """The record of the `impact` in which those that `landed` (m,) have the impulses of the step
    too: the step begins what the impact ends, and the law is of their sum."""
    names = ("normal_impulse", "friction_impulse")
    began, more = ([np.asarray(getattr(record, name)) for name in names] for record in (step, impact))
    sums = {name: own + (a.T * landed).T for name, own, a in zip(names, more, began, strict=True)}
    return dataclasses.replace(impact, **sums)


def _laws(catalog: Catalog, system: System, contacts, impulses: tuple[Contacts, Contacts], every, measures, jump):
    """Violations (m,) by name of the law of every contact, and the `jump` (nb, 6 or 3) of momenta
    without what the impulses give; those of which the law is, and of the impact alone."""
    (pairs, laws), ((v_n, slips), bounds, fastest), count = contacts, measures, system.body_count
    units, jump = scales(system, fastest / system.acceleration), np.array(jump)
    forms, sides = catalog.forms_of(pairs, laws), catalog.body[pairs]
    mass = np.append(np.asarray(system.mass), np.full(len(every.position) - count, np.inf))
    found: dict[str, np.ndarray] = {}
    for form in np.unique(forms):
        own = np.flatnonzero(forms == form)
        for start, stop, size in cut(len(own)):
            some = own[start:stop]
            rows = some[np.minimum(np.arange(size), len(some) - 1)]
            group = catalog.group(int(form), pairs[some], laws[some], size)
            alone = [dataclasses.replace(record, joints=None) for record in impulses]
            records = jax.tree.map(lambda a, rows=rows: np.asarray(a)[rows], alone)
            impulse = float(units.speed) / np.sum(1 / mass[sides[rows]], axis=1)
            of = group, *records, v_n[rows] - bounds[rows], slips[rows], impulse, of_sides(every, sides[rows])
            violations, given = jax.tree.map(np.asarray, _checked(catalog.laws.of_impulses, units, *of))
            for name, values in violations.items():
                found.setdefault(name, np.zeros(len(pairs)))[some] = values[: len(some)]
            for side in (0, 1):
                moves = sides[some, side] < count
                np.add.at(jump, sides[some][moves, side], -given[: len(some)][moves, side])
    return found, jump


@functools.partial(jit, static_argnums=0)
def _checked(sums: bool, units, group, both: Contacts, impact: Contacts, v_n, slips, impulse, ends):
    """Violations () of contacts that part at v_n (c,) more than they must, and what their impulses
    in the `impact` give both bodies (c, 2, 6 or 3). Of `sums` of the impulses of two parts less is
    known."""

    def one(member, own, alone, v_n, v, unit, body_1, body_2):
        frame = mechanics.frame_of(own, body_1, body_2)
        given = jnp.stack(mechanics.wrenches(frame, alone.normal_impulse, alone.friction_impulse))
        return law_violations(units, jnp.inf, sums, member, own, v_n, v, v_n, v, unit), given

    return jax.vmap(one)(group, both, impact, v_n, slips, impulse, *ends)


def _speeds(every: mechanics.Bodies, sides, record: Contacts) -> tuple[np.ndarray, np.ndarray]:
    """v_n (m,) and slips (m, k) of all contacts, where the record says that they are."""
    return _of_all(_slips, every, sides, record)


def _of_all(program, every: mechanics.Bodies, sides, record: Contacts):
    """What `program`(record, body_1, body_2) tells of all contacts (m, ...)."""
    numbers = rows_filled_up(len(sides), _FEW, _GROWTH)
    padded = jax.tree.map(lambda a: padded_rows(np.asarray(a), len(numbers)), dataclasses.replace(record, joints=None))
    found = program(padded, *of_sides(every, sides[numbers]))
    return jax.tree.map(lambda a: np.asarray(a)[: len(sides)], found)


@jit
def _slips(record: Contacts, body_1: mechanics.Bodies, body_2: mechanics.Bodies):
    def one(own, first, second):
        return mechanics.slip(mechanics.frame_of(own, first, second), first, second)[:2]

    return jax.vmap(one)(record, body_1, body_2)


def _acting(every: mechanics.Bodies, sides, step: Contacts, some):
    """The bodies (n, 2) of `some` (m,) contacts of a step, what their impulses give both (n, 2, w),
    and the record of its joints."""
    return sides[some], _of_all(_wrenches, every, sides, step)[some], step.joints


def _along_normals(record: Contacts) -> Contacts:
    """The `record` with unit impulses along the normals."""
    ones = np.ones_like(record.normal_impulse)
    return dataclasses.replace(record, normal_impulse=ones, friction_impulse=np.zeros_like(record.friction_impulse))


@jit
def _wrenches(record: Contacts, body_1: mechanics.Bodies, body_2: mechanics.Bodies):
    """What the impulses of the `record` give both bodies (m, 2, 6 or 3)."""

    def one(own, first, second):
        frame = mechanics.frame_of(own, first, second)
        return jnp.stack(mechanics.wrenches(frame, own.normal_impulse, own.friction_impulse))

    return jax.vmap(one)(record, body_1, body_2)


@jit
def _everywhere(system: System, at: State, velocity) -> mechanics.Bodies:
    return mechanics.everywhere(system, at.position, at.orientation, velocity)


@jit
def _momenta(system: System, before: State, end: State, after: State, h):
    """Mass matrices (nb, w, w) at the end of a step of h [s]; momenta (nb, w) by loads alone there;
    and the jump of momenta (nb, w) in the impact."""
    turned = mechanics.rotations(end.orientation)
    known = mechanics.momentum(system, mechanics.rotations(before.orientation), before.velocity)
    known = known + h * mechanics.loads(system, before)
    unit = jnp.broadcast_to(jnp.eye(known.shape[1]), (system.body_count, *[known.shape[1]] * 2))
    matrix = jnp.stack([mechanics.momentum(system, turned, unit[:, :, i]) for i in range(known.shape[1])], axis=-1)
    return matrix, known, mechanics.momentum(system, turned, after.velocity - end.velocity)


def _kinetic(mass, velocity) -> np.ndarray:
    """Kinetic energies (nb,) [J]."""
    return np.einsum("bi,bij,bj->b", velocity, mass, velocity) / 2


def _met(gap: float, start: float, free: float, h: float) -> float:
    """The speed [m/s], 0 at most, with which a gap [m] closes in the part s h of a step in which
    gap + s h (start + s (free - start)) falls to 0, the first s in (0, 1]; that at the end where
    there is none. What touches as the step begins meets then."""
    if gap <= 0 and start < 0:
        return start
    roots = np.roots(np.array([h * (free - start), h * start, gap]))
    parts = [root.real for root in roots if abs(root.imag) <= 1e-12 * abs(root) and 0 < root.real <= 1]
    return min(start + min(parts, default=1.0) * (free - start), 0.0)

"""A few contacts by their own law, and all else with them as the derivative foretells.

Near a root of a large pile Newton's method often stalls at two or three contacts whose friction is
redundant: they slip by 1e-6 m/s, and their direction turns as fast as a correction goes. All the
rest is nearly linear there. So the few are taken out of the system, which then tells how their
velocities answer to their impulses; with these answers their law is solved as it is, along a
central path of its own (`implicit_euler.central_path`), and everything else follows. It is what is
called nonlinear elimination (Lanzkron, Rose and Wilkes 1996).
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..implicit_euler import central_path
from ..runtime.compilation import filled_up, jit, rows_filled_up
from ..solvers import sparse
from ..solvers.complementarity import fischer_burmeister
from ..solvers.newton import Solution, linearized, newton
from . import equations
from .equations import Slots
from .linearization import Linear, correction
from .problem import Point, Problem, Rows, rows, slipping
from .sweeps import nearest, units_of_bodies

_THROWN, _OWN = 8, 4  # contacts that come with a round: that a correction throws, that are off
_OFF = 0.5  # of max |F|: rows of those that come
_ROUNDS, _MOST, _FAR = 2, 32, 100.0  # with more contacts; of these at most; of max |F|: too far off
_LEAST_SCALE = 1e-6  # of the unit of speeds: kappa where the path begins
_FEW, _GROWTH = 32, 4  # contacts that are evaluated at once
_ITERATIONS = 25


class _Few(NamedTuple):
    """Contacts of one form with these `numbers` (k,): their `slots`, padded, and of these
    the unknowns `z` (c, width)."""

    numbers: np.ndarray
    slots: Slots
    z: np.ndarray


class _Law(NamedTuple):
    """k contacts, dimensionless: velocities (v_n, w) are `base` (k, 1 + j) + `answers` (k (1 + j),
    k (1 + j)) times the change of impulses (p_n, y) from those `before` (k, 1 + j)."""

    base: jax.Array
    answers: jax.Array
    before: jax.Array
    mu: jax.Array


def settled(problem: Problem, at: Point, F: Rows, here: Linear, there: Rows) -> tuple[Point, Rows]:
    """Where the contacts lead that are off most at the point, or which its correction throws most,
    to rows `there`, if they settle by their own law; more come to them where that does not halve
    max |F|. The best point so far, which may be the given one, and F there. `here`: the derivative
    at the point, where forces give way as in the correction."""
    numbers = _union(_most(there, F.largest, _THROWN), _most(F, _OFF * F.largest, _OWN))
    best = at, F
    for _ in range(_ROUNDS):
        found = _together(problem, at, F, here, numbers) if 0 < sum(map(len, numbers)) <= _MOST else None
        if found is None or not found[1].largest < _FAR * F.largest:
            break
        best = min(best, found, key=lambda one: one[1].largest)
        if best[1].largest < _OFF * F.largest:
            break
        numbers = _union(numbers, _most(found[1], _OFF * F.largest, _THROWN))
    return best


def _most(F: Rows, bound: float, count: int) -> list[np.ndarray]:
    """The numbers of at most so many contacts, form by form, whose rows are beyond the bound."""
    sizes = [np.max(np.abs(own), axis=1) for own in F.contacts]
    every = np.sort(np.concatenate(sizes))
    bound = max(bound, every[-min(count, len(every))])
    return [np.flatnonzero(own >= bound) for own in sizes]


def _union(some, others) -> list[np.ndarray]:
    return [np.union1d(one, other) for one, other in zip(some, others, strict=True)]


def _together(problem: Problem, at: Point, F: Rows, here: Linear, numbers) -> tuple[Point, Rows] | None:
    """The point at which the contacts with these `numbers`, form by form, obey their own law."""
    local, factors = _without(here, numbers)
    if factors is None:
        return None
    few = [_chosen(*form) if len(form[0]) else None for form in zip(numbers, problem.slots, at.contacts, strict=True)]
    others = [np.array(own) for own in F.contacts]
    for own, chosen in zip(others, numbers, strict=True):
        own[chosen] = 0.0
    base = correction(problem, local, factors, Rows(F.bodies, tuple(others)))
    pushes = np.array(list(_pushes(problem, at, few)))
    found = _impulses(problem, at, few, base.V, -factors.answers(pushes))
    if found is None:
        return None
    change, impulses = found
    by = correction(problem, local, factors, Rows(F.bodies + np.tensordot(change, pushes, 1), tuple(others)))
    V, contacts = at.V + by.V, [z + own for z, own in zip(at.contacts, by.contacts, strict=True)]
    physical, first = _physical(problem, V), 0
    for z, before, one in zip(contacts, at.contacts, few, strict=True):
        if one is not None:
            last, n = first + len(one.numbers), one.slots.group.pair.unknowns
            closest = np.asarray(_nearest(problem, one, physical)[0])[: len(one.numbers)]
            z[one.numbers] = before[one.numbers]
            z[one.numbers, :n] = closest / one.slots.unknowns[: len(one.numbers), :n]
            z[one.numbers, n:-1] = impulses[first:last]
            first = last
    end = Point(V, tuple(contacts))
    return slipping(problem, end, rows(problem, end))


def _without(here: Linear, numbers):
    """What is eliminated in contacts, and the factors of the system, as if those with these
    `numbers` were not there."""
    local, links = [], []
    for own, link, chosen in zip(here.local, here.links, numbers, strict=True):
        empty = {name: np.array(getattr(own, name)) for name in ("alone", "follow", "push")}
        left = {name: np.array(getattr(link, name)) for name in ("rows", "columns", "rest")}
        for values in (*empty.values(), *left.values()):
            values[chosen] = 0
        local.append(dataclasses.replace(own, **empty))
        links.append(link._replace(**left))
    return tuple(local), sparse.factorised(here.nodes, links)


def _chosen(numbers, slots: Slots, z) -> _Few:
    padded = numbers[rows_filled_up(len(numbers), _FEW, _GROWTH)]
    return _Few(numbers, slots.some(padded), z[padded])


def _pushes(problem: Problem, at: Point, few):
    """What an impulse of one does to the rows of bodies (nb, w), of each contact and each of its
    impulses in turn."""
    everyone, width = problem.with_fixed(at.V), at.V.shape[1]
    for one in filter(None, few):
        V, n = one.slots.moving(everyone), one.slots.group.pair.unknowns
        before = np.asarray(equations.evaluated(problem.friction, problem.step, one.slots, V, one.z)[1])
        after = []
        for unknown in range(n, one.z.shape[1] - 1):
            z = np.array(one.z)
            z[:, unknown] += 1.0
            after.append(np.asarray(equations.evaluated(problem.friction, problem.step, one.slots, V, z)[1]) - before)
        for contact, bodies in enumerate(one.slots.movers(len(one.numbers))):
            for pushes in after:
                push = np.zeros_like(at.V)
                np.add.at(push, bodies, pushes[contact].reshape(-1, width))
                yield push


def _physical(problem: Problem, V) -> np.ndarray:
    """Velocities (nb + nf, w) of all bodies in physical units."""
    return problem.with_fixed(V) * units_of_bodies(problem)


def _nearest(problem: Problem, one: _Few, V):
    """Closest points and tangent planes of contacts where the velocities V (nb + nf, w) lead."""
    closest = (one.z * one.slots.unknowns)[:, : one.slots.group.pair.unknowns]
    return nearest(problem.step, one.slots, V[one.slots.sides], closest)


def _impulses(problem: Problem, at: Point, few, base, moves):
    """Changes of the impulses (r,) in their units, and the impulses (k, 1 + j), by which contacts
    obey their law, where velocities V change by `base` (nb, w) and by `moves` (r, nb, w) for each;
    None where no path leads there."""
    planes, before, mu, units = [], [], [], []
    for one in filter(None, few):
        count, n = len(one.numbers), one.slots.group.pair.unknowns
        _, on, speed, _ = (np.asarray(a)[:count] for a in _nearest(problem, one, _physical(problem, at.V)))
        planes.append((on, speed, one.slots.sides[:count]))
        before.append(one.z[:count, n:-1])
        units.append(np.asarray(one.slots.unknowns)[:count, n:-1])
        mu.append(np.asarray(one.slots.group.mu)[:count])

    def speeds(V):
        return np.concatenate([np.einsum("csrw,csw->cr", on, V[sides]) for on, _, sides in planes])

    physical = _physical(problem, at.V + base)
    still = speeds(physical)
    still[:, 0] += np.concatenate([speed for _, speed, _ in planes])
    before, units, mu = np.concatenate(before), np.concatenate(units), np.concatenate(mu)
    answers = np.stack([speeds(_physical(problem, move)).reshape(-1) for move in moves], axis=1)
    unit, size = float(problem.step.speed), float(np.median(units))
    scale = unit * max(float(np.max(np.abs(still))) / unit, _LEAST_SCALE)
    answers = answers / units.reshape(-1) * (size / scale)
    count, missing = len(mu), filled_up(len(mu), _THROWN, 2) - len(mu)
    law = _Law(
        np.pad(still / scale, ((0, missing), (0, 0)), constant_values=1.0),
        np.pad(answers, (0, missing * still.shape[1])),
        np.pad(before * units / size, ((0, missing), (0, 0))),
        np.pad(mu, (0, missing), constant_values=1.0),
    )
    end = central_path.end_of_path(lambda z, kappa: _point(law, z, kappa), _start(law), 1.0)
    if end is None:
        return None
    found = np.asarray(end).reshape(-1, still.shape[1] + 1)[:count, :-1] * size / units
    return (found - before).reshape(-1), found


@jit
def _start(law: _Law):
    """The impulses as they are, and slips of one (k (2 + j),)."""
    return jnp.concatenate([law.before, jnp.ones_like(law.mu)[:, None]], axis=1).reshape(-1)


@jit
def _point(law: _Law, z, kappa) -> Solution:
    """The point of the path at kappa () from z (k (2 + j),)."""
    within = {"tolerance": central_path.tolerance(kappa), "damping": jnp.minimum(1e-12, central_path.damping(kappa))}
    return newton(linearized(lambda z: _rows(law, z, kappa)), z, max_iterations=_ITERATIONS, **within)


def _rows(law: _Law, z, kappa):
    """F (k (2 + j),) of the law at the impulses and the slips sigma in z."""
    z = z.reshape(len(law.mu), -1)
    p, sigma = z[:, :-1], z[:, -1]
    u = law.base + (law.answers @ (p - law.before).reshape(-1)).reshape(p.shape)
    normal = fischer_burmeister(p[:, 0], u[:, 0], kappa)
    friction = p[:, 1:] * sigma[:, None] + (law.mu * p[:, 0])[:, None] * u[:, 1:]
    slip = sigma - jnp.sqrt(jnp.sum(u[:, 1:] ** 2, axis=1) + kappa**2)
    return jnp.concatenate([normal[:, None], friction, slip[:, None]], axis=1).reshape(-1)

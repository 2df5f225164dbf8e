"""Static friction of many bodies: what sticks has the coefficient mu_s until that cannot hold it.

The rule is that of `implicit_euler.breaking_away`: a contact or joint whose slip is nil as a step
begins has mu_s in it; where it slips in the root with mu_s it breaks away, and the step is solved
again with mu, until nothing else does.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..collision.global_search import one_by_one
from ..constraints import contact
from ..constraints.conditions import Constraint
from ..constraints.static_friction import NO_SLIP, slips_of_joints
from ..model.system import System
from ..runtime.compilation import jit
from ..solvers.complementarity import length_of
from ..stepping.run_certificate import HELD, JOINT_HELD
from .catalog import Catalog
from .equations import Slots, Step
from .problem import padded
from .step import Posed


class Coefficients(NamedTuple):
    """Of a step, form by form: `mu` (m,) of contacts, and how fast (m,) [m/s] those with mu_s
    slipped as it began, 0 of others; group by group `joints` with theirs, and the same of them.
    All are empty where there is one coefficient for each."""

    mu: tuple[np.ndarray, ...] = ()
    slips: tuple[np.ndarray, ...] = ()
    joints: tuple[Constraint, ...] = ()
    joint_slips: tuple[np.ndarray, ...] = ()

    def recorded(self, parts: list) -> list:
        """Slots and records (slots, record) of all forms, with these in the records."""
        if not self.mu:
            return parts
        return [(slots, dataclasses.replace(own, mu=mu)) for (slots, own), mu in zip(parts, self.mu, strict=True)]

    def of_joints(self, system: System) -> System:
        """The system whose joints have these."""
        return dataclasses.replace(system, joints=self.joints) if self.joints else system

    def violations(self, unit: float) -> dict[str, np.ndarray]:
        """The slips (m,) of all, in a `unit` [m/s]; no record of a step tells of them."""
        both = {HELD: self.slips, JOINT_HELD: self.joint_slips}
        return {name: np.concatenate(slips) / unit for name, slips in both.items() if slips}


def solved(catalog: Catalog, pose: Callable, problem: Posed, tolerance: float, solve: Callable) -> tuple:
    """The problem with the coefficients of the step; what `solve(pose, problem)` finds of it, a
    `Found`, its rung and its residuals; and the `Coefficients`. `pose(pairs)` poses the step in
    which only these may touch."""
    of_contacts, of_joints = catalog.laws.sticks, problem.problem.bare.system.sticks_more
    if not of_contacts and not of_joints:
        return problem, *solve(pose, problem), Coefficients()
    least = (NO_SLIP + 10 * tolerance) * float(problem.problem.step.speed)
    keys, slips = _keys(catalog, problem), _slips_at_start(problem)
    holds = np.concatenate([np.zeros(0, int), *(own[slip <= least] for own, slip in zip(keys, slips, strict=True))])
    iterations = 0
    while True:
        have = functools.partial(_with_mu_s, catalog, holds)
        own = have(problem)
        found, rung, residuals = solve(lambda pairs, have=have: have(pose(pairs)), own)
        iterations += found.iterations
        ends = [abs(z[:, -1]) * float(problem.problem.step.speed) for z in found.point.contacts]
        left = [k[np.isin(k, holds) & (slip <= least)] for k, slip in zip(keys, ends, strict=True)]
        left = np.concatenate([holds[:0], *left])
        if not found.converged or len(left) == len(holds):
            break
        holds = left
    forms, groups = len(problem.forms), [slots.group for slots in own.problem.slots]
    begun = [np.where(np.isin(k, holds), slip, 0.0) for k, slip in zip(keys, slips, strict=True)]
    contacts = [group.mu[: len(k)] for group, k in zip(groups, keys[:forms], strict=False)] if of_contacts else []
    every = (contacts, begun[: len(contacts)], *((groups[forms:], begun[forms:]) if of_joints else ((), ())))
    return own, found._replace(iterations=iterations), rung, residuals, Coefficients(*map(tuple, every))


def _keys(catalog: Catalog, problem: Posed) -> list[np.ndarray]:
    """A number for each contact, by its pair, and for each joint, form by form and group by
    group."""
    joints = problem.problem.counts[len(problem.forms) :]
    ends = -1 - np.cumsum([0, *joints])
    return [
        *(pairs @ np.array([len(catalog.body), 1]) for pairs in problem.pairs),
        *(end - np.arange(count) for end, count in zip(ends, joints, strict=False)),
    ]


def _slips_at_start(problem: Posed) -> list[np.ndarray]:
    """|w| (m,) [m/s] of all contacts and joints as the step begins, infinite of those that have
    one coefficient."""
    whole, found = problem.problem, []
    for slots, known in zip(whole.slots, problem.known, strict=False):
        if slots.group.mu_s is None:
            found.append(np.full(len(known.pairs), np.inf))
        else:
            found.append(np.asarray(_slips(whole.step, slots, padded(known.unknowns, slots)))[: len(known.pairs)])
    if whole.bare.system.sticks_more:
        of_joints = _slips_of_joints(whole.bare.system, whole.bare.state)
    else:
        of_joints = [None for _ in whole.bare.system.joints]
    counts = whole.counts[len(problem.forms) :]
    return found + [np.full(n, np.inf) if w is None else np.asarray(w) for n, w in zip(counts, of_joints, strict=True)]


def _with_mu_s(catalog: Catalog, holds: np.ndarray, problem: Posed) -> Posed:
    """The problem with mu_s of contacts and joints that `holds` (k,) names by their keys."""
    slots = list(problem.problem.slots)
    for form, own in enumerate(_keys(catalog, problem)):
        group = slots[form].group
        if group.mu_s is not None:
            mu = np.where(padded(np.isin(own, holds), slots[form]), group.mu_s, group.mu)
            slots[form] = dataclasses.replace(slots[form], group=dataclasses.replace(group, mu=mu))
    return dataclasses.replace(problem, problem=dataclasses.replace(problem.problem, slots=tuple(slots)))


_slips_of_joints = jit(slips_of_joints)


@functools.partial(jit, once=True)
def _slips(step: Step, slots: Slots, unknowns):
    def one(member, starts, own, reference):
        closest = own[: member.pair.unknowns]
        geometry = contact.geometry_rows(member, closest, reference, step.length, *starts).geometry
        return length_of(contact.scaled_slip(member, geometry, *starts))

    return one_by_one(one)(slots.group, slots.starts, unknowns, slots.references)

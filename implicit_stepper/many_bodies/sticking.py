"""Static friction of many bodies: what sticks has the coefficient mu_s until that cannot hold it.

The rule is that of `implicit_euler.breaking_away`: a contact whose slip is nil as a step begins has
mu_s in it; where it slips in the root with mu_s it breaks away, and the step is solved again with
mu, until nothing else does.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..collision.global_search import one_by_one
from ..constraints import contact
from ..constraints.static_friction import NO_SLIP
from ..runtime.compilation import jit
from ..solvers.complementarity import length_of
from ..stepping.run_certificate import HELD
from .catalog import Catalog
from .equations import Slots, Step
from .problem import padded
from .step import Posed


class Coefficients(NamedTuple):
    """Of the contacts of a step, form by form: `mu` (m,), and how fast (m,) [m/s] those with mu_s
    slipped as it began, 0 of others. Both are empty where all have one coefficient."""

    mu: tuple[np.ndarray, ...] = ()
    slips: tuple[np.ndarray, ...] = ()

    def recorded(self, parts: list) -> list:
        """Slots and records (slots, record) of all forms, with these in the records."""
        if not self.mu:
            return parts
        return [(slots, dataclasses.replace(own, mu=mu)) for (slots, own), mu in zip(parts, self.mu, strict=True)]

    def violations(self, unit: float) -> dict[str, np.ndarray]:
        """The slips (m,) of all, in a `unit` [m/s]; no record of a step tells of them."""
        return {HELD: np.concatenate(self.slips) / unit} if self.slips else {}


def solved(catalog: Catalog, pose: Callable, problem: Posed, tolerance: float, solve: Callable) -> tuple:
    """What `solve(pose, problem)` finds, a `Found`, its rung and its residuals, and the
    `Coefficients`; `pose(pairs)` poses the step in which only these may touch."""
    if not catalog.laws.sticks:
        return *solve(pose, problem), Coefficients()
    least = (NO_SLIP + 10 * tolerance) * float(problem.problem.step.speed)
    keys = [pairs @ np.array([len(catalog.body), 1]) for pairs in problem.pairs]
    slips = [_slips_of(problem, form) for form in range(len(keys))]
    holds = np.concatenate([np.zeros(0, int), *(own[slip <= least] for own, slip in zip(keys, slips, strict=True))])
    iterations = 0
    while True:
        have = functools.partial(_with_mu_s, catalog, holds)
        own = have(problem)
        found, rung, residuals = solve(lambda pairs, have=have: have(pose(pairs)), own)
        iterations += found.iterations
        ends = [abs(z[:, -1]) * float(problem.problem.step.speed) for z in found.point.contacts[: len(keys)]]
        left = [k[np.isin(k, holds) & (slip <= least)] for k, slip in zip(keys, ends, strict=True)]
        left = np.concatenate([holds[:0], *left])
        if not found.converged or len(left) == len(holds):
            mu = tuple(slots.group.mu[: len(k)] for slots, k in zip(own.problem.slots, keys, strict=False))
            begun = tuple(np.where(np.isin(k, holds), slip, 0.0) for k, slip in zip(keys, slips, strict=True))
            return found._replace(iterations=iterations), rung, residuals, Coefficients(mu, begun)
        holds = left


def _with_mu_s(catalog: Catalog, holds: np.ndarray, problem: Posed) -> Posed:
    """The problem with mu_s of contacts that `holds` (k,) names by their pairs."""
    slots = list(problem.problem.slots)
    for form, pairs in enumerate(problem.pairs):
        on = np.isin(pairs @ np.array([len(catalog.body), 1]), holds)
        group = slots[form].group
        mu = np.where(padded(on, slots[form]), group.mu_s, group.mu)
        slots[form] = dataclasses.replace(slots[form], group=dataclasses.replace(group, mu=mu))
    return dataclasses.replace(problem, problem=dataclasses.replace(problem.problem, slots=tuple(slots)))


def _slips_of(problem: Posed, form: int) -> np.ndarray:
    """|w| (m,) [m/s] of the contacts of one form as the step begins."""
    slots, known = problem.problem.slots[form], problem.known[form]
    found = _slips(problem.problem.step, slots, padded(known.unknowns, slots))
    return np.asarray(found)[: len(known.pairs)]


@functools.partial(jit, once=True)
def _slips(step: Step, slots: Slots, unknowns):
    def one(member, starts, own, reference):
        closest = own[: member.pair.unknowns]
        geometry = contact.geometry_rows(member, closest, reference, step.length, *starts).geometry
        return length_of(contact.scaled_slip(member, geometry, *starts))

    return one_by_one(one)(slots.group, slots.starts, unknowns, slots.references)

"""Implicit steps with the gap in closed form, after Tzitzouris and Pang, for the shapes that have
one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import lax

from shapes.closest_points.closed_form import CLOSED_FORMS
from shapes.closest_points.conditions import PairClass
from shapes.closest_points.mixture import query_of
from shapes.errors import ArgumentError
from shapes.shards import varying_like, when

from ..model.bodies import State
from ..model.checks import one_of
from ..model.records import Contacts, Landing, StepResult
from ..model.system import System, with_queries
from ..model.units import scales
from ..runtime.errors import StepperError
from ..stepping.capabilities import Capabilities
from ..stepping.stepper import entry_point
from .certificate import certificate
from .geometrically_implicit import GeometricallyImplicit, Memory

_BISECTIONS = 50  # of the part of a step after which a contact closes
_LEAST = 1e-9  # of a step: a shorter part is not taken
# times the units of gaps and impulses: what a closed contact's gap, or an open one's impulse, stays
# below
_OPEN = 1e-6


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClosedFormGap:
    """Chakraborty (10) with closest points from formulas: spheres, discs and planes, and what
    `gaps` adds.

    `gaps` holds entries (name of shape class 1, name of shape class 2, function), the function as
    `PairClass.query` wants it. With `land` a step in which a contact closes is cut where it closes,
    and the rest of it follows: two sub-steps. `solver` has the settings of the Newton method.
    Raises `ValueError` naming the argument; `init` does for a pair without a closed form.
    """

    can: ClassVar[Capabilities] = Capabilities(compliance=True, keeps_gaps=True)
    rungs: ClassVar[tuple[str, ...]] = GeometricallyImplicit.rungs

    gaps: tuple[tuple[str, str, Callable], ...] = ()
    land: bool = False
    solver: GeometricallyImplicit = GeometricallyImplicit()

    def __post_init__(self):
        one_of("land", self.land, (True, False))
        for entry in self.gaps:
            if len(entry) != 3 or not callable(entry[2]):
                raise ArgumentError(f"`gaps` has the entry {entry!r}: each is (class name, class name, function).")

    @entry_point
    def init(self, system: System, state: State, closest: tuple | None = None) -> Memory:
        """Raises `ValueError` for a pair without a closed form."""
        self._closed(system)
        return self.solver.init(system, state, closest)

    @entry_point
    def step(self, system: System, state: State, memory: Memory, h) -> StepResult:
        """One step of h [s], or two that add up to it."""
        closed = self._closed(system)
        whole = self.solver.step(closed, state, memory, h)
        if not self.land or not system.groups:
            return whole
        whole = _recorded(whole, whole, jnp.ones(()))
        return when(_arrivals(closed, whole, h), lambda: self._landing(closed, state, memory, h, whole), whole)

    def restarts(self, system: System, state: State, memory: Memory, h) -> Iterator[tuple[str, Memory]]:
        """Those of the Newton method."""
        return self.solver.restarts(self._closed(system), state, memory, h)

    def certificate(self, system: System, before: State, after: State, contacts: Contacts, h) -> dict[str, jax.Array]:
        """`certificate.certificate`; of a step that was cut, the larger violation of its two
        parts."""
        landing = contacts.landing
        if landing is None:
            return certificate(system, before, after, contacts, h)
        first = certificate(system, before, landing.state, landing.contacts, landing.part * h)
        rest = dataclasses.replace(
            contacts,
            normal_impulse=contacts.normal_impulse - landing.contacts.normal_impulse,
            friction_impulse=contacts.friction_impulse - landing.contacts.friction_impulse,
            gap_start=landing.contacts.gap,
            landing=None,
        )
        second = certificate(system, landing.state, after, rest, (1 - landing.part) * h)
        cut = landing.part < 1
        return jax.tree.map(lambda a, b: jnp.where(cut, jnp.maximum(a, b), a), first, second)

    def predicted_gap(self, contacts: Contacts, mu, h):
        """0: the gap is closed at the end of the step."""
        return jnp.zeros_like(contacts.gap)

    def _closed(self, system: System) -> System:
        return with_queries(system, lambda pair: query_of(pair, self._formula))

    def _formula(self, pair: PairClass) -> Callable:
        names = (pair.first.name, pair.second.name)
        known = CLOSED_FORMS | {entry[:2]: entry[2] for entry in self.gaps}
        if names not in known:
            raise StepperError(
                f"there is no closed form for the gap of {names[0]} and {names[1]}: give one in `gaps`, or use "
                "GeometricallyImplicit, ConeComplementarity, Linearized or Convex, which need none."
            )
        return known[names]

    def _landing(self, closed: System, state: State, memory: Memory, h, whole: StepResult) -> StepResult:
        """A step to just before the first contact closes, and one for the rest."""

        def halve(_, bracket):
            low, high = bracket
            middle = (low + high) / 2
            closes = _arrivals(closed, self.solver.step(closed, state, memory, middle * h), middle * h)
            return jnp.where(closes, low, middle), jnp.where(closes, middle, high)

        bracket = varying_like((jnp.zeros(()), jnp.ones(())), whole)
        part, _ = lax.fori_loop(0, _BISECTIONS, halve, bracket)

        def both():
            first = self.solver.step(closed, state, memory, part * h)
            second = self.solver.step(closed, first.state, first.memory, (1 - part) * h)
            total = jax.tree.map(lambda a, b: a + b, first.stats, second.stats)
            contacts = dataclasses.replace(
                second.contacts,
                normal_impulse=first.contacts.normal_impulse + second.contacts.normal_impulse,
                friction_impulse=first.contacts.friction_impulse + second.contacts.friction_impulse,
                gap_start=first.contacts.gap_start,
            )
            stats = dataclasses.replace(
                total, residual=jnp.maximum(first.stats.residual, second.stats.residual), rung=second.stats.rung
            )
            result = jnp.maximum(first.result, second.result)
            total = dataclasses.replace(second, contacts=contacts, stats=stats, result=result)
            return _recorded(total, first, part)

        return when((part > _LEAST) & (part < 1 - _LEAST), both, whole)


def _recorded(step: StepResult, first: StepResult, part) -> StepResult:
    """`step`, of which `first` is the `part` () before the cut."""
    landing = Landing(part, first.state, first.contacts)
    return dataclasses.replace(step, contacts=dataclasses.replace(step.contacts, landing=landing))


def _arrivals(system: System, step: StepResult, h):
    """Whether a contact that was open at the start carries an impulse at the end ()."""
    units = scales(system, h)
    opened = step.contacts.gap_start > _OPEN * units.gap
    carries = step.contacts.normal_impulse > _OPEN * jnp.min(system.mass) * units.speed
    return jnp.any(opened & carries)

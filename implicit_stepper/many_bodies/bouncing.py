"""A step of many bodies, of pairs up to a number, and the impact after it if something that lands
in it rebounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from ..constraints.restitution import SLIGHT, TOUCHING
from ..model.bodies import State
from ..model.records import no_contacts
from ..model.results import Result
from ..model.system import System
from . import impact_joints, rebounds
from .catalog import Catalog
from .certificate import worst_of
from .rebound_certificate import rebound_violations
from .step import Done, Memory, may_touch

_HALVINGS = 4  # of a step whose impact has no root: its halves have others
_BEGUN = 0.5  # of what lands on bodies that stand on faces: so much of it the step stops at least


@dataclasses.dataclass(frozen=True)
class Bouncing:
    """Steps that `take` (catalog, system, state, memory, h) gives, with what rebounds after
    them. Where `most` is given, no more pairs may touch in one."""

    take: Callable[..., Done]
    catalog: Catalog
    system: System
    tolerance: float
    most: int | None = None

    def steps(
        self, at: State, memory: Memory, h: float, left: int = _HALVINGS, first: bool = False
    ) -> Iterator[tuple[Done, float]]:
        """A step of h [s] and its impact, one after another, each with its length [s], or those of
        its halves; up to the first that is not solved. `first`: whether a run begins with it."""
        step = self._taken(at, memory, h)
        hit = self._impact(at, step, h, _BEGUN if left else -np.inf, first) if step.result == Result.SOLVED else None
        if hit is None or hit.result == Result.SOLVED or left == 0:
            yield step, h
            if hit is not None:
                yield hit, 0.0
            return
        for _ in range(2):
            for done, length in self.steps(at, memory, h / 2, left - 1, first):
                yield done, length
                at, memory, first = done.state, done.memory, False
                if done.result != Result.SOLVED:
                    return

    def due(self, before: State, memory: Memory, end: State, h: float) -> Done | None:
        """The impact in the state `end` in which a step of h [s] from the state `before` was cut
        off from it. The step is taken again: what touches in it has no record where it never
        pressed. None if that step is not solved or ends elsewhere, as in another scene."""
        step = self._taken(before, memory, h)
        length, acceleration = float(self.system.length), float(self.system.acceleration)
        off = np.max(np.abs(np.asarray(step.state.position) - end.position)) / (TOUCHING * length)
        faster = np.abs(np.asarray(step.state.velocity) - end.velocity)[:, : self.system.dimension]
        if step.result != Result.SOLVED or off > 1 or np.max(faster) > SLIGHT * np.sqrt(acceleration * length):
            return None
        return self._impact(before, dataclasses.replace(step, state=end), h, -np.inf, False)

    def _taken(self, at: State, memory: Memory, h: float) -> Done:
        """The step of h [s], which is not solved where too many pairs may touch in it: what it
        holds in memory grows with them. Some are found only when it has been taken."""
        if self.most is not None:
            near = may_touch(self.catalog, self.system, at, h)
            if len(near) > self.most:
                return Done(
                    at, memory, near, no_contacts(self.system.dimension), {}, Result.TOO_MANY_PAIRS, 0, np.nan, 0, 0, {}
                )
        step = self.take(self.catalog, self.system, at, memory, h)
        if self.most is not None and len(step.pairs) > self.most:
            return dataclasses.replace(step, result=Result.TOO_MANY_PAIRS)
        return step

    def _impact(self, before: State, step: Done, h: float, begun: float, first: bool) -> Done | None:
        """That after a `step` of h [s] from the state `before`, certified; None if nothing
        rebounds. `begun` and `first` as in `rebounds.rebound`."""
        still = step.memory.still
        if not np.any(self.catalog.laws.restitution) or still is not None and still.h == h:
            return None
        hit = rebounds.rebound(self.catalog, self.system, before, step.state, step.pairs, step.contacts, h, begun, first)
        if hit is None:
            return None
        after = dataclasses.replace(step.state, velocity=hit.velocity)
        added = {name: getattr(hit, name) for name in ("normal_impulse", "friction_impulse", "mu")}
        added |= rebounds.slips_after(self.catalog, self.system, step.state, step.pairs, step.contacts, hit.velocity)
        added["joints"] = impact_joints.recorded(self.system, after, hit.reactions, hit.limits)
        contacts = dataclasses.replace(step.contacts, gap_start=step.contacts.gap, **added)
        states = before, step.state, after
        violations = rebound_violations(self.catalog, self.system, states, step.pairs, step.contacts, contacts, h, first)
        result = Result.SOLVED if hit.converged else Result.IMPACT
        if hit.converged and not worst_of(violations) <= self.tolerance:
            result = Result.NOT_CERTIFIED
        return dataclasses.replace(
            step, state=after, memory=_eased(step.memory, hit), contacts=contacts, certificate=violations,
            result=result, iterations=hit.iterations, residual=hit.residual, rung=hit.halved, substeps=1,
            residuals={"impact": hit.residual}, landed=hit.landed,
        )  # fmt: skip


def _eased(memory: Memory, hit: rebounds.Rebound) -> Memory:
    """A `memory` in which what has parted pushes no more."""
    known, first = [], 0
    for own in memory.known:
        last = first + len(own.pairs)
        unknowns, parted = np.array(own.unknowns), hit.landed[first:last]
        impulses = slice(unknowns.shape[1] - 2 - hit.friction_impulse.shape[1], -1)
        unknowns[parted, impulses] = 0.0
        known.append(own._replace(unknowns=unknowns))
        first = last
    return memory._replace(known=tuple(known), still=None)

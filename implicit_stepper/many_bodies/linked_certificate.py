"""Joints in the certificate of an impact among found pairs, from what the run recorded: G is taken
column by column, as `joint_violations` has it, and what joints answer by least squares."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints import certificate_mechanics as mechanics
from ..constraints import incidence, joint_rows, joint_violations
from ..model.bodies import State
from ..model.records import Joints
from ..model.system import System, in_joint_order, take
from ..model.units import Scales
from ..runtime.compilation import jit

_IMPLIED = 1e-11  # of the largest eigenvalue of G M^-1 G^T: equations that others imply
_NOTHING = 1e-12  # of what a contact would answer without joints: rounding


class Linked(NamedTuple):
    """Bodies with the matrices `mass` (nb, w, w), and G (R, nb, w) of their rigid joints, the
    `rates`, in lengths, for joints with these `numbers` (R,), which link pairs (j, 2) of bodies;
    which bodies are `given` (nb,) their velocities by joints alone."""

    mass: np.ndarray
    rates: np.ndarray
    numbers: np.ndarray
    links: np.ndarray
    given: np.ndarray

    def kept(self, velocity, end) -> np.ndarray:
        """The `velocity` (nb, w) with what joints add so that rates are those at the `end`."""
        if not len(self.rates):
            return velocity
        back = np.linalg.solve(self.mass[None], self.rates[..., None])[..., 0]
        flexibility = np.einsum("rbw,sbw->rs", self.rates, back)
        apart = np.einsum("rbw,bw->r", self.rates, end - velocity)
        diagonal = np.diag(flexibility)
        own = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))  # light bodies hide no heavy ones
        multipliers = own * np.linalg.lstsq(own[:, None] * flexibility * own, own * apart, rcond=_IMPLIED)[0]
        return velocity + np.einsum("r,rbw->bw", multipliers, back)

    def part(self, sides, normals: Callable, landed) -> np.ndarray:
        """Which contacts (m,) between `sides` (m, 2), of those that `landed` (m,), an impulse can
        part, of which `normals`() (m, 2, w) says what unit impulses give both bodies."""
        parts, wrenches = np.ones(len(sides), bool), normals() if len(self.rates) and np.any(landed) else None
        for number in np.flatnonzero(landed) if wrenches is not None else ():
            given, moves = np.zeros(self.mass.shape[:2]), sides[number] < len(self.mass)
            given[sides[number][moves]] = wrenches[number][moves]
            alone = np.linalg.solve(self.mass, given[..., None])[..., 0]
            parts[number] = np.sum(given * self.kept(alone, 0 * alone)) > _NOTHING * np.sum(given * alone)
        return parts

    def driven(self, end) -> np.ndarray:
        """The part (nb, w) of the velocities `end` that rates of joints make, as
        `Answers.driven`."""
        return end - self.kept(end, 0 * end)

    def of_loads(self, falls, end) -> np.ndarray:
        """What (nb,) [J] the work of drives may take part in that loads do in a step, in which
        velocities change by `falls` (nb, w), at the velocities `end`."""
        fastest = np.max(np.abs(np.einsum("rbw,bw->r", self.rates, end)), initial=0.0)
        return fastest * np.sum(np.abs(self.mass @ falls[..., None]), axis=(1, 2))

    def given_by(self, system: System, islands, bodies, wrenches, record: Joints | None, end) -> np.ndarray:
        """What (nb,) [J] the `islands` (nb + 1,) are given in a step by contacts, with `wrenches`
        (m, 2, w) on their `bodies` (m, 2), and by joints that are no constraints, of which it has
        the `record`: the work of each in an island at the velocities `end`, if it is positive."""
        count, found = len(self.mass), np.zeros(len(self.mass) + 1)
        if record is not None:
            others = np.setdiff1d(np.arange(len(record.multipliers)), self.numbers)
            pairs = in_joint_order(system, np.concatenate([np.array(group.bodies) for group in system.joints]))
            on = np.stack([np.asarray(record.impulse_1), np.asarray(record.impulse_2)], axis=1)
            bodies, wrenches = np.concatenate([bodies, pairs[others]]), np.concatenate([wrenches, on[others]])
        # without what is told, to which joints answer
        velocity = np.concatenate([self.kept(end, 0 * end), np.zeros((1, end.shape[1]))])
        of = islands[np.minimum(bodies, count)]  # an island has the number of one of its bodies
        own, other = np.einsum("csw,csw->sc", wrenches, velocity[np.minimum(bodies, count)])
        together = of[:, 0] == of[:, 1]
        own, other = np.where(together, own + other, own), np.where(together, 0.0, other)
        for island, work in zip(of.T, (own, other), strict=True):
            found += np.bincount(island, np.maximum(work, 0.0), minlength=count + 1)
        return found[:-1]

    def moving(self, sides) -> np.ndarray:
        """The body (m,) with the least number on `sides` (m, 2) that joints leave free, or nb."""
        return np.min(self._free(sides), axis=1)

    def _free(self, sides) -> np.ndarray:
        count = len(self.mass)
        return np.where(np.append(self.given, True)[np.minimum(sides, count)], count, sides)

    def islands(self, sides, joined) -> np.ndarray:
        """The least number (nb + 1,) of a body in the island of each, of which contacts (m,) have
        `joined` the two `sides` (m, 2), or rigid joints; the last is that of none."""
        both = np.concatenate([self._free(sides[joined]), self._free(self.links)])
        first, second = both[np.all(both < len(self.mass), axis=1)].T
        least = np.arange(len(self.mass) + 1)
        while True:
            before, lower = least.copy(), np.minimum(least[first], least[second])
            for side in (first, second):
                np.minimum.at(least, side, lower)
            if np.array_equal(before, least):
                return least


def linked(system: System, at: State, mass) -> Linked:
    """The joints of `system` at the poses of `at`, of bodies with the matrices
    `mass` (nb, w, w)."""
    groups, none = joint_rows.rigid(system), np.zeros((0, *np.shape(at.velocity)))
    links = np.concatenate([np.zeros((0, 2), int), *(np.array(group.bodies) for group in groups)])
    numbers = np.concatenate([np.zeros(0, int), *(np.repeat(group.numbers, group.closures) for group in groups)])
    found = Linked(mass, np.asarray(_rates(system, at)) if groups else none, numbers, links, np.zeros(len(mass), bool))
    given = np.zeros(len(mass), bool)
    for body in np.unique(links[links < len(mass)]):
        units = np.zeros((mass.shape[1], *none.shape[1:]))
        units[:, body] = np.eye(mass.shape[1])
        moved = [np.max(np.abs(found.kept(unit, 0 * unit)[body])) for unit in units]
        given[body] = np.max(moved) <= _NOTHING
    return found._replace(given=given)


@jit
def _rates(system: System, at: State):
    """G (R, nb, w), in lengths."""
    orientations, parts = jnp.concatenate([at.orientation, system.fixed_orientation]), []
    every = mechanics.everywhere(system, at.position, at.orientation, at.velocity)

    def one(member, side_1, side_2):
        (position_1, orientation_1, v_1), (position_2, orientation_2, v_2) = side_1, side_2
        poses = [(position_1, orientation_1), (position_2, orientation_2)]
        _, _, *by = joint_violations.derivatives(member, poses, [v_1, v_2], at.time)
        lengths = member.lengths(system.length)
        on = [b[:, : lengths.size] * lengths for b, moves in zip(by, member.moving, strict=True) if moves]
        return jnp.stack(on)

    for group in joint_rows.rigid(system):
        places = every.position, orientations, every.velocity
        sides = [tuple(take(part, n) for part in places) for n in np.array(group.bodies).T]
        own = jax.vmap(one)(group, *sides)  # (n, sides, w, r)
        parts.append(jnp.einsum("nsb,nswr->nrbw", incidence.shares(system, group), own).reshape(-1, *at.velocity.shape))
    return jnp.concatenate(parts)


def joint_laws(
    system: System, units: Scales, of: Linked, states: tuple[State, State], record: Joints
) -> dict[str, np.ndarray]:
    """Violations (nj,) by name of the `record` of an impact between two `states`: "reaction", that
    the impulses are G^T times the multipliers; "closure rate", that rates of rigid joints stay as
    they are, that limits part, and that nothing else has an impulse."""
    found = {name: np.array(values) for name, values in _joint_laws(system, units, states, record).items()}
    rates, rigid = found["closure rate"], np.isin(np.arange(len(record.multipliers)), of.numbers)
    rates[rigid] = 0.0
    change = states[1].velocity - states[0].velocity
    off = mechanics.beyond_rounding(np.einsum("rbw,bw->r", of.rates, change), np.max(np.abs(states[1].velocity)))
    np.maximum.at(rates, of.numbers, np.asarray(off) / float(units.speed))
    return found


@jit
def _joint_laws(system: System, units: Scales, states: tuple[State, State], record: Joints):
    found = joint_violations.impact(system, units, *states, record, False)
    others = [n for group in system.joints if not (group.bilateral or group.unilateral) for n in group.numbers]
    acting = jnp.max(jnp.abs(record.multipliers), axis=1) / jnp.min(units.momentum)
    return found | {"closure rate": found["closure rate"].at[np.array(others, int)].set(acting[np.array(others, int)])}

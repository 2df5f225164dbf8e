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
from ..model.system import System, take
from ..model.units import Scales
from ..runtime.compilation import jit

_IMPLIED = 1e-11  # of the largest eigenvalue of G M^-1 G^T: equations that others imply
_NOTHING = 1e-12  # of what a contact would answer without joints: rounding


class Linked(NamedTuple):
    """Bodies with the matrices `mass` (nb, w, w), and G (R, nb, w) of their rigid joints, the
    `rates`, in the `lengths` (R,) that its rows are measured in, for joints with these `numbers`
    (R,)."""

    mass: np.ndarray
    rates: np.ndarray
    lengths: np.ndarray
    numbers: np.ndarray

    def kept(self, velocity, end) -> tuple[np.ndarray, np.ndarray]:
        """The `velocity` (nb, w) with what joints add to it so that rates are those at the `end`;
        and Lambda (R,)."""
        if not len(self.rates):
            return velocity, np.zeros(0)
        back = np.linalg.solve(self.mass[None], self.rates[..., None])[..., 0]
        flexibility = np.einsum("rbw,sbw->rs", self.rates, back)
        apart = np.einsum("rbw,bw->r", self.rates, end - velocity)
        multipliers = np.linalg.lstsq(flexibility, apart, rcond=_IMPLIED)[0]
        return velocity + np.einsum("r,rbw->bw", multipliers, back), multipliers

    def part(self, sides, normals: Callable, landed) -> np.ndarray:
        """Which contacts (m,) between `sides` (m, 2), of those that `landed` (m,), an impulse can part,
        of which `normals`() (m, 2, w) says what unit impulses give both bodies."""
        parts, wrenches = np.ones(len(sides), bool), normals() if len(self.rates) and np.any(landed) else None
        for number in np.flatnonzero(landed) if wrenches is not None else ():
            given, moves = np.zeros(self.mass.shape[:2]), sides[number] < len(self.mass)
            given[sides[number][moves]] = wrenches[number][moves]
            alone = np.linalg.solve(self.mass, given[..., None])[..., 0]
            parts[number] = np.sum(given * self.kept(alone, 0 * alone)[0]) > _NOTHING * np.sum(given * alone)
        return parts

    def work(self, velocity, records: tuple[Joints, Joints], of_loads, falls) -> float:
        """At most the work [J] of joints that move as they are told at this `velocity` (nb, w): that of
        the `records` of a step, without Lambda `of_loads` (R,), and of the impact after it; and what
        of it the loads take part in, by which velocities change by `falls` (nb, w) in the step."""
        speeds = np.abs(np.einsum("rbw,bw->r", self.rates, velocity))
        of_step, of_impact = (self._multipliers(record) for record in records)
        loads = np.max(speeds, initial=0.0) * np.sum(np.abs(self.mass @ falls[..., None]))
        return float(speeds @ (np.abs(of_step - of_loads) + np.abs(of_impact)) + loads)

    def _multipliers(self, record: Joints) -> np.ndarray:
        """Lambda (R,), in lengths."""
        first = np.concatenate([[True], self.numbers[1:] != self.numbers[:-1]])
        place = np.arange(len(first)) - np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))
        return np.asarray(record.multipliers)[self.numbers, place] / self.lengths


def linked(system: System, at: State, mass) -> Linked:
    """The joints of `system` at the poses of `at`, of bodies with the matrices `mass` (nb, w, w)."""
    if not joint_rows.rigid(system):
        none = np.zeros(0)
        return Linked(mass, np.zeros((0, *np.shape(at.velocity))), none, none.astype(int))
    numbers = [np.repeat(group.numbers, group.closures) for group in joint_rows.rigid(system)]
    return Linked(mass, *map(np.asarray, _rates(system, at)), np.concatenate(numbers))


@jit
def _rates(system: System, at: State):
    """G (R, nb, w) in lengths, and these (R,)."""
    orientations, parts, units = jnp.concatenate([at.orientation, system.fixed_orientation]), [], []
    every = mechanics.everywhere(system, at.position, at.orientation, at.velocity)

    def one(member, side_1, side_2):
        (position_1, orientation_1, v_1), (position_2, orientation_2, v_2) = side_1, side_2
        poses = [(position_1, orientation_1), (position_2, orientation_2)]
        _, _, *by = joint_violations.derivatives(member, poses, [v_1, v_2], at.time)
        lengths = member.lengths(system.length)
        on = [b[:, : lengths.size] * lengths for b, moves in zip(by, member.moving, strict=True) if moves]
        return jnp.stack(on), lengths

    for group in joint_rows.rigid(system):
        places = every.position, orientations, every.velocity
        sides = [tuple(take(part, n) for part in places) for n in np.array(group.bodies).T]
        own, lengths = jax.vmap(one)(group, *sides)  # (n, sides, w, r)
        parts.append(jnp.einsum("nsb,nswr->nrbw", incidence.shares(system, group), own).reshape(-1, *at.velocity.shape))
        units.append(lengths.reshape(-1))
    return jnp.concatenate(parts), jnp.concatenate(units)


def joint_laws(
    system: System, units: Scales, of: Linked, states: tuple[State, State], record: Joints
) -> dict[str, np.ndarray]:
    """Violations (nj,) by name of the `record` of an impact between two `states`: "reaction", that
    the impulses are G^T times the multipliers; "closure rate", that rates of rigid joints stay as
    they are, that limits part, and that nothing else has an impulse."""
    found = {name: np.array(values) for name, values in _joint_laws(system, units, states[1], record).items()}
    rates, rigid = found["closure rate"], np.isin(np.arange(len(record.multipliers)), of.numbers)
    rates[rigid] = 0.0
    change = states[1].velocity - states[0].velocity
    off = mechanics.beyond_rounding(np.einsum("rbw,bw->r", of.rates, change), np.max(np.abs(states[1].velocity)))
    np.maximum.at(rates, of.numbers, np.asarray(off) / float(units.speed))
    return found


@jit
def _joint_laws(system: System, units: Scales, after: State, record: Joints):
    found = joint_violations.impact(system, units, after, record, False)
    others = [n for group in system.joints if not (group.bilateral or group.unilateral) for n in group.numbers]
    acting = jnp.max(jnp.abs(record.multipliers), axis=1) / jnp.min(units.momentum)
    return found | {"closure rate": found["closure rate"].at[np.array(others, int)].set(acting[np.array(others, int)])}

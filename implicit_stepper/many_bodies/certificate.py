"""The certificate of a step of many bodies, from its result alone: the laws of
`constraints.violations`, contact by contact, and the balances of `implicit_euler.certificate`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints import certificate_mechanics as mechanics
from ..constraints import joint_violations, violations
from ..constraints.conditions import Units
from ..constraints.turn_violations import WITHIN, wound
from ..implicit_euler.certificate import of_bodies
from ..implicit_euler.energy import excess_energy, parting_work
from ..model.bodies import State
from ..model.records import Contacts, Joints
from ..model.system import System
from ..model.units import scales
from ..runtime.compilation import jit
from .equations import Slots, Step, of_sides


class Checked(NamedTuple):
    """Contacts of one form: their `record`, violations by name (c,), and what they give their two
    bodies (c, 2, 6 or 3)."""

    violations: dict[str, jax.Array]
    given: jax.Array


def certificate(
    system: System,
    before: State,
    after: State,
    parts: Sequence[tuple[Slots, Contacts]],
    joints: Joints | None,
    step: Step,
) -> dict[str, np.ndarray]:
    """Violations by name, of bodies (nb,), of contacts (m,) form by form or of joints (nj,);
    `parts`: per form its slots, and the records of its contacts, as many as it has rows."""
    h = float(step.h)
    everyone, known, gained, off, free = jax.tree.map(np.asarray, _bodies(system, before, after, h))
    count, width = np.shape(gained)
    balance, passing = np.array(gained - known), np.array(abs(gained) + abs(known))
    found: dict[str, list[np.ndarray]] = {}
    parting = 0.0
    for slots, record in parts:
        rows = len(record.gap)
        filled = jax.tree.map(lambda a, slots=slots: padded_rows(a, len(slots.impulse)), record)
        ends = of_sides(everyone, slots.sides)
        checked = _contacts(step, ends, slots, filled)
        given = np.asarray(checked.given)[:rows]
        sides = slots.sides[:rows]
        for side in (0, 1):
            moves = sides[:, side] < count
            np.add.at(balance, sides[moves, side], -given[moves, side])
            np.add.at(passing, sides[moves, side], np.abs(given[moves, side]))
        for name, values in checked.violations.items():
            found.setdefault(name, []).append(np.asarray(values)[:rows])
        parting += float(parting_work(record.normal_impulse, record.gap_start, h))
    checked = {}
    if joints is not None:
        own, turned = jax.tree.map(np.asarray, _joints(system, before, after, joints, step.h))
        balance, passing, checked = balance - own.given, passing + own.passing, own.violations | {WITHIN: turned}
        free = free + np.maximum(own.work, 0.0)  # of what moves by the clock
    momentum, energy = _balances(system, balance, passing, gained, after, parting, h, free)
    return {
        "momentum": np.asarray(momentum),
        "pose": np.asarray(off),
        "energy": np.asarray(energy)[None],
        **{name: np.concatenate(own) for name, own in found.items()},
        **checked,
    }


@jit
def _bodies(system: System, before: State, after: State, h):
    """All bodies at the end; momenta known and gained (nb, 6 or 3); how far poses are off (nb,);
    the energy of free motion."""
    end, known, gained, off = of_bodies(system, scales(system, h), before, after, h)
    return end, known, gained, off, mechanics.free_energy(system, before, known, h)


@jit
def _joints(system: System, before: State, after: State, joints: Joints, h) -> tuple[joint_violations.Checked, jax.Array]:
    return joint_violations.check(system, scales(system, h), after, joints, h), wound(system, before, after)


@jit
def _contacts(step: Step, ends: tuple[mechanics.Bodies, mechanics.Bodies], slots: Slots, record: Contacts) -> Checked:
    def one(member, ends, own, impulse):
        units = Units(step.length, step.gap, step.speed, impulse)
        found, frame, _ = violations.contact_violations(units, step.h, member, own, impulse, *ends)
        return Checked(found, jnp.stack(mechanics.wrenches(frame, own.normal_impulse, own.friction_impulse)))

    return jax.vmap(one)(slots.group, ends, record, slots.impulse)


@jit
def _balances(system: System, balance, passing, gained, after: State, parting, h, free):
    units = scales(system, h)
    kinetic = jnp.sum(gained * after.velocity) / 2
    worst = jnp.max(mechanics.imbalance(units.momentum, balance, passing), axis=1)
    return worst, excess_energy(system, kinetic, parting, free)


def padded_rows(values, rows: int) -> np.ndarray:
    """`values` (m, ...) with the last one again up to so many `rows`."""
    missing = rows - len(values)
    return np.concatenate([values, np.repeat(values[-1:], missing, axis=0)]) if missing else values


def worst_of(certificate: dict[str, np.ndarray]) -> float:
    """The largest violation, NaN if any is."""
    return float(np.max([np.max(values, initial=0.0) for values in certificate.values()]))

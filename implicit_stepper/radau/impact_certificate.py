"""The certificate of an impact: momenta, and the laws of contact with the velocities after it, from
what a run recorded.

    M (V+ - V-) = sum_c W_c^T P_c,   0 <= P_n _|_ W_n V+ >= 0 where bodies touch

at fixed poses, and maximum dissipation with V+. Where the impulses are sums of several impacts, of
pairs one after another or of the two parts of Poisson's law, what holds of sums is asked for:
momenta, speeds that part, impulses that press within their cones, and no more energy.

Speeds are measured in the fastest at a contact before the impact, impulses in what such a speed
takes; of slow impacts in a fast motion, in 1e-4 of the speeds of the motion, and of what its own
impulses give, as no digits are left of less.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp

from ..constraints import certificate_mechanics as mechanics
from ..constraints import joint_violations
from ..constraints.impact_violations import driving_work, law_violations
from ..constraints.restitution import SLIGHT
from ..model.bodies import State
from ..model.records import Contacts
from ..model.system import System, in_user_order, take
from ..model.units import scales
from ..runtime.compilation import jit

_SLOW = 1e-4  # of the speeds of the motion: 1e-10 of that is some 50 roundings of them


@functools.partial(jit, static_argnums=5)
def impact_violations(
    system: System, before: State, after: State, contacts: Contacts, pressed=0.0, sums: bool = False
) -> dict[str, jax.Array]:
    """Violations by name of the impact from `before` to `after`, whose impulses are those of
    `contacts`: "impact" (momenta) and "pose" are (nb,), "energy" (1,), all others (nc,); zero where
    a law holds. `pressed` (nc,) [N s]: impulses of the step before it, from whose sum with its own
    these were told. `sums`: the impulses are those of several impacts."""
    sums = sums or any(group.of_impulses for group in system.groups)
    ends = [mechanics.everywhere(system, before.position, before.orientation, s.velocity) for s in (before, after)]
    turned, fastest, moving = ends[0].rotation[: system.body_count], [], []
    jump = change = mechanics.momentum(system, turned, after.velocity - before.velocity)
    for group in system.groups:
        record = jax.tree.map(lambda a, group=group: take(a, group.numbers), dataclasses.replace(contacts, joints=None))
        sides = [mechanics.of_contacts(group, end) for end in ends]
        frames = jax.vmap(mechanics.frame_of)(record, *sides[0])
        (v_n, v, _), after_it = (jax.vmap(mechanics.slip)(frames, *of) for of in sides)
        fastest += [jnp.max(jnp.abs(v_n)), jnp.max(mechanics.length(group.e * v))]
        moving.append((group, record, *after_it[:2], v_n, v))
        jump = jump - mechanics.on_bodies(system, group, frames, record.normal_impulse, record.friction_impulse)[0]
    if system.joints:
        fastest += joint_violations.limit_speeds(system, before)
        jump = jump - joint_violations.given(system, contacts.joints)
    spins = mechanics.length(before.velocity[:, system.dimension :]) * system.length
    usual = mechanics.length(before.velocity[:, : system.dimension]) + spins
    usual = jnp.max(usual) + jnp.max(jnp.abs(pressed), initial=0.0) / jnp.min(system.mass)
    speed = jnp.maximum(jnp.max(jnp.array(fastest), initial=0.0), _SLOW * usual)
    # of the time in which loads would give that speed
    units = scales(system, speed / system.acceleration)
    slight = SLIGHT * jnp.sqrt(system.acceleration * system.length)
    laws = [
        jax.vmap(lambda *of: law_violations(units, slight, sums, *of))(*of, P)
        for of, P in zip(moving, units.impulse, strict=False)
    ]
    moved = jnp.abs(after.position - before.position) / system.length
    moved = jnp.concatenate([moved, jnp.abs(after.orientation - before.orientation)], axis=1)
    energies = [jnp.sum(mechanics.momentum(system, turned, s.velocity) * s.velocity) / 2 for s in (before, after)]
    late = any(group.of_impulses for group in system.groups)
    work = driving_work(system, before, after, contacts.joints, change, late) if system.joints else 0.0
    return {
        "impact": jnp.max(jnp.abs(jump) / units.momentum, axis=1),
        "pose": jnp.max(moved, axis=1) + jnp.abs(after.time - before.time) * speed / system.length,
        "energy": (jnp.maximum(energies[1] - energies[0] - work, 0.0) / (energies[0] + jnp.abs(work)))[None],
        **(jax.tree.map(lambda *of: in_user_order(system, jnp.concatenate(of)), *laws) if laws else {}),
        **(joint_violations.impact(system, units, before, after, contacts.joints, sums) if system.joints else {}),
    }


def gain(system: System, violated) -> str:
    """What to say of an impact that is `violated` because energy rises."""
    by_speeds = any(group.restitution is not None and not group.of_impulses for group in system.groups)
    if "energy" not in violated or not by_speeds:
        return ""
    return " Newton's law of impact with friction can raise energy: Poisson(e) did not in any case tried."

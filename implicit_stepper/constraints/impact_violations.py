"""What a record of one contact in an impact lacks of being a solution: the laws of impact with the
velocities after it, from the record alone. Every entry is a violation, dimensionless. And the work
of joints that move as they are told, by which energy may rise in it."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from ..model.bodies import State
from ..model.records import Contacts, Joints
from ..model.system import System, take
from . import certificate_mechanics as mechanics
from . import joint_violations
from .conditions import Constraint, places
from .friction import dissipation_defect
from .restitution import TOUCHING


def law_violations(
    units, slight, sums: bool, member: Constraint, record: Contacts, v_n, v, before, slid, impulse
) -> dict[str, jax.Array]:
    """Violations () of one contact whose bodies have the velocity v_n () and slips v (k,) [m/s]
    after the impact, and the normal velocity `before` () and slips `slid` (k,) before it; rebounds
    slower than `slight` () do not happen."""
    if member.restitution is not None and not sums:
        share = -member.restitution * before
        v_n = v_n - jnp.where(share > slight, share, 0.0)
    p_n, w, on = record.normal_impulse, member.e * v, member.e > 0
    P, apart = jnp.maximum(impulse, p_n), jnp.maximum(jnp.abs(record.gap) / units.length - TOUCHING, 0.0)
    y = jnp.where(on, record.friction_impulse / jnp.where(on, member.e, 1.0), 0.0)
    if member.compliance is not None:  # has no impulse
        apart = jnp.maximum(apart, 1.0)
    found = {
        "gap": jnp.where(apart > 0, 0.0, jnp.maximum(-v_n, 0.0) / units.speed),
        "normal impulse": jnp.maximum(-p_n, 0.0) / P,
        "p_n _|_ f(a2)": jnp.minimum(jnp.abs(p_n) / P, jnp.maximum(jnp.abs(v_n) / units.speed, apart)),
        "no impulse on an axis without friction": jnp.max(jnp.where(on, 0.0, jnp.abs(record.friction_impulse))) / P,
    }
    rubs = _friction(units, member.mu, P, p_n, y, w)
    # what slips neither before it nor after has this one, unless that does not hold it
    if member.mu_s is not None:
        slips = (mechanics.length(member.e * slid) + mechanics.length(w)) / units.speed
        held = {name: value + slips for name, value in _friction(units, member.mu_s, P, p_n, y, w).items()}
        better = functools.reduce(jnp.maximum, held.values()) < functools.reduce(jnp.maximum, rubs.values())
        rubs = {name: jnp.where(better, held[name], value) for name, value in rubs.items()}
    found |= rubs
    if sums:
        found |= {"p_n _|_ f(a2)": jnp.minimum(jnp.abs(p_n) / P, apart), "friction": 0.0 * P, "dissipation": 0.0 * P}
    return found


def _friction(units, mu, P, p_n, y, w) -> dict[str, jax.Array]:
    """Violations () of friction with the coefficient `mu` () and the scaled slip `w` (k,) after the
    impact."""
    sigma = mechanics.length(w)
    F, V = jnp.maximum(P, mu * p_n), jnp.maximum(units.speed, sigma)
    return {
        "cone": jnp.maximum(mechanics.length(y) - mu * p_n, 0.0) / F,
        "friction": jnp.max(jnp.abs(mu * p_n * w + y * sigma)) / (F * V),
        "dissipation": jnp.abs(dissipation_defect(mu, p_n, y, w)) / (F * V),
    }


def driving_work(system: System, before: State, after: State, record: Joints, jump, late: bool):
    """[J] (): the work of the impulses of the `record` between the states `before` and `after` an
    impact, of those joints whose closure changes with time while all bodies stand still. Steps of
    first order leave told bodies with another velocity than they are told. Contacts press them as
    that jumps by what `jump` (nb, w) [N s] says of momenta, or `late`, once it has: in Poisson's
    law, whose compression ends with the velocities of joints."""
    orientations = jnp.concatenate([before.orientation, system.fixed_orientation])
    velocity = (before.velocity + after.velocity) / 2
    every, work = mechanics.everywhere(system, before.position, before.orientation, velocity), jnp.zeros(())

    still = jnp.zeros((len(orientations) - system.body_count, jump.shape[1]))
    jumps, changes = (jnp.concatenate([a, still]) for a in (jump, after.velocity - before.velocity))

    def one(told, member, own, side_1, side_2):
        (position_1, orientation_1, v_1, *jump_1), (position_2, orientation_2, v_2, *jump_2) = side_1, side_2
        poses = [(position_1, orientation_1), (position_2, orientation_2)]
        alone = joint_violations.derivatives(member, poses, [0 * v_1, 0 * v_2], before.time)[1]
        work = own.impulse_1 @ v_1 + own.impulse_2 @ v_2
        if told:
            pressed = ((own.impulse_1, *jump_1), (own.impulse_2, *jump_2))
            work = work + sum((impulse - jump) @ change for impulse, jump, change in pressed) / 2
        return jnp.where(jnp.any(alone != 0), work, 0.0)

    for group in system.joints:
        own = jax.tree.map(lambda a, group=group: take(a, group.numbers), record)
        parts = every.position, orientations, every.velocity, jumps, changes
        told = late and places(group, jump.shape[1])
        sides = [tuple(take(part, n) for part in parts) for n in np.array(group.bodies).T]
        work = work + jnp.sum(jax.vmap(functools.partial(one, told))(group, own, *sides))
    return work

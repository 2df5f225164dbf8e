"""What a record of one contact in an impact lacks of being a solution: the laws of impact with the
velocities after it, from the record alone. Every entry is a violation, dimensionless."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from ..model.records import Contacts
from . import certificate_mechanics as mechanics
from .conditions import Constraint
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

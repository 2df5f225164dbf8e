"""The balances and laws of `Convex`, written a second time, by the mechanics of certificates."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ..constraints import certificate_mechanics as mechanics
from ..constraints.violations import known_momentum
from ..model.bodies import State
from ..model.system import System
from ..model.units import scales
from . import lagged_certificate
from .convex_problem import Law
from .theta_method import FreeMotion, Theta


def balance(theta: Theta, system: System, before: State, after: State, free: FreeMotion, given, passing, h):
    """Violations (nb,) of S (8) and (13), m(v*) = 0 and A (v - v*) = J^T gamma, in a step with the
    `free` motion, where contacts and joints give momenta `given` (nb, 6 or 3), of the size
    `passing`; beyond what rounding makes of the momenta."""
    left = jnp.einsum("bij,bj->bi", free.A, after.velocity - free.velocity) - given
    for at in (before, after):
        passing = passing + jnp.abs(known_momentum(system, at))
    unfree = _unfree(theta, system, before, free.velocity, h)
    units = scales(system, h).momentum
    return jnp.max(mechanics.imbalance(units, jnp.abs(left) + jnp.abs(unfree), passing), axis=1)


def _unfree(theta: Theta, system: System, before: State, velocity, h):
    """m(v) (nb, 6 or 3), S (9): the momentum that bodies gain to `velocity`, less that of loads and
    of the gyroscopic moment, at the poses theta_q and the velocities theta_v between."""
    d, change = system.dimension, velocity - before.velocity
    turn = theta.q * h * (before.velocity + theta.vq * change)
    orientation = mechanics.turned(before.orientation, turn[:, d:])
    rotation, seen = mechanics.rotations(orientation), before.velocity + theta.v * change
    there = State(before.time + theta.q * h, before.position + turn[:, :d], orientation, seen)
    push = mechanics.loads(system, there)
    if d == 3:
        spin = mechanics.momentum(system, rotation, seen)[:, d:]
        push = push.at[:, d:].add(-mechanics.across(seen[:, d:], spin))
    return mechanics.momentum(system, rotation, change) - h * push


def law_violations(speeds, impulses, law: Law, units, *, relaxed: bool) -> dict[str, jax.Array]:
    """Violations by name, each (nc,), of the contacts' `law`, of contacts with (v_n, w) and
    (p_n, y) (nc, 1 + k) at the end: what is left of (v_n - vhat + R_n p_n, w + R_t y) and gamma as
    cone complementarity, which is `relaxed` or not; `units`: an impulse and a speed."""
    unit, speed = units
    largest = jnp.maximum(1.0, impulses[:, :1] / unit)
    normal = speeds[:, 0] - law.vhat + law.R_n * impulses[:, 0]
    along = speeds[:, 1:] + law.R_t[:, None] * impulses[:, 1:]
    d = jnp.concatenate([normal[:, None], along], axis=1) / (speed * largest)
    return lagged_certificate.cone_laws(d, impulses / (unit * largest), law.mu, relaxed=relaxed)

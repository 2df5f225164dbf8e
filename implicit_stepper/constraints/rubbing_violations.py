"""What the friction of a record of joints lacks: the law of `joint_friction` a second time, from
the force and the moment that body 2 has of the joint."""

from __future__ import annotations

import jax.numpy as jnp

from shapes.small_algebra import inner

from . import certificate_mechanics as mechanics
from . import joint_frames
from .certificate_mechanics import beyond_rounding
from .violations import static_friction_violation


def pressed(member, given, side_1, side_2):
    """R () [N s] of a joint that gives body 2 the wrench `given` (6,) or (3,); 0 of a motor. A side
    is (position, rotation, ...)."""
    if member.drives:
        return jnp.zeros(())
    (_, turn_1, *_), (position, turn_2, *_) = side_1, side_2
    d, parameters = position.size, member.parameters
    force, moment = given[:d], given[d:]
    if member.closure is joint_frames.ball_joint:
        return mechanics.length(force)
    axis = inner(turn_1, parameters["frame_1"][:, 0])
    press = force - axis * inner(axis, force)
    if "guide" not in parameters:
        return mechanics.length(press)
    arm = inner(turn_2, parameters["point_2"])
    # about the middle of the guide, whose ends bear it by a couple across the axis
    if d == 2:
        bent = (moment[0] - (arm[0] * force[1] - arm[1] * force[0])) * jnp.stack([-axis[1], axis[0]])
    else:
        bent = mechanics.across(moment - mechanics.across(arm, force), axis)
    return sum(mechanics.length(press / 2 + side * bent / parameters["guide"]) for side in (1.0, -1.0))


def lacks(member, pressed, moments, rates, measures, mu):
    """What is missing () of |y| <= mu R and of y |w| = -mu R w where R is `pressed`, for the
    `moments` (k,) [N m s, or N s] of a joint and the `rates` (k,) of its coordinate or spin, with
    the coefficient `mu` () that is recorded, or None."""
    (size, speed, fast, h), y = measures, moments / member.lever
    told = 0.0
    if member.drives:
        w, bound = member.lever * (rates - member.speed), h * member.most / member.lever
        size = jnp.maximum(size, bound)
    else:
        mu = member.mu if mu is None else mu
        told = jnp.abs(mu - member.mu) if member.mu_s is None else 0.0
        w, bound = member.lever * rates, mu * pressed
    spins = mechanics.length(w)
    beyond, slips = jnp.maximum(mechanics.length(y) - bound, 0.0), beyond_rounding(spins, fast)
    lost = jnp.max(jnp.abs(y + bound * w / jnp.where(spins > 0, spins, 1.0))) * slips
    V = jnp.maximum(speed, slips)
    missing = jnp.maximum(jnp.maximum(beyond / size, lost / (size * V)), told)
    return missing if member.mu_s is None else jnp.maximum(missing, static_friction_violation(member, mu, slips / V))


def lacks_in_impact(member, pressed, moments, rates, measures, slid):
    """What is missing () of the law in an impact, as `lacks` has it, of a joint with a coefficient
    of its own for what sticks: it holds where nothing slips, before the impact at the rates `slid`
    (k,) and after it, unless it does not hold that."""
    slips = sum(mechanics.length(member.lever * w) for w in (slid, rates))
    rubs, held = (lacks(member, pressed, moments, rates, measures, mu) for mu in (member.mu, member.mu_s))
    return jnp.minimum(rubs, held + slips / measures[1])

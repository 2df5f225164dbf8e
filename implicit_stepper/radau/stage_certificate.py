"""The certificate of a step of several stages: the paper's equations at every stage, from what the
step recorded."""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shapes.small_algebra import inner

from ..constraints import certificate_mechanics as mechanics
from ..constraints import joint_violations
from ..constraints.certificate_mechanics import Bodies, Frame, beyond_rounding
from ..constraints.conditions import Constraint
from ..constraints.joint_violations import Checked
from ..constraints.turn_violations import WITHIN, of_stage
from ..constraints.violations import contact_violations, known_momentum, pose_violations, tilt_violation
from ..implicit_euler.energy import excess_energy, parting_work, stored_energy
from ..model.bodies import State
from ..model.records import Contacts
from ..model.system import System, in_user_order, take
from ..model.units import Scales, scales
from ..solvers.collocation import radau
from ..stepping.run_certificate import HELD

_OPEN = 100.0  # the rate of a gap is asked for, by `stages`, where the gap is below this share of it
_SLIGHT = 1e-6  # of g h: bodies that close more slowly than that do so by rounded input
IMPACT_WITHIN = "impact within the step"  # a violation's name


def stage_certificate(system: System, before: State, after: State, contacts: Contacts, h) -> dict[str, jax.Array]:
    """Violations by name, the largest over the stages, of the step of h [s]; see `certificate`.

    "momentum" holds the balance of `stages`; "rates", that T_i and V_i differ by sum_c M^-1 W_n^T
    eta_c; "impact", that the end's velocity is the last stage's, but for what the contacts'
    impulses exceed those of the stages; all (nb,). "eta" (nc,) holds that contacts have an eta only
    where they touch, compliant ones none, and that what carries does not part; "tilt" (nc,), see
    `tilt_violation`; "end" (nc,) is 1 where the contact at the end is not that of the last stage,
    or the stages have another `gap_start`; IMPACT_WITHIN (nc,) holds that no impact falls into the
    step, see `_impact_within`; HELD that what has the coefficient mu_s does not slip as it begins.
    """
    units, own, d = scales(system, h), contacts.stages, system.dimension
    s, nb = own.rates.shape[:2]
    method = radau(s)
    change = h * jnp.einsum("ij,jbw->ibw", method.A, own.rates)
    there = State(
        method.seen(before.time, h),
        before.position + change[..., :d],
        mechanics.turned(before.orientation, change[..., d:]),
        own.velocity,
    )
    at = jax.vmap(functools.partial(mechanics.everywhere, system))(there.position, there.orientation, own.velocity)
    rates = jnp.concatenate([own.rates[..., :d], mechanics.spin(change[..., d:], own.rates[..., d:])], axis=-1)
    jumps = (after.velocity - own.velocity[-1])[None]
    begun, turned = at._replace(velocity=jnp.zeros_like(at.velocity).at[:, :nb].set(before.velocity)), at.rotation[:, :nb]
    momenta, shift, jump = jnp.split(
        mechanics.momentum(
            system,
            jnp.concatenate([turned, turned, turned[-1:]]),
            jnp.concatenate([own.velocity, rates - own.velocity, jumps]),
        ),
        [s, 2 * s],
    )
    known = known_momentum(system, before)
    share, pushed = method.A[-1], h * jax.vmap(functools.partial(mechanics.loads, system))(there)
    # by springs and the work of the loads: contacts only take from it
    free = jnp.sum(known * before.velocity) / 2 + stored_energy(system, contacts.gap_start)
    passing = jnp.abs(momenta) + jnp.abs(known)
    free = jnp.maximum(free + jnp.einsum("i,ibw,ibw->", share, pushed, own.velocity), 0.0)
    kinetic = jnp.sum((momenta[-1] + jump[0]) * after.velocity) / 2
    sums, violations = _Sums(pushed, passing, shift, jump), {}
    if system.joints:
        checked = jax.vmap(lambda *of: joint_violations.check(system, units, *of, h))(there, own.contacts.joints)
        sums, work = _with_joints(system, sums, checked, contacts, share, (own.velocity[-1] + after.velocity) / 2)
        of_turns = jax.vmap(functools.partial(of_stage, system, before, h))
        violations, free = checked.violations | {WITHIN: of_turns(there, rates, change)}, free + work
    sums, of_contacts = _with_contacts(system, units, h, sums, contacts, (at, begun))
    violations |= of_contacts
    balance = momenta - known - jnp.einsum("ij,jbw->ibw", method.A, sums.pushed)
    own_share = np.diag(method.A)[:, None, None]  # of a stage's momentum: what its own force gives in h
    last = dataclasses.replace(jax.tree.map(lambda a: a[-1], there), time=before.time + h)
    return {
        "momentum": jnp.max(mechanics.imbalance(own_share * units.momentum, balance, sums.passing), axis=(0, 2)),
        "rates": jnp.max(mechanics.imbalance(units.momentum, sums.shift, sums.passing), axis=(0, 2)),
        "impact": jnp.max(jnp.abs(sums.jump[0]) / jnp.maximum(units.momentum, jnp.abs(momenta[-1])), axis=1),
        "pose": pose_violations(units, before, after, last, change[-1, :, d:], h),
        "energy": excess_energy(system, kinetic, parting_work(contacts.normal_impulse, contacts.gap_start, h), free)[None],
        "end": jnp.where(_differs(contacts, own.contacts), 1.0, 0.0),
        **{name: jnp.max(values, axis=0) for name, values in violations.items()},
    }


class _Sums(NamedTuple):
    """Over the moving bodies: what pushes them at the stages, (s, nb, 6 or 3), and the magnitudes
    of it that pass; their shifts less those that etas explain (s, nb, 6 or 3); the jump of momenta
    at the end, less what explains it."""

    pushed: jax.Array
    passing: jax.Array
    shift: jax.Array
    jump: jax.Array


def _with_joints(system: System, sums: _Sums, checked: Checked, contacts: Contacts, share, mean) -> tuple[_Sums, jax.Array]:
    """`sums` with what joints do at the stages, `checked`, and with the impulses of the step, those
    of its stages by their `share`; and the work () [J], 0 or more, by which they bring energy, in
    an impact at the end at the `mean` (nb, 6 or 3) of the velocities before and after it."""
    extra = joint_violations.given(system, contacts.joints) - jnp.tensordot(share, checked.given, 1)
    pushed, passing = sums.pushed + checked.given, sums.passing + checked.passing
    work = jnp.maximum(share @ checked.work, 0.0) + jnp.maximum(jnp.sum(extra * mean), 0.0)
    return _Sums(pushed, passing, sums.shift - checked.shifted, sums.jump - extra), work


def _with_contacts(system: System, units: Scales, h, sums: _Sums, contacts: Contacts, bodies) -> tuple[_Sums, dict]:
    """`sums` with what contacts do, and their violations by name, (s, nc); `bodies` are those at
    the stages, and the same with the velocities at the start."""
    own, (at, begun), (pushed, passing, shift, jump), parts = contacts.stages, bodies, sums, []
    share = radau(len(own.rates)).A[-1]
    extra = contacts.normal_impulse - share @ own.contacts.normal_impulse
    extra_friction = contacts.friction_impulse - jnp.einsum("i,ick->ck", share, own.contacts.friction_impulse)
    for group, impulse in zip(system.groups, units.impulse, strict=False):
        of_group = functools.partial(take, numbers=group.numbers)
        kept = dataclasses.replace(own.contacts, joints=None), own.eta, own.tilt
        record, eta, tilt = jax.tree.map(jax.vmap(of_group), kept)
        sides = jax.vmap(functools.partial(mechanics.of_contacts, group))(at)
        one = jax.vmap(functools.partial(_violations_at_stage, units, h))
        violations, frames = jax.vmap(one, (None, 0, 0, None, 0, 0))(group, record, eta, impulse, *sides)
        if tilt is not None:
            leans = functools.partial(jax.vmap(functools.partial(tilt_violation, units)), group)
            violations["tilt"] = jax.vmap(leans, (0, 0, None, 0, 0, 0))(record, tilt, impulse, frames, *sides)
            shift = shift - jax.vmap(functools.partial(mechanics.turning, system, group))(frames, tilt)
        total = functools.partial(mechanics.on_bodies, system, group)
        given, size = jax.vmap(total)(frames, record.normal_impulse, record.friction_impulse)
        pushed, passing = pushed + given, passing + size
        shift = shift - jax.vmap(total)(frames, eta, jnp.zeros_like(record.slip))[0]
        jump = jump - total(jax.tree.map(lambda a: a[-1], frames), of_group(extra), of_group(extra_friction))[0]
        first = jax.vmap(functools.partial(mechanics.of_contacts, group))(begun)
        met = jax.vmap(functools.partial(_impact_within, units, h), (0, 0, 1, 1, 1, 1), 1)
        violations |= {IMPACT_WITHIN: met(group, impulse, frames, record, *first)}
        if record.mu is not None:
            held = jax.vmap(functools.partial(_held, units), (0, 1, 1, 1, 1), 1)(group, frames, record, *first)
            violations |= {HELD: held}
        parts.append(violations)
    in_order = functools.partial(in_user_order, system)
    joined = jax.tree.map(lambda *of: jax.vmap(in_order)(jnp.concatenate(of, axis=1)), *parts) if parts else {}
    return _Sums(pushed, passing, shift, jump), joined


def _violations_at_stage(units: Scales, h, member: Constraint, record: Contacts, eta, impulse, body_1, body_2):
    """`contact_violations` of one contact at one stage, and those of its `eta` () [N s]."""
    violations, frame, rate = contact_violations(units, h, member, record, impulse, body_1, body_2)
    if member.compliance is not None:  # is no constraint that an eta could keep
        return violations | {"eta": jnp.abs(eta) / impulse}, frame
    p_n, gap = record.normal_impulse, jnp.abs(record.gap)
    P, rate = jnp.maximum(impulse, p_n), jnp.maximum(rate - _OPEN * gap / h, 0.0)
    apart = jnp.minimum(jnp.abs(p_n + eta) / P, gap / units.gap)
    return violations | {"eta": jnp.maximum(apart, jnp.minimum(jnp.abs(p_n) / P, rate / units.speed))}, frame


def _impact_within(
    units: Scales, h, member: Constraint, impulse, frames: Frame, record: Contacts, body_1: Bodies, body_2: Bodies
):
    """Violations (s,) of one contact: where it presses at a stage, it touches at the start and does
    not close there,

        0 <= p_n,i _|_ max(psi_0 / h, -W_n V) >= 0        psi_0, W_n and V at the start of the step

    `frames`, `record` and bodies have the axis (s,) of the stages in front, the bodies with their
    velocities V at the start.

    Collocation asks for equations at the stages alone, and an impact leaves them roots that no
    motion has: bodies that touch at the first of three stages part with .91 of the speed that they
    met with, at the second with .75, at the first of two with .80; at the last they stop. What a
    step approximates must be smooth. Then a force within it is there at its start as well, where
    bodies touch, psi_0 = 0, and their gap does not change. Those apart by psi_0 meet within h only
    if they close by psi_0 / h or faster. W_n at the start is what the stages' W_n extrapolate to,
    of which W_n V is uncertain by as much as it varies among the stages. A compliant force begins
    at zero, without an impact."""
    if member.compliance is not None:
        return jnp.zeros_like(record.gap)
    rates, _, fast = jax.vmap(mechanics.slip)(frames, body_1, body_2)
    closing = -radau(len(rates)).at_start @ rates - (jnp.max(rates) - jnp.min(rates))
    far = jnp.sum(jnp.abs(record.point_1) + jnp.abs(record.point_2)) + units.length
    apart = beyond_rounding(jnp.maximum(record.gap_start, 0.0), far) / h
    speed = jnp.maximum(apart, beyond_rounding(jnp.maximum(closing, 0.0), jnp.max(fast)))
    p_n = record.normal_impulse
    return jnp.minimum(jnp.abs(p_n) / jnp.maximum(impulse, p_n), jnp.maximum(speed / units.speed - _SLIGHT, 0.0))


def _held(units: Scales, member: Constraint, frames: Frame, record: Contacts, body_1: Bodies, body_2: Bodies):
    """Violations (s,) of one contact: where it has the coefficient mu_s, it does not slip as the
    step begins. As in `_impact_within`, the slip then is what those of the stages' frames
    extrapolate to, less how much these vary."""
    _, v, fast = jax.vmap(mechanics.slip)(frames, body_1, body_2)
    w = member.e * v
    varies = jnp.sum(jnp.max(w, axis=0) - jnp.min(w, axis=0))
    slip = mechanics.length(radau(len(w)).at_start @ w) - varies
    slips = beyond_rounding(jnp.maximum(slip, 0.0), jnp.max(inner(member.e, fast)))
    return jnp.where(record.mu > member.mu, slips / units.speed, 0.0)


def _differs(contacts: Contacts, stages: Contacts):
    """Whether (nc,) contacts at the end are not those of the last of `stages`, but for impulses."""

    def flat(of: Contacts):
        several = (of.slip, of.point_1, of.point_2, of.normal, of.tangent, of.multipliers_1, of.multipliers_2)
        return jnp.concatenate([jnp.stack([of.gap, of.sigma], axis=-1), *several], axis=-1)

    begun = jnp.any(stages.gap_start != contacts.gap_start, axis=0)
    return begun | jnp.any(flat(contacts) != flat(stages)[-1], axis=-1)

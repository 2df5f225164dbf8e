"""The certificate of a step of several stages: the paper's equations at every stage, from what the step recorded."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp

from . import bodies, contact, kinematics, stages
from .bodies import State
from .certificate import contact_violations, geometry_of
from .collocation import radau
from .energy import excess_energy, kinetic_energy
from .records import Contacts
from .scales import scales
from .system import System, in_user_order, take


def stage_certificate(system: System, before: State, after: State, contacts: Contacts, h) -> dict[str, jax.Array]:
    """Violations by name, the largest over the stages, of the step of h [s] from `before` to `after`; see `certificate`.

    "momentum" holds the balance of `stages`; "rates", that T_i and V_i differ by sum_c M^-1 W_n^T eta_c; "impact", that the
    end's velocity is the last stage's, but for what the contacts' impulses exceed those of the stages; all (nb,).
    """
    units, own = scales(system, h), contacts.stages
    s = len(own.rates)
    problem = stages.stage_problem(system, before, h, (), s, "projection")
    change = h * jnp.einsum("ij,jbw->ibw", radau(s).A, own.rates)
    at = jax.vmap(functools.partial(stages.motion, problem))(own.rates, change)
    over = jax.vmap(jax.vmap(bodies.momentum), (None, None, 0, 0))
    momenta = over(system.mass, system.inertia, at.orientation, own.velocity)
    shift = over(system.mass, system.inertia, at.orientation, at.velocity) - momenta
    jump = jax.vmap(bodies.momentum)(system.mass, system.inertia, at.orientation[-1], after.velocity - own.velocity[-1])
    at = dataclasses.replace(at, velocity=own.velocity)
    times = before.time + h * stages.fractions(problem)
    share, pushed, parts = radau(s).A[-1], h * jax.vmap(functools.partial(stages.loads, problem))(times, at), []
    # by the work of the loads: contacts only take from it. (The paper's scheme would lose some where bodies spin fast.)
    free = kinetic_energy(system, before.orientation, before.velocity)
    free = jnp.maximum(free + jnp.einsum("i,ibw,ibw->", share, pushed, own.velocity), 0.0)
    extra = contacts.normal_impulse - share @ own.contacts.normal_impulse
    extra_friction = contacts.friction_impulse - jnp.einsum("i,ick->ck", share, own.contacts.friction_impulse)
    for group, impulse in zip(system.groups, units.impulse, strict=True):
        of_group = functools.partial(take, numbers=group.numbers)
        record, eta = jax.tree.map(jax.vmap(of_group), (own.contacts, own.eta))
        motions = jax.vmap(lambda m, group=group: kinematics.contact_motions(system, m, group))(at)
        one = jax.vmap(functools.partial(contact_violations, units, h))
        violations, wrenches = jax.vmap(one, (None, 0, None, 0, 0))(group, record, impulse, *motions)
        total = functools.partial(contact.on_bodies, system, group)
        pushed = pushed + jax.vmap(total)(*wrenches)
        none = jnp.zeros_like(record.slip)
        shift = shift - jax.vmap(total)(*jax.vmap(_wrenches)(record, motions, eta, none))
        last, ends = jax.tree.map(lambda a: a[-1], (record, motions))
        jump = jump - total(*_wrenches(last, ends, of_group(extra), of_group(extra_friction)))
        parts.append(violations)
    balance = momenta - problem.momentum - jnp.einsum("ij,jbw->ibw", radau(s).A, pushed)
    in_order = functools.partial(in_user_order, system)
    joined = jax.tree.map(lambda *of: jax.vmap(in_order)(jnp.concatenate(of, axis=1)), *parts) if parts else {}
    return {
        "momentum": jnp.max(jnp.abs(balance / units.momentum), axis=(0, 2)),
        "rates": jnp.max(jnp.abs(shift / units.momentum), axis=(0, 2)),
        "impact": jnp.max(jnp.abs(jump) / jnp.maximum(units.momentum, jnp.abs(momenta[-1])), axis=1),
        "energy": excess_energy(system, after, contacts, h, free)[None],
        **{name: jnp.max(values, axis=0) for name, values in joined.items()},
    }


@jax.vmap
def _wrenches(record: Contacts, motions, p_n, p_f):
    """Of impulses along the record's normal and tangents, on body 1 and body 2 of a contact."""
    centres = [m.position for m in motions]
    return contact.wrenches(geometry_of(record), *centres, p_n, p_f)

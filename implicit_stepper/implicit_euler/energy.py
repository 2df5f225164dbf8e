"""Energy that a step may not create: a root of the complementarity problem with more of it is not
the physical one.

Contact dissipates, apart from pushing overlapping bodies apart; a step's kinetic energy is at most
that of free flight, up to the error of the scheme.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from shapes.shards import varying_like
from shapes.small_algebra import inner

from ..model import bodies
from ..model.bodies import State
from ..model.system import System, take
from ..solvers.linear import small_inverse

# A spurious root once had 4.9 times the energy; over 9800 sampled steps of fast bodies the ratio
# stayed below 1.009.
_RATIO = 1.05
_SLACK = 1e-3  # of m g L: below it a ratio means nothing
# of the fixed point I(Q_next) omega_next = L; each gains a factor h |omega| times the anisotropy of
# I
_SWEEPS = 10


def free_velocity(system: System, state: State, momentum, h):
    """Velocities (nb, 6 or 3) at the end of a step without contact; `momentum` (nb, 6 or 3) as
    `loads.applied_momentum`."""

    def one(mass, inertia, position, orientation, momentum):
        d, inverse = position.shape[0], small_inverse(inertia)

        def sweep(_, velocity):
            _, turned = bodies.advance(position, orientation, velocity, h)
            spin = inner(bodies.world_inertia(inverse, turned), momentum[d:])
            return jnp.concatenate([momentum[:d] / mass, spin])

        still = varying_like(jnp.zeros_like(momentum), (mass, inertia, orientation, momentum, h))
        return jax.lax.fori_loop(0, _SWEEPS, sweep, still)

    return jax.vmap(one)(system.mass, system.inertia, state.position, state.orientation, momentum)


def kinetic_energy(system: System, orientation, velocity):
    """Of all moving bodies () [J]."""
    momentum = jax.vmap(bodies.momentum)(system.mass, system.inertia, orientation, velocity)
    return jnp.sum(momentum * velocity) / 2


def stored_energy(system: System, gap):
    """() [J] in the springs of compliant contacts, at gaps (nc,) [m] in the order of
    `Scene.add_contact`."""
    soft = [group for group in system.groups if group.compliance is not None]
    parts = [jnp.sum(jnp.minimum(take(gap, g.numbers), 0.0) ** 2 / (2 * g.compliance)) for g in soft]
    return sum(parts, jnp.zeros(()))


def created(system: System, before: State, after: State, h, share, pushed, velocities):
    """Energy () that a step of s stages gained and no force accounts for, relative to the kinetic
    energy and sum m g L.

    `pushed` (s, nb, 6 or 3) [N s, N m s]: what the forces at the stages would give in h;
    `velocities` (s, nb, 6 or 3) at them; `share` (s,), the weights of the stages. Of order 2 s, as
    the error of the step.
    """
    d = system.dimension
    work = jnp.einsum("i,ibw,ibw->", share, pushed, velocities)
    # bodies rise with the rates of their positions, which GGL keeps apart from their velocities
    apart = after.position - before.position - h * jnp.einsum("i,ibd->bd", share, velocities[..., :d])
    lifted = -jnp.sum(system.mass * (apart @ system.gravity))
    start, end = (kinetic_energy(system, state.orientation, state.velocity) for state in (before, after))
    return (end - start + lifted - work) / (end + jnp.sum(system.mass) * system.acceleration * system.length)


def parting_work(p_n, gap_start, h):
    """The work () [J] that at most parts bodies in overlap, by impulses `p_n` (nc,) [N s] from gaps
    (nc,) [m]."""
    return (p_n * -gap_start.clip(max=0.0)).sum() / h


def excess_energy(system: System, kinetic, parting, free):
    """How far the `kinetic` energy () [J] after a step exceeds 1.05 times `free` () [J], that of
    the motion without contact, in units of m g L (), >= 0.

    Bodies that overlap at the start part with depth/h, which costs the work p_n depth/h, of all
    `parting` () [J]. A compliant contact parts them less far, and gives back less than that.
    """
    unit = jnp.sum(system.mass) * system.acceleration * system.length
    allowed = _RATIO * free + _SLACK * unit + parting
    return jnp.maximum(kinetic - allowed, 0.0) / unit

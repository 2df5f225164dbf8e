"""One contact: how impulses at the closest points act on two bodies, and how fast these points slip.

The columns W_n, W_t, W_o, W_r of Chakraborty (1) are kept as two maps that are transposes of each other: `wrenches` takes
impulses to bodies, `slip_velocities` takes body velocities to the contact. Impulses act on body 2 as they are written, and
with the opposite sign on body 1.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from shapes.closest_points.conditions import ContactGeometry
from shapes.small_algebra import inner

from ..model import rotation
from ..model.system import ContactGroup, System
from . import kinematics
from .kinematics import Motion


def wrenches(geometry: ContactGeometry, centre_1, centre_2, p_n, p_f):
    """Impulsive wrenches (6,) or (3,) on body 1 and body 2 about their centres.

    p_n () [N s]; p_f = (p_t, p_o [N s], p_r [N m s]), or (p_t,) in the plane. Inertial frame.
    """
    d = geometry.n.shape[0]
    impulse = p_n * geometry.n + inner(geometry.tangents.T, p_f[: d - 1])
    drill = p_f[d - 1] * geometry.n if d == 3 else jnp.zeros(1)
    on_1 = jnp.concatenate([-impulse, -rotation.moment(geometry.a1 - centre_1, impulse) - drill])
    on_2 = jnp.concatenate([impulse, rotation.moment(geometry.a2 - centre_2, impulse) + drill])
    return on_1, on_2


def shares(system: System, group: ContactGroup) -> np.ndarray:
    """(nc, sides, nb): 1 where the body on a moving side of a contact is that one. Sums over contacts with it are one
    kernel; a scatter would be a loop over the contacts, which takes as long as all the rest of a residual."""
    return np.stack([np.eye(system.body_count)[np.array(group.bodies)[:, i]] for i in (0, 1) if group.moving[i]], axis=1)


def by_body(share: np.ndarray, by_side):
    """What (nc, k, sides w) depends on bodies by the sides that they are on, as a matrix (nc, k, nb w) of all bodies."""
    (nc, sides, nb), (_, k, acting) = share.shape, by_side.shape
    parts = by_side.reshape(nc, k, sides, 1, acting // sides)
    return jnp.sum(parts * share[:, None, :, :, None], axis=2).reshape(nc, k, nb * acting // sides)


def on_bodies(system: System, group: ContactGroup, on_1, on_2):
    """Sum (nb, 6 or 3) over the moving bodies of what acts on body 1 and body 2 of each contact, two (nc, 6 or 3)."""
    acting = jnp.stack([on for on, moves in zip((on_1, on_2), group.moving, strict=True) if moves], axis=1)
    return jnp.sum(shares(system, group)[..., None] * acting[:, :, None], axis=(0, 1))


def slip_velocities(geometry: ContactGeometry, centre_1, centre_2, velocity_1, velocity_2):
    """Velocity of body 2 relative to body 1 at the contact: W_n.nu () [m/s] and (v_t, v_o [m/s], v_r [rad/s]), or (v_t,)."""
    d = geometry.n.shape[0]
    relative = rotation.point_velocity(velocity_2, geometry.a2 - centre_2) - rotation.point_velocity(
        velocity_1, geometry.a1 - centre_1
    )
    tangential = inner(geometry.tangents, relative)
    if d == 3:
        spin = inner(geometry.n, velocity_2[3:] - velocity_1[3:])
        tangential = jnp.concatenate([tangential, spin[None]])
    return inner(geometry.n, relative), tangential


def geometry_rows(member: ContactGroup, closest, reference, length, motion_1: Motion, motion_2: Motion, angle=1.0):
    """Closest-point rows of one contact at its bodies' poses; `reference` (d,) orients isotropic friction's tangents."""
    first, second = kinematics.placed(member, motion_1, motion_2)
    own = inner(rotation.matrix(motion_1.orientation), member.direction)
    reference = jnp.where(jnp.any(member.direction != 0), own, reference)
    return member.pair.rows(closest, first, second, reference, length, angle)

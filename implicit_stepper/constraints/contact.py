"""One contact: its unknowns, how its impulses act on two bodies, and how fast its points slip.

The columns W_n, W_t, W_o, W_r of Chakraborty (1) are kept as two maps that are transposes of each
other: `wrenches` takes impulses to bodies, `slip_velocities` takes body velocities to the contact.
Impulses act on body 2 as they are written, and with the opposite sign on body 1.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from shapes.closest_points.conditions import ContactGeometry
from shapes.small_algebra import inner

from ..model import rotation
from . import kinematics
from .kinematics import Motion


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Unknowns:
    """One contact's unknowns in physical units: closest-point unknowns, p_n [N s], y (k,) [N s],
    sigma [m/s]."""

    closest: jax.Array
    p_n: jax.Array
    y: jax.Array
    sigma: jax.Array


def split(group, unknowns) -> Unknowns:
    """One contact's unknowns (width,) by name."""
    n = group.pair.unknowns
    return Unknowns(unknowns[:n], unknowns[n], unknowns[n + 1 : -1], unknowns[-1])


def join(unknowns: Unknowns):
    """Inverse of `split`."""
    return jnp.concatenate([unknowns.closest, unknowns.p_n[None], unknowns.y, unknowns.sigma[None]])


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


def slip_velocities(geometry: ContactGeometry, centre_1, centre_2, velocity_1, velocity_2):
    """Velocity of body 2 relative to body 1 at the contact: W_n.nu () [m/s] and (v_t, v_o [m/s],
    v_r [rad/s]), or (v_t,)."""
    d = geometry.n.shape[0]
    relative = rotation.point_velocity(velocity_2, geometry.a2 - centre_2) - rotation.point_velocity(
        velocity_1, geometry.a1 - centre_1
    )
    tangential = inner(geometry.tangents, relative)
    if d == 3:
        spin = inner(geometry.n, velocity_2[3:] - velocity_1[3:])
        tangential = jnp.concatenate([tangential, spin[None]])
    return inner(geometry.n, relative), tangential


def geometry_rows(member, closest, reference, length, motion_1: Motion, motion_2: Motion, angle=1.0):
    """Closest-point rows of one contact at its bodies' poses; `reference` (d,) orients isotropic
    friction's tangents."""
    first, second = kinematics.placed(member, motion_1, motion_2)
    return member.pair.rows(closest, first, second, along(member, motion_1, reference), length, angle)


def along(member, motion_1: Motion, reference):
    """What (d,) tangents of one contact follow: friction's own direction, where it has one, with
    body 1, else the `reference` (d,)."""
    own = inner(rotation.matrix(motion_1.orientation), member.direction)
    return jnp.where(jnp.any(member.direction != 0), own, reference)


def scaled_slip(member, geometry: ContactGeometry, motion_1: Motion, motion_2: Motion):
    """w = (e_t v_t, e_o v_o, e_r v_r), or (e_t v_t,) [m/s]."""
    _, slip = slip_velocities(geometry, motion_1.position, motion_2.position, motion_1.velocity, motion_2.velocity)
    return member.e * slip

"""The mechanics of rigid bodies that certificates use: written a second time, from the equations.

No solver uses this module, and it uses none of theirs (`rotation`, `bodies`, `kinematics`,
`contact`), so that a wrong lever or a wrong rotation there cannot vouch for itself. A point at r
from the centre of a body that turns with omega moves with v + sum_k omega_k S_k r, and an impulse f
at it has the moments f . S_k r: both need only the `arms` S_k r, with S_k the generators of
rotations, three in space and one in the plane.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shapes.closest_points.conditions import Placed
from shapes.shards import varying_like
from shapes.small_algebra import inner, product

from ..model.bodies import State
from ..model.records import Contacts
from ..model.system import System, take
from .contact_group import ContactGroup

_GENERATORS = {
    2: np.array([[[0.0, -1.0], [1.0, 0.0]]]),
    3: np.array(
        [
            [[0.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]],
            [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [-1.0, 0.0, 0.0]],
            [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
        ]
    ),
}
# Two correct ways to compute the same differ by a few roundings of the largest number that they
# pass through.
_ROUNDINGS = 16
# of the fixed point I(Q_next) omega_next = L; each gains a factor h |omega| times the anisotropy of
# I, and where that is more than 1, as with fast needles, they lead nowhere
_SWEEPS = 10
_SETTLED = 1e-3  # of the energy: what the last sweep may change of it


class Bodies(NamedTuple):
    """Position (..., d) [m], rotation (..., d, d) from body to inertial frame, velocity (..., 6 or
    3)."""

    position: jax.Array
    rotation: jax.Array
    velocity: jax.Array


class Frame(NamedTuple):
    """Where a contact's impulses act: `axes` (d, d), its rows n, t (and o = n x t); `arms_i` (k, d)
    of the closest points about the centres of body 1 and body 2."""

    axes: jax.Array
    arms_1: jax.Array
    arms_2: jax.Array


def beyond_rounding(difference, size):
    """|difference|, less what rounding may make of a difference between numbers of `size`."""
    return jnp.maximum(jnp.abs(difference) - _ROUNDINGS * jnp.finfo(float).eps * size, 0.0)


def length(v):
    """|v| of vectors (..., k)."""
    return jnp.sqrt(inner(v, v))


def arms(r):
    """S_k r (..., k, d) of r (..., d)."""
    return inner(_GENERATORS[r.shape[-1]], r[..., None, None, :])


def across(omega, v):
    """omega x v (..., 3), summed over the arms of v."""
    return jnp.sum(omega[..., None] * arms(v), axis=-2)


def rotations(orientation):
    """R (..., d, d) of angles (..., 1), or of unit quaternions (..., 4) as w^2 + v v^T + 2 w [v]x +
    [v]x [v]x."""
    if orientation.shape[-1] == 1:
        turn = orientation[..., None]
        return jnp.cos(turn) * np.eye(2) + jnp.sin(turn) * _GENERATORS[2][0]
    w, v = orientation[..., :1, None], orientation[..., 1:]
    columns = jnp.swapaxes(arms(v), -1, -2)  # S_k v = e_k x v = -[v]x e_k
    squared = inner(columns[..., :, None, :], jnp.swapaxes(columns, -1, -2)[..., None, :, :])
    return w**2 * np.eye(3) + v[..., :, None] * v[..., None, :] - 2 * w * columns + squared


def turned(orientation, turn):
    """Orientation (..., 4 or 1) after the rotation vector `turn` (..., 3 or 1) [rad] of the
    inertial frame: the solution cos(a/2) q + sin(a/2)/a (turn q) of q' = omega q / 2 at constant
    omega."""
    if orientation.shape[-1] == 1:
        return orientation + turn
    angle = length(turn)[..., None]
    w, v = orientation[..., :1], orientation[..., 1:]
    rate = jnp.concatenate([-inner(turn, v)[..., None], w * turn + across(turn, v)], axis=-1)
    return jnp.cos(angle / 2) * orientation + jnp.sin(angle / 2) / jnp.where(angle > 0, angle, 1.0) * rate


def orientation_rate(orientation, omega):
    """How an orientation (4,) or (1,) changes at the angular velocity `omega` (3,) or (1,): omega q
    / 2."""
    if orientation.shape[-1] == 1:
        return omega
    w, v = orientation[:1], orientation[1:]
    return jnp.concatenate([-inner(omega, v)[None], w * omega + across(omega, v)]) / 2


def spin(turn, rate):
    """Angular velocity (..., 3 or 1) of a body turned by the rotation vector `turn` that changes at
    `rate`: Rodrigues' parts along the axis and across it."""
    if turn.shape[-1] == 1:
        return rate
    angle = length(turn)[..., None]
    some = jnp.where(angle > 0, angle, 1.0)
    axis, sinc = turn / some, jnp.where(angle > 0, jnp.sin(angle) / some, 1.0)
    along = inner(axis, rate)[..., None] * axis
    return along + sinc * (rate - along) + 2 * jnp.sin(angle / 2) ** 2 / some * across(axis, rate)


def everywhere(system: System, position, orientation, velocity) -> Bodies:
    """All bodies, moving ones first, from those (nb, ...) of the moving ones."""
    at_rest = jnp.zeros((len(system.fixed_position), velocity.shape[-1]))
    return Bodies(
        jnp.concatenate([position, system.fixed_position]),
        rotations(jnp.concatenate([orientation, system.fixed_orientation])),
        jnp.concatenate([velocity, at_rest]),
    )


def of_contacts(group: ContactGroup, every: Bodies) -> tuple[Bodies, Bodies]:
    """Body 1 and body 2 of each contact of a group."""
    sides = np.array(group.bodies).T
    return tuple(Bodies(*(take(part, numbers) for part in every)) for numbers in sides)


def placed(member: ContactGroup, body_1: Bodies, body_2: Bodies) -> tuple[Placed, Placed]:
    """The two shapes of one contact."""
    sides = (
        (member.theta_1, member.slope_1, member.frame_1, body_1),
        (member.theta_2, member.slope_2, member.frame_2, body_2),
    )
    found = []
    for theta, slope, frame, body in sides:
        centre, turn = body.position, body.rotation
        if frame is not None:
            centre, turn = centre + inner(turn, frame.position), product(turn, frame.rotation)
        found.append(Placed(theta, slope, centre, turn))
    return tuple(found)


def frame_of(record: Contacts, body_1: Bodies, body_2: Bodies) -> Frame:
    """Of one contact, where its record says that its bodies meet."""
    n, t = record.normal, record.tangent
    axes = [n, t] if n.shape == (2,) else [n, t, across(n, t)]
    return Frame(jnp.stack(axes), arms(record.point_1 - body_1.position), arms(record.point_2 - body_2.position))


def slip(frame: Frame, body_1: Bodies, body_2: Bodies):
    """v_n (), slip (k,) of body 2 against body 1, and the sizes (k,) of the numbers by which
    rounding enters the slip."""
    d = frame.axes.shape[0]
    points = [
        jnp.concatenate([body.velocity[:d, None], (body.velocity[d:, None] * own).T], axis=1)
        for body, own in ((body_1, frame.arms_1), (body_2, frame.arms_2))
    ]
    terms = points[1] - points[0]
    relative = inner(frame.axes, jnp.sum(terms, axis=1))
    size = jnp.full(d - 1, jnp.sum(jnp.abs(jnp.stack(points))))
    if d == 2:
        return relative[0], relative[1:], size
    spins = jnp.stack([body_1.velocity[d:], body_2.velocity[d:]])
    drilling = inner(frame.axes[0], spins[1] - spins[0])
    return relative[0], jnp.append(relative[1:], drilling), jnp.append(size, jnp.sum(jnp.abs(spins)))


def wrenches(frame: Frame, p_n, p_f):
    """What p_n () [N s] and p_f (k,) = (p_t, p_o [N s], p_r [N m s]), or (p_t,), give body 1 and
    body 2, (6,) or (3,)."""
    d = frame.axes.shape[0]
    impulse = jnp.sum(jnp.concatenate([p_n[None], p_f[: d - 1]])[:, None] * frame.axes, axis=0)
    drilling = p_f[d - 1] * frame.axes[0] if d == 3 else 0.0
    return tuple(
        sign * jnp.concatenate([impulse, inner(own, impulse) + drilling])
        for sign, own in ((-1, frame.arms_1), (1, frame.arms_2))
    )


def on_bodies(system: System, group: ContactGroup, frames: Frame, p_n, p_f):
    """Sum (nb, 6 or 3) of what the impulses of a group's contacts, (nc,) and (nc, k), give the
    moving bodies; and that of its magnitudes, by which rounding enters."""
    share = _shares(system, group)
    acting = jnp.concatenate(jax.vmap(wrenches)(frames, p_n, p_f))
    sums = jnp.sum(share[..., None] * jnp.concatenate([acting, jnp.abs(acting)], axis=1)[:, None, :], axis=0)
    return tuple(jnp.split(sums, 2, axis=1))


def turning(system: System, group: ContactGroup, frames: Frame, torques):
    """Sum (nb, 6) of the `torques` (nc, 2) [N m s] along the tangents of a group's contacts, as
    moments on body 2."""
    world = jnp.einsum("ca,cad->cd", torques, frames.axes[:, 1:])
    acting = jnp.pad(jnp.concatenate([-world, world]), ((0, 0), (3, 0)))
    return jnp.einsum("cb,cw->bw", _shares(system, group), acting)


def _shares(system: System, group: ContactGroup) -> np.ndarray:
    """(2 nc, nb): 1 where body 1 of a contact, then body 2, is that one."""
    count = system.body_count + len(system.fixed_position)
    numbers = np.array(group.bodies).T.reshape(-1)
    return np.eye(count)[numbers][:, : system.body_count]


def imbalance(unit, difference, passing):
    """|difference| (..., nb, 6 or 3) in `unit` (nb, 6 or 3), beyond what rounding makes of momenta
    of the size `passing`."""
    return beyond_rounding(difference / unit, jnp.max(passing / unit, axis=-1, keepdims=True))


def momentum(system: System, rotation, velocity):
    """(m v, R I R^T omega) (..., nb, 6 or 3) of the moving bodies, whose `rotation` is (..., nb, d,
    d)."""
    d = system.dimension
    linear, angular = system.mass[:, None] * velocity[..., :d], velocity[..., d:]
    if d == 2:
        return jnp.concatenate([linear, system.inertia[:, 0] * angular], axis=-1)
    own = inner(jnp.swapaxes(rotation, -1, -2), angular[..., None, :])
    return jnp.concatenate([linear, inner(rotation, inner(system.inertia, own[..., None, :])[..., None, :])], axis=-1)


def loads(system: System, at: State):
    """Weight and applied wrenches (nb, 6 or 3) [N, N m] in a state."""
    applied = jnp.asarray(system.wrench)
    for i, function in enumerate(system.wrench_functions):
        if function is not None:
            applied = applied.at[i].set(function(at.time, at.position[i], at.orientation[i], at.velocity[i]))
    weight = system.mass[:, None] * system.gravity
    return applied + jnp.concatenate([weight, jnp.zeros_like(at.velocity[:, system.dimension :])], axis=1)


def free_energy(system: System, before: State, known, h):
    """Kinetic energy () [J] after a step of h [s] without contact, by the scheme of the paper's
    step: with the momenta `known` (nb, 6 or 3), which a body has in the orientation that its own
    velocity leads to. Of bodies for which sweeps do not find that, the most of all orientations
    tried, of which the first is that at the start."""
    d = system.dimension
    linear, angular = known[:, :d], known[:, d:]
    drifting = jnp.sum(linear**2 / system.mass[:, None])
    if d == 2:
        return (drifting + jnp.sum(angular**2 / system.inertia[:, 0])) / 2
    others = across(jnp.roll(system.inertia, -1, axis=1), jnp.roll(system.inertia, 1, axis=1))
    inverse = others / inner(system.inertia, others)[..., None]  # by cofactors; symmetric

    def sweep(_, found):
        omega, last, _, most = found
        rotation = rotations(turned(before.orientation, h * omega))
        own = inner(jnp.swapaxes(rotation, -1, -2), angular[:, None, :])
        omega = inner(rotation, inner(inverse, own[:, None, :])[:, None, :])
        spinning = inner(angular, omega)
        return omega, spinning, last, jnp.maximum(most, spinning)

    none = jnp.zeros_like(angular[:, 0])
    still = varying_like((jnp.zeros_like(angular), none, none, none), (inverse, before, angular, h))
    _, spinning, last, most = jax.lax.fori_loop(0, _SWEEPS, sweep, still)
    settled = jnp.abs(spinning - last) <= _SETTLED * spinning
    return (drifting + jnp.sum(jnp.where(settled, spinning, most))) / 2

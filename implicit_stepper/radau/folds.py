"""Where a direction of friction ends: bodies that slide along a line or a face of contact and turn
on it.

Friction without drilling acts at one point, the centre of pressure, whose place s depends on
friction, and the slip there on the place:

    y = -mu p_n v / |v|,   v = v_0 + omega_n n x (s - s_0),   s - s_0 linear in y

at given poses and velocities. For one state there may be one direction of y or several. As motion
goes on, one of them may end together with another, in a fold; velocities and positions do not jump,
but forces do, to the next direction at which regularised friction would end, which turns y towards
-v.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from shapes.small_algebra import product

from ..constraints import kinematics, linear_rows, tilts
from ..constraints.detection import geometry_of
from ..model import bodies
from ..model.bodies import State
from ..model.records import Contacts
from ..model.system import System, compliant, in_user_order, take
from ..runtime.compilation import jit
from .memory import Memory
from .stages import Modes
from .way import Point, Taken

_DIRECTIONS = 720  # in which friction is tried
_SWEEPS = 40  # until the place of a force agrees with its own moment about the normal
_REDUNDANT = 1e-10  # of the largest singular value: contacts that hold the same
_STEP = 2 * np.pi / _DIRECTIONS
_NEAR = 40  # directions, 20 degrees: no smooth step comes nearer to where one ends
_REFINED = 1e-10  # [rad]


@dataclasses.dataclass(frozen=True)
class _Line:
    """A contact that slides on a line or a face, at its centre of pressure: `slip` (2,) [m/s],
    `spin` () [rad/s] about the normal, forces `p` () [N] and `y` (2,) [N], `mu` (); and what y (2,)
    and a moment about the normal change in p and in the moments about the tangents, `gives` (3,
    3)."""

    slip: np.ndarray
    spin: float
    p: float
    y: np.ndarray
    mu: float
    gives: np.ndarray

    def at(self, angle):
        """For slips in directions `angle` (k,): p (k,), y (k, 2), how far (k, 2) the centre of
        pressure moves along the tangents, and the slip there (k, 2)."""
        toward = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        p, drill = np.full(angle.shape, self.p), np.zeros(angle.shape)
        for _ in range(_SWEEPS):
            y = -self.mu * p[:, None] * toward
            change = np.concatenate([y - self.y, drill[:, None]], axis=1) @ self.gives.T
            p = self.p + change[:, 0]
            place = np.stack([-change[:, 2], change[:, 1]], axis=1) / p[:, None]
            drill = place[:, 0] * y[:, 1] - place[:, 1] * y[:, 0]
        slip = self.slip + self.spin * np.stack([-place[:, 1], place[:, 0]], axis=1)
        return p, y, place, slip

    def turns(self, angle):
        """How fast (k,) [m/s] regularised friction would turn from `angle` (k,): the slip across
        it, and as fast as the slip is where that points the other way."""
        *_, slip = self.at(angle)
        across = slip[:, 1] * np.cos(angle) - slip[:, 0] * np.sin(angle)
        along = slip[:, 0] * np.cos(angle) + slip[:, 1] * np.sin(angle)
        return np.where(along > 0, across, np.sign(across) * np.hypot(*slip.T))

    def next_direction(self) -> float | None:
        """The direction [rad] of slip to which friction turns from the present one, None where that
        goes on, as it does where friction would be turned back from both sides as far as
        `_NEAR`."""
        present, found = np.arctan2(-self.y[1], -self.y[0]), []
        for way in (1, -1):
            turns = way * self.turns(present + way * _STEP * np.arange(1, _DIRECTIONS))
            if not np.all(np.isfinite(turns)):
                return None
            if turns[_NEAR] > 0:  # it turns further: from where on, and until where
                away, back = np.flatnonzero(turns[:_NEAR] <= 0), np.flatnonzero(turns[_NEAR:] <= 0)
                found += [(int(away[-1]) if len(away) else -1, way, _NEAR + int(back[0]))] if len(back) else []
        if not found:
            return None
        _, way, number = min(found)
        low, high = number, number + 1  # in steps
        while (high - low) * _STEP > _REFINED:
            middle = (low + high) / 2
            on = way * self.turns(np.array([present + way * _STEP * middle]))[0] > 0
            low, high = (middle, high) if on else (low, middle)
        return present + way * _STEP * high


def beyond(system: System, point: Point, taken: Taken) -> Memory | None:
    """The memory with which motion goes on from a `point`, at the end of the steps `taken`, at
    which a direction of friction ends; None where none does. With joints none is looked for."""
    h = float(taken.h[-1])
    if system.joints or not system.tilts or h == 0:
        return None
    last = jax.tree.map(lambda a: a[-1, -1], taken.contacts.stages.contacts)
    found = jax.tree.map(np.asarray, _lines(system, point.state, point.memory.constraints, point.modes, last, h))
    for number in np.flatnonzero(found.pop("slides")):
        line = _Line(**{name: values[number] for name, values in found.items()})
        angle = line.next_direction()
        if angle is not None:
            return _turned(system, point, geometry_of(last).tangents[number], number, line.at(np.array([angle])))
    return None


def _turned(system: System, point: Point, tangents, number: int, forces) -> Memory:
    """The memory of a `point` with the `forces` that `_Line.at` gives in contact `number`, and
    constant velocities."""
    p, y, place, slip = (np.asarray(a)[0] for a in forces)
    moved, constraints = place @ np.asarray(tangents), [np.array(own) for own in point.memory.constraints]
    for own, group in zip(constraints, system.groups, strict=False):
        own[:] = own[-1]
        if number in group.numbers:
            one, n = own[:, group.numbers.index(number)], group.pair.unknowns
            one[:, :6] += np.tile(moved, 2)
            one[:, n], one[:, n + 1 : n + 3], one[:, group.width - 1] = p, y, np.hypot(*slip)
            one[:, group.width :] = 0.0
    rates = np.broadcast_to(point.state.velocity, point.memory.rates.shape)
    return jax.device_put(dataclasses.replace(point.memory, rates=rates, constraints=tuple(constraints)))


@jit
def _lines(system: System, state: State, constraints, modes: Modes, last: Contacts, h) -> dict:
    """The arguments of `_Line` for every contact, first axis nc, and whether it `slides` on a line
    or a face."""
    count, groups, tangents = system.contact_count, len(system.groups), geometry_of(last).tangents
    touching, sticking = (in_user_order(system, jnp.concatenate(of[:groups])) for of in (modes.touching, modes.sticking))
    axes = [_forbidden(system, state, g, constraints[g][-1], modes.active[g], tangents) for g in range(groups)]
    axes = in_user_order(system, jnp.concatenate(axes))
    rows = linear_rows.linear_rows(system, state, geometry_of(last))
    mu, e = (linear_rows.of_contacts(system, name) for name in ("mu", "e"))
    # what stays as it is: gaps, tilts, and slips of what sticks
    turns = jnp.pad(jnp.einsum("cab,cbd->cad", axes, tangents), ((0, 0), (0, 0), (3, 0)))
    holds = jnp.stack([touching & ~compliant(system)] * 3 + [touching & sticking] * 2, axis=1)
    kept = [
        jnp.where(holds[:, :, None], jnp.concatenate([on[:, :1], sign * turns, on[:, 1:3]], axis=1), 0.0)
        for on, sign in ((rows.on_1, -1.0), (rows.on_2, 1.0))
    ]
    kept, rubbed = (_of_bodies(system, rows, *on) for on in (kept, (rows.on_1[:, 1:], rows.on_2[:, 1:])))
    inverse = jnp.linalg.inv(bodies.mass_matrices(system, state))

    def moved(by):
        return jnp.einsum("bvw,xbw->xbv", inverse, by.reshape(-1, *state.velocity.shape)).reshape(by.shape)

    G = kept.reshape(5 * count, -1)
    answers = (jnp.linalg.pinv(product(G, moved(G).T), rtol=_REDUNDANT) @ G).reshape(kept.shape)
    slip = rows.velocities(state.velocity)[1]
    plain = jnp.all(e == jnp.array([1.0, 1.0, 0.0]), axis=1)
    lines = jnp.trace(axes, axis1=1, axis2=2) > 0.5
    return {
        "slip": slip[:, :2],
        "spin": slip[:, 2],
        "p": last.normal_impulse / h,
        "y": last.friction_impulse[:, :2] / h,
        "mu": mu,
        "gives": -jnp.einsum("cxv,crv->cxr", answers, moved(rubbed))[:, :3],
        "slides": touching & ~sticking & plain & lines & (last.normal_impulse > 0) & (mu > 0),
    }


def _forbidden(system: System, state: State, g: int, unknowns, active, tangents):
    """`tilts.forbidden` (n, 2, 2) for the contacts of a group, by the `tangents` (nc, 2, 3) of
    all."""
    group = system.groups[g]
    if not group.tilts:
        return jnp.zeros((len(group.bodies), 2, 2))

    def one(member, own, active, tangent, motion_1, motion_2):
        closest, placed = own[: member.pair.unknowns], kinematics.placed(member, motion_1, motion_2)
        return tilts.forbidden(member.pair, closest, active, tangent, *placed, system.length)

    own = unknowns, active, take(tangents, group.numbers)
    return jax.vmap(one)(group, *own, *kinematics.motions_of(system, state, group))


def _of_bodies(system: System, rows: linear_rows.Rows, on_1, on_2):
    """Rows (nc, k, 6) of body 1 and body 2 of every contact as rows (nc, k, nb 6) of all moving
    bodies."""
    numbers, nb = np.minimum(np.array(rows.bodies).reshape(-1, 2), system.body_count), system.body_count
    shares = [np.eye(nb + 1)[own][:, :nb] for own in numbers.T]
    parts = [jnp.einsum("cb,ckw->ckbw", share, on) for share, on in zip(shares, (on_1, on_2), strict=True)]
    return sum(parts).reshape(*on_1.shape[:2], -1)

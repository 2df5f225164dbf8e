"""Contacts that are alike: their data, and what one of them states at the end of a step and at the
stages of one.

With several stages (see `radau.stages`) a contact holds its position by p_n + eta and its speed by
p_n,

    0 <= p_n + eta _|_ psi >= 0          0 <= p_n _|_ W_n V + 100 psi+ / h >= 0

Of bodies that touch along a line or a face, closest points keep the angle between them at zero, and
torques `tilt` its rate (see `tilts`), where it is known that they touch so. A compliant contact is
no constraint on positions: eta = 0, and its force obeys S (3) at the stage,

    0 <= p_n _|_ psi + tau W_n V + c p_n / h >= 0
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shapes.closest_points.conditions import ClosestPointRows, PairClass
from shapes.small_algebra import inner

from ..model.system import Frame
from ..solvers.elimination import Links
from . import contact, kinematics, tilts
from .compliance import gap_unit, shifted_gap
from .conditions import NOTHING, OPEN, Conditions, Cone, Held, Instant, StageConditions, Units
from .kinematics import Motion


class Point(NamedTuple):
    """One contact at a stage: unknowns, closest-point rows, eta [N s], torques `tilt` (2,) or (0,)
    [N m s] along the tangents, the motions of both bodies (with V_i), slip v and scaled slip w
    [m/s], normal velocity v_n [m/s]."""

    u: contact.Unknowns
    kkt: ClosestPointRows
    eta: jax.Array
    tilt: jax.Array
    motions: tuple[Motion, Motion]
    v: jax.Array
    w: jax.Array
    v_n: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ContactGroup:
    """Contacts whose shapes have the same classes and whose bodies move alike: one compiled kernel,
    `vmap`ped over them.

    Static: `pair`; `bodies`, per contact its two body numbers (moving bodies first, then fixed
    ones); `moving`, whether body 1 and body 2 move; `numbers`, the contacts' places in the order of
    `Scene.add_contact`; `of_impulses`, whether restitution is a share of impulses, Poisson's, and
    not of speeds, Newton's. Arrays, first axis the nc contacts: shape parameters `theta_i` (nc, k),
    `slope_i` (nc, m) and `interior_i` (nc, d) of `shapes.surface`; friction `mu` (nc,), semi-axes
    `e` (nc, 3) = (e_t, e_o, e_r), or (nc, 1) in the plane; `direction` (nc, d) in the frame of body
    1, zero where the tangents may be any; `compliance` (nc,) = 1/k [m/N] and `dissipation_time`
    (nc,) [s]; `restitution` (nc,), e of impacts, None where it is 0; `mu_s` (nc,), the coefficient
    of what sticks, None where that is mu. `frame_i` is None where all shapes have the frames of
    their bodies, and the compliance where contacts are rigid, so that the common case computes
    nothing.
    """

    pair: PairClass = dataclasses.field(metadata={"static": True})
    bodies: tuple[tuple[int, int], ...] = dataclasses.field(metadata={"static": True})
    moving: tuple[bool, bool] = dataclasses.field(metadata={"static": True})
    numbers: tuple[int, ...] = dataclasses.field(metadata={"static": True})
    theta_1: jax.Array
    theta_2: jax.Array
    slope_1: jax.Array
    slope_2: jax.Array
    interior_1: jax.Array
    interior_2: jax.Array
    mu: jax.Array
    e: jax.Array
    direction: jax.Array
    frame_1: Frame | None
    frame_2: Frame | None
    compliance: jax.Array | None
    dissipation_time: jax.Array | None
    restitution: jax.Array | None = None
    mu_s: jax.Array | None = None
    of_impulses: bool = dataclasses.field(default=False, metadata={"static": True})

    @property
    def width(self) -> int:
        """contact.Unknowns of a contact in a step of one stage."""
        return self.pair.unknowns + self.e.shape[-1] + 2

    @property
    def etas(self) -> int:
        """How many equations of positions a contact has, each with an eta of its own in a step of
        several stages: its gap and, in space, if bodies may touch along lines and faces, two
        tilts."""
        return 1 + self.tilts

    @property
    def tilts(self) -> int:
        """2 or 0."""
        return 0 if self.pair.smooth or self.pair.dimension == 2 else 2

    @property
    def determined(self) -> int:
        """How many of the first unknowns poses alone determine: the closest points of smooth
        bodies."""
        return self.pair.unknowns if self.pair.smooth else 0

    @property
    def forces(self) -> np.ndarray:
        """Which of the unknowns of a stage (width + etas,) are impulses, h times a force: p_n and
        y."""
        n, k, numbers = self.pair.unknowns, self.e.shape[-1], np.arange(self.width + self.etas)
        return (numbers >= n) & (numbers <= n + k)

    def unknown_units(self, length, speed, impulse):
        """Units (nc, width) of the unknowns, in the order of `contact.Unknowns`; `impulse` is
        (nc,)."""
        # sums of products with 0 and 1 serve arrays of NumPy as they do those of JAX
        numbers, none = np.arange(self.width), np.zeros(self.width - self.pair.unknowns)
        lengths = np.concatenate([self.pair.lengths, none])
        impulses = (numbers >= self.pair.unknowns) & (numbers < self.width - 1)
        speeds = numbers == self.width - 1
        others = 1.0 - lengths - impulses - speeds
        return lengths * length + others + speeds * speed + impulses * impulse[:, None]

    def with_etas(self, own):
        """Values (nc, width + etas) of the unknowns of a stage, from those `own` (nc, width) of a
        step of one: an eta is like p_n, a tilt like its moment about a point as far as the
        first."""
        eta = own[:, self.pair.unknowns, None]
        return jnp.concatenate([own, eta, *[eta * own[:, :1]] * self.tilts], axis=1)

    def links(self, nodes, sign: float) -> Links:
        """What may be eliminated: closest points first, then of a contact that slides or is open
        sigma, p_n and y. The friction rows have the `sign` () of their derivative by y; rows stand
        as closest points, gap, sigma, y."""
        axes, p_n = self.e.shape[-1], self.pair.unknowns
        sigma = p_n + axes + 1
        scaled = tuple((p_n + 1 + i, p_n + 2 + i, sign, False) for i in range(axes))
        pairs = ((sigma, p_n + 1, sign, sign > 0), (p_n, p_n, -1.0, False), *scaled)
        return Links(nodes, self.width, p_n, pairs)

    def pressing(self) -> int:
        """How many unknowns at most a contact that presses leaves: p_n and y, with an edge or a
        face three more."""
        return min(self.width, 4 + 3 * (self.pair.unknowns > 2 * self.pair.dimension))

    def conditions(self, unknowns, reference, units: Units, motion_1: Motion, motion_2: Motion, time, h):
        """Of one contact, a member of the group as `vmap` hands it over: its `Conditions`, and the
        wrenches of its impulses on its bodies. `reference` (d,) orients the tangents of isotropic
        friction."""
        u = contact.split(self, unknowns)
        # a normal turns in a step by what moves a point at the scene's length by the unit of gaps
        kkt = contact.geometry_rows(self, u.closest, reference, units.gap, motion_1, motion_2, units.gap / units.length)
        v_n, v = contact.slip_velocities(
            kkt.geometry, motion_1.position, motion_2.position, motion_1.velocity, motion_2.velocity
        )
        gap = shifted_gap(self, kkt.geometry.psi, v_n, u.p_n, h)
        unit = gap_unit(self, units.gap, units.speed, units.impulse, h)
        pairs = (
            jnp.append(kkt.multipliers, u.p_n / units.impulse),
            jnp.append(kkt.slacks, gap / unit),
        )
        stated = Conditions(kkt.equations, pairs, self.cone(u, self.e * v, units))
        return stated, contact.wrenches(kkt.geometry, motion_1.position, motion_2.position, u.p_n, self.e * u.y)

    def cone(self, u: contact.Unknowns, w, units: Units) -> Cone:
        """Friction of one contact with the scaled slip w (k,) [m/s], dimensionless; a semi-axis e_i
        = 0 gives y_i = 0."""
        impulse, speed = units.impulse, units.speed
        return Cone(self.mu * u.p_n / impulse, u.y / impulse, u.sigma / speed, w / speed, self.e > 0, self.mu > 0)

    def place(self, at: Instant, unknowns, reference, motion_1: Motion, motion_2: Motion):
        """Of one contact at a stage where bodies have these poses: its unknowns by name,
        closest-point rows, eta and tilt; and the shifts W_n eta of its bodies' momenta, with the
        tilt's."""
        u, units = contact.split(self, unknowns[: self.width]), at.units
        eta, tilt = unknowns[self.width], unknowns[self.width + 1 :]
        angle = units.gap / units.length
        kkt = contact.geometry_rows(self, u.closest, reference, units.gap, motion_1, motion_2, angle)
        centres, none = (motion_1.position, motion_2.position), jnp.zeros(self.e.shape)
        shifts = contact.wrenches(kkt.geometry, *centres, eta, none)
        if self.tilts:
            torque = jnp.concatenate([jnp.zeros(3), inner(kkt.geometry.tangents.T, tilt)])
            shifts = shifts[0] - torque, shifts[1] + torque
        return (u, kkt, eta, tilt), shifts

    def point(self, at: Instant, placed, motion_1: Motion, motion_2: Motion) -> Point:
        """One contact that was `placed`, of bodies with velocities V_i."""
        u, kkt, eta, tilt = placed
        centres, velocities = (motion_1.position, motion_2.position), (motion_1.velocity, motion_2.velocity)
        v_n, v = contact.slip_velocities(kkt.geometry, *centres, *velocities)
        return Point(u, kkt, eta, tilt, (motion_1, motion_2), v, self.e * v, v_n)

    def pushes(self, point: Point):
        """The wrenches of its impulses on its bodies."""
        centres = [m.position for m in point.motions]
        return contact.wrenches(point.kkt.geometry, *centres, point.u.p_n, self.e * point.u.y)

    def stage_conditions(self, at: Instant, point: Point) -> StageConditions:
        """Of one contact at a stage. A compliant one has the one pair of its law, and no eta."""
        units, psi, inequalities = at.units, point.kkt.geometry.psi, (point.kkt.multipliers, point.kkt.slacks)
        cone, p_n = self.cone(point.u, point.w, units), point.u.p_n / units.impulse
        if self.compliance is not None:
            unit = gap_unit(self, units.gap, units.speed, units.impulse, at.unit_h)
            law = shifted_gap(self, psi, point.v_n, point.u.p_n, at.h) / unit
            return StageConditions(point.kkt.equations, inequalities, (p_n[None], law[None]), cone, NOTHING)
        opens = (point.v_n + OPEN * jnp.maximum(psi - at.noise, 0.0) / at.h) / units.speed
        position = p_n + point.eta / units.impulse, psi / units.gap
        rate, position = (tuple(a[None] for a in pair) for pair in ((p_n, opens), position))
        return StageConditions(point.kkt.equations, inequalities, rate, cone, position)

    def eta_equations(self, at: Instant, point: Point, named: Held, held):
        """That a compliant contact has no eta; and tilts, of which those that are forbidden have no
        rate, the others no torque: all of these where bodies may part, or it is not `held` () how
        they touch."""
        none = jnp.zeros(0) if self.compliance is None else point.eta[None] / at.units.impulse
        if not self.tilts:
            return none
        units, geometry, (motion_1, motion_2) = at.units, point.kkt.geometry, point.motions
        closest, placed = point.u.closest, kinematics.placed(self, *point.motions)
        fixed = tilts.forbidden(self.pair, closest, named.active, geometry.tangents, *placed, units.length)
        fixed = jnp.where(held & named.touching & (self.compliance is None), fixed, 0.0)
        rate = inner(geometry.tangents, motion_2.velocity[3:] - motion_1.velocity[3:]) * units.length / units.speed
        torque = point.tilt / (units.impulse * units.length)
        return jnp.concatenate([none, torque - inner(fixed, torque + rate)])

    def give(self, at: Instant, held):
        """What it adds to the derivative (width + etas, width + etas) of `branches.stage_rows` by a
        contact's unknowns if its speeds, its gap and its tilts give way to p_n, y, eta and torques
        by one unit each, with the signs of the rows."""
        n, k = self.pair.unknowns, self.e.shape[-1]
        # Fischer-Burmeister functions fall with both of their arguments
        complementarity = jnp.where(held, 1.0, -1.0)
        friction = 1.0 if at.friction == "projection" else complementarity
        normal, tangential, position = n, np.arange(n + 2, n + 2 + k), n + 2 + k
        size = self.width + self.etas
        slips, pairs = np.zeros((2, size, size))
        slips[tangential, tangential - 1], pairs[(normal, position), (normal, position)] = 1.0, 1.0
        return np.diag(np.arange(size) > position) + friction * slips + complementarity * pairs

    def flat(self, at: Instant, unknowns, reference, motion_1: Motion, motion_2: Motion):
        """What a curvature of one over the scene's length adds to the derivative of the
        closest-point rows by the closest points: where two surfaces are flat, poses say nothing
        about these."""
        (_, kkt, *_), _ = self.place(at, unknowns, reference, motion_1, motion_2)
        return at.units.length / at.units.gap * self.pair.curvature(kkt.geometry.tangents)

"""What a record of contacts and poses lacks of being a solution: the laws of contact, from the
record alone.

Nothing here comes from a residual: Chakraborty (9)-(11) and (20)-(22) are written out with f(a2)
and the cone of (5), beside the signed gap and the maximum-dissipation defect;
`certificate_mechanics` is a second writing of mechanics. Every entry is a violation, dimensionless,
zero when the equation holds; impulses are measured in max(m g h, p_n), those of friction in max(m g
h, p_n, mu p_n), slips in max(g h, sigma), lengths in the scene's length and gaps in h sqrt(g L).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from shapes.closest_points.conditions import Placed
from shapes.shape_class import ShapeClass
from shapes.small_algebra import inner

from ..model.bodies import State
from ..model.records import Contacts
from ..model.system import System
from ..model.units import Scales
from . import certificate_mechanics as mechanics
from .certificate_mechanics import Bodies, Frame, beyond_rounding
from .compliance import gap_unit, shifted_gap
from .contact_group import ContactGroup
from .friction import dissipation_defect
from .turn_violations import WITHIN

# Sine of the angle to the normal up to which `FrictionEllipsoid.direction` orients nothing: 0.1,
# and what rounding adds.
_PARALLEL = 0.1 * (1 + 1e-9)
_STRAIGHT = 1e-9  # of how two surfaces bend across a line: how they bend along it by rounding
_ON = 1e-9  # of the scene's length: how far from a surface points are on it
_PROJECTIONS, _OVER = 64, 1.5  # towards a point in two bodies, and how far beyond a face each leads
_NO_WEIGHT = 1e-14  # of the normal: what rounding leaves of weights that are zero
# violations with an entry for each moving body
_OF_BODIES = frozenset({"momentum", "pose", "rates", "impact"})
_OF_ALL = frozenset({"energy"})  # with one entry for all
_OF_JOINTS = frozenset({
    "closure", "closure rate", "reaction", "joint friction", "joint held by static friction", WITHIN,
})  # fmt: skip


def known_momentum(system: System, state: State):
    """M(q) nu (nb, 6 or 3) in `state`."""
    return mechanics.momentum(system, mechanics.rotations(state.orientation), state.velocity)


def pose_violations(units: Scales, before: State, after: State, there: State, turn, h):
    """How far (nb,) `after` is, in poses and time, from `there`, where `before` leads with the
    `turn` (nb, 3 or 1)."""
    far = jnp.abs(before.position) + jnp.abs(there.position)
    turns = mechanics.length(before.orientation) + mechanics.length(turn)
    strayed = beyond_rounding(after.position - there.position, far)
    turned = units.length * beyond_rounding(after.orientation - there.orientation, turns[:, None])
    late = beyond_rounding(after.time - there.time, jnp.abs(there.time)) / h
    return jnp.maximum(jnp.max(jnp.concatenate([strayed, turned], axis=1), axis=1) / units.gap, late)


def contact_violations(
    units: Scales, h, member: ContactGroup, record: Contacts, impulse, body_1: Bodies, body_2: Bodies
) -> tuple[dict[str, jax.Array], Frame, jax.Array]:
    """Violations () of one contact, where its impulses act, and how fast () [m/s] it opens or
    closes."""
    first, second = mechanics.placed(member, body_1, body_2)
    frame = mechanics.frame_of(record, body_1, body_2)
    v_n, v, fast = mechanics.slip(frame, body_1, body_2)
    p_n, w = record.normal_impulse, member.e * v
    sigma, on = mechanics.length(w), member.e > 0
    y = jnp.where(on, record.friction_impulse / jnp.where(on, member.e, 1.0), 0.0)
    rubs = mechanics.length(y)
    mu = member.mu if record.mu is None else record.mu
    P, V = jnp.maximum(impulse, p_n), jnp.maximum(units.speed, sigma)
    # without it the violations of a contact that rolls would grow with mu
    F = jnp.maximum(P, mu * p_n)
    room = mu * p_n - rubs
    # of a rounded body f is the core's
    core_2 = record.point_2 - member.pair.first.radius(first.theta) * record.normal
    f_a2 = jnp.max(first.value(member.pair.first, core_2) / first.slope)
    # a compliant law holds for the gap itself, of which f(a2) has only the sign
    gap = shifted_gap(member, record.gap, v_n, p_n, h)
    apart, unit = f_a2 if member.compliance is None else gap, gap_unit(member, units.gap, units.speed, impulse, h)
    violations = {
        "closest points": closest_points_violation(units, member, record, first, second),
        "gap": jnp.maximum(-gap, 0.0) / unit,
        "normal impulse": jnp.maximum(-p_n, 0.0) / P,
        "p_n _|_ f(a2)": jnp.abs(jnp.minimum(p_n / P, apart / unit)),
        "tangent": tangent_violation(member, body_1, frame),
        "slip": slip_violation(units, member, record, v, sigma, fast),
        "friction": jnp.max(jnp.abs(mu * p_n * w + y * sigma)) / (F * V),
        "cone": jnp.maximum(-room, 0.0) / F,
        "sigma zeta": jnp.abs(sigma * room) / (V * F),
        "dissipation": jnp.abs(dissipation_defect(mu, p_n, y, w)) / (F * V),
        "no impulse on an axis without friction": unaided_violation(units.length, member, record, P),
    }
    if member.compliance is not None:
        overlap = overlap_violation(units, member, record, first, second)
        violations["closest points"] = jnp.maximum(violations["closest points"], overlap)
    if record.mu is not None:
        slips = beyond_rounding(sigma, inner(member.e, fast)) / V
        violations["static friction"] = static_friction_violation(member, record.mu, slips)
    return violations, frame, beyond_rounding(v_n, fast[0])


def unaided_violation(length, member: ContactGroup, record: Contacts, size):
    """Violations () of: a contact rubs along no axis whose semi-axis of friction is zero; impulses
    are measured in `size` () [N s], and torques in that times the `length` () [m]."""
    unaided = jnp.abs(record.friction_impulse) / _lever(record.friction_impulse.shape[0], length)
    return jnp.max(jnp.where(member.e > 0, 0.0, unaided)) / size


def static_friction_violation(member, mu, slips):
    """Violations () of: the coefficient `mu` () of a step is the member's own or, of what sticks,
    its mu_s; `slips` () is how fast it slips, dimensionless."""
    if member.mu_s is None:
        return jnp.abs(mu - member.mu)
    return jnp.minimum(jnp.abs(mu - member.mu), jnp.abs(mu - member.mu_s) + slips)


def slip_violation(units: Scales, member: ContactGroup, record: Contacts, v, sigma, fast):
    """Violations () of: the record's slip (k,) is v, its sigma () that of v, but for rounding of
    numbers as large as `fast` (k,). Angular velocities count with the scene's length."""
    lever = _lever(v.shape[0], units.length)
    speed = jnp.maximum(units.speed, jnp.max(jnp.abs(v) * lever))
    slips = jnp.max(beyond_rounding(record.slip - v, fast) * lever) / speed
    other = beyond_rounding(record.sigma - sigma, inner(member.e, fast)) / jnp.maximum(units.speed, sigma)
    return jnp.maximum(slips, other)


def tilt_violation(
    units: Scales, member: ContactGroup, record: Contacts, tilt, impulse, frame: Frame, body_1: Bodies, body_2: Bodies
):
    """Violations () of: a contact has a torque `tilt` (2,) [N m s] along its tangents only across a
    line, or on a face, along which both surfaces are straight where they touch, and the bodies do
    not turn against each other about it.

    Inequalities that carry the normal tell lines and faces, or those on which the points are: where
    a line becomes a face or a corner, one of them does not."""
    tangents, bends = frame.axes[1:], jnp.zeros((2, 2, 2))
    for shape_class, placed, core, multipliers in zip(
        (member.pair.first, member.pair.second),
        mechanics.placed(member, body_1, body_2),
        _cores(member, record),
        (record.multipliers_1, record.multipliers_2),
        strict=True,
    ):
        weights, own = jnp.abs(multipliers[: shape_class.count]), inner(placed.rotation.T, tangents[:, None, :])
        on = placed.value(shape_class, core) > -_ON * units.length * placed.slope
        local = inner(placed.rotation.T, core - placed.position)
        slopes = jnp.einsum("jd,ad->ja", shape_class.jet.gradient(local, placed.theta), own)
        curvatures = jnp.einsum("jde,ad,be->jab", shape_class.jet.hessian(local, placed.theta), own, own)
        each = slopes[:, :, None] * slopes[:, None] + units.length * curvatures
        weights = jnp.stack([weights, jnp.where(on, jnp.maximum(weights, 1 / placed.slope), weights)])
        bends = bends + jnp.einsum("kj,jab->kab", weights, each)
    spins = [body.velocity[3:] for body in (body_1, body_2)]
    fast, turns = jnp.sum(jnp.abs(jnp.stack(spins))), inner(tangents, spins[1] - spins[0])
    torque, gap = tilt / (impulse * units.length), jnp.abs(record.gap) / units.gap

    def by(bends):
        size, area = jnp.trace(bends), bends[0, 0] * bends[1, 1] - bends[0, 1] * bends[1, 0]
        line = jnp.where(area <= _STRAIGHT * size**2, 1.0, 0.0) * bends / jnp.where(size > 0, size, 1.0)
        across = jnp.where(size <= _NO_WEIGHT, jnp.eye(2), line)
        rate = beyond_rounding(inner(across, turns), fast) * units.length / units.speed
        apart = jnp.maximum(mechanics.length(rate), gap)
        along = mechanics.length(torque - inner(across, torque))
        return jnp.maximum(along, jnp.minimum(mechanics.length(torque), apart))

    return jnp.minimum(by(bends[0]), by(bends[1]))


def _cores(member: ContactGroup, record: Contacts):
    """The points (d,) of the cores of both bodies, of rounded ones by their radius inside."""
    radii = member.pair.first.radius(member.theta_1), member.pair.second.radius(member.theta_2)
    return record.point_1 - radii[0] * record.normal, record.point_2 + radii[1] * record.normal


def _lever(k: int, length):
    """What makes (v_t, v_o, v_r) speeds, and torques p_r impulses by division: (k,)."""
    return jnp.stack([jnp.ones(()), jnp.ones(()), length])[:k]


def tangent_violation(member: ContactGroup, body_1: Bodies, frame: Frame):
    """Violations () of: t is a unit vector across n, and in space along `direction` where that is
    given and can be."""
    n, t = frame.axes[:2]
    if n.shape == (2,):
        return jnp.max(jnp.abs(t - mechanics.arms(n)[0]))
    wanted = inner(body_1.rotation, member.direction)
    along = wanted - n * inner(n, wanted)
    size = mechanics.length(along)
    off = jnp.where(size > _PARALLEL * mechanics.length(wanted), t * size - along, 0.0)
    return jnp.max(jnp.abs(jnp.concatenate([off, inner(frame.axes[:2], t) - np.array([0.0, 1.0])])))


def closest_points_violation(units: Scales, member: ContactGroup, record: Contacts, first: Placed, second: Placed):
    """Chakraborty (9), and (20)-(22) with the signs mended: points on the surfaces, opposite
    normals along their line."""
    n = record.normal
    return jnp.max(
        jnp.concatenate(
            [
                jnp.abs(record.point_2 - record.point_1 - record.gap * n) / units.length,
                jnp.abs(inner(n, n) - 1)[None],
                _normal_at(member.pair.first, first, record.point_1, n, record.multipliers_1, units.length),
                _normal_at(member.pair.second, second, record.point_2, -n, record.multipliers_2, units.length),
            ]
        )
    )


def overlap_violation(units: Scales, member: ContactGroup, record: Contacts, first: Placed, second: Placed):
    """Violations () of: where the gap is negative, the middle of the points is in both bodies, or
    one near it is: out of an edge sharper than a right angle the normal may lead at once. The far
    sides of bodies apart hold all other conditions of closest points. A contact that is rigid at
    the end of its step needs none of this, as its gap is not negative."""
    n, deep, sides = record.normal, jnp.maximum(-record.gap, 0.0) / 2, (member.pair.first, member.pair.second)
    outside = jnp.maximum(
        _outside(sides[0], first, record.point_1, n, deep, units.length),
        _outside(sides[1], second, record.point_2, -n, deep, units.length),
    )
    if all(side.count == 1 and side.support is None for side in sides):
        return outside
    met = _met(sides, (first, second), sum(_cores(member, record)) / 2)
    beyond = [_beyond(side, placed, met, units.length) for side, placed in zip(sides, (first, second), strict=True)]
    return jnp.minimum(outside, jnp.where(deep > 0, jnp.maximum(*beyond), jnp.inf))


def _met(sides, placed, point):
    """A point (d,) in two cores that overlap near a `point`: on from each beyond the face that it
    is most out of, which ends inside."""

    def nearer(_, at):
        values = jnp.concatenate([own.value(side, at) for side, own in zip(sides, placed, strict=True)])
        slopes = jnp.concatenate([own.gradient(side, at) for side, own in zip(sides, placed, strict=True)])
        sizes = mechanics.length(slopes)
        out = values / jnp.where(sizes > 0, sizes, 1.0)
        worst = jnp.argmax(out)
        return at - _OVER * jnp.maximum(out[worst], 0.0) * slopes[worst] / jnp.maximum(sizes[worst], 1e-300)

    return lax.fori_loop(0, _PROJECTIONS, nearer, point)


def _outside(shape_class: ShapeClass, placed: Placed, point, outward, deep, length):
    """By how much () what lies `deep` () [m] below a `point` (d,) of the surface is outside of the
    body, which is a core and all within a radius of it."""
    return _beyond(shape_class, placed, point - jnp.maximum(shape_class.radius(placed.theta), deep) * outward, length)


def _beyond(shape_class: ShapeClass, placed: Placed, point, length):
    """By how much () a `point` (d,) is outside of a core."""
    return jnp.maximum(jnp.max(placed.value(shape_class, point) / placed.slope), 0.0) / length


def _normal_at(shape_class: ShapeClass, placed: Placed, point, outward, multipliers, length):
    """Violations of: `point` (d,) is on the body, whose unit normal is `outward` (d,) by the
    `multipliers`, of which those beyond the body's own number are zero."""
    core, weights = point - shape_class.radius(placed.theta) * outward, multipliers[: shape_class.count] * placed.slope
    f, padding = placed.value(shape_class, core) / placed.slope, multipliers[shape_class.count :] * placed.slope[0]
    if shape_class.support is None:
        defect = inner(placed.gradient(shape_class, core).T, weights / placed.slope) - outward
    else:  # the gradient has infinite derivatives: the point must be the one farthest along the normal
        normal, body_point = inner(placed.rotation.T, outward), inner(placed.rotation.T, core - placed.position)
        c = body_point - shape_class.support_jet.gradient(normal, placed.theta)[0]
        reach = shape_class.half_lengths(placed.theta)
        defect = (c - jnp.clip(c + length * normal, -reach, reach)) / length
        # of n = l grad f only the product with the point is smooth
        radial = inner(shape_class.jet.gradient(body_point, placed.theta)[0], body_point) * weights / placed.slope
        defect = jnp.concatenate([defect, (radial - inner(normal, body_point)) / length])
    slack = jnp.concatenate([jnp.max(f)[None], weights * f]) / length
    return jnp.concatenate([jnp.abs(defect), jnp.abs(slack), jnp.maximum(-weights, 0.0), jnp.abs(padding)])


def described(system: System, violations: dict[str, np.ndarray]) -> str:
    """In words: the worst entry of each of `violations`, and the body or the contact that it
    belongs to."""
    parts = []
    for name, values in violations.items():
        worst = int(np.argmax(np.where(np.isnan(values), np.inf, values)))
        parts.append(f"{name} {values[worst]:.2e} at {_place(system, name, worst)}")
    return "; ".join(parts)


def _place(system: System, name: str, number: int) -> str:
    if name in _OF_ALL:
        return "all bodies"
    if name in _OF_JOINTS:
        return f"joint {system.joint_names[number]}"
    return system.names[number] if name in _OF_BODIES else " and ".join(system.contact_names[number])

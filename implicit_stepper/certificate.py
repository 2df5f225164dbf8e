"""The certificate of a step: the paper's equations in the paper's form, from the step's result alone.

Nothing here comes from the solver's residual: Chakraborty (10)-(11) is written out with f(a2) and the squared cone, beside
the momentum balance, the signed gap, the maximum-dissipation defect and a bound on the energy. Every entry is a violation,
dimensionless, zero when the equation holds; impulses are measured in max(m g h, p_n), slips in max(g h, sigma), lengths in
the scene's length and gaps in h sqrt(g L).
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from shapes.closest_points import ContactGeometry, Placed
from shapes.implicit import ShapeClass
from shapes.products import inner

from . import bodies, contact, kinematics, ncp
from .bodies import State
from .complementarity import length_of
from .compliance import gap_unit, shifted_gap
from .energy import excess_energy, free_energy
from .friction import dissipation_defect
from .records import Contacts
from .scales import scales
from .system import ContactGroup, System, in_user_order, take

_OF_BODIES = frozenset({"momentum", "rates", "impact"})  # violations with an entry for each moving body
_OF_ALL = frozenset({"energy"})  # with one entry for all


def certificate(system: System, before: State, after: State, contacts: Contacts, h) -> dict[str, jax.Array]:
    """Violations by name, of the step of h [s] from `before` to `after`.

    "momentum" is (nb,), "energy" (1,), all others (nc,) in the order of `Scene.add_contact`.
    """
    units = scales(system, h)
    balance = jax.vmap(bodies.momentum)(system.mass, system.inertia, after.orientation, after.velocity)
    balance = balance - ncp.applied_momentum(system, before, h)
    parts = []
    for group, impulse in zip(system.groups, units.impulse, strict=True):
        record = jax.tree.map(lambda a, group=group: take(a, group.numbers), contacts)
        motions = kinematics.contact_motions(system, after, group)
        violations, wrenches = jax.vmap(functools.partial(contact_violations, units, h))(group, record, impulse, *motions)
        balance = balance - contact.on_bodies(system, group, *wrenches)
        parts.append(violations)
    joined = jax.tree.map(lambda *own: in_user_order(system, jnp.concatenate(own)), *parts) if parts else {}
    return {
        "momentum": jnp.max(jnp.abs(balance / units.momentum), axis=1),
        "energy": excess_energy(system, after, contacts, h, free_energy(system, before, h))[None],
        **joined,
    }


def described(system: System, violations: dict[str, np.ndarray]) -> str:
    """In words: the worst entry of each of `violations`, and the body or the contact that it belongs to."""
    parts = []
    for name, values in violations.items():
        worst = int(np.argmax(np.where(np.isnan(values), np.inf, values)))
        parts.append(f"{name} {values[worst]:.2e} at {_place(system, name, worst)}")
    return "; ".join(parts)


def _place(system: System, name: str, number: int) -> str:
    if name in _OF_ALL:
        return "all bodies"
    return system.names[number] if name in _OF_BODIES else " and ".join(system.contact_names[number])


def contact_violations(units, h, member: ContactGroup, record: Contacts, impulse, motion_1, motion_2):
    """Violations () of one contact, and the wrenches of its impulses on its bodies."""
    first, second = kinematics.placed(member, motion_1, motion_2)
    geometry = geometry_of(record)
    v_n, v = contact.slip_velocities(geometry, motion_1.position, motion_2.position, motion_1.velocity, motion_2.velocity)
    p_n, w, sigma = record.normal_impulse, member.e * v, length_of(member.e * v)
    on = member.e > 0
    y = jnp.where(on, record.friction_impulse / jnp.where(on, member.e, 1.0), 0.0)
    P, V = jnp.maximum(impulse, p_n), jnp.maximum(units.speed, sigma)
    zeta = (member.mu * p_n) ** 2 - inner(y, y)
    core_2 = record.point_2 - member.pair.first.radius(first.theta) * record.normal  # of a rounded body f is the core's
    f_a2 = jnp.max(first.value(member.pair.first, core_2) / first.slope)
    # a compliant law holds for the gap itself, of which f(a2) has only the sign
    gap = shifted_gap(member, record.gap, v_n, p_n, h)
    room, unit = f_a2 if member.compliance is None else gap, gap_unit(member, units.gap, units.speed, impulse, h)
    violations = {
        "closest points": _closest_points(units, member, record, first, second),
        "gap": jnp.maximum(-gap, 0.0) / unit,
        "normal impulse": jnp.maximum(-p_n, 0.0) / P,
        "p_n _|_ f(a2)": jnp.abs(jnp.minimum(p_n / P, room / unit)),
        "friction": jnp.max(jnp.abs(member.mu * p_n * w + y * sigma)) / (P * V),
        "cone": jnp.maximum(-zeta, 0.0) / P**2,
        "sigma zeta": jnp.abs(sigma * zeta) / (V * P**2),
        "dissipation": jnp.abs(dissipation_defect(member.mu, p_n, y, w)) / (P * V),
        "no impulse on an axis without friction": jnp.max(jnp.where(on, 0.0, jnp.abs(record.friction_impulse))) / P,
    }
    return violations, contact.wrenches(geometry, motion_1.position, motion_2.position, p_n, record.friction_impulse)


def _closest_points(units, member: ContactGroup, record: Contacts, first: Placed, second: Placed):
    """Chakraborty (9), and (20)-(22) with the signs mended: points on the surfaces, opposite normals along their line."""
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


def _normal_at(shape_class: ShapeClass, placed: Placed, point, outward, multipliers, length):
    """Violations of: `point` (d,) is on the body, whose unit normal is `outward` (d,) by the `multipliers`."""
    core, weights = point - shape_class.radius(placed.theta) * outward, multipliers[: shape_class.count] * placed.slope
    f = placed.value(shape_class, core) / placed.slope
    if shape_class.support is None:
        defect = inner(placed.gradient(shape_class, core).T, weights / placed.slope) - outward
    else:  # the gradient has infinite derivatives: the point must be the one farthest along the normal
        normal, body_point = inner(placed.rotation.T, outward), inner(placed.rotation.T, core - placed.position)
        c = body_point - shape_class.support_jet.gradient(normal, placed.theta)[0]
        reach = shape_class.half_lengths(placed.theta)
        defect = (c - jnp.clip(c + length * normal, -reach, reach)) / length
    slack = jnp.concatenate([jnp.max(f)[None], weights * f]) / length
    return jnp.concatenate([jnp.abs(defect), jnp.abs(slack), jnp.maximum(-weights, 0.0)])


def geometry_of(record: Contacts) -> ContactGeometry:
    """What a record of one contact says of it, at the end of the step."""
    n, t = record.normal, record.tangent
    tangents = t[None] if n.shape == (2,) else jnp.stack([t, jnp.cross(n, t)])
    return ContactGeometry(record.point_1, record.point_2, n, tangents, record.gap)

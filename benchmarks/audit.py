"""An audit of trajectories that shares nothing with the solver: NumPy and scipy, bodies by their support functions.

Of every step it recomputes, from poses, velocities and contact records alone: the balance of momentum, the update of poses,
the distance of every pair by two supporting planes and two points of the bodies, 0 <= p_n _|_ gap >= 0, the friction
ellipsoid and maximum dissipation. What it imports of the library: nothing.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
from scipy.spatial.transform import Rotation


@dataclasses.dataclass(frozen=True)
class Solid:
    """A convex body in its own coordinates [m]: `support(n)` = max n.x over it, for n (..., 3); `outside(x)`, at most 0 for
    points in it and near its surface a length [m]; `radius` [m] of a ball around the origin that holds it."""

    support: Callable
    outside: Callable
    radius: float


def ellipsoid(axes):
    """(x/a)^2 + (y/b)^2 + (z/c)^2 <= 1."""
    return superquadric(axes, 2.0)


def superquadric(axes, power):
    """Sum of |x_i/a_i|^power <= 1; its support function is the dual norm."""
    axes, dual = np.asarray(axes, float), power / (power - 1)

    def norm(x, p):
        largest = np.max(np.abs(x), axis=-1, keepdims=True)
        return (largest * np.sum(np.abs(x / largest) ** p, axis=-1, keepdims=True) ** (1 / p))[..., 0]

    return Solid(
        lambda n: norm(n * axes, dual),
        lambda x: (norm(x / axes, power) - 1) * np.min(axes),
        float(np.linalg.norm(axes)),
    )


def polytope(corners):
    """The convex hull of points (k, 3)."""
    from scipy.spatial import ConvexHull

    corners = np.asarray(corners, float)
    planes = ConvexHull(corners).equations
    return Solid(
        lambda n: np.max(n @ corners.T, axis=-1),
        lambda x: np.max(x @ planes[:, :3].T + planes[:, 3], axis=-1),
        float(np.max(np.linalg.norm(corners, axis=1))),
    )


def box(half_sizes):
    """|x_i| <= a_i."""
    a, b, c = half_sizes
    return polytope([(i * a, j * b, k * c) for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)])


def frustum(bottom, top, low, high):
    """A solid of revolution between a disc of radius `bottom` at z = low and one of radius `top` at z = high."""
    slant = np.hypot(1.0, (bottom - top) / (high - low))

    def support(n):
        across = np.hypot(n[..., 0], n[..., 1])
        return np.maximum(across * bottom + n[..., 2] * low, across * top + n[..., 2] * high)

    def outside(x):
        radius = bottom + (top - bottom) * (x[..., 2] - low) / (high - low)
        lateral = (np.hypot(x[..., 0], x[..., 1]) - radius) / slant
        return np.maximum(lateral, np.maximum(x[..., 2] - high, low - x[..., 2]))

    return Solid(support, outside, float(max(np.hypot(bottom, low), np.hypot(top, high))))


def capsule(radius, half_length):
    """All points within `radius` of a segment along z."""

    def outside(x):
        along = np.clip(x[..., 2], -half_length, half_length)
        return np.linalg.norm(np.stack([x[..., 0], x[..., 1], x[..., 2] - along], axis=-1), axis=-1) - radius

    return Solid(
        lambda n: radius * np.linalg.norm(n, axis=-1) + half_length * np.abs(n[..., 2]), outside, radius + half_length
    )


def rounded_box(half_sizes, radius):
    """All points within `radius` of a box."""
    core, sizes = box(half_sizes), np.asarray(half_sizes, float)
    return Solid(
        lambda n: core.support(n) + radius * np.linalg.norm(n, axis=-1),
        lambda x: np.linalg.norm(np.maximum(np.abs(x) - sizes, 0.0), axis=-1) - radius,
        core.radius + radius,
    )


@dataclasses.dataclass(frozen=True)
class Plane:
    """The fixed half-space normal.x <= offset."""

    normal: np.ndarray
    offset: float


@dataclasses.dataclass(frozen=True)
class Side:
    """One side of a contact: the number of the moving body and where the part sits on it, or a fixed `Plane`."""

    body: int | None
    solid: Solid | Plane
    at: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(3))


@dataclasses.dataclass(frozen=True)
class Contact:
    """`first` and `second`, in the order of the records; friction `mu` and semi-axes `e` (3,)."""

    first: Side
    second: Side
    mu: float
    e: np.ndarray


@dataclasses.dataclass(frozen=True)
class World:
    """Masses (nb,) [kg], inertias (nb, 3) [kg m^2] about principal axes that are those of the bodies, gravity (3,)
    [m/s^2], a length [m] of the bodies' size, and the contacts."""

    mass: np.ndarray
    inertia: np.ndarray
    gravity: np.ndarray
    length: float
    contacts: tuple[Contact, ...]


def audit(world, trajectory, h):
    """The largest violation of each law in any step of h [s], by name, dimensionless, and the number of the step.

    Units are m g h of impulses, g h of speeds, h sqrt(g L) of gaps and L of lengths; p_n and slips in their own size where
    that is larger. Steps that stand for several shorter ones (`substeps`) have impulses at several instants: only their
    end is audited.
    """
    record, whole = trajectory.contacts, np.asarray(trajectory.stats.substeps) == 1
    turns = [Rotation.from_quat(np.roll(q, -1, axis=-1)) for q in np.moveaxis(trajectory.orientation, 1, 0)]
    g, size = np.linalg.norm(world.gravity) or 1.0, world.length
    x, velocity = trajectory.position, trajectory.velocity
    change, found = _momentum_change(world, turns, velocity, h), {}
    for number, contact in enumerate(world.contacts):
        one = {name: np.asarray(getattr(record, name))[:, number] for name in _USED}
        found[number] = _contact(world, contact, one, x, velocity, turns, (g, h, size), whole)
        _push(world, contact, one, x, change)
    radii = np.sqrt(np.sum(world.inertia, axis=1) / world.mass)
    units = world.mass[:, None] * g * h * np.concatenate([np.ones((len(radii), 3)), np.tile(radii[:, None], 3)], axis=1)
    laws = {"momentum": _largest(np.where(whole[:, None, None], change / units, 0.0), (1, 2))}
    laws["poses"] = np.where(whole, _poses(x, turns, velocity, h, size), 0.0)
    for name in found[0] if found else ():
        laws[name] = np.max([violations[name] for violations in found.values()], axis=0)
    return {name: (float(np.max(v)), int(np.argmax(v))) for name, v in laws.items()}


_USED = ("normal_impulse", "friction_impulse", "gap", "point_1", "point_2", "normal", "tangent")


def _largest(values, axes):
    return np.max(np.abs(values), axis=axes)


def _momentum_change(world, turns, velocity, h):
    """What the impulses of contacts must account for (n, nb, 6), about the centres of mass."""
    change = np.zeros((len(velocity) - 1, *velocity.shape[1:]))
    for body, turn in enumerate(turns):
        spin = turn.apply(world.inertia[body] * turn.inv().apply(velocity[:, body, 3:]))
        change[:, body, :3] = world.mass[body] * (np.diff(velocity[:, body, :3], axis=0) - h * world.gravity)
        change[:, body, 3:] = np.diff(spin, axis=0)
    return change


def _push(world, contact, one, x, change):
    """Takes the impulses of a contact out of `change`."""
    n, t = one["normal"], one["tangent"]
    p_t, p_o, p_r = one["friction_impulse"].T
    force = one["normal_impulse"][:, None] * n + p_t[:, None] * t + p_o[:, None] * np.cross(n, t)
    for side, point, sign in ((contact.first, one["point_1"], -1.0), (contact.second, one["point_2"], 1.0)):
        if side.body is not None:
            arm = point - x[1:, side.body]
            change[:, side.body, :3] -= sign * force
            change[:, side.body, 3:] -= sign * (np.cross(arm, force) + p_r[:, None] * n)


def _poses(x, turns, velocity, h, size):
    """Violation (n,) of x_next = x + h v_next and Q_next = exp(h omega_next) Q."""
    worst = _largest(np.diff(x, axis=0) - h * velocity[1:, :, :3], (1, 2)) / size
    for body, turn in enumerate(turns):
        expected = Rotation.from_rotvec(h * velocity[1:, body, 3:]) * turn[:-1]
        worst = np.maximum(worst, (turn[1:] * expected.inv()).magnitude())
    return worst


def _contact(world, contact, one, x, velocity, turns, units, whole):
    """Violations (n,) of one contact, by name."""
    g, h, size = units
    p_n, gap, n, t = (one[name] for name in ("normal_impulse", "gap", "normal", "tangent"))
    masses = [world.mass[side.body] for side in (contact.first, contact.second) if side.body is not None]
    P = np.maximum(min(masses) * g * h, p_n)
    reach_1, out_1 = _seen(contact.first, n, one["point_1"], x, turns)
    reach_2, out_2 = _seen(contact.second, -n, one["point_2"], x, turns)
    planes = -reach_2 - reach_1  # a distance that no motion along n can make larger, so a lower bound of the true one
    apart = one["point_2"] - one["point_1"] - gap[:, None] * n
    w, y = _slip(contact, one, x, velocity)
    sigma, bound = np.linalg.norm(w, axis=1), contact.mu * p_n
    V, F = np.maximum(g * h, sigma), np.maximum(P, np.maximum(bound, np.linalg.norm(y, axis=1)))
    return {
        "distance": np.max([np.abs(planes - gap), np.max(np.abs(apart), axis=1), out_1, out_2], axis=0) / size,
        "penetration": np.maximum(-planes, 0.0) / (h * np.sqrt(g * size)),
        "tangent": np.maximum(np.abs(np.sum(t * n, axis=1)), np.abs(np.sum(t * t, axis=1) - 1)),
        "p_n _|_ gap": np.abs(np.minimum(p_n / P, gap / (h * np.sqrt(g * size)))),
        "cone": np.where(whole, np.maximum(np.linalg.norm(y, axis=1) - bound, 0.0) / F, 0.0),
        "dissipation": np.where(whole, np.abs(bound * sigma + np.sum(w * y, axis=1)) / (F * V), 0.0),
    }


def _seen(side, n, points, x, turns):
    """Of one side: max n.x over it (n,), and how far `points` are outside (n,)."""
    if isinstance(side.solid, Plane):
        plane = side.solid
        along = np.linalg.norm(n - plane.normal, axis=1) * np.linalg.norm(points, axis=1)
        return plane.offset + along, np.maximum(points @ plane.normal - plane.offset, 0.0)
    turn, centre = turns[side.body][1:], x[1:, side.body]
    own_n, own_points = turn.inv().apply(n), turn.inv().apply(points - centre) - side.at
    reach = np.sum(n * centre, axis=1) + own_n @ side.at + side.solid.support(own_n)
    return reach, np.maximum(side.solid.outside(own_points), 0.0)


def _slip(contact, one, x, velocity):
    """Scaled slip (n, 3) of side 2 against side 1 and scaled impulse (n, 3); components without friction are zero."""
    n, t = one["normal"], one["tangent"]
    linear, spin = np.zeros_like(n), np.zeros_like(n)
    for side, point, sign in ((contact.first, one["point_1"], -1.0), (contact.second, one["point_2"], 1.0)):
        if side.body is not None:
            v, omega = velocity[1:, side.body, :3], velocity[1:, side.body, 3:]
            linear = linear + sign * (v + np.cross(omega, point - x[1:, side.body]))
            spin = spin + sign * omega
    slip = np.stack([np.sum(linear * t, axis=1), np.sum(linear * np.cross(n, t), axis=1), np.sum(spin * n, axis=1)], axis=1)
    on = contact.e > 0
    return slip * contact.e, np.where(on, one["friction_impulse"] / np.where(on, contact.e, 1.0), one["friction_impulse"])

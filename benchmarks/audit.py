"""An audit of trajectories that shares nothing with the solver: NumPy alone, bodies by their
support functions.

Of every step it recomputes, from times, poses, velocities and contact records alone: the balance of
momentum, the update of poses, the distance of every pair by two supporting planes and two points of
the bodies, 0 <= p_n _|_ gap >= 0, the friction ellipsoid with its axes, maximum dissipation, and
that no force but a closing contact's gives energy. What it imports of the library: nothing.
"""

import dataclasses

import numpy as np
from solids import Solid


@dataclasses.dataclass(frozen=True)
class Plane:
    """The fixed half-space normal.x <= offset."""

    normal: np.ndarray
    offset: float


@dataclasses.dataclass(frozen=True)
class Side:
    """One side of a contact: the number of the moving body and where the part sits on it, or a
    fixed `Plane`."""

    body: int | None
    solid: Solid | Plane
    at: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(3))


@dataclasses.dataclass(frozen=True)
class Contact:
    """`first` and `second`, in the order of the records; friction `mu` and semi-axes `e` (3,), the
    first along `direction` (3,) in the frame of the first body, if it is not None."""

    first: Side
    second: Side
    mu: float
    e: np.ndarray
    direction: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class World:
    """Masses (nb,) [kg], inertias (nb, 3) [kg m^2] about principal axes that are those of the
    bodies, gravity (3,) [m/s^2], a length [m] of the bodies' size, and the contacts."""

    mass: np.ndarray
    inertia: np.ndarray
    gravity: np.ndarray
    length: float
    contacts: tuple[Contact, ...]


def audit(world, trajectory, h):
    """The largest violation of each law in any step of h [s], by name, dimensionless, and the
    number of the step.

    Units are m g h of impulses, g h of speeds, h sqrt(g L) of gaps and L of lengths; p_n and slips
    in their own size where that is larger. Steps that stand for several shorter ones (`substeps`)
    have impulses at several instants: only their end is audited, and that no impulse pulls.
    """
    record, whole = trajectory.contacts, np.asarray(trajectory.stats.substeps) == 1
    turns = np.moveaxis(_matrices(trajectory.orientation), 1, 0)
    g, size = np.linalg.norm(world.gravity) or 1.0, world.length
    x, velocity = trajectory.position, trajectory.velocity
    change, found = _momentum_change(world, turns, velocity, h), []
    worked = _energy_change(world, turns, x, velocity)
    for number, contact in enumerate(world.contacts):
        one = {name: np.asarray(getattr(record, name))[:, number] for name in _USED}
        found.append(_contact(world, contact, one, x, velocity, turns, (g, h, size), whole))
        worked -= np.maximum(one["normal_impulse"] * _slip(contact, one, x, velocity)[2], 0.0)
        _push(contact, one, x, change)
    radii = np.sqrt(np.sum(world.inertia, axis=1) / world.mass)
    units = world.mass[:, None] * g * h * np.concatenate([np.ones((len(radii), 3)), np.tile(radii[:, None], 3)], axis=1)
    speeds = np.concatenate([velocity[..., :3], velocity[..., 3:] * radii[:, None]], axis=-1)
    largest = g * h + np.max(np.abs(speeds[1:]), axis=2) + np.max(np.abs(speeds[:-1]), axis=2)
    laws = {"momentum": np.where(whole, _largest(change / units, (1, 2)), 0.0)}
    laws["energy"] = np.where(whole, np.maximum(worked, 0.0), 0.0) / (largest @ world.mass * g * h)
    laws["poses"] = np.where(whole, _poses(trajectory.orientation, x, velocity, h, size), 0.0)
    laws["time"] = np.abs(np.diff(trajectory.time) / h - 1)
    for name in found[0] if found else ():
        laws[name] = np.max([violations[name] for violations in found], axis=0)
    return {name: (float(np.max(v)), int(np.argmax(v))) for name, v in laws.items()}


def gained(world, trajectory):
    """The largest rise (), over its start, of the energy of motion and weight in a trajectory,
    relative to the energy of motion at the start and sum m g L."""
    turns = np.moveaxis(_matrices(trajectory.orientation), 1, 0)
    energy = np.cumsum(_energy_change(world, turns, trajectory.position, trajectory.velocity))
    motion = np.sum(_kinetic(world, turns[:, :1], trajectory.velocity[:1]))
    g = np.linalg.norm(world.gravity) or 1.0
    return float(max(np.max(energy), 0.0) / (motion + np.sum(world.mass) * g * world.length))


_USED = ("normal_impulse", "friction_impulse", "gap", "point_1", "point_2", "normal", "tangent")


def _matrices(q):
    """Rotation matrices (..., 3, 3) of unit quaternions (..., 4), the scalar first."""
    w, x, y, z = np.moveaxis(np.asarray(q), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def _turned(turn, v):
    """R v for matrices (..., 3, 3) and vectors (..., 3)."""
    return np.einsum("...ij,...j->...i", turn, v)


def _back(turn, v):
    """R^T v."""
    return np.einsum("...ji,...j->...i", turn, v)


def _largest(values, axes):
    return np.max(np.abs(values), axis=axes)


def _spin(world, turn, velocity, body):
    """Angular momentum (n, 3) of a body about its centre of mass."""
    return _turned(turn, world.inertia[body] * _back(turn, velocity[:, body, 3:]))


def _momentum_change(world, turns, velocity, h):
    """What the impulses of contacts must account for (n, nb, 6), about the centres of mass."""
    change = np.zeros((len(velocity) - 1, *velocity.shape[1:]))
    for body, turn in enumerate(turns):
        change[:, body, :3] = world.mass[body] * (np.diff(velocity[:, body, :3], axis=0) - h * world.gravity)
        change[:, body, 3:] = np.diff(_spin(world, turn, velocity, body), axis=0)
    return change


def _kinetic(world, turns, velocity):
    """[J] of every state and body (n, nb)."""
    linear = world.mass * np.sum(velocity[..., :3] ** 2, axis=-1)
    spins = [np.sum(_spin(world, turn, velocity, b) * velocity[:, b, 3:], axis=1) for b, turn in enumerate(turns)]
    return (linear + np.stack(spins, axis=1)) / 2


def _energy_change(world, turns, x, velocity):
    """Of motion and weight, in every step (n,) [J]. With momenta balanced at the end of the step,
    it is at most the work of the contacts' impulses on the velocities there: weight and the terms
    of second order only take energy."""
    weight = np.sum(np.diff(x, axis=0) @ world.gravity * world.mass, axis=1)
    return np.sum(np.diff(_kinetic(world, turns, velocity), axis=0), axis=1) - weight


def _push(contact, one, x, change):
    """Takes the impulses of a contact out of `change`."""
    n, t = one["normal"], one["tangent"]
    p_t, p_o, p_r = one["friction_impulse"].T
    force = one["normal_impulse"][:, None] * n + p_t[:, None] * t + p_o[:, None] * np.cross(n, t)
    for side, point, sign in ((contact.first, one["point_1"], -1.0), (contact.second, one["point_2"], 1.0)):
        if side.body is not None:
            arm = point - x[1:, side.body]
            change[:, side.body, :3] -= sign * force
            change[:, side.body, 3:] -= sign * (np.cross(arm, force) + p_r[:, None] * n)


def _poses(orientation, x, velocity, h, size):
    """Violation (n,) of x_next = x + h v_next, Q_next = exp(h omega_next) Q and |Q| = 1."""
    worst = _largest(np.diff(x, axis=0) - h * velocity[1:, :, :3], (1, 2)) / size
    angle = np.linalg.norm(h * velocity[1:, :, 3:], axis=-1, keepdims=True)
    v = h * velocity[1:, :, 3:] * np.sinc(angle / (2 * np.pi)) / 2
    turn = np.concatenate([np.cos(angle / 2), v], axis=-1)
    w, v = turn[..., :1], turn[..., 1:]
    q0, q = orientation[:-1, :, :1], orientation[:-1, :, 1:]
    expected = [w * q0 - np.sum(v * q, axis=-1, keepdims=True), w * q + q0 * v + np.cross(v, q)]
    same = np.concatenate(expected, axis=-1)
    either = [_largest(orientation[1:] - sign * same, 2) for sign in (1, -1)]
    return np.maximum(worst, np.max(np.minimum(*either), axis=1))


def _contact(world, contact, one, x, velocity, turns, units, whole):
    """Violations (n,) of one contact, by name."""
    g, h, size = units
    p_n, gap, n, t = (one[name] for name in ("normal_impulse", "gap", "normal", "tangent"))
    masses = [world.mass[side.body] for side in (contact.first, contact.second) if side.body is not None]
    P = np.maximum(min(masses) * g * h, p_n)
    # planes need a direction alone; |n| = 1 is a row of `_axes`, and far from the origin would
    # count here with the lever of the point
    along = n / np.linalg.norm(n, axis=1, keepdims=True)
    reach_1, out_1 = _seen(contact.first, along, one["point_1"], x, turns)
    reach_2, out_2 = _seen(contact.second, -along, one["point_2"], x, turns)
    planes = -reach_2 - reach_1  # no more than the distance of the bodies: these planes part them
    # their distance is no more than that of two points
    apart = one["point_2"] - one["point_1"] - gap[:, None] * n
    w, y, _, off = _slip(contact, one, x, velocity)
    off = _largest(off / np.array([1.0, 1.0, size]), 1)
    sigma, bound, rubs = np.linalg.norm(w, axis=1), contact.mu * p_n, np.linalg.norm(y, axis=1)
    V, F = np.maximum(g * h, sigma), np.maximum(P, np.maximum(bound, rubs))
    closed, open_ = p_n / P, gap / (h * np.sqrt(g * size))
    return {
        "distance": np.max([np.abs(planes - gap), np.max(np.abs(apart), axis=1), out_1, out_2], axis=0) / size,
        "penetration": np.maximum(-planes, 0.0) / (h * np.sqrt(g * size)),
        "tangent": _axes(contact, n, t, turns),
        "p_n _|_ gap": np.maximum(-np.minimum(closed, open_), np.where(whole, np.minimum(closed, open_), 0.0)),
        "cone": np.where(whole, np.maximum(np.maximum(rubs - bound, 0.0) / F, off / P), 0.0),
        "dissipation": np.where(whole, np.abs(bound * sigma + np.sum(w * y, axis=1)) / (F * V), 0.0),
    }


def _axes(contact, n, t, turns):
    """Violation (n,) of |n| = |t| = 1, n.t = 0 and, where the ellipsoid has a direction, t along
    its projection, unless that is shorter than a tenth: such directions orient nothing."""
    worst = np.max([np.abs(np.sum(a * b, axis=1) - one) for a, b, one in ((n, n, 1), (t, t, 1), (n, t, 0))], axis=0)
    if contact.direction is None:
        return worst
    along = np.broadcast_to(np.asarray(contact.direction) / np.linalg.norm(contact.direction), n.shape)
    along = along if contact.first.body is None else _turned(turns[contact.first.body][1:], along)
    along = along - np.sum(along * n, axis=1, keepdims=True) * n
    off = np.linalg.norm(np.cross(t, along), axis=1)
    return np.maximum(worst, np.where(np.linalg.norm(along, axis=1) > 0.1 + 1e-9, off, 0.0))


def _seen(side, n, points, x, turns):
    """Of one side: max n.x over it (n,), and how far `points` are outside (n,)."""
    if isinstance(side.solid, Plane):
        plane = side.solid
        along = np.linalg.norm(n - plane.normal, axis=1) * np.linalg.norm(points, axis=1)
        return plane.offset + along, np.maximum(points @ plane.normal - plane.offset, 0.0)
    turn, centre = turns[side.body][1:], x[1:, side.body]
    own_n, own_points = _back(turn, n), _back(turn, points - centre) - side.at
    reach = np.sum(n * centre, axis=1) + own_n @ side.at + side.solid.support(own_n)
    return reach, np.maximum(side.solid.outside(own_points), 0.0)


def _slip(contact, one, x, velocity):
    """Of side 2 against side 1: scaled slip (n, 3), scaled impulse (n, 3), both zero where there is
    no friction, the speed apart (n,), and impulses where no friction is (n, 3)."""
    n, t = one["normal"], one["tangent"]
    linear, spin = np.zeros_like(n), np.zeros_like(n)
    for side, point, sign in ((contact.first, one["point_1"], -1.0), (contact.second, one["point_2"], 1.0)):
        if side.body is not None:
            v, omega = velocity[1:, side.body, :3], velocity[1:, side.body, 3:]
            linear = linear + sign * (v + np.cross(omega, point - x[1:, side.body]))
            spin = spin + sign * omega
    slip = np.stack([np.sum(linear * t, axis=1), np.sum(linear * np.cross(n, t), axis=1), np.sum(spin * n, axis=1)], axis=1)
    on, p = contact.e > 0, one["friction_impulse"]
    y = np.where(on, p / np.where(on, contact.e, 1.0), 0.0)
    return slip * contact.e, y, np.sum(linear * n, axis=1), np.where(on, 0.0, p)

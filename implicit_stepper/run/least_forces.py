"""Of forces that are not unique, the least ones: contact and joint impulses of a finished run,
distributed anew.

Bodies that rest on more supports than are needed move in one way, and share forces in many. Of all
impulses x in the cones of friction that give the bodies the same momenta, A x = b, those of least
norm are a projection, and by duality

    x = proj_K(A^T nu),      A proj_K(A^T nu) = b

which Newton's method solves from nu = (A A^T)^+ b. There proj_K is mostly the identity, and the
pseudo-inverse the answer. A contact that slips keeps its direction, p_n >= 0 times (1, -mu w/|w|).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints import detection, joint, joint_rows, linear_rows
from ..model import bodies
from ..model.bodies import State
from ..model.records import Contacts, Joints
from ..model.system import System, compliant
from ..runtime.compilation import jit
from ..runtime.errors import ForcesError
from ..scene.scene import Scene
from ..stepping.loop import certificates
from ..stepping.stepper import Stepper
from .contact_states import states_of
from .trajectory import Trajectory

_RANK = 1e-10  # of the largest singular value of A: less is what others imply
_TOUCHES = 1e-12  # of the scene's length: a gap at which a contact may carry that does not
_SOLVED = 1e-13  # of b
_ITERATIONS = 100


class _Cone(NamedTuple):
    """What one contact may do: its columns of x, and the unit direction (m,) of one that slips, or
    mu of one that sticks."""

    columns: np.ndarray
    direction: np.ndarray | None
    mu: float


def least_forces(
    scene: Scene, stepper: Stepper, trajectory: Trajectory, *, weights: Sequence[float] | None = None, tolerance=1e-10
) -> Trajectory:
    """The `trajectory` of `scene` by `stepper` with impulses of contacts and joints whose squares
    add up to least, angles of joints counted as lengths; with `weights` (nc,), mu_i N_i for
    example, those of contact i divided by its weight. States are as they were. Every step passes
    the stepper's certificate within `tolerance` again.

    Raises `ValueError` for steps of several stages or parts, for compliant contacts, for joints
    with friction, limits, motors or springs, for weights that are not positive, and where a step
    has no such impulses that pass: `Convex`, whose regularised forces are unique, may be such a
    stepper.
    """
    system, _ = scene.build()
    _refuse(system, trajectory)
    weights = np.ones(system.contact_count) if weights is None else np.asarray(weights, float)
    if weights.shape != (system.contact_count,) or not np.all((weights > 0) & np.isfinite(weights)):
        raise ForcesError(f"`weights` = {weights!r} must be a positive number for each of {system.contact_count} contacts.")
    every = State(*(jnp.asarray(getattr(trajectory, f.name)) for f in dataclasses.fields(State)))
    before, after = (jax.tree.map(lambda a, at=at: a[at], every) for at in (slice(None, -1), slice(1, None)))
    acting, h = before if stepper.normals_at_start else after, np.broadcast_to(trajectory.h, len(trajectory))
    A, lengths = (np.asarray(a) for a in _matrices(system, acting, trajectory.contacts))
    records = dataclasses.replace(trajectory.contacts, joints=None)
    kinds = states_of(system, records, h)
    found = []
    for i in range(len(trajectory)):
        record = jax.tree.map(lambda a, i=i: np.asarray(a[i]), trajectory.contacts)
        found.append(_step(system, A[i], lengths[i], record, kinds[i], weights, float(trajectory.time[i + 1])))
    gamma, lambdas = (np.stack(parts) for parts in zip(*found, strict=True))
    e = np.asarray(linear_rows.of_contacts(system, "e"))
    joints = None if trajectory.joints is None else _joints(system, acting, trajectory.joints, lambdas)
    contacts = dataclasses.replace(
        trajectory.contacts, normal_impulse=gamma[..., 0], friction_impulse=e * gamma[..., 1:], joints=joints
    )
    first = jax.tree.map(lambda a: a[0], every)
    held = certificates(stepper, system, first, after, jax.tree.map(jnp.asarray, contacts), h)
    worst = {name: np.max(np.asarray(values), axis=1, initial=0.0) for name, values in held.items()}
    for name, values in worst.items():
        if not np.max(values, initial=0.0) <= tolerance:
            i = int(np.argmax(values))
            raise ForcesError(
                f"the least forces of the step to t = {trajectory.time[i + 1]:.9g} s violate {name!r} of {stepper!r} by "
                f"{values[i]:.1e} (allowed {tolerance:.0e}): its forces as recorded are the ones to take."
            )
    return dataclasses.replace(trajectory, contacts=contacts, certificate=trajectory.certificate | worst)


def _refuse(system: System, trajectory: Trajectory) -> None:
    """Raises `ValueError` for what has forces of other laws."""
    if trajectory.contact_names != system.contact_names or trajectory.joint_names != system.joint_names:
        raise ForcesError("`trajectory` has other contacts or joints than `scene`: give the scene that it is of.")
    if trajectory.contacts.stages is not None or trajectory.contacts.landing is not None:
        raise ForcesError("`trajectory` has steps of several stages or parts, with forces each: take one of a fixed `h`.")
    if np.any(np.asarray(trajectory.stats.substeps) > 1):
        raise ForcesError("`trajectory` has steps that were taken in parts, of which it keeps the last: take a smaller `h`.")
    if np.any(compliant(system)):
        raise ForcesError("`scene` has compliant contacts, whose forces are unique: take their `compliance` out.")
    for group in system.joints:
        if group.unilateral or not group.bilateral or group.mu is not None:
            name = system.joint_names[group.numbers[0]]
            raise ForcesError(f"joint {name!r} of `scene` has friction, a limit, a motor or a spring: its force is its own.")


@functools.partial(jit, once=True)
def _matrices(system: System, acting: State, contacts: Contacts):
    """A (n, nb w, nc (1 + k) + R), and what made the rows of joints lengths (n, R)."""

    def one(state, record):
        rows = linear_rows.linear_rows(system, state, detection.geometry_of(record))
        own = jax.jacfwd(rows.scaled)(jnp.zeros_like(state.velocity))
        joints = joint_rows.joint_rows(system, state, bodies.mass_matrices(system, state))
        return jnp.concatenate([own.reshape(-1, state.velocity.size), joints.matrix]).T, joints.lengths

    return jax.vmap(one)(acting, contacts)


def _step(system: System, A, lengths, record: Contacts, kinds, weights, time: float):
    """Impulses (nc, 1 + k) of the contacts and multipliers (R,) of the joints of one step."""
    e, mu = (np.asarray(linear_rows.of_contacts(system, name)) for name in ("e", "mu"))
    mu = mu if record.mu is None else record.mu
    y = np.where(e > 0, record.friction_impulse / np.where(e > 0, e, 1.0), 0.0)
    gamma = np.concatenate([record.normal_impulse[:, None], y], axis=1)
    count, width = gamma.shape
    acting = np.zeros(0) if record.joints is None else _flat(system, record.joints.multipliers) / lengths
    x = np.concatenate([gamma.reshape(-1), acting])
    scale = np.concatenate([np.repeat(np.sqrt(weights), width), np.ones(len(acting))])
    cones, free = [], np.zeros(len(x), bool)
    free[count * width :] = True
    for c in range(count):
        if kinds[c] == "open" and record.gap[c] > _TOUCHES * float(system.length):
            continue
        columns = c * width + np.arange(width)[np.append(True, e[c] > 0)]
        slip = (e[c] * record.slip[c])[e[c] > 0]
        slips = kinds[c] == "slip" and record.sigma[c] > 0
        direction = np.append(1.0, -mu[c] * slip / record.sigma[c]) if slips else None
        cones.append(_Cone(columns, None if direction is None else direction / np.linalg.norm(direction), float(mu[c])))
        free[columns] = True
    new = np.zeros_like(x)
    _, s, rows = np.linalg.svd(A[:, free] * scale[free], full_matrices=False)
    rows = rows[s > _RANK * np.max(s, initial=0.0)]
    position = np.cumsum(free) - 1
    project = functools.partial(_project, [cone._replace(columns=position[cone.columns]) for cone in cones])
    new[free] = scale[free] * _least(rows, rows @ (x / scale)[free], project, time)
    return new[: count * width].reshape(count, width), new[count * width :] * lengths


def _least(rows, b, project, time: float):
    """The x in K of least norm with `rows` x = b, whose rows are orthonormal."""
    nu, size = b, max(np.linalg.norm(b), np.finfo(float).tiny)
    for _ in range(_ITERATIONS):
        x, slope = project(rows.T @ nu)
        off = rows @ x - b
        if np.linalg.norm(off) <= _SOLVED * size:
            return x
        H = rows @ slope @ rows.T
        step = -np.linalg.lstsq(H + 1e-12 * np.eye(len(b)), off, rcond=None)[0]
        length, now = 1.0, _dual(rows, b, project, nu)
        while length > 1e-10 and not _dual(rows, b, project, nu + length * step) <= now + 1e-4 * length * (off @ step):
            length /= 2
        nu = nu + length * step
    raise ForcesError(
        f"no forces of least norm were found for the step to t = {time:.9g} s: where friction is at its bound "
        "everywhere, or a regularised law makes forces unique, as in Convex(), nothing is left to distribute."
    )


def _dual(rows, b, project, nu) -> float:
    x, _ = project(rows.T @ nu)
    return x @ x / 2 - b @ nu


def _project(cones: list[_Cone], x):
    """proj_K(x), and its derivative."""
    new, slope = x.copy(), np.eye(len(x))
    for cone in cones:
        own = cone.columns
        new[own], slope[np.ix_(own, own)] = _onto(cone, x[own])
    return new, slope


def _onto(cone: _Cone, own):
    one, none = np.eye(len(own)), np.zeros((len(own), len(own)))
    if cone.direction is not None:
        along = cone.direction @ own
        return max(along, 0.0) * cone.direction, np.outer(cone.direction, cone.direction) if along > 0 else none
    p_n, size = own[0], np.linalg.norm(own[1:])
    if size <= cone.mu * p_n:
        return own, one
    if cone.mu * size <= -p_n:
        return 0 * own, none
    # onto the edge: the head along (1, mu t), and what is across t turned less
    t = own[1:] / size
    edge = np.append(1.0, cone.mu * t) / np.hypot(1, cone.mu)
    head = edge @ own
    across = np.zeros_like(one)
    across[1:, 1:] = np.eye(len(t)) - np.outer(t, t)
    bend = cone.mu * head / np.hypot(1, cone.mu) / size
    return head * edge, np.outer(edge, edge) + bend * across


def _flat(system: System, multipliers):
    """Of the joints (nj, r), one row after the other (R,), in the order of `joint_rows`."""
    own = [multipliers[list(group.numbers), : group.closures].reshape(-1) for group in system.joints]
    return np.concatenate([*own, np.zeros(0)])


def _joints(system: System, acting: State, record: Joints, lambdas) -> Joints:
    """The `record` with other multipliers (n, R)."""

    def one(state, own):
        return joint.record(system, state, joint_rows.by_group(system, own, [None] * len(system.joints)))

    found = jax.vmap(one)(acting, jnp.asarray(lambdas))
    names = ("impulse_1", "impulse_2", "multipliers")
    return dataclasses.replace(record, **{name: np.asarray(getattr(found, name)) for name in names})

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

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints import joint, joint_rows, linear_rows
from ..model.bodies import State
from ..model.records import OF_JOINTS, Contacts, Joints
from ..model.system import System
from ..runtime.compilation import jit
from ..runtime.errors import ForcesError
from ..scene.scene import Scene
from ..solvers.collocation import radau
from ..stepping.loop import certificates
from ..stepping.stepper import Stepper
from .force_sets import Cone, ForceSet, RunForces, forces_of_run
from .trajectory import Trajectory

_RANK = 1e-10  # of the largest singular value of A: less is what others imply
_SOLVED = 1e-13  # of b
_ITERATIONS = 100


def least_forces(
    scene: Scene, stepper: Stepper, trajectory: Trajectory, *, weights: Sequence[float] | None = None, tolerance=1e-10
) -> Trajectory:
    """The `trajectory` of `scene` by `stepper` with impulses of contacts and joints whose squares
    add up to least, angles of joints counted as lengths; with `weights` (nc,), mu_i N_i for
    example, those of contact i divided by its weight. States are as they were. Every step passes
    the stepper's certificate within `tolerance` again.

    Of steps of several stages these are the forces of each stage. Raises `ValueError` for steps
    with impacts or of two parts, for compliant contacts, for joints with friction, limits, motors
    or springs, for weights that are not positive, and where a step
    has no such impulses that pass: `Convex`, whose regularised forces are unique, may be such a
    stepper.
    """
    run = forces_of_run(scene, stepper, trajectory)
    system = run.system
    weights = np.ones(system.contact_count) if weights is None else np.asarray(weights, float)
    if weights.shape != (system.contact_count,) or not np.all((weights > 0) & np.isfinite(weights)):
        raise ForcesError(f"`weights` = {weights!r} must be a positive number for each of {system.contact_count} contacts.")
    if not len(trajectory):
        return trajectory
    found = [run.parted(i, _of_step(run.of(i), weights)) for i in range(len(run.acting.time))]
    gamma, lambdas = (np.stack(parts) for parts in zip(*found, strict=True))
    contacts = _distributed(run, trajectory.contacts, gamma, lambdas)
    first, after = jax.tree.map(lambda a: a[0], run.every), jax.tree.map(lambda a: a[1:], run.every)
    held = certificates(stepper, system, first, after, jax.tree.map(jnp.asarray, contacts), run.h)
    worst = {name: np.max(np.asarray(values), axis=1, initial=0.0) for name, values in held.items()}
    for name, values in worst.items():
        if not np.max(values, initial=0.0) <= tolerance:
            i = int(np.argmax(values))
            raise ForcesError(
                f"the least forces of the step to t = {trajectory.time[i + 1]:.9g} s violate {name!r} of {stepper!r} by "
                f"{values[i]:.1e} (allowed {tolerance:.0e}): its forces as recorded are the ones to take."
            )
    names = ("normal_impulse", "friction_impulse", "joints", "stages")
    contacts = dataclasses.replace(trajectory.contacts, **{name: getattr(contacts, name) for name in names})
    return dataclasses.replace(trajectory, contacts=contacts, certificate=trajectory.certificate | worst)


def _of_step(given: ForceSet, weights):
    """x of least norm, with contacts divided by their `weights` (nc,)."""
    of_contacts = np.repeat(np.sqrt(weights), given.width)
    scale = np.concatenate([of_contacts, np.ones(len(given.x) - len(of_contacts))])
    free, new = given.free, np.zeros_like(given.x)
    _, s, rows = np.linalg.svd(given.A[:, free] * scale[free], full_matrices=False)
    rows = rows[s > _RANK * np.max(s, initial=0.0)]
    position = np.cumsum(free) - 1
    project = functools.partial(_project, [cone._replace(columns=position[cone.columns]) for cone in given.cones])
    new[free] = scale[free] * _least(rows, rows @ (given.x / scale)[free], project, given.time)
    return new


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
        length = 1.0
        # near the root what is gained is less than the rounding of what is summed
        above = _dual(rows, b, project, nu) + 8 * np.finfo(float).eps * (x @ x / 2 + np.abs(b) @ np.abs(nu))
        while length > 1e-10 and not _dual(rows, b, project, nu + length * step) <= above + 1e-4 * length * (off @ step):
            length /= 2
        nu = nu + length * step
    raise ForcesError(
        f"no forces of least norm were found for the step to t = {time:.9g} s: where friction is at its bound "
        "everywhere, or a regularised law makes forces unique, as in Convex(), nothing is left to distribute."
    )


def _dual(rows, b, project, nu) -> float:
    x, _ = project(rows.T @ nu)
    return x @ x / 2 - b @ nu


def _project(cones: list[Cone], x):
    """proj_K(x), and its derivative."""
    new, slope = x.copy(), np.eye(len(x))
    for cone in cones:
        own = cone.columns
        new[own], slope[np.ix_(own, own)] = _onto(cone, x[own])
    return new, slope


def _onto(cone: Cone, own):
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


def _distributed(run: RunForces, contacts: Contacts, gamma, lambdas) -> Contacts:
    """The `contacts` of a run with impulses `gamma` (n s, nc, 1 + k) and multipliers `lambdas` (n
    s, R) of its forces; those of a step of several stages are the stages' in its last row."""
    e, old = np.asarray(linear_rows.of_contacts(run.system, "e")), run.records
    joints = old.joints
    if joints is not None:
        found = _joints(run.system, run.acting, lambdas)
        joints = dataclasses.replace(joints, **{name: np.asarray(getattr(found, name)) for name in OF_JOINTS})
    new = dataclasses.replace(old, normal_impulse=gamma[..., 0], friction_impulse=e * gamma[..., 1:], joints=joints)
    if run.stages is None:
        return new
    new = jax.tree.map(lambda a: run.by_step(np.asarray(a)), new)
    share = radau(run.stages).A[-1]

    def summed(record, names):
        return {name: np.einsum("s,ns...->n...", share, getattr(record, name)) for name in names}

    ends = contacts.joints
    if ends is not None:
        ends = dataclasses.replace(ends, **summed(new.joints, OF_JOINTS))
    own = dataclasses.replace(contacts.stages, contacts=new)
    return dataclasses.replace(contacts, **summed(new, ("normal_impulse", "friction_impulse")), joints=ends, stages=own)


@functools.partial(jit, once=True)
def _joints(system: System, acting: State, lambdas) -> Joints:
    """What the joints do in the states with multipliers (n, R)."""

    def one(state, own):
        return joint.record(system, state, joint_rows.by_group(system, own, [None] * len(system.joints)))

    return jax.vmap(one)(acting, lambdas)

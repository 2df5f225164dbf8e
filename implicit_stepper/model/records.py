"""What one step of any time-stepper returns."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from .bodies import State


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Contacts:
    """All contacts at the end of a step, in the order of `Scene.add_contact`; d = 3 or 2, k = 3 or
    1; inertial frame.

    normal_impulse (nc,) [N s]; friction_impulse (nc, k): p_t, p_o [N s] along `tangent` t and o = n
    x t, and p_r [N m s] about n; gap (nc,) [m] and gap_start (nc,), that at the start of the step;
    slip (nc, k): v_t, v_o [m/s], v_r [rad/s] of body 2 against body 1; sigma (nc,) [m/s], the norm
    of (e_t v_t, e_o v_o, e_r v_r); point_1, point_2, normal, tangent (nc, d); multipliers_1,
    multipliers_2 (nc, m): the weights l_j >= 0 with normal = sum l_j grad f_j(point_1) = - sum l_j
    grad g_j(point_2), Chakraborty (20)-(22), zero for inactive inequalities and beyond a shape's
    own number of them; of rounded bodies at their cores' points.

    Points, normals, tangents, multipliers and slips belong to the configuration in which the
    stepper writes its contact equations: the end of the step for `GeometricallyImplicit`, the start
    for those that ask for contacts beforehand. `gap` is always that at the end. `stages`: what a
    method of several stages leaves inside the step; `landing`: where a step of two parts was cut;
    `joints`: what the joints of the scene do, if it has any; `mu` (nc,): the coefficient of
    friction that each contact had in the step, if any has one of its own for what sticks.
    """

    normal_impulse: jax.Array
    friction_impulse: jax.Array
    gap: jax.Array
    gap_start: jax.Array
    slip: jax.Array
    sigma: jax.Array
    point_1: jax.Array
    point_2: jax.Array
    normal: jax.Array
    tangent: jax.Array
    multipliers_1: jax.Array
    multipliers_2: jax.Array
    stages: Stages | None = None
    landing: Landing | None = None
    joints: Joints | None = None
    mu: jax.Array | None = None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Joints:
    """All joints at the end of a step, in the order of `Scene.add_joint`; w = 6 or 3; r, the most
    equations of a joint, beyond those of a joint zero; inertial frame.

    impulse_1, impulse_2 (nj, w): of the reactions on body 1 and body 2 (force [N s], moment about
    the body's centre of mass [N m s]); multipliers (nj, r) [N s, N m s], of which they are G^T
    times; closure (nj, r) [m, rad]: g at the end; coordinate (nj, c) [m, rad], what is free, and
    its rate (nj, c), at the end, for c, the most of a joint. `eta` (nj, r), of the stages of a
    step: what keeps positions, see `radau.stages`; `mu` (nj,), as that of contacts, if any joint
    has one of its own for what sticks.
    """

    impulse_1: jax.Array
    impulse_2: jax.Array
    multipliers: jax.Array
    closure: jax.Array
    coordinate: jax.Array
    rate: jax.Array
    eta: jax.Array | None = None
    mu: jax.Array | None = None


OF_JOINTS = ("impulse_1", "impulse_2", "multipliers")  # of `Joints`: what adds up over steps


def with_impulses_of(contacts: Contacts, others: Contacts) -> Contacts:
    """`contacts`, and what their joints do, with the impulses of `others` added to theirs."""
    joints = contacts.joints
    if joints is not None:
        sums = {name: getattr(joints, name) + getattr(others.joints, name) for name in OF_JOINTS}
        joints = dataclasses.replace(joints, **sums)
    return dataclasses.replace(
        contacts,
        joints=joints,
        normal_impulse=contacts.normal_impulse + others.normal_impulse,
        friction_impulse=contacts.friction_impulse + others.friction_impulse,
    )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Landing:
    """Where a step of two parts was cut: after the `part` () of h, with the `state` there and the
    `contacts` of the first part. A step that was not cut has the part 1."""

    part: jax.Array
    state: State
    contacts: Contacts


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Stages:
    """Inside a step of s stages: rates U_i (s, nb, 6 or 3) of x [m/s] and of the rotation vector
    from the start [rad/s]; velocity V_i (s, nb, 6 or 3); eta (s, nc) [N s]; `contacts` with one
    more axis s in front, their impulses h times the forces at the stage; torques `tilt` (s, nc, 2)
    [N m s] along the tangents t and o, which keep the rates of tilts at zero as the etas keep those
    of gaps, None where no bodies touch along lines or faces."""

    rates: jax.Array
    velocity: jax.Array
    eta: jax.Array
    contacts: Contacts
    tilt: jax.Array | None = None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Stats:
    """Cost and quality of a step: iterations () (Jacobians, over all starts and rungs), residual ()
    (largest |F_i|, dimensionless), rung () (which of `Stepper.rungs` solved it; their number where
    it took sub-steps; of an impact among pairs that are found, how often its e were halved),
    substeps () (1, or how many shorter steps were taken in its place)."""

    iterations: jax.Array
    residual: jax.Array
    rung: jax.Array
    substeps: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class StepResult:
    """What a step returns: the new state, the memory for the next step, contacts, stats and a
    `results.Result` number ()."""

    state: State
    memory: Any
    contacts: Contacts
    stats: Stats
    result: jax.Array


def no_contacts(d: int) -> Contacts:
    """Of a scene of dimension d without contacts."""
    k = 3 if d == 3 else 1
    width = {"friction_impulse": k, "slip": k, "point_1": d, "point_2": d, "normal": d, "tangent": d}
    width |= {"multipliers_1": 0, "multipliers_2": 0}
    names = [f.name for f in dataclasses.fields(Contacts) if f.name not in ("stages", "landing", "joints", "mu")]
    return Contacts(**{name: jnp.zeros((0, width[name]) if name in width else 0) for name in names})

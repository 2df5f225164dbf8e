"""Joints that are alike, put together, and what a joint needs to hold as it is added."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import numpy as np

from ..constraints.ball_friction import BallFrictionGroup, relative_turn
from ..constraints.coordinates import Along
from ..constraints.joint import JointGroup
from ..constraints.joint_friction import FrictionGroup
from ..constraints.joint_limits import LimitGroup
from ..constraints.joint_motors import MotorGroup
from ..constraints.joints import Form
from ..constraints.nonholonomic import VelocityGroup, refuse_nonlinear
from ..constraints.pair_loads import PairLoadGroup, refuse_load
from ..runtime.errors import FunctionError, OpenJointError

_CLOSED = 1e-8  # of the size of a body: a closure that is open by less was rounded


@dataclasses.dataclass(frozen=True)
class JointSpec:
    """A joint of a scene: its `name`; the `bodies` by number (moving bodies first, then fixed ones)
    and whether they are `moving`; its `form`."""

    name: str
    bodies: tuple[int, int]
    moving: tuple[bool, bool]
    form: Form


def joined(joints: list[JointSpec]) -> tuple[JointGroup | FrictionGroup | LimitGroup | MotorGroup, ...]:
    """Joints with the same closure whose bodies move alike, as groups."""
    alike: dict[Any, list[int]] = {}
    for number, joint in enumerate(joints):
        form = joint.form
        kind = (
            form.closure,
            form.angles,
            joint.moving,
            form.coordinates,
            form.stiffness is not None,
            np.shape(form.pads),
            form.friction is not None and form.friction.mu_s is not None,
            form.bounds,
            form.motor is not None,
            jax.tree.structure(form.parameters),  # of a screw's angle it is not that of a hinge's
            tuple(map(np.shape, jax.tree.leaves(form.parameters))),
        )
        alike.setdefault(kind, []).append(number)
    return tuple(_group([joints[n] for n in numbers], tuple(numbers)) for numbers in alike.values())


def _group(joints: list[JointSpec], numbers: tuple[int, ...]) -> JointGroup | FrictionGroup | LimitGroup | MotorGroup:
    """Joints that are alike."""
    forms, (first, *_) = [joint.form for joint in joints], joints
    elastic = first.form.stiffness is not None
    kind = VelocityGroup if first.form.velocities else PairLoadGroup if first.form.load else JointGroup
    group = kind(
        closure=first.form.closure,
        angles=first.form.angles,
        bodies=tuple(joint.bodies for joint in joints),
        moving=first.moving,
        numbers=numbers,
        coordinates=first.form.coordinates,
        free_angles=first.form.free_angles,
        parameters=jax.tree.map(lambda *own: np.stack(own), *(form.parameters for form in forms)),
        stiffness=np.stack([form.stiffness for form in forms]) if elastic else None,
        damping=np.stack([form.damping for form in forms]) if elastic else None,
    )
    if first.form.bounds:
        return LimitGroup(group)
    if first.form.friction is None and first.form.motor is None:
        return group
    ball = not first.form.free_angles
    coordinate = relative_turn if ball else Along(first.form.coordinates)
    angles = (True,) * 3 if ball else first.form.free_angles[:1]
    along = dataclasses.replace(group, closure=coordinate, angles=angles, coordinates=None)
    if first.form.motor is not None:
        speed, most, lever = np.array([form.motor for form in forms]).T
        return MotorGroup(np.zeros((len(joints), 0, 0, 0)), group, along, mu=0 * lever, lever=lever, most=most, speed=speed)
    frictions = [form.friction for form in forms]
    return (BallFrictionGroup if ball else FrictionGroup)(
        pads=np.stack([form.pads for form in forms]),
        joint=group,
        along=along,
        mu=np.array([friction.mu for friction in frictions]),
        lever=np.array([friction.radius or 1.0 for friction in frictions]),
        mu_s=None if frictions[0].mu_s is None else np.array([friction.mu_s for friction in frictions]),
    )


def refuse_open(name: str, form: Form, poses, length: float, where: str = "as it is added") -> None:
    """Raises `ValueError` where g is not of its shape, not finite, or not zero for bodies of a size
    `length` [m], unless that is infinite, at their two `poses`, `where` these are."""
    r = len(form.angles)
    try:
        g = np.asarray(_closure(form.closure, form.parameters, *poses, 0.0))
    except Exception as error:  # of any type: it is the user's function that JAX's tracers run through
        what = (str(error).splitlines() or [type(error).__name__])[0]
        raise FunctionError(
            f"g of joint {name!r} cannot be traced by JAX ({what:.200}): write it with jax.numpy, as a function of two "
            "poses (position, orientation), of a VelocityConstraint with velocities, and the time, that returns an array; "
            "a motion as one of the time alone."
        ) from error
    if g.shape != (r,) or not np.issubdtype(g.dtype, np.floating):
        raise FunctionError(
            f"g of joint {name!r} has shape {g.shape} and type {g.dtype}: it needs {r} numbers, shape ({r},)."
        )
    if not np.all(np.isfinite(g)):
        raise FunctionError(f"g of joint {name!r} is {g.tolist()} as the joint is added: it must be finite.")
    if form.load:
        refuse_load(name, form.closure.load, poses)
    if form.velocities:
        refuse_nonlinear(name, form.closure.rate, poses)
    if form.stiffness is not None or np.isinf(length):  # a spring may begin in tension
        return
    if form.bounds:
        g = np.minimum(g, 0.0)
    if not g.size:
        return
    worst = int(np.argmax(np.abs(g) / np.where(form.angles, 1.0, length)))
    if abs(g[worst]) > _CLOSED * (1.0 if form.angles[worst] else length):
        unit = "rad" if form.angles[worst] else "m"
        raise OpenJointError(
            f"joint {name!r} is open by {abs(g[worst]):.3g} {unit} {where} (component {worst} of its closure): move "
            "the bodies, or give its points, axes or length so that they meet."
        )


@functools.partial(jax.jit, static_argnums=0)
def _closure(closure, parameters, pose_1, pose_2, time):
    return closure(parameters, pose_1, pose_2, time)

"""Where the bodies of constraints are, and how fast: the poses and velocities of two bodies, and
their shapes there."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from shapes.closest_points.conditions import Placed
from shapes.small_algebra import inner, product

from ..model import bodies, rotation
from ..model.bodies import State
from ..model.system import Frame, System, body_numbers, take


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Motion:
    """Poses and velocities of bodies: position (..., d), orientation (..., 4 or 1), velocity (...,
    6 or 3)."""

    position: jax.Array
    orientation: jax.Array
    velocity: jax.Array


def motions_of(system: System, state: State, group) -> tuple[Motion, Motion]:
    """Body 1 and body 2 of each constraint of a group in `state`, first axis the constraints. Fixed
    bodies are constants, which derivatives and loops need not carry along."""
    at_rest = jnp.zeros((system.fixed_position.shape[0], state.velocity.shape[1]))
    fixed = Motion(system.fixed_position, system.fixed_orientation, at_rest)
    moving = Motion(state.position, state.orientation, state.velocity)
    numbers = body_numbers(group) - np.where(group.moving, 0, system.body_count)
    return tuple(
        jax.tree.map(functools.partial(take, numbers=of_side), moving if moves else fixed)
        for of_side, moves in zip(numbers.T, group.moving, strict=True)
    )


def told(motion: Motion) -> tuple:
    """A body as users' functions see it: position, orientation and velocity."""
    return motion.position, motion.orientation, motion.velocity


def moved(start: Motion, velocity, h) -> Motion:
    """One body after a step of h [s] at the end-of-step `velocity`: q + h G nu by the exponential
    map."""
    return Motion(*bodies.advance(start.position, start.orientation, velocity, h), velocity)


def placed(member, motion_1: Motion, motion_2: Motion) -> tuple[Placed, Placed]:
    """The two shapes of one contact, `member` of a group as `vmap` hands it over, where their
    bodies are."""
    return (
        Placed(member.theta_1, member.slope_1, *_shape_pose(member.frame_1, motion_1)),
        Placed(member.theta_2, member.slope_2, *_shape_pose(member.frame_2, motion_2)),
    )


def _shape_pose(frame: Frame | None, motion: Motion):
    """Position and rotation of a shape that sits at `frame` on its body."""
    turned = rotation.matrix(motion.orientation)
    if frame is None:
        return motion.position, turned
    return motion.position + inner(turned, frame.position), product(turned, frame.rotation)

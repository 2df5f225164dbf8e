"""Poses and velocities at which joints hold, near those that were given.

    q <- q + M^-1 G^T Lambda,   G M^-1 G^T Lambda = -g
    V <- V + M^-1 G^T Lambda,   G V + g_t = 0

Newton's method, in which heavy bodies move less than light ones.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints import joint_rows
from ..model import bodies, rotation
from ..model.bodies import State
from ..model.system import System
from ..runtime.compilation import jit
from ..runtime.errors import OpenJointError
from .joining import JointSpec, refuse_open

_CLOSED = 1e-13  # of the scene's length and of how far bodies are: what rounding leaves
_MOST = 100  # steps of Newton's method


def projected(system: System, state: State, joints: list[JointSpec]) -> State:
    """A state near `state` in which the `joints` of the system hold. Raises `ValueError` where none
    is found, and where a limit is passed in it, which moves no body."""
    state = _closed(system, state)
    fixed = system.fixed_position, system.fixed_orientation
    everywhere = [np.concatenate(parts) for parts in zip((state.position, state.orientation), fixed, strict=True)]
    for joint in joints:
        if joint.form.bounds:
            poses = [tuple(part[number] for part in everywhere) for number in joint.bodies]
            refuse_open(joint.name, joint.form, poses, float(system.length), "where all joints hold")
    return state


def _closed(system: System, state: State) -> State:
    """The state in which joints hold without regard to limits."""
    names = [system.joint_names[n] for group in joint_rows.rigid(system) for n in group.numbers for _ in group.angles]
    length = float(system.length) + float(np.max(np.abs(state.position)))
    for _ in range(_MOST):
        nearer, allowed, g = _nearer(system, state)
        worst = int(np.argmax(np.where(np.isnan(g), np.inf, np.abs(g))))
        if abs(g[worst]) <= _CLOSED * length:
            return jax.tree.map(np.asarray, dataclasses.replace(state, velocity=allowed))
        state = nearer
    sizes = {name: max(abs(g[row]) for row, own in enumerate(names) if own == name) for name in names}
    apart = sorted((name for name in sizes if not sizes[name] <= _CLOSED * length), key=lambda name: -sizes[name])
    told = ", ".join(f"{name!r} is open by {sizes[name]:.3g} m" for name in apart)
    raise OpenJointError(
        f"the joints do not hold together near the poses given: {told} after {_MOST} projections. Place the bodies closer "
        "to where they belong, or remove a joint that contradicts others."
    )


@jit
def _nearer(system: System, state: State):
    """One step further from `state`; the velocities that joints allow in it; and g (R,) in
    lengths."""
    rows = joint_rows.joint_rows(system, state, bodies.mass_matrices(system, state))
    g, d = joint_rows.closures(system, state, rows), system.dimension
    move, _ = rows.answer(jnp.zeros_like(state.velocity), g)
    turned = jax.vmap(rotation.advance)(state.orientation, move[:, d:])
    nearer = dataclasses.replace(state, position=state.position + move[:, :d], orientation=rotation.unit(turned))
    allowed = state.velocity + rows.answer(state.velocity, joint_rows.targets(system, state, rows, 0.0))[0]
    return nearer, allowed, g

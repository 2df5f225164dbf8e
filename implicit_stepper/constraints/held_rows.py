"""Contacts of bodies that joints hold, for steps whose equations are linear in the velocities:
joints eliminated.

    M (V - V_free) = D gamma + G^T Lambda,      G V = -t

With P = 1 - M^-1 G^T (G M^-1 G^T)^+ G, which takes from velocities what joints do not allow, it is

    V = V_held + P M^-1 D gamma,      V_held = V_free - M^-1 G^T (G M^-1 G^T)^+ (G V_free + t)

so that the problem of the contacts is that of bodies without joints, with rows D^T P. A multiplier
of a bilateral row has no cone, and nothing is lost by eliminating it first.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from ..model.bodies import State
from ..model.system import System
from . import joint_rows
from .joint_rows import JointRows
from .linear_rows import Rows


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class HeldRows:
    """The `rows` of contacts, the `joints` and their `target` (R,) t, in lengths."""

    rows: Rows
    joints: JointRows
    target: jax.Array

    def scaled(self, velocity):
        """(v_n, w) (nc, 1 + k) [m/s] of what joints allow of `velocity` (nb, 6 or 3)."""
        return self.rows.scaled(velocity + self.joints.answer(velocity, 0.0)[0])

    def momenta(self, impulses, body_count: int):
        """Transpose of `scaled`: what is left of the momenta (nb, 6 or 3) that `impulses` (nc, 1 +
        k) give, beside the joints' answer."""
        return self.joints.beside_answer(self.rows.momenta(impulses, body_count))

    def gathered(self, blocks, body_count: int):
        """The matrix (nb w, nb w) of `Rows.gathered`, for these rows."""
        half = self.rows.gathered(blocks, body_count).reshape(-1, *self.joints.inverse.shape[:2])
        half = self.joints.beside_answer(half)
        half = half.reshape(len(half), -1).T.reshape(half.shape)
        return self.joints.beside_answer(half).reshape(len(half), -1)

    def velocity(self, free) -> tuple[jax.Array, jax.Array]:
        """V (nb, 6 or 3) with G V = -t from a `free` one, and the multipliers (R,) [N s, N m s].
        The second answer takes what rounding leaves of the first."""
        first, multipliers = self.joints.answer(free, self.target)
        second, more = self.joints.answer(free + first, self.target)
        return free + first + second, (multipliers + more) * self.joints.lengths

    def driven(self, free, mass, impulses) -> tuple[jax.Array, jax.Array]:
        """As `velocity`, of bodies with `mass` matrices that contacts give `impulses` (nc, 1 + k),
        too."""
        given = self.rows.momenta(impulses, len(mass))
        return self.velocity(free + jnp.linalg.solve(mass, given[..., None])[..., 0])


def held_rows(system: System, state: State, mass, rows: Rows, h) -> HeldRows:
    """With the joints at the poses of `state`, and G V = -g/h - g_t, Negrut (5c), (8): what they
    have come apart is undone in the step of h [s], to first order; with an infinite h, nothing of
    it."""
    joints = joint_rows.joint_rows(system, state, mass)
    return HeldRows(rows, joints, joint_rows.closing_targets(system, state, joints, h))

"""The derivative of the NCP of several stages, from one small block per stage."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from . import stages
from .collocation import radau
from .stage_modes import margins_at
from .stages import Modes, StageProblem


def jacobian(problem: StageProblem, z, modes: Modes, held, ahead):
    """Derivatives of F and of the last stage's margins (see `stage_modes.margins`, `ahead` as there): by z, (s n, s n) and
    (margins, s n), and by h, (s n,) and (margins,) [1/s].

    Stages depend on each other only through the changes D_i and through what pushes the bodies, both linear: so each stage
    is differentiated alone, by its own unknowns, by D_i and by h."""
    s, A, b = problem.stages, radau(problem.stages).A, problem.momentum.size
    units = stages.unknown_scale(problem)
    whole, own = stages.split_stages(problem, z * units), z.reshape(s, -1)

    def local(own, change, h, time):
        here = dataclasses.replace(problem, h=h)
        rates, contacts = stages.stage_parts(here, own * units[: own.size])
        stage = stages.Stage(problem.state.time + h * time, rates, change, contacts)
        at = stages.at_stage(here, stage)
        rows, pushed = stages.rows_and_pushes(here, stage, at, modes, held)
        return rows, (pushed / problem.scales.momentum).reshape(-1), margins_at(here, at, modes, ahead)

    each = jax.vmap(jax.jacfwd(local, (0, 1, 2)), (0, 0, None, 0))(own, whole.change, problem.h, stages.fractions(problem))
    (R, R_D, R_h), (P, P_D, P_h), (M, M_D, M_h) = each
    turn = problem.h * A[:, :, None] * units[:b]  # dD_i/dU_j in dimensionless rates

    def through_change(derivative):
        """(s, k, s, b): of what has this `derivative` (s, k, nb, 6 or 3) by D_i."""
        return jnp.einsum("ikb,ijb->ikjb", derivative.reshape(*derivative.shape[:2], b), turn)

    def coupled(local, by_change):
        """(s, k, s, n)."""
        full = jnp.einsum("ikn,ij->ikjn", local, np.eye(s))
        return full.at[..., :b].add(through_change(by_change))

    J = coupled(R, R_D)
    J = J.at[:, :b].add(-jnp.einsum("il,lkjn->ikjn", A, coupled(P, P_D)))
    # D_i = h sum_j A_ij U_j changes with h at the rate D_i / h
    R_h, P_h, M_h = (
        by_h + jnp.einsum("ikbw,ibw->ik", by_change, whole.change / problem.h)
        for by_h, by_change in ((R_h, R_D), (P_h, P_D), (M_h, M_D))
    )
    J_h = R_h.at[:, :b].add(-A @ P_h)
    return J.reshape(z.size, z.size), coupled(M, M_D)[-1].reshape(-1, z.size), J_h.reshape(-1), M_h[-1]

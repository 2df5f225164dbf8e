"""The derivative of the NCP of several stages as one dense matrix, from its pieces.

Stages depend on each other only through the changes D_i and through what pushes the bodies, both
linear. (`sparse_jacobian` has it as a sparse one.)
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints import incidence
from ..model.system import System
from ..solvers.collocation import radau
from ..solvers.linear import apart
from ..solvers.static_condensation import Condensed, Local
from . import stage_unknowns
from .stage_pieces import Pieces, ends_of, lane_counts, pieces
from .stages import Modes, StageProblem


class Derivatives(NamedTuple):
    """Of F by z, `system`; of the rows of the rest by h, `by_h`, and how closest points `follow_h`
    [1/s]; of the last stage's `margins` (m, rest), `margins_local` (m, a) and `margins_by_h`
    (m,)."""

    system: Condensed
    by_h: jax.Array
    follow_h: jax.Array
    margins: jax.Array
    margins_local: jax.Array
    margins_by_h: jax.Array


class _Stage(NamedTuple):
    """One stage: its rows of the rest, margins and pushes, dimensionless, by all `_columns` but V;
    per group K^-1 (nc, na, na); K^-1 k_D (a, b) of all closest points."""

    rows: jax.Array
    margins: jax.Array
    pushes: jax.Array
    inverses: tuple[jax.Array, ...]
    follow: jax.Array


def derivatives(problem: StageProblem, z, modes: Modes, held) -> Derivatives:
    """At z (s n,), see `stage_unknowns`."""
    s, A, b = problem.stages, radau(problem.stages).A, problem.momentum.size
    whole, found = pieces(problem, z, modes, held)
    each = jax.vmap(functools.partial(_at_stage, problem))(found)
    local = each.follow.shape[1]
    sizes = np.cumsum([z.size // s - local, local, b])
    # dD_i / dU_j, of dimensionless rates
    turn = problem.h * A[:, :, None] * problem.scales.velocity.reshape(-1)
    growth = (whole.change / problem.h).reshape(s, b)  # dD_i / dh

    def of_all(matrix):
        """By the rest (s, k, s, own) and the closest points (s, k, s, local) of all stages, and by
        h (s, k)."""
        own, closest, change, h = jnp.split(matrix, sizes, axis=-1)
        by_own, by_closest = (jnp.einsum("ikn,ij->ikjn", by, np.eye(s)) for by in (own, closest))
        turned = jnp.einsum("ikb,ijb->ikjb", change, turn)
        by_own = by_own + jnp.pad(turned, ((0, 0),) * 3 + ((0, by_own.shape[-1] - b),))
        return by_own, by_closest, h[..., 0] + jnp.einsum("ikb,ib->ik", change, growth)

    margins = [by[-1] for by in of_all(each.margins)]
    rest, closest, by_h = (
        of_rows.at[:, :b].add(-jnp.einsum("il,lk...->ik...", A, of_pushes))
        for of_rows, of_pushes in zip(of_all(each.rows), of_all(each.pushes), strict=True)
    )
    follow = jnp.zeros((s, local, *rest.shape[2:])).at[..., :b].set(jnp.einsum("iab,ijb->iajb", each.follow, turn))
    n, total, edges = by_h.size, s * local, len(margins[2])
    return Derivatives(
        Condensed(rest.reshape(n, n), Local(each.inverses, follow.reshape(total, n), closest.reshape(n, total))),
        by_h.reshape(-1),
        jnp.einsum("iab,ib->ia", each.follow, growth).reshape(-1),
        margins[0].reshape(edges, n),
        margins[1].reshape(edges, total),
        margins[2],
    )


def with_h(found: Derivatives, h, event) -> Condensed:
    """With one more unknown, h in units of `h`, and one more row: the margin of number `event`, or
    that unknown if it is -1."""
    rest, local = found.system.rest, found.system.local
    edge, edge_local = (
        jnp.concatenate([by, jnp.zeros((1, by.shape[1]))])[event][None] for by in (found.margins, found.margins_local)
    )
    corner = jnp.append(found.margins_by_h * h, 1.0)[event]
    column, follow = found.by_h[:, None] * h, found.follow_h[:, None] * h
    return Condensed(
        jnp.block([[rest, column], [edge, corner[None, None]]]),
        Local(local.inverses, jnp.concatenate([local.follow, follow], axis=1), jnp.concatenate([local.lead, edge_local])),
    )


def _columns(system: System) -> list[int]:
    """How many of what a stage is differentiated by: U; per group, the rest of its constraints'
    unknowns; per group, their closest points; D; h; and V. Unknowns are dimensionless."""
    b = int(np.prod(stage_unknowns.rates_shape(system)))
    local = [len(g.bodies) * g.determined for g in system.constraints]
    rest = [len(g.bodies) * stage_unknowns.width(g) - n for g, n in zip(system.constraints, local, strict=True)]
    return [b, *rest, *local, b, 1, b]


def _at_stage(problem: StageProblem, own: Pieces) -> _Stage:
    """Everything of one stage."""
    system, b, count = problem.system, problem.momentum.size, sum(_columns(problem.system))
    moved, w, rows, margins, follow = own.bodies, len(own.loads.change[0][0]), [], [], [jnp.zeros((0, b))]
    before = jnp.zeros((b, count - 2 * b - 1))
    pushes = [before, _diagonal(own.loads.change), own.loads.h.reshape(b, 1), _diagonal(own.loads.velocity)]
    shifts, pushes = jnp.zeros((b, count)), jnp.concatenate(pushes, axis=1)
    for g, (group, found, by_change) in enumerate(zip(system.constraints, own.found, own.follow, strict=True)):
        share, ends = incidence.shares(system, group), ends_of(group, w, found.shape[2])
        _, others, edges, shift, push = jnp.split(_by_columns(system, g, found), ends, axis=1)
        shift, push = (
            jnp.einsum("csb,cswk->bwk", share, on.reshape(*share.shape[:2], -1, count)).reshape(b, count)
            for on in (shift, push)
        )
        shifts, pushes = shifts + shift, pushes + push
        rows.append(others.reshape(-1, count))
        margins.append(edges.reshape(-1, count))
        follow.append(incidence.by_body(share, by_change.swapaxes(1, 2)).reshape(-1, b))
    none, units = jnp.zeros((b, count - 3 * b - 1)), problem.scales
    by_rates, by_change = _diagonal(moved.momenta_by_rates) * units.velocity.reshape(-1), _diagonal(moved.momenta)
    momenta = jnp.concatenate([by_rates, none, by_change, jnp.zeros((b, 1))], axis=1) - shifts[:, :-b]
    velocity = _diagonal(moved.velocity_by_momenta) @ momenta
    velocity = velocity + jnp.pad(_diagonal(moved.velocity), ((0, 0), (velocity.shape[1] - b - 1, 1)))
    whole = jnp.concatenate([*rows, *margins, pushes])
    whole = whole[:, :-b] + whole[:, -b:] @ velocity
    others, edges, pushed = jnp.split(whole, np.cumsum([sum(map(len, rows)), sum(map(len, margins))]))
    unit = units.momentum.reshape(-1, 1)
    return _Stage(jnp.concatenate([momenta / unit, others]), edges, pushed / unit, own.inverses, jnp.concatenate(follow))


def _by_columns(system: System, g: int, found):
    """(n, outputs, columns) of (n, lanes, outputs): constraints depend on their own unknowns and
    bodies alone."""
    group, (_, w) = system.constraints[g], stage_unknowns.rates_shape(system)
    share, shape = incidence.shares(system, group), (len(group.bodies), found.shape[2])
    rest, local, change, h, velocity = jnp.split(found.swapaxes(1, 2), np.cumsum(lane_counts(group, w))[:-1], axis=2)
    zeros = [jnp.zeros((*shape, count)) for count in _columns(system)]
    columns, groups = zeros, len(system.constraints)
    for place, own in ((1 + g, rest), (1 + groups + g, local)):
        columns[place] = apart(own)
    columns[-3], columns[-2], columns[-1] = incidence.by_body(share, change), h, incidence.by_body(share, velocity)
    return jnp.concatenate(columns, axis=2)


def _diagonal(each):
    """The matrix (nb k, nb w) of bodies that depend on themselves alone, from (w, nb, k)."""
    w, nb, k = each.shape
    return apart(each.transpose(1, 2, 0)).reshape(nb * k, nb * w)

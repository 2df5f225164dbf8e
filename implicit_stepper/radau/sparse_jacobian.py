"""The derivative of the NCP of several stages as a sparse matrix, put together on the host.

What `stage_jacobian` makes of the pieces with dense matrices is made here with sparse ones: each
piece has its place, and what depends on velocities, momenta and changes D_i of bodies is put in by
products. Columns are the unknowns of the rest, the closest points, h, and then D and V of all
stages, which are put in last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..constraints.conditions import Constraint
from ..model.system import body_numbers
from ..solvers.collocation import radau
from ..solvers.sparse_condensation import SparseCondensed, entries
from . import stage_unknowns
from .stage_pieces import Pieces, ends_of, pieces
from .stages import Modes, StageProblem


class Known(NamedTuple):
    """What pieces are put together with: the `pieces` with an axis (s,) in front, as NumPy arrays;
    per group the moving `bodies` (n, sides) of its constraints; units `velocity` and `momentum`
    (nb, w); the step `h` [s], the unit `unit_h` [s] of h among the unknowns, and what the changes
    `grow` by (s, nb, w) in h."""

    pieces: Pieces
    bodies: tuple[np.ndarray, ...]
    velocity: np.ndarray
    momentum: np.ndarray
    h: np.ndarray
    unit_h: np.ndarray
    grow: np.ndarray


def known_at(problem: StageProblem, z, modes: Modes, held, unit_h) -> Known:
    """What is known at z (s n,), with h in units of `unit_h` () [s]."""
    whole, found = pieces(problem, z, modes, held)
    bodies = [body_numbers(group)[:, [i for i in (0, 1) if group.moving[i]]] for group in problem.system.constraints]
    units = problem.scales
    return Known(found, tuple(bodies), units.velocity, units.momentum, problem.h, unit_h, whole.change / problem.h)


class _Places(NamedTuple):
    """Where what is of a stage stands: in the `rest`, so many, the `rates` (s, nb, w) of bodies and
    per group the `others` (s, n, k) of what constraints own; after it their `closest` points (s, n,
    na), `h`, `change` and `velocity` (s, nb, w), `count` in all; and the numbers (s, nb, w) of
    `body` components alone."""

    rest: int
    rates: np.ndarray
    others: list[np.ndarray]
    closest: list[np.ndarray]
    h: int
    body: np.ndarray
    change: np.ndarray
    velocity: np.ndarray
    count: int

    def columns(self, g: int, bodies) -> np.ndarray:
        """Of a group (s, n, lanes), in the order of `stage_pieces.lane_counts`."""
        h = np.full((*self.others[g].shape[:2], 1), self.h)
        parts = self.others[g], self.closest[g], _sides(self.change, bodies), h, _sides(self.velocity, bodies)
        return np.concatenate(parts, axis=2)


def with_h(known: Known, constraints: Sequence[Constraint], event: int) -> SparseCondensed:
    """As `stage_jacobian.with_h`."""
    from scipy.sparse import csc_array, csr_array, diags_array, hstack, kron  # here, as few runs need it

    (s, nb, w), at, mix = known.grow.shape, _places(known, constraints), radau(len(known.grow)).A
    count, sb = at.rest + 1, s * nb * w
    own, momenta, pushed = (
        csr_array((values, (i, j)), shape=(rows, at.count))
        for rows, (values, i, j) in zip((count, sb, sb), _all_entries(known, constraints, at, event), strict=True)
    )
    # V by what momenta depend on, and by D
    by_momenta, by_change = (
        csr_array((values, (i, j)), shape=(sb, columns))
        for columns, (values, i, j) in (
            (sb, _of_bodies(known.pieces.bodies.velocity_by_momenta, at.body, at.body)),
            (at.count, _of_bodies(known.pieces.bodies.velocity, at.body, at.change)),
        )
    )
    velocity = by_momenta @ momenta + by_change
    own, pushed = (of + of[:, at.velocity.reshape(-1)] @ velocity for of in (own, pushed))
    gained = kron(mix, diags_array(np.ones(nb * w))) @ pushed
    scaled = diags_array(1 / np.tile(known.momentum.reshape(-1), s)) @ (momenta - gained)
    to_rest = csr_array((np.ones(sb), (at.rates.reshape(-1), np.arange(sb))), shape=(count, sb))
    own = csc_array(own + to_rest @ scaled)
    # D_i = h sum_j A_ij U_j, and dD_i / dh
    from_rest = csr_array((np.ones(sb), (np.arange(sb), at.rates.reshape(-1))), shape=(sb, at.rest))
    turn = kron(float(known.h) * mix, diags_array(known.velocity.reshape(-1))) @ from_rest
    turn = csc_array(hstack([turn, csr_array(float(known.unit_h) * known.grow.reshape(-1, 1))]))
    system = csc_array(hstack([own[:, : at.rest], float(known.unit_h) * own[:, [at.h]]]))
    system = system + own[:, at.change.reshape(-1)] @ turn
    if event < 0:
        system = system + csc_array(([1.0], ([at.rest], [at.rest])), shape=system.shape)
    parts = [
        _entries(by_change, closest - at.rest, _sides(at.body, bodies))
        for by_change, closest, bodies in zip(known.pieces.follow, at.closest, known.bodies, strict=True)
    ]
    values, i, j = _joined(parts)
    follow = csr_array((values, (i, j)), shape=(at.h - at.rest, sb)) @ turn
    lead = own[:, at.rest : at.h]
    return SparseCondensed(entries(system), tuple(known.pieces.inverses), entries(follow), entries(lead))


def _all_entries(known: Known, constraints, at: _Places, event: int):
    """Of the rows of constraints, with the margin of number `event`, if any, after them; of the
    momenta of all stages; and of what pushes the bodies: values, rows and `columns` of each."""
    w, bodies, loads = known.grow.shape[2], known.pieces.bodies, known.pieces.loads
    rates = np.swapaxes(bodies.momenta_by_rates, 1, 2) * known.velocity[:, :, None]
    rows, pushes = [], [_of_bodies(loads.change, at.body, at.change), _of_bodies(loads.velocity, at.body, at.velocity)]
    pushes.append(_entries(loads.h[:, :, None], at.body, np.full((*at.body.shape[:2], 1), at.h)))
    momenta = [_entries(rates, at.body, at.rates), _of_bodies(bodies.momenta, at.body, at.change)]
    start = 0
    for g, (group, own, found) in enumerate(zip(constraints, known.bodies, known.pieces.found, strict=True)):
        columns, acting = at.columns(g, own), _sides(at.body, own)
        _, of_rows, edges, shifts, pushed = np.split(found, ends_of(group, w, found.shape[3]), axis=3)
        rows.append(_entries(of_rows, at.others[g], columns))
        momenta.append(_entries(-shifts, acting, columns))
        pushes.append(_entries(pushed, acting, columns))
        contact, margin = divmod(event - start, max(edges.shape[3], 1))
        if 0 <= contact < len(own) and edges.shape[3]:
            rows.append(_entries(edges[-1, contact, :, margin, None], np.array([at.rest]), columns[-1, contact]))
        start += len(own) * edges.shape[3]
    return _joined(rows), _joined(momenta), _joined(pushes)


def _places(known: Known, constraints) -> _Places:
    (s, nb, w), counts = known.grow.shape, [len(own) for own in known.bodies]
    others = [(n, stage_unknowns.width(g) - g.determined) for n, g in zip(counts, constraints, strict=True)]
    closest = [(n, g.determined) for n, g in zip(counts, constraints, strict=True)]
    (rates, *own), rest = _stage_after_stage(0, s, [(nb, w), *others])
    points, h = _stage_after_stage(rest, s, closest)
    body = np.arange(s * nb * w).reshape(s, nb, w)
    change = h + 1 + body
    return _Places(rest, rates, own, points, h, body, change, change + body.size, h + 1 + 2 * body.size)


def _stage_after_stage(start: int, stages: int, shapes) -> tuple[list[np.ndarray], int]:
    """Places (s, n, k) from `start` on of arrays of these `shapes` (n, k) at every stage, and where
    they end."""
    sizes = [n * k for n, k in shapes]
    firsts = start + np.cumsum([0, *sizes[:-1]])[: len(sizes)] if sizes else []
    stage = sum(sizes) * np.arange(stages)[:, None, None]
    found = [stage + first + np.arange(n * k).reshape(n, k) for first, (n, k) in zip(firsts, shapes, strict=True)]
    return found, start + stages * sum(sizes)


def _sides(places, bodies) -> np.ndarray:
    """What the moving sides of constraints have at `places` (s, nb, w), (s, n, sides w)."""
    return places[:, bodies].reshape(len(places), len(bodies), -1)


def _entries(values, rows, columns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What is not 0 of `values` (..., c, r), its `rows` (..., r) and its `columns` (..., c)."""
    i, j = (np.broadcast_to(of, values.shape) for of in (rows[..., None, :], columns[..., :, None]))
    kept = values != 0
    return values[kept], i[kept], j[kept]


def _of_bodies(each, rows, columns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same of bodies that depend on themselves alone, from `each` (s, w, nb, k)."""
    return _entries(np.swapaxes(each, 1, 2), rows, columns)


def _joined(parts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if not parts:
        return np.zeros(0), np.zeros(0, int), np.zeros(0, int)
    values, rows, columns = (np.concatenate(of) for of in zip(*parts, strict=True))
    return values, rows, columns

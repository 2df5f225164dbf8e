"""Starts for statically indeterminate contact, from where Newton's method stalls.

Redundant contacts that all stick ask for slightly too much: they fix the same velocity twice, and
as gaps are closed at the end of the step, normal velocities there are of order h, by which the two
differ. One contact must slip by as little, with its friction at the edge of its cone. Which one,
and to which side, the Jacobian does not say: the forces that lead there cancel each other on the
bodies, so they are its null vector, along which a damped step does not move.
"""

from __future__ import annotations

import numpy as np

from ..model.system import System
from . import ncp

NEARLY = 1e-5  # max |F_i| of a stall that is worth it
_SINGULAR = 1e-8  # of the largest singular value
_BEYOND = 1e-6  # of the way to an edge
_SAME = 1e-6  # how far from a stall a start is the stall itself
# |w| in its unit, far above what stalls leave: of what slides so, the slip says where friction is
_SLIDES = 1e-3
_PRESSES = 1e-7  # p_n in its unit
_LARGEST = 2000  # unknowns: the decomposition takes seconds


def to_the_edges(system: System, z, F, jacobian) -> list[np.ndarray]:
    """Starts (N,), dimensionless, nearest first, from a stall z (N,) with F (N,) and its `jacobian`
    (N, N): moved along each null vector, both ways, to just beyond the edge of the friction cone of
    each contact that presses and does not slide. None where nothing is indeterminate."""
    z, F, jacobian = (np.asarray(a) for a in (z, F, jacobian))
    if not np.max(np.abs(F), initial=0.0) <= NEARLY or z.size > _LARGEST:
        return []
    _, sizes, directions = np.linalg.svd(jacobian)
    found = []
    for direction in directions[sizes < _SINGULAR * sizes[0]]:
        for length in _lengths(system, z, direction):
            found.append((abs(length), z + (1 + _BEYOND) * length * direction))
    return [start for _, start in sorted(found, key=lambda one: one[0])]


def _lengths(system: System, z: np.ndarray, direction: np.ndarray) -> list[float]:
    """How far along `direction` |y| = mu p_n, with p_n >= 0, at some contact that presses and does
    not slide."""
    lengths = []
    for group, index in zip(system.groups, ncp.layout(system).unknowns, strict=False):
        n = group.pair.unknowns
        for mu, own in zip(np.asarray(group.mu), index, strict=True):
            (p, y), (dp, dy) = ((v[own[n]], v[own[n + 1 : -1]]) for v in (z, direction))
            if p <= _PRESSES or z[own[-1]] > _SLIDES:
                continue
            square = [dy @ dy - (mu * dp) ** 2, 2 * (y @ dy - mu**2 * p * dp), y @ y - (mu * p) ** 2]
            edges = np.roots(np.trim_zeros(square, "f"))
            real = [t.real for t in edges if abs(t.imag) <= 1e-9 * abs(t) and abs(t) > _SAME]
            lengths += [t for t in real if p + t * dp >= 0]
    return lengths

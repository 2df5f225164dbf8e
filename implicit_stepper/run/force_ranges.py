"""Of forces that are not unique, how small and how large each can be.

    least and most x_i of        A x = b,  x in K

over all impulses that give the bodies of a step the same motion (`force_sets`), by a barrier: with
x = x_0 + N s, N the null space of A,

    maximise     t c.s + sum log((mu p_n + eps)^2 - |y|^2) + sum log(p + eps) + log(R^2 - |s|^2)

for growing t. Each is a second-order cone program, convex, and the barrier of nu terms leaves the
answer within nu / t of the most. The cones are wider by eps, which is what rounding makes of them,
so that what is recorded lies inside; |s| < R, and what goes far has no bound. Renegar, A
mathematical view of interior-point methods in convex optimization (2001), chapter 2.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import scipy  # imports linalg once it is called, which takes .1 s

from ..constraints import linear_rows
from ..model.system import System
from ..scene.scene import Scene
from ..stepping.stepper import Stepper
from .force_sets import ForceSet, forces_of_run
from .trajectory import Trajectory

_RANK = 1e-10  # of the largest singular value of A: less is what others imply
# of the largest impulse: by how much cones are wider, by how much those of a set without inside,
# and how far inside a point must be
_WIDER, _FLAT, _INSIDE = 1e-12, 1e-9, 1e-7
_FAR, _ENDLESS = 1e5, 1e3  # times the largest impulse: R, and what is larger has no bound
_SLIGHT = 1e-9  # of a unit vector: components that null vectors leave alone
_FASTER = 10.0  # t from one point of the path to the next
_CENTRED, _ITERATIONS = 0.1, 200  # Newton's decrement; for one point
_SHORTENED = 20  # halvings of a step that rounding leads out of a cone
_ENDS = 1e-11  # of the largest impulse: nu / t at the end


@dataclasses.dataclass(frozen=True)
class ForceRanges:
    """Of n steps, the least and the most of every impulse, in the last axis: `normal_impulse` (n,
    nc, 2) [N s], `friction_impulse` (n, nc, k, 2) [N s, N m s], and of joints `multipliers` (n, nj,
    r, 2) [N s, N m s], None where there are none; infinite where nothing bounds them. Names and
    order are those of `Contacts` and `Joints`. Of steps of s stages, all have an axis s behind n,
    and are impulses as `Stages` has them, h times the forces."""

    normal_impulse: np.ndarray
    friction_impulse: np.ndarray
    multipliers: np.ndarray | None


def force_ranges(scene: Scene, stepper: Stepper, trajectory: Trajectory) -> ForceRanges:
    """How small and how large each impulse of contacts and joints of a `trajectory` of `scene` by
    `stepper` can be while the motion stays, with all others as they may be: of what slips along its
    slip, of what sticks within its cone. Both ends are the recorded number where it is unique.

    They are the true ones to 1e-10 of the largest impulse of the step where the set has an inside;
    where all friction is at its bound, they are too wide by up to 1e-4 of it. What can be more than
    a thousand times the largest is infinite here. A step costs two cone programs for each number:
    take the steps that matter, `trajectory[-1:]`.

    Raises `ValueError` for steps with impacts or of two parts, for compliant contacts, and for
    joints with friction, limits, motors or springs.
    """
    run = forces_of_run(scene, stepper, trajectory)
    e, found = np.asarray(linear_rows.of_contacts(run.system, "e")), []
    for i in range(len(run.acting.time)):
        ends = ranges(run.of(i))
        contacts, multipliers = zip(*(run.parted(i, ends[:, side]) for side in (0, 1)), strict=True)
        found.append((np.stack(contacts, axis=-1), np.stack(multipliers, axis=-1)))
    k = e.shape[1]
    gamma = np.stack([own for own, _ in found]) if found else np.zeros((0, len(e), 1 + k, 2))
    joints, record = None, run.records.joints
    if record is not None:
        joints = run.by_step(_by_joint(run.system, record.multipliers.shape, [own for _, own in found]))
    return ForceRanges(run.by_step(gamma[:, :, 0]), run.by_step(e[..., None] * gamma[:, :, 1:]), joints)


def _by_joint(system: System, shape, rows):
    """Per step the ends (R, 2) of one row of a joint after the other, as `shape` (n, nj, r) and
    2."""
    ends, start = np.zeros((*shape, 2)), 0
    for group in system.joints:
        for number in group.numbers:
            for i, own in enumerate(rows):
                ends[i, number, : group.closures] = own[start : start + group.closures]
            start += group.closures
    return ends


def ranges(given: ForceSet) -> np.ndarray:
    """The least and the most (m, 2) of each component of x."""
    ends = np.stack([given.x, given.x], axis=1)
    size = np.max(np.abs(given.x), initial=0.0)
    if size == 0:
        return ends
    basis = _basis(given)
    slipping, sticking = _cones(given, basis)
    # what no cone sees has no bound
    seen = np.concatenate([slipping[1], *(rows for _, rows, _ in sticking), np.zeros((1, basis.shape[1]))])
    _, values, ways = np.linalg.svd(seen)
    bounded = np.arange(len(ways)) < np.count_nonzero(values > _SLIGHT)
    endless = np.linalg.norm(basis @ ways[~bounded].T, axis=1) > _SLIGHT
    ends[endless] = -np.inf, np.inf
    inside = basis @ ways[bounded].T
    most = _largest(*_cones(given, inside), size)
    for i in np.flatnonzero(~endless & (np.linalg.norm(inside, axis=1) > _SLIGHT)):
        for side, sign in ((0, -1.0), (1, 1.0)):
            ends[i, side] = given.x[i] + sign * most(sign * inside[i])
    return ends


def _basis(given: ForceSet):
    """Directions (m, q), in x, that change nothing of the motion, with what slips along its
    slip."""
    columns, taken = [], np.zeros(len(given.x), bool)
    for cone in given.cones:
        taken[cone.columns] = True
        own = np.eye(len(cone.columns)) if cone.direction is None else cone.direction[:, None]
        columns.append(np.zeros((len(given.x), own.shape[1])))
        columns[-1][cone.columns] = own
    columns.append(np.eye(len(given.x))[:, given.free & ~taken])
    may = np.concatenate(columns, axis=1)
    _, values, ways = np.linalg.svd(given.A @ may)
    rank = np.count_nonzero(values > _RANK * np.max(values, initial=0.0))
    return may @ ways[rank:].T


def _cones(given: ForceSet, basis):
    """Of what slips, the impulses (a,) and how they change along the `basis`, (a, q); of what
    sticks, per contact (p_n, y) (1 + k,), the same (1 + k, q), and mu."""
    slips, sticks = [c for c in given.cones if c.direction is not None], [c for c in given.cones if c.direction is None]
    none = np.zeros((0, basis.shape[1]))
    slipping = [c.direction @ given.x[c.columns] for c in slips], [c.direction[None] @ basis[c.columns] for c in slips]
    sticking = [(given.x[c.columns], basis[c.columns], c.mu) for c in sticks]
    return (np.array(slipping[0]), np.concatenate([none, *slipping[1]])), sticking


def _largest(slipping, sticking, size: float) -> Callable:
    """The function of c (q,) that gives the most of c.s, infinite where nothing bounds it."""
    (impulses, rates), q = slipping, len(slipping[1].T)
    half_lines = impulses / size, rates
    cones = [(np.append(mu * x[0], x[1:]) / size, np.concatenate([mu * rows[:1], rows[1:]])) for x, rows, mu in sticking]
    # first the s that is farthest inside: all cones are wider by 1 + r, for the least r > -2
    room = np.eye(q + 1)[q]
    wide = [(x + np.eye(len(x))[0], np.column_stack([rows, np.eye(len(x))[0]])) for x, rows in cones]
    lines = np.append(half_lines[0] + 1, 2.0), np.concatenate([np.column_stack([rates, np.ones(len(rates))]), room[None]])
    start = _end_of_path(lines, wide, -room, np.zeros(q + 1))
    flat = start[q] > -1 - _INSIDE
    wider = _FLAT + max(1 + start[q], 0.0) if flat else _WIDER
    cones = [(x + wider * np.eye(len(x))[0], rows) for x, rows in cones]

    def most(c) -> float:
        goal = c / np.linalg.norm(c)
        s = _end_of_path((half_lines[0] + wider, rates), cones, goal, start[:q])
        return float(c @ s) * size if goal @ s < _ENDLESS else np.inf

    return most


def _end_of_path(half_lines, cones, goal, s):
    """Where goal.s is largest, `goal` of length 1, from s (q,) inside `half_lines` (a, rows) with a
    + rows s > 0 and `cones` (x, rows) with x + rows s in the second-order cone, in units of the
    largest impulse."""
    count, t = len(half_lines[0]) + 2 * len(cones) + 1, 1.0
    while count / t > _ENDS and goal @ s < _ENDLESS:
        s, t = _centred(half_lines, cones, t * goal, s), _FASTER * t
    return s


def _centred(half_lines, cones, pull, s):
    """The least of the barrier less `pull`.s, from s inside."""
    for _ in range(_ITERATIONS):
        gradient, root = _barrier(half_lines, cones, s)
        R = np.linalg.qr(root, mode="r")
        scaled = scipy.linalg.solve_triangular(R, pull - gradient, trans="T")
        step, decrement = scipy.linalg.solve_triangular(R, scaled), np.linalg.norm(scaled)
        # of a self-concordant function: stays inside, but for rounding where nothing bounds s
        lengths = 0.5 ** np.arange(_SHORTENED) / (1 + decrement)
        onward = next((s + k * step for k in lengths if _is_inside(half_lines, cones, s + k * step)), None)
        if onward is None:
            break
        s = onward
        if decrement <= _CENTRED:
            break
    return s


def _is_inside(half_lines, cones, s) -> bool:
    """Whether the barrier is defined at s."""
    edges = [edge + own @ s for edge, own in cones]
    inside = s @ s < _FAR**2 and np.all(half_lines[0] + half_lines[1] @ s > 0)
    return bool(inside) and all(x[0] > np.linalg.norm(x[1:]) for x in edges)


def _barrier(half_lines, cones, s):
    """Of the barrier at s: its gradient (q,), and rows whose products with themselves are its
    second derivative."""
    away = _FAR**2 - s @ s
    gradient = 2 * s / away
    rows = [np.sqrt(2 / away) * np.eye(len(s)), gradient[None]]
    slack = half_lines[0] + half_lines[1] @ s
    gradient = gradient - half_lines[1].T @ (1 / slack)
    rows.append(half_lines[1] / slack[:, None])
    for edge, own in cones:
        x = edge + own @ s
        inside = (x[0] - np.linalg.norm(x[1:])) * (x[0] + np.linalg.norm(x[1:]))
        a = np.append(x[0], -x[1:]) / np.sqrt(inside)
        gradient = gradient - own.T @ (2 * a / np.sqrt(inside))
        # the root of 2 a a^T - diag(1, -1, ...), as a_0^2 = 1 + |a|^2 of the others
        inner = np.eye(len(a) - 1) + np.outer(a[1:], a[1:]) / (1 + a[0])
        root = np.block([[a[:1, None], a[None, 1:]], [a[1:, None], inner]])
        rows.append(np.sqrt(2 / inside) * root @ own)
    return gradient, np.concatenate(rows)

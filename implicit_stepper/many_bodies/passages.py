"""Pairs that pass through each other within a step, at whose end alone contact conditions hold.

A pair may have passed if it was near, moved farther than the thinner part allows, and its normal
turned by more than 60 degrees. A rod that sweeps through a disc may leave the normal as it was, but
not as the rod sees it; there, where a ball that goes around another turns it too, a pair has passed
if it overlapped on the way and parted on another side than that on which it met.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from ..model import poses
from ..model.bodies import State
from ..stepping.sweep import DEEP, SAME_SIDE, SAMPLES
from .catalog import Catalog
from .step import Posed, motions
from .sweeps import moved, nearest

# of the radius of the ball in the thinner body: a relative motion in a step that cannot take it
# past another
_PASSES = 0.5
_FINE = 0.5  # of both radii: a motion between two looks at a pair


def passed(catalog: Catalog, at: Posed, normals: Sequence[np.ndarray], end: State) -> tuple[int, int] | None:
    """The first pair of parts that may have passed through each other in a step that is posed `at`
    its start, with known gaps and normals there, from which the velocities of `end` lead to it,
    where it has `normals` (m, d), form by form. Unbounded parts let nothing pass."""
    velocity = at.problem.with_fixed(end.velocity)
    ways = motions(catalog, velocity, float(at.problem.step.h))
    for form, (known, out) in enumerate(zip(at.known, normals, strict=True)):
        first, second = known.pairs.T
        way, rooms = ways[first] + ways[second], np.stack([catalog.inner[first], catalog.inner[second]])
        bounded = np.isfinite(catalog.outer[first]) & np.isfinite(catalog.outer[second])
        may = bounded & (way > _PASSES * np.min(rooms, axis=0)) & (known.gaps < way)
        if not np.any(may):
            continue
        found, turns = may & (np.sum(known.normals * out, axis=1) < SAME_SIDE), _turns(at, end)
        seen = [np.einsum("mi,mij,mj->m", known.normals, turns[catalog.body[part]], out) for part in (first, second)]
        may &= ~found & (np.minimum(*seen) < SAME_SIDE)
        if np.any(may):
            reach = np.sum(np.where(np.isinf(rooms), 0.0, rooms), axis=0)  # that of a point is infinite
            looks = min(SAMPLES, int(np.ceil(np.max(way[may] / (_FINE * reach[may])))))
            found |= may & _through(at, form, velocity, DEEP * np.min(rooms, axis=0), looks)
        for pair in known.pairs[found][:1]:
            return tuple(int(part) for part in pair)
    return None


def _turns(at: Posed, end: State) -> np.ndarray:
    """What takes directions (d,) at the `end` to those at the start that every body sees as the
    same, (n, d, d)."""
    start = np.asarray(at.problem.motion.orientation)
    last = np.concatenate([end.orientation, start[len(end.orientation) :]])
    return poses.matrices(start) @ np.swapaxes(poses.matrices(last), 1, 2)


def _through(at: Posed, form: int, velocity, deep, looks: int) -> np.ndarray:
    """Which contacts (m,) of a form overlap by more than is `deep` (m,) [m] where the `velocity`
    (n, 6 or 3) leads in a share of the step, of so many `looks`, and part after it on another
    side."""
    known, d = at.known[form], at.problem.motion.position.shape[1]
    closest = known.unknowns[:, : at.problem.slots[form].group.pair.unknowns]
    side, inside, through = known.normals, np.zeros(len(deep), bool), np.zeros(len(deep), bool)
    for look in range(1, looks + 1):
        h = np.asarray(at.problem.step.h * look / looks)
        then = dataclasses.replace(at.problem, step=dataclasses.replace(at.problem.step, h=h))
        then = dataclasses.replace(at, problem=then)
        begun = carried(then, form, velocity, closest)
        points, on, gaps = nearest_at(then, form, velocity, begun)
        normals, told = on[:, 1, 0, :d], np.any(points != begun, axis=1)  # what is not found stays where it was
        within = np.where(told, gaps < -deep, inside)
        through |= inside & ~within & (np.sum(side * normals, axis=1) < SAME_SIDE)
        side, inside = np.where((told & ~within)[:, None], normals, side), within
    return through


def carried(at: Posed, form: int, velocity, closest) -> np.ndarray:
    """The `closest` points (m, unknowns) where their bodies take them with the `velocity` (n, 6 or
    3) of all: a body that moves by its own size leaves them on the far side of another."""
    slots, step, count = at.problem.slots[form], at.problem.step, at.problem.counts[form]
    sides, d = slots.sides[:count], at.problem.motion.position.shape[1]
    ends = jax.tree.map(np.asarray, moved(at.problem.motion, velocity, step.h))
    start, end = (poses.matrices(np.asarray(own))[sides] for own in (at.problem.motion.orientation, ends.orientation))
    points = closest[:, : 2 * d].reshape(count, 2, d)
    own = np.einsum("csji,csj->csi", start, points - at.problem.motion.position[sides])
    points = ends.position[sides] + np.einsum("csij,csj->csi", end, own)
    return np.concatenate([points.reshape(count, 2 * d), closest[:, 2 * d :]], axis=1)


def nearest_at(at: Posed, form: int, velocity, closest):
    """Of the contacts of a form where `velocity` (n, 6 or 3) leads in the step: closest points (m,
    unknowns), the maps `on` (m, 2, 1 + k, 6 or 3) to scaled velocities, and gaps (m,) [m]."""
    slots, step, count = at.problem.slots[form], at.problem.step, at.problem.counts[form]
    rows = np.minimum(np.arange(len(slots.impulse)), count - 1)
    found, on, speed, _ = (np.asarray(a)[:count] for a in nearest(step, slots, velocity[slots.sides], closest[rows]))
    change = np.einsum("csw,csw->c", on[:, :, 0], velocity[slots.sides[:count]])
    return found, on, float(step.h) * (speed + change)

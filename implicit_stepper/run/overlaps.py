"""Bodies that overlap though they should not: declared pairs at the start, undeclared pairs in a
run.

The contact conditions of a first step part a declared pair that overlaps, at the speed depth / h.
Of an undeclared pair nothing is ever asked; that its bodies come to overlap is mostly an omission.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Sequence

import numpy as np

from shapes.closest_points.extent import extent
from shapes.errors import Explained
from shapes.expressions.compile import compile_jet

from ..model import poses
from ..model.bodies import State
from ..model.system import System
from ..runtime.errors import OverlapError
from ..scene.compound import Part, heights, least_height
from ..scene.extents import extents
from ..scene.scene import Scene

ROUNDED = 1e-6  # of the scene's length: less is a matter of rounded input
DEEPEST = 0.5  # of the radius of the largest ball in the smaller body
_SEEN = 1e-2  # of that radius: undeclared neighbours that touch are no news
_LOOKS = 4  # states of a chunk in which a pair that is near is looked at
_CLEAR = 0.5  # of the height at which a pair is apart is a safe estimate of the way to an overlap


class OverlapWarning(Explained, UserWarning):
    """Bodies overlap: a declared pair at the start, or a pair without a contact.

    Move them apart, or declare their contact with `add_contact`."""


def check_start(scene: Scene, system: System, closest, h: float) -> None:
    """`tell` of the contacts of a `scene`, `closest` as `detection.closest_points` gives it."""
    depths = depths_of(system, closest)
    if np.any(depths > ROUNDED * float(system.length)):
        names = [_pair(system, number) for number in range(system.contact_count)]
        tell(names, depths, deepest(scene), ROUNDED * float(system.length), h)


def within(scene: Scene, system: System, state: State) -> bool:
    """Whether in `state` a large ball in a part of a body lies too deep in one that it has a
    contact with, as that of a body whose middle is on the ground. Closest points say how deep the
    two are in each other, and are worth being compiled before all else then."""
    position = np.concatenate([state.position, system.fixed_position])
    orientation = np.concatenate([state.orientation, system.fixed_orientation])
    for contact in scene.part_contacts():
        placed = [
            _placed(part, position[body], orientation[body])
            for part, body in zip(contact.parts, contact.bodies, strict=True)
        ]
        for one, other in (placed, placed[::-1]):
            ball, room = extent(one.shape), _room(one)
            middle = one.position + one.rotation @ ball.centre
            if np.isfinite(room) and np.max(heights(other, middle)) < (1 - DEEPEST) * room:
                return True
    return False


def tell(names: Sequence[str], depths: np.ndarray, most: np.ndarray, least: float, h: float) -> None:
    """Warns of pairs of bodies, by their `names`, that overlap by `depths` (n,) [m] of more than
    `least` before a first step of h [s]. Raises `ValueError` for those deeper than `most` (n,),
    half of the way into a body, with all of them."""
    deep = np.flatnonzero(depths > most)
    if deep.size:
        order = deep[np.argsort(-depths[deep])]
        told = "; ".join(f"{names[k]} by {depths[k]:.3g} m of {most[k] / DEEPEST:.3g} m" for k in order)
        raise OverlapError(
            f"bodies overlap at the start by more than half of the radius of the largest ball in the smaller one: {told}. "
            "Move them apart."
        )
    found = np.flatnonzero(depths > least)
    if not found.size:
        return
    worst = int(np.argmax(depths))
    more = f", and {found.size - 1} more pairs less deeply," if found.size > 1 else ""
    warnings.warn(
        f"{names[worst]} overlap by {depths[worst]:.3g} m at the start{more}: a first step of {h:.3g} s parts them "
        f"at up to {depths[worst] / h:.3g} m/s, which nothing in the scene accounts for. Move them apart, or see in "
        "`Trajectory.parting_work()` what that gave them.",
        OverlapWarning,
        stacklevel=users_line(),
    )


def depths_of(system: System, closest) -> np.ndarray:
    """By how much contacts (nc,) [m] overlap at `closest` points; 0 where they comply."""
    depths = np.zeros(system.contact_count)
    for group, unknowns in zip(system.groups, closest, strict=True):
        if group.compliance is None:
            depths[list(group.numbers)] = np.maximum(-np.asarray(unknowns)[:, 3 * system.dimension], 0.0)
    return depths


def deepest(scene: Scene) -> np.ndarray:
    """How deep contacts (nc,) [m] may overlap at the start: half the way into the smaller body."""
    return np.array([DEEPEST * min(map(_room, contact.parts)) for contact in scene.part_contacts()])


def warn_of_batch(system: System, overlap, h: float | None) -> None:
    """Warns of the scenes whose contacts overlap by `overlap` (B,) [m] before a first step of h
    [s], or chosen ones."""
    found = np.flatnonzero(overlap > ROUNDED * float(system.length))
    if found.size:
        parts = "chosen steps cannot undo that" if h is None else f"a first step of {h:.3g} s parts them at depth / h"
        worst = int(np.argmax(overlap))
        warnings.warn(
            f"in {found.size} of {len(overlap)} scenes bodies overlap at the start, by {overlap[worst]:.3g} m in scene "
            f"{worst}: {parts}, and scenes in which they are too deep in each other are not run. Move them apart: "
            "`Batch.overlap` says where.",
            OverlapWarning,
            stacklevel=users_line(),
        )


def _pair(system: System, number: int) -> str:
    return " and ".join(system.contact_names[number])


def _room(part: Part) -> float:
    """Radius [m] of a large ball in a part, infinite for unbounded ones and for points."""
    found = extent(part.shape)
    return found.inner if np.isfinite(found.outer) else np.inf


class Undeclared:
    """Pairs of bodies without a contact or a joint, looked at once a chunk of steps; each is warned
    of once."""

    def __init__(self, scene: Scene, system: System):
        self.names, self.parts, self.length = system.names, scene.body_parts(), float(system.length)
        free = np.triu(np.ones((len(self.names), len(self.names)), bool), 1)
        free[system.body_count :] = False  # of two fixed bodies
        # the inertial frame is in nobody's way
        free &= np.array([len(own) > 0 for own in self.parts])
        for group in system.constraints:  # joined bodies may overlap
            low, high = np.sort(np.array(group.bodies), axis=1).T
            free[low, high] = False
        self.pairs = np.argwhere(free)
        self.fixed = np.asarray(system.fixed_position), np.asarray(system.fixed_orientation)
        self.reach = np.zeros(0)
        self.clear: dict[tuple[int, int], tuple] = {}

    def look(self, states: State) -> None:
        """At `states` with a first axis n, one after another."""
        if not len(self.pairs) or not len(states.time):
            return
        if not self.reach.size:
            self.reach = np.array([np.max(extents(own).reach, initial=0.0) for own in self.parts])
        position, orientation = (
            np.concatenate([moving, np.broadcast_to(fixed, (len(moving), *fixed.shape))], axis=1)
            for moving, fixed in zip((states.position, states.orientation), self.fixed, strict=True)
        )
        low, high = np.min(position, axis=0), np.max(position, axis=0)
        swept = self.reach + np.linalg.norm(high - low, axis=-1) / 2
        first, second = self.pairs.T
        apart = np.linalg.norm((low + high)[first] - (low + high)[second], axis=-1) / 2
        for pair in self.pairs[apart < swept[first] + swept[second]].tolist():
            self._look_closer(tuple(pair), position, orientation)

    def _look_closer(self, pair: tuple[int, int], position, orientation) -> None:
        """At the states in which balls around the two bodies overlap: where they do most, and a few
        others."""
        near = self._apart(pair, position, orientation)
        steps = np.flatnonzero(near < 0)
        chosen = steps[np.linspace(0, steps.size - 1, _LOOKS).astype(int)] if steps.size else steps
        for step in dict.fromkeys([*chosen.tolist(), int(np.argmin(near))] if steps.size else []):
            where = [(position[step, body], orientation[step, body]) for body in pair]
            if self._moved(pair, where) < self.clear.get(pair, (where, 0.0))[1]:
                continue
            placed = [[_placed(part, *at) for part in self.parts[body]] for body, at in zip(pair, where, strict=True)]
            heights = []
            for one, two in itertools.product(*placed):
                heights.append(least_height(one, two))
                room = min(_room(one), _room(two))
                if heights[-1] < -_SEEN * (room if np.isfinite(room) else self.length):
                    self._warn(pair)
                    return
            self.clear[pair] = where, _CLEAR * min(heights)

    def _apart(self, pair: tuple[int, int], position, orientation) -> np.ndarray:
        """At least how far (n,) [m] two bodies are apart; of overlapping balls around them it is
        negative."""
        for endless, other in (pair, pair[::-1]):
            if np.isinf(self.reach[endless]) and np.isfinite(self.reach[other]):
                places = (position[:, endless], orientation[:, endless], position[:, other])
                return np.min([_above(part, *places) for part in self.parts[endless]], axis=0) - self.reach[other]
        first, second = pair
        return np.linalg.norm(position[:, first] - position[:, second], axis=-1) - self.reach[first] - self.reach[second]

    def _moved(self, pair: tuple[int, int], where) -> float:
        """By how much [m] points of two bodies can have moved since they were seen apart."""
        before, total = self.clear.get(pair, (where, 0.0))[0], 0.0
        for body, (place, turn), (old_place, old_turn) in zip(pair, where, before, strict=True):
            # of the axes: at least the chord
            turned = np.linalg.norm(poses.matrices(turn) - poses.matrices(old_turn))
            total += np.linalg.norm(place - old_place) + (turned * self.reach[body] if turned > 0 else 0.0)
        return total

    def _warn(self, pair: tuple[int, int]) -> None:
        first, second = (self.names[body] for body in pair)
        self.pairs = self.pairs[np.any(self.pairs != pair, axis=1)]
        warnings.warn(
            f"{first} and {second} overlap, and no contact of the two is declared: they pass through each other. Declare "
            "it with `scene.add_contact`, or filter this warning, an OverlapWarning, if they may.",
            OverlapWarning,
            stacklevel=users_line(),
        )


def _above(part: Part, position, orientation, points) -> np.ndarray:
    """At least how far (n,) [m] `points` (n, d) are from a part of bodies in n poses: f / |grad f|
    of a convex f."""
    of, theta = part.shape.shape_class, np.asarray(part.shape.theta)
    jet = compile_jet(of.expressions, of.dimension, of.parameters, backend="numpy")
    turn = poses.matrices(orientation)
    local = np.einsum("nji,nj->ni", turn, points - position) - part.position
    local = local @ part.rotation
    return np.max(jet.value(local, theta) / np.linalg.norm(jet.gradient(local, theta), axis=-1), axis=-1) - of.radius(theta)


def _placed(part: Part, position, orientation) -> Part:
    """A part of a body in the inertial frame."""
    turn = poses.matrices(orientation)
    return Part(part.shape, position + turn @ part.position, turn @ part.rotation)


def users_line() -> int:
    """For `warnings.warn`: how many calls up is the line that called this package, decorators of
    its functions left out."""
    frame, level = sys._getframe(1), 1
    ours = __package__.partition(".")[0], "contextlib"
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ours:
        frame, level = frame.f_back, level + 1
    return level

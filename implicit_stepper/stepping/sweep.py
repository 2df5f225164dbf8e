"""Did a declared pair pass through itself between the poses of a step? Contact conditions hold at
its end only.

Between two poses bodies move along straight lines and turn at constant rates, in steps of several
stages along the polynomials of these. A chain of bounds on how far a pair may overlap on the way,
in NumPy over all steps and contacts, leaves a few that closest points at poses in between decide
(conservative advancement, Mirtich 1996). A pair has passed if it overlapped by more than `DEEP` of
the thinner body and came out turned by more than 60 degrees from where it went in; a corner that
dips into a face as it rolls over it comes out where it went in. Where steps are chosen, what is
open at both poses grazes if it overlaps in between at all.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from shapes.closest_points.extent import extent

from ..constraints.detection import closest_points
from ..constraints.restitution import TOUCHING
from ..model import poses
from ..model.bodies import State
from ..model.records import Contacts
from ..model.system import System
from ..scene.extents import extents
from ..scene.grouping import PartContact
from ..scene.scene import Scene
from ..solvers.collocation import radau
from .curves import curves, least
from .pieces import Pieces
from .stepper import Stepper

DEEP = 0.25  # of the radius of the ball in the thinner body
SAME_SIDE = 0.5  # cosine of the angle between two normals on one side
# of its way between two poses: what is closer at one of them rolls, lands or parts, of which the
# stages tell
_NEAR = 0.01
SAMPLES = 200  # poses at most that are looked at between two
_BISECTIONS = 8  # of the time when a pair begins to overlap


@dataclasses.dataclass(frozen=True)
class Passage:
    """A pair passed in the step number `step`, or grazed: contact `number`, which overlaps after
    this `share` of the step."""

    step: int
    number: int
    share: float


class Sweep:
    """Checks the steps of one run, in their order; remembers the last normals from call to call.
    What is open at two poses may overlap between them by what counts as touching and `grazes` [m]
    more, if that is given."""

    def __init__(self, scene: Scene, stepper: Stepper, system: System, grazes: float | None = None):
        contacts = [c for c in scene.part_contacts() if _can_pass(c) or (grazes is not None and not _endless(c))]
        self.touching = TOUCHING * float(system.length)
        self.grazes = None if grazes is None else self.touching + grazes
        self.system, self.stepper = system, stepper
        self.numbers = np.array([c.number for c in contacts], dtype=int)
        self.bodies = np.array([c.bodies for c in contacts], dtype=int).reshape(-1, 2)
        sides = [extents([c.parts[i] for c in contacts]) for i in (0, 1)]
        turns = np.array([c.moving for c in contacts], dtype=bool).reshape(-1, 2)
        self.reach, self.lever = (
            np.where(turns, np.stack([getattr(side, name) for side in sides], axis=-1), 0.0) for name in ("reach", "lever")
        )
        self.width = sides[0].lever + sides[1].lever
        inner = np.stack([np.where(np.isfinite(side.reach), side.inner, np.inf) for side in sides], axis=-1)
        self.passes = np.where([_can_pass(c) for c in contacts], DEEP * np.min(inner, axis=1), np.inf)
        self.last: tuple[np.ndarray, np.ndarray] | None = None

    def first(self, before: State, ends: State, contacts: Contacts, h) -> Passage | None:
        """The first passage in steps of h () or (n,) [s] from `before` to `ends`, NumPy arrays with
        a first axis n, which left `contacts`."""
        if not self.numbers.size or not len(ends.time):
            return None
        before = State(*(np.asarray(getattr(before, field.name)) for field in dataclasses.fields(State)))
        last, self.last = self.last, (np.asarray(ends.position[-1]), contacts.normal[-1, self.numbers])
        if self._slow(before, ends, contacts, np.max(h)):
            return None
        pieces = self._pieces(before, ends, contacts, h, last)
        each = len(pieces.h) // len(ends.time)
        for k in np.flatnonzero(np.any(self._deepest(pieces) > self._allowed(pieces), axis=1)):
            found = self._crossed(pieces.alone(k))
            if found is not None:
                contact, share = found
                fractions = np.append(0.0, np.cumsum(pieces.h[k - k % each : k - k % each + each]))
                share = (fractions[k % each] + share * pieces.h[k]) / fractions[-1]
                return Passage(k // each, int(self.numbers[contact]), float(share))
        return None

    def _pieces(self, before: State, ends: State, contacts: Contacts, h, last) -> Pieces:
        """The steps, cut at the stages of those that have several; `last`: a position and the
        normals there."""
        h = np.broadcast_to(np.asarray(h, dtype=float), np.shape(ends.time))
        state = {f.name: _after(getattr(before, f.name), getattr(ends, f.name)) for f in dataclasses.fields(State)}
        stages = contacts.stages
        if stages is None:
            gaps = contacts.gap_start[:, self.numbers], contacts.gap[:, self.numbers]
            normals = contacts.normal[:, self.numbers]
            known = self._normals(state["position"][0], normals, last)
            return Pieces(state["position"], state["orientation"], state["velocity"], h, gaps, known)
        count, d = stages.rates.shape[1], self.system.dimension
        method = radau(count)
        change = h[:, None, None, None] * np.einsum("ij,njbw->nibw", method.A, stages.rates)
        position = state["position"][:-1, None] + change[..., :d]
        orientation = poses.turned(state["orientation"][:-1, None], change[..., d:])
        position[:, -1], orientation[:, -1] = ends.position, ends.orientation
        gaps, normals = (
            np.asarray(a)[:, :, self.numbers].reshape(-1, self.numbers.size, *np.shape(a)[3:])
            for a in (stages.contacts.gap, stages.contacts.normal)
        )
        start = gaps.reshape(len(h), count, -1)
        start = np.concatenate([contacts.gap_start[:, None, self.numbers], start[:, :-1]], axis=1).reshape(gaps.shape)
        position, orientation, velocity = (
            _after(state[name][0], a.reshape(-1, *a.shape[2:]))
            for name, a in (("position", position), ("orientation", orientation), ("velocity", np.asarray(stages.rates)))
        )
        steps, normals = h[:, None] * np.diff(np.append(0.0, method.c)), self._normals(position[0], normals, last)
        ways = curves(method, state["position"][:-1], state["orientation"][:-1], np.asarray(stages.rates), h)
        nodes = np.broadcast_to(np.stack([np.append(0.0, method.c[:-1]), method.c], axis=1), (len(h), count, 2))
        spans = np.concatenate([np.repeat(np.arange(len(h)), count)[:, None], nodes.reshape(-1, 2)], axis=1)
        return Pieces(position, orientation, velocity, steps.reshape(-1), (start, gaps), normals, ways, spans)

    def _allowed(self, pieces: Pieces) -> np.ndarray:
        """By how much [m] pairs (k, m) may overlap between two poses."""
        return np.where(self._may_graze(pieces), self.grazes or 0.0, self.passes)

    def _may_graze(self, pieces: Pieces) -> np.ndarray:
        """Which pairs (k, m) graze if they overlap between two poses: those that are open at both,
        by more than a small part of their way."""
        move, turn = self._moved(pieces)
        way = np.linalg.norm(move, axis=-1) + np.sum(turn * self.lever, axis=-1)
        return (np.minimum(*pieces.gaps) > np.maximum(self.touching, _NEAR * way)) & (self.grazes is not None)

    def _normals(self, position, normals, last):
        """Normals (k, m, d) at the starts and at the ends of pieces, the first at `position`, from
        those that the stepper records."""
        unknown = np.full_like(normals[:1], np.nan)
        if self.stepper.can.normals_at_start:
            return normals, np.concatenate([normals[1:], unknown])
        if last is not None and np.array_equal(last[0], position):
            unknown = last[1][None]
        return np.concatenate([unknown, normals[:-1]]), normals

    def _slow(self, before: State, ends: State, contacts: Contacts, h: float) -> bool:
        """Whether all bodies move too little in h [s] for any pair, by a bound in a few
        operations."""
        d, stages = self.system.dimension, contacts.stages
        if stages is None:
            moved = np.max(np.abs(np.diff(_after(before.position, ends.position), axis=0)))
            spin = max(np.max(np.abs(ends.velocity[..., d:])), np.max(np.abs(before.velocity[..., d:])))
            gap = np.min(contacts.gap, axis=0)
        else:
            moved, spin = h * np.max(np.abs(stages.rates[..., :d])), np.max(np.abs(stages.rates[..., d:]))
            gap = np.min(stages.contacts.gap, axis=(0, 1))
        travel = np.sqrt(d) * moved + np.sqrt(3) * h * spin * np.max(self.lever)
        gap = np.minimum(gap, np.min(contacts.gap_start, axis=0))[self.numbers]
        grazes = (gap > self.touching) & (self.grazes is not None)
        return bool(np.all(travel - gap < np.where(grazes, self.grazes or 0.0, self.passes)))

    def _deepest(self, pieces: Pieces) -> np.ndarray:
        """How far (k, m) [m] pairs may have overlapped between the poses: the least of several
        bounds.

        A gap is the largest distance between supporting planes, over all normals n. Those along one
        n part at the rate n.v up to the turns' levers; and since a support function h has h'' + h
        >= 0, planes of a body that turns by an angle bulge between two poses by reach (1 -
        cos(angle / 2)) at most.

        Between gap_0 along n_0 and gap_1 along n_1 the gap is at least as large as along either. At
        the other pose the planes along it are closer than that pose's gap: those of both bodies,
        and where they are seen from, each move by the angle between n_0 and n_1 times the levers,
        and n is shorter along the line between the centres by |n_1 - n_0|^2 / 2. Halfway, where
        neither is better, half of that counts.
        """
        (gap_0, gap_1), (n_0, n_1) = pieces.gaps, pieces.normals
        move, turn = self._moved(pieces)
        swept, between = np.sum(turn * self.lever, axis=-1), self._between(pieces)
        rate_0, rate_1 = swept - np.sum(n_0 * move, axis=-1), swept + np.sum(n_1 * move, axis=-1)
        apart_0, apart_1 = self._along(pieces, n_0, -swept), self._along(pieces, n_1, swept)
        bulge = np.sum(self.reach * (1 - np.cos(np.minimum(turn, 2 * np.pi) / 2)), axis=-1)
        tilt = np.linalg.norm(n_1 - n_0, axis=-1)
        apart = np.linalg.norm(between, axis=-1)
        bent, turned = self._bends(pieces)
        angle = 2 * np.arcsin(np.minimum(tilt / 2, 1.0))
        # (a body without end has no such lever, but may have one normal)
        tilted = angle * np.where(tilt > 0, self.width, 0.0) + tilt**2 / 4 * np.maximum(apart[1:], apart[:-1])
        bounds = [
            (np.linalg.norm(move, axis=-1) + swept - gap_0 - gap_1) / 2 + bent,
            _crossing(gap_0, gap_1, rate_0, rate_1) + bent,
            bulge + tilted - np.minimum(gap_0, gap_1) + bent,
            -gap_0 - least(apart_0),
            -gap_1 - least(apart_1) + np.sum(apart_1, axis=1),
        ]
        return np.fmin.reduce(bounds) + turned

    def _between(self, pieces: Pieces) -> np.ndarray:
        """From the first to the second body of pairs (k + 1, m, d) [m]."""
        position, (first, second) = _with_fixed(pieces.position, self.system.fixed_position), self.bodies.T
        return position[:, second] - position[:, first]

    def _moved(self, pieces: Pieces) -> tuple[np.ndarray, np.ndarray]:
        """By how much pairs move (k, m, d) [m] from pose to pose, and their bodies turn (k, m, 2)
        [rad]."""
        spin = np.linalg.norm(pieces.velocity[..., self.system.dimension :], axis=-1)
        turn = _with_fixed(pieces.h[:, None] * np.maximum(spin[1:], spin[:-1]), np.zeros(len(self.system.fixed_position)))
        return np.diff(self._between(pieces), axis=0), turn[:, self.bodies]

    def _along(self, pieces: Pieces, normals, swept) -> np.ndarray:
        """How far (k, s, m) [m] pairs come apart along `normals` (k, m, d), and by what is `swept`
        evenly (k, m) [m]: coefficients of the share of a piece, of its square, ..."""
        moves = pieces.moves()
        moves = np.concatenate(
            [moves, np.zeros((*moves.shape[:2], len(self.system.fixed_position), moves.shape[-1]))], axis=2
        )
        first, second = self.bodies.T
        found = np.einsum("kmd,ksmd->ksm", normals, moves[:, :, second] - moves[:, :, first])
        found[:, 0] += swept
        return found

    def _bends(self, pieces: Pieces) -> tuple[np.ndarray | float, np.ndarray | float]:
        """By how much [m] pairs (k, m) may be closer than along straight lines, and than with even
        turns."""
        if pieces.curves is None:
            return 0.0, 0.0
        steps, low, high = pieces.spans.T
        moved, turned = (
            _with_fixed(own, np.zeros(len(self.system.fixed_position)))
            for own in pieces.curves.bends(steps.astype(int), low, high)
        )
        return np.sum(moved[:, self.bodies], axis=-1), np.sum(turned[:, self.bodies] * self.lever, axis=-1)

    def _crossed(self, piece: Pieces) -> tuple[int, float] | None:
        """The contact that passed in one piece, and the share of it after which it overlapped
        most."""
        known = {share: self._closest(piece, share) for share in (0.0, 1.0)}
        open_, wanted = [(0.0, 1.0)], np.ones(self.numbers.size, bool)
        allowed, grazes = self._allowed(piece)[0], self._may_graze(piece)[0]
        while open_ and len(known) < SAMPLES:
            low, high = open_.pop()
            suspects = wanted & (self._deepest(piece.between(low, high, known[low], known[high]))[0] > allowed)
            suspects &= np.minimum(known[low][0], known[high][0]) > -allowed
            if not np.any(suspects):
                continue
            middle = (low + high) / 2
            known[middle] = self._closest(piece, middle)
            for contact in np.flatnonzero(suspects & (known[middle][0] < -allowed)):
                if grazes[contact] or self._turned(piece, known, middle, contact):
                    return contact, middle
                wanted[contact] = False  # it comes out where it went in
            open_ += [(middle, high), (low, middle)]
        return None

    def _turned(self, piece: Pieces, known, deep: float, contact: int) -> bool:
        """Whether a contact that overlaps at the share `deep` comes out on another side than it
        went in."""
        sides = []
        for end in (0.0, 1.0):
            outside, inside = end, deep
            for _ in range(_BISECTIONS):
                middle = (outside + inside) / 2
                known.setdefault(middle, self._closest(piece, middle))
                outside, inside = (outside, middle) if known[middle][0][contact] < 0 else (middle, inside)
            sides.append(known[outside][1][contact])
        return float(sides[0] @ sides[1]) < SAME_SIDE

    def _closest(self, piece: Pieces, share: float) -> tuple[np.ndarray, np.ndarray]:
        """Gaps (m,) and normals (m, d) after a `share` of a piece."""
        d = self.system.dimension
        found = closest_points(self.system, State(np.float64(0.0), *piece.poses(share), piece.velocity[1]))
        gaps, normals = np.zeros(self.system.contact_count), np.zeros((self.system.contact_count, d))
        for group, unknowns in zip(self.system.groups, found, strict=True):
            own = list(group.numbers)
            normals[own], gaps[own] = np.asarray(unknowns)[:, 2 * d : 3 * d], np.asarray(unknowns)[:, 3 * d]
        return gaps[self.numbers], normals[self.numbers]


def _crossing(gap_0, gap_1, rate_0, rate_1):
    """The largest overlap of what is at least gap_0 - t rate_0 and at least gap_1 - (1 - t) rate_1,
    for t in 0..1."""
    total = rate_0 + rate_1
    share = np.clip((gap_0 - gap_1 + rate_1) / np.where(total > 0, total, 1.0), 0.0, 1.0)
    meet = -np.maximum(gap_0 - share * rate_0, gap_1 - (1 - share) * rate_1)
    return np.where((rate_0 > 0) & (rate_1 > 0), meet, np.inf)


def _after(first, rest) -> np.ndarray:
    return np.concatenate([np.asarray(first)[None], np.asarray(rest)])


def _with_fixed(of_moving, of_fixed) -> np.ndarray:
    """What moving bodies (k, nb, ...) have, and after it what fixed ones (nf, ...) have at all
    times."""
    of_fixed = np.broadcast_to(of_fixed, (len(of_moving), *np.shape(of_fixed)))
    return np.concatenate([of_moving, of_fixed], axis=1)


def _endless(contact: PartContact) -> bool:
    """What moves without end has no bounds."""
    return any(
        np.isinf(extent(part.shape).outer) and moves for part, moves in zip(contact.parts, contact.moving, strict=True)
    )


def _can_pass(contact: PartContact) -> bool:
    """Not through a half-space, whose gap has a sign on either side."""
    halves = (np.isinf(extent(part.shape).outer) and part.shape.shape_class.count == 1 for part in contact.parts)
    return not (_endless(contact) or any(halves))

"""Which parts of bodies may touch, by which law, and the few programs that all their contacts
share.

Pairs come and go, but the kinds of parts and of their contacts are known from the scene: a form is
compiled once, and a contact is a row of numbers that it is called with.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from shapes.closest_points.conditions import PairClass
from shapes.closest_points.extent import extent
from shapes.closest_points.mixture import form_of, mixed, packed, put_together, slopes
from shapes.closest_points.surface import surface
from shapes.shape_class import ShapeClass

from ..constraints.contact_group import ContactGroup
from ..constraints.restitution import Poisson
from ..model.system import Frame, System
from ..scene.compound import Part
from ..scene.grouping import MILD, Law, frame_of
from ..scene.pairs import BodyPairs
from .hulls import Hulls, hulls


@dataclasses.dataclass(frozen=True)
class Kind:
    """What parts have in common whose contacts share a program."""

    shape_class: ShapeClass
    mild: bool
    moving: bool


@dataclasses.dataclass(frozen=True)
class Form:
    """A program: `pair` and which bodies are `moving`; per side a table over all parts, of which
    the rows of other kinds are zero: parameters theta (np, k), slope (np, m), interior (np, d), and
    a `Frame` or None; whether it is `compliant`."""

    pair: PairClass
    moving: tuple[bool, bool]
    theta: tuple[np.ndarray, np.ndarray]
    slope: tuple[np.ndarray, np.ndarray]
    interior: tuple[np.ndarray, np.ndarray]
    frame: tuple[Frame | None, Frame | None]
    compliant: bool


@dataclasses.dataclass(frozen=True)
class Laws:
    """Per law: mu (l,) and mu_s (l,), e (l, k), direction (l, d), compliance (l,) [m/N], 0 where it
    is rigid, dissipation_time (l,) [s], restitution (l,), 0 where it does not rebound: e of
    Newton's law, or of Poisson's where those of the scene are `of_impulses`."""

    mu: np.ndarray
    mu_s: np.ndarray
    e: np.ndarray
    direction: np.ndarray
    compliance: np.ndarray
    dissipation_time: np.ndarray
    restitution: np.ndarray
    of_impulses: bool

    @property
    def sticks(self) -> bool:
        """Whether what sticks has a coefficient of its own in any of them."""
        return bool(np.any(self.mu_s != self.mu))


@dataclasses.dataclass(frozen=True)
class Catalog:
    """np parts: the number of the `body` (np,) of each, moving bodies first, and of its `kind`
    (np,); a ball that holds it, with its `centre` (np, d) [m] in the axes of the body and its
    radius `outer` (np,) [m], infinite for unbounded parts, and the radius `inner` (np,) of one in
    it; their `hulls` and `names` (np,). `form_of` (kinds, kinds, 2): the number of the form of a
    rigid and of a compliant contact, -1 where there is none."""

    parts: tuple[Part, ...]
    body: np.ndarray
    kind: np.ndarray
    centre: np.ndarray
    outer: np.ndarray
    inner: np.ndarray
    hulls: Hulls
    names: tuple[str, ...]
    pairs: BodyPairs
    laws: Laws
    forms: tuple[Form, ...]
    form_of: np.ndarray

    def ordered(self, pairs) -> tuple[np.ndarray, np.ndarray]:
        """Of `pairs` (m, 2) of parts those (k, 2) that may touch, in the order of the contact, and
        their laws (k,): as it was declared, otherwise the lower kind first."""
        first, second = pairs.T
        swap = (self.kind[first] > self.kind[second]) | (
            (self.kind[first] == self.kind[second]) & (self.body[first] > self.body[second])
        )
        pairs = np.where(swap[:, None], pairs[:, ::-1], pairs)
        law, turned = self.pairs.laws_of(self.body[pairs])
        pairs = np.where(turned[:, None], pairs[:, ::-1], pairs)
        return pairs[law >= 0], law[law >= 0]

    def marks(self) -> tuple[list[np.ndarray], tuple]:
        """Arrays, and names and forms, by which the contacts of one scene are told from those of
        another."""
        arrays = [*vars(self.laws).values(), self.body, self.kind, self.form_of]
        for form in self.forms:
            frames = [values for frame in form.frame if frame is not None for values in (frame.position, frame.rotation)]
            arrays += [*form.theta, *form.slope, *form.interior, *frames]
        classes = [(form.pair, form.moving) for form in self.forms]
        rules = [(sorted(rule.first), sorted(rule.second), rule.law) for rule in self.pairs.rules]
        return arrays, (self.names, classes, rules, list(self.pairs.named.items()), sorted(self.pairs.apart))

    def forms_of(self, pairs, law) -> np.ndarray:
        """The numbers (m,) of the forms of `pairs` (m, 2) with their `law` (m,)."""
        compliant = (self.laws.compliance[law] > 0).astype(int)
        return self.form_of[self.kind[pairs[:, 0]], self.kind[pairs[:, 1]], compliant]

    def sharp(self, pairs) -> np.ndarray:
        """Which contacts (m,) of `pairs` are between bodies with edges or faces."""
        classes = [part.shape.shape_class for part in self.parts]
        edged = np.array([own.count > 1 or own.support is not None for own in classes], bool)
        return np.any(edged[pairs], axis=1)

    def group(self, form: int, pairs, law, capacity: int) -> ContactGroup:
        """Contacts of a `form` between `pairs` (m, 2) of parts, m > 0, as the rows of a group of
        `capacity` contacts; the last pair fills the rows that are left."""
        own, fill = self.forms[form], np.minimum(np.arange(capacity), len(pairs) - 1)
        first, second = pairs[fill].T
        law = law[fill]

        def frame(side, parts):
            at = own.frame[side]
            return None if at is None else Frame(at.position[parts], at.rotation[parts])

        return ContactGroup(
            pair=own.pair,
            bodies=_sides(capacity),
            moving=own.moving,
            numbers=(),
            theta_1=own.theta[0][first],
            theta_2=own.theta[1][second],
            slope_1=own.slope[0][first],
            slope_2=own.slope[1][second],
            interior_1=own.interior[0][first],
            interior_2=own.interior[1][second],
            mu=self.laws.mu[law],
            e=self.laws.e[law],
            direction=self.laws.direction[law],
            frame_1=frame(0, first),
            frame_2=frame(1, second),
            compliance=self.laws.compliance[law] if own.compliant else None,
            dissipation_time=self.laws.dissipation_time[law] if own.compliant else None,
            mu_s=self.laws.mu_s[law] if self.laws.sticks else None,
        )


@functools.lru_cache(maxsize=64)
def _sides(capacity: int) -> tuple[tuple[int, int], ...]:
    """Of rows that say themselves which bodies they are between."""
    return ((0, 1),) * capacity


def catalog(system: System, parts_of: Sequence[Sequence[Part]], pairs: BodyPairs) -> Catalog:
    """Of the bodies of `system`, in their order, with the parts `parts_of` each, of which `pairs`
    may touch."""
    body = np.array([b for b, own in enumerate(parts_of) for _ in own])
    parts = tuple(part for own in parts_of for part in own)
    moving = body < system.body_count
    kinds = [
        Kind(part.shape.shape_class, bool(surface(part.shape).sharpness <= MILD), bool(moves))
        for part, moves in zip(parts, moving, strict=True)
    ]
    known = sorted(dict.fromkeys(kinds), key=lambda kind: not kind.moving)
    kind = np.array([known.index(own) for own in kinds])
    extents = [extent(part.shape) for part in parts]
    forms, numbers = _forms(parts, kind, known, pairs.kinds(body, kind))
    return Catalog(
        parts=parts,
        body=body,
        kind=kind,
        centre=np.stack([p.position + p.rotation @ e.centre for p, e in zip(parts, extents, strict=True)]),
        outer=np.array([e.outer for e in extents]),
        inner=np.array([e.inner for e in extents]),
        hulls=hulls(parts),
        names=part_names(system.names, parts_of),
        pairs=pairs,
        laws=_laws(pairs.laws, system.dimension),
        forms=forms,
        form_of=numbers,
    )


def part_names(names: Sequence[str], parts_of: Sequence[Sequence[Part]]) -> tuple[str, ...]:
    """Of the parts of all bodies, which have these `names`, in their order."""
    return tuple(
        names[b] if len(parts_of[b]) == 1 else f"{names[b]}[{i}]" for b, own in enumerate(parts_of) for i in range(len(own))
    )


def _laws(laws: Sequence[Law], dimension: int) -> Laws:
    axes = 3 if dimension == 3 else 1
    friction, compliance = [law.friction for law in laws], [law.compliance for law in laws]
    return Laws(
        mu=np.array([float(f.mu) for f in friction]),
        mu_s=np.array([float(f.mu if f.mu_s is None else f.mu_s) for f in friction]),
        e=np.array([[f.e_t, f.e_o, f.e_r] for f in friction], dtype=float).reshape(-1, 3)[:, :axes],
        direction=np.array([f.direction or np.zeros(3) for f in friction]).reshape(-1, 3)[:, :dimension],
        compliance=np.array([0.0 if c is None else 1 / c.stiffness for c in compliance]),
        dissipation_time=np.array([0.0 if c is None else c.dissipation_time for c in compliance]),
        restitution=np.array([0.0 if law.restitution is None else law.restitution.e for law in laws]),
        of_impulses=any(isinstance(law.restitution, Poisson) for law in laws),
    )


def _forms(parts, kind, known: list[Kind], combinations) -> tuple[tuple[Form, ...], np.ndarray]:
    """The forms of contacts between kinds, `combinations` of (kind 1, kind 2, whether it is
    compliant)."""
    alike: dict[tuple, list] = {}
    for first, second, compliant in sorted(combinations):
        one, two = known[first], known[second]
        pair = PairClass(one.shape_class, two.shape_class, eliminate=one.mild and two.mild)
        key = form_of(pair), (one.moving, two.moving), compliant
        alike.setdefault(key, []).append((pair, first, second))
    number_of, forms = np.full((len(known), len(known), 2), -1), []
    for (_, moving, compliant), found in alike.items():
        for pairs in put_together(pair for pair, *_ in found):
            sides = tuple(zip(*(both for own, *both in found if own in pairs), strict=True))
            for first, second in zip(*sides, strict=True):
                number_of[first, second, int(compliant)] = len(forms)
            pair = mixed(pairs)
            tables = [
                _table(parts, np.isin(kind, own), of) for own, of in zip(sides, (pair.first, pair.second), strict=True)
            ]
            forms.append(Form(pair, moving, *zip(*tables, strict=True), compliant))
    return tuple(forms), number_of


def _table(parts, own, of):
    """theta, slope, interior and frame of all parts, for the class or mixture `of`; of those that
    are not its `own`, zeros."""
    rows = np.flatnonzero(own)
    surfaces = [surface(parts[row].shape) for row in rows]

    def filled(values):
        values = np.stack(values)
        table = np.zeros((len(parts), *values.shape[1:]))
        table[rows] = values
        return table

    theta = filled([packed(of, parts[row].shape) for row in rows])
    frame = frame_of([parts[row] for row in rows])
    frame = None if frame is None else Frame(filled(frame.position), filled(frame.rotation))
    return theta, filled([slopes(of, parts[r].shape) for r in rows]), filled([s.interior for s in surfaces]), frame

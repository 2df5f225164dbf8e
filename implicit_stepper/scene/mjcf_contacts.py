"""Which bodies of a compiled robot may touch, and by which law."""

from __future__ import annotations

import itertools

import numpy as np

from ..constraints.friction import FrictionEllipsoid
from .description import ContactDescription
from .mjcf_model import STATIC, Compiled, listed

_OVERLAP = 1e-9  # [m]


def contacts_of(
    of: Compiled, geoms: dict[str, list[int]], joined: set[frozenset[str]]
) -> tuple[list[ContactDescription], list[str]]:
    """The contacts of bodies whose `geoms` touch, by name, of which some are `joined`; and what was
    left out."""
    if not of.enabled("CONTACT", "CONSTRAINT"):
        return [], []
    found, left_out, overlaps, rolling, skewed = [], [], [], [], []
    for (one, its), (two, others) in itertools.combinations(geoms.items(), 2):
        # MuJoCo has no contacts of what stands still
        if of.root(its[0]) == of.root(others[0]) == STATIC:
            continue
        every = list(itertools.product(range(len(its)), range(len(others))))
        laws: dict[tuple[float, ...], list[tuple[int, int]]] = {}
        for i, j in every:
            law = _law(of, its[i], others[j])
            if law is not None:
                laws.setdefault(law, []).append((i, j))
        name = f"{one} and {two}"
        if laws and frozenset((one, two)) in joined and _overlap(of, its, others):
            overlaps.append(name)
            continue
        for law, pairs in laws.items():
            if law[3] > 0 or law[4] > 0:
                rolling.append(name)
            if law[0] != law[1]:
                skewed.append(name)
            parts = None if pairs == every else tuple(pairs)
            found.append(ContactDescription(one, two, _friction(*law[:3]), parts=parts))
    for names, what in (
        (overlaps, "contacts of joined bodies that overlap as they are placed"),
        (rolling, "rolling friction of"),
        (skewed, "friction with two directions: here it is the larger in both, of"),
    ):
        if names:
            left_out.append(f"{what} {listed(names)}")
    return found, left_out


def _law(of: Compiled, a: int, b: int) -> tuple[float, ...] | None:
    """Five frictions (sliding twice, torsion [m], rolling twice [m]), 0 where `condim` has none;
    None for geoms that do not touch."""
    model = of.model
    pair = of.pairs.get(frozenset((a, b)))
    if pair is not None:
        return _cut(model.pair_friction[pair], model.pair_dim[pair])
    masks = (model.geom_contype[a] & model.geom_conaffinity[b]) | (model.geom_contype[b] & model.geom_conaffinity[a])
    if not masks or _filtered(of, a, b):
        return None
    chief = [geom for geom in (a, b) if model.geom_priority[geom] == np.max(model.geom_priority[[a, b]])]
    slide, torsion, roll = np.max(model.geom_friction[chief], axis=0).tolist()
    return _cut(np.array([slide, slide, torsion, roll, roll]), np.max(model.geom_condim[chief]))


def _filtered(of: Compiled, a: int, b: int) -> bool:
    """Whether the bodies of two geoms are excluded, or parent and child."""
    model, bodies = of.model, np.sort(of.model.geom_bodyid[[a, b]])
    if (bodies[0] << 16) + bodies[1] in model.exclude_signature:
        return True
    roots = of.root(a), of.root(b)
    parents = [int(of.roots[model.body_parentid[root]]) for root in roots]
    family = roots[0] == parents[1] or roots[1] == parents[0]
    return family and STATIC not in roots and of.enabled("FILTERPARENT")


def _cut(friction: np.ndarray, dimension: int) -> tuple[float, ...]:
    """The components that a contact of `condim` has."""
    return tuple(np.where(np.arange(1, 6) < dimension, friction, 0.0).tolist())


def _friction(slide: float, other: float, torsion: float) -> FrictionEllipsoid:
    """MuJoCo's elliptic cone, (f_1 / mu_1)^2 + ... <= f_n^2, with the larger of the two that
    slide."""
    slide = max(slide, other)
    if slide == 0.0:
        return FrictionEllipsoid(mu=1.0, e_t=0.0, e_o=0.0, e_r=torsion) if torsion else FrictionEllipsoid(mu=0.0)
    return FrictionEllipsoid(mu=slide, e_r=torsion / slide)


def _overlap(of: Compiled, its: list[int], others: list[int]) -> bool:
    """Whether geoms of two bodies overlap as they are placed, as MuJoCo sees it."""
    contact = of.data.contact
    pairs = {frozenset(pair) for pair in contact.geom[contact.dist < -_OVERLAP].tolist()}
    return any(frozenset(pair) in pairs for pair in itertools.product(its, others))

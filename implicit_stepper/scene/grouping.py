"""Contacts that are alike, put together: same form of closest-point conditions, same bodies that
move, same kinds of law."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shapes.closest_points.conditions import PairClass
from shapes.closest_points.mixture import form_of, mixed, packed, put_together, slopes
from shapes.closest_points.surface import surface

from ..constraints.compliance import Compliance
from ..constraints.contact_group import ContactGroup
from ..constraints.friction import FrictionEllipsoid
from ..constraints.restitution import Newton, Poisson
from ..model.system import Frame
from .compound import Part

# Up to this sharpness the short form of the closest-point unknowns solves what the long form does,
# and costs less; beyond it loses starts: docs/decisions/0006-sharp-shapes.md.
MILD = 4.0


class Law(NamedTuple):
    """How bodies touch: `compliance` is None where they are rigid, `restitution` where they do not
    rebound."""

    friction: FrictionEllipsoid
    compliance: Compliance | None
    restitution: Newton | Poisson | None


@dataclasses.dataclass(frozen=True)
class PartContact:
    """Two parts that may touch: `number`, its place in the order of `Scene.add_contact`; `bodies`,
    their numbers (moving bodies first, then fixed ones), and `moving`, whether they move;
    `compliance`, None where the contact is rigid; `restitution`, None where it does not rebound."""

    number: int
    bodies: tuple[int, int]
    moving: tuple[bool, bool]
    parts: tuple[Part, Part]
    friction: FrictionEllipsoid
    compliance: Compliance | None
    restitution: Newton | Poisson | None


def grouped(contacts: list[PartContact], dimension: int) -> tuple[ContactGroup, ...]:
    """Contacts that share the form of their closest-point conditions (one smooth inequality each,
    about as many inequalities, or the same classes of shapes), which bodies move, whether they
    comply, whether what sticks has a coefficient of its own, and their law of impact."""
    members: dict[tuple, list[tuple[PairClass, PartContact]]] = {}
    for contact in contacts:
        mild = all(surface(part.shape).sharpness <= MILD for part in contact.parts)
        pair = PairClass(*(part.shape.shape_class for part in contact.parts), eliminate=mild)
        key = (
            form_of(pair),
            contact.moving,
            contact.compliance is not None,
            contact.friction.mu_s is not None,
            type(contact.restitution),
        )
        members.setdefault(key, []).append((pair, contact))
    groups = []
    for (_, *alike), found in members.items():
        for pairs in put_together(pair for pair, _ in found):
            own = [contact for pair, contact in found if pair in pairs]
            groups.append(_group(mixed(pairs), *alike, own, dimension))
    return tuple(groups)


def frame_of(parts: Sequence[Part]) -> Frame | None:
    """Where parts sit in the coordinates of their bodies; None where all have these."""
    position, rotation = np.stack([p.position for p in parts]), np.stack([p.rotation for p in parts])
    off = np.any(position != 0) or np.any(rotation != np.eye(position.shape[1]))
    return Frame(position, rotation) if off else None


def _group(
    pair: PairClass, moving, compliant: bool, sticks: bool, law: type, contacts: list[PartContact], dimension: int
) -> ContactGroup:
    sides = []
    for i in (0, 1):
        own = [c.parts[i] for c in contacts]
        surfaces = [surface(part.shape) for part in own]
        kind = (pair.first, pair.second)[i]
        theta, slope = (np.stack([of(kind, p.shape) for p in own]) for of in (packed, slopes))
        sides.append((surfaces, theta, slope, frame_of(own)))
    surfaces, theta, slope, frame = zip(*sides, strict=True)
    friction, axes = [c.friction for c in contacts], 3 if dimension == 3 else 1
    return ContactGroup(
        pair=pair,
        bodies=tuple(c.bodies for c in contacts),
        moving=moving,
        numbers=tuple(c.number for c in contacts),
        theta_1=theta[0],
        theta_2=theta[1],
        slope_1=slope[0],
        slope_2=slope[1],
        interior_1=np.stack([s.interior for s in surfaces[0]]),
        interior_2=np.stack([s.interior for s in surfaces[1]]),
        mu=np.array([float(f.mu) for f in friction]),
        e=np.array([[f.e_t, f.e_o, f.e_r] for f in friction], dtype=float)[:, :axes],
        direction=np.array([f.direction or np.zeros(3) for f in friction])[:, :dimension],
        frame_1=frame[0],
        frame_2=frame[1],
        compliance=np.array([1 / c.compliance.stiffness for c in contacts]) if compliant else None,
        dissipation_time=np.array([c.compliance.dissipation_time for c in contacts]) if compliant else None,
        restitution=np.array([c.restitution.e for c in contacts]) if law in (Newton, Poisson) else None,
        mu_s=np.array([f.mu_s for f in friction]) if sticks else None,
        of_impulses=law is Poisson,
    )

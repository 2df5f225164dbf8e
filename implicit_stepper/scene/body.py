"""A body as a scene keeps it, and the loads that scale its motion."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from .compound import Part


@dataclasses.dataclass(frozen=True, eq=False)
class Body:
    """Handle of a body, as its `Scene` returns it; `number` counts moving and fixed bodies apart.
    Only itself is equal."""

    name: str
    number: int
    fixed: bool


@dataclasses.dataclass(frozen=True)
class BodySpec:
    """A body, moving or fixed: its parts and its `centre` of mass [m] in its coordinates, from
    which `position` is told."""

    handle: Body
    parts: tuple[Part, ...]
    position: np.ndarray
    orientation: np.ndarray
    centre: np.ndarray
    velocity: np.ndarray | None = None
    mass: float | None = None
    inertia: np.ndarray | None = None
    wrench: np.ndarray | Callable | None = None


def largest_load(moving: list[BodySpec], gravity, length) -> float:
    """Largest of |gravity| and |force| / m at the start; without them, of |moment| / (m L), v^2 / L
    and omega^2 L, for a scene of size L = `length` [m]; 1 where nothing moves at all [m/s^2]."""
    d, loads, motions = len(gravity), [np.linalg.norm(gravity)], [0.0]
    for s in moving:
        load = s.wrench(0.0, s.position, s.orientation, s.velocity) if callable(s.wrench) else s.wrench
        force, moment = np.linalg.norm(np.asarray(load)[:d]), np.linalg.norm(np.asarray(load)[d:])
        speed, spin = np.linalg.norm(s.velocity[:d]), np.linalg.norm(s.velocity[d:])
        loads.append(force / s.mass)
        motions += [moment / (s.mass * length), speed**2 / length, spin**2 * length]
    return max(loads) or max(motions) or 1.0

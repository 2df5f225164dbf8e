"""A scene whose shapes have other parameters, and its system."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping

import numpy as np

from shapes.closest_points.mixture import slopes
from shapes.closest_points.surface import surface

from ..model.system import System
from .scene import Scene


def reshaped(scene: Scene, thetas: Mapping[str, np.ndarray]) -> Scene:
    """A copy of the scene, in which the parts named have the parameters theta (k,), or () for all
    of them: for what asks of its shapes. Masses, inertias and description stay as they were."""
    found = copy.copy(scene)
    found._specs = {}
    for name, spec in scene._specs.items():
        parts = [
            _with_theta(part, thetas.get(scene._part_name(spec.handle, number))) for number, part in enumerate(spec.parts)
        ]
        found._specs[name] = dataclasses.replace(spec, parts=tuple(parts))
    return found


def _with_theta(part, theta):
    if theta is None:
        return part
    own = np.broadcast_to(np.asarray(theta, float), np.shape(part.shape.theta))
    return dataclasses.replace(part, shape=dataclasses.replace(part.shape, theta=own))


def resurfaced(system: System, scene: Scene) -> System:
    """A system whose contacts are those of the `scene`, with the slopes of its shapes and the
    points inside of them, by which equations are scaled and closest points begun."""
    contacts, groups = scene.part_contacts(), []
    for group in system.groups:
        found = {}
        for side, kind in enumerate((group.pair.first, group.pair.second)):
            own = [contacts[number].parts[side].shape for number in group.numbers]
            found[f"slope_{side + 1}"] = np.stack([slopes(kind, shape) for shape in own])
            found[f"interior_{side + 1}"] = np.stack([surface(shape).interior for shape in own])
        groups.append(dataclasses.replace(group, **found))
    return dataclasses.replace(system, groups=tuple(groups))

"""A scene whose shapes have other parameters."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping

import numpy as np

from .scene import Scene


def reshaped(scene: Scene, thetas: Mapping[str, np.ndarray]) -> Scene:
    """A copy of the scene, in which the parts named have the parameters theta (k,), or () for all of
    them: for what asks of its shapes. Its masses, inertias and description stay those of `scene`."""
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

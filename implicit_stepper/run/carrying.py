"""What is more than rounding of a contact's impulses: those of open contacts are not quite zero."""

from __future__ import annotations

import numpy as np

from .trajectory import Trajectory

_OF_WEIGHT = 1e-9  # of m g h, as `contact_states` has it: what the tolerance of a step leaves
_OF_MOMENTUM = 1e-12  # of m v, in scenes without weight


def least(run: Trajectory) -> np.ndarray:
    """The least impulse (n, 1) [N s] of a contact or joint that carries something in each step of a
    run."""
    h = np.broadcast_to(run.h, len(run))[:, None]
    pull = 0.0 if run.gravity is None else float(np.linalg.norm(run.gravity))
    mass = np.min(run.mass)
    if pull > 0:
        return _OF_WEIGHT * mass * pull * h
    d = run.position.shape[-1]
    fastest = np.max(np.linalg.norm(run.velocity[..., :d], axis=-1), initial=0.0)
    return np.full_like(h, _OF_MOMENTUM * mass * fastest)

"""The mechanical energy of a run: of motion, and of weight."""

from __future__ import annotations

import dataclasses

import numpy as np

from ..model import poses
from ..model.system import System, compliant


@dataclasses.dataclass(frozen=True)
class Energy:
    """Of all moving bodies at the n + 1 times of a run [J]: `kinetic` (n + 1,), and `gravity` (n +
    1,), -m g.x, zero at the origin. `left_out` names what else stores energy or does work in the
    scene and is in neither of them: constant and other wrenches, the springs of compliant contacts,
    springs between bodies, and motors. Prescribed motions do work, too, and are not named. Where it
    is empty, `total` falls by what friction and impacts take, and by the scheme's own loss, which
    is of the order of h."""

    kinetic: np.ndarray
    gravity: np.ndarray
    left_out: tuple[str, ...]

    @property
    def total(self) -> np.ndarray:
        """(n + 1,) [J], without what is left out."""
        return self.kinetic + self.gravity


def kinetic(orientation, velocity, mass, inertia) -> np.ndarray:
    """m v.v / 2 + omega.I omega / 2, summed over bodies (n + 1,) [J]."""
    d = velocity.shape[-1] - inertia.shape[-1]
    linear, angular = velocity[..., :d], velocity[..., d:]
    if d == 3:
        angular = np.einsum("tbji,tbj->tbi", poses.matrices(orientation), angular)
    spin = np.einsum("tbi,bij,tbj->t", angular, inertia, angular)
    return (np.einsum("b,tbi,tbi->t", mass, linear, linear) + spin) / 2


def of_weight(position, mass, gravity) -> np.ndarray:
    """-m g.x, summed over bodies (n + 1,) [J]."""
    return -np.einsum("b,tbi,i->t", mass, position, gravity)


def left_out(system: System) -> tuple[str, ...]:
    """What `Energy` does not hold of a scene, in words."""
    loads = [
        f"the wrench on {name!r}"
        for name, function, constant in zip(system.names, system.wrench_functions, np.asarray(system.wrench), strict=False)
        if function is not None or np.any(constant)
    ]
    springs = [
        f"the spring between {a!r} and {b!r}"
        for (a, b), soft in zip(system.contact_names, compliant(system), strict=True)
        if soft
    ]
    along = [
        f"the {'spring or load' if group.elastic else 'motor'} {system.joint_names[number]!r}"
        for group in system.joints
        for place, number in enumerate(group.numbers)
        if group.elastic or (group.drives and group.speed[place] != 0)  # a brake only takes energy
    ]
    return (*loads, *springs, *along)

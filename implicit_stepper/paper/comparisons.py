"""The scenes on which `implicit-stepper compare` runs by name, with their exact solutions, and the
methods by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

import shapes

from ..implicit_euler.closed_form_gap import ClosedFormGap
from ..implicit_euler.geometrically_implicit import GeometricallyImplicit
from ..radau.radau_contact import RadauContact
from ..run.references import Reference
from ..scene.scene import Scene
from ..stepping.stepper import Stepper
from ..time_lagged.cone_complementarity import ConeComplementarity
from ..time_lagged.convex import Convex
from ..time_lagged.explicit import Explicit
from ..time_lagged.linearized import Linearized
from . import exact, exact_rolling, scenes

GRAVITY = 9.81

METHODS: Mapping[str, Stepper] = {
    "implicit": GeometricallyImplicit(),
    "implicit-query": GeometricallyImplicit(gap="query"),
    "radau": RadauContact(),
    "closed-form": ClosedFormGap(),
    "ncp": ConeComplementarity(relaxed=False),
    "ccp": ConeComplementarity(),
    "lcp": Linearized(),
    "explicit": Explicit(),
    "convex": Convex(),
}
ADAPTIVE = ("radau",)  # those of them that can choose their steps


@dataclasses.dataclass(frozen=True)
class Case:
    """What a scene `shows`, the scene, its exact positions and velocities, and the `duration` [s]
    and steps `h` [s] of its comparison."""

    shows: str
    scene: Callable[[], Scene]
    reference: Reference
    duration: float
    h: tuple[float, ...]


def sliding_block(time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of `scenes.block()`: 6 m/s, braked by mu g = .5 g until it stops."""
    speed, brake = 6.0, 0.5 * GRAVITY
    moving = np.minimum(time, speed / brake)
    position, velocity = np.zeros((len(time), 1, 3)), np.zeros((len(time), 1, 6))
    position[:, 0, 0], position[:, 0, 2] = speed * moving - brake * moving**2 / 2, 0.5
    velocity[:, 0, 0] = speed - brake * moving
    return position, velocity


def rolling_disc(time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of `scenes.disc()`."""
    answer = exact.rolling_disc(time)
    return answer.position[:, None], answer.velocity[:, None]


def two_spheres(time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of `scenes.two_spheres()`, to 4 s."""
    # the last time may differ from 4 by round-off
    states = exact.two_spheres(4.0).at(np.minimum(time, 4.0))
    return states.position[:, None], states.velocity[:, None]


def wobbling_ellipsoid(time: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of `scenes.wobbling_ellipsoid()`, to 2 s."""
    return _rolling(exact_rolling.wobbling_ellipsoid(), time)


def tumbling_superquadric(time: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of `scenes.tumbling_superquadric()`, to 1.4 s."""
    return _rolling(exact_rolling.tumbling_superquadric(), time)


def landing_ball(time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of `scenes.landing_ball()`."""
    position, velocity = exact_rolling.landing_ball().at(time)
    return position[:, None], velocity[:, None]


def _rolling(motion: exact_rolling.Motion, time: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    # the last time may differ from it by round-off
    states = motion.at(np.minimum(time, motion.duration))
    return states.position[:, None], states.velocity[:, None], states.quaternion[:, None]


CASES: Mapping[str, Case] = {
    "two-spheres": Case(
        "a sphere rolls and slides off two others: example 3 of the paper",
        lambda: scenes.two_spheres(shapes.Sphere),
        two_spheres,
        4.0,
        (0.04, 0.02, 0.01),
    ),
    "block": Case(
        "a block slides on a plane until friction stops it", scenes.block, sliding_block, 1.5, (0.02, 0.01, 0.005)
    ),
    "disc": Case(
        "a disc rolls in the plane without slip: example 1 of the paper", scenes.disc, rolling_disc, 1.0, (0.02, 0.01, 0.005)
    ),
    "ellipsoid": Case(
        "a tilted ellipsoid rolls on a plane and wobbles",
        scenes.wobbling_ellipsoid,
        wobbling_ellipsoid,
        2.0,
        (0.01, 0.005, 0.0025),
    ),
    "ball": Case(
        "a ball thrown with spin lands, slides and rolls", scenes.landing_ball, landing_ball, 1.2, (0.02, 0.01, 0.005)
    ),
    "superquadric": Case(
        "a body of rounded corners rolls on one of them",
        scenes.tumbling_superquadric,
        tumbling_superquadric,
        1.4,
        (0.01, 0.005, 0.0025),
    ),
}

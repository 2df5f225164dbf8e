"""Gears: a coordinate of one joint is a multiple of a coordinate of another.

    q_2 = ratio q_1                       lengths, and angles in the plane, told over many turns
    q_2 - ratio q_1 = 0 within a turn     a rack and its pinion, where one of them is an angle
    q q_2 - p q_1 = 0 within a turn       angles in space, told within one: ratio = p / q of teeth

The joints may have two moving bodies in all: the pair on whose poses the equation is one of two
bodies, as any joint's. Of further ones, which stand still, the poses are parameters:
`incidence.standing` has them follow those of the system.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from shapes.arguments import number

from ..runtime.errors import JointError
from .joints import Form

_MOST_TEETH = 200  # of p and q: what may be turned in a step is half a turn over these
_SAME = 1e-12  # relative: a ratio and the fraction that it is


class Geared(NamedTuple):
    """A coordinate that a gear couples: the `form` of its joint and `which` of its coordinates;
    where the joint's two bodies are found, `places`: 0 and 1, the gear's own bodies, and from 2 on
    those that stand still."""

    form: Form
    which: int
    places: tuple[int, int]


def geared(first: Geared, second: Geared, ratio: float, still: Sequence[int], poses: list[tuple], dimension: int) -> Form:
    """The second coordinate is `ratio` times the first. Beside the gear's two bodies there are
    those that stand `still`, by their numbers among fixed bodies, with these `poses`. Raises
    `ValueError`."""
    ratio = number("ratio", ratio)
    if ratio == 0:
        raise JointError("`ratio` = 0 holds the second coordinate where it is: take a joint without it.")
    angles = tuple(of.form.free_angles[of.which] for of in (first, second))
    p, q = whole(ratio) if all(angles) and dimension == 3 else (ratio, 1.0)
    closure = Gear(
        (first.form.coordinates, second.form.coordinates),
        (first.which, second.which),
        (first.places, second.places),
        angles,
        tuple(still),
    )
    parameters: dict[str, Any] = {"of_1": first.form.parameters, "of_2": second.form.parameters, "still": tuple(poses)}
    return Form(closure, angles[1:], parameters | {"p": np.asarray(p), "q": np.asarray(q)})


def whole(ratio: float) -> tuple[float, float]:
    """Whole numbers p and q of which it is the ratio. Raises `ValueError` where there are none that
    gears can have."""
    found = Fraction(ratio).limit_denominator(_MOST_TEETH)
    if abs(float(found) - ratio) > _SAME * abs(ratio) or abs(found.numerator) > _MOST_TEETH:
        raise JointError(
            f"`ratio` = {ratio}: angles in space are told within a turn, so that their gears need a ratio of whole numbers "
            f"up to {_MOST_TEETH}, as of teeth; {found.numerator} / {found.denominator} is the nearest."
        )
    return float(found.numerator), float(found.denominator)


@dataclasses.dataclass(frozen=True)
class Gear:
    """The closure (1,) of two coordinates, the last of which it is told in; `still`, the numbers
    among fixed bodies of those whose poses are parameters."""

    coordinates: tuple[Callable, Callable]
    which: tuple[int, int]
    places: tuple[tuple[int, int], tuple[int, int]]
    angles: tuple[bool, bool]
    still: tuple[int, ...]

    def __call__(self, parameters, pose_1, pose_2, time):
        poses, p, q = (pose_1, pose_2, *parameters["still"]), parameters["p"], parameters["q"]
        first, second = (self._coordinate(parameters, poses, i) for i in (0, 1))
        if _over_turns(parameters):
            return jnp.reshape(second - p * first, (1,))
        if self.angles == (True, False):
            return jnp.reshape(p * _within_a_turn(second / p - first), (1,))
        away = q * second - p * first
        return jnp.reshape((_within_a_turn(away) if self.angles[1] else away) / q, (1,))

    def _coordinate(self, parameters, poses, i: int):
        a, b = (poses[place] for place in self.places[i])
        return self.coordinates[i](parameters[f"of_{i + 1}"], a, b)[self.which[i]]

    def pitch(self, parameters):
        """The step () [rad, m] of the second coordinate after which the closure is 0 again,
        infinite where there is none."""
        if _over_turns(parameters) or not any(self.angles):
            return jnp.inf
        return 2 * jnp.pi * (abs(parameters["p"]) if self.angles == (True, False) else 1 / parameters["q"])


def _over_turns(parameters) -> bool:
    """Whether angles count turns, as they do in the plane."""
    return any("zero" in parameters[of] for of in ("of_1", "of_2"))


def _within_a_turn(angle):
    return jnp.arctan2(jnp.sin(angle), jnp.cos(angle))

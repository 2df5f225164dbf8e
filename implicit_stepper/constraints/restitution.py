"""Laws of impact with rebound: Newton's, of speeds, and Poisson's, of impulses.

    Newton    0 <= P_n _|_ v_n+ + e v_n- >= 0       at fixed poses, v_n- < 0 the speed of approach
    Poisson   0 <= P_c _|_ v_n >= 0,  then  0 <= P_e - e P_c _|_ v_n+ >= 0,    P_n = P_c + P_e

beside the friction law with the slips after the impact, or after each of the two parts, compression
and expansion, of Poisson (Glocker and Pfeiffer 1995). Newton's law with friction can raise energy
(Kane and Levinson 1985); such an impact is refused by its certificate. Rebounds slower than
`SLIGHT` do not happen, by which repeated ones end.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from shapes.arguments import number

from ..model.system import System, in_user_order
from ..runtime.errors import ContactLawError

TOUCHING = 1e-8  # of the scene's length: gaps that are closed, across which bodies meet
SLIGHT = 1e-6  # of sqrt(g L), in scenes of length L: rebounds that last a millionth of its time
# times what loads, and paths that bend, make of the speeds of bodies that touch: what approaches
# faster strikes
SUDDEN = 3.0


@dataclasses.dataclass(frozen=True)
class Newton:
    """`e` in [0, 1], the share of the speed of approach with which bodies part. Raises `ValueError`
    naming the argument."""

    e: float

    def __post_init__(self):
        object.__setattr__(self, "e", _share(self.e))


@dataclasses.dataclass(frozen=True)
class Poisson:
    """`e` in [0, 1], the share of the impulse of compression with which bodies part. Raises
    `ValueError` naming the argument."""

    e: float

    def __post_init__(self):
        object.__setattr__(self, "e", _share(self.e))


def restitutions(system: System) -> jax.Array:
    """e (nc,) of all contacts, 0 of those that have no restitution."""
    of = [jnp.zeros(len(group.numbers)) if group.restitution is None else group.restitution for group in system.groups]
    return in_user_order(system, jnp.concatenate(of))


def bending(spin, speed, reach):
    """The acceleration [m/s^2] at most, along paths that bend, of points within `reach` [m] of the
    centre of a body that turns by `spin` [rad/s] and moves by `speed` [m/s], and of contacts along
    it as it rolls."""
    return spin * (spin * reach + speed)


def _share(e) -> float:
    value = number("e", e)
    if not 0 <= value <= 1:
        raise ContactLawError(f"`e` = {value} is not in [0, 1]: 0 is an impact without rebound, 1 one without loss.")
    return value

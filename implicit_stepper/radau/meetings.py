"""Which contacts have met in a step of given length, and at which points of their bodies.

A body that comes back within the step to the point at which it has met last lands there without
rebound, and rests for what is left of it, by which repeated ones end. One with edges or faces may
meet at other points between, as a box does that lands on one corner, then on the next, and then on
the first one again.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints import kinematics
from ..model import rotation
from ..model.bodies import State
from ..model.records import Contacts
from ..model.system import System, in_user_order
from ..runtime.compilation import jit

_SAME = 1e-2  # of the scene's length: points of a body that are one
_OFTEN = 8  # impacts of a contact in one step, after which its bodies rest


class Meetings:
    """What has met in one step of a `system`. Contacts that are `sharp` (nc,), of bodies with edges
    or faces, meet at other points too; those that `rest` (nc,) rebound nowhere any more."""

    def __init__(self, system: System, sharp: np.ndarray, rest: np.ndarray):
        self.system, self.sharp, self.rest = system, sharp, rest
        self.last, self.count = np.full((2, len(rest), system.dimension), np.inf), np.zeros(len(rest), int)

    def again(self, state: State, contacts: Contacts) -> np.ndarray:
        """Which contacts (nc,) that touch in `state` do not rebound there any more."""
        off = np.linalg.norm(self._places(state, contacts) - self.last, axis=-1)
        return self.rest | np.any(off <= _SAME * float(self.system.length), axis=0)

    def note(self, state: State, contacts: Contacts, lands: np.ndarray) -> None:
        """The impact of those `contacts` that `lands` (nc,), in `state`."""
        self.last = np.where(lands[:, None], self._places(state, contacts), self.last)
        self.count = self.count + lands
        self.rest = self.rest | (lands & ~self.sharp) | (self.count >= _OFTEN)

    def _places(self, state: State, contacts: Contacts) -> np.ndarray:
        return np.asarray(_in_bodies(self.system, state, contacts.point_1, contacts.point_2))


@jit
def _in_bodies(system: System, state: State, *points):
    """The `points` (nc, d) of both bodies of each contact, as (2, nc, d), in the coordinates of
    these."""
    groups = system.groups
    motions = [kinematics.motions_of(system, state, group) for group in groups]
    found = []
    for of_side, point in zip(zip(*motions, strict=True), points, strict=True):
        own = [
            jax.vmap(lambda motion, at: (at - motion.position) @ rotation.matrix(motion.orientation))(
                motion, point[np.array(group.numbers)]
            )
            for group, motion in zip(groups, of_side, strict=True)
        ]
        found.append(in_user_order(system, jnp.concatenate(own)))
    return jnp.stack(found)

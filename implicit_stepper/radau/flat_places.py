"""Places where a surface bends nowhere, which bodies roll over: the middle of the sides of a
superquadric.

Forces have no bound there, and no step of first order is so short that it is of no weight. The
normal turns by an angle theta while the point of contact goes on by theta^(1/(p - 1)), for a
surface of the power p, and so does the lever of the force. A step of first order pushes at the
point where it ends, as an impact without a rebound there: it takes a share of the energy in
proportion to the squared way of the point, some theta^(2/(p - 1)).
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np

from ..constraints.restitution import TOUCHING
from ..implicit_euler.energy import kinetic_energy
from ..model.bodies import State
from ..model.records import Contacts
from ..model.system import System, compliant
from ..runtime.compilation import jit
from .euler_steps import Series, each, opening, rolling

_WORTH_TELLING = 10.0  # tolerances of energy: what a run may lose, see `Tolerance`


@dataclasses.dataclass(frozen=True)
class Flat:
    """Of the places that a run crossed: whether the last steps there `braked` what rolls; the
    energy `lost` so, relative to all, and `when` [s] `most` of it at once."""

    braked: bool = False
    lost: float = 0.0
    most: float = 0.0
    when: float = 0.0

    def crossed(self, system: System, state: State, found: Series, tolerance: float) -> Flat:
        """After the steps of `found` from `state`; what is below the relative `tolerance` is 0."""
        taken = braked(system, state, found)
        return dataclasses.replace(self, braked=taken > tolerance)._lose(taken, state)

    def struck(self, system: System, found: Series, after: State) -> Flat:
        """After an impact at the end of the steps of `found`, of what touched before them: it takes
        the rest, as their points are those of poses that rounding moves."""
        last = found.records[-1].contacts
        meets = (np.asarray(last.gap_start[-1]) > _touching(system)) & (np.asarray(last.gap[-1]) <= _touching(system))
        if not self.braked or np.any(meets):
            return self
        taken = float(_energy(system, found.after) - _energy(system, after)) / float(_unit(system, found.after))
        return self._lose(taken, after)

    def _lose(self, taken: float, at: State) -> Flat:
        """With what was `taken` where a crossing braked what rolls; others take next to nothing."""
        if not self.braked or taken <= 0:
            return self
        most, when = max((self.most, self.when), (taken, float(at.time)))
        return dataclasses.replace(self, lost=self.lost + taken, most=most, when=when)

    def told(self, tolerance: float) -> str:
        """What to say of a run with this relative `tolerance` that lost more energy than it
        allows."""
        if self.lost <= _WORTH_TELLING * tolerance:
            return ""
        return (
            f"steps of first order took {self.lost:.2g} of the energy, most of it at t = {self.when:.6g} s, where `tol` is "
            f"{tolerance:.2g}: bodies roll over places that bend nowhere, as in the middle of the sides of superquadrics, "
            "where forces have no bound. Lower powers lose less."
        )


def braked(system: System, state: State, found: Series) -> float:
    """The share () of the energy that the steps of `found` from `state` take from round bodies that
    touch, whose points run along. (What complies stores what it takes.)"""
    total, rolls = 0.0, rolling(system) & ~compliant(system) if system.contact_count else np.zeros(0, bool)
    if not np.any(rolls):
        return total
    for before, after, contacts in each(state, found):
        work = np.asarray(_braked(system, before, after, contacts))
        total += float(np.sum(work, where=rolls & (np.asarray(contacts.gap_start) <= _touching(system))))
    return total


def _touching(system: System) -> float:
    return TOUCHING * float(system.length)


@jit
def _braked(system: System, before: State, after: State, contacts: Contacts):
    """What each contact (nc,) of a step takes from its bodies, which approach where it ends,
    relative to their energy."""
    speeds = -opening(system, before, after, contacts) - opening(system, after, after, contacts)
    return contacts.normal_impulse * jnp.maximum(speeds, 0.0) / 2 / _unit(system, before)


def _energy(system: System, state: State):
    """() [J], of motion."""
    return kinetic_energy(system, state.orientation, state.velocity)


def _unit(system: System, state: State):
    """What shares of energy () [J] are of: that of motion, and m g L."""
    return _energy(system, state) + jnp.sum(system.mass) * system.acceleration * system.length

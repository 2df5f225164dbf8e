"""Compliant contact: a linear spring and a damper in the normal direction, Castro's law as a
complementarity condition.

The force (-k psi - tau k v_n)_+ over a step of h [s] is the same as

    0 <= psi + tau v_n + c p_n / h  _|_  p_n >= 0,    c = 1/k,

with the impulse p_n in S (3) divided by h, since compliance belongs to forces. Bodies overlap: at
rest by (force) / k. An approaching contact feels the damper from psi = tau |v_n| on, before the
bodies touch.
"""

from __future__ import annotations

import dataclasses

from shapes.arguments import number, positive

from ..runtime.errors import ContactLawError


@dataclasses.dataclass(frozen=True)
class Compliance:
    """`stiffness` k [N/m] and `dissipation_time` tau [s] of a contact's normal force (-k psi - tau
    k v_n)_+, S (2).

    tau = 0 dissipates nothing; a body of mass m bounces with the damping ratio tau sqrt(k/m) / 2.
    Raises `ValueError` naming the argument.
    """

    stiffness: float
    dissipation_time: float = 0.0

    def __post_init__(self):
        object.__setattr__(self, "stiffness", positive("stiffness", self.stiffness))
        tau = number("dissipation_time", self.dissipation_time)
        if tau < 0:
            raise ContactLawError(f"`dissipation_time` = {tau} is negative: use 0 for contact without damping.")
        object.__setattr__(self, "dissipation_time", tau)


def shifted_gap(member, psi, v_n, p_n, h):
    """psi + tau v_n + c p_n / h () [m] of one contact, `member` of a group: what is complementary
    to p_n, S (3)."""
    if member.compliance is None:
        return psi
    return psi + member.dissipation_time * v_n + member.compliance * p_n / h


def gap_unit(member, unit, speed, impulse, h):
    """The unit [m] of `shifted_gap`: the sum of those of its terms, `unit` [m] that of psi, at
    `speed` [m/s] and `impulse` [N s]. A soft spring moves by many units of psi, and has only that
    many fewer digits of it."""
    if member.compliance is None:
        return unit
    return unit + member.dissipation_time * speed + member.compliance * impulse / h

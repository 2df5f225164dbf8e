"""What a run of fixed steps keeps in memory, beside what the machine has."""

from __future__ import annotations

from numbers import Integral

from ..model.system import System
from ..runtime import memory
from ..runtime.errors import RunError

# numbers that a step keeps: of a contact, its record and its violations; of a body, its state and
# its violations; of a joint, reactions, coordinates and violations
_CONTACT, _BODY, _JOINT = 40, 16, 40
_COPIES = 2  # the steps, and the trajectory that they are joined to


def refuse_too_large(system: System, contacts: int, count: int) -> None:
    """Raises `ValueError` where `count` steps of a system with so many contacts would keep more
    than the memory of the machine."""
    of_step = contacts * _CONTACT + system.body_count * _BODY + len(system.joint_names) * _JOINT
    needed, there = _COPIES * 8 * count * of_step, memory.there()
    if needed > there:
        raise RunError(
            f"{count} steps of {system.body_count} bodies and {contacts} contacts would keep about "
            f"{needed / 2**30:.3g} GiB, and the machine has {there / 2**30:.3g}: take a shorter `duration`, save that run, "
            "and go on with `start` = its `end`."
        )


def refuse_no_count(most_pairs) -> None:
    """Raises `ValueError` for what is no number of pairs."""
    if most_pairs is not None and (isinstance(most_pairs, bool) or not isinstance(most_pairs, Integral) or most_pairs < 0):
        raise RunError(f"`most_pairs` = {most_pairs!r:.60} must be a whole number of pairs, or None for all.")


def refuse_too_many(system: System, most_pairs: int | None) -> None:
    """Raises `ValueError` where a system declares more contacts than `most_pairs`, if that is
    given."""
    if most_pairs is not None and system.contact_count > most_pairs:
        raise RunError(
            f"the scene has {system.contact_count} contacts, all of which this run holds, and `most_pairs` is {most_pairs}: "
            'raise it, declare fewer, or find those that are near, with a fixed `h` and `jacobian` = "sparse".'
        )

"""What a run with error control compiles before it begins."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..constraints.detection import prepare_closest_points
from ..model.bodies import State
from ..model.system import System
from ..stepping import loop
from . import after_events, event_loop, sparse_loop
from .apart import sharp
from .euler_steps import without_rebounds
from .radau_contact import RadauContact
from .slots import room
from .way import Limits, Point


def programs(
    ahead: Callable, stepper: RadauContact, system: System, state: State, references, limits: Limits, h, slots
) -> None:
    """What a run from `state` calls, for `compilation.prepare`."""
    closest = prepare_closest_points(ahead, system, state)
    holds = ahead(after_events.at_rest, system, state, closest) if system.sticks_more else ()
    hit, memory, modes = ahead(after_events.resume, stepper, system, state, closest, references, holds, room(slots))
    after = hit.state
    way = event_loop.way_from(stepper, system, Point(after, memory, modes, np.asarray(False), h, np.asarray(1.0)), slots)
    if sparse_loop.suits(stepper, system, slots):
        taken = sparse_loop.programs(ahead, stepper, system, way, limits)
    else:
        _, taken, *_ = ahead(event_loop.advance, stepper, system, way, limits)
    if sharp(system):
        loop.programs(ahead, stepper.one_stage, without_rebounds(system), state, 0.0, closest)
    ahead(after_events.here, system, after, memory)
    ahead(loop.certificates, stepper, system, after, taken.state, taken.contacts, taken.h)

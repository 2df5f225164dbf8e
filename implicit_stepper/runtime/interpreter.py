"""What a process that belongs to one program may ask of its interpreter, so that tracing costs
less. The library asks for nothing: the process may be somebody else's too."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable

# words that one frame asks for: as many again are left in its chunk
_ROOM = 2**18
_THRESHOLDS = (50_000, 20, 100)  # tracing makes many objects that live: to look through them all took a tenth


def faster_tracing(function: Callable) -> Callable:
    """`function`, the main one of a program whose process is its own, as one in which JAX traces in
    less time. The commands are such programs.

    Within it Python's collector looks less often for what is lost, in all threads; and frames have
    room at once. CPython keeps these in chunks of 16 KB, and maps and unmaps a chunk each time that
    calls cross its end, every time at the cost of an interrupt to the threads that compile. A frame
    that asks for much itself comes in a chunk with room for those of all that it calls. No result
    depends on it.
    """

    @functools.wraps(function)
    def call(*arguments, **keywords):
        before = gc.get_threshold()
        gc.set_threshold(*_THRESHOLDS)
        try:
            return function(*arguments, **keywords)
        finally:
            gc.set_threshold(*before)

    call.__code__ = call.__code__.replace(co_stacksize=_ROOM)
    return call

"""How a long run answers: by short compiled calls, and by word of what it is doing.

On a terminal a bar shows how far a run is. Elsewhere a line a time, from half a minute on, says so
on the error stream; nothing is said of runs that are done by then. Neither counts the time that
compiling takes as that of steps.
"""

from __future__ import annotations

import contextlib
import contextvars
import sys
import threading
import time
from collections.abc import Iterator

from tqdm import tqdm

# that a compiled call should take: work that turns ten times harder in it is over in a second, as
# is Ctrl-C
SECONDS = 0.1
_EASY = 2048  # unknowns times steps of a first call, of which nothing is known
_MOST_AT_FIRST = 16
_GROWTH = 8  # of a call from one to the next
_EVERY = 30.0  # [s] between lines

# which run is watched, for those that it calls: what they do is said, not returned
_WATCHED: contextvars.ContextVar[Progress | None] = contextvars.ContextVar("watched", default=None)


def first_call(unknowns: int) -> int:
    """How many problems of so many unknowns to solve in a run's first compiled call."""
    return min(max(_EASY // unknowns, 1), _MOST_AT_FIRST)


def next_call(solved: int, seconds: float, most: int) -> int:
    """How many problems to solve in a compiled call, up to `most`, after one that took `seconds`
    for `solved`."""
    return min(max(int(solved * SECONDS / max(seconds, 1e-9)), 1), _GROWTH * max(solved, 1), most)


@contextlib.contextmanager
def doing(what: str) -> Iterator[None]:
    """Within it, the run that called this is said to be doing `what`."""
    watched = _WATCHED.get()
    if watched is None:
        yield
        return
    before = watched.what
    watched.now(f"{before}: {what}" if before else what)
    try:
        yield
    finally:
        watched.now(before)


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """`doing`, and the time of it is not that of steps."""
    watched, begun = _WATCHED.get(), time.monotonic()
    with doing("compiling"):
        yield
    if watched is not None:
        watched.wait(time.monotonic() - begun)


class Progress:
    """Of a run of `total` `unit`, within a `with`. `show`: a bar, or nothing; None: a bar on
    terminals, lines elsewhere."""

    def __init__(self, total: float, unit: str, show: bool | None):
        terminal = sys.stderr is not None and sys.stderr.isatty()
        bar, self._lines = terminal if show is None else show, show is None and not terminal and sys.stderr is not None
        self.total, self.unit, self.done, self.what = total, unit, 0.0, ""
        self._bar = tqdm(total=total, unit=f" {unit}", leave=False, disable=not bar)
        self._watched = bar or self._lines  # what is not shown is a part of what is
        self._begun, self._waited, self._over = time.monotonic(), 0.0, threading.Event()

    def __enter__(self) -> Progress:
        self._before = _WATCHED.get()
        if self._watched:
            _WATCHED.set(self)
        if self._lines:  # by a thread, as a line is due while a program compiles or runs, too
            threading.Thread(target=self._report, daemon=True).start()
        return self

    def __exit__(self, *_) -> None:
        self._over.set()
        self._bar.close()
        _WATCHED.set(self._before)

    def now(self, what: str) -> None:
        """Says what is being done, "" for the usual."""
        self.what = what
        self._bar.set_description_str(what)

    def wait(self, seconds: float) -> None:
        """Leaves out the last `seconds` of the time of steps."""
        self._waited += seconds
        self._bar.unpause()

    def to(self, done: float) -> None:
        """Says how far the run is."""
        self._bar.update(done - self.done)
        self.done = done

    def line(self, seconds: float) -> str:
        """What to say after so many seconds."""
        rate = self.done / max(seconds - self._waited, 1e-9)
        pace = f" ({rate:.3g} a second)" if self.done else ""
        doing = f": {self.what}" if self.what else ""
        after = f"{seconds:.0f} s" + (f", {self._waited:.0f} s of it compiling" if self._waited >= 1 else "")
        return f"implicit-stepper: {self.done:.6g} of {self.total:.6g} {self.unit} after {after}{pace}{doing}"

    def _report(self) -> None:
        while not self._over.wait(_EVERY):
            print(self.line(time.monotonic() - self._begun), file=sys.stderr, flush=True)

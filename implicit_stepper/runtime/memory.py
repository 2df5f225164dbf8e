"""The memory of the machine, and programs that would need more."""

from __future__ import annotations

import os
from pathlib import Path

import jax

from .errors import RunError

_SYSTEM = Path("/proc/meminfo")  # of Linux
_LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container, where there is one


def there() -> float:
    """The memory [bytes] that this process can have at most, infinite where nobody says."""
    try:
        own = float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not on every system
        own = float("inf")
    try:
        return min(own, float(_LIMIT.read_text()))
    except (OSError, ValueError):  # no container, or one without a limit, which says "max"
        return own


def free() -> float:
    """The memory [bytes] that no other process has now, all of it where nobody says; of a
    container's limit nothing counts as taken."""
    try:
        lines = dict(line.split(":") for line in _SYSTEM.read_text().splitlines())
        return min(there(), 1024.0 * float(lines["MemAvailable"].split()[0]))
    except (KeyError, OSError, ValueError):  # of another system
        return there()


def fitting(program: jax.stages.Compiled) -> jax.stages.Compiled:
    """A compiled `program` for which memory is free. Raises `ValueError` for another: the
    system would end the process without a word. Devices with a memory of their own say it
    themselves."""
    if jax.default_backend() != "cpu":
        return program
    sizes = program.memory_analysis()
    if sizes is None:  # of a backend that does not say
        return program
    needed = sizes.temp_size_in_bytes + sizes.argument_size_in_bytes + sizes.output_size_in_bytes
    if needed > free():
        raise RunError(
            f"a step of this run would need about {needed / 2**30:.3g} GiB of memory, and of the machine's "
            f"{free() / 2**30:.3g} are free: its program holds all contacts that are declared. Declare fewer, or let them "
            'be found: steps of a fixed `h` by GeometricallyImplicit(jacobian="sparse") find those near.'
        )
    return program

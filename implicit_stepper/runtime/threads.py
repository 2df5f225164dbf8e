"""One thread for LAPACK while the library works.

jaxlib calls the LAPACK that SciPy brings, an OpenBLAS with a thread for every core. These share
matrices that are small here, and wait for each other in loops that keep their cores busy: a
factorisation of 415 unknowns takes 12 ms of CPU with one thread, and 600 ms with two as soon as
anything else runs (see docs/decisions/0017-blas-threads.md).
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator

from threadpoolctl import OpenBLASController, ThreadpoolController


class _Shared:
    """The limit of this process, which has one number of BLAS threads for all of its own: set by
    the first of those that ask for it, in whatever thread, and put back by the last."""

    def __init__(self):
        self._lock, self._inside, self._limit = threading.Lock(), 0, None

    def enter(self) -> None:
        """Limits BLAS to one thread, if nobody has yet."""
        with self._lock:
            if self._inside == 0:
                _free()
                self._limit = _controller().limit(limits=1, user_api="blas")
            self._inside += 1

    def leave(self) -> None:
        """Puts the limits back as they were, if nobody else is inside."""
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                _free()
                self._limit.restore_original_limits()
                _free()


_SHARED = _Shared()


def _free() -> None:
    """Lets any thread set the number, which threadpoolctl otherwise leaves to the thread that set
    it first."""
    OpenBLASController.clear_controlling_thread(force=True)


@functools.cache
def _controller() -> ThreadpoolController:
    """Of the libraries loaded by now; looking for them takes a millisecond."""
    import scipy.linalg  # noqa: F401  (loads the OpenBLAS that jaxlib calls; here, as it takes .1 s)

    return ThreadpoolController()


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Within it, or within a function that it decorates, LAPACK uses one thread; after it, as many
    as before.

    `simulate`, `compare`, `closest_points`, `solve_ncp` and the commands do so themselves. For
    compiled steps of your own, whose results must be there (`jax.block_until_ready`) before it
    ends.
    """
    _SHARED.enter()
    try:
        yield
    finally:
        _SHARED.leave()

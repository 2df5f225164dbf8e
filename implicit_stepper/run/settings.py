"""What a run is asked for: a step or a tolerance, how long, and when loads jump; all of it is
checked before anything is built, and by the command `check` too."""

from __future__ import annotations

from shapes.arguments import positive

from ..radau.error_control import Tolerance, tolerance_of
from ..runtime.errors import RunError, StepperError
from ..scene.description import times_of
from ..stepping.stepper import Stepper

_ROUNDING = 1e-9  # of the duration: 3 times 0.1 is in a run of 0.3, whatever rounding leaves


def refuse_settings(
    stepper: Stepper,
    *,
    h: float | None = None,
    tol: float | Tolerance | None = None,
    duration: float,
    switches=(),
    certificate_tolerance: float = 1e-10,
    goes_on: bool = False,
) -> None:
    """Raises `ValueError` for what `simulate` cannot do by this `stepper`, of whatever scene. A run
    that `goes_on` from a start of its own may have `switches` of the whole motion."""
    refuse_both(h, tol)
    duration = positive("duration", duration)
    positive("certificate_tolerance", certificate_tolerance)
    times = times_of(switches)
    if tol is None:
        positive("h", h)
        if len(times):
            raise RunError(
                f"`switches` = {switches!r} are for chosen steps: with a fixed `h`, loads are taken at each step's start."
            )
        return
    if not stepper.can.adaptive:
        raise StepperError(
            f"`stepper` = {stepper!r} has no error estimate to choose steps by: use RadauContact() of 2 or 3 "
            "stages, or give `h`."
        )
    tolerance_of(tol)
    outside = times[(times < 0) | (times > duration * (1 + _ROUNDING))]
    if len(outside) and not goes_on:
        raise RunError(
            f"`switches` has {outside[0]:.9g} s, and the run lasts from 0 to {duration:.9g} s: leave it out, or give a "
            "longer `duration`."
        )


def refuse_both(h: float | None, tol: float | Tolerance | None) -> None:
    """Raises `ValueError` unless one of them is given."""
    if (h is None) == (tol is None):
        raise RunError(f"`h` = {h} and `tol` = {tol}: give one of them, a fixed step [s] or a tolerance for chosen steps.")

"""Time-steppers, all under the protocol of `base`."""

from .base import Contacts, Stats, Stepper, StepResult
from .geometrically_implicit import GeometricallyImplicit

__all__ = ["Contacts", "GeometricallyImplicit", "Stats", "StepResult", "Stepper"]

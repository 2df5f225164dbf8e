"""Time-steppers, all under the protocol of `base`."""

from .base import Stepper
from .cone_complementarity import ConeComplementarity
from .geometrically_implicit import GeometricallyImplicit

__all__ = ["ConeComplementarity", "GeometricallyImplicit", "Stepper"]

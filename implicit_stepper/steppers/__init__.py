"""Time-steppers, all under the protocol of `base`."""

from .base import Stepper
from .closed_form_gap import ClosedFormGap
from .cone_complementarity import ConeComplementarity
from .convex import Convex
from .explicit import Explicit
from .geometrically_implicit import GeometricallyImplicit
from .linearized import Linearized
from .radau_contact import RadauContact

__all__ = [
    "ClosedFormGap",
    "ConeComplementarity",
    "Convex",
    "Explicit",
    "GeometricallyImplicit",
    "Linearized",
    "RadauContact",
    "Stepper",
]

"""Units of a scene file, made SI where the file is read.

Forces [N], moments [N m] and stiffness [N/m] are SI in every file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction

import sympy

LENGTHS = {
    "m": Fraction(1),
    "cm": Fraction(1, 100),
    "mm": Fraction(1, 1000),
    "um": Fraction(1, 10**6),
    "km": Fraction(1000),
    "in": Fraction(254, 10_000),
    "ft": Fraction(3048, 10_000),
}
MASSES = {"kg": Fraction(1), "g": Fraction(1, 1000), "t": Fraction(1000), "lb": Fraction(45_359_237, 10**8)}


@dataclasses.dataclass(frozen=True)
class Units:
    """`per_length` [m] and `per_mass` [kg]: what one unit of the file is. Each method takes a
    number in the file's units."""

    per_length: Fraction = Fraction(1)
    per_mass: Fraction = Fraction(1)

    @property
    def coordinate(self) -> sympy.Rational:
        """Units of length in a metre: what a coordinate in metres is multiplied by within a formula
        of the file."""
        return sympy.Rational(self.per_length.denominator, self.per_length.numerator)

    def length(self, value: float) -> float:
        """[m], of lengths, of velocities and of accelerations."""
        return _times(value, self.per_length)

    def mass(self, value: float) -> float:
        """[kg]"""
        return _times(value, self.per_mass)

    def inertia(self, value: float) -> float:
        """[kg m^2]"""
        return _times(value, self.per_mass * self.per_length**2)

    def density(self, dimension: int) -> Callable[[float], float]:
        """[kg/m^3], or [kg/m^2] in the plane."""
        return lambda value: _times(value, self.per_mass / self.per_length**dimension)


def _times(value: float, factor: Fraction) -> float:
    """Rounded once where the factor is a whole number or its inverse: 70 mm are the double nearest
    to .07 m."""
    return value if factor == 1 else value * factor.numerator / factor.denominator

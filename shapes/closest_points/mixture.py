"""Classes of one smooth inequality each, put together as one class, so that all their contacts are
compiled once.

Only f and its derivatives differ between such classes; the closest-point conditions around them do
not. A contact of the mixture evaluates the inequality of every class and takes its own, which costs
less than a second kernel.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np

from ..expressions.compile import Jet
from ..shape import Shape
from ..shape_class import ShapeClass
from .conditions import PairClass, Placed


@dataclasses.dataclass(frozen=True)
class Mixture:
    """One of several `classes` where a `ShapeClass` is expected; theta = (number of the class, its
    parameters, ones)."""

    classes: tuple[ShapeClass, ...]

    count = 1
    support = None

    @property
    def name(self) -> str:
        """The names of all."""
        return " or ".join(c.name for c in self.classes)

    @property
    def dimension(self) -> int:
        """2 or 3."""
        return self.classes[0].dimension

    @property
    def rounded(self) -> bool:
        """Whether any is."""
        return any(c.rounded for c in self.classes)

    @property
    def jet(self) -> Jet:
        """f, gradient and Hessian of the class that theta numbers."""
        return _jet(self)

    def radius(self, theta):
        """Rounding radius () [m]."""
        return self.chosen(theta, lambda shape_class, own: jnp.asarray(shape_class.radius(own), float))

    def chosen(self, theta, function: Callable):
        """`function(shape_class, its own theta)` of the class that theta numbers."""
        values = [function(c, self.own(c, theta)) for c in self.classes]
        for number, value in enumerate(values[1:], start=1):
            values[0] = jnp.where(theta[0] == number, value, values[0])
        return values[0]

    def own(self, shape_class: ShapeClass, theta):
        """The part of theta that one of the classes reads."""
        return theta[1 : 1 + len(shape_class.parameters)]


@functools.cache
def _jet(mixture: Mixture) -> Jet:
    def part(name):
        return lambda x, theta: mixture.chosen(theta, lambda shape_class, own: getattr(shape_class.jet, name)(x, own))

    return Jet(part("value"), part("gradient"), part("hessian"))


def can_mix(shape_class: ShapeClass) -> bool:
    """Whether the class differs from others that can in f alone."""
    return shape_class.count == 1 and shape_class.support is None


def mixed(pairs: Sequence[PairClass]) -> PairClass:
    """One class for contacts of any of the different `pairs`, whose classes `can_mix`."""
    if len(pairs) == 1:
        return pairs[0]
    first, second = (dict.fromkeys(getattr(p, side) for p in pairs) for side in ("first", "second"))
    sides = (Mixture(tuple(classes)) if len(classes) > 1 else next(iter(classes)) for classes in (first, second))
    return dataclasses.replace(pairs[0], first=next(sides), second=next(sides), members=tuple(pairs))


def packed(kind: ShapeClass | Mixture, shape_class: ShapeClass, theta) -> np.ndarray:
    """theta as `kind`, a class or a mixture with it, reads it."""
    if not isinstance(kind, Mixture):
        return np.asarray(theta, dtype=float)
    padding = max(len(c.parameters) for c in kind.classes) - len(theta)
    return np.concatenate([[kind.classes.index(shape_class)], theta, np.ones(padding)])


def unpacked(kind: ShapeClass | Mixture, theta) -> Shape:
    """The shape whose theta as `kind` reads it is this one."""
    if not isinstance(kind, Mixture):
        return Shape(kind, np.asarray(theta))
    shape_class = kind.classes[int(theta[0])]
    return Shape(shape_class, np.asarray(kind.own(shape_class, theta)))


def query_of(pair: PairClass, query: Callable[[PairClass], Callable]) -> Callable:
    """What `PairClass.query` can be for `pair`, a mixture or not, if `query` names the function for
    one that is none."""
    if not pair.members:
        return query(pair)
    functions = [query(member) for member in pair.members]

    def find(_, unknowns, first: Placed, second: Placed, length):
        found = jnp.full_like(unknowns, jnp.nan)
        for member, function in zip(pair.members, functions, strict=True):
            is_1, own_1 = _as_member(pair.first, member.first, first)
            is_2, own_2 = _as_member(pair.second, member.second, second)
            found = jnp.where(is_1 & is_2, function(member, unknowns, own_1, own_2, length), found)
        return found

    return find


def _as_member(kind: ShapeClass | Mixture, shape_class: ShapeClass, placed: Placed):
    """Whether `placed` is of that class, and it with theta as the class reads it."""
    if not isinstance(kind, Mixture):
        return True, placed
    is_one = placed.theta[0] == kind.classes.index(shape_class)
    return is_one, dataclasses.replace(placed, theta=kind.own(shape_class, placed.theta))

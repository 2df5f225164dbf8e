"""Classes of shapes put together as one class, so that all their contacts are compiled once.

Only f and its derivatives differ between such classes; the closest-point conditions around them do
not. A contact of the mixture evaluates the inequalities of every class and takes its own, which
costs less than a second kernel. A body with fewer inequalities than others of its mixture is filled
up with some that are far from holding it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterable, Sequence

import jax.numpy as jnp
import numpy as np

from ..expressions.compile import Jet
from ..shape import Shape
from ..shape_class import ShapeClass
from .conditions import PairClass, Placed
from .surface import surface

_FAR = 100.0  # sizes of a body that it is inside of an inequality that only fills it up
# times the unknowns that closest points have alone: with fewer kernels steps are compiled, and
# taken, in half the time, until larger blocks cost more than that
_MOST = 1.6


@dataclasses.dataclass(frozen=True)
class Mixture:
    """One of several `classes` without a support function where a `ShapeClass` is expected; theta =
    (number of the class, its parameters, ones, how far inside [m] it is of those inequalities that
    it lacks)."""

    classes: tuple[ShapeClass, ...]

    support = None

    @property
    def count(self) -> int:
        """The largest number of inequalities of any."""
        return max(c.count for c in self.classes)

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
        # of the others at ones: what has no number there has derivatives in reverse that have none
        given = [jnp.where(theta[0] == number, self.own(c, theta), 1.0) for number, c in enumerate(self.classes)]
        values = [function(c, own) for c, own in zip(self.classes, given, strict=True)]
        for number, value in enumerate(values[1:], start=1):
            values[0] = jnp.where(theta[0] == number, value, values[0])
        return values[0]

    def own(self, shape_class: ShapeClass, theta):
        """The part of theta that one of the classes reads."""
        return theta[own_parameters(self, len(shape_class.parameters))]


@functools.lru_cache(maxsize=1024)
def _jet(mixture: Mixture) -> Jet:
    def part(name, axis):
        def evaluate(x, theta):
            def filled(shape_class, own):
                values = getattr(shape_class.jet, name)(x, own)
                missing = list(values.shape)
                missing[axis] = mixture.count - shape_class.count
                far = jnp.full(missing, -theta[-1] if name == "value" else 0.0)
                return jnp.concatenate([values, far], axis=axis) if missing[axis] else values

            return mixture.chosen(theta, filled)

        return evaluate

    return Jet(part("value", -1), part("gradient", -2), part("hessian", -3))


def form_of(pair: PairClass) -> Hashable:
    """What pairs share that may be mixed: whether they have the short form, and on both sides the
    classes that have a support function."""
    return pair.smooth, *(None if side.support is None else side for side in (pair.first, pair.second))


def put_together(pairs: Iterable[PairClass]) -> list[list[PairClass]]:
    """The different ones of `pairs` of one form, in lists of those to be `mixed`: as far as none
    has more than `_MOST` times the unknowns that it has alone."""
    found: list[list[PairClass]] = []
    for pair in sorted(dict.fromkeys(pairs), key=lambda pair: -pair.unknowns):
        for own in found:
            together = [*own, pair]
            if mixed(together).unknowns <= _MOST * pair.unknowns:
                own.append(pair)
                break
        else:
            found.append([pair])
    return found


def mixed(pairs: Sequence[PairClass]) -> PairClass:
    """One class for contacts of any of the different `pairs` of one form."""
    if len(pairs) == 1:
        return pairs[0]
    first, second = (dict.fromkeys(getattr(p, side) for p in pairs) for side in ("first", "second"))
    sides = (Mixture(tuple(classes)) if len(classes) > 1 else next(iter(classes)) for classes in (first, second))
    return dataclasses.replace(pairs[0], first=next(sides), second=next(sides), members=tuple(pairs))


def packed(kind: ShapeClass | Mixture, shape: Shape) -> np.ndarray:
    """The theta of a shape as `kind`, its class or a mixture with it, reads it."""
    theta = np.asarray(shape.theta, dtype=float)
    if not isinstance(kind, Mixture):
        return theta
    padding = np.ones(max(len(c.parameters) for c in kind.classes) - len(theta))
    return np.concatenate([[kind.classes.index(shape.shape_class)], theta, padding, [_FAR * surface(shape).size]])


def own_parameters(kind: ShapeClass | Mixture, count: int | None) -> slice:
    """Where the `count` parameters of a shape stand in theta as `kind` reads it; None: of the class
    with most of them."""
    if not isinstance(kind, Mixture):
        return slice(None)
    return slice(1, -1 if count is None else 1 + count)


def slopes(kind: ShapeClass | Mixture, shape: Shape) -> np.ndarray:
    """The slopes (m,) of `Surface` for as many inequalities as `kind`, the shape's class or a
    mixture with it, has."""
    own = surface(shape).slope
    return np.concatenate([own, np.ones(kind.count - len(own))])


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

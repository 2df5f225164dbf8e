"""The convex shapes that a body is made of, and where they sit on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from shapes import Shape
from shapes.arguments import flag
from shapes.closest_points.surface import surface
from shapes.expressions.compile import compile_jet
from shapes.moments import Moments, together

from ..model import checks, rotation
from ..runtime.errors import BodyError, ContactRuleError

# of the smaller part's size: parts that come this close share a face, and are not apart
_TOUCH = 1e-6


@dataclasses.dataclass(frozen=True)
class Part:
    """A shape whose coordinates have their origin at `position` (d,) [m] and are turned by
    `rotation` (d, d)."""

    shape: Shape
    position: np.ndarray
    rotation: np.ndarray

    def moved(self, shift) -> Part:
        """The same part with the origin of the body's coordinates moved by -`shift`."""
        return dataclasses.replace(self, position=self.position + shift)


def parts(shape: Shape | None, shapes: Sequence | None, dimension: int, name: str, apart: bool = False) -> tuple[Part, ...]:
    """One part from `shape`, or several from `shapes` = [(shape, (position, quaternion or angle)),
    ...].

    Raises `ValueError` for what is not a shape or a pose, and for a body that falls apart,
    unless it is meant to stand `apart`.
    """
    flag("apart", apart)
    if (shape is None) == (shapes is None):
        raise BodyError("give either `shape`, or `shapes` = [(shape, (position, quaternion)), ...].")
    if shapes is None:
        return (Part(_shape("shape", shape, dimension), np.zeros(dimension), np.eye(dimension)),)
    if not isinstance(shapes, Sequence) or len(shapes) == 0:
        raise BodyError(f"`shapes` = {shapes!r} must be a list of (shape, (position, quaternion)).")
    found = []
    for i, entry in enumerate(shapes):
        if not isinstance(entry, tuple | list) or len(entry) != 2:
            raise BodyError(f"`shapes[{i}]` = {entry!r} must be (shape, (position, quaternion)).")
        position, orientation = (np.asarray(a) for a in checks.pose(f"shapes[{i}]", entry[1], dimension))
        turn = np.asarray(rotation.matrix(orientation))
        found.append(Part(_shape(f"shapes[{i}]", entry[0], dimension), position, turn))
    if not apart:
        _check_connected(found, name)
    return tuple(found)


def paired(chosen: Sequence | None, own: Sequence[Part], others: Sequence[Part]) -> list[tuple[int, int]]:
    """Numbers of parts of two bodies, which have `own` and `others`: all pairs, or those that are
    `chosen`. Raises `ValueError`, also for two points."""
    every = [(i, j) for i in range(len(own)) for j in range(len(others))]
    pairs = every if chosen is None else _chosen(chosen, every)
    for i, j in pairs:
        if is_point(own[i]) and is_point(others[j]):
            raise ContactRuleError(
                f"part {i} of the first body and part {j} of the second are both a Point, and two points have no normal: "
                "choose others in `parts`, or make one of them a Sphere, in the plane a Disc."
            )
    return pairs


def is_point(part: Part) -> bool:
    """Whether it is a `shapes.Point`."""
    return part.shape.shape_class.point


def _chosen(chosen: Sequence, every: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pairs of parts that the user chose of all."""
    chosen = chosen.tolist() if isinstance(chosen, np.ndarray) else chosen
    listed = chosen if isinstance(chosen, Iterable) else [chosen]
    found = [tuple(pair) if isinstance(pair, tuple | list | np.ndarray) else pair for pair in listed]
    wrong = [pair for pair in found if not isinstance(pair, tuple) or pair not in every or found.count(pair) > 1]
    if wrong or not found:
        told = f", not {wrong[0]!r:.60}" if wrong else ""
        raise ContactRuleError(
            f"`parts` = {chosen!r:.200} must list pairs (i, j), each once, of parts 0 to {every[-1][0]} of the first body "
            f"and 0 to {every[-1][1]} of the second{told}."
        )
    return [every[every.index(pair)] for pair in found]


def moments(body: Sequence[Part]) -> Moments:
    """Of a whole body of unit density, in its coordinates; where parts overlap they count twice."""
    return together([part.shape.moments().moved(part.position, part.rotation) for part in body])


def _shape(name: str, shape, dimension: int) -> Shape:
    if not isinstance(shape, Shape):
        raise BodyError(f"`{name}` = {shape!r} must come from `shapes`, for instance shapes.Sphere(1.0).")
    if shape.dimension != dimension:
        raise BodyError(f"`{name}` has dimension {shape.dimension} in a scene of dimension {dimension}.")
    return shape


def _check_connected(body: list[Part], name: str) -> None:
    """Every part must be reachable from the first one through parts that touch."""
    reached, waiting = {0}, [0]
    while waiting:
        i = waiting.pop()
        touching = {j for j in range(len(body)) if j not in reached and _touch(body[i], body[j])}
        reached |= touching
        waiting += touching
    apart = [i for i in range(len(body)) if i not in reached]
    if apart:
        raise BodyError(
            f"`shapes` of {name!r}: part {apart[0]} at {body[apart[0]].position} does not touch the rest of the body. "
            "Check its pose, which is in the body's coordinates [m], make two bodies, or give `apart` = True."
        )


def _touch(first: Part, second: Part) -> bool:
    return least_height(first, second) <= _TOUCH * _size(first, second)


def least_height(first: Part, second: Part) -> float:
    """The least s, roughly [m], for which f_j <= s at some point for the inequalities of both,
    searched from their middle: that it is negative proves that they share points."""
    # here, as few scenes need it and it takes a tenth of the import of this package
    from scipy.optimize import minimize

    for one, other in ((first, second), (second, first)):
        if is_point(one):
            return float(np.max(heights(other, one.position)))
    d, both, unit = len(first.position), (first, second), _size(first, second)
    start = np.mean([p.position + p.rotation @ surface(p.shape).interior for p in both], axis=0)

    def of_both(point):
        """Over the inequalities of both, in units, at a point that many units from the start."""
        return np.concatenate([heights(part, start + unit * point) for part in both]) / unit

    def slopes(v):
        """Of what the constraints bound, by v."""
        rises = np.concatenate([_rises(part, start + unit * v[:d]) for part in both])
        return np.hstack([-rises, np.ones((len(rises), 1))])

    found = minimize(
        lambda v: v[-1],
        np.append(np.zeros(d), np.max(of_both(np.zeros(d)))),
        jac=lambda v: np.eye(d + 1)[-1],
        constraints={"type": "ineq", "fun": lambda v: v[-1] - of_both(v[:d]), "jac": slopes},
        bounds=[(None, None)] * d + [(-1.0, None)],  # a half-space has no deepest point
        method="SLSQP",
        options={"maxiter": 300, "ftol": 1e-12},
    )
    return unit * float(np.max(of_both(found.x[:d])))


def _size(first: Part, second: Part) -> float:
    """That of the smaller part [m]."""
    return min(surface(part.shape).size for part in (first, second))


def heights(part: Part, point) -> np.ndarray:
    """f_j / |grad f_j| less the rounding radius, roughly metres, at a point (d,) in the body's
    coordinates."""
    of, theta = part.shape.shape_class, np.asarray(part.shape.theta)
    if is_point(part):
        return np.linalg.norm(point - part.position)[None]
    return _jet(part).value(part.rotation.T @ (point - part.position), theta) / surface(part.shape).slope - of.radius(theta)


def _rises(part: Part, point) -> np.ndarray:
    """The derivatives (inequalities, d) of `heights`."""
    gradients = _jet(part).gradient(part.rotation.T @ (point - part.position), np.asarray(part.shape.theta))
    return gradients @ part.rotation.T / np.reshape(surface(part.shape).slope, (-1, 1))


def _jet(part: Part):
    """Of the inequalities of a part."""
    of = part.shape.shape_class
    return compile_jet(of.expressions, of.dimension, of.parameters, backend="numpy")

"""New shapes from others: the points in all of several, those below a plane, and those within a
radius."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import sympy

from ..arguments import positive
from ..checks import convexity, redundancy
from ..errors import RedundantPartError, ShapeArgumentError, UnboundedShapeError
from ..expressions.symbols import is_flat
from ..shape import ImplicitShape, Shape
from .flat_faced import HalfPlane, HalfSpace
from .grown import moments_when_grown


def Intersection(parts: Sequence[Shape], *, validate: bool = True, name: str = "Intersection") -> Shape:
    """The set of points in all `parts`, which share one body frame. Parameters are renamed `name_i`
    for part i.

    With `validate` the set is sampled as for `ImplicitShape`, and refused with a `ShapeError` as
    well if a whole part never bounds it, or if it is unbounded though not all parts are
    half-spaces. Single inequalities of a part that the other parts imply are left out, like the top
    of a cylinder that is cut in half.
    """
    if not isinstance(parts, Sequence) or len(parts) < 2:
        raise ShapeArgumentError(f"`parts` = {parts!r} must be a list of two or more shapes.")
    if not all(isinstance(part, Shape) for part in parts):
        raise ShapeArgumentError("`parts` must be shapes: wrap your own expressions in ImplicitShape([...]).")
    if len({part.dimension for part in parts}) > 1:
        raise ShapeArgumentError("`parts` mixes planar and spatial shapes.")
    for i, part in enumerate(parts):
        _refuse_point(part)
        if part.shape_class.rounded:
            raise ShapeArgumentError(f"`parts`[{i}] is {part.shape_class.name}: round the result, not a part of it.")
    expressions, owners, parameters = _side_by_side(parts)

    def body(chosen):
        used = {s: v for s, v in parameters.items() if any(expressions[j].has(s) for j in chosen)}
        return ImplicitShape(
            [expressions[j] for j in chosen], parameters=used, dimension=parts[0].dimension, name=name, validate=False
        )

    chosen = list(range(len(expressions)))
    whole = body(chosen)
    if not validate:
        return whole
    report = convexity.check(whole.shape_class, whole.theta)
    if not all(is_flat(e, whole.dimension) for e in expressions):
        _refuse_endless(whole, report)
    superfluous = redundancy.superfluous(whole.shape_class, whole.theta, report)
    _refuse_superfluous_part(parts, owners, superfluous, name)
    while superfluous:  # one at a time: of two that are the same, one stays
        del chosen[superfluous[0]]
        whole = body(chosen)
        superfluous = redundancy.superfluous(whole.shape_class, whole.theta, report)
    return whole


def cut(shape: Shape, *, normal: Sequence[float], offset: float = 0.0, validate: bool = True) -> Shape:
    """The part of `shape` with n.x <= offset [m]: `normal` is a unit vector (d,) that points to
    what is cut off.

    Refused like `Intersection`, thus also where the plane misses the body, or leaves nothing of it.
    The result is in the coordinates of `shape`, so that its centre of mass is not at the origin.
    """
    _refuse_other_than_shape(shape)
    _refuse_point(shape)
    half = HalfSpace if shape.dimension == 3 else HalfPlane
    parts = [shape, half(normal=normal, offset=offset)]
    return Intersection(parts, validate=validate, name=f"cut {shape.shape_class.name}")


def Rounded(shape: Shape, radius: float) -> Shape:
    """All points within `radius` [m] of `shape`, which grows by it and loses its edges; the last
    parameter, `rounding`.

    Its inequalities stay those of `shape`, the core, and contact adds the radius. Radii add up.
    Moments are those of `grown`, and by quadrature where it has none.
    """
    _refuse_other_than_shape(shape)
    _refuse_point(shape)
    radius = positive("radius", radius, error=ShapeArgumentError)
    core, theta = shape.shape_class, np.asarray(shape.theta, dtype=float)
    if core.rounded:
        return dataclasses.replace(shape, theta=np.append(theta[:-1], theta[-1] + radius))
    if "rounding" in map(str, core.parameters):
        raise ShapeArgumentError(f"{core.name} has a parameter `rounding` of its own: give it another name.")
    rounded = dataclasses.replace(
        core,
        name=f"Rounded({core.name})",
        parameters=(*core.parameters, sympy.Symbol("rounding", positive=True)),
        closed_form=None,
        rounded=True,
    )
    rounded = dataclasses.replace(rounded, closed_form=moments_when_grown(core, rounded))
    return Shape(rounded, np.append(theta, radius))


def _refuse_other_than_shape(shape) -> None:
    if not isinstance(shape, Shape):
        raise ShapeArgumentError(f"`shape` = {shape!r} must be a shape: wrap your own expressions in ImplicitShape([...]).")


def _refuse_point(shape: Shape) -> None:
    if shape.shape_class.point:
        raise ShapeArgumentError("a Point has nothing to cut or to round: its surroundings are a Sphere(radius), or a Disc.")


def _side_by_side(parts: Sequence[Shape]):
    """All inequalities, the part of each, and all parameters {symbol: value}, renamed `name_i` for
    part i."""
    expressions, owners, parameters = [], [], {}
    for i, part in enumerate(parts):
        renamed = {s: sympy.Symbol(f"{s}_{i}", **s.assumptions0) for s in part.shape_class.parameters}
        expressions += [e.xreplace(renamed) for e in part.shape_class.expressions]
        owners += [i] * part.shape_class.count
        parameters |= {renamed[s]: v for s, v in zip(part.shape_class.parameters, part.theta, strict=True)}
    return expressions, owners, parameters


def _refuse_endless(shape: Shape, report: convexity.Report) -> None:
    direction = redundancy.endless(shape.shape_class, shape.theta, report)
    if direction is not None:
        raise UnboundedShapeError(
            f"{shape.shape_class.name} is unbounded: it never ends along {direction}, which only half-spaces alone may. "
            "Close it with one more part."
        )


def _refuse_superfluous_part(parts: Sequence[Shape], owners: list[int], superfluous: list[int], name: str) -> None:
    for i, part in enumerate(parts):
        own = [j for j, owner in enumerate(owners) if owner == i]
        if set(own) <= set(superfluous):
            raise RedundantPartError(
                f"{name}: part {i} ({part.shape_class.name}) is never active, as the other parts imply its inequalities "
                f"{own}. Leave it out, or check where it is."
            )

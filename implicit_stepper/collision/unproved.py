"""What to say of closest points that are not proved."""

from __future__ import annotations

import textwrap

import numpy as np

from shapes import Shape

_NEARLY = 1e-6  # a residual below which an answer is not proved, but near


def message(answer, shape_1: Shape, shape_2: Shape) -> str:
    """Of the `ClosestPoints` of all pairs: which are not proved, by how much, and what it means
    there."""
    converged, residual, distance = (np.ravel(a) for a in (answer.converged, answer.residual, answer.distance))
    missing = np.flatnonzero(~converged)
    worst = missing[np.argmax(np.where(np.isnan(residual[missing]), np.inf, residual[missing]))]
    if residual[worst] <= _NEARLY:
        advice = "The distances are right to about the residual times the smaller body's size; the points may be less so."
    elif distance[worst] < 0:
        advice = "The bodies overlap there and no start led to a depth: part them, or ask for a pose nearby."
    else:
        advice = "Check both for an extreme aspect, and the poses for distances of another order than the sizes."
    return (
        f"closest points of {_described('shape_1', shape_1)} and {_described('shape_2', shape_2)} were not proved for "
        f"{len(missing)} of {converged.size} pairs of poses (numbers {', '.join(map(str, missing[:5]))}"
        f"{', ...' if len(missing) > 5 else ''}): residual {residual[worst]:.2e} at distance {distance[worst]:.6g} m in "
        f"number {worst}. {advice} All answers are in the error's `answer`, with the residual of each."
    )


def _described(name: str, shape: Shape) -> str:
    """The argument with the shape's class and parameters, or with the inequalities of a shape
    without."""
    values = ", ".join(f"{parameter}={value:.6g}" for parameter, value in shape.parameters().items())
    values = values or "; ".join(f"{e} <= 0" for e in shape.shape_class.expressions)
    return f"`{name}` = {shape.shape_class.name}({textwrap.shorten(values, 80, placeholder=' ...')})"

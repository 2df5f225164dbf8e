"""Adaptive quadrature over many unit cubes at once. Its error is the sum of all panels' errors,
without regard to sign.

A panel's error is the difference of two rules: Gauss's, and Lobatto's, whose points at the ends see
a kink that Gauss's just miss.
"""

from __future__ import annotations

import functools

import numpy as np

TOLERANCE = 1e-8  # largest relative error of a quadrature
_PANELS_AT_ONCE = 512
_SHARE = 8  # one cube in so many tells whether all of them are worth while
_ORDER = 2  # to which panels with kinks inside converge, in the number of points


def integrate_cubes(
    evaluate, cubes: int, dimension: int, scales, orders: tuple[int, int], most: int, trial: int
) -> tuple[np.ndarray, float]:
    """Integral (c,) over all `cubes` of dimension p, and a bound of its error relative to
    scales(integral) (c,).

    evaluate(owner (k,), lows (k, p), highs (k, p), nodes (q,)) gives the integrand (k, q^p, c)
    times the panels' volumes, at the points of a product rule with `nodes` in [0, 1] on parts of
    the cubes `owner`. orders: points of both rules along an axis. Ends at an error of `TOLERANCE` /
    2, after about `most` points, or when these will not do, as `trial` points tell, or a share of
    the cubes where these have more.
    """
    if cubes * orders[0] ** dimension > trial and cubes >= _SHARE**2:
        total, error = _of_a_share(evaluate, cubes, dimension, scales, orders, most)
        if not error <= 10 * TOLERANCE:
            return total, error
    owner = np.arange(cubes)
    lows, highs = np.zeros((cubes, dimension)), np.ones((cubes, dimension))
    fine, off = _rules(evaluate, owner, lows, highs, orders)
    points, before = cubes * orders[0] ** dimension, None
    while True:
        total = np.sum(fine, axis=0)
        errors = np.max(np.abs(off) / scales(total), axis=1)
        error = float(np.sum(errors))
        hopeless = before is not None and points > trial and not _left(before, (points, error), most) < 10 * TOLERANCE
        if error <= TOLERANCE / 2 or points > most or hopeless or not np.isfinite(error):
            return total, error
        before = points, error
        order = np.argsort(errors)
        settled = np.cumsum(errors[order]) <= TOLERANCE / 4
        kept, split = order[settled], order[~settled]
        parts = _halves(owner[split], lows[split], highs[split])
        new_fine, new_off = _rules(evaluate, *parts, orders)
        points += len(new_fine) * orders[0] ** dimension
        owner, lows, highs = (np.concatenate([old[kept], new]) for old, new in zip((owner, lows, highs), parts, strict=True))
        fine, off = np.concatenate([fine[kept], new_fine]), np.concatenate([off[kept], new_off])


def _of_a_share(evaluate, cubes, dimension: int, scales, orders, most: int) -> tuple[np.ndarray, float]:
    """Estimates of both from one cube in `_SHARE` alone, with as large a share of the points."""
    sample = np.arange(0, cubes, _SHARE)
    return integrate_cubes(
        lambda owner, *panels: _SHARE * evaluate(sample[owner], *panels),
        len(sample),
        dimension,
        scales,
        orders,
        most // _SHARE,
        trial=len(sample) * orders[0] ** dimension,
    )


def _left(before: tuple[int, float], now: tuple[int, float], most: int) -> float:
    """The error that will be left after `most` points, of which (points, error) are known `before`
    and `now`: it falls as it just did, or as with kinks, whichever is sooner."""
    (points_before, error_before), (points, error) = before, now
    seen = np.log(error_before / error) / np.log(points / points_before) if error > 0 else _ORDER
    return error * (points / most) ** max(_ORDER, seen)


def gauss(order: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    return (nodes + 1) / 2, weights / 2


def _lobatto(order: int) -> tuple[np.ndarray, np.ndarray]:
    """The same with both ends among the nodes."""
    polynomial = np.polynomial.legendre.Legendre.basis(order - 1)
    nodes = np.concatenate([[-1.0], np.sort(polynomial.deriv().roots()), [1.0]])
    return (nodes + 1) / 2, 1 / (order * (order - 1) * polynomial(nodes) ** 2)


def _rules(evaluate, owner, lows, highs, orders) -> tuple[np.ndarray, np.ndarray]:
    """Integrals (k, c) over panels by Gauss's rule, and their differences from Lobatto's."""
    results = []
    for nodes, weights in (gauss(orders[0]), _lobatto(orders[1])):
        product = functools.reduce(np.multiply.outer, [weights] * lows.shape[1]).ravel()
        blocks = []
        for start in range(0, len(owner), _PANELS_AT_ONCE):
            block = slice(start, start + _PANELS_AT_ONCE)
            blocks.append(np.einsum("kpc,p->kc", evaluate(owner[block], lows[block], highs[block], nodes), product))
        results.append(np.concatenate(blocks))
    return results[0], results[0] - results[1]


def _halves(owner, lows, highs):
    """Panels cut in two along every axis."""
    middle = (lows + highs) / 2
    for axis in range(lows.shape[1]):
        upper, lower = lows.copy(), highs.copy()
        upper[:, axis], lower[:, axis] = middle[:, axis], middle[:, axis]
        owner, middle = np.tile(owner, 2), np.tile(middle, (2, 1))
        lows, highs = np.concatenate([lows, upper]), np.concatenate([lower, highs])
    return owner, lows, highs

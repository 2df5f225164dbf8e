"""The convex problem of contact (`time_lagged.convex_problem`) for many bodies: Newton's method on
the host, with a Hessian whose graph is that of the contacts."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from ..runtime.compilation import jit
from ..solvers import sparse
from ..solvers.cones import Impulses
from ..time_lagged.convex_problem import Law, line_search
from ..time_lagged.theta_method import FreeMotion
from .planes import Planes


def minimised(
    free: FreeMotion, planes: Planes, law: Law, velocity, momentum_unit, tolerance: float, max_iterations: int
) -> Impulses:
    """As `convex_problem.minimise`, from the bodies' `velocity` (nb, 6 or 3), or from the free
    motion if that has the lower objective."""
    A = np.asarray(free.A)
    # entries that are next to nothing are left out of what is factorised: of unknowns in units in
    # which A has ones, whatever bodies weigh
    own = 1 / np.sqrt(np.diagonal(A, axis1=1, axis2=2))
    both = np.concatenate([own, np.zeros((1, own.shape[1]))])[np.minimum(planes.sides, len(A))].reshape(
        len(planes.sides), -1
    )
    change = np.asarray(velocity - free.velocity)
    if not float(_objective(free, planes, law, change)) < float(_objective(free, planes, law, 0 * change)):
        change = 0 * change
    iterations = 0
    F, gamma, residual = _gradient(free, planes, law, momentum_unit, change)
    while iterations == 0 or tolerance < float(residual) and iterations < max_iterations:
        links = both[:, :, None] * np.asarray(_links(free, planes, law, change)) * both[:, None]
        factors = _factorised(own[:, :, None] * A * own[:, None], planes, links)
        if factors is None:
            break
        step = -own * factors.solve(own * F, [np.zeros(link.rest.shape[:2]) for link in factors.links])[0]
        change = change + float(_length(free, planes, law, change, step)) * step
        F, gamma, residual = _gradient(free, planes, law, momentum_unit, change)
        iterations += 1
    return Impulses(gamma, residual, iterations, bool(residual <= tolerance))


def _factorised(A, planes: Planes, links) -> sparse.Sparse | None:
    """A and the `links` (c, 2 w, 2 w) of contacts between two moving bodies, or of one."""
    count, width, _ = A.shape
    moves, left = planes.sides < count, []
    for sides in ([0, 1], [0], [1]):
        numbers = np.flatnonzero(np.all(moves == np.isin([0, 1], sides), axis=1) & np.any(links, axis=(1, 2)))
        if not len(numbers):
            continue
        own = np.concatenate([np.arange(side * width, (side + 1) * width) for side in sides])
        none = np.zeros((len(numbers), 0), bool)
        left.append(sparse.Left(planes.sides[numbers][:, sides], none, none, links[numbers][:, own[:, None], own]))
    return sparse.factorised(A, left)


@jit
def _objective(free: FreeMotion, planes: Planes, law: Law, change):
    own = jnp.einsum("bi,bij,bj->", change, free.A, change) / 2
    return own + law.cost(planes.scaled(free.velocity) + planes.scaled(change))


@jit
def _gradient(free: FreeMotion, planes: Planes, law: Law, unit, change):
    """F (nb, 6 or 3), the impulses (c, 1 + k) and the residual ()."""
    gamma = law.impulses(planes.scaled(free.velocity) + planes.scaled(change))
    given = planes.momenta(gamma, len(free.A))
    largest = jnp.maximum(1.0, jnp.max(jnp.abs(given / unit)))
    F = jnp.einsum("bij,bj->bi", free.A, change) - given
    return F, gamma, jnp.max(jnp.abs(F / unit)) / largest


@jit
def _links(free: FreeMotion, planes: Planes, law: Law, change):
    """J^T G J (c, 2 w, 2 w), contact by contact."""
    slopes = law.slopes(planes.scaled(free.velocity) + planes.scaled(change))
    both = jnp.concatenate([planes.on[:, 0], planes.on[:, 1]], axis=2)
    return jnp.einsum("crv,crq,cqw->cvw", both, slopes, both)


@jit
def _length(free: FreeMotion, planes: Planes, law: Law, change, step):
    """The share () of a `step` at whose end the objective is least."""
    slope = jnp.vdot(step, jnp.einsum("bij,bj->bi", free.A, change))
    bend = jnp.vdot(step, jnp.einsum("bij,bj->bi", free.A, step))
    return line_search(slope, bend, planes.scaled(free.velocity) + planes.scaled(change), planes.scaled(step), law)

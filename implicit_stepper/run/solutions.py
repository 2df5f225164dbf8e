"""All solutions of one step of first order of a few contacts: friction can leave none but an
impulsive one, or several.

Each contact is open, sticks, or slips: at the poses after free flight, each choice for all contacts
is a linear problem, and its answer the start of Newton's method for the step itself. Of slips in
space the direction is found by iteration, from six.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shapes.arguments import positive

from ..constraints import detection, linear_rows
from ..constraints.linear_rows import Rows
from ..implicit_euler import energy, ncp
from ..implicit_euler.geometrically_implicit import GeometricallyImplicit
from ..model import bodies, loads
from ..model.bodies import State
from ..model.records import Contacts
from ..model.results import Result
from ..model.system import System, compliant
from ..radau.euler_steps import rounding
from ..runtime.compilation import jit
from ..runtime.errors import ForcesError
from ..scene.scene import Scene
from ..stepping.stepper import begin
from .arguments import of_kind
from .contact_states import law_of, states_of
from .fixed_run import checked

_MOST = 4  # contacts: 4 choices each in the plane, 8 in space
_TURNS = 50  # of the direction of a slip in space
_SAME = 1e-6  # of the largest velocities and impulses: solutions that differ by less are one
_CERTIFIED = 1e-10


class Solution(NamedTuple):
    """A solution of a step: the `states` (nc,) of its contacts, "open", "stick", "impending" or
    "slip"; the `state` after it and its `contacts`, as `GeometricallyImplicit` records them."""

    states: tuple[str, ...]
    state: State
    contacts: Contacts


def solutions(scene: Scene, h: float, start: State | None = None) -> tuple[Solution, ...]:
    """All certified solutions of the step of h [s] of `GeometricallyImplicit` from the start of a
    `scene`, or from `start`.

    Where friction is large against the lever of a contact there may be several, or only one of an
    impulse that stops the body (Painleve). In the plane all are found whose contacts do what they
    do at the poses after free flight, which for a small h are all; in space slips are searched from
    six directions. Raises `ValueError` for more than four contacts, compliant ones, those with a
    `mu_s`, and joints.
    """
    of_kind(scene, asked=("scene",))
    system, first = jax.device_put(scene.build())
    state, h = first if start is None else checked(start, system, first), positive("h", h)
    if system.joints or np.any(compliant(system)):
        raise ForcesError("`scene` has joints or compliant contacts: solutions are told of rigid contacts alone.")
    if system.sticks_more:
        raise ForcesError("`scene` has a contact with a `mu_s`: solutions are told of one coefficient of friction alone.")
    if system.contact_count > _MOST:
        raise ForcesError(f"`scene` has {system.contact_count} contacts: solutions are told of at most {_MOST}.")
    stepper, found = GeometricallyImplicit(), []
    memory = begin(stepper, system, state)
    closest, rows, frozen = _frozen(system, state, h)
    allowed = _CERTIFIED + rounding(system, state, h)
    for gamma in _choices(*map(np.asarray, frozen)):
        step, certified = _polished(stepper, system, state, memory, closest, rows, gamma, h)
        if step.result == Result.SOLVED and certified <= allowed and not any(_same(step, other) for other in found):
            found.append(step)
    return tuple(_solution(system, step, h) for step in found)


def _free(system: System, state: State, h) -> State:
    """Where the bodies are after a step without contact."""
    return bodies.moved(state, energy.free_velocity(system, state, loads.applied_momentum(system, state, h), h), h)


@functools.partial(jit, once=True)
def _frozen(system: System, state: State, h):
    """After the step without contact: closest points; rows; and for `_choices` N (n, n), r (nc, 1 +
    k), mu (nc,) and e (nc, k), with n = nc (1 + k)."""
    free = _free(system, state, h)
    closest = tuple(detection.cold_closest(system, free))
    here = detection.find(system, free, closest)
    rows = linear_rows.linear_rows(system, free, here.geometry)
    shape = len(rows.bodies), 1 + rows.e.shape[1]

    def answer(impulses):
        return rows.scaled(_gained(system, free, rows, impulses.reshape(shape))).reshape(-1)

    N = jax.vmap(answer)(jnp.eye(shape[0] * shape[1])).T
    r = rows.scaled(free.velocity).at[:, 0].set(here.geometry.psi / h)
    return closest, rows, (N, r, linear_rows.of_contacts(system, "mu"), rows.e)


def _gained(system: System, state: State, rows: Rows, impulses):
    """Velocities (nb, 6 or 3) by impulses (nc, 1 + k)."""
    inverse = jnp.linalg.inv(bodies.mass_matrices(system, state))
    return jnp.einsum("bij,bj->bi", inverse, rows.momenta(impulses, system.body_count))


def _choices(N, r, mu, e):
    """The impulses (nc, 1 + k) of all choices of what contacts do."""
    count, k = e.shape
    slips = [np.eye(k)[axis] * side for axis in range(k) for side in (1.0, -1.0)]
    kinds = [[None, np.zeros(k), *(slip for slip in slips if mu_c > 0 and np.any(slip * e_c != 0))] if mu_c > 0
             else [None, slips[0]] for mu_c, e_c in zip(mu, e, strict=True)]  # fmt: skip
    for choice in itertools.product(*kinds):
        directions = list(choice)
        for _ in range(_TURNS if k > 1 and any(d is not None and np.any(d) for d in directions) else 1):
            gamma = _linear(N, r, mu, e, directions)
            w = (N @ gamma.reshape(-1)).reshape(r.shape)[:, 1:] + r[:, 1:]
            for c, direction in enumerate(directions):
                size = np.linalg.norm(w[c])
                if direction is not None and np.any(direction) and k > 1 and size > 0:
                    directions[c] = w[c] / size
        if np.all(np.isfinite(gamma)):
            yield gamma


def _linear(N, r, mu, e, directions):
    """The impulses where contacts are open (None), stick (0), or slip in these `directions`."""
    count, k = e.shape
    n = 1 + k
    matrix, right = np.zeros_like(N), np.zeros(len(N))
    for c, direction in enumerate(directions):
        own = slice(c * n, (c + 1) * n)
        if direction is None:
            matrix[own, own] = np.eye(n)
            continue
        matrix[c * n], right[c * n] = N[c * n], -r[c, 0]
        for axis in range(k):
            row = c * n + 1 + axis
            if np.any(direction):
                matrix[row, row], matrix[row, c * n] = 1.0, mu[c] * direction[axis]
            elif e[c, axis] > 0:
                matrix[row], right[row] = N[row], -r[c, 1 + axis]
            else:
                matrix[row, row] = 1.0
    return np.linalg.lstsq(matrix, right, rcond=1e-13)[0].reshape(count, n)


@functools.partial(jit, static_argnums=0)
def _polished(stepper, system: System, state: State, memory, closest, rows: Rows, gamma, h):
    """The step by Newton's method from the impulses `gamma` (nc, 1 + k), and the largest violation
    of its certificate."""
    free = _free(system, state, h)
    velocity = free.velocity + _gained(system, free, rows, gamma)
    moved = bodies.moved(state, velocity, h)
    start = stepper.init(system, moved, detection.find(system, moved, closest).closest).history[0]
    sigma = jnp.linalg.norm(rows.scaled(velocity)[:, 1:], axis=1)
    for group, index in zip(system.groups, ncp.layout(system).unknowns, strict=False):
        n, numbers = group.pair.unknowns, np.array(group.numbers)
        own = jnp.concatenate([gamma[numbers], sigma[numbers, None]], axis=1)
        start = start.at[index[:, n : n + own.shape[1]]].set(own)
    begun = dataclasses.replace(memory, history=jnp.broadcast_to(start, memory.history.shape))
    step = stepper.step(system, state, begun, h)
    found = stepper.certificate(system, state, step.state, step.contacts, h)
    return step, jnp.max(jnp.stack([jnp.max(values, initial=0.0) for values in found.values()]))


def _same(one, other) -> bool:
    """Whether two steps are one solution."""
    pairs = [(step.state.velocity, step.contacts.normal_impulse, step.contacts.friction_impulse) for step in (one, other)]
    return all(
        np.max(np.abs(a - b), initial=0.0) <= _SAME * np.max(np.abs([a, b]), initial=0.0)
        for a, b in zip(*(map(np.asarray, parts) for parts in pairs), strict=True)
    )


def _solution(system: System, step, h: float) -> Solution:
    contacts = jax.tree.map(np.asarray, step.contacts)
    (states,) = states_of(system, law_of(system), jax.tree.map(lambda a: a[None], contacts), np.full(1, h))
    return Solution(tuple(map(str, states)), jax.tree.map(np.asarray, step.state), contacts)

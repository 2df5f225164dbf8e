"""The starts of a step that its warm start does not solve, in the order in which they are tried.

They run on the host, and most of them solve a step of their own (`attempts`).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator

import jax.numpy as jnp

from ..constraints.slipping import slipping
from ..model import bodies
from ..model.bodies import State
from ..model.records import StepResult
from ..model.results import Result
from ..model.system import System
from ..runtime.compilation import jit
from ..solvers.chord import newton_again
from ..solvers.newton import Solution, newton
from ..stepping.stepper import SHORTER, begin
from . import central_path, energy, initial_guess, ncp
from .attempts import SLIGHT_DAMPING, ending, limits, polished, solved_from, starting_at
from .central_path import NEAR, STARTS, end_of_path
from .cutting_planes import Cuts, cut_start, no_cuts, tilted
from .indeterminate import NEARLY, to_the_edges
from .open_contacts import renewed
from .step_root import Limits
from .sticking import pivoted, stopped, without_drilling

RUNGS = (
    "warm start",
    "cuts",
    "closest points",
    "central path",
    "free flight",
    "internal forces",
    "sticking",
    "tilted cuts",
    "patient cuts",
    "less damping",
    "dense",
)
# unknowns of a step: a dense matrix of all contacts takes a tenth of a second, and seconds
_LARGE, _LARGEST = 600, 2000
# Of closest points: whether those of contacts that press are renewed too where they stall. The
# first serves, but where the velocities that it begins from are far off.
_RENEWALS = (True, False, True, True)
_PROMISING = 1e-2  # max |F_i| of a stall that more iterations with less damping may solve
_HOPELESS = 1.0  # max |F_i| of a stall that says nothing about velocities
# of the edges of friction cones, and later: where many contacts are redundant there are hundreds
_NEAREST, _MOST = 8, 40
# times as many iterations for a point of a central path: its beginning takes more now and then
_POINT = 1.5
_PATIENCE = 5  # times as many iterations for the last rungs


def restarts(stepper, system: System, state: State, memory, h) -> Iterator[tuple[str, object]]:
    """Names out of `RUNGS` and memories for `stepper.step`, computed as they are asked for."""
    fresh = cuts = without_cuts(stepper, system, state, memory, h)
    if not system.groups:
        yield from _of_joints(stepper, system, state, memory, fresh, h)
        return

    large = memory.history.shape[1] > _LARGE and ncp.in_blocks(system, stepper.dense)
    slight, patient = (limits(stepper, patience=k, damping=SLIGHT_DAMPING) for k in (1, _PATIENCE))
    again = starting_at(memory, memory.history[0])

    def attempt(start, within: Limits) -> StepResult:
        return solved_from(stepper, system, state, start, within, h)

    soft = functools.cache(functools.partial(attempt, memory, slight))  # damping alone may hold the warm start back
    if large:  # a round of cuts takes as long as many a Jacobian
        yield "less damping", ending(memory, soft())
        if soft().stats.residual <= NEARLY:
            yield "less damping", ending(memory, attempt(again, patient))
    for number in range(stepper.rounds):
        start, cuts = _cut(stepper, system, state, memory, h, cuts)
        yield "cuts", start
        if number == 0:
            first = start, cuts
            stall = functools.cache(functools.partial(attempt, memory, limits(stepper)))
            points = _renewals(stepper, system, state, memory, stall, h)
            # points of bodies with edges jump where these lean on each other: one renewal serves
            edged = not all(group.pair.smooth for group in system.groups)
            yield from _named("closest points", itertools.islice(points, edged))
            if not large:
                yield "less damping", ending(memory, soft())
            if stall().stats.residual <= _PROMISING:  # only what is redundant is undecided there
                there = stall().memory.history[0]
                for end in _paths(stepper, system, state, memory, there, h, dense=not large, near=True):
                    yield "central path", ending(memory, end)
            promising = soft().stats.residual <= _PROMISING
            if promising and not (large and soft().stats.residual <= NEARLY):
                yield "less damping", ending(memory, attempt(again, patient))
            cold = dataclasses.replace(memory, history=begin(stepper, system, state).history)
            others = _renewals(stepper, system, state, memory, functools.partial(attempt, cold, limits(stepper)), h)
            yield from _named("closest points", itertools.chain(points, others))
            # no impulses, closest points without a hint
            deepest = begin(stepper, system, _moved(state, fresh.velocity, h)).history[0]
            yield from _from_far(stepper, system, state, memory, deepest, h, dense=not large)
            if large:  # an iteration costs as much as a small scene's step
                yield SHORTER, None
            yield "free flight", starting_at(memory, deepest)
            near = list(_edges(stepper, system, state, memory, stall(), h))
            yield from _named("internal forces", near[:_NEAREST])
    for start in _sticking(stepper, system, state, memory, *first, h):
        yield "sticking", start
    if not promising:  # heavy bodies on light ones: forces that damping holds back
        yield "less damping", ending(memory, attempt(again, patient))
    yield SHORTER, None
    if large:
        for end in _paths(stepper, system, state, memory, deepest, h, dense=True):
            yield "central path", ending(memory, end)
    yield from _named("internal forces", near[_NEAREST:_MOST])
    yield from _last(stepper, system, state, memory, fresh, h)


def _of_joints(stepper, system: System, state: State, memory, fresh: Cuts, h) -> Iterator[tuple[str, object]]:
    """Those of joints without contacts, with what holds them in `fresh`."""
    held = jnp.append(fresh.free, fresh.pulls)
    yield "free flight", starting_at(memory, held)
    for end in _paths(stepper, system, state, memory, held, h, dense=True):
        yield "central path", ending(memory, end)


def _last(stepper, system: System, state: State, memory, fresh: Cuts, h) -> Iterator[tuple[str, object]]:
    """Those that cost most, with the `fresh` cuts of free flight."""
    cuts = fresh
    for number in range(stepper.rounds):
        start, cuts = _cut(stepper, system, state, memory, h, tilted(cuts, h, number))
        yield "tilted cuts", start
    # nearly sharp edges on flat ground make Newton's method slow, but not diverge
    cuts, patient = fresh, limits(stepper, patience=_PATIENCE)
    for _ in range(stepper.rounds):
        start, cuts = _cut(stepper, system, state, memory, h, cuts)
        yield "patient cuts", ending(memory, solved_from(stepper, system, state, start, patient, h))
    slight = limits(stepper, patience=_PATIENCE, damping=SLIGHT_DAMPING)
    start, _ = _cut(stepper, system, state, memory, h, fresh)
    yield "less damping", ending(memory, solved_from(stepper, system, state, start, slight, h))
    # more contacts press on a body than blocks have slots for
    if ncp.in_blocks(system, stepper.dense):
        whole = dataclasses.replace(stepper, jacobian="dense")
        nothing = dataclasses.replace(memory, kept=ncp.nothing_kept(system, stepper.friction, dense=True))
        yield "dense", ending(memory, solved_from(whole, system, state, nothing, patient, h))


def _renewals(stepper, system: System, state: State, memory, stall: Callable, h) -> Iterator:
    """From where a start stalls, its end `stall()`, with closest points found anew for all contacts
    that do not press there, or whose points are what stalls."""
    end = stall()
    for stalled in _RENEWALS:
        end = _renewed(stepper, system, state, memory, end, stalled, h)
        yield ending(memory, end)
        if not end.stats.residual <= _HOPELESS:
            return


def _renewed(stepper, system: System, state: State, memory, end: StepResult, stalled: bool, h) -> StepResult:
    """The end of an attempt from where another stalls, its `end`, with closest points anew."""
    resting = begin(stepper, system, _moved(state, end.state.velocity, h)).history[0]
    start = _with_renewed(stepper, system, state, memory, end.memory.history[0], resting, stalled, h)
    return polished(stepper, system, state, start, h)


def _from_far(stepper, system: System, state: State, memory, resting, h, dense: bool) -> Iterator[tuple[str, object]]:
    """Central paths from the unknowns `resting` (N,), and the edges near the end of one that
    stalls: where redundant forces hold up one, all others end too."""
    edges = []
    for end in _paths(stepper, system, state, memory, resting, h, dense):
        yield "central path", ending(memory, end)
        if not edges:
            edges = list(_edges(stepper, system, state, memory, end, h))
            yield from _named("internal forces", edges[:_NEAREST])


def _paths(stepper, system: System, state: State, memory, begin_at, h, dense: bool, near: bool = False) -> Iterator:
    """The ends of central paths from the unknowns `begin_at` (N,), without impulses, or with their
    own `near` the step; by one `dense` matrix, or by blocks: cheaper, and they arrive less
    often."""
    if memory.history.shape[1] > _LARGEST:
        return
    form = dataclasses.replace(stepper, jacobian="dense") if dense else stepper

    def solve(z, kappa):
        return _on_path(form, system, state, memory, h, z, kappa)

    for kappa in (NEAR,) if near else STARTS:
        z, units = _seeded(stepper, system, state, memory, h, begin_at, None if near else kappa)
        end = end_of_path(solve, z, kappa)
        if end is not None:
            end = polished(stepper, system, state, starting_at(memory, end * units), h)
            # smoothing had chosen closest points of open contacts, which are not unique at its end
            again = end.result != Result.SOLVED and end.stats.residual <= _HOPELESS
            yield _renewed(stepper, system, state, memory, end, False, h) if again else end


def _edges(stepper, system: System, state: State, memory, end: StepResult, h) -> Iterator:
    """From where a start stalls, its `end`, with more patience: along null vectors to the edges of
    cones."""
    if end.stats.residual <= NEARLY:
        end = solved_from(stepper, system, state, ending(memory, end), limits(stepper, patience=_PATIENCE), h)
        units, *there = _linear(stepper, system, state, memory, end.memory.history[0], h)
        for start in to_the_edges(system, *there):
            yield starting_at(memory, start * units)


def _named(name: str, starts: Iterable) -> Iterator[tuple[str, object]]:
    """Each of the `starts` with its name, computed as it is asked for."""
    return ((name, start) for start in starts)


def _sticking(stepper, system: System, state: State, memory, start, cuts: Cuts, h) -> Iterator:
    """Contacts that stick where they press in the first `cuts`, or where bodies pivot near their
    `start`; there, with friction as it is without drilling."""
    if memory.history.shape[1] <= _LARGEST:
        yield _stopped(stepper, system, state, memory, h, cuts)
    start, moved = _pivoted(stepper, system, state, memory, start.history[0], 0.0, h)
    if moved:
        yield start
        free = without_drilling(system)
        if free is not None:
            stuck = solved_from(stepper, free, state, start, limits(stepper), h).memory
            yield _pivoted(stepper, system, state, memory, stuck.history[0], 1.0, h)[0]


@functools.partial(jit, static_argnums=0, apart=True)
def _on_path(stepper, system: System, state: State, memory, h, z, kappa) -> Solution:
    """The point of the central path at `kappa` (), from z (N,), dimensionless."""
    problem = dataclasses.replace(stepper.problem(system, state, memory, h), kappa=kappa)
    within = {"tolerance": central_path.tolerance(kappa), "max_iterations": round(_POINT * stepper.max_iterations)}
    within["damping"] = jnp.minimum(stepper.damping, central_path.damping(kappa))
    if not ncp.in_blocks(system, problem.dense):
        return newton(functools.partial(ncp.linearize, problem), z, **within)
    forms = functools.partial(ncp.residual, problem), functools.partial(ncp.system_of, problem)
    found = newton_again(*forms, z, ncp.nothing_kept(system, stepper.friction), **within)
    return dataclasses.replace(found, kept=None)


@functools.partial(jit, static_argnums=0, apart=True)
def _seeded(stepper, system: System, state: State, memory, h, unknowns, kappa):
    """`central_path.seeded`, and the units (N,) of the unknowns."""
    problem = stepper.problem(system, state, memory, h)
    return central_path.seeded(problem, unknowns, kappa), ncp.unknown_scale(problem)


@functools.partial(jit, static_argnums=0, once=True, apart=True)
def _linear(stepper, system: System, state: State, memory, unknowns, h):
    """Units (N,) of the `unknowns` (N,) of the step from `memory`, the unknowns in them, F (N,) and
    its Jacobian there."""
    problem = stepper.problem(system, state, memory, h)
    units = ncp.unknown_scale(problem)
    return units, unknowns / units, *ncp.linearize(problem, unknowns / units)


@functools.partial(jit, static_argnums=0, apart=True)
def without_cuts(stepper, system: System, state: State, memory, h) -> Cuts:
    """Where rounds of cuts begin: free flight, in which joints hold."""
    problem = stepper.problem(system, state, memory, h)
    free, pulls = energy.free_velocity(system, state, problem.momentum, h), jnp.zeros(0)
    if system.joints:
        alone = dataclasses.replace(system, groups=(), contact_names=())
        velocity, unknowns = slipping(alone, state, free, h)
        start = jnp.concatenate([own.reshape(-1) for own in (velocity, *unknowns)])
        end = stepper.step(alone, state, starting_at(stepper.init(alone, state, ()), start), h)
        free, pulls = end.state.velocity, end.memory.history[0, free.size :]
    return no_cuts(problem, initial_guess.long_forms(problem, memory.history[0]), free, pulls, stepper.rounds)


@functools.partial(jit, static_argnums=0, apart=True)
def _cut(stepper, system: System, state: State, memory, h, cuts: Cuts):
    """One more round of planes: a memory whose every continuation is the start found, and the
    cuts."""
    problem = stepper.problem(system, state, memory, h)
    z, cuts = cut_start(problem, cuts, stepper.sweeps)
    return starting_at(memory, z * ncp.unknown_scale(problem)), cuts


@functools.partial(jit, static_argnums=0, apart=True)
def _with_renewed(stepper, system: System, state: State, memory, unknowns, resting, stalled, h):
    """A memory that starts from `open_contacts.renewed`."""
    problem = stepper.problem(system, state, memory, h)
    return starting_at(memory, renewed(problem, unknowns, resting, stalled))


@functools.partial(jit, static_argnums=0, apart=True)
def _stopped(stepper, system: System, state: State, memory, h, cuts: Cuts):
    """A memory that starts from `sticking.stopped`."""
    return starting_at(memory, stopped(stepper.problem(system, state, memory, h), cuts))


@functools.partial(jit, static_argnums=0, apart=True)
def _pivoted(stepper, system: System, state: State, memory, unknowns, rubs, h):
    """A memory that starts from `sticking.pivoted` of the start `unknowns` (N,), and whether that
    is another one."""
    start, moved = pivoted(stepper.problem(system, state, memory, h), unknowns, rubs)
    return starting_at(memory, start), moved


@jit
def _moved(state: State, velocity, h) -> State:
    """`bodies.moved`, as a program that has a name of its own and is kept under it."""
    return bodies.moved(state, velocity, h)

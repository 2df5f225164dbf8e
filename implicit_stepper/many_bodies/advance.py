"""A certified step of many bodies: the pairs of the step, its starts in turn, the checks of its
root; or two half steps."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import numpy as np

from ..constraints.conditions import places
from ..implicit_euler.ncp import round_off
from ..model.bodies import State
from ..model.records import OF_JOINTS, no_contacts
from ..model.results import Result
from ..model.system import System
from ..runtime.progress import doing
from . import arc_length, islands, sticking
from .catalog import Catalog
from .certificate import certificate, worst_of
from .host_newton import Found, again, centred, newton, proximal_points, short_path
from .passages import passed
from .records import joints_recorded, recorded
from .standing import allowed, remembered, repeated, stilled
from .step import (
    MORE_PAIRS,
    Done,
    KeptDerivative,
    Known,
    Memory,
    Posed,
    end_state,
    may_touch,
    missed_by,
    posed,
)
from .sweeps import begun, swept

# rounds of sweeps, and how many each has
_ROUNDS = {f"round {number + 1}": sweeps for number, sweeps in enumerate((100, 400, 1600))}
HALVINGS = 6
# of the certificate's tolerance: max |F_i| of a root that no correction comes nearer to, and of one
# that no start does
_ENOUGH, _AT_LAST = 0.1, 1.0
_ALONE = 0.9  # of the contacts of islands that are lost: the one that has so many is lost alone too
_STANDS = 1e-6  # largest velocity () of bodies that stand
_NEAR = 1e-2  # max |F_i| up to which a short path may lead from where a start stalled
# bodies with faces: a whole path takes fewer Jacobians than a short one
RUNGS = ("warm start", "proximal points", "central path", "short path", *_ROUNDS)
# of so many bodies the first two, and of each half, quarter and eighth of a step, come before all
# others, and solve most; a whole path of a thousand did not end in half an hour, so that a short
# one comes before it
_FIRST_RUNGS, _FIRST_HALVINGS, _LARGE = RUNGS[:2], 3, 100
_LARGE_RUNGS = (*RUNGS[:2], "short path", "central path", *_ROUNDS)


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a `GeometricallyImplicit` says of a step, and the certificate's tolerance."""

    friction: str
    tolerance: float
    max_iterations: int
    certificate_tolerance: float


def advance(catalog: Catalog, system: System, state: State, memory: Memory, h: float, settings: Settings) -> Done:
    """The step of h [s] from `state`, or up to 64 shorter ones in its place. Never raises: see
    `Done.result`. Of many bodies shorter steps are tried before starts that take more iterations
    than these."""
    last = repeated(state, memory, h)
    if last is not None:
        return last
    large = system.body_count >= _LARGE
    if large:
        done = _halved(catalog, system, state, memory, h, settings, _FIRST_RUNGS, _FIRST_HALVINGS)
        if done.result == Result.SOLVED:
            return done
    rungs = _LARGE_RUNGS if large else RUNGS
    if not all(places(group, state.velocity.shape[1]) for group in system.joints):
        rungs = tuple(name for name in rungs if name not in _ROUNDS)  # sweeps know no such joints
    return _halved(catalog, system, state, memory, h, settings, rungs, HALVINGS)


def _halved(
    catalog: Catalog, system: System, state: State, memory: Memory, h: float, settings: Settings, rungs, left: int
) -> Done:
    """`advance` by the starts `rungs`, with steps halved at most `left` times."""
    done = _whole(catalog, system, state, memory, h, settings, rungs)
    if done.result == Result.SOLVED or left == 0:
        return done
    with doing(f"two steps of {h / 2:.3g} s at t = {float(state.time):.6g} s"):
        first = _halved(catalog, system, state, memory, h / 2, settings, rungs, left - 1)
        if first.result != Result.SOLVED:
            return dataclasses.replace(first, residuals=done.residuals | first.residuals)
        half = first.memory._replace(held=np.sort(first.pairs, axis=1))
        second = _halved(catalog, system, first.state, half, h / 2, settings, rungs, left - 1)
    if second.result != Result.SOLVED:
        return dataclasses.replace(second, residuals=done.residuals | second.residuals)
    return joined(len(catalog.body), first, second, done.iterations)


def _whole(catalog: Catalog, system: System, state: State, memory: Memory, h: float, settings: Settings, rungs) -> Done:
    """`advance` without shorter steps, by the starts `rungs`."""
    pairs = np.concatenate([may_touch(catalog, system, state, h), memory.held])
    pairs = np.unique(pairs, axis=0)
    total = 0
    for _ in range(MORE_PAIRS):
        problem = posed(catalog, system, state, memory, h, pairs, settings.friction)
        again = memory._replace(known=problem.known)
        pose = functools.partial(posed, catalog, system, state, again, h, friction=settings.friction)
        solve, allowed = functools.partial(_solved_by_islands, settings=settings, rungs=rungs), _tolerance(problem, settings)
        held, found, rung, residuals, coefficients = sticking.solved(catalog, pose, problem, allowed, solve)
        total += found.iterations
        if found.converged:
            of_root = found.point, found.residual, found.kept
            point, residual = stilled(held.problem, *of_root, allowed)
            found = found._replace(point=point, residual=residual)
        end = end_state(system, state, found.point.V * problem.problem.velocity, h)
        missed = missed_by(catalog, system, state, end, h, pairs) if found.converged else pairs[:0]
        if not len(missed):
            break
        pairs = np.unique(np.concatenate([pairs, missed]), axis=0)
    else:
        found = found._replace(converged=False)
    unknowns = [z * slots.unknowns[: len(z)] for slots, z in zip(problem.problem.slots, found.point.contacts, strict=True)]
    of_contacts, pulls = unknowns[: len(problem.known)], tuple(unknowns[len(problem.known) :])
    parts = [
        (slots, recorded(catalog, problem.problem, slots, known, own, end))
        for slots, known, own in zip(problem.problem.slots, problem.known, of_contacts, strict=False)
    ]
    joints, parts = joints_recorded(coefficients.of_joints(system), end, pulls), coefficients.recorded(parts)
    violations = certificate(system, state, end, parts, joints, problem.problem.step)
    violations |= coefficients.violations(float(np.sqrt(system.acceleration * system.length)))
    records = [record for _, record in parts]
    result, through = Result.SOLVED, None
    if not found.converged:
        result = Result.NOT_CONVERGED
    elif not worst_of(violations) <= settings.certificate_tolerance:
        result = Result.NOT_CERTIFIED
    else:
        through = passed(catalog, problem, [record.normal for record in records], end)
        result = Result.PASSED if through else result
    contacts = jax.tree.map(lambda *own: np.concatenate(own), *(records or [no_contacts(system.dimension)]))
    contacts = dataclasses.replace(contacts, joints=joints)
    own_pairs = np.concatenate([*problem.pairs, np.zeros((0, 2), int)])
    known = tuple(
        Known(k.pairs, own, record.tangent, record.normal, record.gap)
        for (_, record), k, own in zip(parts, problem.known, of_contacts, strict=True)
    )
    kept = None if found.kept is None else KeptDerivative(problem.pairs, h, found.kept)
    memory = Memory(known, memory.held[:0], pulls, kept)
    done = Done(end, memory, own_pairs, contacts, violations, result, total, found.residual, rung, 1, residuals)
    done = dataclasses.replace(done, passed=through)
    return remembered(system, state, done, h) if result == Result.SOLVED else done


def _solved_by_islands(pose: Callable, problem: Posed, settings: Settings, rungs) -> tuple[Found, int, dict[str, float]]:
    """`_solved`, where islands that stand are left as they are, and those that are
    lost from the last root are solved apart, if there is more than one. `pose(pairs)` poses a step
    in which only these may touch."""
    of = islands.islands(problem.problem)
    if of is None:
        return _solved(problem, settings, rungs)
    tolerance, first = _tolerance(problem, settings), rungs[:1]
    at, sizes = islands.residuals(problem.problem, problem.start, of)
    moves = np.flatnonzero(~(sizes <= allowed(of.smooth, of.moving(at.V)) * tolerance))
    warm = functools.partial(_solved, settings=settings, rungs=first)
    if 0 < len(moves) < of.count:
        found, rung, told = islands.without_others(problem, of, moves, at, pose, warm)
    else:
        found, rung, told = warm(problem)
    if found.converged:
        return found, rung, told
    _, sizes = islands.residuals(problem.problem, found.point, of)
    lost = np.flatnonzero(~(sizes <= tolerance))
    contacts = np.bincount(np.concatenate([*of.contacts, lost[:0]]), minlength=of.count)[lost]
    if len(lost) < 2 or np.max(contacts) > _ALONE * np.sum(contacts):
        return _solved(problem, settings, rungs, (found, told))
    every = functools.partial(_solved, settings=settings, rungs=rungs)
    for number in lost:
        one, own_rung, own = islands.without_others(problem, of, [number], found.point, pose, every)
        found, rung = one._replace(iterations=found.iterations + one.iterations), max(rung, own_rung)
        told = {name: max(own.get(name, 0.0), told.get(name, 0.0)) for name in (told | own)}
        if not one.converged:
            break
    return found, rung, told


def _tolerance(problem: Posed, settings: Settings) -> float:
    """Of max |F_i|, with what rounding leaves of it."""
    return settings.tolerance + float(round_off(problem.problem.bare))


def _solved(problem: Posed, settings: Settings, rungs, last: tuple | None = None) -> tuple[Found, int, dict[str, float]]:
    """The root from the first of the starts `rungs` that leads to it, or the best of all; its rung;
    the residuals of all by name. The first one may have been tried, which gave what was found
    `last` and these residuals."""
    tolerance = _tolerance(problem, settings)
    best, residuals = last or (None, {})
    rung, iterations = 0, 0 if last is None else best.iterations
    enough, at_last = (share * settings.certificate_tolerance for share in (_ENOUGH, _AT_LAST))
    start, search, most = problem.start, None, settings.max_iterations
    for name in (rungs if problem.problem.slots else rungs[:1])[len(residuals) :]:
        if name == "proximal points":
            with doing(name):
                found = proximal_points(problem.problem, best.point, tolerance, at_last)
        elif name == "short path":
            if not best.residual <= _NEAR:
                continue
            found = short_path(problem.problem, best.point, tolerance, most)
        elif name == "central path":
            with doing(name):
                found = arc_length.followed(problem.problem, problem.start, tolerance, most)
        else:
            if name in _ROUNDS:
                start, search = swept(problem.problem, start, search or begun(problem.problem, start), _ROUNDS[name])
            warm, found = name == "warm start", None
            if warm and problem.kept is not None:
                found = again(problem.problem, start, tolerance, enough, problem.kept)
            found = found or newton(problem.problem, start, tolerance, most, mends=warm, enough=enough)
        iterations += found.iterations
        residuals = residuals | {name: found.residual}
        if best is None or found.residual < best.residual:
            best, rung = found, RUNGS.index(name)
        if name != "warm start" and best.residual <= at_last:
            best = best._replace(converged=True)  # rounding hides the root: what the certificate may allow is one
        if best.converged:
            break
    best = best._replace(iterations=iterations)
    if best.converged and name != "central path" and _comes_to_stand(problem, best):
        best = centred(problem.problem, best, tolerance, most)
    return best, rung, residuals


def _comes_to_stand(problem: Posed, found: Found) -> bool:
    """Whether bodies with faces stand at the end of a step that `found` more than the root of the
    last one. Of the forces that may hold them those far from the edges of their cones are the best
    ones to begin from when something else comes."""
    slots, start = problem.problem.slots, problem.start
    if found.iterations <= 1 or not any(own.touching and not own.smooth for own in slots):
        return False
    contacts = [(own, z) for own, z in zip(slots, start.contacts, strict=True) if own.touching]
    pressed = any(np.any(z[:, own.closest :]) for own, z in contacts)
    # what touches nothing, as bodies of other islands, says nothing of these
    touch = np.concatenate([own.movers(len(z)).reshape(-1) for own, z in contacts])
    before, after = (np.max(np.abs(at.V[touch]), initial=0.0) for at in (start, found.point))
    return not (pressed and before <= _STANDS) and bool(after <= _STANDS)


def joined(parts: int, first: Done, second: Done, iterations: int) -> Done:
    """Two half steps as one: impulses are those of both, violations the larger ones."""
    keys, late = (np.sort(done.pairs, axis=1) @ np.array([parts, 1]) for done in (first, second))
    _, there, here = np.intersect1d(keys, late, assume_unique=True, return_indices=True)
    joints = second.contacts.joints
    if joints is not None:
        sums = {name: getattr(first.contacts.joints, name) + getattr(joints, name) for name in OF_JOINTS}
        joints = dataclasses.replace(joints, **sums)
    arrays = {name: np.array(getattr(second.contacts, name)) for name in ("normal_impulse", "friction_impulse", "gap_start")}
    for name, values in arrays.items():
        before = getattr(first.contacts, name)[there]
        values[here] = before if name == "gap_start" else values[here] + before
    worst = {
        name: np.array([max(np.max(done.certificate.get(name, 0.0), initial=0.0) for done in (first, second))])
        for name in first.certificate | second.certificate  # of half a step in which nothing was near
    }
    return dataclasses.replace(
        second,
        contacts=dataclasses.replace(second.contacts, joints=joints, **arrays),
        certificate=worst,
        iterations=iterations + first.iterations + second.iterations,
        residual=max(first.residual, second.residual),
        rung=len(RUNGS),
        substeps=first.substeps + second.substeps,
        residuals=first.residuals | second.residuals,
    )

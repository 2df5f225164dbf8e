"""A run of many bodies in steps of fixed h: pairs come and go, and what touched once has its place
in the trajectory."""

from __future__ import annotations

import dataclasses
import functools

import jax
import numpy as np

from ..constraints.restitution import TOUCHING
from ..constraints.turn_violations import remedy
from ..constraints.violations import described
from ..many_bodies import lagged_steps
from ..many_bodies.advance import Settings, advance
from ..many_bodies.bouncing import Bouncing
from ..many_bodies.catalog import Catalog, catalog
from ..many_bodies.recalled import recalled
from ..many_bodies.records import no_joints
from ..many_bodies.step import Done, Known, Memory, lasting, may_touch, no_memory, posed
from ..model.bodies import State
from ..model.records import Contacts, Stats, no_contacts
from ..model.results import Interrupted, Result, StepError
from ..model.system import System
from ..radau.euler_steps import or_rounded
from ..radau.events import Event
from ..runtime.errors import ForcesError
from ..runtime.progress import Progress
from ..scene.scene import Scene
from .checkpoint import Checkpoint, CheckpointError, digest, read
from .jumps import without_value
from .memory import refuse_too_large
from .overlaps import DEEPEST, ROUNDED, tell
from .trajectory import Trajectory, assembled

_TOUCHED = 3  # contacts of a body in a pile, in the mean


def law_of_found(scene: Scene, run: Trajectory) -> tuple[np.ndarray, np.ndarray]:
    """mu (nc,) and the semi-axes (nc, k) of friction of the contacts of a `run` of `scene` that
    found its pairs. Raises `ValueError` where the scene lets others touch."""
    known = catalog(scene.build(contacts=False)[0], scene.body_parts(), scene.body_pairs())
    numbers = dict(zip(known.names, known.body, strict=True))
    pairs = np.array([[numbers.get(name, 0) for name in pair] for pair in run.contact_names], int).reshape(-1, 2)
    laws, told = scene.body_pairs().laws_of(pairs)[0], [numbers.keys() >= set(pair) for pair in run.contact_names]
    if not all(told) or np.any(laws < 0):
        raise ForcesError(
            f"`trajectory` has {len(pairs)} contacts, and `scene` {scene.pair_count()}, of which some are others: give the "
            "scene that it is of."
        )
    return known.laws.mu[laws], known.laws.e[laws]


def run(
    scene, stepper, system: System, state: State, start, steps, tolerance, most_pairs, on_failure, progress, duration,
    asked, files,
) -> Trajectory:  # fmt: skip
    """Steps of the lengths `steps` (h, how many, the length of the last or 0) from `state`, with
    the contacts of `start` where that is a trajectory, certified within `tolerance`, as `simulate`
    describes them; `asked`, what its checkpoints are told from others by, but for the pairs."""
    known, (path, every, resume) = catalog(system, scene.body_parts(), scene.body_pairs()), files
    h, whole, rest = steps
    state, sizes = jax.tree.map(np.asarray, state), [h] * whole + [rest] * (rest > 0)
    begun = _recalled(known, system, state, h, start) if isinstance(start, Trajectory) else no_memory()
    asked = asked | {"contacts": digest(*known.marks()), "contacts of the start": digest(jax.tree.leaves(begun), ())}
    file, kept = Checkpoint(path, every, asked), None if resume is None else read(resume, asked)
    walk = Bouncing(_step_of(stepper, tolerance), known, system, tolerance, most_pairs)
    done, lengths, memory = ([], [], begun) if kept is None else (kept["done"], kept["lengths"], kept["memory"])
    first = 0 if kept is None else kept["steps"]
    at, failed, stopped, unwritten = done[-1].state if done else state, None, False, None
    with Progress(len(sizes), "steps", progress) as told:
        try:
            if not done:
                near = _check_start(known, system, state, h)
                refuse_too_large(system, max(sum(len(own.pairs) for own in near), _TOUCHED * system.body_count), len(sizes))
                memory = memory if memory.known else memory._replace(known=near)
                hit = _due(walk, system, state, start)
                if hit is not None and hit.result != Result.SOLVED:
                    failed, sizes = (hit, state, 0.0), []
                elif hit is not None:
                    done, lengths, at, memory = [dataclasses.replace(hit, memory=no_memory())], [0.0], hit.state, hit.memory
            told.to(first)
            for number, size in enumerate(sizes[first:], start=first + 1):
                parts = list(walk.steps(at, memory, size, first=number == 1 and not isinstance(start, Trajectory)))
                last, _ = parts[-1]
                if last.result != Result.SOLVED:  # of a landing without its rebound nothing is kept
                    failed = last, at, size
                    break
                at, memory = last.state, last.memory
                done += [dataclasses.replace(step, memory=no_memory()) for step, _ in parts]  # only the last one's is of use
                lengths += [length for _, length in parts]
                told.to(number)
                file.offer(functools.partial(_written, done, lengths, memory, number))
        except KeyboardInterrupt:
            stopped = True
        except CheckpointError as error:
            unwritten = error
    if not done and stopped:
        raise Interrupted(trajectory=None, state=state, end=float(state.time) + duration)
    trajectory = _trajectory(known, system, state, done, h if set(lengths) <= {h} else np.array(lengths))
    if stopped:
        raise Interrupted(trajectory=trajectory, state=trajectory.end, end=float(state.time) + duration)
    if unwritten is not None:
        raise CheckpointError(str(unwritten), trajectory=trajectory, state=trajectory.end) from unwritten
    if failed is not None and on_failure == "raise":
        raise _error(known, system, *failed, tolerance, trajectory)
    return trajectory


def _written(done: list[Done], lengths: list[float], memory: Memory, number: int) -> dict:
    """A checkpoint after so many steps."""
    return {"done": done, "lengths": lengths, "memory": lasting(memory), "steps": number}


def _recalled(catalog: Catalog, system: System, state: State, h: float, start: Trajectory) -> Memory:
    """What a step of h [s] from `state`, the end of `start`, begins with: the contacts of the last
    step that `start` has, with the same forces."""
    last = np.broadcast_to(start.h, len(start))[-1:]
    if not np.all(last > 0) or not len(last):  # no step, or an impact
        return no_memory()
    numbers = {name: part for part, name in enumerate(catalog.names)}
    known = [k for k, pair in enumerate(start.contact_names) if all(name in numbers for name in pair)]
    pairs = np.array([[numbers[name] for name in start.contact_names[k]] for k in known], int).reshape(-1, 2)
    contacts = dataclasses.replace(start.contacts, stages=None, landing=None, joints=None, mu=None)
    contacts = jax.tree.map(lambda a: a[-1, known], contacts)
    names = ("normal_impulse", "friction_impulse")
    contacts = dataclasses.replace(contacts, **{name: getattr(contacts, name) * (h / last) for name in names})
    return recalled(catalog, system, state, h, pairs, contacts)


def _due(walk: Bouncing, system: System, state: State, start) -> Done | None:
    """The impact in `state` of what landed in the last step of `start`, of which it is the end, and
    has not rebounded yet, as that was cut off, solved or not; None where there is none."""
    if not isinstance(start, Trajectory) or not len(start) or not np.any(walk.catalog.laws.restitution):
        return None
    if not np.any(start.contacts.gap[-1] <= TOUCHING * float(system.length)):  # NaN of pairs far apart
        return None
    h, before = float(np.broadcast_to(start.h, len(start))[-1]), start[:-1]
    if h == 0:  # an impact
        return None
    return walk.due(before.end, _recalled(walk.catalog, system, before.end, h, before), state, h)


def _step_of(stepper, tolerance):
    """The function of (catalog, system, state, memory, h) that takes a step."""
    if stepper.can.normals_at_start:  # contacts are found before the step
        return functools.partial(lagged_steps.advance, stepper, tolerance)
    settings = Settings(stepper.friction, stepper.tolerance, stepper.max_iterations, tolerance)
    return functools.partial(advance, settings=settings)


def _check_start(catalog: Catalog, system: System, state: State, h: float) -> tuple[Known, ...]:
    """The contacts, at rest, of pairs that may touch in a first step of h [s]. Warns of rigid ones
    that overlap before it. Raises `ValueError` where bodies do by more than half of the way into
    one, with all their pairs."""
    begun = posed(catalog, system, state, no_memory(), h, may_touch(catalog, system, state, h), "projection")
    if not begun.pairs:
        return begun.known
    pairs, laws = np.concatenate(begun.pairs), np.concatenate(begun.laws)
    depth = -np.concatenate([known.gaps for known in begun.known])
    (first, second), rigid = pairs.T, catalog.laws.compliance[laws] == 0
    inner, outer = catalog.inner, catalog.outer
    room = np.minimum(*(np.where(np.isfinite(outer[side]), inner[side], np.inf) for side in (first, second)))
    names = [" and ".join(catalog.names[part] for part in pair) for pair in pairs.tolist()]
    tell(names, np.where(rigid, depth, 0.0), DEEPEST * room, ROUNDED * float(system.length), h)
    return begun.known


def _trajectory(catalog: Catalog, system: System, start: State, done: list[Done], h) -> Trajectory:
    """The trajectory of the steps; its contacts are the pairs that pressed at least once, whose
    arrays are NaN, and impulses zero, in steps in which they could not have touched."""
    parts = len(catalog.body)
    pressed = [step.pairs[step.contacts.normal_impulse > 0] for step in done]
    pairs = np.concatenate([*pressed, np.zeros((0, 2), int)])
    # as they first touched
    pairs = pairs[np.sort(np.unique(pairs @ np.array([parts, 1]), return_index=True)[1])]
    keys = pairs @ np.array([parts, 1])
    order = np.argsort(keys)
    widths = [step.contacts for step in done if len(step.pairs)]
    empty = widths[0] if widths else no_contacts(system.dimension)

    def filled(name: str) -> np.ndarray:
        shape = getattr(empty, name).shape[1:]
        nothing = 0.0 if name.endswith("impulse") else np.nan
        values = np.full((len(done), len(pairs), *shape), nothing)
        for row, step in zip(values, done, strict=True):
            own = step.pairs @ np.array([parts, 1])
            known = np.isin(own, keys)
            if not np.any(known):  # a step without pairs has no widths either
                continue
            row[order[np.searchsorted(keys, own[known], sorter=order)]] = getattr(step.contacts, name)[known]
        return values

    fields = [f.name for f in dataclasses.fields(Contacts) if f.name != "joints" and getattr(empty, f.name) is not None]
    names = tuple((catalog.names[a], catalog.names[b]) for a, b in pairs.tolist())
    states = jax.tree.map(lambda *own: np.stack(own), start, *(step.state for step in done))
    stats = Stats(*(np.array([getattr(step, f.name) for step in done]) for f in dataclasses.fields(Stats)))
    certificates = {
        name: np.array([[np.max(step.certificate.get(name, np.zeros(0)), initial=0.0)] for step in done]).reshape(-1, 1)
        for name in dict.fromkeys(name for step in done for name in step.certificate)
    }
    joints = no_joints(system, start)
    if done:
        joints = jax.tree.map(lambda *own: np.stack(own), *(step.contacts.joints for step in done))
    contacts = Contacts(**{name: filled(name) for name in fields}, joints=joints)
    system, events = dataclasses.replace(system, contact_names=names), []
    for hit in done:
        if hit.landed is not None:  # an impact
            met = hit.landed & (hit.contacts.normal_impulse > 0)
            numbers = order[np.searchsorted(keys, hit.pairs[met] @ np.array([parts, 1]), sorter=order)]
            events += [Event(float(hit.state.time), int(number), "closes") for number in numbers]
    run = assembled(system, states, contacts, stats, certificates, h, events=tuple(events))
    springs = ("the springs of compliant contacts",) if np.any(catalog.laws.compliance > 0) else ()
    return dataclasses.replace(run, left_out=(*run.left_out, *springs))


def _error(catalog: Catalog, system: System, failed: Done, state: State, h: float, tolerance, trajectory) -> StepError:
    """The exception for a step that no start solved: when, which contact, by how much, what was
    tried, what to try."""
    time, result = float(state.time) + h, or_rounded(failed.result, system, state, h)
    violations = {name: v for name, v in failed.certificate.items() if v.size and not np.max(v) <= tolerance}
    names = tuple(tuple(catalog.names[part] for part in pair) for pair in failed.pairs.tolist())
    of_failed = dataclasses.replace(system, contact_names=names)
    tried = ", ".join(f"{name} {residual:.1e}" for name, residual in failed.residuals.items())
    why = result.message + remedy(violations)
    if failed.passed is not None:
        why += f" They are {' and '.join(catalog.names[part] for part in failed.passed)}."
    if result == Result.TOO_MANY_PAIRS:
        why = f"{len(failed.pairs)} pairs: {why}"
    if "impact" in failed.residuals and "energy" in violations and result != Result.ROUNDED:
        why = (
            "Newton's law of impact with friction raises energy there, as it can where bodies are wedged: take a smaller e."
        )
    why = without_value(system, state, [h]) or why
    message = (
        f"the step to t = {time:.9g} s failed: {why} Least solver residual of the starts tried: {tried or 'none'}; "
        f"violated after the last (allowed {tolerance:.0e}): {described(of_failed, violations) or 'nothing'}. The "
        f"{len(trajectory)} steps before it are in the error's `trajectory`, the state before it in its `state`."
    )
    return StepError(
        message, result=result, time=time, trajectory=trajectory, state=state,
        certificate={name: float(np.max(v)) for name, v in failed.certificate.items() if v.size},
    )  # fmt: skip

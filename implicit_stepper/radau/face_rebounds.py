"""Rebounds of bodies that meet in edges and faces: where the impulse acts.

Every point of a face of contact is closest. Newton's law is asked for at all of them,

    P(x) >= 0   _|_   u(x) = v_n+(x) + e v_n-(x) >= 0

and u is linear along a face, so that one impulse at the point a, its centre of pressure, does: with
u(a) = 0, and u >= 0 at all others. Within a face u vanishes: bodies keep it by the velocities V+ +
e V-, that is these tilt them about no axis which a line or a face forbids. At the rim of a face u
may rise from a into the face. Those are the equations for a, solved by Newton's method with
`impact.meet` at points that are moved along the face and back onto it, where closest points are.
Where bodies strike elsewhere than at the closest points, as a block that rocks, they begin there.
Of Poisson's law a is that of compression, where e = 0: without further impulses, expansion gives
every point e times what compression gave it. With friction that may press the body into the face
beside a; then the impulse acts at the first point towards there after which nothing approaches. So
it does where Newton's method finds no centre.

That bodies meet nowhere else is looked at from collision detection, by the gaps a moment later with
V+, and with V+ + e V-. What this does not find is refused. Steps of given length leave a speed of
order h where a body pivots; e times it may be left.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..constraints import kinematics
from ..constraints.restitution import SLIGHT, restitutions
from ..model import rotation
from ..model.bodies import State
from ..model.system import System, in_user_order, take
from ..runtime.compilation import jit
from .elsewhere import apart, enters_at, meets_again, moved_along, strikes_elsewhere, tilts_of
from .euler_steps import Series, sudden, without_rebounds
from .impact import Impact

_MOST = 24  # iterations
_BISECTIONS = 40  # of the way to points at which nothing approaches after an impact
_HALVED = 8  # halvings of a change after which something presses no more
_AGAIN = 4  # starts, each at the points that the impact before presses elsewhere
_SAME = 1e-9  # of the scene's length: points that are one
_STAYS = 1e-13  # the same, of points that move no more
_PROBE = 1e-4  # of the scene's length: how far ahead a rim is looked for
_PRESSES = 1e-9  # of the largest impulse: less is none
_ALIKE = 1e-9  # of singular values: supports that share a body's tilts as they like
_STEP = 1e-6  # of the scene's length: by which points are moved for a derivative
_EXACT = 1e-13  # of the fastest speed at a contact: what tilts that are none are left with


class _At(NamedTuple):
    """The impact at the points `closest`: the `rates` (nc, d - 1) [rad/s] of forbidden tilts, 0 of
    what does not press; the normal impulses `pressed` (nc,) [N s], inf of these; the `moves` of
    `Tilts`; and how far (nc, d) [m] beyond the rims of faces it was asked for, `off`."""

    closest: tuple[np.ndarray, ...]
    rates: np.ndarray
    pressed: np.ndarray
    moves: np.ndarray
    off: np.ndarray


def meet(find: Callable, system: System, state: State, closest, *more, slow: float = 0.0) -> tuple[Any, tuple, bool, bool]:
    """What `find(system, state, closest, *more)` gives, of which the first is the `Impact` in
    `state`; the points at which it is; whether any contact rebounds there by its law, other than
    slightly; and whether these points were moved for that from those given. None in the place of
    the first, where no centre of pressure was found, at which nothing approaches after it but for
    what is `slow` [m/s]."""
    found, start = find(system, state, closest, *more), closest
    if not any(group.restitution is not None and not group.pair.smooth for group in system.groups):
        return found, closest, False, False
    struck = found
    ahead = strikes_elsewhere(system, state, closest)
    if ahead is not None:
        struck, start = find(system, state, ahead, *more), ahead
    if not (bool(struck[0].acts) and np.any(rebounds(system, state, struck[0]))):
        return found, closest, False, False
    found, centres = _centred(lambda of, at: find(of, state, at, *more), system, state, start, slow)
    return found, centres, True, any(np.any(a != b) for a, b in zip(closest, centres, strict=True))


def forgotten(system: System, found: Series) -> bool:
    """Whether anything that has a restitution presses after the last step of `found`, which knows
    none, and approached before it other than slightly: a rebound that is not in it."""
    last = jax.tree.map(lambda a: a[-1], found.records[-1].contacts)
    slight = SLIGHT * np.sqrt(float(system.acceleration) * float(system.length))
    struck = np.asarray(sudden(without_rebounds(system), found.before, found.after, last, found.h))
    return bool(
        np.any(struck & (np.asarray(restitutions(system)) * np.asarray(approach(system, found.before, last)) > 2 * slight))
    )


def _holds(system: System, state: State, hit: Impact, closest, slow: float) -> bool:
    """Whether what touches in `state` at the points `closest` meets nowhere else with the
    velocities after `hit`, nor, by Newton's law, with those that leave u >= 0 everywhere."""
    laws = _of_law(system, state, hit)
    return bool(hit.converged) and not any(meets_again(system, moving, closest, of, slow) for moving, of in laws)


def _of_law(system: System, state: State, hit: Impact) -> list[tuple[State, Any]]:
    """With what velocities nothing may approach, and which contacts: V+, and V+ + e V-."""
    shares = np.where(_of_speeds(system), rebounds(system, state, hit), 0.0)
    speeds = {e: hit.state.velocity + e * state.velocity for e in np.unique(shares[shares > 0])}
    laws = [(dataclasses.replace(hit.state, velocity=velocity), shares == e) for e, velocity in speeds.items()]
    return [(hit.state, True), *laws]


def _centred(find: Callable, system: System, state: State, closest, slow: float) -> tuple[Any, tuple]:
    """What `find(system, closest)` gives at the centres of pressure, or None, and the points
    `closest` moved there: the first at which nothing approaches after it, or else only what is
    `slow`."""
    slowly = None
    for found, points in _tries(find, system, state, closest):
        if _holds(system, state, found[0], points, 0.0):
            return found, points
        if slowly is None and slow > 0 and _holds(system, state, found[0], points, slow):
            slowly = found, points
    return slowly or (None, closest)


def _tries(find: Callable, system: System, state: State, closest) -> Iterator[tuple[Any, tuple]]:
    """What `find(system, closest)` gives at centres of pressure; at the points `closest`, as at a
    corner with nothing parallel to the other body; and where its velocities press bodies onto each
    other elsewhere, between, and from there once more."""
    for count in range(_AGAIN):
        moved = _balanced(find, system, state, closest)
        found = find(system, moved)
        yield found, moved
        if count == 0:
            yield find(system, closest), closest
        closest = strikes_elsewhere(system, found[0].state, moved)
        if closest is None:
            return
        between = _between(find, system, state, moved, closest)
        if between is not None:
            yield between


def _between(find: Callable, system: System, state: State, here, there) -> tuple[Any, tuple] | None:
    """What `find(system, closest)` gives at points on the way from those `here` to those `there`,
    the first ones after which nothing approaches there; and these points. None if anything does
    whatever the points."""
    low, high, good = 0.0, 1.0, None
    for _ in range(_BISECTIONS):
        share = high if good is None else (low + high) / 2
        points = tuple(np.asarray(a) + share * _of_points(system, b - a) for a, b in zip(here, there, strict=True))
        found = find(system, points)
        if not any(enters_at(system, moving, there) for moving, _ in _of_law(system, state, found[0])):
            good, high = (found, points), share
        elif good is None:
            return None
        else:
            low = share
    return good


def _balanced(find: Callable, system: System, state: State, closest) -> tuple:
    """The points `closest` moved to centres of pressure: Newton's method along what is free, until
    its points stay."""
    asked_of = system if np.any(_of_speeds(system)) else without_rebounds(system)

    def at(asked) -> _At:
        hit = find(asked_of, asked)[0]
        shares = np.where(_of_speeds(system), rebounds(system, state, hit), 0.0)
        rates, moves = map(np.asarray, tilts_of(system, state, hit.state.velocity, asked, shares))
        pressed = np.asarray(hit.contacts.normal_impulse)
        on = pressed > _PRESSES * np.max(pressed, initial=0.0)
        found, off = _kept(system, hit, asked)
        return _At(found, np.where(on[:, None], rates, 0.0), np.where(on, pressed, np.inf), moves, off)

    length, exact = float(system.length), _EXACT * np.max(np.abs(state.velocity), initial=0.0)
    here, moved = at(closest), closest
    for _ in range(_MOST):
        free = _free(at, system, here)
        if length * np.max(np.abs(_along(free, here.rates)), initial=0.0) <= exact:
            break
        change, on = _change(at, system, here, free), np.isfinite(here.pressed)
        for _ in range(_HALVED):
            there = at(moved_along(system, here.closest, here.moves, change))
            if np.all(np.isfinite(there.pressed) | ~on):
                break
            change = change / 2  # what presses at a centre of pressure does so on the way there
        here = there
        stays = apart(here.closest, moved) <= _STAYS * length
        moved = here.closest
        if stays:
            break
    return moved


def _free(at: Callable, system: System, here: _At) -> np.ndarray:
    """The shifts (k, nc, d - 1), of one contact each, that lead from the points of impact `here`
    along their faces. At a rim beyond which u falls, the normal of the rim is none of them."""
    sizes = np.linalg.norm(here.rates, axis=1, keepdims=True)
    ahead = _PROBE * float(system.length) * here.rates / np.where(sizes > 0, sizes, 1.0)  # where u falls
    beyond = at(moved_along(system, here.closest, here.moves, ahead)).off
    directions = []
    for number in np.flatnonzero(np.isfinite(here.pressed)):
        normal, axes = here.moves[number] @ beyond[number], np.eye(here.rates.shape[1])
        if np.any(normal):
            normal = normal / np.linalg.norm(normal)
            axes = np.array([[-normal[1], normal[0]]]) if len(axes) == 2 else axes[:0]
        for axis in axes:
            directions.append(np.zeros(here.rates.shape))
            directions[-1][number] = axis
    return np.reshape(directions, (-1, *here.rates.shape))


def _along(free, values) -> np.ndarray:
    """Of `values` (nc, d - 1), what (k,) lies along what is `free` (k, nc, d - 1)."""
    return np.einsum("kca,ca->k", free, values)


def _change(at: Callable, system: System, here: _At, free) -> np.ndarray:
    """Newton's change (nc, d - 1) [m] along what is `free`, by differences over `_STEP`. Rates that
    one impulse leaves are in proportion to it and to how far it is off the centre."""
    share, columns = here.rates / here.pressed[:, None], []
    for direction in free:
        for side in (_STEP * float(system.length), -_STEP * float(system.length)):
            there = at(moved_along(system, here.closest, here.moves, side * direction))
            if not np.any(there.off):
                break
        columns.append(_along(free, there.rates / there.pressed[:, None] - share) / side)
    change = np.linalg.lstsq(np.stack(columns, axis=1), -_along(free, share), rcond=_ALIKE)[0]
    return np.einsum("k,kca->ca", change, free)


def _kept(system: System, hit: Impact, asked) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """The points at which `hit` is, where bodies do not have those `asked` for, and how far (nc, d)
    [m] these are off: beyond the rim of a face, of which the nearest point is found."""
    d, every = system.dimension, np.concatenate([hit.contacts.point_1, hit.contacts.point_2], axis=1)
    own = in_user_order(system, np.concatenate([np.asarray(one)[:, : 2 * d] for one in asked]))
    gone = (np.max(np.abs(own - every), axis=1) > _SAME * float(system.length)) & ~_smooth(system)
    found = []
    for group, one in zip(system.groups, asked, strict=True):
        numbers, one = list(group.numbers), np.array(one)
        one[:, : 2 * d] = np.where(gone[numbers, None], every[numbers], one[:, : 2 * d])
        found.append(one)
    return tuple(found), np.where(gone[:, None], (own - every)[:, d:], 0.0)


def _of_points(system: System, changes) -> np.ndarray:
    """Of `changes` of closest points with all that they have, those of the points alone."""
    return np.where(np.arange(changes.shape[1]) < 2 * system.dimension, changes, 0.0)


def _of_speeds(system: System) -> np.ndarray:
    """Which contacts (nc,) rebound by Newton's law."""
    own = [np.full(len(g.numbers), g.restitution is not None and not g.of_impulses) for g in system.groups]
    return in_user_order(system, np.concatenate(own))


def _smooth(system: System) -> np.ndarray:
    """Which contacts (nc,) are of bodies without faces and edges."""
    return in_user_order(system, np.concatenate([np.full(len(g.numbers), g.pair.smooth) for g in system.groups]))


def rebounds(system: System, state: State, hit: Impact) -> np.ndarray:
    """e (nc,) of the contacts that rebound in `hit`, 0 of those that do so slightly."""
    slight = SLIGHT * np.sqrt(float(system.acceleration) * float(system.length))
    shares, met = np.asarray(restitutions(system)), np.asarray(hit.met)[: system.contact_count]
    return np.where(met & (shares * np.asarray(approach(system, state, hit.contacts)) > slight), shares, 0.0)


@jit
def approach(system: System, state: State, contacts):
    """How fast (nc,) [m/s] bodies approach each other in `state` at the points of `contacts`."""
    return approach_at(system, state, contacts.normal, contacts.point_1, contacts.point_2)


def approach_at(system: System, state: State, *geometry):
    """`approach` with this `geometry`: normals and the points of both bodies (nc, d)."""
    speeds = []
    for group in system.groups:
        own = [take(a, np.array(group.numbers)) for a in geometry]
        motions = kinematics.motions_of(system, state, group)

        def one(normal, a1, a2, first, second):
            places = ((a1, first), (a2, second))
            speed_1, speed_2 = (rotation.point_velocity(m.velocity, point - m.position) for point, m in places)
            return normal @ (speed_1 - speed_2)

        speeds.append(jax.vmap(one)(*own, *motions))
    return in_user_order(system, jnp.concatenate(speeds))

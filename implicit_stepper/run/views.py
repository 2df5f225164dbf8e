"""One body, contact or joint of a run, by name: the arrays of a `Trajectory` with one axis less."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import jax
import numpy as np

from shapes.errors import ArgumentError

from ..model.records import Contacts, Joints
from ..runtime.errors import UnknownNameError, UnknownNumberError
from ..solvers.collocation import radau


@dataclasses.dataclass(frozen=True)
class BodyView:
    """A moving body at the n + 1 times of a run; d = 3 or 2; inertial frame, SI units.

    time (n + 1,) [s]; position (n + 1, d) [m] of the centre of mass; orientation (n + 1, 4), w
    first, or (n + 1, 1) [rad]; velocity (n + 1, 6 or 3), (linear [m/s], angular [rad/s]); mass ()
    [kg]; inertia (3, 3) or (1, 1) [kg m^2], body frame.
    """

    name: str
    time: np.ndarray
    position: np.ndarray
    orientation: np.ndarray
    velocity: np.ndarray
    mass: float
    inertia: np.ndarray

    @property
    def linear_velocity(self) -> np.ndarray:
        """Of the centre of mass (n + 1, d) [m/s]."""
        return self.velocity[:, : self.position.shape[1]]

    @property
    def angular_velocity(self) -> np.ndarray:
        """(n + 1, 3) [rad/s], or (n + 1,) in the plane."""
        angular = self.velocity[:, self.position.shape[1] :]
        return angular if angular.shape[1] == 3 else angular[:, 0]

    @property
    def speed(self) -> np.ndarray:
        """|v| (n + 1,) [m/s] of the centre of mass."""
        return np.linalg.norm(self.linear_velocity, axis=1)

    def __repr__(self) -> str:
        return f"<body {self.name!r}, {self.mass:.6g} kg, at {len(self.time)} times to t = {self.time[-1]:.9g} s>"


def _normal(own: Contacts) -> np.ndarray:
    """p_n n (..., d) [N s]; 0 of what was not near, and has no normal."""
    return own.normal_impulse[..., None] * np.nan_to_num(own.normal)


def _tangential(own: Contacts) -> np.ndarray:
    """p_t t + p_o n x t (..., d) [N s], the same."""
    normal, tangent = np.nan_to_num(own.normal), np.nan_to_num(own.tangent)
    along = own.friction_impulse[..., :1] * tangent
    return along if normal.shape[-1] == 2 else along + own.friction_impulse[..., 1:2] * np.cross(normal, tangent)


@dataclasses.dataclass(frozen=True)
class ContactView:
    """A contact in the n steps of a run; inertial frame, SI units. Entry i belongs to the end of
    step i, `time` (n,) [s].

    `names` of the bodies, as `Scene.add_contact` has them: normals point from the first to the
    second, and forces act as given on the second and reversed on the first. `impulses`: all arrays
    of `records.Contacts` of this contact, with the axis of contacts gone. Forces [N] are impulses
    over the step's h [s], so means over it, of several `stages` (theirs, with one more axis) each
    along its own normal and tangents; those of a step that ends with an impact contain it, and
    those of a step of h = 0, which is nothing but an impact, are NaN.
    """

    number: int
    names: tuple[str, str]
    time: np.ndarray
    h: np.ndarray
    impulses: Contacts
    stages: Contacts | None = None

    @property
    def gap(self) -> np.ndarray:
        """(n,) [m], negative where the bodies overlap."""
        return self.impulses.gap

    @property
    def point(self) -> np.ndarray:
        """Where forces act (n, d) [m]: on the second body."""
        return self.impulses.point_2

    @property
    def normal(self) -> np.ndarray:
        """Unit vectors (n, d) from the first body to the second."""
        return self.impulses.normal

    @property
    def sliding_speed(self) -> np.ndarray:
        """Length (n,) [m/s] of the tangential slip; what of it an open contact has is the bodies'
        relative motion."""
        return np.linalg.norm(self.impulses.slip[:, :2], axis=1)

    @property
    def normal_force(self) -> np.ndarray:
        """(n,) [N], at least 0."""
        return self._per_time(self.impulses.normal_impulse)

    @property
    def friction_force(self) -> np.ndarray:
        """The tangential force (n, d) [N] on the second body, as a vector."""
        return self._per_time(self._over_stages(_tangential))

    @property
    def drilling_torque(self) -> np.ndarray:
        """(n,) [N m] about the normal, on the second body; zero in the plane."""
        friction = self.impulses.friction_impulse
        return self._per_time(friction[:, 2] if friction.shape[1] == 3 else np.zeros(len(self.time)))

    @property
    def force(self) -> np.ndarray:
        """Normal and tangential force together (n, d) [N], on the second body."""
        return self._per_time(self._over_stages(lambda own: _normal(own) + _tangential(own)))

    def _over_stages(self, impulse: Callable) -> np.ndarray:
        """The `impulse` vector (n, d) [N s] of contacts, in their frames: of all stages, and of
        what a step has beside them, an impact at its end."""
        own, stages = self.impulses, self.stages
        if stages is None:
            return impulse(own)
        share = radau(stages.gap.shape[1]).A[-1]
        beside = {
            name: getattr(own, name) - np.einsum("s,ns...->n...", share, getattr(stages, name))
            for name in ("normal_impulse", "friction_impulse")
        }
        return np.einsum("s,nsd->nd", share, impulse(stages)) + impulse(dataclasses.replace(own, **beside))

    def _per_time(self, impulse: np.ndarray) -> np.ndarray:
        h = np.where(self.h > 0, self.h, np.nan)
        return impulse / (h if impulse.ndim == 1 else h[:, None])

    def __repr__(self) -> str:
        return f"<contact {self.number}: {' and '.join(self.names)}, {_steps(self.time)}>"


def contact_of(run, bodies: Sequence[str | int]) -> ContactView:
    """The contact of a trajectory between two `bodies`, or with a number."""
    number = number_of_contact(run.contact_names, bodies, run.names)
    none, stages = {"stages": None, "landing": None, "joints": None}, run.contacts.stages
    own = jax.tree.map(lambda a: a[:, number], dataclasses.replace(run.contacts, **none))
    if stages is not None:
        stages = jax.tree.map(lambda a: a[:, :, number], dataclasses.replace(stages.contacts, **none))
    return ContactView(number, run.contact_names[number], run.time[1:], np.broadcast_to(run.h, len(run)), own, stages)


@dataclasses.dataclass(frozen=True)
class JointView:
    """A joint in the n steps of a run; inertial frame, SI units. Entry i belongs to the end of step
    i, `time` (n,) [s].

    `impulses`: all arrays of `records.Joints` of this joint, with the axis of joints gone, angles
    over all turns.
    Reactions are impulses over the step's h [s], so means over it; those of a step that ends with
    an impact contain it, and those of a step of h = 0, which is nothing but an impact, are NaN.
    """

    number: int
    name: str
    time: np.ndarray
    h: np.ndarray
    impulses: Joints

    @property
    def force(self) -> np.ndarray:
        """(n, d) [N], on the second body; most joints act reversed on the first."""
        return self._per_time(self.impulses.impulse_2)[:, : self._dimension]

    @property
    def moment(self) -> np.ndarray:
        """(n, 3) or (n, 1) [N m], on the second body about its centre of mass."""
        return self._per_time(self.impulses.impulse_2)[:, self._dimension :]

    @property
    def closure(self) -> np.ndarray:
        """How far it is open (n, r), lengths [m] and angles [rad]."""
        return self.impulses.closure

    @property
    def coordinate(self) -> np.ndarray:
        """What the joint leaves free (n, c): displacements [m], and angles [rad] over any number of
        turns; zero beyond its own number, as of joints that have none."""
        return self.impulses.coordinate

    @property
    def rate(self) -> np.ndarray:
        """Of the coordinates (n, c) [m/s, rad/s], after an impact that ends the step."""
        return self.impulses.rate

    @property
    def _dimension(self) -> int:
        return 3 if self.impulses.impulse_2.shape[1] == 6 else 2

    def _per_time(self, impulse: np.ndarray) -> np.ndarray:
        return impulse / np.where(self.h > 0, self.h, np.nan)[:, None]

    def __repr__(self) -> str:
        return f"<joint {self.number}: {self.name!r}, {_steps(self.time)}>"


def turns(q: np.ndarray, h: np.ndarray, mean: np.ndarray, wound: np.ndarray, begins: bool) -> np.ndarray:
    """How many turns (n, nj, c) coordinates `q` (n, nj, c) that were recorded within a turn where
    they are `wound` (nj, c) have made since the first of them, by their `mean` rates (n, nj, c) in
    steps of h (n,) [s]; if a run `begins` with these, since half a turn of 0 before it."""
    moved = h[:, None, None] * mean
    before = q[:1] - moved[:1]
    start = before - 2 * np.pi * np.rint(before / (2 * np.pi)) if begins else before
    made = np.where(wound, np.rint((moved - np.diff(q, axis=0, prepend=start)) / (2 * np.pi)), 0.0)
    return np.cumsum(made, axis=0)


def times_told(time) -> np.ndarray:
    """A time or times [s] as an array. Raises `ValueError` for what are none."""
    try:
        return np.asarray(time, dtype=float)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"`time` = {time!r:.60} must be a time or a row of times [s].") from error


def _steps(time: np.ndarray) -> str:
    """How many steps end at `time` (n,) [s], and when the last of them does."""
    return f"{len(time)} steps to t = {time[-1]:.9g} s" if len(time) else "no steps"


def number_of_joint(names: Sequence[str], joint: str | int) -> int:
    """The place of `joint`, a name or a number, among `names`. Raises `KeyError`, `IndexError`."""
    if isinstance(joint, str):
        if joint not in names:
            raise UnknownNameError(f"no joint is named {joint!r}: there are {', '.join(map(repr, names)) or 'none'}.")
        return list(names).index(joint)
    return _in_range(joint, len(names), "joint", "joints")


def number_of_body(names: Sequence[str], body: str | int) -> int:
    """The place of `body`, a name or a number, among the moving bodies `names`. Raises `KeyError`,
    `IndexError`."""
    if isinstance(body, str):
        if body not in names:
            raise UnknownNameError(f"no moving body is named {body!r}: there are {', '.join(map(repr, names))}.")
        return list(names).index(body)
    return _in_range(body, len(names), "body", "moving bodies")


def number_of_contact(names: Sequence[tuple[str, str]], bodies: Sequence[str | int], moving: Sequence[str]) -> int:
    """The place, among the pairs of `names`, of the contact between two `bodies`, named in either
    order, or of the one numbered; `moving` are the names of moving bodies. Raises `KeyError` where
    there is none, or where there are several, of the parts of compound bodies; `IndexError`."""
    if len(bodies) == 1 and not isinstance(bodies[0], str):
        return _in_range(bodies[0], len(names), "contact", "contacts")
    known = ", ".join(map(str, names)) or "none"
    if len(bodies) != 2 or not all(isinstance(name, str) for name in bodies):
        raise UnknownNameError(
            f"contact{tuple(bodies)!r}: give two bodies by name, or a contact by number. There are {known}."
        )

    owners = owners_of(names, moving)

    def of(part: str, body: str) -> bool:
        return body in (part, owners[part])

    first, second = bodies
    found = [i for i, (a, b) in enumerate(names) if (of(a, first) and of(b, second)) or (of(a, second) and of(b, first))]
    if len(found) != 1:
        which = f"{len(found)} contacts are" if found else "no contact is"
        told = ", ".join(str(names[i]) for i in found) or known
        raise UnknownNameError(f"{which} between {first!r} and {second!r}: name one of {told}.")
    return found[0]


def owners_of(names: Sequence[tuple[str, str]], moving: Sequence[str]) -> dict[str, str]:
    """The bodies of which the parts in the pairs of `names` are. A body of one part is called as
    that; those of several parts have the part's number behind their name, and have no part of the
    name alone."""
    parts = {part for pair in names for part in pair}
    found = {part: part.rsplit("[", 1)[0] for part in parts}
    return {part: part if part in moving or body in parts else body for part, body in found.items()}


def _in_range(number, count: int, what: str, all_of_them: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int | np.integer):
        raise UnknownNameError(f"{what} {number!r}: give a name or a number.")
    if not -count <= number < count:
        raise UnknownNumberError(f"{what} {number}: the run has {count} {all_of_them}.")
    return int(number) % count

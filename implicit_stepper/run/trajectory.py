"""What a simulation leaves: arrays over time with their units, saved as .npz with a JSON header.

`trajectory_file` reads what is saved."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from importlib import import_module

import jax
import numpy as np

from ..model.bodies import State
from ..model.records import Contacts, Joints, Stats
from ..model.system import System
from ..radau import dense_output
from ..radau.events import Event
from ..runtime.errors import DimensionError, NotRecordedError, OutsideRunError, SliceError
from ..runtime.files import replaced
from ..scene.scene import Scene
from . import energy
from .labelled import dataset
from .origin import Origin
from .richardson import ErrorEstimate
from .spreadsheet import write_csv
from .views import BodyView, ContactView, JointView, contact_of, number_of_body, number_of_joint, times_told, turns

FORMAT = 5
_PER_STEP = ("contacts", "stats", "certificate")  # fields whose arrays have a first axis of n


@dataclasses.dataclass(frozen=True)
class Trajectory:
    """n steps of nb moving bodies with nc contacts; d = 3 or 2. NumPy arrays, inertial frame, SI
    units.

    time (n + 1,); position (n + 1, nb, d); orientation (n + 1, nb, 4), unit quaternions with w
    first, or (n + 1, nb, 1) angles; velocity (n + 1, nb, 6 or 3), (linear, angular). `contacts` and
    `stats` have a first axis of n: entry i belongs to the end of step i, time[i + 1] (see
    `records.Contacts` for names, units and frames). `certificate`: the largest violation of each
    equation, by name, (n,), dimensionless. `h` [s]; `names` of the bodies, `contact_names`, pairs,
    and `joint_names`; which coordinates of each joint are angles within a turn in the records,
    `wound`, which `joint` unwinds, of a slice from the turns (nj, c) before it, `turned`; mass
    (nb,) and inertia (nb, 3, 3) or (nb, 1, 1) in the body frames.

    Of chosen steps, and where the last step is shorter than the others, `h` is (n,). Of chosen
    steps, `events` lists what happened to contacts when, and `counts` the problems solved, by kind:
    see `adaptive`. A run that begins with an impact begins with a step of h = 0, which is that
    impact: from the velocities as given to those after it. `gravity` (d,) [m/s^2] and, by
    `left_out`, what else the scene has that stores energy: see `energy`.

    `origin` has the scene, the settings and the versions of the run, which files carry; `error` the
    estimate of its error, where `simulate` was asked for one.

    `trajectory[a:b]` is the trajectory of the steps a to b - 1, from the state before the first of
    them."""

    time: np.ndarray
    position: np.ndarray
    orientation: np.ndarray
    velocity: np.ndarray
    contacts: Contacts
    stats: Stats
    certificate: dict[str, np.ndarray]
    h: float | np.ndarray
    names: tuple[str, ...]
    contact_names: tuple[tuple[str, str], ...]
    mass: np.ndarray
    inertia: np.ndarray
    joint_names: tuple[str, ...] = ()
    wound: tuple[tuple[bool, ...], ...] | None = None
    turned: np.ndarray | None = None
    events: tuple[Event, ...] = ()
    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    gravity: np.ndarray | None = None
    left_out: tuple[str, ...] = ()
    origin: Origin | None = None
    error: ErrorEstimate | None = None

    def __repr__(self) -> str:
        h = np.unique(np.asarray(self.h))
        sizes = f"{h[0]:.6g} s" if len(h) == 1 else f"{h[0]:.3g} to {h[-1]:.3g} s" if len(h) else "no length"
        return (
            f"<Trajectory: {len(self)} steps of {sizes}, t = {self.time[0]:.9g} to {self.time[-1]:.9g} s, "
            f"{_counted(len(self.names), 'body', 'bodies')}, {_counted(len(self.contact_names), 'contact', 'contacts')}"
            f"{', ' + _counted(len(self.joint_names), 'joint', 'joints') if self.joint_names else ''}>"
        )

    def __getitem__(self, steps: slice) -> Trajectory:
        """The trajectory of a slice of the steps, with all in between; `counts` are those of the
        whole run alone."""
        whole = isinstance(steps, slice) and all(isinstance(n, int | np.integer | None) for n in (steps.start, steps.stop))
        if not whole or steps.step not in (None, 1):
            raise SliceError(f"trajectory[{steps!r}]: give a range of steps a:b, which a trajectory has all of.")
        start, stop, _ = steps.indices(len(self))
        stop = max(start, stop)
        nodes = {name: getattr(self, name)[start : stop + 1] for name in ("time", "position", "orientation", "velocity")}
        own = {name: jax.tree.map(lambda a: a[start:stop], getattr(self, name)) for name in _PER_STEP}
        h = self.h[start:stop] if np.ndim(self.h) else self.h
        first, last = nodes["time"][[0, -1]]
        events = tuple(event for event in self.events if first <= event.time <= last)
        error = None if self.error is None else self.error[start : stop + 1]
        turned = self._turns[start] if self.joint_names and start < len(self) else self.turned
        return dataclasses.replace(self, **nodes, **own, h=h, events=events, counts={}, error=error, turned=turned)

    def body(self, body: str | int) -> BodyView:
        """A moving body, by its name or number. Raises `KeyError` that lists the names,
        `IndexError`."""
        i = number_of_body(self.names, body)
        own = (self.position[:, i], self.orientation[:, i], self.velocity[:, i], float(self.mass[i]), self.inertia[i])
        return BodyView(self.names[i], self.time, *own)

    def contact(self, *bodies: str | int) -> ContactView:
        """The contact between two bodies, by their names in either order, or by its number: forces
        [N], gaps, points. Parts of compound bodies are named as in `contact_names`. Raises
        `KeyError` that lists the names, `IndexError`."""
        return contact_of(self, bodies)

    def named(self, event: Event) -> str:
        """What an event happened to: "A and B" of a contact, or the name of a joint."""
        return event.contact if isinstance(event.contact, str) else " and ".join(self.contact_names[event.contact])

    @property
    def joints(self) -> Joints | None:
        """What the joints did, in the order of `joint_names`, with a first axis of n; None where
        there are none."""
        return self.contacts.joints

    def joint(self, joint: str | int) -> JointView:
        """A joint, by its name or number: reactions [N, N m], closure. Raises `KeyError` that lists
        the names, `IndexError`."""
        i = number_of_joint(self.joint_names, joint)
        own = jax.tree.map(lambda a: a[:, i], self.contacts.joints)
        own = dataclasses.replace(own, coordinate=own.coordinate + 2 * np.pi * self._turns[:, i])
        return JointView(i, self.joint_names[i], self.time[1:], np.broadcast_to(self.h, len(self)), own)

    @functools.cached_property
    def _turns(self) -> np.ndarray:
        """That the coordinates of joints (n, nj, c) have made beyond what is recorded of them."""
        own, stages = self.contacts.joints, self.contacts.stages
        mean = own.rate if stages is None else dense_output.mean(stages.contacts.joints.rate)
        wound = np.zeros(own.rate.shape[1:], bool)
        for i in range(len(wound)):
            if self.wound is None:  # in a file that does not say, any may
                wound[i] = True
            else:
                wound[i, : len(self.wound[i])] = self.wound[i]
        begins = self.turned is None and self.wound is not None
        made = turns(own.coordinate, np.broadcast_to(self.h, len(self)), mean, wound, begins)
        return made if self.turned is None else made + self.turned

    @property
    def quaternion(self) -> np.ndarray:
        """Orientation (n + 1, nb, 4), w first. Raises `AttributeError` for a planar scene, which
        has `angle`."""
        if self.orientation.shape[-1] != 4:
            raise DimensionError("a planar trajectory has `angle`, not `quaternion`.")
        return self.orientation

    @property
    def angle(self) -> np.ndarray:
        """Orientation (n + 1, nb) [rad] of planar bodies. Raises `AttributeError` for a spatial
        scene."""
        if self.orientation.shape[-1] != 1:
            raise DimensionError("a spatial trajectory has `quaternion`, not `angle`.")
        return self.orientation[..., 0]

    def __len__(self) -> int:
        """Number n of steps."""
        return len(self.time) - 1

    @property
    def end(self) -> State:
        """The state after the last step, from which `simulate(..., start=...)` goes on."""
        return State(self.time[-1], self.position[-1], self.orientation[-1], self.velocity[-1])

    def kinetic_energy(self) -> np.ndarray:
        """(n + 1,) [J], all moving bodies: m v.v / 2 + omega.I omega / 2."""
        return energy.kinetic(self.orientation, self.velocity, self.mass, self.inertia)

    def energy(self) -> energy.Energy:
        """Kinetic energy and that of weight, (n + 1,) [J] each and in `total`, and in words what of
        the scene is in neither. Raises `ValueError` for a trajectory that does not know its
        gravity, as files of earlier versions."""
        if self.gravity is None:
            raise NotRecordedError(
                "the trajectory does not know its gravity: it was saved by an earlier version. Run it again."
            )
        weight = energy.of_weight(self.position, self.mass, self.gravity)
        return energy.Energy(self.kinetic_energy(), weight, self.left_out)

    def parting_work(self) -> np.ndarray:
        """At most this work (n,) [J] was done to part bodies that overlapped when the step began,
        impulse times depth / h; half of it on bodies at rest. Nothing in the scene accounts for it,
        and the certificate of energy allows it. An impact at the start, of h = 0, parts nothing."""
        h = np.broadcast_to(self.h, len(self))
        # 0 of NaN: of pairs that were far
        depth = np.where(h[:, None] > 0, np.fmax(-self.contacts.gap_start, 0.0), 0.0)
        return np.sum(self.contacts.normal_impulse * depth, axis=1) / np.where(h > 0, h, 1.0)

    def at(self, time) -> State:
        """Between the steps, from the polynomials of `RadauContact`: bodies at `time` (m,) [s], a
        `State` with that first axis, or at one time () [s], without; for s stages poses err by
        O(h^(s + 2)), velocities by O(h^(s + 1)). At an impact: after it. Raises `ValueError` for
        times outside the run, and for steppers that leave no polynomials."""
        if self.contacts.stages is None:
            raise NotRecordedError(
                "the stepper left nothing between its steps: use RadauContact() for `at`, or the arrays of the steps."
            )
        time = times_told(time)
        if time.ndim > 1 or not len(self):
            what = f"`time` has shape {time.shape}: give one time or a row of times" if len(self) else "the run has no steps"
            raise OutsideRunError(f"{what}.")
        found = dense_output.at(self, np.atleast_1d(time))
        return found if time.ndim else jax.tree.map(lambda a: a[0], found)

    def scene(self) -> Scene:
        """The scene of the run, made again. Raises `ValueError` where the run does not know it."""
        if self.origin is None:
            raise NotRecordedError(
                "the trajectory does not know its scene: it was saved by an earlier version. Run it again."
            )
        return self.origin.built()

    @property
    def plot(self):
        """Pictures of the run, for instance `trajectory.plot.energy()`: see
        `output.trajectory_plots.Plots`. Raises `ImportError` without matplotlib."""
        # stands above this room, and needs matplotlib
        drawing = import_module("implicit_stepper.output.trajectory_plots")
        return drawing.Plots(self)

    def to_csv(self, path: str | os.PathLike) -> None:
        """Writes .csv, a line per time, units in the header: bodies, forces [N], gaps and slips.
        Raises `OSError`."""
        write_csv(self, path)

    def to_xarray(self):
        """An `xarray.Dataset` of it: bodies, contacts and joints by name, units in the attributes.
        `.to_netcdf("run.nc", engine="h5netcdf")` of that is an HDF5 file. Raises `ImportError`
        without xarray."""
        return dataset(self)

    def save(self, path: str | os.PathLike) -> None:
        """Writes .npz: one array per field (`contacts.gap`, ...) and a JSON header with h, names
        and the format number. A file that cannot be finished, as on a full disk, leaves what `path`
        held before. Raises `OSError`."""
        arrays = {name: getattr(self, name) for name in ("time", "position", "orientation", "velocity", "mass", "inertia")}
        arrays |= flat("contacts", self.contacts) | flat("stats", self.stats)
        arrays |= {} if self.error is None else flat("error", self.error)
        arrays |= {} if self.turned is None else {"turned": self.turned}
        arrays |= {f"certificate.{name}": values for name, values in self.certificate.items()}
        header = {
            "format": FORMAT,
            "h": np.asarray(self.h).tolist(),
            "names": self.names,
            "contact_names": self.contact_names,
            "joint_names": self.joint_names,
            "wound": self.wound,
        }
        header |= {"events": self.events, "counts": self.counts, "left_out": self.left_out}
        header |= {"arrays": list(arrays), "origin": None if self.origin is None else self.origin.header()}
        header |= {} if self.gravity is None else {"gravity": np.asarray(self.gravity).tolist()}
        # a file, as NumPy would add .npz to a name
        with replaced(path) as written, written.open("wb") as file:
            np.savez_compressed(file, header=json.dumps(header), **arrays)


def assembled(system: System, states: State, contacts: Contacts, stats: Stats, certificates: dict, h, **more) -> Trajectory:
    """The trajectory of a run: all n + 1 `states`, and of its n steps the rest, `certificates` by
    name (n, bodies or contacts)."""
    return Trajectory(
        time=states.time,
        position=states.position,
        orientation=states.orientation,
        velocity=states.velocity,
        contacts=contacts,
        stats=stats,
        certificate={name: np.max(v, axis=1, initial=0.0) for name, v in certificates.items()},
        h=h,
        names=system.names[: system.body_count],
        contact_names=system.contact_names,
        joint_names=system.joint_names,
        wound=_wound(system),
        mass=np.asarray(system.mass),
        inertia=np.asarray(system.inertia),
        gravity=np.asarray(system.gravity),
        left_out=energy.left_out(system),
        **more,
    )


def _wound(system: System) -> tuple[tuple[bool, ...], ...]:
    """Which coordinates of each joint are recorded within a turn: angles in space."""
    found: list[tuple[bool, ...]] = [()] * len(system.joint_names)
    for group in system.joints if system.dimension == 3 else ():
        for number in group.numbers:
            found[number] = group.free_angles
    return tuple(found)


def _counted(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


def flat(prefix: str, record) -> dict[str, np.ndarray]:
    """The arrays of a record by name, and of records in it, as "outer.inner.name"."""
    found = {}
    for field in dataclasses.fields(record):
        value, name = getattr(record, field.name), f"{prefix}.{field.name}"
        if dataclasses.is_dataclass(value):
            found |= flat(name, value)
        elif value is not None:
            found[name] = value
    return found

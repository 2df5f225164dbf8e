"""What a simulation leaves: arrays over time with their units, saved as .npz with a JSON header."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import zipfile
import zlib
from pathlib import Path

import numpy as np

from ..model import poses
from ..model.bodies import State
from ..model.records import Contacts, Landing, Stages, Stats, no_contacts
from ..model.system import System
from ..radau import dense_output
from ..radau.events import Event
from ..runtime.files import replaced

_FORMAT = 3


@dataclasses.dataclass(frozen=True)
class Trajectory:
    """n steps of nb moving bodies with nc contacts; d = 3 or 2. NumPy arrays, inertial frame, SI units.

    time (n + 1,); position (n + 1, nb, d); orientation (n + 1, nb, 4), unit quaternions with w first, or (n + 1, nb, 1)
    angles; velocity (n + 1, nb, 6 or 3), (linear, angular). `contacts` and `stats` have a first axis of n: entry i belongs
    to the end of step i, time[i + 1] (see `records.Contacts` for names, units and frames). `certificate`: the largest
    violation of each equation, by name, (n,), dimensionless. `h` [s]; `names` of the bodies and `contact_names`, pairs;
    mass (nb,) and inertia (nb, 3, 3) or (nb, 1, 1) in the body frames.

    Of chosen steps, and where the last step is shorter than the others, `h` is (n,). Of chosen steps, `events` lists what
    happened to contacts when, and `counts` the problems solved, by kind: see `adaptive`. A run that begins with an impact
    begins with a step of h = 0, which is that impact: from the velocities as given to those after it."""

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
    events: tuple[Event, ...] = ()
    counts: dict[str, int] = dataclasses.field(default_factory=dict)

    @property
    def quaternion(self) -> np.ndarray:
        """Orientation (n + 1, nb, 4), w first. Raises `AttributeError` for a planar scene, which has `angle`."""
        if self.orientation.shape[-1] != 4:
            raise AttributeError("a planar trajectory has `angle`, not `quaternion`.")
        return self.orientation

    @property
    def angle(self) -> np.ndarray:
        """Orientation (n + 1, nb) [rad] of planar bodies. Raises `AttributeError` for a spatial scene."""
        if self.orientation.shape[-1] != 1:
            raise AttributeError("a spatial trajectory has `quaternion`, not `angle`.")
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
        d = self.position.shape[-1]
        linear, angular = self.velocity[..., :d], self.velocity[..., d:]
        if d == 3:
            angular = np.einsum("tbji,tbj->tbi", poses.matrices(self.orientation), angular)
        spin = np.einsum("tbi,bij,tbj->t", angular, self.inertia, angular)
        return (np.einsum("b,tbi,tbi->t", self.mass, linear, linear) + spin) / 2

    def parting_work(self) -> np.ndarray:
        """At most this work (n,) [J] was done to part bodies that overlapped when the step began, impulse times depth / h;
        half of it on bodies at rest. Nothing in the scene accounts for it, and the certificate of energy allows it. An
        impact at the start, of h = 0, parts nothing."""
        h = np.broadcast_to(self.h, len(self))
        depth = np.where(h[:, None] > 0, np.maximum(-self.contacts.gap_start, 0.0), 0.0)
        return np.sum(self.contacts.normal_impulse * depth, axis=1) / np.where(h > 0, h, 1.0)

    def at(self, time) -> State:
        """Between the steps, from the polynomials of `RadauContact`: bodies at `time` (m,) [s], a `State` with that first
        axis; for s stages poses err by O(h^(s + 2)), velocities by O(h^(s + 1)). At an impact: after it. Raises `ValueError`
        for times outside the run, and for steppers that leave no polynomials."""
        if self.contacts.stages is None:
            raise ValueError(
                "the stepper left nothing between its steps: use RadauContact() for `at`, or the arrays of the steps."
            )
        return dense_output.at(self, np.asarray(time, dtype=float))

    def save(self, path: str | os.PathLike) -> None:
        """Writes .npz: one array per field (`contacts.gap`, ...) and a JSON header with h, names and the format number. A
        file that cannot be finished, as on a full disk, leaves what `path` held before. Raises `OSError`."""
        arrays = {name: getattr(self, name) for name in ("time", "position", "orientation", "velocity", "mass", "inertia")}
        arrays |= _flat("contacts", self.contacts) | _flat("stats", self.stats)
        arrays |= {f"certificate.{name}": values for name, values in self.certificate.items()}
        header = {
            "format": _FORMAT,
            "h": np.asarray(self.h).tolist(),
            "names": self.names,
            "contact_names": self.contact_names,
        }
        header |= {"events": self.events, "counts": self.counts}
        with replaced(path) as written, written.open("wb") as file:  # a file, as NumPy would add .npz to a name
            np.savez_compressed(file, header=json.dumps(header), **arrays)


def assembled(system: System, states: State, contacts: Contacts, stats: Stats, certificates: dict, h, **more) -> Trajectory:
    """The trajectory of a run: all n + 1 `states`, and of its n steps the rest, `certificates` by name (n, bodies or
    contacts)."""
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
        mass=np.asarray(system.mass),
        inertia=np.asarray(system.inertia),
        **more,
    )


def load(path: str | os.PathLike) -> Trajectory:
    """Reads what `Trajectory.save` wrote. Raises `ValueError` for other files and for damaged ones,
    `OSError` when it cannot be read."""
    name = repr(os.fspath(path))
    with Path(path).open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError(f"{name} is not an .npz file, or was cut off, so not a saved trajectory.")
        file.seek(0)
        try:
            with np.load(file, allow_pickle=False) as stored:
                arrays = dict(stored)
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, OSError) as error:
            if isinstance(error, OSError) and error.errno != errno.EINVAL:  # that of an array that begins before the file
                raise
            raise ValueError(f"{name} is damaged: {error}. Take it from a copy, or run the simulation again.") from error
    try:
        found = _from_arrays(arrays, name)
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise ValueError(f"{name} is not a saved trajectory: {error!r}.") from error
    _refuse_other_shapes(found, name)
    return found


def _from_arrays(stored: dict[str, np.ndarray], name: str) -> Trajectory:
    if "header" not in stored:
        raise ValueError(f"{name} has no header: it is not a saved trajectory.")
    header = json.loads(str(stored["header"]))
    if header["format"] != _FORMAT:
        raise ValueError(f"{name} has format {header['format']}, this version reads {_FORMAT}.")

    def fields(prefix):
        return {name.removeprefix(prefix): values for name, values in stored.items() if name.startswith(prefix)}

    inside = fields("contacts.stages.")
    at_stages = Contacts(**_own(inside, "contacts.")) if inside else None
    stages = Stages(**_own(inside, ""), contacts=at_stages) if inside else None
    cut = fields("contacts.landing.")
    landing = _landing(cut) if cut else None
    h = header["h"]

    return Trajectory(
        **{name: stored[name] for name in ("time", "position", "orientation", "velocity", "mass", "inertia")},
        contacts=Contacts(**_own(fields("contacts."), ""), stages=stages, landing=landing),
        stats=Stats(**fields("stats.")),
        certificate=fields("certificate."),
        h=h if isinstance(h, float) else np.array(h),
        names=tuple(header["names"]),
        contact_names=tuple(map(tuple, header["contact_names"])),
        events=tuple(Event(*event) for event in header["events"]),
        counts=header["counts"],
    )


def _landing(stored: dict[str, np.ndarray]) -> Landing:
    """The record of steps of two parts, from its arrays by name."""
    state, contacts = State(**_own(stored, "state.")), Contacts(**_own(stored, "contacts."))
    return Landing(stored["part"], state, contacts)


def _refuse_other_shapes(found: Trajectory, name: str) -> None:
    """Raises `ValueError` where an array has not the shape that the documentation of `Trajectory` gives it."""
    n, nb, nc = max(found.time.size - 1, 0), len(found.names), len(found.contact_names)
    d = 2 if found.position.shape[-1:] == (2,) else 3
    width, turn, axes = (6, 4, 3) if d == 3 else (3, 1, 1)
    arrays = {
        "time": (found.time, (n + 1,)),
        "position": (found.position, (n + 1, nb, d)),
        "orientation": (found.orientation, (n + 1, nb, turn)),
        "velocity": (found.velocity, (n + 1, nb, width)),
        "mass": (found.mass, (nb,)),
        "inertia": (found.inertia, (nb, axes, axes)),
        "h": (np.asarray(found.h), (n,) if np.ndim(found.h) else ()),
    }
    arrays |= {f"stats.{field.name}": (getattr(found.stats, field.name), (n,)) for field in dataclasses.fields(Stats)}
    arrays |= {f"certificate.{key}": (values, (n,)) for key, values in found.certificate.items()}
    arrays |= _contact_shapes("contacts", found.contacts, (n, nc), d)
    stages = found.contacts.stages
    if stages is not None:
        s = stages.eta.shape[1] if stages.eta.ndim == 3 else 0
        arrays |= {f"contacts.stages.{key}": (getattr(stages, key), (n, s, nb, width)) for key in ("rates", "velocity")}
        arrays["contacts.stages.eta"] = stages.eta, (n, s, nc)
        arrays |= _contact_shapes("contacts.stages.contacts", stages.contacts, (n, s, nc), d)
    landing = found.contacts.landing
    if landing is not None:
        arrays["contacts.landing.part"] = landing.part, (n,)
        arrays |= {
            f"contacts.landing.state.{key}": (getattr(landing.state, key), (n, *arrays[key][1][1:]))
            for key in ("time", "position", "orientation", "velocity")
        }
        arrays |= _contact_shapes("contacts.landing.contacts", landing.contacts, (n, nc), d)
    for key, (values, needed) in arrays.items():
        if values.shape != needed or values.dtype.kind not in "fiu":
            raise ValueError(
                f"{name} is not a saved trajectory: `{key}` has shape {values.shape} and type {values.dtype}, where "
                f"numbers of shape {needed} belong."
            )


def _contact_shapes(prefix: str, contacts: Contacts, leading: tuple[int, ...], d: int) -> dict[str, tuple]:
    """By name, the arrays of `contacts` and the shapes that they need, `leading` axes first."""
    found = {}
    for key, array in _flat("", dataclasses.replace(contacts, stages=None, landing=None)).items():
        one = getattr(no_contacts(d), key.removeprefix(".")).shape[1:]
        # bodies have any number of inequalities
        needed = array.shape[-1:] if key.startswith(".multipliers") else one
        found[prefix + key] = array, (*leading, *needed)
    return found


def _flat(prefix: str, record) -> dict[str, np.ndarray]:
    """The arrays of a record by name, and of records in it, as "outer.inner.name"."""
    found = {}
    for field in dataclasses.fields(record):
        value, name = getattr(record, field.name), f"{prefix}.{field.name}"
        if dataclasses.is_dataclass(value):
            found |= _flat(name, value)
        elif value is not None:
            found[name] = value
    return found


def _own(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Those with a name of `prefix` and one more word."""
    names = {name: name.removeprefix(prefix) for name in arrays if name.startswith(prefix)}
    return {short: arrays[name] for name, short in names.items() if "." not in short}

"""Trajectories read from .npz files, which are refused where they are damaged or something else."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import zipfile
import zlib

import numpy as np

from ..model.bodies import State
from ..model.records import Contacts, Joints, Landing, Stages, Stats, no_contacts
from ..radau.events import Event
from ..runtime.errors import RunFileError
from ..runtime.files import path_of
from .origin import stored as stored_origin
from .richardson import ErrorEstimate
from .trajectory import FORMAT, Trajectory, flat

# formats 1 and 2 knew no events, 3 no joints, 4 no torques of tilts
_READ = (1, 2, 3, 4, FORMAT)


def load(path: str | os.PathLike) -> Trajectory:
    """Reads what `Trajectory.save` wrote. Raises `ValueError` for other files and for damaged ones,
    `OSError` when it cannot be read."""
    at, name = path_of("path", path), repr(os.fspath(path))
    with at.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise RunFileError(f"{name} is not an .npz file, or was cut off, so not a saved trajectory.")
        file.seek(0)
        try:
            with np.load(file, allow_pickle=False) as stored:
                arrays = dict(stored)
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, OSError) as error:
            # that of an array that begins before the file
            if isinstance(error, OSError) and error.errno != errno.EINVAL:
                raise
            raise RunFileError(f"{name} is damaged: {error}. Take it from a copy, or run the simulation again.") from error
    try:
        found = _from_arrays(arrays, name)
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise RunFileError(f"{name} is not a saved trajectory: {error!r}.") from error
    _refuse_other_shapes(found, name)
    return found


def _from_arrays(stored: dict[str, np.ndarray], name: str) -> Trajectory:
    if "header" not in stored:
        raise RunFileError(f"{name} has no header: it is not a saved trajectory.")
    header = json.loads(str(stored["header"]))
    if header["format"] not in _READ:
        raise RunFileError(f"{name} has format {header['format']}, this version reads {', '.join(map(str, _READ))}.")
    # of a damaged directory the rest may still be read
    lacking = set(header.get("arrays", ())) - set(stored)
    if lacking:
        raise RunFileError(f"{name} is damaged: it lacks {', '.join(sorted(lacking))}. Take it from a copy, or run again.")

    def fields(prefix):
        return {name.removeprefix(prefix): values for name, values in stored.items() if name.startswith(prefix)}

    inside = fields("contacts.stages.")
    at_stages = Contacts(**_own(inside, "contacts."), joints=_joints(inside)) if inside else None
    stages = Stages(**_own(inside, ""), contacts=at_stages) if inside else None
    cut = fields("contacts.landing.")
    landing = _landing(cut) if cut else None
    h, error = header["h"], fields("error.")

    return Trajectory(
        **{name: stored[name] for name in ("time", "position", "orientation", "velocity", "mass", "inertia")},
        contacts=Contacts(**_own(fields("contacts."), ""), stages=stages, landing=landing, joints=_joints(stored)),
        stats=Stats(**fields("stats.")),
        certificate=fields("certificate."),
        h=h if isinstance(h, float) else np.array(h),
        names=tuple(header["names"]),
        contact_names=tuple(map(tuple, header["contact_names"])),
        joint_names=tuple(header.get("joint_names", ())),
        wound=tuple(map(tuple, header["wound"])) if header.get("wound") is not None else None,
        turned=stored.get("turned"),
        events=tuple(Event(*event) for event in header.get("events", ())),
        counts=header.get("counts", {}),
        gravity=np.array(header["gravity"], dtype=float) if "gravity" in header else None,
        left_out=tuple(header.get("left_out", ())),
        origin=stored_origin(header.get("origin")),
        error=ErrorEstimate(**error) if error else None,
    )


def _joints(stored: dict[str, np.ndarray]) -> Joints | None:
    """Those of the arrays of a record of contacts, named "contacts.joints.*"."""
    own = _own(stored, "contacts.joints.")
    return Joints(**own) if own else None


def _landing(stored: dict[str, np.ndarray]) -> Landing:
    """The record of steps of two parts, from its arrays by name."""
    state, contacts = State(**_own(stored, "state.")), Contacts(**_own(stored, "contacts."))
    return Landing(stored["part"], state, contacts)


def _refuse_other_shapes(found: Trajectory, name: str) -> None:
    """Raises `ValueError` where an array has not the shape that the documentation of `Trajectory`
    gives it."""
    n, nb, nc, nj = max(found.time.size - 1, 0), len(found.names), len(found.contact_names), len(found.joint_names)
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
    if found.error is not None:
        arrays |= {f"error.{key}": (values, (len(found.error.time), nb)) for key, values in vars(found.error).items()}
        arrays["error.time"] = found.error.time, found.error.time.shape[:1]
    arrays |= _contact_shapes("contacts", found.contacts, (n, nc), d)
    stages = found.contacts.stages
    if stages is not None:
        s = stages.eta.shape[1] if stages.eta.ndim == 3 else 0
        arrays |= {f"contacts.stages.{key}": (getattr(stages, key), (n, s, nb, width)) for key in ("rates", "velocity")}
        arrays["contacts.stages.eta"] = stages.eta, (n, s, nc)
        if stages.tilt is not None:
            arrays["contacts.stages.tilt"] = stages.tilt, (n, s, nc, 2)
        arrays |= _contact_shapes("contacts.stages.contacts", stages.contacts, (n, s, nc), d)
        arrays |= _joint_shapes("contacts.stages.contacts.joints", stages.contacts.joints, (n, s, nj), width)
    arrays |= _joint_shapes("contacts.joints", found.contacts.joints, (n, nj), width)
    if found.turned is not None:
        free = 0 if found.joints is None else found.joints.coordinate.shape[-1]
        arrays["turned"] = found.turned, (nj, free)
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
            raise RunFileError(
                f"{name} is not a saved trajectory: `{key}` has shape {values.shape} and type {values.dtype}, where "
                f"numbers of shape {needed} belong."
            )


def _joint_shapes(prefix: str, joints: Joints | None, leading: tuple[int, ...], width: int) -> dict[str, tuple]:
    """As `_contact_shapes`; joints have any number of equations."""
    if joints is None:
        return {}
    equations, free = joints.multipliers.shape[-1:], joints.coordinate.shape[-1:]
    own = {"impulse_1": (width,), "impulse_2": (width,), "coordinate": free, "rate": free, "mu": ()}
    return {
        key: (array, (*leading, *own.get(key.removeprefix(f"{prefix}."), equations)))
        for key, array in flat(prefix, joints).items()
    }


def _contact_shapes(prefix: str, contacts: Contacts, leading: tuple[int, ...], d: int) -> dict[str, tuple]:
    """By name, the arrays of `contacts` and the shapes that they need, `leading` axes first."""
    found = {}
    for key, array in flat("", dataclasses.replace(contacts, stages=None, landing=None, joints=None)).items():
        one = () if key == ".mu" else getattr(no_contacts(d), key.removeprefix(".")).shape[1:]
        # bodies have any number of inequalities
        needed = array.shape[-1:] if key.startswith(".multipliers") else one
        found[prefix + key] = array, (*leading, *needed)
    return found


def _own(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Those with a name of `prefix` and one more word."""
    names = {name: name.removeprefix(prefix) for name in arrays if name.startswith(prefix)}
    return {short: arrays[name] for name, short in names.items() if "." not in short}

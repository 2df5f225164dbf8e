"""What a simulation leaves: arrays over time with their units, saved as .npz with a JSON header."""

from __future__ import annotations

import dataclasses
import json
import os
import zipfile
from pathlib import Path

import numpy as np

from .records import Contacts, Stats

_FORMAT = 2


@dataclasses.dataclass(frozen=True)
class Trajectory:
    """n steps of nb moving bodies with nc contacts; d = 3 or 2. NumPy arrays, inertial frame, SI units.

    time (n + 1,); position (n + 1, nb, d); orientation (n + 1, nb, 4), unit quaternions with w first, or (n + 1, nb, 1)
    angles; velocity (n + 1, nb, 6 or 3), (linear, angular). `contacts` and `stats` have a first axis of n: entry i belongs
    to the end of step i, time[i + 1] (see `records.Contacts` for names, units and frames). `certificate`: the largest
    violation of each equation, by name, (n,), dimensionless. `h` [s]; `names` of the bodies and `contact_names`, pairs;
    mass (nb,) and inertia (nb, 3, 3) or (nb, 1, 1) in the body frames.
    """

    time: np.ndarray
    position: np.ndarray
    orientation: np.ndarray
    velocity: np.ndarray
    contacts: Contacts
    stats: Stats
    certificate: dict[str, np.ndarray]
    h: float
    names: tuple[str, ...]
    contact_names: tuple[tuple[str, str], ...]
    mass: np.ndarray
    inertia: np.ndarray

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

    def kinetic_energy(self) -> np.ndarray:
        """(n + 1,) [J], all moving bodies: m v.v / 2 + omega.I omega / 2."""
        d = self.position.shape[-1]
        linear, angular = self.velocity[..., :d], self.velocity[..., d:]
        if d == 3:
            angular = np.einsum("tbji,tbj->tbi", _rotation_matrices(self.orientation), angular)
        spin = np.einsum("tbi,bij,tbj->t", angular, self.inertia, angular)
        return (np.einsum("b,tbi,tbi->t", self.mass, linear, linear) + spin) / 2

    def save(self, path: str | os.PathLike) -> None:
        """Writes .npz: one array per field (`contacts.gap`, ...) and a JSON header with h, names and the format number."""
        arrays = {name: getattr(self, name) for name in ("time", "position", "orientation", "velocity", "mass", "inertia")}
        for prefix, record in (("contacts", self.contacts), ("stats", self.stats)):
            arrays |= {f"{prefix}.{f.name}": getattr(record, f.name) for f in dataclasses.fields(record)}
        arrays |= {f"certificate.{name}": values for name, values in self.certificate.items()}
        header = {"format": _FORMAT, "h": self.h, "names": self.names, "contact_names": self.contact_names}
        with Path(path).open("wb") as file:  # a file, as NumPy would add .npz to a name
            np.savez_compressed(file, header=json.dumps(header), **arrays)


def load(path: str | os.PathLike) -> Trajectory:
    """Reads what `Trajectory.save` wrote. Raises `ValueError` for other files, `OSError` when it cannot be read."""
    with Path(path).open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError(f"{os.fspath(path)!r} is not an .npz file, so not a saved trajectory.")
        file.seek(0)
        with np.load(file, allow_pickle=False) as stored:
            try:
                return _from_arrays(dict(stored), os.fspath(path))
            except (KeyError, TypeError, json.JSONDecodeError) as error:
                raise ValueError(f"{os.fspath(path)!r} is not a saved trajectory: {error!r}.") from error


def _from_arrays(stored: dict[str, np.ndarray], path: str) -> Trajectory:
    if "header" not in stored:
        raise ValueError(f"{path!r} has no header: it is not a saved trajectory.")
    header = json.loads(str(stored["header"]))
    if header["format"] != _FORMAT:
        raise ValueError(f"{path!r} has format {header['format']}, this version reads {_FORMAT}.")

    def fields(prefix):
        return {name.removeprefix(prefix): values for name, values in stored.items() if name.startswith(prefix)}

    return Trajectory(
        **{name: stored[name] for name in ("time", "position", "orientation", "velocity", "mass", "inertia")},
        contacts=Contacts(**fields("contacts.")),
        stats=Stats(**fields("stats.")),
        certificate=fields("certificate."),
        h=header["h"],
        names=tuple(header["names"]),
        contact_names=tuple(map(tuple, header["contact_names"])),
    )


def _rotation_matrices(quaternions):
    w, x, y, z = np.moveaxis(quaternions, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))

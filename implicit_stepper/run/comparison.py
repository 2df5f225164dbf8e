"""What `compare` found: a table, files, and the run of every entry."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..runtime.files import path_of, replaced
from .references import Reference
from .trajectory import Trajectory


@dataclasses.dataclass(frozen=True)
class Entry:
    """One method at one h [s], of an `Adaptive` one the mean step, over all steps; NaN where it did
    not get to the end, as less time compares with nothing, or where the reference lacks a time.

    error [m] and velocity_error [m/s]: largest distance of a body's centre, and of its velocity,
    from the reference; order: of `error` against the next larger h; gap [m]: largest distance from
    0 among contacts that carry; penetration [m]; energy: largest error of the kinetic energy over
    the largest kinetic energy of the reference; predicted [m], measured [m]: the gap at which the
    method's own equations hold carrying contacts, and the one they have; iterations: mean a step;
    seconds: a step, of a compiled program; failure: why it has no numbers, when the method stopped
    or what the reference lacks, or ""; tol: that of an `Adaptive` method, or NaN.
    """

    method: str
    h: float
    error: float
    order: float
    velocity_error: float
    gap: float
    penetration: float
    energy: float
    predicted: float
    measured: float
    iterations: float
    seconds: float
    failure: str
    tol: float = np.nan

    @property
    def key(self) -> tuple[str, float]:
        """Under which `Comparison` has the trajectory."""
        return self.method, self.h if np.isnan(self.tol) else self.tol

    @property
    def file(self) -> str:
        """In which `Comparison.save` writes the trajectory."""
        return file_of(self.method, self.h, self.tol)

    def row(self) -> str:
        """A line of a Markdown table under `HEADER`."""
        numbers = (self.error, self.velocity_error, self.gap, self.penetration, self.energy, self.predicted, self.measured)
        numbers = ["" if np.isnan(value) else f"{value:.2e}" for value in numbers]
        order = "" if np.isnan(self.order) else f"{self.order:.2f}"
        size = f"{self.h:g}" if np.isnan(self.tol) else f"tol {self.tol:g}"
        cost = ["" if np.isnan(self.seconds) else text for text in (f"{self.iterations:.1f}", f"{1e6 * self.seconds:.0f}")]
        return _line([self.method, size, numbers[0], order, *numbers[1:], *cost, self.failure])


def file_of(method: str, h: float, tol: float) -> str:
    """METHOD-h=H.npz, with as many digits as tell h [s] from others, or METHOD.npz of an `Adaptive`
    one, whose `tol` is not NaN; with "-" for ":", which not every system has in names."""
    short = f"{h:g}"
    size = f"-h={short if float(short) == h else repr(float(h))}" if np.isnan(tol) else ""
    return f"{method.replace(':', '-')}{size}.npz"


def _line(cells: Sequence[str]) -> str:
    """Of a Markdown table, whose cells hold neither ends of lines nor bars that divide them."""
    return "| " + " | ".join(" ".join(cell.splitlines()).replace("|", "\\|") for cell in cells) + " |"


_COLUMNS = ["method", "h [s]", "error [m]", "order", "velocity error [m/s]", "gap [m]", "penetration [m]"]
_COLUMNS += ["energy error", "artifact: predicted [m]", "measured [m]", "iterations", "us a step", "failure"]
HEADER = f"{_line(_COLUMNS)}\n{_line(['---'] * len(_COLUMNS))}"


@dataclasses.dataclass(frozen=True)
class Comparison:
    """`entries`, method after method, the largest h first; `trajectories` by (method, h), or
    (method, tol) of an `Adaptive` one, as far as each got; the `reference`."""

    entries: tuple[Entry, ...]
    trajectories: Mapping[tuple[str, float], Trajectory]
    reference: Reference

    def table(self) -> str:
        """A Markdown table for people."""
        return "\n".join([HEADER, *(entry.row() for entry in self.entries)])

    def save(self, folder: str | Path) -> None:
        """Writes comparison.csv with all digits, comparison.md, and every trajectory as
        METHOD-h=H.npz, or METHOD.npz of an `Adaptive` one, with "-" for ":" (see `Entry.file`), to
        a folder that is made if need be."""
        folder = path_of("folder", folder)
        folder.mkdir(parents=True, exist_ok=True)
        with replaced(folder / "comparison.csv") as path, path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(field.name for field in dataclasses.fields(Entry))
            writer.writerows(dataclasses.astuple(entry) for entry in self.entries)
        with replaced(folder / "comparison.md") as path:
            path.write_text(self.table() + "\n", encoding="utf-8")
        for entry in self.entries:
            if entry.key in self.trajectories:
                self.trajectories[entry.key].save(folder / entry.file)

"""The rows of a reproduction, a number of ours beside a reference each, and how rows and trajectories become tables."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from ..run.trajectory import Trajectory
from ..runtime.files import replaced


@dataclasses.dataclass(frozen=True)
class Row:
    """`quantity` of a `case` in `unit`: `reference`, `ours`, their `error` and its `tolerance`, and whether it is `ok`.

    `source`: where the reference comes from. `basis`: how the tolerance was derived. A row without a reference reports a
    number that nothing is asked of: reference, error and tolerance are None and `ok` is true.
    """

    case: str
    quantity: str
    unit: str
    reference: float | None
    ours: float
    error: float | None
    tolerance: float | None
    ok: bool
    source: str
    basis: str


def near(
    case: str, quantity: str, unit: str, reference: float, ours: float, tolerance: float, *, source: str, basis: str
) -> Row:
    """A row that asks |ours - reference| <= tolerance. NaN is out of tolerance."""
    error = abs(ours - reference)
    return Row(case, quantity, unit, reference, ours, error, tolerance, bool(error <= tolerance), source, basis)


def at_least(
    case: str, quantity: str, unit: str, reference: float, ours: float, tolerance: float, *, source: str, basis: str
) -> Row:
    """A row whose error is how far ours falls short of the reference: more is better. NaN is out of tolerance."""
    error = float(np.maximum(reference - ours, 0.0))
    return Row(case, quantity, unit, reference, ours, error, tolerance, bool(error <= tolerance), source, basis)


def report(case: str, quantity: str, unit: str, ours: float) -> Row:
    """A row that is there to be read, without a reference."""
    return Row(case, quantity, unit, None, ours, None, None, True, "", "")


def lines(rows: Sequence[Row]) -> list[str]:
    """Rows as aligned text for a terminal, with a header."""
    cells = [("quantity", "unit", "reference", "ours", "error", "tolerance", "")]
    cells += [(row.quantity, row.unit, *_numbers(row), "ok" if row.ok else "OUT OF TOLERANCE") for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    aligns = ("<", "<", ">", ">", ">", ">", "<")
    return [
        "  ".join(f"{cell:{align}{width}}" for cell, align, width in zip(line, aligns, widths, strict=True)).rstrip()
        for line in cells
    ]


def write_markdown(rows: Iterable[Row], path: Path) -> None:
    """Rows as a Markdown table, sources and bases included."""
    header = [field.name for field in dataclasses.fields(Row)]
    body = [
        (row.case, row.quantity, row.unit, *_numbers(row), "yes" if row.ok else "**no**", row.source, row.basis)
        for row in rows
    ]
    text = [header, ["---"] * len(header), *body]
    with replaced(path) as aside, aside.open("w", encoding="utf-8") as file:
        file.writelines("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in text)


def write_csv(rows: Iterable[Row], path: Path) -> None:
    """Rows with all their digits; an empty cell where there is no number."""
    with replaced(path) as aside, aside.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(field.name for field in dataclasses.fields(Row))
        writer.writerows(dataclasses.astuple(row) for row in rows)


def write_trajectory(trajectory: Trajectory, path: Path) -> None:
    """A trajectory as .csv, a line per time, units in the header. Forces are impulses divided by h, so they are means over
    the step that ends at the line's time; the cells of contacts are empty on the first line."""
    d = trajectory.position.shape[-1]
    names = [*(f"{axis} [m]" for axis in "xyz"[:d]), *(("qw", "qx", "qy", "qz") if d == 3 else ("angle [rad]",))]
    names += [f"v_{axis} [m/s]" for axis in "xyz"[:d]]
    names += [f"omega_{axis} [rad/s]" for axis in "xyz"] if d == 3 else ["omega [rad/s]"]
    header, columns = ["time [s]"], [trajectory.time[:, None]]
    for i, body in enumerate(trajectory.names):
        header += [f"{body}: {name}" for name in names]
        columns += [trajectory.position[:, i], trajectory.orientation[:, i], trajectory.velocity[:, i]]
    contacts, h = trajectory.contacts, np.broadcast_to(trajectory.h, len(trajectory))[:, None]
    names = ["normal force [N]", *(f"friction F_{axis} [N]" for axis in "to"[: d - 1])]
    names += ["friction torque F_r [N m]"] * (d == 3)
    names += ["gap [m]", *(f"slip v_{axis} [m/s]" for axis in "to"[: d - 1])]
    names += ["slip v_r [rad/s]"] * (d == 3) + ["weighted slip sigma [m/s]"]
    for i, (first, second) in enumerate(trajectory.contact_names):
        header += [f"contact {i + 1} ({first}, {second}): {name}" for name in names]
        parts = [contacts.normal_impulse[:, i, None] / h, contacts.friction_impulse[:, i] / h]
        parts += [contacts.gap[:, i], contacts.slip[:, i], contacts.sigma[:, i]]
        record = np.column_stack(parts)
        columns.append(np.concatenate([np.full((1, record.shape[1]), np.nan), record]))
    with replaced(path) as aside, aside.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for line in np.hstack(columns).tolist():
            writer.writerow("" if value != value else value for value in line)  # NaN: no contact record yet


def _numbers(row: Row) -> tuple[str, str, str, str]:
    def text(value, form):
        return "" if value is None else format(value, form)

    return text(row.reference, ".10g"), text(row.ours, ".10g"), text(row.error, ".1e"), text(row.tolerance, ".1e")

"""The rows of a reproduction, a number of ours beside a reference each, and how rows and
trajectories become tables."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from ..runtime.files import replaced


@dataclasses.dataclass(frozen=True)
class Row:
    """`quantity` of a `case` in `unit`: `reference`, `ours`, their `error` and its `tolerance`, and
    whether it is `ok`.

    `source`: where the reference comes from. `basis`: how the tolerance was derived. A row without
    a reference reports a number that nothing is asked of: reference, error and tolerance are None
    and `ok` is true.
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
    """A row whose error is how far ours falls short of the reference: more is better. NaN is out of
    tolerance."""
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


def _numbers(row: Row) -> tuple[str, str, str, str]:
    def text(value, form):
        return "" if value is None else format(value, form)

    return text(row.reference, ".10g"), text(row.ours, ".10g"), text(row.error, ".1e"), text(row.tolerance, ".1e")

"""A run as a table for spreadsheets and other programs."""

from __future__ import annotations

import csv
import os

import numpy as np

from ..runtime.files import replaced


def write_csv(trajectory, path: str | os.PathLike) -> None:
    """A trajectory as .csv, a line per time, units in the header. Forces are impulses divided by h,
    so they are means over the step that ends at the line's time; the cells of contacts are empty on
    the first line, and those of forces in a step of h = 0, which is nothing but an impact. Raises
    `OSError`."""
    d = trajectory.position.shape[-1]
    names = [*(f"{axis} [m]" for axis in "xyz"[:d]), *(("qw", "qx", "qy", "qz") if d == 3 else ("angle [rad]",))]
    names += [f"v_{axis} [m/s]" for axis in "xyz"[:d]]
    names += [f"omega_{axis} [rad/s]" for axis in "xyz"] if d == 3 else ["omega [rad/s]"]
    header, columns = ["time [s]"], [trajectory.time[:, None]]
    for i, body in enumerate(trajectory.names):
        header += [f"{body}: {name}" for name in names]
        columns += [trajectory.position[:, i], trajectory.orientation[:, i], trajectory.velocity[:, i]]
    contacts, h = trajectory.contacts, np.broadcast_to(trajectory.h, len(trajectory))[:, None]
    h = np.where(h > 0, h, np.nan)
    names = ["normal force [N]", *(f"friction F_{axis} [N]" for axis in "to"[: d - 1])]
    names += ["friction torque F_r [N m]"] * (d == 3)
    names += ["gap [m]", *(f"slip v_{axis} [m/s]" for axis in "to"[: d - 1])]
    names += ["slip v_r [rad/s]"] * (d == 3) + ["weighted slip sigma [m/s]"]
    for i, (first, second) in enumerate(trajectory.contact_names):
        header += [f"contact {i} ({first}, {second}): {name}" for name in names]
        parts = [contacts.normal_impulse[:, i, None] / h, contacts.friction_impulse[:, i] / h]
        parts += [contacts.gap[:, i], contacts.slip[:, i], contacts.sigma[:, i]]
        record = np.column_stack(parts)
        columns.append(np.concatenate([np.full((1, record.shape[1]), np.nan), record]))
    with replaced(path) as aside, aside.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for line in np.hstack(columns).tolist():
            # NaN: no contact record yet
            writer.writerow("" if value != value else value for value in line)

"""`trajectory.plot`: the pictures of one run, each a matplotlib `Figure` with `savefig`, in one
style."""

from __future__ import annotations

import dataclasses
import os

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..run import carrying
from ..run.trajectory import Trajectory
from ..run.views import number_of_contact
from ..runtime.errors import PictureError
from . import animation, viewer
from .plots import BLUE, GREEN, ORANGE, RED, contact_forces, legend_above, span, styled, velocities

_COORDINATES = {2: ("x", "y", "angle"), 3: ("x", "y", "z")}
_CARRIES = 1e-9  # of a contact's largest impulse: below this, and what is rounding, it is open
_KINDS = "opens", "closes", "slips", "sticks", "moves", "wedges", "jams"  # of events
_SLIDES = 1e-6  # [m/s], of the fastest slip in the run: below this a contact sticks


@dataclasses.dataclass(frozen=True)
class Plots:
    """Of one `trajectory`. Bodies and contacts are named or numbered as in `trajectory.body` and
    `trajectory.contact`."""

    trajectory: Trajectory

    def velocity(self, body: str | int = 0) -> Figure:
        """Linear velocity [m/s] above angular velocity [rad/s] of one body, inertial frame."""
        return velocities(self.trajectory, body)

    def contact(self, *bodies: str | int) -> Figure:
        """Normal force and friction [N] of one contact, by default the first, and its sliding speed
        [m/s]."""
        run = self.trajectory
        return contact_forces(run, number_of_contact(run.contact_names, bodies or (0,), run.names))

    @styled
    def energy(self) -> Figure:
        """Energy of motion, of weight, and both together [J], all bodies, from the lowest of weight
        on; in words what is in neither."""
        found = self.trajectory.energy()
        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axes = figure.subplots()
        lowest = np.min(found.gravity)
        lines = (("kinetic", found.kinetic, BLUE), ("of weight, from its least", found.gravity - lowest, ORANGE))
        for label, values, colour in (*lines, ("total", found.total - lowest, "black")):
            axes.plot(self.trajectory.time, values, color=colour, label=label)
        axes.set(xlabel="time [s]", ylabel="energy [J]")
        if found.left_out:
            told = f"without {', '.join(found.left_out)}"
            axes.set_title(told if len(told) < 90 else f"{told[:87]}...", fontsize=8, color="0.35")
        legend_above(figure)
        return figure

    @styled
    def phase(self, body: str | int = 0, coordinate: str = "z") -> Figure:
        """Velocity over position of one coordinate of a body: "x", "y" or "z" [m], in the plane
        "x", "y", "angle" [rad].

        Raises `ValueError` for other coordinates."""
        view = self.trajectory.body(body)
        d = view.position.shape[1]
        known = _COORDINATES[d]
        coordinate = "y" if d == 2 and coordinate == "z" else coordinate
        if coordinate not in known:
            raise PictureError(f"`coordinate` = {coordinate!r} must be one of {', '.join(known)}.")
        i = known.index(coordinate)
        place = view.orientation[:, 0] if coordinate == "angle" else view.position[:, i]
        unit = "rad" if coordinate == "angle" else "m"
        figure = Figure(figsize=(4.8, 4.0), layout="constrained")
        axes = figure.subplots()
        axes.plot(place, view.velocity[:, i], color=BLUE, linewidth=1.2)
        axes.plot(place[:1], view.velocity[:1, i], "o", color=GREEN, label="start")
        axes.plot(place[-1:], view.velocity[-1:, i], "s", color=RED, label="end")
        axes.margins(0.05)
        axes.set(xlabel=f"{coordinate} of {view.name} [{unit}]", ylabel=f"its velocity [{unit}/s]")
        legend_above(figure)
        return figure

    @styled
    def events(self) -> Figure:
        """When which contact carries, thick where it slides, and the events that a run of chosen
        steps lists, those of a joint in a row of its own. Raises `ValueError` for a run without
        contacts and events."""
        run = self.trajectory
        names = [" and ".join(pair) for pair in run.contact_names]
        names += dict.fromkeys(event.contact for event in run.events if isinstance(event.contact, str))
        if not names:
            raise PictureError("the run has no contacts, of whose events there could be a picture.")
        figure = Figure(figsize=(7.2, 1.2 + 0.42 * max(len(names), 1)), layout="constrained")
        axes = figure.subplots()
        for i in range(len(run.contact_names)):
            _draw_contact(axes, run, i)
        for kind, mark, colour in zip(_KINDS, "^vxo|*+", "krgbmcy", strict=True):
            found = [event for event in run.events if event.kind == kind]
            if found:
                times, rows = zip(*((e.time, names.index(run.named(e))) for e in found), strict=True)
                axes.plot(times, rows, mark, color=colour, markersize=6, label=kind)
        axes.set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.5, -0.5), xlabel="time [s]")
        span(axes, run)
        axes.grid(axis="y", visible=False)
        legend_above(figure)
        return figure

    def page(self, path: str | os.PathLike) -> None:
        """Writes an .html file in which the run is played and seen from all sides, without a
        network: `viewer.write`."""
        viewer.write(self.trajectory, path)

    def animation(self, path: str | os.PathLike, **options) -> None:
        """Writes a film of the run, .gif or (with ffmpeg) .mp4: see `animation.write`."""
        animation.write(self.trajectory, path, **options)


def _draw_contact(axes: Axes, run: Trajectory, number: int) -> None:
    """The steps in which a contact carries, in the row of its number."""
    contact = run.contact(number)
    impulse = contact.impulses.normal_impulse
    carries = impulse > np.maximum(_CARRIES * np.max(impulse, initial=0.0), carrying.least(run)[:, 0])
    speed = np.nan_to_num(contact.sliding_speed)  # of a pair that was far
    slides = carries & (speed > _SLIDES * max(np.max(speed, initial=0.0), 1.0))
    begun = run.time[:-1]
    for which, height, colour, label in (
        (carries & ~slides, 0.16, BLUE, "sticks or rolls"),
        (slides, 0.36, ORANGE, "slides"),
    ):
        if np.any(which):
            bars = np.stack([begun[which], np.diff(run.time)[which]], axis=1)
            label = label if label not in axes.get_legend_handles_labels()[1] else None
            axes.broken_barh(bars, (number - height / 2, height), color=colour, linewidth=0, label=label)

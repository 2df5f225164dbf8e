"""Plots of a trajectory through time. They need matplotlib (`pip install matplotlib`).

Each plot comes twice: `velocities(trajectory)` returns a matplotlib `Figure` with `savefig`, and
`draw_velocities(axes, trajectory)` draws the same into axes of yours. No pyplot, no global state: a
figure that you drop is gone.
"""

from __future__ import annotations

import functools

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..constraints.friction import FrictionEllipsoid
from ..run import carrying
from ..run.trajectory import Trajectory
from ..run.views import number_of_body

# Okabe and Ito's colours, told apart with any kind of colour vision and, by lightness, mostly in
# grey.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
DARK = "#222222"
COLOURS = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY)
_COLUMNS = 4  # of a legend above a figure
# of the largest normal force of a contact: below this the solver's zero, and nothing slides
_OPEN = 1e-9
STYLE = {
    "font.size": 10.0,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.xmargin": 0.0,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "lines.linewidth": 1.7,
    "lines.solid_capstyle": "butt",
}


def styled(function):
    """Runs a function that makes or draws figures in this module's style, leaving matplotlib's
    settings as they were."""

    @functools.wraps(function)
    def inner(*arguments, **keywords):
        with matplotlib.rc_context(STYLE):
            return function(*arguments, **keywords)

    return inner


@styled
def velocities(trajectory: Trajectory, body: str | int = 0) -> Figure:
    """Linear velocity [m/s] above angular velocity [rad/s] of one body, by its name or number,
    inertial frame."""
    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    draw_velocities(*figure.subplots(2, 1, sharex=True), trajectory, body)
    return figure


@styled
def contact_forces(trajectory: Trajectory, contact: int = 0, *, friction: FrictionEllipsoid | None = None) -> Figure:
    """Normal force and friction [N] of one contact, and its sliding speed [m/s], zero while it is
    open, on a second axis.

    Without `friction` its tangential part is drawn; with it, the scaled length that the friction
    law bounds, and the bound mu N.
    """
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.subplots()
    draw_contact_forces(axes, axes.twinx(), trajectory, contact, friction=friction)
    axes.set_xlabel("time [s]")
    legend_above(figure)
    return figure


@styled
def kinetic_energy(trajectory: Trajectory) -> Figure:
    """Kinetic energy [J] of all moving bodies."""
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    axes = figure.subplots()
    draw_kinetic_energy(axes, trajectory)
    axes.set_xlabel("time [s]")
    return figure


def draw_velocities(linear: Axes, angular: Axes, trajectory: Trajectory, body: str | int = 0) -> None:
    """See `velocities`; the two axes share their time."""
    d = trajectory.position.shape[-1]
    velocity = trajectory.velocity[:, number_of_body(trajectory.names, body)]
    labels = [rf"$\omega_{axis}$" for axis in "xyz"] if d == 3 else [r"$\omega$"]
    for axes, names, parts, colours in (
        (linear, [f"$v_{axis}$" for axis in "xyz"[:d]], velocity[:, :d], COLOURS[:3]),
        (angular, labels, velocity[:, d:], COLOURS[3:]),
    ):
        for name, part, colour in zip(names, parts.T, colours, strict=False):
            axes.plot(trajectory.time, part, color=colour, label=name)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        _widen(axes)
    linear.set_ylabel("velocity [m/s]")
    angular.set(ylabel="angular velocity [rad/s]", xlabel="time [s]")


def draw_contact_forces(
    axes: Axes, speed_axes: Axes, trajectory: Trajectory, contact: int = 0, *, friction: FrictionEllipsoid | None = None
) -> None:
    """See `contact_forces`; `speed_axes` is the twin of `axes`, and the caller draws the legend."""
    # forces and slips belong to the ends of steps; an impact at the start has no force, as it takes
    # no time
    contacts, h = trajectory.contacts, np.broadcast_to(trajectory.h, len(trajectory))
    long = h > 0
    time, h = trajectory.time[1:][long], h[long]
    impulse = contacts.friction_impulse[long, contact]
    normal = contacts.normal_impulse[long, contact] / h
    axes.plot(time, normal, color=BLUE, label="normal force $N$")
    if friction is None:
        tangential = impulse[:, :2] if impulse.shape[1] == 3 else impulse
        axes.plot(time, np.linalg.norm(tangential, axis=1) / h, color=RED, label="tangential friction")
    else:
        axes.plot(time, friction_length(impulse, friction) / h, color=RED, label="friction $|F|$")
        mu = friction.mu if trajectory.contacts.mu is None else trajectory.contacts.mu[long, contact]
        axes.plot(time, mu * normal, color=ORANGE, label=r"$\mu N$", linestyle=(0, (4, 3)))
    slip = contacts.slip[long, contact]
    speed = np.linalg.norm(slip[:, :2] if slip.shape[1] == 3 else slip, axis=1)
    least = np.maximum(_OPEN * np.max(normal, initial=0.0), carrying.least(trajectory)[long, 0] / h)
    speed = np.where(normal > least, speed, 0.0)
    speed_axes.plot(time, speed, color=GREEN, label="sliding speed", linestyle=(0, (6, 1.5, 1, 1.5)))
    axes.set_ylabel("force [N]")
    span(axes, trajectory)
    speed_axes.set_ylabel("sliding speed [m/s]", color=GREEN)
    speed_axes.tick_params(axis="y", colors=GREEN)
    speed_axes.spines["right"].set(visible=True, color=GREEN)
    speed_axes.grid(False)
    _widen(axes)
    _widen(speed_axes)


def draw_kinetic_energy(axes: Axes, trajectory: Trajectory, *, colour: str = BLUE, label: str | None = None) -> None:
    """See `kinetic_energy`."""
    axes.plot(trajectory.time, trajectory.kinetic_energy(), color=colour, label=label)
    axes.set_ylabel("kinetic energy [J]")
    _widen(axes)


def friction_length(impulse: np.ndarray, friction: FrictionEllipsoid) -> np.ndarray:
    """sqrt((p_t/e_t)^2 + (p_o/e_o)^2 + (p_r/e_r)^2) [N s] of friction impulses (n, 3), or |p_t|/e_t
    of (n, 1): what the friction law bounds by mu p_n. A component whose semi-axis is zero is left
    out."""
    axes = np.array([friction.e_t, friction.e_o, friction.e_r][: impulse.shape[1]])
    return np.linalg.norm(impulse[:, axes > 0] / axes[axes > 0], axis=1)


def legend_above(figure: Figure, *axes: Axes) -> None:
    """One legend for the labelled lines in `axes`, by default in all, above the figure, where it
    covers no data."""
    found = {}
    for one in axes or figure.axes:
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    layout = {"loc": "outside upper center", "ncols": min(len(found), _COLUMNS), "columnspacing": 1.2, "handlelength": 1.8}
    figure.legend(found.values(), found.keys(), **layout)


def span(axes: Axes, trajectory: Trajectory) -> None:
    """Makes an axis of time that of the run, of one that takes no time whatever it is."""
    first, last = trajectory.time[[0, -1]]
    if last > first:
        axes.set_xlim(first, last)


def _widen(axes: Axes) -> None:
    """Keeps rounding errors of what is constant from filling the axis: it spans 1e-3 of its values,
    and 1e-6 units."""
    low, high = axes.get_ylim()
    middle, least = (low + high) / 2.0, max(1e-3 * max(abs(low), abs(high)), 1e-6)
    if high - low < least:
        axes.set_ylim(middle - least, middle + least)

"""Figures of a `Comparison`. They need matplotlib (`pip install matplotlib`)."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from matplotlib.figure import Figure

from ..run.comparison import Comparison, Entry
from .plots import COLOURS, legend_above, styled

_MARKS = "osD^vPX*"
_DASHES = ["-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 1.5, 1, 1.5))]


def figures(comparison: Comparison) -> dict[str, Figure]:
    """All figures by name."""
    return {
        "convergence": convergence(comparison),
        "work_precision": work_precision(comparison),
        "through_time": through_time(comparison),
    }


@styled
def convergence(comparison: Comparison) -> Figure:
    """Largest position error [m] against h [s], with the slope of order one."""
    figure, axes = _errors(comparison, lambda entry: entry.h)
    sizes = np.array(sorted({entry.h for entry in comparison.entries}))
    known = [entry.error / entry.h for entry in comparison.entries if entry.error > 0]
    if len(sizes) > 1 and known:
        axes.plot(sizes, np.median(known) * sizes, color="0.6", linewidth=0.9, label="order 1")
    axes.set_xlabel("step h [s]")
    legend_above(figure)
    return figure


@styled
def work_precision(comparison: Comparison) -> Figure:
    """Largest position error [m] against the wall time [s] of a whole run, compiled."""
    lengths = {key: len(trajectory) for key, trajectory in comparison.trajectories.items()}
    figure, axes = _errors(comparison, lambda entry: entry.seconds * lengths.get(entry.key, np.nan))
    axes.set_xlabel("wall time of the run [s]")
    legend_above(figure)
    return figure


@styled
def through_time(comparison: Comparison, *, body: int = 0, contact: int = 0) -> Figure:
    """At each method's largest h: kinetic energy, speed of a body, and gap and normal force of a
    contact."""
    figure = Figure(figsize=(7.2, 7.6), layout="constrained")
    panels = figure.subplots(4, 1, sharex=True)
    runs: dict[str, object] = {}
    for (method, _), trajectory in comparison.trajectories.items():
        runs.setdefault(method, trajectory)
    for (method, run), (colour, dashes, _) in zip(runs.items(), _looks(), strict=False):
        look = {"color": colour, "linestyle": dashes, "linewidth": 1.4}
        d = run.position.shape[-1]
        panels[0].plot(run.time, run.kinetic_energy(), **look, label=method)
        panels[1].plot(run.time, np.linalg.norm(run.velocity[:, body, :d], axis=1), **look)
        if contact >= len(run.contact_names):
            continue  # of joints alone, or of pairs that did not touch
        panels[2].plot(run.time[1:], run.contacts.gap[:, contact], **look)
        h = np.broadcast_to(run.h, len(run))  # 0 of impacts, which have no force
        force = np.where(h > 0, run.contacts.normal_impulse[:, contact] / np.where(h > 0, h, 1.0), np.nan)
        panels[3].plot(run.time[1:], force, **look)
    whole = [comparison.trajectories[entry.key] for entry in comparison.entries if not entry.failure]
    if whole:  # whose times the reference has
        longest = max(whole, key=lambda run: run.time[-1])
        velocity = comparison.reference(longest.time)[1]
        d = longest.position.shape[-1]
        speed = np.linalg.norm(np.asarray(velocity)[:, body, :d], axis=1)
        panels[1].plot(longest.time, speed, color="black", linewidth=0.8, label="reference")
    panels[2].set_yscale("symlog", linthresh=1e-6)
    for axes, label in zip(panels, ("kinetic energy [J]", "speed [m/s]", "gap [m]", "normal force [N]"), strict=True):
        axes.set_ylabel(label)
    panels[3].set_xlabel("time [s], every method at its largest step")
    legend_above(figure)
    return figure


def _errors(comparison: Comparison, across: Callable[[Entry], float]):
    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    axes = figure.subplots()
    methods = list(dict.fromkeys(entry.method for entry in comparison.entries))
    for method, (colour, dashes, mark) in zip(methods, _looks(), strict=False):
        points = [(across(e), e.error) for e in comparison.entries if e.method == method and e.error > 0 and not e.failure]
        if points:
            axes.loglog(*zip(*points, strict=True), color=colour, linestyle=dashes, marker=mark, markersize=5, label=method)
    axes.margins(x=0.05)
    axes.set_ylabel("largest position error [m]")
    return figure, axes


def _looks():
    """Colours, dashes and marks, never all three alike."""
    return zip(itertools.cycle(COLOURS), itertools.cycle(_DASHES), itertools.cycle(_MARKS), strict=False)

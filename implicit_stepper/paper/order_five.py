"""Example 3 by `RadauContact`: chosen steps that end on its events, and the order of fixed ones,
against `exact`."""

from __future__ import annotations

import functools

import numpy as np

from ..radau.radau_contact import RadauContact
from ..run.simulate import simulate
from ..run.trajectory import Trajectory
from . import exact, scenes
from .table import Row, near, report

TOL = 1e-8
DURATION, SMOOTH = 4.0, 2.9  # [s]: all of it, and that part in which no contact changes its mode
STEPS = (0.1, 0.05)  # [s]
# exact events by their number and kind; both contacts stick at first, the second slips, the first
# opens, then the second
EVENTS = ((1, "slips"), (0, "opens"), (1, "opens"))


def order_five(quick: bool) -> tuple[Trajectory, list[Row]]:
    """4 s with tol = 1e-8, and steps of .1 and .05 s up to 2.9 s."""
    del quick  # it takes milliseconds once compiled
    run, answer = simulate(scenes.two_spheres(), RadauContact(), tol=TOL, duration=DURATION), exact.two_spheres(DURATION)
    row = functools.partial(near, "order-five", source="exact, C V-C")
    rows = [
        row(f"error in position, ends of steps to {end:g} s, tol = {TOL:g}", "m", 0.0, error_in_position(run, answer, end),
            allowed, basis="tol, and what slipping off the edge makes of it")
        for end, allowed in ((3.0, 1e-8), (DURATION, 1e-7))
    ]  # fmt: skip
    ours = {(event.contact, event.kind): event.time for event in run.events}
    rows += [
        row(f"contact {contact + 1} {kind}, tol = {TOL:g}", "s", time, ours.get((contact, kind), np.nan), allowed,
            basis="error of the state, over its speed")
        for (contact, kind), time, allowed in zip(EVENTS, answer.events.values(), (1e-7, 1e-5, 1e-5), strict=True)
    ]  # fmt: skip
    # [N]: an open one bears less, see `reproduce`
    closed = run.contacts.normal_impulse / run.h[:, None] > 1e-8
    rows.append(
        row("gap of closed contacts, largest", "m", 0.0, float(np.max(np.abs(run.contacts.gap[closed]))), 1e-13,
            basis="rounding of lengths of 1 m")
    )  # fmt: skip
    coarse, fine = (_errors(simulate(scenes.two_spheres(), RadauContact(), h=h, duration=SMOOTH), answer) for h in STEPS)
    rows.append(
        row(f"largest error in position to {SMOOTH:g} s, h = {STEPS[0]:g} s", "m", 0.0, coarse[0], 1e-8, basis="1e-8")
    )
    rows += [
        near("order-five", f"order in h of the {name}, h = {STEPS[0]:g} and {STEPS[1]:g} s", "1", order,
             float(np.log2(a / b)), 0.2, source="Radau IIA", basis="next term of the error")
        for name, order, a, b in zip(("position", "velocity", "normal force"), (5, 5, 3), coarse, fine, strict=True)
    ]  # fmt: skip
    return run, [
        *rows,
        *(report("order-five", f"problems solved: {kind}", "1", count) for kind, count in run.counts.items()),
    ]


def error_in_position(run: Trajectory, answer: exact.TwoSpheres, end: float) -> float:
    """The largest [m] at the ends of steps up to `end` [s]."""
    time = run.time[run.time <= end]
    difference = run.position[: len(time), 0] - answer.at(time).position
    return float(np.max(np.linalg.norm(difference, axis=1)))


def _errors(run: Trajectory, answer: exact.TwoSpheres) -> tuple[float, float, float]:
    """The largest in position [m], velocity [m/s, rad/s], and normal force at the last stage
    [N]."""
    states = answer.at(run.time)
    force = run.contacts.stages.contacts.normal_impulse[:, -1] / np.reshape(run.h, (-1, 1))
    return (
        error_in_position(run, answer, run.time[-1]),
        float(np.max(np.linalg.norm(run.velocity[:, 0] - states.velocity, axis=1))),
        float(np.max(np.abs(force - states.normal_force[1:]))),
    )

"""Runs the examples of Chakraborty, Berard, Akella, Trinkle (RSS 2007), section V, "C" below, and
compares with `exact`."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ..implicit_euler.geometrically_implicit import GeometricallyImplicit
from ..model.results import StepError
from ..run.simulate import simulate
from ..run.trajectory import Trajectory
from ..scene.scene import Scene
from . import exact, exact_polygon, polygon, scenes, table
from .order_five import order_five
from .table import Row, at_least, near, report

STEPPER = GeometricallyImplicit()
SOLVER = f"room for the solver's {STEPPER.tolerance:.0e} of"
CERTIFIED = 1e-10  # what `simulate` asks of every step by default, dimensionless
STUDY = (0.02, 0.01, 0.005, 0.0025)  # steps [s] of the convergence study of example 3


@dataclasses.dataclass(frozen=True)
class Case:
    """An example: `run(quick)` simulates it and compares. What it returns besides belongs to its
    figures."""

    title: str
    run: Callable[[bool], tuple[Trajectory, list[Row], *tuple[polygon.Study, ...]]]


def spin(quick: bool) -> tuple[Trajectory, list[Row]]:
    """Example 2: 20 steps of 0.07 s. The exact spin ends within step 15, so the last moving step
    has a share of torque."""
    del quick  # it takes milliseconds as it is
    h, inertia = 0.07, 0.4
    trajectory = simulate(scenes.spin(), STEPPER, h=h, duration=1.4)
    answer = exact.spinning_sphere(trajectory.time)
    stop = int(np.argmax(answer.spin == 0.0))  # number of the step in which the exact spin ends
    fall = -np.diff(answer.spin)
    omega = trajectory.velocity[:, 0, 5]
    force = trajectory.contacts.friction_impulse[:, 0] / h
    torque = -force[:, 2]

    row = functools.partial(near, "spin", source="exact, C V-B")
    speed = functools.partial(row, basis=f"{SOLVER} g h = 0.7 m/s in each of 20 steps", tolerance=1e-10)
    load = functools.partial(row, basis=f"{SOLVER} m g = 9.8 N, in this step and the one before", tolerance=1e-10)
    return trajectory, [
        speed("w_z falls each step by", "rad/s", fall[0], _farthest(-np.diff(omega[:stop]), fall[0])),
        speed(f"w_z after {stop - 1} steps", "rad/s", answer.spin[stop - 1], omega[stop - 1]),
        speed(f"w_z after {stop} steps, t = {trajectory.time[stop]:.2f} s", "rad/s", 0.0, omega[stop]),
        load("friction torque while spinning", "N m", answer.torque[0], _farthest(torque[: stop - 1], answer.torque[0])),
        load("friction torque in the last moving step", "N m", inertia * fall[stop - 1] / h, torque[stop - 1]),
        load("tangential friction, largest", "N", 0.0, np.max(np.abs(force[:, :2]))),
        *_quality("spin", trajectory, 20),
    ]


def disc(quick: bool) -> tuple[Trajectory, list[Row]]:
    """Example 1: steps of 0.01 s, 10^4 of them, 10^3 if `quick`."""
    h, steps = 0.01, 1_000 if quick else 10_000
    scene = scenes.disc()
    trajectory = simulate(scene, STEPPER, h=h, duration=steps * h)
    answer = exact.rolling_disc(trajectory.time)
    contacts = trajectory.contacts
    impulse = answer.normal_force[0] * h
    energy = trajectory.kinetic_energy() / answer.kinetic_energy

    row = functools.partial(near, "disc", source="exact, C V-A")
    # An error of the gap, over h, is one of the velocity in this step and in the next.
    load = functools.partial(row, basis=f"{SOLVER} 2 m sqrt(g L) = 5.3 N s", tolerance=1e-10)
    return trajectory, [
        row(f"kinetic energy, largest relative drift in {steps} steps", "1", 0.0, np.max(np.abs(energy - 1.0)), 1e-12,
            basis="10^4 rounding errors of 1.1e-16"),
        row("gap, largest", "m", 0.0, np.max(np.abs(contacts.gap)), 1e-13,
            basis=f"{SOLVER} h sqrt(g L) = 0.026 m"),
        load("normal impulse of a step", "N s", impulse, _farthest(contacts.normal_impulse[:, 0], impulse)),
        load("tangential impulse, largest", "N s", 0.0, np.max(np.abs(contacts.friction_impulse))),
        _unknowns("disc", scene, 10, "C V-A: 9, with a_2y = 0 removed by hand"),
        *_quality("disc", trajectory, steps),
    ]  # fmt: skip


def polygons(quick: bool) -> tuple[Trajectory, list[Row], polygon.Study]:
    """Example 1 again, with the disc as a regular polygon and linearised gaps; the trajectory is
    ours, of the disc."""
    trajectory = simulate(scenes.disc(), STEPPER, h=polygon.H, duration=polygon.DURATION)
    study = polygon.study(quick)
    by_sides = {n: run.kinetic_energy()[-1] for n, run in study.by_sides.items()}
    by_step = {h: run.kinetic_energy()[-1] / exact_polygon.ENERGY for h, run in study.by_step.items()}
    most, (coarse, fine) = max(by_sides), list(by_step)[-2:]
    floor = exact_polygon.after_linearisation(polygon.DURATION, polygon.H)
    limit = exact_polygon.after_collisions(polygon.DURATION, most) / exact_polygon.ENERGY
    # half the angle between corners, in that of the braking point
    off = np.pi / (most * exact_polygon.SPIN * polygon.H)
    runs = [*study.by_sides.values(), *study.by_step.values()]

    name, end = "kinetic energy", f"after {polygon.DURATION:g} s"
    row, least = functools.partial(near, "polygons"), functools.partial(at_least, "polygons", tolerance=0)
    return trajectory, [
        least(f"{name} {end}, from {', '.join(map(str, by_sides))} sides to the next, h = {polygon.H:g} s, least gain", "J",
              0.0, float(np.min(np.diff(list(by_sides.values())))), source="C figure 1 (a)", basis="an order"),
        least(f"{name} {end}, ours above the best polygon", "J", 0.0,
              float(trajectory.kinetic_energy()[-1] - max(by_sides.values())), source="C figure 1 (a)", basis="an order"),
        row(f"{name} {end}, {most} sides, h = {polygon.H:g} s: the floor that h sets", "J", float(floor), by_sides[most],
            float(off * (exact_polygon.ENERGY - floor)), source="closed form, many sides",
            basis="half the distance of corners, of the arm at which the line brakes"),
        row(f"relative {name} {end}, {most} sides, h = {fine:g} s", "1", limit, by_step[fine], 0.01 * limit,
            source="closed form, h to 0", basis="1 %"),
        row(f"its extrapolation 2 r({fine:g} s) - r({coarse:g} s)", "1", limit, 2.0 * by_step[fine] - by_step[coarse],
            0.01 * (1.0 - limit), source="closed form, h to 0", basis="1 % of the loss"),
        *(report("polygons", f"loss of {name}, {most} sides, h = {h:g} s, in that of h to 0", "1", (1 - r) / (1 - limit))
          for h, r in by_step.items()),
        row("violation of the LCP, largest of any step", "1", 0.0,
            max(float(np.max(v)) for run in runs for v in run.certificate.values()), CERTIFIED,
            source="Stewart and Trinkle (1996)", basis="the certificate's tolerance"),
    ], study  # fmt: skip


def two_spheres(quick: bool) -> tuple[Trajectory, list[Row]]:
    """Example 3: 4 s in steps of 0.01 s, and again in steps of 0.005 s to see the size of a
    first-order error. If not `quick`, in all steps of `STUDY` to see the order, and in the 0.1 s of
    Tzitzouris and Pang."""
    h, duration = 0.01, 4.0
    scene = scenes.two_spheres()
    runs = {s: simulate(scene, STEPPER, h=s, duration=duration) for s in ((h, h / 2) if quick else STUDY)}
    trajectory, answer = runs[h], exact.two_spheres(duration)
    v = {s: run.velocity[round(1.0 / s), 0] for s, run in runs.items()}
    x = {s: run.position[round(3.0 / s), 0] for s, run in runs.items()}
    v_exact, x_exact = answer.at([1.0]).velocity[0], answer.at([3.0]).position[0]

    rows = _start_forces(trajectory, answer) + _events(trajectory, answer) + _friction(trajectory)
    rows += _first_order(["v_x at 1 s", "v_z at 1 s"], "m/s", v_exact[:3:2], v[h][:3:2], v[h / 2][:3:2])
    rows += _first_order([f"w_{axis} at 1 s" for axis in "xyz"], "rad/s", v_exact[3:], v[h][3:], v[h / 2][3:])
    rows += _first_order(["x at 3 s", "z at 3 s"], "m", x_exact[::2], x[h][::2], x[h / 2][::2])
    # Both contacts hold the centre on a circle about the y axis: the solver's accuracy, whatever
    # the step.
    row = functools.partial(near, "two-spheres", source="exact, C V-C", tolerance=1e-10)
    rows.append(row("v_y at 1 s", "m/s", v_exact[1], v[h][1], basis=f"{SOLVER} sqrt(g L) = 3.3 m/s"))
    rows.append(row("y at 3 s", "m", x_exact[1], x[h][1], basis=f"{SOLVER} h sqrt(g L) = 0.033 m"))
    if not quick:
        rows += _convergence("velocity at 1 s", "m/s", v_exact[:3], {s: value[:3] for s, value in v.items()})
        rows += _convergence("position at 3 s", "m", x_exact, x)
        rows += _events(simulate(scene, STEPPER, h=0.1, duration=duration), answer)
    rows.append(_unknowns("two-spheres", scene, 28, "C V-C"))
    return trajectory, rows + _quality("two-spheres", trajectory, round(duration / h))


CASES = {
    "spin": Case("sphere spinning on a plane (C example 2)", spin),
    "disc": Case("disc rolling on a line (C example 1)", disc),
    "polygons": Case("disc rolling as a polygon under an LCP (C figure 1)", polygons),
    "two-spheres": Case("sphere on two spheres (C example 3)", two_spheres),
    "order-five": Case("sphere on two spheres (C example 3), order five", order_five),
}


def reproduce(names: Sequence[str], out: Path, *, quick: bool) -> list[Row]:
    """Runs the cases `names`, printing each one's rows as soon as they are there, and returns all
    rows.

    Writes into the folder `out`: <case>.npz and <case>.csv, the figures, and table.md and table.csv
    with the rows so far. A case in which a step fails yields one row that is out of tolerance, and
    the trajectory up to that step.
    """
    rows = []
    for name in names:
        case = CASES[name]
        print(f"{name}: {case.title}", flush=True)
        try:
            trajectory, found, *others = case.run(quick)
        except StepError as error:
            trajectory, found = error.trajectory, [near(name, "steps lost", "1", 0, 1, 0, source="", basis=str(error))]
            print(error)
        print(*(f"  {line}" for line in table.lines(found)), sep="\n", flush=True)
        rows += found
        trajectory.save(out / f"{name}.npz")
        trajectory.to_csv(out / f"{name}.csv")
        table.write_markdown(rows, out / "table.md")
        table.write_csv(rows, out / "table.csv")
        if len(found) > 1:
            _draw(name, trajectory, *others, out=out, animate=not quick)
    return rows


def _draw(name: str, trajectory: Trajectory, *others: polygon.Study, out: Path, animate: bool) -> None:
    """The figures of a case; importing matplotlib takes a second, so it waits until the rows are
    printed."""
    try:
        from . import figures
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("matplotlib", "PIL"):
            raise
        print("  no figures: matplotlib is not installed. To get them: pip install matplotlib pillow", flush=True)
        return
    paths = figures.draw(name, trajectory, *others, folder=out, animate=animate)
    print("  figures:", ", ".join(path.name for path in paths), flush=True)


def _farthest(values: np.ndarray, reference: float) -> float:
    """The value farthest from the reference; NaN if there is one."""
    return float(values[np.argmax(np.abs(values - reference))])


def _unknowns(case: str, scene: Scene, reference: int, source: str) -> Row:
    size = scene.build()[0].unknown_count
    return near(case, "unknowns a step", "1", reference, size, 0, source=source, basis="a count")


def _quality(case: str, trajectory: Trajectory, steps: int) -> list[Row]:
    """That every step was solved and satisfies the paper's equations, and what that cost."""
    worst = max(float(np.max(violation)) for violation in trajectory.certificate.values())
    iterations = trajectory.stats.iterations
    return [
        near(case, "steps solved", "1", steps, len(trajectory), 0, source="duration / h", basis="a count"),
        near(case, "violation of C(9)-(11), largest of any step", "1", 0.0, worst, CERTIFIED, source="C(9)-(11)",
             basis="the certificate's tolerance"),
        report(case, "Newton iterations a step, mean", "1", float(np.mean(iterations))),
        report(case, "Newton iterations a step, most", "1", int(np.max(iterations))),
    ]  # fmt: skip


def _start_forces(trajectory: Trajectory, answer: exact.TwoSpheres) -> list[Row]:
    """Normal forces at t = 0+. From rest, the first step moves the sphere by a h^2, the exact
    motion by a h^2 / 2."""
    before, after = answer.at([0.0, trajectory.h]).normal_force
    force = trajectory.contacts.normal_impulse[0] / trajectory.h
    return [
        near("two-spheres", f"normal force {i + 1} at the start", "N", before[i], force[i], abs(after[i] - before[i]),
             source="exact, C V-C", basis="change of the exact force in one step")
        for i in (0, 1)
    ]  # fmt: skip


def _events(trajectory: Trajectory, answer: exact.TwoSpheres) -> list[Row]:
    """Each event is in the step that first shows it, and is given the time of this step's end."""
    contacts, h = trajectory.contacts, trajectory.h
    # As solved, a sticking contact slips by less than 1e-12 m/s, and an open one bears less than
    # 1e-10 N. A slip passes 1e-9 m/s, growing as 0.75 t^2, and a normal force falls from 1e-8 N, at
    # some N/s, in a fraction of a step.
    slips, opens = contacts.sigma > 1e-9, contacts.normal_impulse / h < 1e-8
    seen = {"contact 2 slips": slips[:, 1], "contact 1 opens": opens[:, 0], "contact 2 opens": opens[:, 1]}
    ours = {event: trajectory.time[1:][happened][0] if happened.any() else math.nan for event, happened in seen.items()}
    return [
        near("two-spheres", f"{event}, h = {h:g} s", "s", time, ours[event], h, source="exact, C V-C", basis="one step")
        for event, time in answer.events.items()
    ]


def _friction(trajectory: Trajectory) -> list[Row]:
    """C(4) at a sliding contact: sqrt((F_t/e_t)^2 + (F_o/e_o)^2 + (F_r/e_r)^2) = mu N."""
    contacts, load = trajectory.contacts, np.linalg.norm(exact.APPLIED)
    friction = np.linalg.norm(contacts.friction_impulse / exact.ELLIPSOID, axis=2)
    defect = np.abs(friction - exact.MU * contacts.normal_impulse) / trajectory.h / load
    return [
        near("two-spheres", f"|friction {i + 1} - mu N| while sliding, in loads of {load:.2f} N", "1", 0.0,
             float(np.max(defect[contacts.sigma[:, i] > 1e-9, i])), CERTIFIED, source="C(4)",
             basis="the certificate's tolerance")
        for i in (0, 1)
    ]  # fmt: skip


def _first_order(names: Sequence[str], unit: str, reference, coarse, fine) -> list[Row]:
    """A vector at step h. With its values at h and h/2 a first-order error is 2 |coarse - fine|;
    terms of higher order are given half as much again."""
    tolerance = 3.0 * float(np.max(np.abs(coarse - fine)))
    basis = "3 |r(h) - r(h/2)|, largest component: first-order error estimate and a half"
    return [
        near("two-spheres", name, unit, float(a), float(b), tolerance, source="exact, C V-C", basis=basis)
        for name, a, b in zip(names, reference, coarse, strict=True)
    ]


def _convergence(name: str, unit: str, reference, results: dict[float, np.ndarray]) -> list[Row]:
    """Order in h of the largest component's error, and of that of 2 r(h/2) - r(h), which lacks the
    first-order term."""
    steps = np.array(sorted(results, reverse=True))
    values = np.array([results[h] for h in steps])
    extrapolated = 2.0 * values[1:] - values[:-1]
    errors, smaller = (np.max(np.abs(v - reference), axis=1) for v in (values, extrapolated))
    order, second = (np.polyfit(np.log(h), np.log(e), 1)[0] for h, e in ((steps, errors), (steps[:-1], smaller)))
    span = f"h = {steps[0]:g} to {steps[-1]:g} s"
    # The next term of the error shifts the order by about the relative change that one halving of h
    # makes to error/h.
    return [
        at_least("two-spheres", f"order in h of the {name}, {span}", "1", 1.0, order, 0.05, source="implicit Euler",
                 basis="next term of the error, measured 0.01"),
        at_least("two-spheres", "order of its extrapolation 2 r(h/2) - r(h)", "1", 2.0, second, 0.1,
                 source="Richardson", basis="next term of the error, measured 0.01"),
        near("two-spheres", f"{name}, extrapolated, largest error", unit, 0.0, float(smaller[-1]),
             float(np.max(np.abs(extrapolated[-1] - extrapolated[-2]))), source="exact, C V-C",
             basis="3 times the second-order error estimate"),
    ]  # fmt: skip

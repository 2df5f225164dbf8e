"""Error against wall time: every method of this package, adaptive steps, and other simulators, on
four exact solutions.

    python benchmarks/work_precision.py [--only CASE] [--quick] [--figure FILE]

Prints a Markdown table and draws docs/figures/work-precision.png. Every program is compiled and
warm before it is timed, on one core. Times of this package are of `simulate` as a whole, with
building the scene and certifying every step; those of the peers are of stepping alone. Errors are
distances [m] of the body's centre from the exact solution: at the end of the case, and the largest
at the run's own times (of adaptive steps: at `SAMPLES` even times of the dense output).
"""

import argparse
import dataclasses
import functools
import importlib.util
import os
import statistics
import time
from pathlib import Path

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import matplotlib

matplotlib.use("Agg")

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from peers import PEERS

import implicit_stepper as ist
from implicit_stepper.output.plots import COLOURS, styled
from implicit_stepper.paper.comparisons import CASES, METHODS

TITLES = {
    "two-spheres": "example 3: sphere on two spheres, 4 s",
    "ellipsoid": "wobbling ellipsoid, 2 s",
    "ball": "landing ball, 1.2 s",
    "superquadric": "tumbling superquadric, 1.4 s",
}
STEPS = (0.02, 0.01, 0.005, 0.0025, 0.00125)
SAMPLES = 201
# Steppers that choose their steps, and the tolerances `tol` they are run at: the one place to add
# another.
ADAPTIVE = {"radau": ist.RadauContact()}
TOLERANCES = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10)


@dataclasses.dataclass(frozen=True)
class Row:
    """One run: wall times [s] of its repeats, error [m] at the end of the case and the largest [m];
    `comparable`: whether it solved the same problem."""

    case: str
    method: str
    setting: str
    seconds: tuple[float, ...]
    end: float
    largest: float
    comparable: bool = True


def own(case: str, name: str, h: float, repeats: int) -> Row:
    """A method of `METHODS` with steps of h [s]."""
    spec = CASES[case]
    run, seconds = timed(functools.partial(simulated, spec.scene(), METHODS[name], spec.duration, h=h), repeats)
    return row(case, name, f"h = {h:g} s", seconds, run.time, run.position[:, 0])


def adaptive(case: str, name: str, tol: float, repeats: int) -> Row:
    """A stepper of `ADAPTIVE` at a tolerance."""
    spec = CASES[case]
    run, seconds = timed(functools.partial(simulated, spec.scene(), ADAPTIVE[name], spec.duration, tol=tol), repeats)
    times = np.linspace(0.0, spec.duration, SAMPLES)
    setting = f"tol = {tol:.0e}, {len(run)} steps"
    return row(case, name, setting, seconds, times, np.asarray(run.at(times).position)[:, 0])


def peer(case: str, name: str, setting: float, repeats: int) -> Row:
    """Another simulator."""
    other = PEERS[name]
    run = other.run(case, setting, repeats)
    text = f"accuracy = {setting:.0e}" if other.adaptive else f"h = {setting:g} s"
    found = row(case, name, text, run.seconds, run.time, run.position)
    if case in other.unlike:
        return dataclasses.replace(found, setting=f"{text}; {other.unlike[case]}", comparable=False)
    return found


def simulated(scene, stepper, duration, **size):
    return ist.simulate(scene, stepper, duration=duration, progress=False, **size)


def timed(run, repeats: int):
    """What `run` returns, and the wall times [s] of `repeats` runs after one that compiles."""
    run()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = run()
        seconds.append(time.perf_counter() - start)
    return result, tuple(seconds)


def row(case, method, setting, seconds, times, position) -> Row:
    """From positions (n, 3) [m] at `times` (n,) [s]."""
    errors = np.linalg.norm(position - CASES[case].reference(times)[0][:, 0], axis=1)
    return Row(case, method, setting, tuple(seconds), float(errors[-1]), float(np.max(errors)))


def rows_of(case: str, quick: bool):
    """All rows of a case; a run that is refused or fails is named instead, and left out."""
    repeats, some = (2, slice(0, 2)) if quick else (5, slice(None))
    # an impact inside a fixed step of several stages has no solution, so these choose theirs
    plans = [(own, name, h) for name in METHODS if name not in ADAPTIVE for h in STEPS[some]]
    plans += [(adaptive, name, tol) for name in ADAPTIVE for tol in TOLERANCES[some]]
    for name, other in PEERS.items():
        if importlib.util.find_spec("mujoco" if name == "MuJoCo" else "pydrake") is None:
            print(f"{name} is not installed: its rows are left out.", flush=True)
        elif case == "superquadric":
            print(f"{name} has no superquadric: its rows are left out.", flush=True)
        else:
            plans += [(peer, name, setting) for setting in other.settings[some]]
    refused = set()
    for measure, name, setting in plans:
        if name in refused:
            continue
        try:
            yield measure(case, name, setting, repeats)
        except ValueError as refusal:  # of the scene, whatever the step
            refused.add(name)
            print(f"{case}, {name}: {refusal}", flush=True)
        except (ist.StepError, RuntimeError) as failure:
            print(f"{case}, {name}, {setting:g}: {str(failure)[:200]}", flush=True)


def table(rows) -> str:
    """Markdown."""
    lines = ["| case | method | setting | wall time [s], median (range) | error at the end [m] | largest error [m] |"]
    lines.append("|---|---|---|---|---|---|")
    for r in rows:
        wall = f"{statistics.median(r.seconds):.3g} ({min(r.seconds):.3g} to {max(r.seconds):.3g})"
        lines.append(f"| {r.case} | {r.method} | {r.setting} | {wall} | {r.end:.1e} | {r.largest:.1e} |")
    return "\n".join(lines)


@styled
def figure(rows) -> Figure:
    """Largest error against median wall time, a panel a case, of the runs that solved it."""
    cases = list(dict.fromkeys(r.case for r in rows))
    picture = Figure(figsize=(10.0, 7.6), layout="constrained")
    panels = picture.subplots(2, 2, squeeze=False).flat
    looks = _looks()
    for axes, case in zip(panels, cases, strict=False):
        for method, look in looks.items():
            found = [r for r in rows if (r.case, r.method) == (case, method) and r.comparable]
            points = [(statistics.median(r.seconds), r.largest) for r in found]
            if points:
                axes.loglog(*zip(*points, strict=True), **look, label=method)
        axes.set(title=TITLES[case], xlabel="wall time [s]", ylabel="largest position error [m]")
        axes.margins(0.05)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_formatter(NullFormatter())  # powers of ten are enough
    for axes in picture.axes[len(cases) :]:
        axes.remove()
    handles = {
        label: handle for axes in picture.axes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    shown = [method for method in looks if method in handles]
    picture.legend([handles[m] for m in shown], [_label(m) for m in shown], loc="outside right upper", title="method")
    return picture


def _looks():
    """By method: fixed steps thin and solid, adaptive steps thick and black, other simulators
    dashed."""
    marks = "osD^vPX*"
    looks = {
        name: {"color": COLOURS[i % len(COLOURS)], "marker": marks[i % 8], "markersize": 4.0, "linewidth": 1.1}
        for i, name in enumerate(name for name in METHODS if name not in ADAPTIVE)
    }
    looks |= {name: {"color": "black", "marker": "o", "markersize": 5.0, "linewidth": 2.2} for name in ADAPTIVE}
    for i, name in enumerate(PEERS):
        looks[name] = {
            "color": COLOURS[i % len(COLOURS)],
            "marker": marks[-1 - i],
            "linestyle": (0, (4, 2)),
            "linewidth": 1.6,
        }
    return looks


def _label(method: str) -> str:
    return f"{method}, by tol" if method in ADAPTIVE else method


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(TITLES), help="one case")
    parser.add_argument("--quick", action="store_true", help="two settings a method, two repeats")
    default = Path(__file__).parent.parent / "docs" / "figures" / "work-precision.png"
    parser.add_argument("--figure", type=Path, default=default, help="where the picture goes")
    arguments = parser.parse_args()
    rows = []
    for case in [arguments.only] if arguments.only else TITLES:
        rows += rows_of(case, arguments.quick)
        print("\n" + table([r for r in rows if r.case == case]) + "\n", flush=True)
    figure(rows).savefig(arguments.figure, dpi=150)


if __name__ == "__main__":
    main()

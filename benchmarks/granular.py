"""Heaps and a hopper by every method: the angle of repose, and how fast bodies leave an outlet.

    python benchmarks/granular.py repose [--seeds 0 1 2] [--methods implicit ...] [--kept FILE]
    python benchmarks/granular.py hopper [--seeds 0 1 2] [--methods implicit ...] [--kept FILE]

Both are in the plane, where sixty bodies make a heap of five layers, and in space one of fewer.
Discs have radii of 3.5 to 5 cm and 64 kg/m^2, and pairs are found step by step. Discs roll for ever
on a line, so the heap's floor is a row of fixed discs, 1 cm apart from each other.

*repose*: a column of discs collapses. The angle is that of the triangle whose points lie as high
above its base, and as far from its middle, as the discs do in the mean; all discs count, those that
lie loose at its foot too. *hopper*: discs settle between two inclined rows of fixed discs on a
gate, by the implicit method, and all methods begin there, at rest, without the gate.

Prints a Markdown table for docs/benchmarks.md and draws docs/figures/granular-*.png. Rows are
written to a file of JSON lines as they are done, and those in it are not run again.
"""

import argparse
import itertools
import json
import os
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import matplotlib

matplotlib.use("Agg")

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle

import implicit_stepper as ist
import shapes
from implicit_stepper.output.plots import COLOURS, DARK, styled

H, DENSITY, LARGEST = 0.005, 64.0, 0.05  # [s], [kg/m^2], [m], the largest radius
PRESSES = 1e-6  # [N s]; a disc weighs .02 N s a step
METHODS = {
    "implicit": (ist.GeometricallyImplicit(jacobian="sparse"), 1e-10),
    "cone complementarity": (ist.ConeComplementarity(tolerance=1e-6, max_iterations=100_000), 1e-4),
    "convex": (ist.Convex(scheme="symplectic"), 1e-9),
}
# of the heap: discs, side by side, steps, fixed discs and their distance [m]
HEAP, ACROSS, HEAP_STEPS, FLOOR, APART = 60, 7, 260, 40, 0.11
# of the hopper: discs, steps on the gate and without, outlet [m], inclination [rad] and discs of
# walls
GRAINS, FILLING, FLOWING, OUTLET, STEEP, WALL = 60, 120, 160, 0.4, np.pi / 3, 25
MANY, WATCHED, PICTURE = (5, 35), 0.5, 0.4  # discs between which the rate is counted; [s]
FRICTIONS = {"repose": (0.3, 0.6), "hopper": (0.5,)}
FIGURES = Path(__file__).parents[1] / "docs/figures"


def radii(count, seed):
    """Of the discs [m]."""
    return LARGEST * np.random.default_rng(seed).uniform(0.7, 1.0, count)


def with_discs(places, seed):
    """A scene of discs, without what holds them."""
    scene = ist.Scene(dimension=2)
    for number, (place, radius) in enumerate(zip(places, radii(len(places), seed), strict=True)):
        scene.add_body(name=f"disc {number}", shape=shapes.Disc(radius), density=DENSITY, position=place)
    return scene


def grid(count, across, lowest, seed):
    """Places (count, 2) [m] in rows above each other, every second one moved aside."""
    row, column = np.divmod(np.arange(count), across)
    places = np.stack([column - (across - 1) / 2 + 0.2 * (row % 2 - 0.5), row], axis=1) * 2.08 * LARGEST
    return places + (0, lowest) + np.random.default_rng(seed + 100).uniform(-0.001, 0.001, (count, 2))


def floor():
    """The centres [m] of the fixed discs below a heap."""
    return np.stack([(np.arange(FLOOR) - (FLOOR - 1) / 2) * APART, np.zeros(FLOOR)], axis=1)


def column(mu, seed):
    """A column of discs that nothing holds, on a floor of fixed discs."""
    scene = with_discs(grid(HEAP, ACROSS, 2.2 * LARGEST, seed), seed)
    for number, place in enumerate(floor()):
        scene.add_fixed(name=f"fixed {number}", shape=shapes.Disc(LARGEST), position=place)
    scene.add_contacts(friction=mu)
    return scene


def walls():
    """The centres [m] of the fixed discs that make the hopper's walls, between whose lowest ones
    the outlet is open."""
    along = np.arange(WALL) * LARGEST
    right = np.stack([OUTLET / 2 + LARGEST + along * np.cos(STEEP), along * np.sin(STEEP)], axis=1)
    return np.concatenate([right, right * (-1, 1)])


def hopper(mu, seed, places=None):
    """Discs at rest at the given places of a hopper, or above its gate."""
    filling = places is None
    scene = with_discs(grid(GRAINS, 8, 0.45, seed) if filling else places, seed)
    for number, place in enumerate(walls()):
        scene.add_fixed(name=f"fixed {number}", shape=shapes.Disc(LARGEST), position=place)
    if filling:
        scene.add_fixed(name="gate", shape=shapes.HalfPlane(normal=(0, 1), offset=0.0))
    scene.add_contacts(friction=mu)
    return scene


def run_by(method, scene, steps):
    """The trajectory, as far as it comes."""
    stepper, allowed = METHODS[method]
    wanted = {"certificate_tolerance": allowed, "on_failure": "return", "progress": False}
    return ist.simulate(scene, stepper, h=H, duration=steps * H, **wanted)


def triangle(places, sizes):
    """Of a heap of discs [m]: its middle, lowest point, half width and height; points of the
    triangle lie as high above its base, and as far from its middle, as the discs in the mean."""
    lowest, middle = np.min(places[:, 1] - sizes), np.mean(places[:, 0])
    return middle, lowest, 3 * np.mean(np.abs(places[:, 0] - middle)), 3 * (np.mean(places[:, 1]) - lowest)


def angle(places, sizes):
    """Of that triangle [deg]."""
    _, _, width, height = triangle(places, sizes)
    return float(np.degrees(np.arctan(height / width)))


def heap(run, seed):
    """What a heap is, as a dictionary."""
    places, sizes = run.position[-1], radii(HEAP, seed)
    height = np.max(places[:, 1] + sizes) - np.min(places[:, 1] - sizes)
    return {
        "angle": angle(places, sizes), "before": angle(run.position[max(len(run) - 40, 0)], sizes),
        "steepness": float(2 * height / np.diff(np.quantile(places[:, 0], (0.05, 0.95)))[0]),
        "slow": float(np.median(np.linalg.norm(run.velocity[-1, :, :2], axis=1))),
        "places": places.round(4).tolist(),
    }  # fmt: skip


def flow(run):
    """How many discs are below the outlet after every step, by their centres, and where once."""
    return {
        "left": np.sum(run.position[..., 1] < 0, axis=1).tolist(),
        "places": run.position[min(len(run), round(PICTURE / H))].round(4).tolist(),
    }


def gaps(run, seed, fixed):
    """The least gap [m] of all discs after any step, and the largest of those that pressed in it,
    from the positions alone: what a run records of closest points is not asked."""
    count = run.position.shape[1]
    places = np.concatenate([run.position[1:], np.broadcast_to(fixed, (len(run), *fixed.shape))], axis=1)
    sizes = np.concatenate([radii(count, seed), np.full(len(fixed), LARGEST)])
    apart = np.linalg.norm(run.position[1:, :, None] - places[:, None], axis=-1) - sizes[:count, None] - sizes
    apart[:, np.arange(count), np.arange(count)] = np.inf
    numbers = [[int(name.split()[1]) + count * name.startswith("fixed") for name in pair] for pair in run.contact_names]
    first, second = np.sort(numbers, axis=1).T
    return float(np.min(apart)), float(np.max(apart[:, first, second][run.contacts.normal_impulse > PRESSES], initial=0.0))


def measured(test, method, mu, seed, places):
    """A row as a dictionary."""
    scene = column(mu, seed) if test == "repose" else hopper(mu, seed, places)
    steps = HEAP_STEPS if test == "repose" else FLOWING
    begun = time.process_time()
    run = run_by(method, scene, steps)
    spent = (time.process_time() - begun) / max(len(run), 1)
    least, apart = gaps(run, seed, floor() if test == "repose" else walls())
    return {
        "test": test, "method": method, "mu": mu, "seed": seed, "bodies": run.position.shape[1], "steps": len(run),
        "asked": steps, "seconds": spent, "overlap": max(-least, 0.0), "apart": apart,
        "residual": float(max(np.max(values) for values in run.certificate.values())),
        **(heap(run, seed) if test == "repose" else flow(run)),
    }  # fmt: skip


def spread(values, digits=1):
    """The mean of the runs +- their standard deviation."""
    return f"{np.mean(values):.{digits}f} +- {np.std(values, ddof=1) if len(values) > 1 else 0:.{digits}f}"


def rate(row):
    """Discs a second, from the fifth that leaves to the 35th; NaN where so many do not."""
    first, last = np.searchsorted(row["left"], MANY)
    return (MANY[1] - MANY[0]) / ((last - first) * H) if last < len(row["left"]) else float("nan")


def results(test, own):
    """The cells of a line that one test has alone."""
    if test == "repose":
        moved = np.max([abs(row["angle"] - row["before"]) for row in own])
        steep = spread([row["steepness"] for row in own], 2)
        return [spread([row["angle"] for row in own]), f"{moved:.1f}", steep]
    out = [row["left"][min(round(WATCHED / H), len(row["left"]) - 1)] for row in own]
    return [spread(out), spread([rate(row) for row in own])]


TITLES = {
    "repose": ["angle [deg]", "in the last .2 s [deg]", "height/half width"],
    "hopper": [f"discs out after {WATCHED} s", "discs a second"],
}


def table(test, rows):
    """For docs/benchmarks.md: a line for each method and coefficient, over all seeds."""
    titles = ["method", "mu", "discs", "runs", "steps solved", *TITLES[test]]
    titles += ["largest overlap [m]", "largest gap that presses [m]", "residual", "CPU ms a step"]
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for mu, method in itertools.product(FRICTIONS[test], METHODS):
        own = [row for row in rows if (row["test"], row["method"], row["mu"]) == (test, method, mu)]
        if own:
            steps = f"{sum(row['steps'] for row in own)} of {sum(row['asked'] for row in own)}"
            worst = [f"{max(row[name] for row in own):.0e}" for name in ("overlap", "apart", "residual")]
            cells = [method, mu, own[0]["bodies"], len(own), steps, *results(test, own), *worst]
            lines.append("| " + " | ".join(map(str, cells)) + f" | {1e3 * np.median([r['seconds'] for r in own]):.0f} |")
    return "\n".join(lines)


def draw_discs(axes, places, sizes, colour):
    """Discs as they lie [m]."""
    for place, size in zip(places, np.broadcast_to(sizes, len(places)), strict=True):
        axes.add_patch(Circle(place, size, facecolor=colour, edgecolor="white", linewidth=0.4))


@styled
def draw_heaps(rows, path):
    """The first seed's heaps: a row of pictures for each method, a column for each mu."""
    own = {(row["method"], row["mu"]): row for row in rows if row["test"] == "repose" and row["seed"] == 0}
    figure = Figure(figsize=(8.0, 4.3), layout="constrained")
    panels = figure.subplots(len(METHODS), len(FRICTIONS["repose"]), sharex=True, sharey=True, squeeze=False)
    for colour, method, line in zip(COLOURS, METHODS, panels, strict=False):
        for mu, axes in zip(FRICTIONS["repose"], line, strict=True):
            draw_discs(axes, floor(), LARGEST, "0.75")
            axes.set(aspect="equal", xlim=(-1.3, 1.3), ylim=(-0.06, 0.6), title=f"{method}, mu = {mu}")
            axes.grid(False)
            if (method, mu) in own:
                row, sizes = own[method, mu], radii(HEAP, 0)
                draw_discs(axes, np.array(row["places"]), sizes, colour)
                middle, lowest, width, height = triangle(np.array(row["places"]), sizes)
                axes.plot(middle + width * np.array([-1, 0, 1]), lowest + height * np.array([0, 1, 0]), color=DARK, lw=0.9)
                axes.text(0.98, 0.85, f"{row['angle']:.1f} deg", transform=axes.transAxes, ha="right")
    figure.supxlabel("x [m]")
    figure.supylabel("y [m]")
    figure.savefig(path, dpi=110)


@styled
def draw_hopper(rows, path):
    """The first seed's discs on their way by the implicit method, and how many left by each."""
    figure = Figure(figsize=(8.0, 3.8), layout="constrained")
    scene, counts = figure.subplots(1, 2, width_ratios=(1, 1.2))
    draw_discs(scene, walls(), LARGEST, "0.75")
    for row in (row for row in rows if row["test"] == "hopper"):
        first, colour = row["seed"] == 0, COLOURS[list(METHODS).index(row["method"])]
        label = row["method"] if first else None
        counts.step(H * np.arange(len(row["left"])), row["left"], where="post", color=colour, lw=1.2, label=label)
        if first and row["method"] == "implicit":
            draw_discs(scene, np.array(row["places"]), radii(GRAINS, 0), colour)
    scene.set(aspect="equal", xlim=(-1.0, 1.0), ylim=(-0.9, 1.0), xlabel="x [m]", ylabel="y [m]")
    scene.set_title(f"implicit, {PICTURE} s after the gate opened")
    scene.grid(False)
    counts.set(xlabel="time [s]", ylabel="discs below the outlet", title="three fillings by each method")
    counts.legend(loc="upper left")
    figure.savefig(path, dpi=110)


def run_all(test, methods, seeds, kept):
    """All rows, of which those that are not kept yet are run; each seed's hopper is filled once."""
    rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    done, filled = {(row["test"], row["method"], row["mu"], row["seed"]) for row in rows}, {}
    for seed, mu, method in itertools.product(seeds, FRICTIONS[test], methods):
        if (test, method, mu, seed) in done:
            continue
        if test == "hopper" and seed not in filled:
            filled[seed] = run_by("implicit", hopper(mu, seed), FILLING).position[-1]
        rows.append(measured(test, method, mu, seed, filled.get(seed)))
        with kept.open("a") as file:
            file.write(json.dumps(rows[-1]) + "\n")
    return rows


def main():
    """The table and the figure that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("test", choices=list(FRICTIONS))
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--methods", nargs="*", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--kept", type=Path, default=Path("granular.jsonl"))
    asked = parser.parse_args()
    rows = run_all(asked.test, asked.methods, asked.seeds, asked.kept)
    print(table(asked.test, rows))
    {"repose": draw_heaps, "hopper": draw_hopper}[asked.test](rows, FIGURES / f"granular-{asked.test}.png")


if __name__ == "__main__":
    main()

"""What a step of a settling pile costs against the number of bodies, under our method, under our
cone complementarity, and in MuJoCo and Drake, each at its own accuracy.

    python benchmarks/scaling.py [--counts 10 30 100 ...] [--methods ours ...] [--kept FILE]

The pile is that of `piles.py`: spheres of 10 cm and .5 kg that fall into a bin and settle, mu = .3,
100 steps of 5 ms. Prints a Markdown table for docs/benchmarks.md and draws
docs/figures/scaling.png. Costs are CPU seconds a step of one process with one thread of BLAS, in
the mean of the steps in which nothing was compiled. The largest overlap is that of all spheres and
planes after any step, from the positions alone; the residual is that of the method's own equations,
dimensionless, as its certificate finds it after the step: ours may be 1e-8. Methods run one after
another for each number of bodies. Rows are written to a file of JSON lines as they are done, and
those in it are not run again.
"""

import argparse
import functools
import json
import os
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import jax
import matplotlib

matplotlib.use("Agg")

import numpy as np
import pile_peers
from matplotlib.figure import Figure
from piles import H, pile, planes
from scipy.spatial import cKDTree

import implicit_stepper as ist
from implicit_stepper.many_bodies import lagged_steps
from implicit_stepper.many_bodies.advance import Settings, advance
from implicit_stepper.many_bodies.catalog import catalog
from implicit_stepper.many_bodies.certificate import worst_of
from implicit_stepper.many_bodies.step import no_memory
from implicit_stepper.output.plots import COLOURS, styled

MU, STEPS, RADIUS, MASS = 0.3, 100, 0.05, 0.5
COUNTS = (10, 30, 100, 300, 1000)
HEADER = "| bodies | method | CPU ms a step | of ours | largest overlap [m] | residual | steps solved | timed |"
NAMES = {"ours": "ours, every step certified", "ccp": "our cone complementarity", "mujoco": "MuJoCo", "drake": "Drake SAP"}
FIGURE = Path(__file__).parents[1] / "docs/figures/scaling.png"


class Compiling:
    """Counts the programs that JAX compiles or loads."""

    def __init__(self):
        self.programs = 0
        jax.monitoring.register_event_duration_secs_listener(self._heard)

    def _heard(self, name, *_, **__):
        self.programs += name.startswith("/jax/core/compile/")


def of_ours(take):
    """A method of the package, as the others are, by the function `take` of (catalog, system,
    state, memory, h)."""

    def run(scene, compiling):
        system, state = scene.build(contacts=False)
        known = catalog(system, scene.body_parts(), scene.body_pairs())
        state, memory = jax.tree.map(np.asarray, state), no_memory()
        positions, seconds, worst = [state.position], [], 0.0
        for _ in range(STEPS):
            begun, before = time.process_time(), compiling.programs
            done = take(known, system, state, memory, H)
            spent = time.process_time() - begun
            if done.result != ist.Result.SOLVED:
                break
            if compiling.programs == before:
                seconds.append(spent)
            state, memory, worst = done.state, done.memory, max(worst, worst_of(done.certificate))
            positions.append(state.position)
        return np.array(positions), np.array(seconds), worst

    return run


def of_peer(peer):
    """A method of another simulator."""

    def run(scene, _):
        _, state = scene.build(contacts=False)
        count = len(state.position)
        positions, seconds = peer(state, [(RADIUS, MASS)] * count, planes(count, "spheres"), MU, H, STEPS)
        return positions, seconds, float("nan")

    return run


# what a step of ours may violate, and what a certified one
TOLERANCE, CERTIFIED = 1e-8, 1e-7
OURS = functools.partial(advance, settings=Settings("projection", TOLERANCE, 40, CERTIFIED))
CONES = functools.partial(lagged_steps.advance, ist.ConeComplementarity(tolerance=1e-6, max_iterations=100_000), 1e-4)
METHODS = {
    "ours": of_ours(OURS),
    "ccp": of_ours(CONES),
    "mujoco": of_peer(pile_peers.mujoco),
    "drake": of_peer(pile_peers.drake),
}


def overlap(positions, walls):
    """The largest [m] of spheres and planes after any step, by a search of its own."""
    worst = 0.0
    for centres in positions[1:]:
        for normal, offset in walls:
            worst = max(worst, float(np.max(RADIUS + offset - centres @ np.array(normal))))
        pairs = cKDTree(centres).query_pairs(2 * RADIUS, output_type="ndarray")
        if len(pairs):
            apart = np.linalg.norm(centres[pairs[:, 0]] - centres[pairs[:, 1]], axis=1)
            worst = max(worst, float(np.max(2 * RADIUS - apart)))
    return worst


def measured(method, count, compiling):
    """A row as a dictionary."""
    scene = pile(count, "spheres", MU)
    positions, seconds, residual = METHODS[method](scene, compiling)
    return {
        "bodies": count, "method": method, "seconds": float(np.mean(seconds)), "timed": len(seconds),
        "overlap": overlap(positions, planes(count, "spheres")), "residual": residual, "steps": len(positions) - 1,
    }  # fmt: skip


def exponent(rows):
    """The slope of cost against bodies in log-log, from the least to the largest number."""
    first, last = rows[0], rows[-1]
    return float(np.log(last["seconds"] / first["seconds"]) / np.log(last["bodies"] / first["bodies"]))


def table(rows):
    """For docs/benchmarks.md."""
    lines, ours = [HEADER, "|" + "---|" * 8], {row["bodies"]: row["seconds"] for row in rows if row["method"] == "ours"}
    for row in sorted(rows, key=lambda row: (row["bodies"], list(METHODS).index(row["method"]))):
        ratio = f"{row['seconds'] / ours[row['bodies']]:.2g}" if row["bodies"] in ours else ""
        residual = "" if np.isnan(row["residual"]) else f"{row['residual']:.0e}"
        lines.append(
            f"| {row['bodies']} | {NAMES[row['method']]} | {1e3 * row['seconds']:.3g} | {ratio} | {row['overlap']:.0e} | "
            f"{residual} | {row['steps']} | {row['timed']} |"
        )
    return "\n".join(lines)


@styled
def draw(rows, path):
    """Cost against the number of bodies."""
    figure = Figure(figsize=(6.0, 5.2), layout="constrained")
    axes = figure.subplots()
    for colour, method in zip(COLOURS, METHODS, strict=False):
        own = sorted((row for row in rows if row["method"] == method), key=lambda row: row["bodies"])
        if not own:
            continue
        worst = max(row["overlap"] for row in own)
        slope = f"n^{exponent(own):.2f}, " if len(own) > 1 else ""
        label = f"{NAMES[method]}: {slope}overlap up to {worst:.0e} m"
        axes.loglog([r["bodies"] for r in own], [1e3 * r["seconds"] for r in own], "o-", color=colour, label=label)
    axes.set(xlabel="bodies n", ylabel="CPU time of a step [ms]", title="A pile of spheres that settles, h = 5 ms")
    axes.margins(0.06)
    figure.legend(fontsize=8, loc="outside lower center")
    figure.savefig(path, dpi=150)


def main():
    """All rows that are asked for and not kept yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", type=int, nargs="*", default=COUNTS)
    parser.add_argument("--methods", nargs="*", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--kept", type=Path, default=Path("scaling.jsonl"))
    parser.add_argument("--figure", type=Path, default=FIGURE)
    asked = parser.parse_args()
    rows = [json.loads(line) for line in asked.kept.read_text().splitlines()] if asked.kept.exists() else []
    compiling = Compiling()
    for count in asked.counts:
        for method in asked.methods:
            if any((row["bodies"], row["method"]) == (count, method) for row in rows):
                continue
            rows.append(measured(method, count, compiling))
            with asked.kept.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
            print(table(rows[-1:]).splitlines()[-1], flush=True)
    print("\n" + table(rows))
    draw(rows, asked.figure)


if __name__ == "__main__":
    main()

"""What a step of a pile costs, and how many steps are lost, against the number of bodies.

    python benchmarks/piles.py [spheres|mixed] [bodies ...]
    python benchmarks/piles.py through KIND BODIES MU STEPS FOLDER [TOLERANCE [SPEED]]
    python benchmarks/piles.py bed SIDE LAYERS MU STEPS [TOLERANCE]
    python benchmarks/piles.py rolls SIDE STEPS

Bodies fall into a bin of five planes and settle; every two may touch, and pairs are found step by
step. Prints a Markdown table for docs/benchmarks.md: milliseconds of CPU a step, after the programs
are compiled. `through` takes one pile as far as it comes, with a row of the table for every ten
steps, and writes every step to the folder, from which the same command goes on if it was stopped.
`bed` lays SIDE x SIDE spheres on a floor between four walls that touch them, LAYERS deep, each in
the hollow of four, and tells how they stand. `rolls` lets one sphere roll towards SIDE x SIDE that
stand, and tells what steps cost with islands apart and all together. The tolerance is 1e-11, and of
the certificate ten times that (of `rolls` both 1e-10); SPEED [m/s] is that of all bodies downwards
at the start.
"""

import itertools
import json
import os
import pathlib
import pickle
import resource
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax
import numpy as np

import implicit_stepper as ist
import shapes
from implicit_stepper.many_bodies import islands
from implicit_stepper.many_bodies.advance import Settings, advance
from implicit_stepper.many_bodies.catalog import catalog
from implicit_stepper.many_bodies.step import lasting, no_memory

H, TOLERANCE = 0.005, 1e-11
KINDS = {
    "spheres": (0.11, [shapes.Sphere(0.05)]),
    "mixed": (
        0.13,
        [
            shapes.Sphere(0.05),
            shapes.Box((0.04, 0.03, 0.035)),
            shapes.Ellipsoid((0.05, 0.04, 0.045)),
            shapes.Cylinder(0.035, 0.03),
        ],
    ),
}


def across(count):
    """How many of `count` bodies stand side by side."""
    return max(1, int(np.ceil((count / 2) ** (1 / 3))))


def planes(count, kind):
    """The unit normals and offsets [m] of the bin's five planes."""
    reach = -(KINDS[kind][0] / 2 * across(count) + 0.03)
    return ((0, 0, 1), 0.0), *(((x, y, 0), reach) for x, y in ((1, 0), (-1, 0), (0, 1), (0, -1)))


def pile(count, kind, mu, speed=0.0):
    """A scene of `count` bodies in layers above the floor of a bin, which fall at `speed` [m/s]."""
    scene, rng, side = ist.Scene(), np.random.default_rng(0), across(count)
    width, kinds = KINDS[kind]
    cells = sorted(itertools.product(range(side), range(side), range(count)), key=lambda cell: cell[2])[:count]
    for number, cell in enumerate(cells):
        place = (np.array(cell) - [(side - 1) / 2, (side - 1) / 2, 0]) * width + [0, 0, 0.07] + rng.uniform(-0.004, 0.004, 3)
        turn = rng.normal(size=4)
        shape = kinds[number % len(kinds)]
        begins = {"position": place, "quaternion": turn / np.linalg.norm(turn), "velocity": (0, 0, -speed, 0, 0, 0)}
        scene.add_body(name=f"b{number}", shape=shape, mass=0.5, **begins)
    for normal, offset in planes(count, kind):
        scene.add_fixed(name=f"plane {normal}", shape=shapes.HalfSpace(normal=normal, offset=offset))
    scene.add_contacts(friction=mu)
    return scene


def row(count, kind, mu, steps):
    """A line of the table."""
    scene, stepper = pile(count, kind, mu), ist.GeometricallyImplicit(jacobian="sparse", tolerance=TOLERANCE)
    # compiles most of what the run calls
    ist.simulate(scene, stepper, h=H, duration=8 * H, progress=False)
    begun = time.process_time()
    run = ist.simulate(scene, stepper, h=H, duration=steps * H, on_failure="return")
    spent = (time.process_time() - begun) / max(len(run), 1) * 1e3
    its, worst = run.stats.iterations, max(np.max(v) for v in run.certificate.values())
    lost = "none" if len(run) == steps else f"at step {len(run) + 1}"
    touching = int(np.sum(run.contacts.normal_impulse[-1] > 0))
    its = f"{its.mean():.1f} ({np.percentile(its, 95):.0f}, {its.max()})"
    other = int(np.sum(run.stats.rung > 0))
    return f"| {count} {kind} | {mu} | {len(run)} | {touching} | {spent:.0f} | {its} | {other} | {lost} | {worst:.0e} |"


def settings(tolerance):
    """Those of a step."""
    return Settings("projection", tolerance, 40, 10 * tolerance)


def through(kind, count, mu, steps, folder, tolerance, speed=0.0):
    """Takes a pile through so many steps, or on from those in `folder`; prints its table."""
    folder.mkdir(parents=True, exist_ok=True)
    told, kept = folder / "steps.jsonl", folder / "state.pickle"
    scene = pile(count, kind, mu, speed)
    system, state = scene.build(contacts=False)
    known = catalog(system, scene.body_parts(), scene.body_pairs())
    done, state, memory = 0, jax.tree.map(np.asarray, state), no_memory()
    if kept.exists():
        done, state, memory = pickle.loads(kept.read_bytes())
    for number in range(done + 1, steps + 1):
        begun = time.process_time()
        step = advance(known, system, state, memory, H, settings(tolerance))
        state, memory = step.state, step.memory
        own = {
            "step": number,
            "result": step.result.name,
            "touching": int(np.sum(step.contacts.normal_impulse > 0)),
            "iterations": step.iterations,
            "rung": step.rung,
            "substeps": step.substeps,
            "violation": max(float(np.max(v, initial=0.0)) for v in step.certificate.values()),
            "gap": float(np.min(step.contacts.gap, initial=0.0)),
            "cpu": time.process_time() - begun,
            "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
            "fastest": float(np.max(np.linalg.norm(state.velocity[:, :3], axis=1))),
        }
        with told.open("a") as file:
            file.write(json.dumps(own) + "\n")
        if step.result != ist.Result.SOLVED:
            break
        part = kept.with_suffix(".part")
        part.write_bytes(pickle.dumps((number, state, lasting(memory))))
        part.replace(kept)
    rows = [json.loads(line) for line in told.read_text().splitlines()]
    print("| steps | contacts | iterations (95 %, most) | CPU s a step | violation | least gap [m] | fastest [m/s] |"
          " other starts | halved | lost | GiB |\n" + "|---" * 11 + "|")  # fmt: skip
    for first in range(0, len(rows), 10):
        print(tens(rows[first : first + 10]))


def bed(side, layers, mu):
    """A scene of spheres at rest: layers of `side` x `side` and of one less, in turn."""
    scene, (ball,) = ist.Scene(), KINDS["spheres"][1]
    radius = 0.05
    across, up = 2.02 * radius, radius * np.sqrt(4 - 2.02**2 / 2)
    for layer in range(layers):
        row = across * (np.arange(side - layer % 2) - (side - layer % 2 - 1) / 2)
        for x, y in itertools.product(row, row):
            scene.add_body(name=f"{layer} {x:.3f} {y:.3f}", shape=ball, mass=0.5, position=(x, y, radius + layer * up))
    reach = -across * (side - 1) / 2 - radius
    for normal, offset in ((0, 0, 1), 0.0), *(((x, y, 0), reach) for x, y in ((1, 0), (-1, 0), (0, 1), (0, -1))):
        scene.add_fixed(name=f"plane {normal}", shape=shapes.HalfSpace(normal=normal, offset=offset))
    scene.add_contacts(friction=mu)
    return scene


def stands(side, layers, mu, steps, tolerance):
    """Prints how a bed stands: its first step, and the others."""
    scene = bed(side, layers, mu)
    system, start = scene.build(contacts=False)
    known = catalog(system, scene.body_parts(), scene.body_pairs())
    state = start = jax.tree.map(np.asarray, start)
    memory, done, spent = no_memory(), [], []
    for _ in range(steps):
        begun = time.process_time()
        done.append(advance(known, system, state, memory, H, settings(tolerance)))
        spent.append(time.process_time() - begun)
        state, memory = done[-1].state, done[-1].memory
        if done[-1].result != ist.Result.SOLVED:
            break
    count, its = len(start.position), [step.iterations for step in done]
    drift, gib = np.max(np.abs(state.position - start.position)), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    worst = max(float(np.max(v, initial=0.0)) for step in done for v in step.certificate.values())
    print("| spheres | layers | mu | steps | contacts | first: Jacobians, CPU s | others: most, CPU s | violation |"
          " drift [m] | GiB |\n" + "|---" * 10 + "|")  # fmt: skip
    print(
        f"| {count} | {layers} | {mu} | {sum(s.result == ist.Result.SOLVED for s in done)} of {steps} | "
        f"{np.sum(done[-1].contacts.normal_impulse > 0)} | {its[0]}, {spent[0]:.0f} | {max(its[1:], default=0)}, "
        f"{np.mean(spent[1:]):.2f} | {worst:.0e} | {drift:.0e} | {gib:.1f} |"
    )


def rolling(side):
    """A scene of one sphere that rolls towards others that stand beside each other."""
    scene, (ball,), radius = ist.Scene(), KINDS["spheres"][1], 0.05
    for i, j in itertools.product(range(side), range(side)):
        scene.add_body(name=f"{i} {j}", shape=ball, mass=0.5, position=(2.002 * radius * i, 2.002 * radius * j, radius))
    begins = {"position": (-1.5, 0.3, radius), "velocity": (0.5, 0, 0, 0, 0.5 / radius, 0)}
    scene.add_body(name="rolls", shape=ball, mass=0.5, **begins)
    scene.add_fixed(name="floor", shape=shapes.HalfSpace(normal=(0, 0, 1)))
    scene.add_contacts(friction=0.3)
    return scene


def rolls(side, steps):
    """Prints what a step costs, with islands and without, in turn."""
    scene, stepper = rolling(side), ist.GeometricallyImplicit(jacobian="sparse", tolerance=1e-10)
    apart, spent = islands.islands, {True: [], False: []}
    print("| spheres | islands apart [ms a step] | all together [ms a step] | Jacobians a step |\n" + "|---" * 4 + "|")
    ist.simulate(scene, stepper, h=H, duration=8 * H, progress=False)
    for own in 3 * (True, False):
        islands.islands = apart if own else lambda problem: None
        begun = time.process_time()
        run = ist.simulate(scene, stepper, h=H, duration=steps * H, progress=False)
        spent[own].append((time.process_time() - begun) / steps * 1e3)
    median, low, high = ({own: f"{f(ms):.0f}" for own, ms in spent.items()} for f in (np.median, min, max))
    cells = (f"{median[own]} ({low[own]} to {high[own]})" for own in (True, False))
    print(f"| {side**2 + 1} | {' | '.join(cells)} | {run.stats.iterations.mean():.1f} |")


def tens(rows):
    """A line of the table of `through`."""

    def of(name):
        return np.array([row[name] for row in rows])

    its, lost = of("iterations"), int(np.sum(of("result") != "SOLVED"))
    its = f"{its.mean():.1f} ({np.percentile(its, 95):.0f}, {its.max()})"
    return (
        f"| {rows[0]['step']} to {rows[-1]['step']} | {of('touching')[-1]} | {its} | {of('cpu').mean():.2f} | "
        f"{of('violation').max():.0e} | {of('gap').min():.0e} | {of('fastest').max():.2f} | {np.sum(of('rung') > 0)} | "
        f"{np.sum(of('substeps') > 1)} | {lost} | {of('gib').max():.2f} |"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["through"]:
        kind, count, mu, steps, folder, *more = sys.argv[2:]
        through(kind, int(count), float(mu), int(steps), pathlib.Path(folder), *map(float, more or [TOLERANCE]))
        sys.exit()
    if sys.argv[1:2] == ["bed"]:
        side, layers, mu, steps, *tolerance = sys.argv[2:]
        stands(int(side), int(layers), float(mu), int(steps), *map(float, tolerance or [TOLERANCE]))
        sys.exit()
    if sys.argv[1:2] == ["rolls"]:
        rolls(*map(int, sys.argv[2:]))
        sys.exit()
    kind = sys.argv[1] if len(sys.argv) > 1 else "spheres"
    counts = [int(word) for word in sys.argv[2:]] or [10, 30, 100, 300]
    print("| bodies | mu | steps | contacts | ms a step | iterations (95 %, most) | by other starts | lost | certificate |")
    print("|---|---|---|---|---|---|---|---|---|")
    for count, mu in itertools.product(counts, (0.3, 0.8)):
        print(row(count, kind, mu, 100), flush=True)
